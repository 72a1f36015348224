//! Where the captured part stands in the whole run, whether it is like the rest of it, and how evenly channels work.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::{Collected, Kind, LoggedOp};
use super::kernels::Pair;
use crate::merge::view::{Captured, ChannelImbalance, CommTrust, Typical};
use crate::model::CommOp;
use crate::model::record::busbw_gbs;
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
pub(crate) fn captured(all: &[(usize, Pair)], logs: &Collected) -> Vec<Captured> {
    let series = series(logs);
    let one = |((comm, op), (first, last)): (Key<'_>, (u64, u64))| {
        let logged = series
            .get(&(comm, op))
            .into_iter()
            .flatten()
            .flat_map(|ops| ops.iter().filter_map(|op| op.sn));
        let (low, high) = logged.fold((first, last), |(low, high), sn| (low.min(sn), high.max(sn)));
        Captured {
            comm_id: comm.to_owned(),
            op,
            first_sn: first,
            last_sn: last,
            first_logged_sn: low,
            last_logged_sn: high,
        }
    };
    covered(all, logs).into_iter().map(one).collect()
}

/// The records of each collective, one list for each rank.
fn series(logs: &Collected) -> BTreeMap<Key<'_>, Vec<&[LoggedOp]>> {
    let mut by_key: BTreeMap<Key<'_>, Vec<&[LoggedOp]>> = BTreeMap::new();
    for series in &logs.series {
        if let Kind::Coll(op) = series.kind {
            by_key
                .entry((&logs.origins[series.origin].comm_id, op))
                .or_default()
                .push(&logs.ops[series.ops.clone()]);
        }
    }
    by_key
}

fn covered<'a>(all: &[(usize, Pair)], logs: &'a Collected) -> BTreeMap<Key<'a>, (u64, u64)> {
    let mut ranges: BTreeMap<Key<'a>, (u64, u64)> = BTreeMap::new();
    for (_, pair) in all {
        let record = &logs.ops[pair.record];
        if let (Some(sn), false) = (record.sn, record.p2p) {
            let range = ranges
                .entry((&logs.origins[record.origin as usize].comm_id, record.op))
                .or_insert((sn, sn));
            *range = (range.0.min(sn), range.1.max(sn));
        }
    }
    ranges
}

/// One collective on one rank.
struct Logged {
    bytes: u64,
    sn: u64,
    us: f64,
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
/// operation that fewer ranks logged than others of its kind does not compare with them and is left out.
pub(crate) fn typical(
    all: &[(usize, Pair)],
    logs: &Collected,
    trust: &[CommTrust],
) -> Vec<Typical> {
    let trusted: BTreeSet<&str> =
        trust.iter().filter(|t| t.trusted).map(|t| t.comm_id.as_str()).collect();
    let series = series(logs);
    let mut list = Vec::new();
    for (key, (first, last)) in
        covered(all, logs).into_iter().filter(|((comm, _), _)| trusted.contains(comm))
    {
        let n_ranks = logs
            .origins
            .iter()
            .find(|origin| origin.comm_id == key.0)
            .map_or(0, |origin| origin.n_ranks);
        let records = series
            .get(&key)
            .into_iter()
            .flatten()
            .copied()
            .flatten()
            .filter(|op| op.is_gpu_timed());
        let mut logged: Vec<Logged> = records
            .filter_map(|op| Some(Logged { bytes: op.bytes?, sn: op.sn?, us: op.exec_us? }))
            .collect();
        logged.sort_by_key(|op| (op.bytes, op.sn));
        let ranks = logged
            .chunk_by(|a, b| (a.bytes, a.sn) == (b.bytes, b.sn))
            .map(<[Logged]>::len)
            .max()
            .unwrap_or(0);
        for size in logged.chunk_by(|a, b| a.bytes == b.bytes) {
            let mut sides = [Side::default(), Side::default()];
            for operation in
                size.chunk_by(|a, b| a.sn == b.sn).filter(|operation| operation.len() == ranks)
            {
                let shortest = operation.iter().map(|op| op.us).fold(f64::INFINITY, f64::min);
                let longest = operation.iter().map(|op| op.us).fold(0.0, f64::max);
                let side = &mut sides[usize::from((first..=last).contains(&operation[0].sn))];
                side.busbw.push(busbw_gbs(key.1, size[0].bytes, n_ranks, shortest));
                side.time.push(longest);
                if ranks > 1 {
                    side.wait.push(longest - shortest);
                }
            }
            let [rest, inside] = sides;
            if !inside.busbw.is_empty() {
                list.push(compared(key, size[0].bytes, (ranks, n_ranks), &inside, &rest));
            }
        }
    }
    list
}

fn compared(
    (comm, op): Key<'_>,
    bytes: u64,
    (ranks, n_ranks): (usize, u32),
    inside: &Side,
    rest: &Side,
) -> Typical {
    let enough = inside.busbw.len() >= MIN_CAPTURED && rest.busbw.len() >= MIN_REST;
    let (busbw, rest_busbw) = (stats::median(&inside.busbw), stats::median(&rest.busbw));
    let (wait, rest_wait) = (stats::median(&inside.wait), stats::median(&rest.wait));
    let whole = stats::median(&inside.time).unwrap_or(0.0);
    let verdict = busbw.zip(rest_busbw).filter(|_| enough).map(|(own, other)| {
        match differs(own, other, &rest.busbw, other) {
            true if own < other => "slower",
            true => "faster",
            false => "typical",
        }
    });
    let wait_verdict = wait.zip(rest_wait).filter(|_| enough).map(|(own, other)| {
        match differs(own, other, &rest.wait, whole) {
            true if own < other => "shorter",
            true => "longer",
            false => "typical",
        }
    });
    Typical {
        comm_id: comm.to_owned(),
        op,
        bytes,
        ranks_logged: u32::try_from(ranks).unwrap_or(u32::MAX),
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
        reason: (!enough).then(|| {
            format!(
                "fewer than {MIN_CAPTURED} captured or {MIN_REST} other operations of this size"
            )
        }),
    }
}

/// True if the median `own` lies beside the values of the rest, whose median is `other`, by more than a share of `whole`.
fn differs(own: f64, other: f64, rest: &[f64], whole: f64) -> bool {
    let distance = (own - other).abs();
    distance > SHARE * whole
        && distance > DEVIATIONS * stats::scaled_mad(rest).unwrap_or(f64::INFINITY)
}

/// How much longer the slowest channel of an operation works than the mean of its channels, from verbose records whose times can be
/// trusted. `None` without an operation that is long enough.
pub(crate) fn channels(
    all: &[(usize, Pair)],
    logs: &Collected,
    trust: &[CommTrust],
) -> Option<ChannelImbalance> {
    let mut ratios = Vec::new();
    let mut most = 0;
    for (_, pair) in all {
        let record = &logs.ops[pair.record];
        let Some(verbose) =
            record.verbose.as_ref().filter(|v| v.channels > 1 && v.mean_us >= MIN_CHANNEL_US)
        else {
            continue;
        };
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
