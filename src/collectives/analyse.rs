//! From traces and steps to matched, measured collectives.

use rayon::prelude::*;

use super::anchors::anchors;
use super::clocks::{self, Clocks, RankClock, Refused};
use super::communicators::Communicators;
use super::events::Event;
use super::groups::Measured;
use super::matches::{Match, Matching, RankEvents};
use super::matching;
use super::pairing::{PairedBy, Pairing};
use super::refs::EventRef;
use super::{sync, transfer};
use crate::model::{Class, RankTrace, Span};
use crate::steps::Step;
use crate::timeline::SpanSet;

/// Everything about communication across ranks.
#[derive(Debug)]
pub struct Across {
    /// Matched collectives with their numbers.
    pub measured: Vec<Measured>,
    /// When each rank computes, in its report's own time.
    pub compute: Vec<SpanSet>,
    /// The clock of each rank.
    pub clocks: Vec<RankClock>,
    /// Machines whose ranks do not leave together, although they have one clock.
    pub refused: Vec<Refused>,
    /// What has no partner, and why.
    pub matching: Matching,
    /// Which ranks communicators have.
    pub communicators: Communicators,
    /// True if steps that are paired are surely the same step.
    pub sure_steps: bool,
    /// What paired the steps.
    pub steps_paired_by: PairedBy,
}

/// Matches and measures. `events` are the communication of each rank, `steps` its steps, which `pairing` numbers.
pub fn across(
    traces: &[RankTrace],
    events: &[Vec<Event>],
    steps: &[impl AsRef<[Step]>],
    pairing: &Pairing,
) -> Across {
    let lists: Vec<&[Event]> = events.iter().map(Vec::as_slice).collect();
    let communicators = Communicators::new(traces, events);
    let ranks: Vec<RankEvents<'_>> = traces
        .iter()
        .enumerate()
        .map(|(r, trace)| RankEvents {
            rank: trace.rank,
            events: &events[r],
            anchors: anchors(&events[r], steps[r].as_ref(), &pairing.of_rank[r]),
            names: &trace.names,
        })
        .collect();
    let origins = clocks::origins(traces);

    let mut found = matching::match_events(&ranks, &origins, &communicators, pairing.sure);
    let mut clocks = clocks::align(&lists, &origins, &found.matches);
    let open = std::mem::take(&mut found.open);
    if !open.is_empty() {
        let decide = |clocks: &[RankClock], found: &mut Matching| {
            matching::decide_open(&ranks, &origins, &communicators, clocks, &open, found);
        };
        if !pairing.sure {
            // Nothing but time says what belongs together: rough clocks find most of it, and that makes better clocks.
            let rough = sync::rough(&ranks, &open, &origins);
            let mut first = Matching::default();
            decide(&rough, &mut first);
            clocks = clocks::align(&lists, &origins, &first.matches);
        }
        decide(&clocks.of_rank, &mut found);
        clocks = clocks::align(&lists, &origins, &found.matches);
    }
    if matching::check(&ranks, &communicators, &clocks.of_rank, &mut found) {
        clocks = clocks::align(&lists, &origins, &found.matches);
    }
    let Clocks { of_rank: clocks, refused } = clocks;
    found.sort(&ranks);

    let compute: Vec<SpanSet> = traces.par_iter().map(compute_of).collect();
    let measure = |found: Match| {
        let timing = transfer::timing(&found, &lists, &clocks);
        // A rank waits from its arrival on: what the transfer takes comes last.
        let event = |at: EventRef| &events[at.rank][at.event];
        let wait = |(&at, &wait): (&EventRef, &i64)| {
            Span::new(event(at).start, event(at).start.saturating_add(wait))
        };
        let waits = found.members.iter().zip(&timing.wait_ns).map(wait).collect();
        let n_ranks = communicators.size(event(found.members[0]).comm);
        Measured { n_ranks, timing, waits, found }
    };
    let measured = std::mem::take(&mut found.matches).into_iter().map(measure).collect();
    Across {
        measured,
        compute,
        clocks,
        refused,
        matching: found,
        communicators,
        sure_steps: pairing.sure,
        steps_paired_by: pairing.by,
    }
}

