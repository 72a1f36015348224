//! Kernels of a trace beside the records of NCCL Inspector (docs/metrics.md, section 7).
//!
//! ```text
//! logs --collect--> series of numbered records --owners--> those of each rank --pair--> pairs, and reasons for what is alone
//!                                                                 pairs --trust, typical--> what both say together
//! ```

pub(crate) mod clock;
pub(crate) mod collect;
pub(crate) mod guess;
pub(crate) mod kernels;
pub(crate) mod leftover;
pub(crate) mod lost;
pub(crate) mod owners;
pub(crate) mod pair;
pub(crate) mod parts;
pub(crate) mod place;
#[cfg(test)]
mod scale;
pub(crate) mod trust;
pub(crate) mod typical;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

pub(crate) use self::collect::LoggedOp;

use self::clock::Clock;
use self::collect::Collected;
use self::kernels::{Pair, RankKernels};
use self::pair::Found;
use crate::catalogue::Id;
use crate::collectives::events::{BytesSource, Event};
use crate::merge::view::{CommTrust, InspectorMerge, InspectorPair, InspectorRank, LoggedWindow};
use crate::model::record::busbw_gbs;
use crate::text::{printable, shorten};
use crate::units;
use crate::warning::Warning;

/// What the logs add, with what the reader has to know.
#[derive(Debug)]
pub struct Merged {
    /// For the report.
    pub view: InspectorMerge,
    /// Missing logs, losses, times that cannot be trusted.
    pub warnings: Vec<Warning>,
}

/// Clocks that differ by less than this, microseconds, are no reason to doubt.
const SHIFT_US: f64 = 50_000.0;

/// Characters of a host's name that are shown.
const NAME_LENGTH: usize = 64;

/// Why the kernels of a rank without any record are alone.
pub(crate) const NO_LOG: &str = "no log of this process";

/// Pairs the communication of all ranks with the collected records, gives sizes to events that have none, and says how far
/// both agree. `events` are those of each rank of `ranks`.
pub(crate) fn merge(ranks: &[RankKernels], events: &mut [Vec<Event>], logs: &Collected) -> Merged {
    let owners::Owned { series: owned, other_hosts } = owners::owners(ranks, events, logs);
    let found = find(ranks, events, &owned, logs);
    let mut view = InspectorMerge {
        files: logs.files.len(),
        records: logs.files.iter().map(|f| f.records).sum(),
        formats: logs
            .files
            .iter()
            .flat_map(|f| f.formats.iter().cloned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        bad_lines: logs.files.iter().map(|f| f.bad_lines).sum(),
        repeated_records: logs.repeated,
        unnamed_records: logs.unnamed,
        dropped: logs.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.lost)),
        ..InspectorMerge::default()
    };
    let mut warnings: Vec<Warning> = hosts(&other_hosts).into_iter().collect();
    let mut all: Vec<(usize, Pair)> = Vec::new();
    for (r, (rank, found)) in ranks.iter().zip(&found).enumerate() {
        let kernels = events[r].len() as u64;
        let records: usize = owned[r].iter().map(|&s| logs.series[s].ops.len()).sum();
        if owned[r].is_empty() {
            view.missing_ranks.push(rank.rank);
            count(&mut view.unmatched, NO_LOG, kernels);
            warnings.push(missing(rank, logs));
        }
        found.alone.iter().for_each(|(why, &n)| count(&mut view.unmatched, why, n));
        found.records_alone.iter().for_each(|(why, &n)| count(&mut view.unmatched_records, why, n));
        let paired = found.pairs.chunk_by(|a, b| a.event == b.event).count() as u64;
        let unmatched_records = found.in_capture.saturating_sub(found.pairs.len() as u64);
        view.ranks.push(InspectorRank {
            rank: rank.rank,
            kernels,
            paired,
            records: records as u64,
            records_in_capture: found.in_capture,
            unmatched_kernels: kernels - paired,
            unmatched_records,
            clock_shift_us: found.shift_us.map(f64::round),
        });
        warnings.extend(
            found.shift_us.filter(|us| us.abs() > SHIFT_US).map(|us| clock_warning(rank.rank, us)),
        );
        all.extend(found.pairs.iter().map(|&pair| (r, pair)));
    }
    let trust = trust::trust(&all, events, logs);
    warnings.extend(trust::warnings(&trust));
    warnings.extend(losses(ranks, &found, &owned, logs));
    warnings.extend(repeated(logs));
    // Gaps concern a report only where a kernel lacks its record.
    if view.ranks.iter().any(|r| r.records > 0 && r.unmatched_kernels > 0) {
        warnings.extend(lost::warning(ranks, &owned, logs));
    }
    let deltas: Vec<f64> = all
        .iter()
        .filter_map(|(r, p)| {
            Some(trust::delta_us(&events[*r][p.event], logs.ops[p.record].exec_us?))
        })
        .collect();
    view.duration_delta_us = trust::spread_us(&deltas);
    view.pairs = all
        .iter()
        .map(|(r, p)| {
            view_pair(ranks[*r].rank, &events[*r][p.event], &logs.ops[p.record], logs, &trust)
        })
        .collect();
    view.window = window(ranks, &found, &all, logs);
    view.captured = typical::captured(&all, logs);
    view.typical = typical::typical(&all, logs, &trust);
    view.channel_imbalance = typical::channels(&all, logs, &trust);
    view.trust = trust;
    give_sizes(&all, events, logs);
    Merged { view, warnings }
}

