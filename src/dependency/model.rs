//! A run with its graph: what paths and scenarios read.

use std::collections::BTreeSet;

use super::build::{self, Built};
use super::deeds;
use super::graph::{Moment, Reason};
use super::layout::{self, Owner, Process};
use super::steps::{Bounds, RunSpan};
use crate::collectives::analyse::Across;
use crate::collectives::events::Event;
use crate::model::host::SyncKind;
use crate::model::{Ns, RankTrace};

/// Operations and host calls that a graph holds, at most: its edges are numbered in 32 bits.
const MOST: usize = 1 << 28;

/// A run with its graph: what paths and scenarios read.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    /// The ranks.
    pub traces: &'a [RankTrace],
    /// Their processes.
    pub processes: Vec<Process<'a>>,
    /// The communication of each rank.
    pub events: &'a [Vec<Event>],
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
    pub(crate) fn new(
        traces: &'a [RankTrace],
        events: &'a [Vec<Event>],
        steps: &'a [RunSpan],
        across: &'a Across,
    ) -> Result<Model<'a>, String> {
        let processes = layout::processes(traces).ok_or("the host's calls were not read")?;
        if let Some(reason) = refusal(traces, &processes) {
            return Err(reason);
        }
        let moments: usize = traces.iter().map(|trace| trace.ops.len()).sum::<usize>()
            + processes.iter().map(|process| process.host.calls.len()).sum::<usize>();
        if moments > MOST {
            return Err(format!(
                "the capture holds more than {MOST} operations and calls: look at fewer steps or ranks"
            ));
        }
        let built = build::build(traces, &processes, events, across);
        let ops: Vec<_> = traces.iter().map(|trace| &trace.ops).collect();
        let bounds = Bounds::new(steps, &ops, &built.layout);
        Ok(Model { traces, processes, events, steps, built, bounds })
    }

    /// The rank that a moment belongs to; `None` for marks between things.
    pub(crate) fn rank_of(&self, moment: Moment) -> Option<usize> {
        match self.built.layout.owner(moment) {
            Owner::Op(rank, _) => Some(rank),
            Owner::Call(process, _) => self.processes[process].ranks.first().copied(),
            Owner::Mark => None,
        }
    }

    /// The edge whose time is the work of an operation: its transfer, if it meets other ranks.
    pub(crate) fn work(&self, rank: usize, op: usize) -> Option<usize> {
        let graph = &self.built.graph;
        let end = self.built.layout.op_end(rank, op);
        let of = |reason| graph.edges_for(end, reason).next();
        of(Reason::Transfer).or_else(|| of(Reason::Work))
    }

    /// How long a communication kernel takes after those that it waits for have come, ns.
    pub(crate) fn moves(&self, rank: usize, op: usize) -> Ns {
        self.work(rank, op).map_or(0, |edge| self.built.graph.weight[edge].max(0))
    }
}

/// Why the dependencies of these ranks cannot be known.
fn refusal(traces: &[RankTrace], processes: &[Process<'_>]) -> Option<String> {
    if traces.iter().any(|trace| trace.ops.has_graph_rows()) {
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
