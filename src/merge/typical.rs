//! Where the captured part stands in the whole run, whether it is like the rest of it, and how evenly channels work.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::Collected;
use super::pair::Pair;
use crate::model::CommOp;
use crate::model::record::busbw_gbs;
use crate::report::{Captured, ChannelImbalance, CommTrust, Typical};
use crate::stats;

/// Fewer operations than this on either side say nothing.
const MIN_CAPTURED: usize = 3;
const MIN_REST: usize = 5;
/// A captured median that lies further from the median of the rest than twice its scaled median absolute deviation ...
const DEVIATIONS: f64 = 2.0;
/// ... and than this share of it is not typical. Shares of waiting are of the whole operation.
const SHARE: f64 = 0.05;
/// Channels that work shorter than this (microseconds) are not compared: the host notices their ends some ten microseconds late.
const MIN_CHANNEL_US: f64 = 500.0;

/// A communicator and a collective on it.
type Key<'a> = (&'a str, CommOp);

/// The numbers that the capture covers: of each communicator and collective, from the first to the last paired one.
pub fn captured(all: &[(usize, Pair)], logs: &Collected) -> Vec<Captured> {
    let mut list = Vec::new();
    for ((comm, op), (first, last)) in covered(all, logs) {
        let logged = logs.ops.iter().filter(|r| !r.p2p && r.op == op && logs.origins[r.origin as usize].comm_id == comm);
        let numbers = logged.filter_map(|r| r.sn).fold((u64::MAX, 0), |(low, high), sn| (low.min(sn), high.max(sn)));
        list.push(Captured {
            comm_id: comm.to_owned(),
            op: op.label().to_owned(),
            first_sn: first,
            last_sn: last,
            first_logged_sn: numbers.0,
            last_logged_sn: numbers.1,
        });
    }
    list
}

fn covered<'a>(all: &[(usize, Pair)], logs: &'a Collected) -> BTreeMap<Key<'a>, (u64, u64)> {
    let mut ranges: BTreeMap<Key<'a>, (u64, u64)> = BTreeMap::new();
    for (_, pair) in all {
        let record = &logs.ops[pair.record];
        if let (Some(sn), false) = (record.sn, record.p2p) {
            let range = ranges.entry((&logs.origins[record.origin as usize].comm_id, record.op)).or_insert((sn, sn));
            *range = (range.0.min(sn), range.1.max(sn));
        }
    }
    ranges
}

/// One collective, over the ranks that logged it.
#[derive(Default)]
struct Operation {
    shortest: f64,
    longest: f64,
    ranks: u32,
    n_ranks: u32,
}

/// Bandwidths and waits of the operations on one side.
#[derive(Default)]
struct Side {
    busbw: Vec<f64>,
    wait: Vec<f64>,
    time: Vec<f64>,
}

