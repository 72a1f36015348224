//! What is wrong with the logs, and what is slow in the job.

use std::collections::BTreeMap;

use serde_json::json;

use super::filter::format_time;
use super::operations::Operations;
use super::tally::Tally;
use super::view::{Bin, Communicator, Inspection, Op, Waits};
use crate::catalogue::{Finding, Id, Severity};
use crate::model::record::{LogFile, Timing};
use crate::units;
use crate::warning::Warning;

/// Operations behind a statement about a rank, a communicator or a stretch of time.
const ENOUGH: u64 = 10;
/// A rank arrives last conspicuously often if it does in this share of the operations beyond its own share...
const LAST_EXCESS: f64 = 0.25;
/// ... and by this many standard deviations more than chance would have it.
const LAST_SIGMAS: f64 = 4.0;
/// Waiting costs something above this share of the time in operations.
const WAIT_MATTERS: f64 = 0.05;
/// A communicator or a stretch of time is slow below this share of what is usual.
const SLOW: f64 = 0.8;
/// Files that one warning names.
const NAMED: usize = 3;

/// Warnings that rest on the files and on what was counted while they were read.
pub(super) fn log_warnings(logs: &[(LogFile, Tally)]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let name = |log: &LogFile| log.path.clone();
    let files = |holds: &dyn Fn(&LogFile) -> bool,
                 show: &dyn Fn(&LogFile) -> String|
     -> Option<String> {
        let all: Vec<&LogFile> = logs.iter().map(|(log, _)| log).filter(|log| holds(log)).collect();
        let named: Vec<String> = all.iter().take(NAMED).map(|log| show(log)).collect();
        let rest = all
            .len()
            .checked_sub(NAMED)
            .filter(|&n| n > 0)
            .map_or_else(String::new, |n| format!(" and {n} more"));
        (!all.is_empty()).then(|| format!("{}{rest}", named.join(", ")))
    };
    if let Some(list) = files(&|log| log.records == 0, &name) {
        warnings.push(Warning::new(Id::NoRecords, format!("No Inspector record in {list}.")).with_hint(
            "An empty log means that nothing was dumped: set NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS. Other files need not be named.",
        ));
    }
    let show_bad = |log: &LogFile| {
        let first = log
            .bad
            .first()
            .map_or_else(String::new, |bad| format!(", first line {} {}", bad.line, bad.reason));
        format!("{} ({} of {} lines{first})", log.path, log.bad_lines, log.lines)
    };
    if let Some(list) = files(&|log| log.bad_lines > 0 && log.records > 0, &show_bad) {
        warnings.push(Warning::new(
            Id::BadLines,
            format!("Lines that are not records were left out: {list}."),
        ));
    }
    if let Some(list) = files(&|log| log.torn.is_some(), &|log| {
        format!(
            "{} after line {} ({})",
            log.path,
            log.lines,
            log.torn.as_deref().unwrap_or_default()
        )
    }) {
        warnings.push(Warning::new(
            Id::TornFile,
            format!("Reading ended early: {list}. What stands before counts."),
        ));
    }
    let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in logs.iter().flat_map(|(log, _)| &log.unknown_operations) {
        *unknown.entry(name).or_default() += count;
    }
    if !unknown.is_empty() {
        let list: Vec<String> =
            unknown.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        warnings.push(Warning::new(
            Id::UnknownOperations,
            format!("Operations of unknown kind have no bandwidth: {}.", units::listed(&list, 10)),
        ));
    }
    let origins = || logs.iter().flat_map(|(_, t)| &t.origins);
    let impossible: u64 = origins().map(|o| o.impossible).sum();
    if impossible > 0 {
        let ids =
            distinct(origins().filter(|o| o.impossible > 0).map(|o| o.origin.comm_id.as_str()));
        warnings.push(Warning::new(Id::TimesOfOthers, format!("{impossible} records of {ids} give a time longer than from their start to their writing: it belongs to another operation and is not used."))
            .with_hint("Times of a communicator that mixes send/recv with collectives can be wrong; compare with a trace (report --inspector)."));
    }
    let unseen: u64 = origins().map(|o| o.without_channels).sum();
    if unseen > 0 {
        let stamped: u64 = origins().map(|o| o.stamped).sum();
        warnings.push(Warning::new(Id::ChannelsUnseen, format!("{unseen} of {stamped} verbose records have no stamp on any channel: the work ran on other channels than the plugin looked at.")));
    }
    warnings
}

fn distinct<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    units::listed(&ids, NAMED)
}

