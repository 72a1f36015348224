//! Whether the times that Inspector logged are those of the kernels.

use std::collections::BTreeMap;

use super::collect::{Collected, LoggedOp};
use super::kernels::Pair;
use crate::catalogue::Id;
use crate::collectives::events::Event;
use crate::merge::view::{CommTrust, DeltaUs};
use crate::stats;
use crate::units;
use crate::warning::Warning;

/// A difference of durations up to here is what timers and rounding explain, microseconds.
pub(crate) const CLOSE_US: f64 = 10.0;
/// Or up to this share of the kernel's duration.
pub(crate) const CLOSE_SHARE: f64 = 0.05;
/// A communicator whose pairs differ more often than this is not trusted.
pub(crate) const MAX_DISAGREEING: f64 = 0.1;

/// How far a logged duration is from the kernel's, microseconds.
pub(crate) fn delta_us(event: &Event, exec_us: f64) -> f64 {
    (exec_us - event.duration() as f64 / 1e3).abs()
}

/// A logged duration is that of a kernel if it is this close, microseconds: what timers explain, twice over. (Trust is wider: among long
/// kernels 5 % is what any two of them differ by.)
pub(crate) const SAME_US: f64 = 2.0 * CLOSE_US;

/// Whether the durations are as close as only those of a kernel and its own record are: within 20 us. (The limit for trust is wider:
/// among long kernels 5 % is what any two of them differ by.) `None` without a duration by the GPU's timer.
pub(crate) fn is_close(event: &Event, record: &LoggedOp) -> Option<bool> {
    Some(delta_us(event, record.exec_us.filter(|_| record.is_gpu_timed())?) <= SAME_US)
}

/// True if a logged duration is not that of the kernel.
pub(crate) fn disagrees(event: &Event, exec_us: f64) -> bool {
    let delta = delta_us(event, exec_us);
    delta > CLOSE_US && delta > CLOSE_SHARE * event.duration() as f64 / 1e3
}

/// Median, 95th percentile and maximum, rounded to nanoseconds; `None` without values.
pub(crate) fn spread_us(deltas: &[f64]) -> Option<DeltaUs> {
    let at = |q| stats::quantile(deltas, q).map(|us| (us * 1e3).round() / 1e3);
    Some(DeltaUs { p50: at(0.5)?, p95: at(0.95)?, max: at(1.0)? })
}

/// The verdict on each communicator that has pairs. Pairs without a logged time do not count; without any other there is no trust.
pub(crate) fn trust(
    all: &[(usize, Pair)],
    events: &[Vec<Event>],
    logs: &Collected,
) -> Vec<CommTrust> {
    #[derive(Default)]
    struct Seen {
        deltas: Vec<f64>,
        disagreeing: u64,
        by_host: u64,
    }
    let mut by_comm: BTreeMap<&str, Seen> = BTreeMap::new();
    for (r, pair) in all {
        let (event, record) = (&events[*r][pair.event], &logs.ops[pair.record]);
        let seen = by_comm.entry(&logs.origins[record.origin as usize].comm_id).or_default();
        if let Some(us) = record.exec_us {
            seen.deltas.push(delta_us(event, us));
            seen.disagreeing += u64::from(disagrees(event, us));
            seen.by_host += u64::from(disagrees(event, us) && !record.is_gpu_timed());
        }
    }
    let verdict = |(comm, seen): (&str, Seen)| CommTrust {
        comm_id: comm.to_owned(),
        pairs: seen.deltas.len() as u64,
        disagreeing: seen.disagreeing,
        disagreeing_by_host: seen.by_host,
        duration_delta_us: spread_us(&seen.deltas),
        trusted: !seen.deltas.is_empty()
            && seen.disagreeing as f64 <= MAX_DISAGREEING * seen.deltas.len() as f64,
    };
    by_comm.into_iter().map(verdict).collect()
}

/// Says which communicators are not trusted.
pub(crate) fn warnings(trust: &[CommTrust]) -> Vec<Warning> {
    let distrusted = trust.iter().filter(|t| !t.trusted && t.pairs > 0);
    let us = |us: f64| units::time((us * 1e3).round() as i64);
    distrusted
        .map(|t| {
            let how_far = t.duration_delta_us.map_or(String::new(), |d| format!(" (median {}, at most {})", us(d.p50), us(d.max)));
            let by_host = match t.disagreeing_by_host {
                0 => String::new(),
                n if n == t.disagreeing => " All of these were timed by the host, not by the GPU.".to_owned(),
                n => format!(" {} of these were timed by the host, not by the GPU.", units::count(n)),
            };
            Warning::new(
                Id::InspectorTimesDiffer,
                format!(
                    "Inspector's times on communicator {} are not those of the kernels: {} of {} pairs differ by more than 10 µs and 5 %{how_far}.{by_host} The pairs are kept; no bandwidth is computed from these times.",
                    t.comm_id,
                    units::count(t.disagreeing),
                    units::count(t.pairs)
                ),
            )
            .with_hint(
                "The kernel times of the trace count. This is known where sends or receives share a communicator with collectives (Inspector logs times of other operations), and where the channels of a kernel start one after the other (it logs the longest channel).",
            )
        })
        .collect()
}