/// For each communicator, operation and size: bandwidth and waiting of the captured operations beside all others of the run.
///
/// One operation counts once: its time is the shortest over the ranks that logged it, its wait the longest minus the shortest. An
/// operation that fewer ranks logged than others of its communicator does not compare with them and is left out.
pub fn typical(all: &[(usize, Pair)], logs: &Collected, trust: &[CommTrust]) -> Vec<Typical> {
    let covered = covered(all, logs);
    let trusted: BTreeSet<&str> = trust.iter().filter(|t| t.trusted).map(|t| t.comm_id.as_str()).collect();
    let mut operations: BTreeMap<(Key<'_>, u64, u64), Operation> = BTreeMap::new();
    for record in logs.ops.iter().filter(|r| !r.p2p && r.is_gpu_timed()) {
        let origin = &logs.origins[record.origin as usize];
        let key = (origin.comm_id.as_str(), record.op);
        if let (Some(sn), Some(bytes), Some(us)) = (record.sn, record.bytes, record.exec_us)
            && trusted.contains(key.0)
            && covered.contains_key(&key)
        {
            let operation = operations.entry((key, bytes, sn)).or_default();
            let first = operation.ranks == 0;
            operation.shortest = if first { us } else { operation.shortest.min(us) };
            operation.longest = operation.longest.max(us);
            operation.ranks += 1;
            operation.n_ranks = origin.n_ranks;
        }
    }
    let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
    for (((comm, _), ..), operation) in &operations {
        let most = ranks.entry(comm).or_default();
        *most = (*most).max(operation.ranks);
    }
    let mut groups: BTreeMap<(Key<'_>, u64), (u32, [Side; 2])> = BTreeMap::new();
    for ((key, bytes, sn), operation) in operations {
        if ranks.get(key.0) != Some(&operation.ranks) {
            continue;
        }
        let inside = covered.get(&key).is_some_and(|(first, last)| (first..=last).contains(&&sn));
        let (n_ranks, sides) = groups.entry((key, bytes)).or_default();
        *n_ranks = operation.n_ranks;
        let side = &mut sides[usize::from(inside)];
        side.busbw.push(busbw_gbs(key.1, bytes, operation.n_ranks, operation.shortest));
        side.time.push(operation.longest);
        if operation.ranks > 1 {
            side.wait.push(operation.longest - operation.shortest);
        }
    }
    let with_captured = groups.into_iter().filter(|(_, (_, [_, inside]))| !inside.busbw.is_empty());
    with_captured
        .map(|(((comm, op), bytes), (n_ranks, [rest, inside]))| {
            let enough = inside.busbw.len() >= MIN_CAPTURED && rest.busbw.len() >= MIN_REST;
            let (busbw, rest_busbw) = (stats::median(&inside.busbw), stats::median(&rest.busbw));
            let (wait, rest_wait) = (stats::median(&inside.wait), stats::median(&rest.wait));
            let verdict = busbw.zip(rest_busbw).filter(|_| enough).map(|(own, other)| match differs(own, other, &rest.busbw, other) {
                true if own < other => "slower",
                true => "faster",
                false => "typical",
            });
            let whole = stats::median(&inside.time).unwrap_or(0.0);
            let wait_verdict = wait.zip(rest_wait).filter(|_| enough).map(|(own, other)| match differs(own, other, &rest.wait, whole) {
                true if own < other => "shorter",
                true => "longer",
                false => "typical",
            });
            Typical {
                comm_id: comm.to_owned(),
                op: op.label().to_owned(),
                bytes,
                ranks_logged: ranks.get(comm).copied().unwrap_or(0),
                n_ranks,
                captured: inside.busbw.len() as u64,
                captured_busbw_gbs: busbw,
                captured_wait_us: wait,
                rest: rest.busbw.len() as u64,
                rest_busbw_gbs: rest_busbw,
                rest_busbw_p5_gbs: stats::quantile(&rest.busbw, 0.05),
                rest_busbw_p95_gbs: stats::quantile(&rest.busbw, 0.95),
                rest_wait_us: rest_wait,
                verdict: verdict.map(str::to_owned),
                wait_verdict: wait_verdict.map(str::to_owned),
                reason: (!enough).then(|| format!("fewer than {MIN_CAPTURED} captured or {MIN_REST} other operations of this size")),
            }
        })
        .collect()
}

/// True if the median `own` lies beside the values of the rest, whose median is `other`, by more than a share of `whole`.
fn differs(own: f64, other: f64, rest: &[f64], whole: f64) -> bool {
    let distance = (own - other).abs();
    distance > SHARE * whole && distance > DEVIATIONS * stats::scaled_mad(rest).unwrap_or(f64::INFINITY)
}

/// How much longer the slowest channel of an operation works than the mean of its channels, from verbose records whose times can be
/// trusted. `None` without an operation that is long enough.
pub fn channels(all: &[(usize, Pair)], logs: &Collected, trust: &[CommTrust]) -> Option<ChannelImbalance> {
    let mut ratios = Vec::new();
    let mut most = 0;
    for (_, pair) in all {
        let record = &logs.ops[pair.record];
        let Some(verbose) = record.verbose.as_ref().filter(|v| v.channels > 1 && v.mean_us >= MIN_CHANNEL_US) else { continue };
        let comm = &logs.origins[record.origin as usize].comm_id;
        if trust.iter().any(|t| t.trusted && t.comm_id == *comm) {
            most = most.max(verbose.channels);
            ratios.push(verbose.slowest_us / verbose.mean_us);
        }
    }
    Some(ChannelImbalance {
        operations: ratios.len() as u64,
        channels: u64::from(most),
        max_over_mean_p50: stats::quantile(&ratios, 0.5)?,
        max_over_mean_p95: stats::quantile(&ratios, 0.95)?,
    })
}