/// The pairs of every rank. Where the clock of one log is off, so is that of the others of its host.
fn find(
    ranks: &[RankKernels],
    events: &[Vec<Event>],
    owned: &[Vec<usize>],
    logs: &Collected,
) -> Vec<Found> {
    let pair = |r: usize, shift_us| pair::pair(&ranks[r], &events[r], &owned[r], logs, shift_us);
    let found: Vec<Found> = (0..ranks.len()).into_par_iter().map(|r| pair(r, None)).collect();
    let of_host = |host: &Option<String>| {
        ranks
            .iter()
            .zip(&found)
            .find_map(|(rank, found)| found.shift_us.filter(|_| rank.hostname == *host))
    };
    let shifts: Vec<Option<f64>> = ranks.iter().map(|rank| of_host(&rank.hostname)).collect();
    let again = |(r, found): (usize, Found)| {
        if shifts[r].is_some() && found.shift_us.is_none() { pair(r, shifts[r]) } else { found }
    };
    found.into_par_iter().enumerate().map(again).collect()
}

fn count(reasons: &mut BTreeMap<String, u64>, why: &str, n: u64) {
    if n > 0 {
        *reasons.entry(why.to_owned()).or_default() += n;
    }
}

/// Names a rank without a record, and what the logs have instead.
fn missing(rank: &RankKernels, logs: &Collected) -> Warning {
    let host = rank.hostname.as_ref().map_or(String::new(), |host| format!(" on {host}"));
    let same_pid: BTreeSet<&str> = logs
        .origins
        .iter()
        .filter(|o| o.pid == Some(rank.pid))
        .map(|o| o.hostname.as_str())
        .collect();
    let same_host =
        logs.origins.iter().any(|o| collect::is_of(o, rank.pid, rank.hostname.as_deref()));
    let why = match same_pid.first() {
        _ if same_host => "its log holds no operation".to_owned(),
        Some(other) => {
            format!("there is a log of process {} on {other}, which is another host", rank.pid)
        }
        None => "its log is not among the files, or nothing was written".to_owned(),
    };
    Warning::new(Id::InspectorRankMissing, format!("No Inspector record of rank {} (process {}{host}): {why}.", rank.rank, rank.pid))
        .with_hint("Give the folder with all logs; the process must live longer than the dump interval after its last operation.")
}

/// Says whose logs name another host.
fn hosts(other_hosts: &[(u32, String)]) -> Option<Warning> {
    let (rank, name) = other_hosts.first()?;
    let ranks: Vec<u32> = other_hosts.iter().map(|(rank, _)| *rank).collect();
    Some(Warning::new(
        Id::InspectorHost,
        format!(
            "The Inspector logs of {} name another host than the reports do (rank {rank}: '{}'); they were taken as theirs, since process and communicator fit nothing else.",
            units::ranks(&ranks),
            printable(&shorten(name, NAME_LENGTH))
        ),
    ))
}

fn clock_warning(rank: u32, shift_us: f64) -> Warning {
    let by = units::time((shift_us.abs() * 1e3) as i64);
    let way = if shift_us < 0.0 { "behind" } else { "ahead of" };
    Warning::new(
        Id::InspectorClock,
        format!("The clock of Inspector's log of rank {rank} is about {by} {way} the trace's: kernels and records were paired by number, size and duration, and their times shifted."),
    )
    .with_hint("Was the log written in this run? A clock that was set in between explains it, too.")
}

