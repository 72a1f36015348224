//! Where the captured part stands in the whole run, and how evenly the channels of an operation work.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::Collected;
use super::pair::Pair;
use crate::model::CommOp;
use crate::model::record::{Timing, busbw_gbs};
use crate::report::{ChannelImbalance, CommTrust, Typical};
use crate::stats;

/// Fewer operations than this on either side say nothing.
const MIN_CAPTURED: usize = 3;
const MIN_REST: usize = 8;

/// For each communicator, operation and size: bandwidth and waiting of the captured operations beside all others of the run.
/// One operation counts once: its time is the shortest over the ranks whose record is there.
pub fn typical(all: &[(usize, Pair)], logs: &Collected, trust: &[CommTrust]) -> Vec<Typical> {
    let captured: BTreeSet<usize> = all.iter().map(|(_, pair)| pair.record).collect();
    #[derive(Default)]
    struct Operation {
        captured: bool,
        times: Vec<f64>,
        n_ranks: u32,
    }
    let mut operations: BTreeMap<(&str, CommOp, u64, u64), Operation> = BTreeMap::new();
    for (i, record) in logs.ops.iter().enumerate().filter(|(_, r)| !r.p2p && r.timing == Timing::KernelGpu) {
        let origin = &logs.origins[record.origin];
        let trusted = trust.iter().any(|t| t.trusted && t.comm_id == origin.comm_id);
        if let (Some(sn), Some(bytes), Some(us), true) = (record.sn, record.bytes, record.exec_us, trusted) {
            let operation = operations.entry((&origin.comm_id, record.op, bytes, sn)).or_default();
            operation.captured |= captured.contains(&i);
            operation.times.push(us);
            operation.n_ranks = origin.n_ranks;
        }
    }
    #[derive(Default)]
    struct Side {
        busbw: Vec<f64>,
        wait: Vec<f64>,
    }
    let mut groups: BTreeMap<(&str, CommOp, u64), [Side; 2]> = BTreeMap::new();
    for ((comm, op, bytes, _), operation) in operations {
        let shortest = operation.times.iter().copied().fold(f64::INFINITY, f64::min);
        let longest = operation.times.iter().copied().fold(0.0, f64::max);
        if shortest > 0.0 && shortest.is_finite() {
            let side = &mut groups.entry((comm, op, bytes)).or_default()[usize::from(operation.captured)];
            side.busbw.push(busbw_gbs(op, bytes, operation.n_ranks, shortest));
            if operation.times.len() > 1 {
                side.wait.push(longest - shortest);
            }
        }
    }
    groups
        .into_iter()
        .filter(|(_, [_, inside])| !inside.busbw.is_empty())
        .map(|((comm, op, bytes), [rest, inside])| {
            let captured_median = stats::median(&inside.busbw);
            let (low, high) = (stats::quantile(&rest.busbw, 0.05), stats::quantile(&rest.busbw, 0.95));
            let enough = inside.busbw.len() >= MIN_CAPTURED && rest.busbw.len() >= MIN_REST;
            let verdict = match (captured_median, low, high) {
                (Some(median), Some(low), Some(high)) if enough => Some(match median {
                    m if m < low => "slower than the rest",
                    m if m > high => "faster than the rest",
                    _ => "typical",
                }),
                _ => None,
            };
            Typical {
                comm_id: comm.to_owned(),
                op: op.label().to_owned(),
                bytes,
                captured: inside.busbw.len() as u64,
                captured_busbw_gbs: captured_median,
                captured_wait_us: stats::median(&inside.wait),
                rest: rest.busbw.len() as u64,
                rest_busbw_gbs: stats::median(&rest.busbw),
                rest_busbw_p5_gbs: low,
                rest_busbw_p95_gbs: high,
                rest_wait_us: stats::median(&rest.wait),
                verdict: verdict.map(str::to_owned),
                reason: verdict
                    .is_none()
                    .then(|| format!("fewer than {MIN_CAPTURED} captured or {MIN_REST} other operations of this size")),
            }
        })
        .collect()
}

/// How much longer the slowest channel of an operation works than the mean of its channels, from verbose records.
pub fn channels(all: &[(usize, Pair)], logs: &Collected) -> Option<ChannelImbalance> {
    let mut ratios = Vec::new();
    let mut most = 0;
    for (_, pair) in all {
        let Some(stamps) = &logs.ops[pair.record].stamps else { continue };
        let times: Vec<f64> =
            stamps.channels.iter().filter_map(|c| Some((c.stop_us? - c.start_us?) as f64)).filter(|us| *us >= 0.0).collect();
        let mean = stats::mean(&times).filter(|mean| *mean > 0.0 && times.len() > 1);
        if let Some(mean) = mean {
            most = most.max(times.len());
            ratios.push(times.iter().copied().fold(0.0, f64::max) / mean);
        }
    }
    Some(ChannelImbalance {
        operations: ratios.len() as u64,
        channels: most as u64,
        max_over_mean_p50: stats::quantile(&ratios, 0.5)?,
        max_over_mean_p95: stats::quantile(&ratios, 0.95)?,
    })
}
