//! Which operations of different ranks are the same collective (docs/metrics.md, section 6).
//!
//! In this order of trust: a number that all ranks share (advanced tracing); communicator and order, for sends and receives
//! between the same two ranks ([`pairs`]); order on streams that run equal kernels ([`streams`]), for ranks that leave
//! together ([`together`]). Order is counted from the step: the k-th AllReduce of "Batch 7" here is the k-th of "Batch 7"
//! there. Where counts or sizes differ, or steps have no names, order decides for operations that ranks may leave early
//! ([`order`]) and clocks for the others, as far as they can; the rest stays alone: nothing is paired blindly.

use foldhash::{HashMap, HashMapExt};

use super::anchors::Anchor;
use super::clocks::{Origin, RankClock};
use super::communicators::Communicators;
use super::events::Event;
use super::matches::{Bucket, Key, Match, Matching, Method, RankEvents, Reason};
use super::refs::{EventRef, RankIx};
use super::{order, pairs, streams, together};
use crate::model::{CommOp, Ns};

/// Sorts the events of all ranks into buckets and matches what order decides. `named` is true if anchors name the same step
/// on every rank: without, order proves nothing and every bucket stays open. Linear in the number of events, up to sorting.
pub(crate) fn match_events(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    communicators: &Communicators,
    named: bool,
) -> Matching {
    let mut result = Matching::default();
    if ranks.len() < 2 {
        return result;
    }
    let from = |anchor: Anchor| if named { anchor } else { Anchor::Anywhere };
    let roles = streams::roles(ranks);
    let mut numbers: HashMap<Key, u32> = HashMap::new();
    let mut keys: Vec<Key> = Vec::new();
    // (number of the key, rank, event): sorting brings buckets together without a list for each rank and key.
    let mut entries: Vec<(u32, u32, u32)> = Vec::new();
    let mut sends = Vec::new();
    for (r, rank) in ranks.iter().enumerate() {
        for (i, event) in rank.events.iter().enumerate() {
            let anchor = from(rank.anchors[i]);
            let key = match (event.operation, event.comm, event.seq) {
                (Some(operation), ..) => Key::Operation(operation),
                (None, Some(comm), Some(seq)) if event.partners.is_empty() => {
                    Key::Sequence(comm, event.op, seq)
                }
                (None, Some(_), _) if !event.partners.is_empty() => {
                    sends.push(EventRef::new(RankIx(r), i));
                    continue;
                }
                (None, Some(comm), _) => Key::Communicator(comm, event.op, anchor),
                (None, None, _) => {
                    Key::Stream(roles[r].get(&event.stream).copied().unwrap_or(0), anchor)
                }
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                keys.push(key);
                keys.len() as u32 - 1
            });
            entries.push((number, r as u32, i as u32));
        }
    }
    join_sends(ranks, origins, &sends, communicators, named, &mut result);
    entries.sort_unstable();
    for bucket in entries.chunk_by(|a, b| a.0 == b.0) {
        let lists = bucket
            .chunk_by(|a, b| a.1 == b.1)
            .map(|own| (RankIx(own[0].1 as usize), own.iter().map(|e| e.2 as usize).collect()))
            .collect();
        by_order(ranks, Bucket { key: keys[bucket[0].0 as usize], lists }, named, &mut result);
    }
    split_streams(ranks, origins, communicators, &mut result);
    result
}

/// Splits matches of unknown communicator into groups of ranks that leave them together.
fn split_streams(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    communicators: &Communicators,
    result: &mut Matching,
) {
    let matches = std::mem::take(&mut result.matches);
    let (matches, alone) = together::split(ranks, origins, communicators.size(None), matches);
    result.matches = matches;
    for at in alone {
        result.leave(ranks, Reason::LeavesAlone, (at.rank, 1), || describe(event(ranks, at)));
    }
}

fn event<'a>(ranks: &[RankEvents<'a>], at: EventRef) -> &'a Event {
    &ranks[at.rank].events[at.event]
}

