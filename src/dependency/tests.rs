//! Small runs drawn by hand.

use std::sync::Arc;

use proptest::prelude::*;

use super::graph::{NEVER, Reason};
use super::layout::Owner;
use super::model::Model;
use super::replay::{Lags, replay};
use super::steps::RunSpan;
use super::{Outcome, analyse};
use crate::catalogue::Scenario;
use crate::collectives::analyse::{Across, across};
use crate::collectives::events::{self, Event, Launches};
use crate::collectives::pairing::{Pairing, RankSteps};
use crate::model::host::{Calls, EventRecord, Host, SyncKind, Synchronization};
use crate::model::op::NO_CALL;
use crate::model::{Class, NameId, Names, Ns, Ops, RankSource, RankTrace, Span};
use crate::report::{CriticalPath, WhatIf};
use crate::steps::Step;

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/// What one rank did, call by call; each call takes 1 ns unless said otherwise.
#[derive(Debug, Clone, Default)]
struct Rank {
    names: Names,
    calls: Vec<(Ns, Ns, u32, NameId)>,
    ops: Vec<(Ns, Ns, Class, NameId, u32, i64)>,
    records: Vec<EventRecord>,
    syncs: Vec<Synchronization>,
}

impl Rank {
    /// A call from `start` to `end`; returns its correlation id.
    fn call(&mut self, start: Ns, end: Ns, thread: u32, name: &str) -> i64 {
        let name = self.names.intern(name);
        self.calls.push((start, end, thread, name));
        self.calls.len() as i64
    }

    /// A launch at `at` of a kernel that runs on a stream over these times.
    fn kernel(&mut self, at: Ns, stream: u32, name: &str, time: (Ns, Ns)) {
        let id = self.call(at, at + 1, 0, "launch");
        let class = if name.starts_with("nccl") { Class::Comm } else { Class::Compute };
        let name = self.names.intern(name);
        self.ops.push((time.0, time.1, class, name, stream, id));
    }

    /// An event recorded on a stream.
    fn record(&mut self, at: Ns, stream: u32, number: i64) {
        let correlation = self.call(at, at + 1, 0, "record");
        let stream = (1, i64::from(stream));
        self.records.push(EventRecord { correlation, stream, event: 1, sync: Some(number) });
    }

    /// A stream, or the host, waits.
    fn wait(&mut self, span: (Ns, Ns), kind: SyncKind, stream: u32, number: i64) {
        let correlation = self.call(span.0, span.1, 0, "wait");
        let stream = (1, i64::from(stream));
        self.syncs.push(Synchronization {
            correlation,
            kind,
            stream,
            event: 1,
            sync: Some(number),
        });
    }

    fn trace(mut self, rank: u32) -> RankTrace {
        self.ops.sort();
        let mut ops = Ops::default();
        for (start, end, class, name, stream, id) in self.ops {
            ops.start.push(start);
            ops.end.push(end);
            ops.class.push(class);
            ops.name.push(name);
            ops.grid.push(NameId::NONE);
            ops.stream.push(stream);
            ops.bytes.push(0);
            let call = usize::try_from(id - 1).ok().and_then(|call| self.calls.get(call));
            ops.launch.push(call.map_or(crate::model::op::NO_LAUNCH, |call| call.0));
            ops.thread.push(1);
            ops.call.push(NO_CALL);
            ops.correlation.push(id);
        }
        ops.streams = (0..4).map(|stream| (1, stream)).collect();
        let mut calls: Vec<(Ns, Ns, u32, NameId, i64)> = self
            .calls
            .iter()
            .zip(1..)
            .map(|(&(start, end, thread, name), id)| (start, end, thread, name, id))
            .collect();
        calls.sort();
        let host = Host {
            calls: Calls {
                start: calls.iter().map(|call| call.0).collect(),
                end: calls.iter().map(|call| call.1).collect(),
                thread: calls.iter().map(|call| call.2).collect(),
                name: calls.iter().map(|call| call.3).collect(),
                correlation: calls.iter().map(|call| call.4).collect(),
            },
            threads: vec![10, 11],
            records: self.records,
            syncs: self.syncs,
        };
        RankTrace {
            rank,
            rank_source: RankSource::Order,
            world_size: None,
            input: rank as usize,
            report: format!("r_{rank}.sqlite"),
            pid: rank,
            device: 0,
            gpu: None,
            gpu_uuid: Some(format!("GPU-{rank}")),
            gpu_index: None,
            machine_gpus: Vec::new(),
            hostname: Some("node".to_owned()),
            epoch_ns: Some(0),
            ops,
            ranges: Arc::default(),
            texts: Arc::default(),
            nccl: Vec::new(),
            gpu_operations: Vec::new(),
            comm_inits: Vec::new(),
            has_payloads: false,
            host: Some(Arc::new(host)),
            names: Arc::new(self.names),
            families: Arc::default(),
        }
    }
}

