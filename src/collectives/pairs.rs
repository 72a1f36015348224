//! Sends and receives: NCCL pairs the k-th send from a to b with the k-th receive at b from a, so their order tells which
//! kernels work together. A kernel that carries several sends and receives joins all its partners.
//!
//! ```text
//! rank 0   [S1    ]  [S1]
//! rank 1   [R0 S2     ] [R0]      one operation of three ranks, and one of two
//! rank 2      [R1     ]
//! ```

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::anchors::Anchor;
use super::clocks::Origin;
use super::communicators::Communicators;
use super::matches::{RankEvents, Reason};
use super::order;
use super::refs::{EventRef, RankIx};
use crate::model::{Ns, Union};

/// Kernels that work together, and those that have no partner, by reason.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Each with the events of two ranks or more, one of each, in order of ranks.
    pub groups: Vec<Vec<EventRef>>,
    /// Events without a partner.
    pub alone: Vec<(EventRef, Reason)>,
}

/// One direction between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Direction {
    comm: u64,
    from: RankIx,
    to: RankIx,
    anchor: Anchor,
}

/// Both ends of one direction, in order: event and bytes.
#[derive(Debug, Default)]
struct Ends {
    sends: Vec<End>,
    receives: Vec<End>,
}

/// One send or receive: the kernel that carries it, and its bytes.
type End = (EventRef, Option<u64>);

/// Joins the given events, which all carry sends and receives on a known communicator.
pub(crate) fn join(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    events: &[EventRef],
    communicators: &Communicators,
    anchor: impl Fn(EventRef) -> Anchor,
) -> Found {
    let mut found = Found::default();
    let mut directions: BTreeMap<Direction, Ends> = BTreeMap::new();
    let mut sets = Union::new(events.len());
    let places: HashMap<EventRef, usize> = events.iter().copied().zip(0..).collect();
    let mut why: HashMap<EventRef, Reason> = HashMap::new();
    for &node in events {
        let event = &ranks[node.rank].events[node.event];
        let Some(comm) = event.comm else { continue };
        let members = communicators.numbers(comm);
        if !members.is_some_and(|m| m.values().any(|&r| r == node.rank)) {
            why.insert(node, Reason::OwnNumber);
            continue;
        }
        for partner in &event.partners {
            let Some(&peer) = members.and_then(|m| m.get(&partner.peer)) else {
                why.entry(node).or_insert(Reason::Absent);
                continue;
            };
            if peer == node.rank {
                continue;
            }
            let (from, to) = if partner.sends { (node.rank, peer) } else { (peer, node.rank) };
            let ends =
                directions.entry(Direction { comm, from, to, anchor: anchor(node) }).or_default();
            if partner.sends { &mut ends.sends } else { &mut ends.receives }
                .push((node, partner.bytes));
        }
    }
    for (direction, ends) in &directions {
        let Some(shift) = shift(ranks, origins, direction, ends) else {
            let reason = if ends.sends.is_empty() || ends.receives.is_empty() {
                Reason::Absent
            } else {
                Reason::Unequal
            };
            why.extend(ends.sends.iter().chain(&ends.receives).map(|end| (end.0, reason)));
            continue;
        };
        let (first, second) = order::starts(shift);
        let pairs = || ends.sends.iter().skip(first).zip(ends.receives.iter().skip(second));
        for (sent, received) in pairs() {
            if let (Some(&a), Some(&b)) = (places.get(&sent.0), places.get(&received.0)) {
                sets.join(a, b);
            }
        }
        let n = pairs().count();
        let over = |list: &[End], from: usize| -> Vec<EventRef> {
            let outside = |(k, end): (usize, &End)| (k < from || k >= from + n).then_some(end.0);
            list.iter().enumerate().filter_map(outside).collect()
        };
        let alone = over(&ends.sends, first).into_iter().chain(over(&ends.receives, second));
        why.extend(alone.map(|at| (at, Reason::Unequal)));
    }
    for set in sets.sets() {
        let mut group: Vec<EventRef> = set.into_iter().map(|place| events[place]).collect();
        group.sort_unstable();
        let distinct = group.windows(2).all(|pair| pair[0].rank != pair[1].rank);
        match group.as_slice() {
            [only] => found.alone.push((*only, why.get(only).copied().unwrap_or(Reason::Absent))),
            _ if distinct => found.groups.push(group),
            _ => found.alone.extend(group.into_iter().map(|node| (node, Reason::Chained))),
        }
    }
    found
}

/// By how much receives begin later than sends: both begin with the step, where steps say so; else where sizes and times agree.
fn shift(
    ranks: &[RankEvents<'_>],
    origins: &[Origin],
    direction: &Direction,
    ends: &Ends,
) -> Option<isize> {
    if direction.anchor != Anchor::Anywhere {
        let bytes = |list: &[End]| list.iter().map(|end| end.1).collect::<Vec<_>>();
        return (bytes(&ends.sends) == bytes(&ends.receives)).then_some(0);
    }
    let calls = |list: &[End]| -> Vec<order::Call> {
        let call = |&(at, bytes): &End| {
            let event = &ranks[at.rank].events[at.event];
            let unix = |ns: Ns, epoch: Ns| ns.saturating_add(epoch);
            let span = origins[at.rank]
                .epoch_ns
                .map(|epoch| (unix(event.start, epoch), unix(event.end, epoch)));
            order::Call { bytes, span }
        };
        list.iter().map(call).collect()
    };
    order::shift(&calls(&ends.sends), &calls(&ends.receives))
}