fn join_sends(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    sends: &[EventRef],
    communicators: &Communicators,
    named: bool,
    result: &mut Matching,
) {
    let anchor =
        |at: EventRef| if named { ranks[at.rank].anchors[at.event] } else { Anchor::Anywhere };
    let found = pairs::join(ranks, origins, sends, communicators, anchor);
    for members in found.groups {
        let step = common_step(ranks, &members);
        result.matches.push(Match { members, method: Method::Communicator, step, role: None });
    }
    for (at, reason) in found.alone {
        result.leave(ranks, reason, (at.rank, 1), || {
            format!("{} of rank {}", describe(event(ranks, at)), ranks[at.rank].rank)
        });
    }
}

/// The step of all members, if it is one.
fn common_step(ranks: &[RankEvents<'_>], members: &[EventRef]) -> Option<usize> {
    let of = |at: &EventRef| ranks[at.rank].anchors[at.event].step();
    let first = of(members.first()?)?;
    members.iter().all(|m| of(m) == Some(first)).then_some(first)
}

fn describe(event: &Event) -> String {
    let on = event.comm.map_or(String::new(), |comm| format!(" on communicator 0x{comm:016x}"));
    format!("{}{on}", event.op.label())
}

/// Matches a bucket whose lists are equally long and alike, and leaves another one open.
fn by_order(ranks: &[RankEvents<'_>], bucket: Bucket, named: bool, result: &mut Matching) {
    let (method, role, counted) = match bucket.key {
        Key::Operation(_) | Key::Sequence(..) => (Method::OperationId, None, false),
        Key::Communicator(_, _, anchor) => {
            (Method::Communicator, None, anchor == Anchor::Anywhere || !named)
        }
        Key::Stream(role, anchor) => {
            (Method::StreamOrder, Some(role), anchor == Anchor::Anywhere || !named)
        }
    };
    if let [(r, only)] = bucket.lists.as_slice() {
        return result.leave(ranks, Reason::Absent, (*r, only.len()), || {
            describe(&ranks[*r].events[only[0]])
        });
    }
    if counted {
        return result.open.push(bucket);
    }
    // Ranks whose operations are alike, in order of their first rank. Without a communicator there may be several groups.
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for l in 0..bucket.lists.len() {
        let same = |class: &&mut Vec<usize>| {
            alike(ranks, bucket.key, &bucket.lists[class[0]], &bucket.lists[l])
        };
        match classes.iter_mut().find(same) {
            Some(class) => class.push(l),
            None => classes.push(vec![l]),
        }
        if role.is_none() && classes.len() > 1 {
            return result.open.push(bucket);
        }
    }
    if classes.iter().all(|class| class.len() == 1) {
        return result.open.push(bucket);
    }
    for class in classes {
        if let [only] = class.as_slice() {
            let (r, list) = &bucket.lists[*only];
            result.leave(ranks, Reason::Unequal, (*r, list.len()), || counts(ranks, &bucket));
            continue;
        }
        for k in 0..bucket.lists[class[0]].1.len() {
            let members: Vec<EventRef> = class
                .iter()
                .map(|&l| EventRef::new(bucket.lists[l].0, bucket.lists[l].1[k]))
                .collect();
            let step = common_step(ranks, &members);
            result.matches.push(Match { members, method, step, role });
        }
    }
}

/// True if both lists are equally long and each operation can be its counterpart.
fn alike(
    ranks: &[RankEvents<'_>],
    key: Key,
    a: &(RankIx, Vec<usize>),
    b: &(RankIx, Vec<usize>),
) -> bool {
    let of = |list: &(RankIx, Vec<usize>), k: usize| EventRef::new(list.0, k);
    a.1.len() == b.1.len()
        && a.1.iter().zip(&b.1).all(|(&x, &y)| can_be_same(ranks, key, of(a, x), of(b, y)))
}

/// Sizes must agree where both are known, and without a communicator kernel names too.
fn can_be_same(ranks: &[RankEvents<'_>], key: Key, a: EventRef, b: EventRef) -> bool {
    let (x, y) = (event(ranks, a), event(ranks, b));
    let sizes = x.bytes == y.bytes || x.bytes.is_none() || y.bytes.is_none();
    match key {
        Key::Operation(_) | Key::Sequence(..) => true,
        Key::Communicator(..) => sizes,
        Key::Stream(..) => {
            sizes && ranks[a.rank].names.get(x.name) == ranks[b.rank].names.get(y.name)
        }
    }
}

/// `AllReduce in "Batch 7": 12 on rank 0, 11 on rank 1`.
fn counts(ranks: &[RankEvents<'_>], bucket: &Bucket) -> String {
    const SHOWN: usize = 4;
    let what = bucket
        .lists
        .first()
        .and_then(|(r, list)| Some(describe(ranks[*r].events.get(*list.first()?)?)));
    let shown: Vec<String> = bucket
        .lists
        .iter()
        .take(SHOWN)
        .map(|(r, list)| format!("{} on rank {}", list.len(), ranks[*r].rank))
        .collect();
    let more = if bucket.lists.len() > SHOWN { ", ..." } else { "" };
    format!("{}: {}{more}", what.unwrap_or_default(), shown.join(", "))
}

/// Decides the open buckets: what ranks leave together by clocks (what runs at the same time on every rank is the same
/// operation), the rest of what is on a known communicator by its order there.
pub(crate) fn decide_open(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    communicators: &Communicators,
    clocks: &[RankClock],
    open: &[Bucket],
    result: &mut Matching,
) {
    for bucket in open {
        if may_be_left_early(ranks, bucket) {
            by_order_alone(ranks, clocks, bucket, result);
        } else {
            by_clock(ranks, clocks, bucket, result);
        }
    }
    split_streams(ranks, origins, communicators, result);
}

/// True for one operation on a known communicator of which times do not tell who takes part: a root may be done with it
/// before the others come.
fn may_be_left_early(ranks: &[RankEvents<'_>], bucket: &Bucket) -> bool {
    let left_early = |(rank, list): &(RankIx, Vec<usize>)| {
        list.iter().all(|&k| !ranks[*rank].events[k].leaves_together())
    };
    matches!(bucket.key, Key::Communicator(_, op, _) if op != CommOp::Other)
        && bucket.lists.iter().all(left_early)
}

/// Matches a bucket by order where sequences agree, from wherever the capture of a rank begins.
fn by_order_alone(
    ranks: &[RankEvents<'_>],
    clocks: &[RankClock],
    bucket: &Bucket,
    result: &mut Matching,
) {
    let Some(((first, reference), others)) = bucket.lists.split_first() else { return };
    let calls = |rank: RankIx, list: &[usize]| -> Vec<order::Call> {
        let clock = &clocks[rank];
        let comparable = clock.comparable(&clocks[*first]);
        let call = |&k: &usize| {
            let event = &ranks[rank].events[k];
            let span = (clock.common(event.start), clock.common(event.end));
            order::Call { bytes: event.bytes, span: comparable.then_some(span) }
        };
        list.iter().map(call).collect()
    };
    let of_first = calls(*first, reference);
    let mut members: Vec<Vec<EventRef>> =
        reference.iter().map(|&k| vec![EventRef::new(*first, k)]).collect();
    for (rank, list) in others {
        if let Some(shift) = order::shift(&of_first, &calls(*rank, list)) {
            let (from, own) = order::starts(shift);
            for (group, &k) in members.iter_mut().skip(from).zip(list.iter().skip(own)) {
                group.push(EventRef::new(*rank, k));
            }
        }
    }
    let mut matched = vec![0; ranks.len()];
    for members in members.into_iter().filter(|members| members.len() == bucket.lists.len()) {
        members.iter().for_each(|member| matched[member.rank] += 1);
        let step = common_step(ranks, &members);
        result.matches.push(Match { members, method: Method::Communicator, step, role: None });
    }
    for (rank, list) in &bucket.lists {
        let alone = list.len().saturating_sub(matched[*rank]);
        result.leave(ranks, Reason::Unequal, (*rank, alone), || counts(ranks, bucket));
    }
}

fn by_clock(
    ranks: &[RankEvents<'_>],
    clocks: &[RankClock],
    bucket: &Bucket,
    result: &mut Matching,
) {
    let lists = &bucket.lists;
    let role = if let Key::Stream(role, _) = bucket.key { Some(role) } else { None };
    let first = lists[0].0;
    let known = lists.iter().all(|(r, _)| clocks[*r].comparable(&clocks[first]));
    let mut matched = 0;
    let mut next = vec![0usize; lists.len()];
    let span = |l: usize, k: usize| -> Option<(Ns, Ns)> {
        let (r, list) = &lists[l];
        let event = ranks[*r].events.get(*list.get(k)?)?;
        Some((clocks[*r].common(event.start), clocks[*r].common(event.end)))
    };
    // The heads of all lists: if they overlap they are one operation, else those that end before another begins are alone.
    while let Some(heads) =
        (0..lists.len()).map(|l| span(l, next[l])).collect::<Option<Vec<_>>>().filter(|_| known)
    {
        let latest_start = heads.iter().map(|h| h.0).max().unwrap_or(0);
        let members: Vec<EventRef> =
            lists.iter().zip(&next).map(|((r, list), &k)| EventRef::new(*r, list[k])).collect();
        if heads.iter().all(|h| h.1 > latest_start)
            && members.iter().all(|&m| can_be_same(ranks, bucket.key, members[0], m))
        {
            let step = common_step(ranks, &members);
            result.matches.push(Match { members, method: Method::Clock, step, role });
            next.iter_mut().for_each(|n| *n += 1);
            matched += 1;
            continue;
        }
        let over: Vec<usize> = (0..heads.len()).filter(|&l| heads[l].1 <= latest_start).collect();
        let earliest = (0..heads.len()).min_by_key(|&l| (heads[l].1, l)).unwrap_or(0);
        if over.is_empty() {
            next[earliest] += 1
        } else {
            over.into_iter().for_each(|l| next[l] += 1)
        }
    }
    let equal = lists.iter().all(|(_, list)| list.len() == lists[0].1.len());
    let reason = match (known, equal) {
        (false, _) => Reason::NoClock,
        (true, true) => Reason::NotTogether,
        (true, false) => Reason::Unequal,
    };
    lists.iter().for_each(|(r, list)| {
        result.leave(ranks, reason, (*r, list.len() - matched), || counts(ranks, bucket))
    });
}

/// Times further apart than this many residuals, and this long, contradict a match, ns.
const APART_RESIDUALS: i64 = 10;
const APART_NS: i64 = 1_000_000;

/// Kernels that send to each other and were in it at once are done with it this close to each other, ns, or within one part in
/// this many of the shorter one: ranks of an AllToAll have unequal shares.
const SENT_APART_NS: i64 = 100_000;
const SENT_APART_PART: i64 = 4;

/// Takes apart matches whose members surely did not run at the same time although ranks leave them together, and those that
/// nothing but a stream's order holds together: sends and receives look alike, those of two pairs too. True if there were any.
pub(crate) fn check(
    ranks: &[RankEvents<'_>],
    communicators: &Communicators,
    clocks: &[RankClock],
    result: &mut Matching,
) -> bool {
    let two_ranks = communicators.size(None) == Some(2);
    let apart = |m: &Match| {
        let events = || m.members.iter().map(|&at| (&clocks[at.rank], event(ranks, at)));
        let first = &clocks[m.members[0].rank];
        let latest_start =
            events().map(|(clock, event)| clock.common(event.start)).max().unwrap_or(0);
        let earliest_end =
            events().map(|(clock, event)| clock.common(event.end)).min().unwrap_or(0);
        let between = latest_start.saturating_sub(earliest_end);
        let doubt = events().filter_map(|(clock, _)| clock.residual_p95_ns).max().unwrap_or(0);
        if events().any(|(clock, _)| !clock.comparable(first)) {
            false
        } else if events().all(|(_, event)| event.leaves_together()) {
            between > doubt.saturating_mul(APART_RESIDUALS).saturating_add(APART_NS)
        } else if between >= 0 {
            m.role.is_some() && !two_ranks
        } else {
            let latest_end =
                events().map(|(clock, event)| clock.common(event.end)).max().unwrap_or(0);
            let shortest = events().map(|(_, event)| event.duration()).min().unwrap_or(0);
            let close = SENT_APART_NS.max(shortest / SENT_APART_PART).saturating_add(doubt);
            m.role.is_some()
                && m.members.iter().all(|&at| event(ranks, at).op == CommOp::SendRecv)
                && latest_end.saturating_sub(earliest_end) > close
        }
    };
    let (wrong, right): (Vec<Match>, Vec<Match>) =
        std::mem::take(&mut result.matches).into_iter().partition(apart);
    result.matches = right;
    for m in &wrong {
        m.members.iter().for_each(|&at| {
            result.leave(ranks, Reason::NotTogether, (at.rank, 1), || describe(event(ranks, at)))
        });
    }
    !wrong.is_empty()
}
