//! Findings with their evidence, warnings, definitions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::headline::noun;
use crate::catalogue::{Evidence, Fact, Finding, Id, Severity, Unit, Unknown};
use crate::inspect::format_time;
use crate::model::Metric;
use crate::render::document::{Block, Entry, Level, Note};
use crate::render::table::Tone;
use crate::render::units;
use crate::report::Report;
use crate::steps::{StepSource, WindowKind};
use crate::warning::Warning;

/// Warnings of one code that are printed one by one.
const SAME_WARNINGS: usize = 3;

/// Findings, the most important first.
pub(in crate::render) fn findings(findings: &[Finding]) -> Vec<Note> {
    let note = |finding: &Finding| Note {
        level: match finding.severity {
            Severity::High => Level::High,
            Severity::Medium => Level::Medium,
            Severity::Info => Level::Info,
        },
        text: finding.title.clone(),
        evidence: (!finding.evidence.is_empty())
            .then(|| format!("{}.", evidence(&finding.evidence))),
        advice: finding.advice.clone(),
    };
    findings.iter().map(note).collect()
}

/// What the headline or a finding says already.
const SAID: [Id; 2] = [Id::FirstStepLeftOut, Id::CapturedApart];

/// What decides which steps there are, or none: it is printed before other warnings, since every number rests on it.
const FIRST: [Id; 3] = [Id::StepsOfAnotherProcess, Id::StepsUncovered, Id::StepsArePeriods];

/// Warnings; the same one about several reports is one note, and of many of one kind the first few are printed.
pub(in crate::render) fn warnings(warnings: &[Warning]) -> Vec<Note> {
    let mut kinds: Vec<(&Warning, Vec<&str>)> = Vec::new();
    for warning in warnings.iter().filter(|warning| !SAID.contains(&warning.code)) {
        let same = kinds.iter_mut().find(|(w, _)| {
            w.code == warning.code && w.message == warning.message && w.hint == warning.hint
        });
        match same {
            Some((_, reports)) => reports.extend(warning.report.as_deref()),
            None => kinds.push((warning, warning.report.as_deref().into_iter().collect())),
        }
    }
    kinds.sort_by_key(|(warning, _)| !FIRST.contains(&warning.code));
    let mut of_code: BTreeMap<Id, usize> = BTreeMap::new();
    let mut notes = Vec::new();
    for (warning, reports) in &kinds {
        let seen = of_code.entry(warning.code).or_default();
        *seen += 1;
        if *seen <= SAME_WARNINGS {
            notes.push(Note {
                level: Level::Medium,
                text: format!("{}{}", warning.message, named(reports)),
                evidence: None,
                advice: warning.hint.clone(),
            });
        }
    }
    for (code, seen) in of_code.into_iter().filter(|(_, seen)| *seen > SAME_WARNINGS) {
        let text = format!(
            "{} more of the kind “{code}”; JSON has all.",
            units::count((seen - SAME_WARNINGS) as u64)
        );
        notes.push(Note { level: Level::Info, text, evidence: None, advice: None });
    }
    notes
}

/// ` (a.sqlite, b.sqlite and 6 more)`.
fn named(reports: &[&str]) -> String {
    match reports {
        [] => String::new(),
        [one] => format!(" ({one})"),
        [one, two] => format!(" ({one}, {two})"),
        [one, two, rest @ ..] => {
            format!(" ({one}, {two} and {} more)", units::count(rest.len() as u64))
        }
    }
}

/// Measured facts as text: `step 137.6 ms; busbw 27.1 GB/s`.
fn evidence(facts: &Evidence) -> String {
    facts.iter().map(|(name, fact)| named_fact(name, fact)).collect::<Vec<_>>().join("; ")
}

/// A fact with its name. A unit that goes with the number is not in the name as well.
fn named_fact(name: &str, fact: &Fact) -> String {
    let (tails, each): (&[&str], &str) = match fact.unit {
        Unit::NsPerStep | Unit::CountPerStep => (&["_per_step"], " per step"),
        Unit::OfStep => (&["_of_step", "_fraction"], " of the step"),
        Unit::OfComm => (&["_fraction"], " of communication"),
        _ => (&[], ""),
    };
    let said = match fact.unit {
        Unit::Ns | Unit::NsPerStep => "ns",
        Unit::Us | Unit::UnixUs => "us",
        Unit::Gbs => "gbs",
        Unit::Percent => "percent",
        Unit::Mhz => "mhz",
        _ => "",
    };
    let stem = tails.iter().find_map(|tail| name.strip_suffix(tail)).unwrap_or(name);
    let words = words(stem, said);
    format!("{words} {}{each}", value_text(&fact.value, fact.unit))
}

/// A field's name as words, without the one that is the unit; a variable of the environment keeps its underscores.
fn words(name: &str, unit: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let is_word = |part: &str| !part.contains(|c: char| c.is_ascii_uppercase());
    let mut before = "";
    for part in name.split('_').filter(|part| unit.is_empty() || *part != unit) {
        if part == "copies" && out.ends_with(part) {
            continue;
        }
        if !out.is_empty() {
            out.push(if is_word(before) || is_word(part) { ' ' } else { '_' });
        }
        let long = SHORT.iter().find(|(short, _)| *short == part).map_or(part, |(_, long)| long);
        out.push_str(long);
        before = part;
    }
    out
}