/// What Inspector says it lost while the capture ran.
fn losses(
    ranks: &[RankKernels],
    found: &[Found],
    owned: &[Vec<usize>],
    logs: &Collected,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for ((rank, found), series) in ranks.iter().zip(found).zip(owned) {
        let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
        let Some((first, last)) = captured_us(rank, found, logs) else { continue };
        for loss in &logs.losses {
            let own = series.iter().any(|&s| logs.series[s].origin == loss.origin);
            let ended_before = loss.before_us.is_some_and(|us| (us as f64) < first);
            let began_after = loss.after_us.is_some_and(|us| us as f64 > last);
            if own && !ended_before && !began_after {
                let sum = lost.entry(&logs.origins[loss.origin].comm_id).or_default();
                *sum = sum.saturating_add(loss.lost);
            }
        }
        let one = |(comm, n): (&str, u64)| {
            let records = if n == 1 { "record" } else { "records" };
            Warning::new(
                Id::InspectorDropped,
                format!(
                    "Inspector dropped {} {records} of communicator {comm} on rank {} in dumps that overlap the capture (its own count).",
                    units::count(n),
                    rank.rank
                ),
            )
            .with_hint("A shorter dump interval or a larger NCCL_INSPECTOR_DUMP_COLL_RING_SIZE keeps them.")
        };
        warnings.extend(lost.into_iter().map(one));
    }
    warnings
}

fn repeated(logs: &Collected) -> Option<Warning> {
    let n = logs.repeated;
    let (records, was) = if n == 1 { ("record", "was") } else { ("records", "were") };
    (n > 0).then(|| {
        Warning::new(
            Id::InspectorRepeated,
            format!(
                "{} {records} stood in the logs more than once with the same number of the same communicator and {was} left out.",
                units::count(n)
            ),
        )
        .with_hint("Name each log once; a .log beside its .log.gz is one log.")
    })
}

/// The capture of one rank in Unix microseconds of the log's clock; without a clock, from the times at which its pairs were written.
fn captured_us(rank: &RankKernels, found: &Found, logs: &Collected) -> Option<(f64, f64)> {
    let clock = Clock { epoch_ns: rank.epoch_ns, shift_us: found.shift_us.unwrap_or(0.0) };
    if let Some((first, last)) =
        rank.captured.and_then(|(first, last)| Some((clock.us(first)?, clock.us(last)?)))
    {
        return Some((first, last));
    }
    let written: Vec<i64> =
        found.pairs.iter().filter_map(|p| logs.ops[p.record].written_us).collect();
    Some((*written.iter().min()? as f64, *written.iter().max()? as f64))
}

/// The part of the logged time that was captured, over all ranks with pairs.
fn window(
    ranks: &[RankKernels],
    found: &[Found],
    all: &[(usize, Pair)],
    logs: &Collected,
) -> Option<LoggedWindow> {
    let logged = logs.ops.iter().filter_map(|op| op.written_us);
    let (first, last) =
        logged.fold((i64::MAX, i64::MIN), |(first, last), us| (first.min(us), last.max(us)));
    let paired: BTreeSet<usize> = all.iter().map(|(r, _)| *r).collect();
    let captures: Vec<(f64, f64)> =
        paired.into_iter().filter_map(|r| captured_us(&ranks[r], &found[r], logs)).collect();
    let from = captures.iter().map(|c| c.0).min_by(f64::total_cmp)?;
    let to = captures.iter().map(|c| c.1).max_by(f64::total_cmp)?;
    let length = (i128::from(last) - i128::from(first)) as f64;
    let share = |us: f64| ((us - first as f64) / length).clamp(0.0, 1.0);
    (length > 0.0).then(|| LoggedWindow {
        logged_us: length,
        from_share: share(from),
        to_share: share(to),
    })
}

fn view_pair(
    rank: u32,
    event: &Event,
    record: &LoggedOp,
    logs: &Collected,
    trust: &[CommTrust],
) -> InspectorPair {
    let origin = &logs.origins[record.origin as usize];
    let trusted = trust.iter().any(|t| t.trusted && t.comm_id == origin.comm_id);
    let exec = record.exec_us.filter(|_| trusted);
    InspectorPair {
        rank,
        start_ns: event.start,
        op: record.op,
        comm_id: origin.comm_id.clone(),
        sn: record.sn,
        bytes: record.bytes,
        kernel_ns: event.duration(),
        exec_time_us: record.exec_us,
        timing_source: Some(record.timing.label().to_owned()),
        busbw_gbs: exec
            .zip(record.bytes)
            .map(|(us, bytes)| busbw_gbs(record.op, bytes, origin.n_ranks, us)),
    }
}

/// Events without a payload get the size of their record; the sizes of several records add up if they are of collectives.
fn give_sizes(all: &[(usize, Pair)], events: &mut [Vec<Event>], logs: &Collected) {
    for pairs in all.chunk_by(|a, b| a.0 == b.0 && a.1.event == b.1.event) {
        let (r, first) = pairs[0];
        let event = &mut events[r][first.event];
        let sizes = pairs
            .iter()
            .map(|(_, pair)| logs.ops[pair.record].bytes.filter(|_| !logs.ops[pair.record].p2p));
        let sum = sizes.into_iter().try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
        if let (None, Some(bytes)) = (event.bytes, sum) {
            (event.bytes, event.bytes_source) = (Some(bytes), Some(BytesSource::Inspector));
        }
    }
}
