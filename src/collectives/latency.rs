//! Latency and bandwidth of an operation from its times at several sizes: time = latency + bytes / bandwidth (metrics
//! definition, section 6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::groups::CollectiveGroup;
use crate::model::CommOp;
use crate::stats;

/// Fewest sizes that a line is drawn through.
const FEWEST_SIZES: usize = 3;
/// The largest size is at least so many times the smallest.
const LEAST_SPREAD: f64 = 4.0;

/// What an operation on a communicator takes over its sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeFit {
    /// `AllReduce`, ...
    pub op: CommOp,
    /// Communicator id as `0x` + 16 hex digits.
    pub comm_id: Option<String>,
    /// Of sends that go one way only: the rank that sends.
    pub from_rank: Option<u32>,
    /// Different sizes with a transfer time.
    pub sizes: usize,
    /// Calls of these sizes.
    pub calls: u64,
    /// Time of a message without bytes, ns.
    pub latency_ns: Option<f64>,
    /// Bytes that each further second moves, as the payload is logged, decimal GB/s.
    pub gbs: Option<f64>,
    /// Payload at which half of the time is latency: what is smaller moves at less than half speed, bytes.
    pub half_speed_bytes: Option<u64>,
    /// Calls smaller than that.
    pub calls_below: Option<u64>,
    /// Their transfer time in all, ns.
    pub below_ns: Option<i64>,
    /// Why there is no line.
    pub reason: Option<String>,
}

/// One fit for each operation and communicator whose calls have sizes, in order of the groups.
pub(crate) fn fits(groups: &[CollectiveGroup]) -> Vec<SizeFit> {
    type Key<'a> = (CommOp, Option<&'a str>, Option<u32>);
    let mut of: BTreeMap<Key<'_>, (usize, Vec<&CollectiveGroup>)> = BTreeMap::new();
    let timed = |group: &&CollectiveGroup| group.bytes.is_some_and(|bytes| bytes > 0);
    for (at, group) in groups.iter().enumerate().filter(|(_, group)| timed(group)) {
        let key = (group.op, group.comm_id.as_deref(), group.from_rank);
        of.entry(key).or_insert((at, Vec::new())).1.push(group);
    }
    let mut list: Vec<(usize, SizeFit)> =
        of.into_values().filter_map(|(at, groups)| Some((at, fit(&groups)?))).collect();
    list.sort_by_key(|(at, _)| *at);
    list.into_iter().map(|(_, fit)| fit).collect()
}

fn fit(groups: &[&CollectiveGroup]) -> Option<SizeFit> {
    let first = groups.first()?;
    // One point a size: the mean over groups of one size (other ranks of the communicator were captured), by calls.
    let mut points: BTreeMap<u64, (f64, u64)> = BTreeMap::new();
    for group in groups {
        if let (Some(bytes), Some(ns)) = (group.bytes, group.transfer_ns) {
            let point = points.entry(bytes).or_default();
            *point = (point.0 + ns as f64 * group.count as f64, point.1 + group.count);
        }
    }
    let line: Vec<(f64, f64)> = points
        .iter()
        .map(|(&bytes, &(ns, calls))| (bytes as f64, ns / calls.max(1) as f64))
        .collect();
    let none = SizeFit {
        op: first.op,
        comm_id: first.comm_id.clone(),
        from_rank: first.from_rank,
        sizes: points.len(),
        calls: points.values().map(|point| point.1).sum(),
        ..SizeFit::default()
    };
    let (latency, slope) = match theil_sen(&line) {
        Ok(line) => line,
        Err(reason) => return Some(SizeFit { reason: Some(reason), ..none }),
    };
    let half = latency / slope;
    let below = || points.iter().filter(|(bytes, _)| (**bytes as f64) < half);
    Some(SizeFit {
        latency_ns: Some(latency),
        gbs: Some(1.0 / slope),
        half_speed_bytes: Some(half.round() as u64),
        calls_below: Some(below().map(|(_, point)| point.1).sum()),
        below_ns: Some(below().map(|(_, point)| point.0).sum::<f64>().round() as i64),
        ..none
    })
}