/// A run of ranks with equal steps: (range on the host, window on the GPU).
struct Scene {
    traces: Vec<RankTrace>,
    events: Vec<Vec<Event>>,
    steps: Vec<RunSpan>,
    across: Across,
}

impl Scene {
    fn new(ranks: Vec<Rank>, steps: &[((Ns, Ns), (Ns, Ns))]) -> Scene {
        let traces: Vec<RankTrace> =
            ranks.into_iter().zip(0..).map(|(rank, number)| rank.trace(number)).collect();
        let launches = Launches::new(&traces);
        let events: Vec<Vec<Event>> =
            traces.iter().map(|trace| events::events(trace, &launches)).collect();
        let own: Vec<Step> = steps
            .iter()
            .enumerate()
            .map(|(i, &(range, window))| Step {
                name: format!("step {i}"),
                occurrence: 0,
                range: Some(Span::new(range.0, range.1)),
                window: Ok(Span::new(window.0, window.1)),
            })
            .collect();
        let ranked: Vec<RankSteps> = traces
            .iter()
            .zip(&events)
            .map(|(trace, events)| RankSteps {
                steps: &own,
                epoch_ns: trace.epoch_ns,
                events,
                names: &trace.names,
            })
            .collect();
        let pairing = Pairing::new(&ranked);
        let lists: Vec<&[Step]> = traces.iter().map(|_| own.as_slice()).collect();
        let across = across(&traces, &events, &lists, &pairing);
        let span = |(index, &(_, window)): (usize, &((Ns, Ns), (Ns, Ns)))| RunSpan {
            index,
            counted: true,
            step_ns: window.1.saturating_sub(window.0),
            slowest: 0,
            windows: vec![Span::new(window.0, window.1); traces.len()],
        };
        let steps = steps.iter().enumerate().map(span).collect();
        Scene { traces, events, steps, across }
    }

    fn analyse(&self) -> Outcome {
        analyse(&self.traces, &self.events, &self.steps, &self.across, false)
    }

    fn model(&self) -> Model<'_> {
        Model::new(&self.traces, &self.events, &self.steps, &self.across).expect("a graph")
    }
}

fn what(outcome: &Outcome, id: Scenario) -> &WhatIf {
    outcome.what_if.iter().find(|what| what.id == id).expect("a scenario")
}

fn sum(path: &CriticalPath) -> Ns {
    path.compute_ns
        + path.transfer_ns
        + path.wait_ns
        + path.copy_ns
        + path.launch_ns
        + path.host_ns
        + path.sync_ns
        + path.lag_ns
}

// host    |L1|L2|                             |L3|L4|
//         0  1  2                             100
// stream       [k1    )[k2      )                  [k3    )[k4      )
//              5    45 46     96                   105  145 146   196
//
// A launch takes 5 ns, the gap between two kernels 1. The GPU is idle from 96 to 105 because of the host.
#[test]
fn a_host_that_is_never_late_lets_kernels_follow_each_other() {
    let mut rank = Rank::default();
    rank.kernel(0, 0, "k1", (5, 45));
    rank.kernel(1, 0, "k2", (46, 96));
    rank.kernel(100, 0, "k3", (105, 145));
    rank.kernel(101, 0, "k4", (146, 196));
    let scene = Scene::new(vec![rank], &[((0, 50), (5, 105)), ((100, 150), (105, 196))]);
    let outcome = scene.analyse();
    assert_eq!((outcome.replay.worst_error, outcome.replay.violated), (Some(0.0), Some(0.0)));
    // Then k3 starts 1 ns after k2, at 97: steps of 92 and 91 ns instead of 100 and 91.
    assert_eq!(what(&outcome, Scenario::HostNeverLate).step_ns, 92);
    // The first step ends with a launch (5) after 98 ns on the host, of which 95 are inside the window; nothing else holds it up.
    let first = &outcome.critical_path[0];
    assert_eq!((first.launch_ns, first.host_ns, sum(first)), (5, 95, 100));
    let second = &outcome.critical_path[1];
    assert_eq!((second.compute_ns, second.lag_ns, sum(second)), (90, 1, 91));
}

