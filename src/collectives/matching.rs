//! Which operations of different ranks are the same collective (metrics definition, section 6).
//!
//! In this order of trust: the operation key of advanced tracing; communicator and order; order on each communication
//! stream with equal kernel names. Order is anchored at the step: the k-th AllReduce of "Batch 7" here is the k-th of
//! "Batch 7" there. Where counts differ, clocks decide what they can, and the rest stays unmatched: nothing is paired blindly.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::clocks::RankClock;
use super::events::Event;
use crate::analysis::run::StepKey;
use crate::model::{CommOp, Names, Ns};

/// The communication of one rank with what matching needs to know about it.
#[derive(Debug)]
pub struct RankEvents<'a> {
    /// Rank number.
    pub rank: u32,
    /// Events in order of (start, end).
    pub events: &'a [Event],
    /// For each event the step that launched it, as an index into `steps`.
    pub step: Vec<Option<usize>>,
    /// The steps of this rank.
    pub steps: &'a [StepKey],
    /// Kernel names.
    pub names: &'a Names,
    /// The clock that all ranks share, if it is known already: only then can unequal counts be told apart.
    pub clock: Option<&'a RankClock>,
}

/// The reason of operations that occur more often on one rank than on another.
pub const UNEQUAL: &str = "counts differ between ranks";

/// How members of a match were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// A key that is equal on all ranks.
    OperationId,
    /// Communicator, operation and order within the step.
    Communicator,
    /// Order on the stream within the step, with equal kernel names.
    StreamOrder,
}

impl Method {
    /// The words that reports print.
    pub fn label(self) -> &'static str {
        match self {
            Method::OperationId => "operation id",
            Method::Communicator => "communicator and order",
            Method::StreamOrder => "stream order and kernel name",
        }
    }
}

/// One collective: the event of each rank that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// (index of the rank, index of its event), in order of ranks; at least two.
    pub members: Vec<(usize, usize)>,
    /// How they were found.
    pub method: Method,
    /// The step that launched it.
    pub step: Option<StepKey>,
}

/// All matches, and how many events of each rank have none, by reason.
#[derive(Debug, Default)]
pub struct Matching {
    /// In order of the first member's start.
    pub matches: Vec<Match>,
    /// Rank number, reason, count.
    pub unmatched: BTreeMap<(u32, &'static str), u64>,
}

/// What puts operations of different ranks side by side.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Operation(u64),
    /// Communicator, operation, and for sends and receives the ranks between which they run.
    Communicator(u64, CommOp, Vec<i64>, Option<StepKey>),
    /// The how-manieth communication stream of the rank.
    Stream(usize, Option<StepKey>),
}

/// Matches the events of all ranks. Linear in the number of events, up to sorting.
pub fn match_events(ranks: &[RankEvents<'_>]) -> Matching {
    let mut result = Matching::default();
    if ranks.len() < 2 {
        return result;
    }
    let participants = participants(ranks);
    let mut buckets: HashMap<Key, Vec<Vec<usize>>> = HashMap::new();
    for (r, rank) in ranks.iter().enumerate() {
        let roles = stream_roles(rank);
        for (i, event) in rank.events.iter().enumerate() {
            let step = rank.step[i].and_then(|s| rank.steps.get(s)).cloned();
            let key = match (event.operation, event.comm) {
                (Some(operation), _) => Key::Operation(operation),
                (None, Some(comm)) => match between(event, rank.rank, &participants[&comm]) {
                    Ok(between) => Key::Communicator(comm, event.op, between, step),
                    Err(reason) => {
                        *result.unmatched.entry((rank.rank, reason)).or_default() += 1;
                        continue;
                    }
                },
                (None, None) => Key::Stream(roles[&event.stream], step),
            };
            buckets.entry(key).or_insert_with(|| vec![Vec::new(); ranks.len()])[r].push(i);
        }
    }
    let mut keys: Vec<(Key, Vec<Vec<usize>>)> = buckets.into_iter().collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, lists) in keys {
        match_bucket(ranks, key, &lists, &mut result);
    }
    result.matches.sort_by_key(|m| {
        let (rank, event) = m.members[0];
        (ranks[rank].events[event].start, rank, event)
    });
    result
}