/// Time without bytes (ns) and time a byte (ns) of a line through points in order of their size: the median of the slopes between
/// all pairs, and the median of what is left. One size in four may be far off.
fn theil_sen(points: &[(f64, f64)]) -> Result<(f64, f64), String> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Err("no call has a transfer time".to_owned());
    };
    if points.len() < FEWEST_SIZES {
        return Err(format!(
            "{}: a line takes at least {FEWEST_SIZES}",
            crate::units::plural(points.len(), "size")
        ));
    }
    if last.0 < LEAST_SPREAD * first.0 {
        return Err(format!("the largest size is under {LEAST_SPREAD} times the smallest"));
    }
    // Of very many sizes some, evenly: pairs grow with the square.
    let every = points.len().div_ceil(MOST_POINTS);
    let points: Vec<(f64, f64)> = points.iter().step_by(every).copied().collect();
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(i, a)| points[i + 1..].iter().map(move |b| (b.1 - a.1) / (b.0 - a.0)));
    let slope = stats::median(&pairs.collect::<Vec<f64>>()).unwrap_or(0.0);
    if slope <= 0.0 {
        return Err("larger messages take no longer".to_owned());
    }
    let rest: Vec<f64> = points.iter().map(|point| point.1 - slope * point.0).collect();
    match stats::median(&rest) {
        Some(latency) if latency > 0.0 => Ok((latency, slope)),
        _ => Err("times grow faster than sizes: no latency can be told".to_owned()),
    }
}

/// Sizes that a line is drawn through, at most.
const MOST_POINTS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn group(bytes: u64, transfer_ns: i64, count: u64) -> CollectiveGroup {
        CollectiveGroup {
            op: CommOp::AllReduce,
            comm_id: Some("0x1".to_owned()),
            bytes: Some(bytes),
            transfer_ns: Some(transfer_ns),
            count,
            ..CollectiveGroup::default()
        }
    }

    // 20 us and 10 GB/s (0.1 ns a byte): half speed at 200,000 bytes. The size of 400,000 is far off and changes nothing.
    #[test]
    fn a_line_through_sizes_of_which_one_is_far_off() {
        let at = |bytes: u64| 20_000 + bytes as i64 / 10;
        let sizes = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
        let mut groups: Vec<_> = sizes.iter().map(|&bytes| group(bytes, at(bytes), 2)).collect();
        groups.push(group(400_000, 900_000, 1));
        let fits = fits(&groups);
        assert_eq!(fits.len(), 1);
        let fit = &fits[0];
        assert!((fit.latency_ns.expect("a line") - 20_000.0).abs() < 200.0, "{fit:?}");
        assert!((fit.gbs.expect("a line") - 10.0).abs() < 0.1, "{fit:?}");
        assert!((195_000..205_000).contains(&fit.half_speed_bytes.expect("a line")), "{fit:?}");
        // 2 calls of each of the three sizes below it: 20.1, 21 and 30 us.
        assert_eq!((fit.calls, fit.calls_below, fit.below_ns), (13, Some(6), Some(142_200)));
    }

    #[test]
    fn too_few_sizes_have_a_reason_and_no_number() {
        let two = fits(&[group(1_000, 20_000, 1), group(1_000_000, 120_000, 1)]);
        assert_eq!(two[0].reason.as_deref(), Some("2 sizes: a line takes at least 3"));
        assert_eq!((two[0].latency_ns, two[0].half_speed_bytes), (None, None));
        let near = fits(&[group(100, 9, 1), group(200, 10, 1), group(300, 11, 1)]);
        assert_eq!(
            near[0].reason.as_deref(),
            Some("the largest size is under 4 times the smallest")
        );
        let flat = fits(&[group(100, 9, 1), group(2000, 9, 1), group(30_000, 9, 1)]);
        assert_eq!(flat[0].reason.as_deref(), Some("larger messages take no longer"));
    }
}