// host      |A|record 1|C: wait 1|C|record 2|0: wait 2|B|      one call each ns
// stream 0      [A 5..55)                    [B 91..121)
// stream 1               [C 57..90)
fn two_streams(waits: bool) -> Scene {
    let mut rank = Rank::default();
    rank.kernel(0, 0, "a", (5, 55));
    rank.record(1, 0, 1);
    rank.wait((2, 3), SyncKind::StreamWait, 1, 1);
    rank.kernel(3, 1, ALL_REDUCE, (57, 90));
    rank.record(4, 1, 2);
    rank.wait((5, 6), SyncKind::StreamWait, 0, 2);
    rank.kernel(6, 0, "b", (91, 121));
    if !waits {
        rank.syncs.clear();
    }
    Scene::new(vec![rank], &[((0, 50), (5, 121))])
}

#[test]
fn a_stream_waits_for_what_its_event_stands_for() {
    let outcome = two_streams(true).analyse();
    let path = &outcome.critical_path[0];
    assert_eq!((path.compute_ns, path.transfer_ns, path.lag_ns, sum(path)), (80, 33, 3, 116));
    // Without communication b follows a: 50 + 30, with the gap that the wait had.
    assert_eq!(what(&outcome, Scenario::NoCommunication).step_ns, 81);
    // Half of the transfer: 33 / 2, rounded down, is gained.
    assert_eq!(what(&outcome, Scenario::TransfersTwiceAsFast).step_ns, 100);
}

#[test]
fn without_stream_waits_the_path_has_more_lag() {
    let (with, without) = (two_streams(true).analyse(), two_streams(false).analyse());
    assert_eq!(without.replay.worst_error, Some(0.0), "a graph without edges replays, too");
    assert_eq!(with.replay.lag_share, Some(3.0 / 116.0));
    // b then seems to come 36 ns after a for no reason.
    assert_eq!(without.replay.lag_share, Some(36.0 / 116.0));
}

// Everything is launched in the first nanoseconds. Rank 1 has a kernel more (x) in each of two steps.
//
//          5      25                     100 101
// rank 0   [f     )                          [f     )
//                  [27 AllReduce        )
// rank 1   [f     )[26    x      86)         [f     )
//                                   [87 )
fn uneven() -> Scene {
    let rank = |late: bool| {
        let mut rank = Rank::default();
        for step in 0..2 {
            let (host, gpu) = (10 * step, 96 * step);
            if step > 0 {
                rank.wait((host - 1, host), SyncKind::StreamWait, 0, 2);
            }
            rank.kernel(host, 0, "f", (gpu + 5, gpu + 25));
            if late {
                rank.kernel(host + 1, 0, "x", (gpu + 26, gpu + 86));
            }
            rank.record(host + 2, 0, 2 * step + 1);
            rank.wait((host + 3, host + 4), SyncKind::StreamWait, 1, 2 * step + 1);
            let arrives = gpu + if late { 87 } else { 27 };
            rank.kernel(host + 4, 1, ALL_REDUCE, (arrives, gpu + 100));
            rank.record(host + 5, 1, 2 * step + 2);
        }
        rank
    };
    Scene::new(vec![rank(false), rank(true)], &[((0, 9), (5, 101)), ((10, 19), (101, 196))])
}

#[test]
fn the_path_goes_through_a_collective_into_the_rank_that_came_last() {
    let outcome = uneven().analyse();
    let path = &outcome.critical_path[0];
    assert_eq!((path.compute_ns, path.transfer_ns, path.lag_ns, sum(path)), (80, 13, 3, 96));
    assert_eq!(path.wait_ns, 0, "its partner is there");
    assert_eq!(
        path.by_rank.iter().map(|(&r, &ns)| (r, ns)).collect::<Vec<_>>(),
        [(0, 14), (1, 82)]
    );
    assert_eq!(sum(&outcome.critical_path[1]), 95);
}

#[test]
fn nobody_late_takes_off_what_a_rank_does_more() {
    let outcome = uneven().analyse();
    // f 20, x 0, a gap of 1 each for x, AllReduce and the next f, transfer 13: 36 and, without the last gap, 35.
    let what = what(&outcome, Scenario::NobodyLate);
    assert_eq!((what.step_ns, what.gain_ns), (36, 60));
    assert_eq!(outcome.what_if[0].id, Scenario::NobodyLate, "the greatest gain first");
}

