//! What Inspector logs add, in sentences and tables.

use std::collections::BTreeMap;

use super::tables::MOST_ROWS;
use crate::merge::NO_LOG;
use crate::merge::view::{Captured, CommTrust, InspectorMerge, InspectorRank, Typical};
use crate::render::document::Block;
use crate::render::table::{Cell, Column, Table};
use crate::render::units;

/// Communicators, collectives or sizes that a sentence names one by one.
const NAMED: usize = 3;

/// Everything about the logs.
pub(super) fn blocks(merge: &InspectorMerge) -> Vec<Block> {
    let sentences =
        [Some(coverage(merge)), durations(merge), place(merge), typical(merge), channels(merge)];
    let tables = [
        ranks(merge).map(Block::Table),
        typical_table(merge).map(Block::Table),
        pairs(merge).map(Block::Details),
    ];
    sentences.into_iter().flatten().map(Block::Text).chain(tables.into_iter().flatten()).collect()
}

/// What was read and how much of the capture has a record.
fn coverage(merge: &InspectorMerge) -> String {
    let kernels: u64 = merge.ranks.iter().map(|r| r.kernels).sum();
    let paired: u64 = merge.ranks.iter().map(|r| r.paired).sum();
    let mut text = format!(
        "{} with {} ({}).",
        units::plural(merge.files, "log file"),
        plural(merge.records, "record"),
        if merge.formats.is_empty() {
            "no known format".to_owned()
        } else {
            merge.formats.join(", ")
        }
    );
    text.push_str(&match (kernels, paired) {
        (0, _) => " The capture has no communication kernels.".to_owned(),
        (1, 1) => " The only communication kernel of the capture has its record.".to_owned(),
        (n, p) if n == p => format!(
            " All {} communication kernels of the capture have their record.",
            units::count(n)
        ),
        (n, p) => format!(
            " {} of {} communication kernels of the capture have their record.",
            units::count(p),
            units::count(n)
        ),
    });
    let missing: u64 = merge
        .ranks
        .iter()
        .filter(|r| merge.missing_ranks.contains(&r.rank))
        .map(|r| r.kernels)
        .sum();
    match merge.missing_ranks.as_slice() {
        [] => {}
        [one] => text.push_str(&format!(
            " Rank {one} has no log, so its {} have none.",
            plural(missing, "kernel")
        )),
        many => {
            let ranks = units::rank_list(many);
            text.push_str(&format!(
                " Ranks {ranks} have no log, so their {} have none.",
                plural(missing, "kernel")
            ));
        }
    }
    let other: BTreeMap<&str, u64> = merge
        .unmatched
        .iter()
        .map(|(why, n)| (why.as_str(), *n))
        .filter(|(why, _)| *why != NO_LOG)
        .collect();
    if !other.is_empty() {
        text.push_str(&format!(" Kernels without a record: {}.", reasons(other)));
    }
    if !merge.unmatched_records.is_empty() {
        text.push_str(&format!(
            " Records of the capture without a kernel: {}.",
            reasons(merge.unmatched_records.iter().map(|(why, n)| (why.as_str(), *n)).collect())
        ));
    }
    let faults = [
        (merge.bad_lines, "line that could not be used", "lines that could not be used"),
        (merge.repeated_records, "repeated record left out", "repeated records left out"),
        (
            merge.unnamed_records,
            "record of an operation without a name",
            "records of operations without a name",
        ),
        (
            merge.dropped,
            "record dropped by Inspector in the whole run",
            "records dropped by Inspector in the whole run",
        ),
    ];
    let faults: Vec<String> = faults
        .iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| format!("{} {}", units::count(*n), if *n == 1 { one } else { many }))
        .collect();
    if !faults.is_empty() {
        text.push_str(&format!(" In the logs: {}.", faults.join(", ")));
    }
    text
}

fn plural(n: u64, one: &str) -> String {
    units::plural(usize::try_from(n).unwrap_or(usize::MAX), one)
}

