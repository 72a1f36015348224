//! 64 ranks with 5,000 collectives each, as the reader of reports would deliver them.

use std::sync::Arc;

use nsysnccl::internals::collectives::analyse::{self, Across};
use nsysnccl::internals::collectives::events::{self, Event, Launches};
use nsysnccl::internals::collectives::pairing::{Pairing, RankSteps};
use nsysnccl::internals::model::{
    CallKind, Class, CommOp, Names, NcclCall, Ops, RankSource, RankTrace, Span,
};
use nsysnccl::internals::steps::Step;

pub const RANKS: u32 = 64;
const STEPS: i64 = 100;
const PER_STEP: i64 = 50;
const STEP_NS: i64 = 50_000_000;

/// A number that looks random, from 0 to `below`.
fn noise(a: i64, b: i64, below: i64) -> i64 {
    let mut x = (a as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (b as u64).wrapping_mul(0xd1b5_4a32_d192_ed03);
    x ^= x >> 31;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 29)) % below as u64) as i64
}

/// One rank: AllReduce on everyone, AllGather on groups of eight, 50 of both in a step, arriving up to 0.1 ms late.
fn trace(rank: u32, payloads: bool) -> RankTrace {
    let mut names = Names::default();
    let kernels = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_AllGather_RING_LL"]
        .map(|name| names.intern(name));
    let mut ops = Ops::default();
    let mut nccl = Vec::new();
    for step in 0..STEPS {
        for i in 0..PER_STEP {
            let grouped = i % 2;
            let group = if grouped == 1 { rank / 8 } else { 0 };
            let k = step * PER_STEP + i;
            let launch = step * STEP_NS + i * 20_000;
            // Everyone in the group leaves together.
            let end =
                (step + 1) * STEP_NS + i * 900_000 + 500_000 + noise(k, i64::from(group), 300_000);
            let start = end - 200_000 - noise(k, 1000 + i64::from(rank), 100_000);
            ops.start.push(start);
            ops.end.push(end);
            ops.class.push(Class::Comm);
            ops.name.push(kernels[grouped as usize]);
            ops.stream.push(grouped as u32);
            ops.bytes.push(0);
            ops.launch.push(launch);
            ops.call.push(if payloads { k as u32 } else { u32::MAX });
            if payloads {
                nccl.push(NcclCall {
                    start: launch,
                    end: launch + 10_000,
                    thread: 1,
                    kind: CallKind::Plain,
                    op: Some(if grouped == 1 { CommOp::AllGather } else { CommOp::AllReduce }),
                    comm: Some(1000 * grouped as u64 + u64::from(group)),
                    bytes: Some(1 << 20),
                    redop: None,
                    root: None,
                    peer: None,
                    seq: None,
                    operation: None,
                });
            }
        }
    }
    RankTrace {
        rank,
        rank_source: RankSource::Order,
        world_size: Some(RANKS),
        input: rank as usize,
        report: format!("r_{rank}.sqlite"),
        pid: rank,
        device: 0,
        gpu: None,
        gpu_uuid: None,
        gpu_index: None,
        machine_gpus: Vec::new(),
        hostname: Some(format!("node{}", rank / 8)),
        epoch_ns: Some(1_700_000_000_000_000_000 + i64::from(rank / 8) * 3_000_000),
        ops,
        ranges: Arc::default(),
        texts: Arc::default(),
        nccl,
        gpu_operations: Vec::new(),
        comm_inits: Vec::new(),
        has_payloads: payloads,
        names: Arc::new(names),
        families: Arc::default(),
        host: None,
    }
}

fn steps(ranges: bool) -> Vec<Step> {
    (0..STEPS)
        .map(|step| Step {
            name: format!("step {step}"),
            occurrence: 0,
            range: ranges.then(|| Span::new(step * STEP_NS, (step + 1) * STEP_NS)),
            window: Ok(Span::new((step + 1) * STEP_NS, (step + 2) * STEP_NS)),
        })
        .collect()
}

/// The traces with the steps of each rank.
pub struct Many {
    pub traces: Vec<RankTrace>,
    pub steps: Vec<Vec<Step>>,
}

impl Many {
    /// With payloads that name the communicator or without, and with steps that are named ranges or only windows.
    pub fn new(payloads: bool, ranges: bool) -> Many {
        let traces: Vec<RankTrace> = (0..RANKS).map(|rank| trace(rank, payloads)).collect();
        let steps: Vec<Vec<Step>> = traces.iter().map(|_| steps(ranges)).collect();
        Many { traces, steps }
    }

    /// Matched: 2,500 of everyone, and 2,500 of each of eight groups.
    pub fn across(&self) -> (Vec<Vec<Event>>, Across) {
        let launches = Launches::new(&self.traces);
        let events: Vec<Vec<Event>> =
            self.traces.iter().map(|trace| events::events(trace, &launches)).collect();
        let rank = |r: usize| RankSteps {
            steps: &self.steps[r],
            epoch_ns: self.traces[r].epoch_ns,
            events: &events[r],
            names: &self.traces[r].names,
        };
        let pairing = Pairing::new(&(0..self.traces.len()).map(rank).collect::<Vec<_>>());
        let across = analyse::across(&self.traces, &events, &self.steps, &pairing);
        assert_eq!(across.measured.len(), 2_500 * 9);
        (events, across)
    }
}