/// The ranks that use each communicator.
fn participants(ranks: &[RankEvents<'_>]) -> HashMap<u64, BTreeSet<u32>> {
    let mut users: HashMap<u64, BTreeSet<u32>> = HashMap::new();
    for rank in ranks {
        for comm in rank.events.iter().filter_map(|event| event.comm) {
            users.entry(comm).or_default().insert(rank.rank);
        }
    }
    users
}

/// Between which ranks of the communicator a send or receive runs; empty for collectives.
///
/// Peers are numbers inside the communicator. A rank's own number is known where the communicator's ranks are those of the
/// run from 0 on, or where there are only two.
fn between(event: &Event, rank: u32, users: &BTreeSet<u32>) -> Result<Vec<i64>, &'static str> {
    if event.op != CommOp::SendRecv || event.peers.is_empty() {
        return Ok(Vec::new());
    }
    let own = if users.iter().copied().eq(0..users.len() as u32) {
        i64::from(rank)
    } else if let (2, [peer @ (0 | 1)]) = (users.len(), event.peers.as_slice()) {
        1 - peer
    } else {
        return Err("own number in the communicator unknown");
    };
    let mut all = event.peers.clone();
    all.push(own);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Communication streams without communicator ids, numbered in order of their dense index.
fn stream_roles(rank: &RankEvents<'_>) -> HashMap<u32, usize> {
    let streams: BTreeSet<u32> = rank.events.iter().filter(|e| e.comm.is_none()).map(|e| e.stream).collect();
    streams.into_iter().enumerate().map(|(role, stream)| (stream, role)).collect()
}

fn match_bucket(ranks: &[RankEvents<'_>], key: Key, lists: &[Vec<usize>], result: &mut Matching) {
    let (method, step) = match key {
        Key::Operation(_) => (Method::OperationId, None),
        Key::Communicator(_, _, _, step) => (Method::Communicator, step),
        Key::Stream(_, step) => (Method::StreamOrder, step),
    };
    let taking_part: Vec<usize> = (0..lists.len()).filter(|&r| !lists[r].is_empty()).collect();
    let mut reject = |reason: &'static str| {
        for &r in &taking_part {
            *result.unmatched.entry((ranks[r].rank, reason)).or_default() += lists[r].len() as u64;
        }
    };
    if taking_part.len() < 2 {
        return reject("no other rank of the report takes part");
    }
    let sequence = |r: usize| lists[r].iter().map(move |&i| ranks[r].names.get(ranks[r].events[i].name));
    let first = taking_part[0];
    let same_count = taking_part.iter().all(|&r| lists[r].len() == lists[first].len());
    let same_names = || taking_part[1..].iter().all(|&r| sequence(first).eq(sequence(r)));
    if same_count {
        if method == Method::StreamOrder && !same_names() {
            return reject("kernel names differ between ranks");
        }
        let mut columns: Vec<_> = taking_part.iter().map(|&r| lists[r].iter().map(move |&event| (r, event))).collect();
        while let Some(members) = columns.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
            result.matches.push(Match { members, method, step: step.clone() });
        }
        return;
    }
    match_by_clock(ranks, &taking_part, lists, method, step, result);
}

/// Counts differ: operations that run at the same time on every rank are the same, if clocks say so without doubt.
fn match_by_clock(
    ranks: &[RankEvents<'_>],
    taking_part: &[usize],
    lists: &[Vec<usize>],
    method: Method,
    step: Option<StepKey>,
    result: &mut Matching,
) {
    let mut next = vec![0usize; taking_part.len()];
    let mut matched = vec![0u64; taking_part.len()];
    let span = |p: usize, k: usize| -> Option<(Ns, Ns)> {
        let rank = &ranks[taking_part[p]];
        let event = &rank.events[*lists[taking_part[p]].get(k)?];
        Some((rank.clock?.common(event.start)?, rank.clock?.common(event.end)?))
    };
    // The heads of all lists: if they overlap they are one collective, else the one that ends first has no partner.
    while let Some(heads) = (0..taking_part.len()).map(|p| span(p, next[p])).collect::<Option<Vec<_>>>() {
        let latest_start = heads.iter().map(|h| h.0).max().unwrap_or(0);
        let earliest_end = heads.iter().map(|h| h.1).min().unwrap_or(0);
        if latest_start < earliest_end {
            let members = taking_part.iter().enumerate().map(|(p, &r)| (r, lists[r][next[p]])).collect();
            result.matches.push(Match { members, method, step: step.clone() });
            next.iter_mut().for_each(|n| *n += 1);
            matched.iter_mut().for_each(|m| *m += 1);
        } else {
            let first = (0..heads.len()).min_by_key(|&p| heads[p].1).unwrap_or(0);
            next[first] += 1;
        }
    }
    for (p, &r) in taking_part.iter().enumerate() {
        let rest = lists[r].len() as u64 - matched[p];
        if rest > 0 {
            *result.unmatched.entry((ranks[r].rank, UNEQUAL)).or_default() += rest;
        }
    }
}