#[test]
fn what_cannot_be_followed_is_waiting() {
    // The same, but rank 1 is not captured: the shortest AllReduce of rank 0 is all transfer, what the other takes more is waiting.
    let mut rank = Rank::default();
    rank.kernel(0, 0, ALL_REDUCE, (5, 15));
    rank.kernel(1, 0, "f", (16, 30));
    rank.kernel(2, 0, ALL_REDUCE, (31, 91));
    rank.kernel(3, 0, "g", (92, 100));
    let outcome = Scene::new(vec![rank], &[((0, 9), (5, 100))]).analyse();
    let path = &outcome.critical_path[0];
    assert_eq!((path.transfer_ns, path.wait_ns, path.compute_ns, path.lag_ns), (20, 50, 22, 3));
}

// Kernels of 200 ns. The host launches 14 in their time, then as fast as it can (10 ns a call) until 4 are pending; from then
// on each launch returns only when a kernel starts.
//
// stream  [0  )[1  ) ... [13 )[14 )[15 )[16 )[17 )[18 )
// host    |0|  |1|   ... |13|14|15|16|17|18|19---|20---|
#[test]
fn a_blocked_launch_is_not_host_work() {
    let mut rank = Rank::default();
    let begin = |i: i64| 5 + 200 * i;
    let mut now = 0;
    for i in 0..30 {
        let room = if i > 14 { begin(i - 5) } else { 0 };
        let returned = (now + 10).max(room);
        let id = rank.call(now, returned, 0, "launch");
        let name = rank.names.intern("k");
        rank.ops.push((begin(i), begin(i) + 200, Class::Compute, name, 0, id));
        now = if i < 14 { returned + 190 } else { returned };
    }
    let scene = Scene::new(vec![rank], &[((0, 9000), (5, begin(30)))]);
    let model = scene.model();
    let graph = &model.built.graph;
    let is_blocked = |call: usize| {
        let cause = graph.cause(model.built.layout.call_return(0, call));
        cause.is_some_and(|edge| graph.reason[edge] == Reason::Queue)
    };
    assert_eq!(
        (0..30).filter(|&call| is_blocked(call)).collect::<Vec<_>>(),
        (20..30).collect::<Vec<_>>()
    );
    // Were the kernels to take no time, the host would be all that is left: 14 times 200 ns, 15 calls of 10, a launch of 5.
    let mut weights = graph.weight.clone();
    let works = |&edge: &usize| graph.reason[edge] == Reason::Work;
    (0..weights.len()).filter(works).for_each(|edge| weights[edge] = 0);
    let times = replay(graph, &weights, Lags::OfCause);
    assert_eq!(times[model.built.layout.op_start(0, 29) as usize], 14 * 200 + 15 * 10 + 5);
}

// stream         [k 5        ..     105)
// host    |launch|sync 1             ..  108|launch
#[test]
fn a_synchronisation_returns_after_what_it_waits_for() {
    let mut rank = Rank::default();
    rank.kernel(0, 0, "k", (5, 105));
    rank.wait((1, 108), SyncKind::Stream, 0, 0);
    rank.kernel(109, 0, "k", (114, 150));
    let scene = Scene::new(vec![rank], &[((0, 200), (5, 150))]);
    let path = &scene.analyse().critical_path[0];
    // 100 + 36 of kernels, 3 to return, 1 to the next launch, 5 for the launch.
    assert_eq!((path.compute_ns, path.sync_ns, path.host_ns, path.launch_ns), (136, 3, 1, 5));
}

// main      |f|                              |o|
// autograd      |b1|b2| ... |b10|
//           0   20 ...           29          60
#[test]
fn a_thread_that_paused_goes_on_after_the_one_that_worked() {
    let mut rank = Rank::default();
    let mut launch = |at: Ns, thread: u32| {
        let id = rank.call(at, at + 1, thread, "launch");
        let name = rank.names.intern("k");
        rank.ops.push((at + 5, at + 6, Class::Compute, name, 0, id));
    };
    launch(0, 0);
    (20..30).for_each(|at| launch(at, 1));
    launch(60, 0);
    let scene = Scene::new(vec![rank], &[((0, 100), (5, 66))]);
    let model = scene.model();
    let graph = &model.built.graph;
    let cause = graph.cause(model.built.layout.call_start(0, 11)).expect("a cause");
    assert_eq!((graph.reason[cause], graph.weight[cause]), (Reason::Handoff, 30));
    assert_eq!(model.built.layout.owner(graph.from[cause]), Owner::Call(0, 10));
}