/// Words that names of fields shorten.
const SHORT: [(&str, &str); 5] = [
    ("comm", "communication"),
    ("htod", "host-to-device copies"),
    ("dtoh", "device-to-host copies"),
    ("dtod", "device-to-device copies"),
    ("ptop", "peer copies"),
];

fn value_text(value: &Value, unit: Unit) -> String {
    match value {
        Value::Null => units::MISSING.to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), |n| number_text(n, unit)),
        Value::String(text) => text.clone(),
        Value::Array(values) => list_text(values, unit),
        Value::Object(facts) => {
            let one =
                |(name, value): (&String, &Value)| format!("{name}: {}", value_text(value, unit));
            format!("({})", facts.iter().map(one).collect::<Vec<_>>().join(", "))
        }
    }
}

fn number_text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns | Unit::NsPerStep => units::time(value.round() as i64),
        Unit::Us => units::time((value * 1e3).round() as i64),
        Unit::UnixUs => format!("{} UTC", format_time(value.round() as i64)),
        Unit::Bytes => units::bytes(value.max(0.0).round() as u64),
        Unit::Gbs => units::bandwidth(value),
        Unit::Percent => format!("{value:.1} %"),
        Unit::Mhz => format!("{value:.0} MHz"),
        Unit::Share | Unit::OfStep | Unit::OfComm => units::percent(value),
        Unit::Count | Unit::CountPerStep => count_text(value),
        Unit::Rank | Unit::Ranks | Unit::Number | Unit::Text => format!("{value}"),
    }
}

/// A count; medians and means of counts need not be whole.
fn count_text(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        units::count(value as u64)
    } else {
        format!("{value:.1}")
    }
}

/// A list of values; a long one of ranks in runs, others cut short. JSON has all of it.
fn list_text(values: &[Value], unit: Unit) -> String {
    const LISTED: usize = 8;
    let rank = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let ranks: Option<Vec<u32>> =
        values.iter().map(rank).collect::<Option<_>>().filter(|_| unit == Unit::Ranks);
    match ranks {
        Some(ranks) => units::rank_list(&ranks),
        None => {
            let texts: Vec<String> = values.iter().map(|v| value_text(v, unit)).collect();
            units::listed(&texts, LISTED)
        }
    }
}

/// One line for each kind of evidence that is missing.
pub(super) fn unknown(list: &[Unknown]) -> Option<Block> {
    let entry = |unknown: &Unknown| Entry {
        name: format!("{}, missing", unknown.class.label()),
        text: format!("would tell {}. {}", unknown.answers, unknown.capture),
        tone: Tone::Neutral,
    };
    (!list.is_empty()).then(|| Block::Entries(list.iter().map(entry).collect()))
}

/// Why collectives have no bandwidth, if none has one.
pub(super) fn no_bandwidth(report: &Report) -> Option<String> {
    let unknown = !report.collectives.is_empty()
        && report
            .collectives
            .iter()
            .all(|group| group.busbw_gbs.is_none() && group.bytes.is_none());
    unknown.then(|| {
        "Bandwidth is not known: the capture has no message sizes. Export with --include-json true where NCCL's ranges carry payloads, \
         or give --inspector."
            .to_owned()
    })
}

/// How the numbers were made.
pub(super) fn method(report: &Report) -> Vec<String> {
    let settings = &report.settings;
    let mut sentences = Vec::new();
    if noun(report).whole {
        sentences.push(format!(
            "One window per rank, from its first to its last GPU operation ({}).",
            settings.step_pattern_source.label()
        ));
    } else {
        let window = match settings.window {
            WindowKind::Cpu => "a window is the NVTX range on the CPU",
            WindowKind::Gpu => {
                "a window runs from the first GPU operation that the step launched to the first of the next, or to work launched between them"
            }
            WindowKind::Period => {
                "the range recurs once a step, so a window runs from the first GPU operation that one range launched to the first of the next range, whatever runs between"
            }
        };
        let what = if settings.step_pattern_source == StepSource::ToldKernel {
            "kernels whose name matches start a step:"
        } else {
            "ranges that match"
        };
        sentences.push(format!(
            "Steps: {what} {} ({}); {window}.",
            settings.step_pattern,
            settings.step_pattern_source.label()
        ));
    }
    if settings.skip > 0 {
        sentences.push(format!(
            "The first {} of each rank {} left out (--skip).",
            units::plural(settings.skip, "step"),
            if settings.skip == 1 { "is" } else { "are" }
        ));
    }
    if let Some(steps) = &settings.steps {
        sentences.push(format!(
            "Of the run's steps, counted from 0, only {} are reported on (--steps).",
            units::rank_list(steps)
        ));
    }
    if settings.exclude_outliers {
        sentences.push(
            "Outlier steps are marked and left out of every median and mean (--exclude-outliers)."
                .to_owned(),
        );
    }
    if let Some(pattern) = &settings.comm_regex {
        sentences.push(format!("Kernels that match {pattern} count as communication too."));
    }
    sentences.push(
        "Figures of a rank are medians over its steps; of the run, step time is the slowest rank's and everything else the mean over ranks. \
         On every step of every rank compute, exposed communication, exposed copies, unclassified alone and idle add up to the step exactly. \
         Sizes and bandwidths are decimal. A dash means not measured."
            .to_owned(),
    );
    sentences
}

