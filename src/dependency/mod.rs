//! Why a step takes as long as it does, and what a change would gain (metrics definition, section 9).
//!
//! What each host call did ([`deeds`]), which record a wait is for ([`events`]), where queues are full ([`queue`]) and which
//! ranks met ([`across`]) make a graph ([`build`], [`graph`], numbered by [`layout`], with delays from [`latency`]). It can be
//! played again ([`replay`]), walked backwards from a step's end ([`path`], [`steps`]), and changed ([`what_if`], [`late`]).

pub mod across;
pub mod build;
pub mod deeds;
pub mod events;
pub mod graph;
pub mod late;
pub mod latency;
pub mod layout;
pub mod path;
pub mod queue;
pub mod replay;
pub mod steps;
pub mod what_if;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rayon::prelude::*;

use self::build::Built;
use self::graph::{Moment, Reason};
use self::layout::{Owner, Process};
use self::path::Floors;
use self::replay::{Lags, replay};
use self::steps::{Bounds, RunSpan};
use crate::collectives::analyse::Across;
use crate::collectives::events::Event;
use crate::model::host::SyncKind;
use crate::model::{Class, Ns, RankTrace};
use crate::report::dependency::{CriticalPath, Replay, WhatIf};
use crate::warning::Warning;

/// What the dependencies of a run say.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How far the replay can be trusted, or why there is none.
    pub replay: Replay,
    /// The critical path of each step; empty without a replay.
    pub critical_path: Vec<CriticalPath>,
    /// Predictions; empty without a replay.
    pub what_if: Vec<WhatIf>,
    /// What the reader has to know.
    pub warnings: Vec<Warning>,
}

impl Outcome {
    /// Nothing, and why.
    pub fn none(reason: impl Into<String>) -> Outcome {
        let replay = Replay { reason: Some(reason.into()), ..Replay::default() };
        Outcome { replay, ..Outcome::default() }
    }
}

/// A run with its graph: what paths and scenarios read.
#[derive(Debug)]
pub struct Model<'a> {
    /// The ranks.
    pub traces: &'a [RankTrace],
    /// Their processes.
    pub processes: Vec<Process<'a>>,
    /// The communication of each rank.
    pub events: &'a [Vec<Event>],
    /// Matched collectives.
    pub across: &'a Across,
    /// The steps of the run.
    pub steps: &'a [RunSpan],
    /// The graph.
    pub built: Built,
    /// Where the steps begin and end in it.
    pub bounds: Bounds,
}

impl<'a> Model<'a> {
    /// Builds the graph of a run.
    ///
    /// # Errors
    /// Why the run has none.
    pub fn new(
        traces: &'a [RankTrace],
        events: &'a [Vec<Event>],
        steps: &'a [RunSpan],
        across: &'a Across,
    ) -> Result<Model<'a>, String> {
        let processes = layout::processes(traces).ok_or("the host's calls were not read")?;
        if let Some(reason) = refusal(traces, &processes) {
            return Err(reason);
        }
        let built = build::build(traces, &processes, events, across);
        let ops: Vec<_> = traces.iter().map(|trace| &trace.ops).collect();
        let bounds = Bounds::new(steps, &ops, &built.layout);
        Ok(Model { traces, processes, events, across, steps, built, bounds })
    }

    /// The rank that a moment belongs to; `None` for marks between things.
    pub fn rank_of(&self, moment: Moment) -> Option<usize> {
        match self.built.layout.owner(moment) {
            Owner::Op(rank, _) => Some(rank),
            Owner::Call(process, _) => self.processes[process].ranks.first().copied(),
            Owner::Mark => None,
        }
    }

    /// The edge whose time is the work of an operation: its transfer, if it meets other ranks.
    pub fn work(&self, rank: usize, op: usize) -> Option<usize> {
        let graph = &self.built.graph;
        let end = self.built.layout.op_end(rank, op);
        let of = |reason| graph.edges_for(end, reason).next();
        of(Reason::Transfer).or_else(|| of(Reason::Work))
    }

    /// How long a communication kernel takes after those that it waits for have come, ns.
    pub fn moves(&self, rank: usize, op: usize) -> Ns {
        self.work(rank, op).map_or(0, |edge| self.built.graph.weight[edge].max(0))
    }
}