fn compute_of(trace: &RankTrace) -> SpanSet {
    let ops = &trace.ops;
    let mut set = SpanSet::new();
    (0..ops.len()).filter(|&i| ops.class[i] == Class::Compute).for_each(|i| set.push(ops.span(i)));
    set
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::collectives::events::{self, Launches};
    use crate::collectives::groups;
    use crate::collectives::pairing::RankSteps;
    use crate::model::trace::CommInit;
    use crate::model::{CallKind, CommOp, Names, NcclCall, Ops, RankSource};
    use crate::steps::Step;

    /// Times as files may hold them: usual ones, and the ends of the range.
    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![8 => 0i64..2_000, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just(-1), 1 => any::<i64>()]
    }

    fn call() -> impl Strategy<Value = NcclCall> {
        let ops = [
            None,
            Some(CommOp::AllReduce),
            Some(CommOp::Send),
            Some(CommOp::Recv),
            Some(CommOp::Broadcast),
            Some(CommOp::AllGather),
        ];
        let kinds = [
            CallKind::Plain,
            CallKind::Plain,
            CallKind::GroupStart,
            CallKind::GroupEnd,
            CallKind::Group,
        ];
        let number = || prop::option::of(0u64..3);
        let signed = || prop::option::of(prop_oneof![-1i64..4, Just(i64::MIN)]);
        let what = (
            prop::sample::select(ops.to_vec()),
            prop::sample::select(kinds.to_vec()),
            number(),
            prop::option::of(any::<u64>()),
        );
        (time(), time(), 0u64..2, what, number(), number(), signed(), signed()).prop_map(
            |(start, end, thread, (op, kind, comm, bytes), seq, operation, root, peer)| NcclCall {
                start,
                end: end.max(start),
                thread,
                kind,
                op,
                comm,
                bytes,
                redop: None,
                root,
                peer,
                seq,
                operation,
            },
        )
    }

    fn trace(rank: u32) -> impl Strategy<Value = RankTrace> {
        let op = (time(), time(), 0u32..3, 0u32..4, time(), prop::option::of(0u32..8));
        let epoch = prop::option::of(prop_oneof![Just(1_700_000_000_000_000_000), time()]);
        let init = (0u64..3, any::<u32>(), any::<u32>())
            .prop_map(|(comm, n_ranks, rank)| CommInit { comm, n_ranks, rank });
        let lists = (
            prop::collection::vec(call(), 0..8),
            prop::collection::vec(call(), 0..3),
            prop::collection::vec(init, 0..2),
        );
        (prop::collection::vec(op, 0..24), lists, epoch, prop::option::of(0u32..9), any::<bool>())
            .prop_map(move |(rows, (mut nccl, on_gpu, comm_inits), epoch_ns, world_size, named)| {
                let mut names = Names::default();
                let kernels =
                    ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv", "gemm"]
                        .map(|name| names.intern(name));
                nccl.sort_by_key(|c| (c.start, c.end));
                let mut rows = rows;
                rows.sort();
                let mut ops = Ops::default();
                for (start, end, stream, name, launch, call) in rows {
                    ops.start.push(start);
                    ops.end.push(end.max(start));
                    ops.class.push(if name == 2 { Class::Compute } else { Class::Comm });
                    ops.name.push(
                        kernels.get(name as usize).copied().unwrap_or(crate::model::NameId::NONE),
                    );
                    ops.stream.push(stream);
                    ops.bytes.push(0);
                    ops.launch.push(launch);
                    ops.thread.push(1);
                    ops.call.push(
                        call.filter(|c| (*c as usize) < nccl.len())
                            .unwrap_or(crate::model::op::NO_CALL),
                    );
                }
                RankTrace {
                    rank,
                    rank_source: RankSource::Order,
                    world_size,
                    input: rank as usize,
                    report: String::new(),
                    pid: rank,
                    device: 0,
                    gpu: None,
                    gpu_uuid: None,
                    gpu_index: None,
                    machine_gpus: Vec::new(),
                    hostname: named.then(|| "node".to_owned()),
                    epoch_ns,
                    ops,
                    ranges: Arc::default(),
                    texts: Arc::default(),
                    nccl,
                    gpu_operations: on_gpu,
                    comm_inits,
                    has_payloads: true,
                    host: None,
                    names: Arc::new(names),
                    families: Arc::default(),
                }
            })
    }

    fn steps(named: bool) -> Vec<Step> {
        let name = |i: i64| if named { format!("step {i}") } else { "step".to_owned() };
        let step = |i: i64| Step {
            name: name(i),
            occurrence: if named { 0 } else { i as usize },
            range: Some(Span::new(i * 500, i * 500 + 400)),
            window: Ok(Span::new(i * 500, i * 500 + 500)),
        };
        (0..4).map(step).collect()
    }

    proptest! {
        // Whatever the reports hold: no panic, each operation in one place only, and the same answer every time.
        #[test]
        fn anything_is_matched_or_counted_once(traces in (trace(0), trace(1), trace(2)), named in any::<bool>()) {
            let traces = [traces.0, traces.1, traces.2];
            let launches = Launches::new(&traces);
            let events: Vec<Vec<Event>> =
                traces.iter().map(|trace| events::events(trace, &launches)).collect();
            let steps: Vec<Vec<Step>> = traces.iter().map(|_| steps(named)).collect();
            let ranks: Vec<RankSteps> = traces
                .iter()
                .zip(steps.iter().zip(&events))
                .map(|(trace, (steps, events))| RankSteps { steps, epoch_ns: trace.epoch_ns, events, names: &trace.names })
                .collect();
            let pairing = Pairing::new(&ranks);
            prop_assert!(pairing.of_rank.iter().flatten().all(|number| *number < pairing.keys.len()));
            let across = across(&traces, &events, &steps, &pairing);
            let mut seen = std::collections::BTreeSet::new();
            for one in &across.measured {
                prop_assert!(one.found.members.len() > 1);
                prop_assert!(one.found.members.windows(2).all(|pair| pair[0].rank < pair[1].rank));
                for member in &one.found.members {
                    prop_assert!(seen.insert(*member), "{member:?} twice");
                }
                prop_assert!(one.timing.wait_ns.iter().all(|ns| *ns >= 0));
            }
            let alone: u64 = across.matching.alone.values().flat_map(|alone| alone.by_rank.values()).sum();
            prop_assert_eq!(seen.len() as u64 + alone, events.iter().map(|list| list.len() as u64).sum::<u64>());
            let lists: Vec<&[Event]> = events.iter().map(Vec::as_slice).collect();
            let groups = groups::groups(&across.measured, &lists, &[0, 1, 2]);
            prop_assert!(groups.iter().all(|g| g.no_bandwidth.is_some() == g.busbw_gbs.is_none()));
            prop_assert!(groups.iter().all(|g| g.untimed == g.untimed_reasons.values().sum::<u64>()));
            let again = super::across(&traces, &events, &steps, &pairing);
            prop_assert_eq!(groups, groups::groups(&again.measured, &lists, &[0, 1, 2]));
            let waits = groups::step_waits(&across.measured, &across.compute, &pairing.of_rank[0], &[0, 1, 2]);
            prop_assert!(waits.iter().all(|w| w.exposed_wait_ns >= 0 && w.exposed_wait_ns <= w.wait_ns && w.waited_for_ns >= 0));
            let traces: Vec<&RankTrace> = traces.iter().collect();
            crate::collectives::warnings::warnings(&across, &traces, &lists, &[]);
        }
    }
}
