//! Sends and receives: NCCL pairs the k-th send from a to b with the k-th receive at b from a, so their order tells which
//! kernels work together. A kernel that carries several sends and receives joins all its partners.
//!
//! ```text
//! rank 0   [S1    ]  [S1]
//! rank 1   [R0 S2     ] [R0]      one operation of three ranks, and one of two
//! rank 2      [R1     ]
//! ```

use std::collections::{BTreeMap, HashMap};

use super::anchors::Anchor;
use super::communicators::Communicators;
use super::matching::{RankEvents, Reason};

/// (index of a rank, index of its event).
type Node = (usize, usize);

/// Kernels that work together, and those that have no partner, by reason.
#[derive(Debug, Default)]
pub struct Found {
    /// Each with the events of two ranks or more, one of each, in order of ranks.
    pub groups: Vec<Vec<Node>>,
    /// Events without a partner.
    pub alone: Vec<(Node, Reason)>,
}

/// One direction between two ranks (indices).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Direction {
    comm: u64,
    from: usize,
    to: usize,
    anchor: Anchor,
}

/// Both ends of one direction, in order: event and bytes.
#[derive(Debug, Default)]
struct Ends {
    sends: Vec<(Node, Option<u64>)>,
    receives: Vec<(Node, Option<u64>)>,
}

/// Joins the given events, which all carry sends and receives on a known communicator.
pub fn join(
    ranks: &[RankEvents<'_>],
    events: &[Node],
    communicators: &Communicators,
    anchor: impl Fn(Node) -> Anchor,
) -> Found {
    let mut found = Found::default();
    let mut directions: BTreeMap<Direction, Ends> = BTreeMap::new();
    let mut sets = Sets::default();
    let mut why: HashMap<Node, Reason> = HashMap::new();
    for &node in events {
        let event = &ranks[node.0].events[node.1];
        let Some(comm) = event.comm else { continue };
        let members = communicators.numbers(comm);
        sets.add(node);
        if !members.is_some_and(|m| m.values().any(|&r| r == node.0)) {
            why.insert(node, Reason::OwnNumber);
            continue;
        }
        for partner in &event.partners {
            let Some(&peer) = members.and_then(|m| m.get(&partner.peer)) else {
                why.entry(node).or_insert(Reason::Absent);
                continue;
            };
            if peer == node.0 {
                continue;
            }
            let (from, to) = if partner.sends { (node.0, peer) } else { (peer, node.0) };
            let ends =
                directions.entry(Direction { comm, from, to, anchor: anchor(node) }).or_default();
            if partner.sends { &mut ends.sends } else { &mut ends.receives }
                .push((node, partner.bytes));
        }
    }
    for ends in directions.values() {
        let bytes = |list: &[(Node, Option<u64>)]| list.iter().map(|end| end.1).collect::<Vec<_>>();
        if bytes(&ends.sends) == bytes(&ends.receives) {
            ends.sends.iter().zip(&ends.receives).for_each(|(a, b)| sets.join(a.0, b.0));
        } else {
            let reason = if ends.sends.is_empty() || ends.receives.is_empty() {
                Reason::Absent
            } else {
                Reason::Unequal
            };
            why.extend(ends.sends.iter().chain(&ends.receives).map(|end| (end.0, reason)));
        }
    }
    for group in sets.groups() {
        let distinct = group.windows(2).all(|pair| pair[0].0 != pair[1].0);
        match group.as_slice() {
            [only] => found.alone.push((*only, why.get(only).copied().unwrap_or(Reason::Absent))),
            _ if distinct => found.groups.push(group),
            _ => found.alone.extend(group.into_iter().map(|node| (node, Reason::Chained))),
        }
    }
    found
}

/// Disjoint sets of events.
#[derive(Debug, Default)]
struct Sets {
    nodes: Vec<Node>,
    index: HashMap<Node, usize>,
    parents: Vec<usize>,
}

impl Sets {
    fn add(&mut self, node: Node) -> usize {
        *self.index.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.parents.push(self.nodes.len() - 1);
            self.nodes.len() - 1
        })
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, a: Node, b: Node) {
        let (a, b) = (self.add(a), self.add(b));
        let (a, b) = (self.root(a), self.root(b));
        // The smaller index leads, so that the result does not depend on the order of joins.
        self.parents[a.max(b)] = a.min(b);
    }

    /// Each set in order of (rank, event), in order of their first members' positions.
    fn groups(mut self) -> Vec<Vec<Node>> {
        let mut by_root: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
        for i in 0..self.nodes.len() {
            let root = self.root(i);
            by_root.entry(root).or_default().push(self.nodes[i]);
        }
        by_root
            .into_values()
            .map(|mut group| {
                group.sort_unstable();
                group
            })
            .collect()
    }
}
