//! Stages of a pipeline, each a rank: all micro-batches forward, then all backward. The bubble is nobody's fault.

use crate::support::cluster::{
    ALL_REDUCE, Cluster, Collective, MIB, MS, SECOND, US, WORLD, finding, rank,
};
use crate::support::report::{Payload, Payloads};

const BATCHES: usize = 4;
const FORWARD: i64 = 2 * MS;
const BACKWARD: i64 = 4 * MS;
const TRANSFER: i64 = 200 * US;

fn sends(function: &'static str, peer: usize) -> Collective {
    let payload = Payload {
        comm: WORLD,
        bytes: Some(4 * MIB),
        peer: Some(peer as i32),
        ..Payload::default()
    };
    let stream = if function == "ncclSend" { 21 } else { 22 };
    Collective {
        payload,
        stream,
        ..Collective::of(
            function,
            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        )
    }
}

/// Where the AllReduce of all stages is: at the end, as that of the gradient norm, or at the start.
#[derive(Clone, Copy, PartialEq)]
enum AllReduces {
    End,
    Start,
}

/// Six steps. A stage computes until its next receive; sends run beside that. 3 ms of optimizer
/// end the step.
fn pipeline(stages: usize, payloads: Payloads, all_reduces: AllReduces) -> Cluster {
    let mut cluster = Cluster::new(stages as u32);
    cluster.ranks.iter_mut().for_each(|rank| rank.report.payloads = payloads);
    let mut start = SECOND;
    for step in 0..6 {
        let begins = start - 2 * MS;
        if all_reduces == AllReduces::Start {
            cluster.collective(
                &ALL_REDUCE,
                &(0..stages).map(|stage| (stage, start)).collect::<Vec<_>>(),
                start + MS,
            );
            start += MS;
        }
        let mut free = vec![start; stages];
        for (takes, backward) in [(FORWARD, false), (BACKWARD, true)] {
            for _ in 0..BATCHES {
                // When the stage before has it.
                let mut sent: Option<(usize, i64)> = None;
                for at in 0..stages {
                    let stage = if backward { stages - 1 - at } else { at };
                    if let Some((from, sent)) = sent {
                        let end = free[stage].max(sent) + TRANSFER;
                        cluster.ranks[stage].collective(&sends("ncclRecv", from), free[stage]..end);
                        // A call of its own, after that of the receive.
                        cluster.ranks[from].collective(&sends("ncclSend", stage), sent + US..end);
                        free[stage] = end;
                    }
                    cluster.ranks[stage].compute(free[stage]..free[stage] + takes);
                    free[stage] += takes;
                    sent = Some((stage, free[stage]));
                }
            }
        }
        let end = free.iter().max().expect("a stage") + MS;
        for (rank, free) in cluster.ranks.iter_mut().zip(&free) {
            if all_reduces == AllReduces::End {
                rank.collective(&ALL_REDUCE, free + 2 * US..end);
            }
            rank.compute(end..end + 3 * MS);
        }
        cluster.step(&format!("step {step}"), begins..end - MS / 4);
        start = end + 3 * MS;
    }
    cluster
}

// ms       0    2    4    6    8      10.8  14.8   18.8 ...  26.8   31.6
// rank 0   |F0  |F1  |F2  |F3  |R        |B0 15 .. 19|R|B1  ...  |B3 |AR|     the send of F3 waits too, from 8.0 to 8.6
// rank 1   |R   |F0 4.2|F1 6.4|F2 8.6|F3 |B0  |B1  |B2  |B3     |AR      |
#[test]
fn the_bubble_is_nobodys_fault() {
    let report = pipeline(2, Payloads::Json, AllReduces::End).finish();
    // Rank 0: sends 0.2 and 0.4 ms, the last 0.6 ms within the first receive's 6.8 ms, all but the first 1 us after its compute.
    let zero = rank(&report, 0).wait_ns_per_step.expect("waits");
    assert!((zero - 7_400 * US).abs() < 10 * US, "{zero}");
    // Rank 1: 2 ms for the first micro-batch, 0.2, 0.4 and 0.6 ms to send, 4.8 ms in the AllReduce of which the last send is part.
    let one = rank(&report, 1).wait_ns_per_step.expect("waits");
    assert!((one - 7_400 * US).abs() < 10 * US, "{one}");
    assert!(finding(&report, "straggler").is_none());
}

#[test]
fn a_stage_that_is_last_by_design_is_no_straggler() {
    for stages in [2, 3, 4] {
        // Only the AllReduce is known: the first stage, which ends last, is last at each.
        let report = pipeline(stages, Payloads::None, AllReduces::End).finish();
        assert_eq!(rank(&report, 0).last_count, Some(6), "{stages}");
        assert!(finding(&report, "straggler").is_none(), "{stages}: {:#?}", report.findings);
        let waits = finding(&report, "arrival-jitter").expect("waits");
        assert!(
            waits.title.contains("as stages of a pipeline do: the one that is last most often, rank 0, is so at 6 of 6"),
            "{}",
            waits.title
        );
        assert!(waits.advice.as_deref().is_some_and(|advice| advice.contains("the bubble")));
    }
}

// ms       1                       9           15.8 ...  32.6 33.6
// rank 0   |F0 |F1 |F2 |F3 |R                 |B0 ..   B3|  |optimizer|
// rank 1   |R  |F0 ..            |B0 ..  B3 27.8|    idle    |optimizer|
#[test]
fn a_stage_that_has_drained_is_not_late_and_its_host_neither() {
    let report = pipeline(2, Payloads::Json, AllReduces::Start).finish();
    // Rank 1 is idle 4.8 ms longer, for want of micro-batches, and rank 0 waits longer than it does.
    assert!(rank(&report, 0).wait_ns_per_step > rank(&report, 1).wait_ns_per_step);
    assert!(finding(&report, "straggler").is_none(), "{:#?}", report.findings);
    let four = pipeline(4, Payloads::Json, AllReduces::Start).finish();
    let idle = finding(&four, "idle").and_then(|idle| idle.advice.as_deref()).expect("idle time");
    assert!(idle.starts_with("Stages of a pipeline are idle before"), "{idle}");
}

// The k-th kernels of stages 1 and 2 often run at once, with other partners each: they end a backward pass apart.
#[test]
fn sends_that_overlap_by_chance_are_not_paired() {
    let report = pipeline(4, Payloads::None, AllReduces::End).finish();
    assert_eq!(
        report.collectives.iter().map(|group| group.op.label()).collect::<Vec<_>>(),
        ["AllReduce"]
    );
    assert!(report.warnings.iter().any(|w| w.code.as_str() == "collectives-unmatched"
        && w.message.contains("96 on rank 1, 96 on rank 2")));
}