/// `40 (several records fit equally well), 2 (...)`: the most frequent reason first.
fn reasons(reasons: BTreeMap<&str, u64>) -> String {
    let mut list: Vec<(&str, u64)> = reasons.into_iter().collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    list.into_iter()
        .map(|(why, n)| format!("{} ({why})", units::count(n)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn us(us: f64) -> String {
    units::time((us * 1e3).round() as i64)
}

/// How far kernels and records agree; by communicator if some of them do not.
fn durations(merge: &InspectorMerge) -> Option<String> {
    let delta = merge.duration_delta_us?;
    if merge.trust.iter().all(|t| t.trusted) {
        return Some(format!(
            "The durations of kernels and records differ by {} (median), {} (95th percentile), {} at most.",
            us(delta.p50),
            us(delta.p95),
            us(delta.max)
        ));
    }
    let one = |t: &CommTrust| {
        let delta = t.duration_delta_us?;
        let verdict = if t.trusted { "" } else { ", whose times are not trusted" };
        Some(format!(
            "{} (median) and {} at most on communicator {}{verdict}",
            us(delta.p50),
            us(delta.max),
            t.comm_id
        ))
    };
    let mut list: Vec<String> = merge.trust.iter().filter_map(one).collect();
    let more = list.len().saturating_sub(NAMED);
    list.truncate(NAMED);
    let more = if more > 0 {
        format!("; and on {}", units::plural(more, "more communicator"))
    } else {
        String::new()
    };
    Some(format!("The durations of kernels and records differ by {}{more}.", list.join("; by ")))
}

/// Which part of the run was captured.
fn place(merge: &InspectorMerge) -> Option<String> {
    let mut list: Vec<&Captured> = merge.captured.iter().collect();
    list.sort_by_key(|c| (std::cmp::Reverse(c.last_sn - c.first_sn), &c.comm_id, &c.op));
    let one = |c: &&Captured| {
        let numbers = if c.first_sn == c.last_sn {
            c.first_sn.to_string()
        } else {
            format!("{} to {}", c.first_sn, c.last_sn)
        };
        format!(
            "{} {numbers} (logged: {} to {}) on communicator {}",
            c.op, c.first_logged_sn, c.last_logged_sn, c.comm_id
        )
    };
    let mut parts: Vec<String> = list.iter().take(NAMED).map(one).collect();
    if list.len() > NAMED {
        parts.push(format!("parts of {}", units::plural(list.len() - NAMED, "more collective")));
    }
    if parts.is_empty() {
        return None;
    }
    let window = merge.window.map_or(String::new(), |window| {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (from, to, logged) =
            (percent(window.from_share), percent(window.to_share), us(window.logged_us));
        format!("; from {from} to {to} of the {logged} between the first record and the last")
    });
    Some(format!("The capture covers {}{window}.", parts.join(", ")))
}

/// Whether the captured operations are like the rest of the run.
fn typical(merge: &InspectorMerge) -> Option<String> {
    let (judged, open): (Vec<&Typical>, Vec<&Typical>) =
        merge.typical.iter().partition(|t| t.verdict.is_some());
    if judged.is_empty() {
        let why = open.first()?.reason.as_deref()?;
        return Some(format!(
            "Whether the captured operations are typical of the run cannot be told: {why}."
        ));
    }
    let (same, other): (Vec<&Typical>, Vec<&Typical>) = judged.iter().partition(|t| is_typical(t));
    let weight = |t: &&&Typical| t.bytes.saturating_mul(t.captured);
    let mut text = match (same.iter().max_by_key(weight), other.is_empty()) {
        (Some(main), true) => {
            let more = match same.len() - 1 {
                0 => String::new(),
                n => format!(" So are those of {}.", units::plural(n, "other size")),
            };
            let waits = waits(main).map_or(String::new(), |waits| format!("; {waits}"));
            format!(
                "The captured operations are typical of the run: {}{waits}.{more}",
                speeds(main)
            )
        }
        _ => {
            let mut list: Vec<&&Typical> = other.iter().collect();
            list.sort_by_key(|t| std::cmp::Reverse(weight(t)));
            let mut named: Vec<String> = list.iter().take(NAMED).map(|t| difference(t)).collect();
            if list.len() > NAMED {
                named.push(format!(
                    "{} differ, too",
                    units::plural(list.len() - NAMED, "more size")
                ));
            }
            let same = match same.len() {
                0 => String::new(),
                n => format!(" Typical: {}.", units::plural(n, "other size")),
            };
            format!(
                "Not all captured operations are typical of the run: {}.{same}",
                named.join("; ")
            )
        }
    };
    if !open.is_empty() {
        text.push_str(&format!(" Too rare to tell: {}.", units::plural(open.len(), "other size")));
    }
    if let Some(few) = judged.iter().find(|t| t.ranks_logged < t.n_ranks) {
        let (ranks, of) =
            (units::count(u64::from(few.ranks_logged)), units::count(u64::from(few.n_ranks)));
        text.push_str(&format!(" The logs are those of {ranks} of {of} ranks, so waiting for the others is part of these times."));
    }
    if merge.trust.iter().any(|t| !t.trusted) {
        text.push_str(" Communicators whose times are not trusted are left out.");
    }
    Some(text)
}

fn is_typical(t: &Typical) -> bool {
    [&t.verdict, &t.wait_verdict].into_iter().flatten().all(|verdict| verdict == "typical")
}

/// What is not typical, with its numbers.
fn difference(t: &Typical) -> String {
    let mut what = Vec::new();
    if let Some(verdict) = t.verdict.as_deref().filter(|v| *v != "typical") {
        what.push(format!("{verdict} than elsewhere: {}", speeds(t)));
    }
    if let (Some(verdict), Some(waits)) =
        (t.wait_verdict.as_deref().filter(|v| *v != "typical"), waits(t))
    {
        what.push(format!(
            "ranks wait {verdict} than elsewhere in {} of {}: {waits}",
            t.op,
            units::bytes(t.bytes)
        ));
    }
    what.join(" and ")
}

/// The median bandwidths of both sides.
fn speeds(t: &Typical) -> String {
    let gbs = |gbs: Option<f64>| gbs.map_or(units::MISSING.to_owned(), units::bandwidth);
    let spread =
        t.rest_busbw_p5_gbs.zip(t.rest_busbw_p95_gbs).map_or(String::new(), |(low, high)| {
            format!(
                ", 5th to 95th percentile {} to {}",
                units::bandwidth_number(low),
                units::bandwidth(high)
            )
        });
    format!(
        "{} of {} runs at a busbw of {} inside the capture (median of {}) and {} outside (median of {}{spread})",
        t.op,
        units::bytes(t.bytes),
        gbs(t.captured_busbw_gbs),
        units::count(t.captured),
        gbs(t.rest_busbw_gbs),
        units::count(t.rest)
    )
}

/// The median waits of both sides.
fn waits(t: &Typical) -> Option<String> {
    Some(format!(
        "the first rank waits {} inside and {} outside",
        us(t.captured_wait_us?),
        us(t.rest_wait_us?)
    ))
}

/// How evenly channels work.
fn channels(merge: &InspectorMerge) -> Option<String> {
    let c = merge.channel_imbalance?;
    Some(format!(
        "The slowest of up to {} channels works {} longer than the mean of its operation (median of {}; 95th percentile {}), by the host's clock.",
        units::count(c.channels),
        units::percent(c.max_over_mean_p50 - 1.0),
        plural(c.operations, "operation"),
        units::percent(c.max_over_mean_p95 - 1.0)
    ))
}

/// Coverage, one row a rank.
fn ranks(merge: &InspectorMerge) -> Option<Table> {
    let ranks = &merge.ranks;
    if ranks.is_empty() {
        return None;
    }
    let count = |head: &str, of: fn(&InspectorRank) -> u64| {
        Column::count(head, ranks.iter().map(|r| Some(of(r))))
    };
    let shift = |r: &InspectorRank| r.clock_shift_us.map(|us| (us * 1e3).round() as i64);
    let columns = vec![
        count("rank", |r| u64::from(r.rank)),
        count("kernels", |r| r.kernels).help("communication kernels of the whole capture, inside step windows or not"),
        count("paired", |r| r.paired).help("kernels with at least one record"),
        count("unpaired kernels", |r| r.unmatched_kernels).rank(2),
        count("records in capture", |r| r.records_in_capture)
            .help("of each communicator and operation from the first to the last paired number; a send or receive has its own")
            .rank(1),
        count("unpaired records", |r| r.unmatched_records).rank(2),
        count("records", |r| r.records).help("of this rank in the whole log").rank(3),
        Column::numbers("log's clock", "", ranks.iter().map(shift), |ns| Cell::number(units::time(*ns), *ns as f64))
            .help("how far the log's clock is ahead of the trace's")
            .rank(2),
    ];
    Some(
        Table::new("Communication kernels of the capture and the records of the logs", columns)
            .without_blank_columns(),
    )
}

/// The captured part of the run beside the rest of it.
fn typical_table(merge: &InspectorMerge) -> Option<Table> {
    let list = &merge.typical[..merge.typical.len().min(MOST_ROWS)];
    if list.is_empty() {
        return None;
    }
    let us = |head: &str, of: fn(&Typical) -> Option<f64>| {
        Column::numbers(head, "", list.iter().map(of), |us| Cell::number(self::us(*us), *us))
    };
    let verdict = |t: &Typical| match (&t.verdict, &t.wait_verdict) {
        (None, _) => "too few to tell".to_owned(),
        _ if is_typical(t) => "typical".to_owned(),
        (Some(speed), Some(wait)) if speed == "typical" => format!("waits {wait}"),
        (Some(speed), Some(wait)) if wait != "typical" => format!("{speed}, waits {wait}"),
        (Some(speed), _) => speed.clone(),
    };
    let columns = vec![
        Column::text("operation", list.iter().map(|t| t.op.label())),
        Column::text("communicator", list.iter().map(|t| t.comm_id.as_str())).rank(5),
        Column::bytes("size", list.iter().map(|t| Some(t.bytes))),
        Column::count("captured", list.iter().map(|t| Some(t.captured))).rank(3),
        Column::bandwidth("busbw captured", list.iter().map(|t| t.captured_busbw_gbs)),
        us("wait captured", |t| t.captured_wait_us).rank(2),
        Column::count("others", list.iter().map(|t| Some(t.rest))).rank(3),
        Column::bandwidth("busbw others", list.iter().map(|t| t.rest_busbw_gbs)),
        Column::bandwidth("p5", list.iter().map(|t| t.rest_busbw_p5_gbs)).rank(4),
        Column::bandwidth("p95", list.iter().map(|t| t.rest_busbw_p95_gbs)).rank(4),
        us("wait others", |t| t.rest_wait_us).rank(2),
        Column::text("the capture is", list.iter().map(verdict)),
    ];
    let caption = "Captured operations beside all others of the run (Inspector's times, shortest over ranks; medians)";
    let table = Table::new(caption, columns).without_blank_columns();
    let omitted = merge.typical.len() - list.len();
    Some(if omitted > 0 {
        table.with_note(format!("{} are in JSON.", units::plural(omitted, "more size")))
    } else {
        table
    })
}

/// Kernels and their records side by side.
fn pairs(merge: &InspectorMerge) -> Option<Table> {
    let pairs = &merge.pairs[..merge.pairs.len().min(MOST_ROWS)];
    if pairs.is_empty() {
        return None;
    }
    let columns = vec![
        Column::count("rank", pairs.iter().map(|p| Some(u64::from(p.rank)))),
        Column::text("operation", pairs.iter().map(|p| p.op.label())),
        Column::text("communicator", pairs.iter().map(|p| p.comm_id.as_str())),
        // A number as such, not a quantity.
        Column::text(
            "number",
            pairs.iter().map(|p| p.sn.map_or(String::new(), |sn| sn.to_string())),
        ),
        Column::bytes("size", pairs.iter().map(|p| p.bytes)),
        Column::numbers("kernel", "", pairs.iter().map(|p| Some(p.kernel_ns)), |ns| {
            Cell::number(units::time(*ns), *ns as f64)
        }),
        Column::numbers("record", "", pairs.iter().map(|p| p.exec_time_us), |us| {
            Cell::number(self::us(*us), *us)
        }),
        Column::text("timed by", pairs.iter().map(|p| p.timing_source.clone().unwrap_or_default()))
            .rank(1),
        Column::bandwidth("busbw", pairs.iter().map(|p| p.busbw_gbs)),
    ];
    let table = Table::new("Kernels and their records", columns).without_blank_columns();
    let omitted = merge.pairs.len() - pairs.len();
    Some(if omitted > 0 {
        table.with_note(format!("{} are in JSON.", units::plural(omitted, "more pair")))
    } else {
        table
    })
}
