//! The critical path of a step: from its end backwards along what was satisfied last, over ranks, until its begin.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt};

use super::across;
use super::graph::{Moment, Reason};
use super::layout::Owner;
use super::model::Model;
use super::view::CriticalPath;
use crate::model::{Class, CommOp, NameId, Ns};

/// What the time between two moments is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A kernel that is not communication.
    Compute,
    /// Data moves between ranks.
    Transfer,
    /// A rank waits for one that cannot be followed.
    Wait,
    /// A copy or memset.
    Copy,
    /// From a launching call to the operation.
    Launch,
    /// The host: calls, and what lies between them.
    Host,
    /// A call returns from what it waited for.
    Sync,
    /// An operation starts later than anything explains.
    Lag,
}

impl Part {
    /// The word that is printed.
    pub fn label(self) -> &'static str {
        match self {
            Part::Compute => "compute",
            Part::Transfer => "transfer",
            Part::Wait => "wait",
            Part::Copy => "copy",
            Part::Launch => "launch",
            Part::Host => "host",
            Part::Sync => "sync",
            Part::Lag => "lag",
        }
    }
}

/// A piece of the path, ns on the common clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Begin.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// Index of the rank.
    pub rank: usize,
    /// What it is.
    pub part: Part,
    /// The operation of that rank at whose start or end the piece ends; `None` for the host.
    pub op: Option<usize>,
}

/// Time of operations on critical paths, ns: for each rank by index of the operation.
pub(crate) type OnPath = Vec<HashMap<usize, Ns>>;

/// Shortest transfers of operations of one kind, to tell waiting where a partner is not captured.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    shortest: HashMap<(usize, Kind), Ns>,
    /// Kind of each communication kernel, by rank and operation.
    kinds: Vec<HashMap<usize, Kind>>,
}

type Kind = (CommOp, Option<u64>, Option<u64>, NameId);

impl Floors {
    /// Learns them from all communication.
    pub(crate) fn new(model: &Model<'_>) -> Floors {
        let mut floors =
            Floors { kinds: vec![HashMap::new(); model.traces.len()], ..Floors::default() };
        for (r, events) in model.events.iter().enumerate() {
            for event in events {
                let Some(op) = across::operation(&model.traces[r].ops, event) else { continue };
                let kind = (event.op, event.comm, event.bytes, event.name);
                let took = model.moves(r, op);
                let shortest = floors.shortest.entry((r, kind)).or_insert(took);
                *shortest = took.min(*shortest);
                floors.kinds[r].insert(op, kind);
            }
        }
        floors
    }

    /// Of the time that a communication kernel takes after all known partners have come, what its transfer takes: all of it
    /// where all partners are known, else as much as the shortest of its kind.
    pub(crate) fn transfer(&self, model: &Model<'_>, rank: usize, op: usize) -> Ns {
        let took = model.moves(rank, op);
        if model.built.met[rank].get(&op).is_some_and(|met| met.complete) {
            return took;
        }
        let kind = self.kinds.get(rank).and_then(|kinds| kinds.get(&op));
        let shortest = kind.and_then(|kind| self.shortest.get(&(rank, *kind)));
        shortest.map_or(took, |&shortest| shortest.min(took))
    }
}