#[test]
fn without_what_it_needs_there_is_a_reason_instead() {
    let reason = |scene: &Scene| scene.analyse().replay.reason.unwrap_or_default();
    let mut shared = uneven();
    shared.traces[1].gpu_uuid = Some("GPU-0".to_owned());
    assert!(reason(&shared).contains("share a GPU"));
    let mut unread = uneven();
    unread.traces[0].host = None;
    assert!(reason(&unread).contains("were not read"));
    let mut graphs = uneven();
    graphs.traces[0].ops.class[0] = Class::Unclassified;
    graphs.traces[0].ops.name[0] = NameId::NONE;
    assert!(reason(&graphs).contains("--cuda-graph-trace=node"));
    let mut rank = Rank::default();
    rank.kernel(0, 0, "k", (5, 9));
    rank.call(2, 3, 0, "cudaEventRecord");
    let lost = Scene::new(vec![rank], &[((0, 9), (5, 9))]);
    assert!(reason(&lost).contains("CUPTI_ACTIVITY_KIND_CUDA_EVENT"));
}

#[test]
fn a_circle_is_cut_and_counted() {
    use super::graph::{Edge, Graph};
    let edge = |from, to| Edge { to, from, reason: Reason::Stream, latency: 0 };
    let graph = Graph::new(vec![0, 10, 20], &[edge(0, 1), edge(1, 2), edge(2, 1)]);
    // One edge is cut, the other one is contradicted by the times.
    assert_eq!((graph.order.len(), graph.violated), (3, 2));
    assert_eq!(graph.weight.iter().filter(|&&weight| weight == NEVER).count(), 1);
    assert_eq!(replay(&graph, &graph.weight, Lags::OfCause), [0, 10, 20]);
}

/// Times as files may hold them: usual ones, and the ends of what can be a time.
fn time() -> impl Strategy<Value = Ns> {
    prop_oneof![8 => 0i64..2_000, 1 => Just((1 << 62) - 1), 1 => Just(1 - (1 << 62)), 1 => Just(-1)]
}

fn rank() -> impl Strategy<Value = Rank> {
    let call = (time(), time(), 0u32..2);
    let op = (time(), time(), 0usize..3, 0u32..3, 0i64..12);
    let record = (0i64..12, 0i64..3, 0i64..3, prop::option::of(0i64..4));
    let kinds = [SyncKind::Event, SyncKind::StreamWait, SyncKind::Stream, SyncKind::Context];
    let sync = (record.clone(), prop::sample::select(kinds.to_vec()));
    let lists = (
        prop::collection::vec(call, 1..12),
        prop::collection::vec(op, 1..16),
        prop::collection::vec(record, 0..6),
        prop::collection::vec(sync, 0..6),
    );
    lists.prop_map(|(calls, ops, records, syncs)| {
        let mut rank = Rank::default();
        for (start, end, thread) in calls {
            rank.call(start, end.max(start), thread, "call");
        }
        for (start, end, name, stream, id) in ops {
            let name = [ALL_REDUCE, "ncclDevKernel_SendRecv", "gemm"][name];
            let class = if name == "gemm" { Class::Compute } else { Class::Comm };
            let name = rank.names.intern(name);
            rank.ops.push((start, end.max(start), class, name, stream, id));
        }
        let stream = |stream| (1, stream);
        rank.records = records
            .into_iter()
            .map(|(correlation, s, event, sync)| EventRecord {
                correlation,
                stream: stream(s),
                event,
                sync,
            })
            .collect();
        rank.syncs = syncs
            .into_iter()
            .map(|((correlation, s, event, sync), kind)| Synchronization {
                correlation,
                kind,
                stream: stream(s),
                event,
                sync,
            })
            .collect();
        rank
    })
}

proptest! {
    // Whatever the reports hold: no panic, paths that add up, and the same answer every time.
    #[test]
    fn anything_is_replayed(ranks in (rank(), rank()), bounds in (time(), time(), time())) {
        let mut bounds = [bounds.0, bounds.1, bounds.2];
        bounds.sort();
        let steps = [(bounds[0], bounds[1]), (bounds[1], bounds[2])].map(|window| (window, window));
        let scene = Scene::new(vec![ranks.0, ranks.1], &steps);
        let outcome = scene.analyse();
        prop_assert_eq!(outcome.critical_path.len(), 2);
        for (path, step) in outcome.critical_path.iter().zip(&scene.steps) {
            prop_assert_eq!(sum(path), step.step_ns);
        }
        let again = scene.analyse();
        prop_assert_eq!((outcome.replay, outcome.critical_path, outcome.what_if), (again.replay, again.critical_path, again.what_if));
    }
}