/// Replays a run and predicts what changes would gain. `events` are the communication of each rank, `steps` those of the run.
pub fn analyse(
    traces: &[RankTrace],
    events: &[Vec<Event>],
    steps: &[RunSpan],
    across: &Across,
) -> Outcome {
    let model = match Model::new(traces, events, steps, across) {
        Ok(model) => model,
        Err(reason) => return Outcome::none(reason),
    };
    if steps.is_empty() {
        return Outcome::none("no step is on all ranks");
    }
    let graph = &model.built.graph;
    let times = model.bounds.step_times(&replay(graph, &graph.weight, Lags::OfCause));
    let errors = steps.iter().zip(&times).filter_map(|(step, &ns)| {
        let off = ns.saturating_sub(step.step_ns).unsigned_abs() as f64;
        (step.step_ns > 0).then(|| off / step.step_ns as f64)
    });
    let worst_error = errors.max_by(f64::total_cmp);
    let floors = Floors::new(&model);
    let critical_path: Vec<CriticalPath> = (0..steps.len())
        .into_par_iter()
        .map(|step| path::critical_path(&model, &floors, step))
        .collect();
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    let lag: i64 = critical_path.iter().map(|path| path.lag_ns).sum();
    let total: i64 = steps.iter().map(|step| step.step_ns).sum();
    let edges = graph.from.len() as u64;
    let mut warnings = Vec::new();
    if model.built.by_time {
        warnings.push(Warning::new(
            "graph-order-by-time",
            "The order of operations inside CUDA graphs is not in the capture: the replay takes it from their streams and times, so that what it predicts is a bound.",
        ));
    }
    Outcome {
        replay: Replay {
            worst_error,
            edges,
            violated: share(graph.violated as f64, edges as f64),
            lag_share: share(lag as f64, total as f64),
            reason: None,
        },
        what_if: what_if::predict(&model, &floors),
        critical_path,
        warnings,
    }
}

/// Why the dependencies of these ranks cannot be known.
fn refusal(traces: &[RankTrace], processes: &[Process<'_>]) -> Option<String> {
    if traces.iter().any(|trace| trace.ops.class.contains(&Class::Graph)) {
        return Some(
            "CUDA graphs were captured as one row each: capture with --cuda-graph-trace=node"
                .to_owned(),
        );
    }
    let mut gpus = BTreeSet::new();
    let on_gpu = |t: &RankTrace| t.gpu_uuid.clone().map(|uuid| (t.hostname.clone(), uuid));
    if traces.iter().filter_map(on_gpu).any(|gpu| !gpus.insert(gpu)) {
        return Some("ranks share a GPU, which runs them in turns".to_owned());
    }
    processes.iter().find_map(|process| {
        let trace = &traces[*process.ranks.first()?];
        let host = process.host;
        let calls = |name: &str| deeds::called(host, &trace.names).any(|f| f.contains(name));
        let says = |what: &str| Some(format!("{} has no {what}", trace.report));
        if host.calls.is_empty() {
            return says("CUDA calls (CUPTI_ACTIVITY_KIND_RUNTIME) with thread and end");
        }
        if host.records.is_empty() && calls("EventRecord") {
            return says("records of CUDA events (CUPTI_ACTIVITY_KIND_CUDA_EVENT), although events were recorded");
        }
        let waits = host.syncs.iter().any(|sync| sync.kind == SyncKind::StreamWait);
        if !waits && calls("StreamWaitEvent") {
            return says("stream waits (CUPTI_ACTIVITY_KIND_SYNCHRONIZATION), although streams waited for events");
        }
        None
    })
}