/// The pieces of a step's critical path, the last one first. They follow each other without a gap.
pub(crate) fn pieces(model: &Model<'_>, floors: &Floors, step: usize) -> Vec<Piece> {
    let graph = &model.built.graph;
    let rank = model.steps[step].slowest;
    let [begin, end] = model.bounds.get(step, rank);
    let (begin, end_at) = (begin.at(&graph.observed), end.at(&graph.observed));
    let mut walk = Walk { list: Vec::new(), begin, at: end_at, op: None };
    let mut moment = end.moment;
    walk.back_to(graph.observed[moment as usize], rank, Part::Lag);
    while walk.at > begin {
        let here = model.rank_of(moment);
        walk.op = match model.built.layout.owner(moment) {
            Owner::Op(_, op) => Some(op),
            _ => None,
        };
        let Some(cause) = graph.cause(moment) else {
            // The first thing that the capture has of it.
            let part = match model.built.layout.owner(moment) {
                Owner::Call(..) => Part::Host,
                _ => Part::Lag,
            };
            walk.back_to(begin, here.unwrap_or(rank), part);
            break;
        };
        let from = graph.from[cause];
        let after = graph.observed[from as usize];
        let here = here.or_else(|| model.rank_of(from)).unwrap_or(rank);
        match part(model, moment, graph.reason[cause]) {
            Part::Transfer => {
                if let Owner::Op(r, op) = model.built.layout.owner(moment) {
                    // Data moves last: what comes before is waiting.
                    let moved = floors.transfer(model, r, op);
                    walk.back_to(after.max(walk.at.saturating_sub(moved)), here, Part::Transfer);
                }
                walk.back_to(after, here, Part::Wait);
            }
            part => walk.back_to(after, here, part),
        }
        moment = from;
    }
    walk.list
}

struct Walk {
    list: Vec<Piece>,
    begin: Ns,
    at: Ns,
    op: Option<usize>,
}

impl Walk {
    /// The time from `until` to where the walk is, not before the begin of the step.
    fn back_to(&mut self, until: Ns, rank: usize, part: Part) {
        let start = until.max(self.begin);
        if start < self.at {
            self.list.push(Piece { start, end: self.at, rank, part, op: self.op });
            self.at = start;
        }
    }
}

/// What passes on an edge into a moment.
fn part(model: &Model<'_>, moment: Moment, reason: Reason) -> Part {
    match reason {
        Reason::Work | Reason::Within => match model.built.layout.owner(moment) {
            Owner::Op(rank, op) => match model.traces[rank].ops.class[op] {
                Class::Compute | Class::Unclassified => Part::Compute,
                Class::Comm => Part::Transfer,
                _ => Part::Copy,
            },
            _ => Part::Lag,
        },
        Reason::Transfer => Part::Transfer,
        Reason::Launch => Part::Launch,
        Reason::HostOrder | Reason::Handoff | Reason::Call => Part::Host,
        Reason::Sync | Reason::Queue => Part::Sync,
        Reason::Stream | Reason::Wait | Reason::Record | Reason::Arrival | Reason::Cut => Part::Lag,
    }
}

/// The path of a step, whose pieces are given, in numbers. Where clocks run at different speeds, common time differs from the report's own by
/// nanoseconds: that goes to the lag, so that the parts add up to the step.
pub(crate) fn critical_path(model: &Model<'_>, pieces: &[Piece], step: usize) -> CriticalPath {
    let mut parts: BTreeMap<Part, Ns> = BTreeMap::new();
    let mut by_rank: BTreeMap<u32, Ns> = BTreeMap::new();
    for piece in pieces {
        let ns = piece.end.saturating_sub(piece.start);
        *parts.entry(piece.part).or_default() += ns;
        *by_rank.entry(model.traces[piece.rank].rank).or_default() += ns;
    }
    let run = &model.steps[step];
    let slowest = model.traces[run.slowest].rank;
    let known = parts.values().fold(0, |sum: Ns, &ns| sum.saturating_add(ns));
    let rest = run.step_ns.saturating_sub(known);
    *parts.entry(Part::Lag).or_default() += rest;
    *by_rank.entry(slowest).or_default() += rest;
    let of = |part| parts.get(&part).copied().unwrap_or(0);
    CriticalPath {
        step: run.index,
        slowest_rank: slowest,
        compute_ns: of(Part::Compute),
        transfer_ns: of(Part::Transfer),
        wait_ns: of(Part::Wait),
        copy_ns: of(Part::Copy),
        launch_ns: of(Part::Launch),
        host_ns: of(Part::Host),
        sync_ns: of(Part::Sync),
        lag_ns: of(Part::Lag),
        by_rank,
    }
}