/// Warnings that rest on the finished numbers.
pub(super) fn view_warnings(view: &Inspection, seen: &Operations) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let ops = || view.communicators.iter().flat_map(|c| &c.ops);
    let sum = |f: &dyn Fn(&Op) -> u64| ops().map(f).sum::<u64>();
    let negative = sum(&|op| op.sizes_corrected);
    if negative > 0 {
        warnings.push(Warning::new(
            Id::NegativeSizes,
            format!(
                "{negative} records give a size of 2^64 - n bytes (1-byte data types); n is used, and the bandwidth that they log is not."
            ),
        ));
    }
    let without = sum(&|op| op.without_time);
    if without > 0 {
        warnings.push(Warning::new(
            Id::ZeroTimes,
            format!("{without} records give no time, a time of 0 or an impossible one; they are in no time and no bandwidth."),
        ));
    }
    let host_timed: u64 = ops()
        .flat_map(|op| &op.timing_sources)
        .filter(|(source, _)| is_host_clock(source))
        .map(|(_, n)| n)
        .sum();
    if host_timed > 0 {
        warnings.push(
            Warning::new(
                Id::HostTiming,
                format!("{host_timed} of {} times were taken on the host, which is late when the proxy thread is busy.", view.operations),
            )
            .with_hint("NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=1 (default since 2.30) leaves them out."),
        );
    }
    warnings.extend(missing(view));
    let partial: Vec<&Communicator> =
        view.communicators.iter().filter(|c| c.ranks_missing_count > 0).collect();
    if let Some(first) = partial.first() {
        let ranks = units::ranks(&first.ranks_missing);
        warnings.push(Warning::new(Id::MissingRanks, format!("{} of {} communicators lack ranks, {} for example {ranks}: no wait is known there.", partial.len(), view.communicators.len(), first.comm_id))
            .with_hint("Give the logs of all ranks. A rank that ends right after its last operation can lose its log: sleep longer than the dump interval first."));
    }
    if view.compared_one_in > 1 {
        warnings.push(
            Warning::new(
                Id::Sampled,
                format!(
                    "Transfers, waits, the timeline and CSV rest on one operation in {}; counts, times and bandwidths rest on all.",
                    view.compared_one_in
                ),
            )
            .with_hint("Use --since and --until to look at a stretch of the run in full."),
        );
    }
    if seen.repeated > 0 {
        warnings.push(Warning::new(
            Id::RepeatedRecords,
            format!(
                "{} records repeat a sequence number of their rank; the earlier one is compared, all are in the distributions.",
                seen.repeated
            ),
        ));
    }
    if !view.prometheus.is_empty() {
        warnings.push(
            Warning::new(
                Id::PrometheusSummaries,
                format!(
                    "{} rows of the Prometheus mode are summaries of an interval or the last operation; nothing is recomputed from them.",
                    view.prometheus.len()
                ),
            )
            .with_hint("Without NCCL_INSPECTOR_PROM_DUMP the plugin writes every operation."),
        );
    }
    warnings
}

fn is_host_clock(source: &str) -> bool {
    [Timing::KernelCpu, Timing::CollectiveCpu, Timing::CpuWallclock]
        .iter()
        .any(|t| t.label() == source)
}

fn missing(view: &Inspection) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let gaps: Vec<&Communicator> =
        view.communicators.iter().filter(|c| c.missing_operations > 0).collect();
    if !gaps.is_empty() {
        let total = gaps.iter().fold(0_u64, |sum, c| sum.saturating_add(c.missing_operations));
        let smallest = gaps
            .iter()
            .flat_map(|c| &c.ops)
            .filter_map(|op| op.bytes.or(op.bytes_range.map(|r| r[0])))
            .min();
        let why = match smallest {
            Some(bytes) if bytes >= 8192 => {
                "Operations below 8192 bytes are not logged by default (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES); before 2.30 those between two dumps are lost."
            }
            _ => {
                "Before 2.30 operations between two dumps are lost, later ones when the ring of 1024 overflows: dump more often."
            }
        };
        warnings.push(
            Warning::new(
                Id::SequenceGaps,
                format!("{total} sequence numbers are missing between those logged, on {} communicators.", gaps.len()),
            )
            .with_hint(why),
        );
    }
    let dropped =
        view.communicators.iter().filter_map(|c| c.dropped).fold(0_u64, u64::saturating_add);
    if dropped > 0 {
        warnings.push(Warning::new(Id::Drops, format!("Inspector says that it dropped {dropped} records.")).with_hint(
            "Dump more often (NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS) or keep more (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, ..._P2P_RING_SIZE).",
        ));
    }
    warnings
}

/// What is slow, the worst first.
pub(super) fn findings(view: &Inspection) -> Vec<Finding> {
    let mut findings = slow_processes(view);
    findings.extend(slow_communicators(view));
    findings.extend(slow_stretch(view));
    findings.sort_by_key(|f| f.severity);
    findings
}