/// The terms that the tables of this report use.
pub(super) fn definitions(report: &Report) -> Vec<(String, String)> {
    let mut metrics = vec![
        Metric::CommNs,
        Metric::ExposedCommNs,
        Metric::OverlapFraction,
        Metric::ComputeNs,
        Metric::DtodNs,
        Metric::ExposedCopyNs,
    ];
    if report.summary.values.median(Metric::UnclassifiedNs).is_some_and(|v| v > 0.0) {
        metrics.push(Metric::UnclassifiedNs);
    }
    metrics.push(Metric::IdleNs);
    let mut terms: Vec<(String, String)> = metrics
        .into_iter()
        .map(|metric| {
            let info = metric.info();
            (info.label.to_owned(), format!("{}.", info.definition))
        })
        .collect();
    if report.findings.iter().any(|finding| finding.cost_ns.is_some()) {
        terms.push((
            "cost".to_owned(),
            "the most of a step that a finding stands for; of communication the exposed part without waiting for others, which has a finding of its own. Two findings can stand for the same time.".to_owned(),
        ));
    }
    if !report.collectives.is_empty() {
        for (term, definition) in [
            (
                "transfer",
                "what a collective takes once all ranks are there: the shortest duration over ranks where all leave together, else latest end minus latest start.",
            ),
            (
                "waits",
                "a rank's own duration in a collective minus the transfer; a rank that waits little is the one others wait for. In Send/Recv, Broadcast and Reduce, which ranks do not leave together, the time from its arrival to the last one on aligned clocks.",
            ),
            (
                "last, first",
                "at how many of the collectives whose order of arrival is clear the rank arrived last, or first.",
            ),
            (
                "algbw, busbw",
                "algbw = S / transfer in GB/s, busbw = algbw x factor: AllReduce 2(n-1)/n; AllGather, ReduceScatter, AllToAll, Gather, Scatter (n-1)/n with S = size x n; others 1; n ranks of the communicator.",
            ),
        ] {
            terms.push((term.to_owned(), definition.to_owned()));
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn facts_read_with_their_units() {
        let facts = [
            ("busbw_gbs", json!(27.1), Unit::Gbs, "busbw 27.1 GB/s"),
            ("bytes", json!(1_226_141_600_u64), Unit::Bytes, "bytes 1.23 GB"),
            (
                "exposed_comm_fraction",
                json!(0.346),
                Unit::OfStep,
                "exposed communication 34.6 % of the step",
            ),
            ("overlap_fraction", json!(0.5), Unit::OfComm, "overlap 50.0 % of communication"),
            ("wait_fraction", json!(0.5), Unit::Share, "wait fraction 50.0 %"),
            ("last_count", json!(4), Unit::Count, "last count 4"),
            ("step_ns", json!(137_568_464), Unit::Ns, "step 137.6 ms"),
            ("transport", json!("SHM/direct/direct"), Unit::Text, "transport SHM/direct/direct"),
            ("wait_ns", json!([100_000, 5_100_000]), Unit::Ns, "wait 100.0 µs, 5.10 ms"),
            ("wait_by_rank_ns", json!({"0": 5}), Unit::Ns, "wait by rank (0: 5 ns)"),
            ("wait_us_of_all_ranks", json!(2_500.0), Unit::Us, "wait of all ranks 2.50 ms"),
            ("start_us", json!(0), Unit::UnixUs, "start 1970-01-01 00:00:00.000 UTC"),
            ("why", json!(null), Unit::Ns, "why –"),
            ("cost_of_step", json!(0.0329), Unit::OfStep, "cost 3.3 % of the step"),
            (
                "others_wait_ns_per_step",
                json!(4_524_978),
                Unit::NsPerStep,
                "others wait 4.52 ms per step",
            ),
            (
                "comm_count_per_step",
                json!(2.5),
                Unit::CountPerStep,
                "communication count 2.5 per step",
            ),
            ("pid", json!(123_456), Unit::Number, "pid 123456"),
            ("ranks", json!([0, 1, 2, 5]), Unit::Ranks, "ranks 0-2, 5"),
            ("NCCL_P2P_DISABLE", json!("1"), Unit::Text, "NCCL_P2P_DISABLE 1"),
            (
                "NCCL_P2P_DISABLE_found_in",
                json!(["a.log", "b.log"]),
                Unit::Text,
                "NCCL_P2P_DISABLE found in a.log, b.log",
            ),
        ];
        for (name, value, unit, text) in facts {
            assert_eq!(named_fact(name, &Fact { value, unit }), text);
        }
    }
}
