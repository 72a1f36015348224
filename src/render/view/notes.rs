//! Findings with their evidence, warnings, definitions.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::headline::noun;
use crate::model::Metric;
use crate::render::document::{Level, Note};
use crate::render::units;
use crate::report::Report;
use crate::steps::{StepSource, WindowKind};
use crate::warning::{Finding, Severity, Warning};

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
const SAID: [&str; 2] = ["first-step-left-out", "captured-apart"];

/// Warnings; the same one about several reports is one note, and of many of one kind the first few are printed.
pub(in crate::render) fn warnings(warnings: &[Warning]) -> Vec<Note> {
    let mut kinds: Vec<(&Warning, Vec<&str>)> = Vec::new();
    for warning in warnings.iter().filter(|warning| !SAID.contains(&warning.code.as_str())) {
        let same = kinds.iter_mut().find(|(w, _)| {
            w.code == warning.code && w.message == warning.message && w.hint == warning.hint
        });
        match same {
            Some((_, reports)) => reports.extend(warning.report.as_deref()),
            None => kinds.push((warning, warning.report.as_deref().into_iter().collect())),
        }
    }
    let mut of_code: BTreeMap<&str, usize> = BTreeMap::new();
    let mut notes = Vec::new();
    for (warning, reports) in &kinds {
        let seen = of_code.entry(&warning.code).or_default();
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
fn evidence(facts: &Map<String, Value>) -> String {
    facts.iter().map(|(name, value)| fact(name, value)).collect::<Vec<_>>().join("; ")
}

/// A field's name as words; a variable of the environment keeps its underscores.
fn words(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let is_word = |part: &str| !part.contains(|c: char| c.is_ascii_uppercase());
    let mut before = "";
    for part in name.split('_') {
        if !out.is_empty() {
            out.push(if is_word(before) || is_word(part) { ' ' } else { '_' });
        }
        out.push_str(part);
        before = part;
    }
    out
}

/// How a number becomes text.
type Print = fn(f64) -> String;

/// Endings of names, how their numbers print, and whether the ending is a unit only: then it goes with the number.
const ENDINGS: [(&str, Print, bool); 10] = [
    ("ns", |v| units::time(v.round() as i64), true),
    ("us", |v| units::time((v * 1e3).round() as i64), true),
    ("ms", |v| units::time((v * 1e6).round() as i64), true),
    ("gbs", units::bandwidth, true),
    ("of_step", |v| format!("{} of the step", units::percent(v)), true),
    ("rel", units::signed_percent, true),
    ("bytes", |v| units::bytes(v.max(0.0).round() as u64), false),
    ("fraction", units::percent, false),
    ("share", units::percent, false),
    ("count", plain, false),
];

fn fact(name: &str, value: &Value) -> String {
    let (stem, each) =
        name.strip_suffix("_per_step").map_or((name, ""), |stem| (stem, " per step"));
    let ending = ENDINGS.iter().find(|(ending, ..)| {
        stem.strip_suffix(ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    });
    let (stem, print) = match ending {
        Some((ending, print, true)) => {
            (stem.strip_suffix(ending).unwrap_or(stem).trim_end_matches('_'), *print)
        }
        Some((_, print, false)) => (stem, *print),
        None => (stem, plain as Print),
    };
    format!("{} {}{each}", words(stem), value_text(value, print))
}

fn value_text(value: &Value, unit: Print) -> String {
    match value {
        Value::Null => units::MISSING.to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(n) => n.as_f64().map_or_else(|| n.to_string(), unit),
        Value::String(text) => text.clone(),
        Value::Array(values) => list_text(values, unit),
        Value::Object(facts) => {
            format!(
                "({})",
                facts
                    .iter()
                    .map(|(name, v)| format!("{name}: {}", value_text(v, unit)))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
    }
}

/// A list of facts; a long one is ranks, in runs, or cut short. JSON has all of it.
fn list_text(values: &[Value], unit: Print) -> String {
    const LISTED: usize = 8;
    let numbers: Option<Vec<u32>> =
        values.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok())).collect();
    match numbers {
        Some(numbers) if numbers.len() > LISTED => units::rank_list(&numbers),
        _ => {
            let texts: Vec<String> = values.iter().map(|v| value_text(v, unit)).collect();
            units::listed(&texts, LISTED)
        }
    }
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        units::count(value as u64)
    } else {
        format!("{value}")
    }
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
    if report.findings.iter().any(|finding| finding.evidence.contains_key("cost_of_step")) {
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
    fn evidence_reads_with_its_units() {
        let facts = json!({
            "busbw_gbs": 27.1, "bytes": 1_226_141_600_u64, "exposed_comm_fraction": 0.346, "last_count": 4, "step_ns": 137_568_464,
            "transport": "SHM/direct/direct", "wait_ns": [100_000, 5_100_000], "wait_by_rank_ns": {"0": 5}, "why": null,
            "cost_of_step": 0.0329, "others_wait_ns_per_step": 4_524_978,
            "NCCL_P2P_DISABLE": "1", "NCCL_P2P_DISABLE_found_in": ["a.log", "b.log"]
        });
        let Value::Object(facts) = facts else { panic!("an object") };
        assert_eq!(
            evidence(&facts),
            "NCCL_P2P_DISABLE 1; NCCL_P2P_DISABLE found in a.log, b.log; busbw 27.1 GB/s; bytes 1.23 GB; cost 3.3 % of the step; \
             exposed comm fraction 34.6 %; last count 4; others wait 4.52 ms per step; step 137.6 ms; transport SHM/direct/direct; \
             wait by rank (0: 5 ns); wait 100.0 µs, 5.10 ms; why –"
        );
    }
}
