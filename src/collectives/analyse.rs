//! From traces and steps to matched, measured collectives.

use rayon::prelude::*;

use super::anchors::{StepNumbers, anchors};
use super::clocks::{self, Origin, RankClock};
use super::communicators::Communicators;
use super::events::Event;
use super::groups::Measured;
use super::matching::{self, Match, Matching, RankEvents};
use super::{sync, transfer};
use crate::analysis::run::StepKey;
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
    /// What has no partner, and why.
    pub matching: Matching,
    /// Which ranks communicators have.
    pub communicators: Communicators,
    /// True if equal step names are surely the same step.
    pub named_steps: bool,
}

/// Matches and measures. `events` are the communication of each rank, `steps` its steps and `keys` what they are called.
pub fn across(
    traces: &[RankTrace],
    events: &[Vec<Event>],
    steps: &[Vec<Step>],
    keys: &[Vec<StepKey>],
) -> Across {
    let lists: Vec<&[Event]> = events.iter().map(Vec::as_slice).collect();
    let communicators = Communicators::new(traces, events);
    let numbers = StepNumbers::new(steps, keys);
    let ranks: Vec<RankEvents<'_>> = traces
        .iter()
        .enumerate()
        .map(|(r, trace)| RankEvents {
            rank: trace.rank,
            events: &events[r],
            anchors: anchors(&events[r], &steps[r], &numbers.of_rank[r]),
            names: &trace.names,
        })
        .collect();
    // Ranks of one report have one clock, whether or not it names the machine.
    let host = |trace: &RankTrace| {
        trace.hostname.clone().unwrap_or_else(|| format!("report {}", trace.input))
    };
    let origins: Vec<Origin> =
        traces.iter().map(|t| Origin { epoch_ns: t.epoch_ns, host: Some(host(t)) }).collect();

    let mut found = matching::match_events(&ranks, &communicators, numbers.named);
    let mut clocks = clocks::align(&lists, &origins, &found.matches);
    let open = std::mem::take(&mut found.open);
    if !open.is_empty() {
        if !numbers.named {
            // Nothing but time says what belongs together: rough clocks find most of it, and that makes better clocks.
            let rough = sync::rough(&ranks, &open, &origins);
            let mut first = Matching::default();
            matching::by_clock(&ranks, &communicators, &rough, &open, &mut first);
            clocks = clocks::align(&lists, &origins, &first.matches);
        }
        matching::by_clock(&ranks, &communicators, &clocks, &open, &mut found);
        clocks = clocks::align(&lists, &origins, &found.matches);
    }
    if matching::check(&ranks, &communicators, &clocks, &mut found) {
        clocks = clocks::align(&lists, &origins, &found.matches);
    }
    found.sort(&ranks);

    let compute: Vec<SpanSet> = traces.par_iter().map(compute_of).collect();
    let measure = |found: Match| {
        let timing = transfer::timing(&found, &lists, &clocks);
        // A rank waits from its arrival on: what the transfer takes comes last.
        let wait = |(&(r, e), &wait): (&(usize, usize), &i64)| {
            Span::new(events[r][e].start, events[r][e].start.saturating_add(wait))
        };
        let waits = found.members.iter().zip(&timing.wait_ns).map(wait).collect();
        let (r, e) = found.members[0];
        let step =
            found.step.and_then(|step| numbers.keys.get(step as usize)).map(|key| (*key).clone());
        Measured { n_ranks: communicators.size(events[r][e].comm), step, timing, waits, found }
    };
    let measured = std::mem::take(&mut found.matches).into_iter().map(measure).collect();
    Across { measured, compute, clocks, matching: found, communicators, named_steps: numbers.named }
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
    use crate::analysis::run;
    use crate::collectives::{events, groups};
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
                    hostname: named.then(|| "node".to_owned()),
                    epoch_ns,
                    ops,
                    ranges: Vec::new(),
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
            occurrence: 0,
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
            let events: Vec<Vec<Event>> = traces.iter().map(events::events).collect();
            let steps: Vec<Vec<Step>> = traces.iter().map(|_| steps(named)).collect();
            let key = |(i, s): (usize, &Step)| (s.name.clone(), if named { 0 } else { i });
            let keys: Vec<Vec<run::StepKey>> = steps.iter().map(|list| list.iter().enumerate().map(key).collect()).collect();
            let across = across(&traces, &events, &steps, &keys);
            let mut seen = std::collections::BTreeSet::new();
            for one in &across.measured {
                prop_assert!(one.found.members.len() > 1);
                prop_assert!(one.found.members.windows(2).all(|pair| pair[0].0 < pair[1].0));
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
            let again = super::across(&traces, &events, &steps, &keys);
            prop_assert_eq!(groups, groups::groups(&again.measured, &lists, &[0, 1, 2]));
            let waits = groups::step_waits(&across.measured, &across.compute, &keys[0], &[0, 1, 2]);
            prop_assert!(waits.iter().all(|w| w.exposed_wait_ns >= 0 && w.exposed_wait_ns <= w.wait_ns && w.waited_for_ns >= 0));
            crate::collectives::warnings::warnings(&across, &traces, &events, &[]);
        }
    }
}