/// A process that arrives last far more often than its share.
fn slow_processes(view: &Inspection) -> Vec<Finding> {
    let sum = |f: fn(&Waits) -> Option<f64>| {
        view.processes.iter().filter_map(|p| f(&p.waits)).sum::<f64>()
    };
    let (waited, time) = (sum(|w| w.wait_total_us), sum(|w| w.compared_time_us));
    let mut findings = Vec::new();
    for process in &view.processes {
        let waits = &process.waits;
        let (Some(expected), ordered) = (waits.last_expected, waits.ordered_count as f64) else {
            continue;
        };
        let last = waits.last_count as f64;
        let deviation = (expected * (1.0 - expected / ordered)).sqrt();
        if !(last >= expected + LAST_EXCESS * (ordered - expected)
            && last >= expected + LAST_SIGMAS * deviation)
        {
            continue;
        }
        let pid = process.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let title = format!(
            "Rank {} on {}{pid} arrived last in {} of {} operations whose order is clear; waiting is {:.0} % of the time in operations.",
            process.rank,
            process.hostname,
            waits.last_count,
            waits.ordered_count,
            100.0 * waited / time
        );
        let matters = waited > WAIT_MATTERS * time;
        findings.push(
            Finding::new(Id::SlowRank, title)
                .weighing(if matters { Severity::High } else { Severity::Info })
                .with("hostname", json!(process.hostname))
                .with("pid", json!(process.pid))
                .with("rank", json!(process.rank))
                .with("last_count", waits.last_count)
                .with("last_expected", expected)
                .with("ordered_count", waits.ordered_count)
                .with("wait_us_of_all_ranks", waited)
                .with("time_us_of_all_ranks", time)
                .advice("Look at what this rank does before its collectives: input, CPU load, clocks of its GPU, more work than the others."),
        );
    }
    findings
}

/// A communicator that is slower than others of its kind at the same operation and size.
fn slow_communicators(view: &Inspection) -> Vec<Finding> {
    type Kind<'a> = (&'a str, u32, &'a str, u64);
    let mut peers: BTreeMap<Kind<'_>, Vec<(&Communicator, &Op, f64)>> = BTreeMap::new();
    for comm in &view.communicators {
        for op in &comm.ops {
            let speed = op.transfer_busbw_gbs.filter(|_| op.compared >= ENOUGH).map(|b| b.median);
            if let (Some(speed), Some(bytes)) = (speed, op.bytes) {
                peers
                    .entry((&comm.class, comm.n_ranks, op.op.label(), bytes))
                    .or_default()
                    .push((comm, op, speed));
            }
        }
    }
    let mut worst: BTreeMap<&str, (f64, Finding)> = BTreeMap::new();
    for ((class, n_ranks, name, bytes), peers) in peers {
        for (comm, op, speed) in &peers {
            let others: Vec<f64> =
                peers.iter().filter(|(c, _, _)| c.comm_id != comm.comm_id).map(|p| p.2).collect();
            let Some(usual) = crate::stats::median(&others).filter(|&usual| *speed < SLOW * usual)
            else {
                continue;
            };
            let share = speed / usual;
            let label = comm
                .name
                .as_deref()
                .map_or_else(|| comm.comm_id.clone(), |n| format!("{} ({n})", comm.comm_id));
            let title = format!(
                "Communicator {label} runs {name} of {bytes} bytes at {speed:.1} GB/s, {} others of its kind at {usual:.1} GB/s.",
                others.len()
            );
            let finding = Finding::new(Id::SlowCommunicator, title)
                .with("comm_id", comm.comm_id.as_str())
                .with("class", json!(class))
                .with("n_ranks", n_ranks)
                .with("op", json!(name))
                .with("bytes", bytes)
                .with("compared", op.compared)
                .with("transfer_busbw_gbs", *speed)
                .with("others_busbw_gbs", usual)
                .with("hosts", json!(comm.hosts))
                .advice(
                    "Compare the links and hosts of this communicator with those of the others.",
                );
            match worst.get(comm.comm_id.as_str()) {
                Some((known, _)) if *known <= share => {}
                _ => {
                    worst.insert(&comm.comm_id, (share, finding));
                }
            }
        }
    }
    worst.into_values().map(|(_, finding)| finding).collect()
}

/// The slowest stretch of bins that lie below what is usual; the first bin is warm-up.
fn slow_stretch(view: &Inspection) -> Option<Finding> {
    let bins = view.timeline.bins.get(1..)?;
    let slow = |bin: &Bin| bin.relative_speed < SLOW;
    let stretches =
        bins.chunk_by(|a, b| slow(a) == slow(b)).filter(|stretch| stretch.iter().all(slow));
    let stretches =
        stretches.filter(|stretch| stretch.iter().map(|bin| bin.operations).sum::<u64>() >= ENOUGH);
    let lost = |stretch: &[Bin]| {
        stretch.iter().map(|bin| bin.time_us * (1.0 - bin.relative_speed)).sum::<f64>()
    };
    let worst = stretches.max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    let (first, last) = (worst.first()?, worst.last()?);
    let time: f64 = worst.iter().map(|bin| bin.time_us).sum();
    let speed = worst.iter().map(|bin| bin.time_us * bin.relative_speed).sum::<f64>() / time;
    let operations: u64 = worst.iter().map(|bin| bin.operations).sum();
    let end = last.start_us.saturating_add(view.timeline.bin_us);
    let title = format!(
        "From {} to {} UTC operations ran at {:.0} % of their usual speed.",
        format_time(first.start_us),
        format_time(end),
        100.0 * speed
    );
    Some(
        Finding::new(Id::SlowStretch, title)
            .with("start_us", first.start_us)
            .with("end_us", end)
            .with("operations", operations)
            .with("time_us", time)
            .with("relative_speed", speed)
            .advice(
                "Look for other traffic on the network or other work on the hosts at that time.",
            ),
    )
}
