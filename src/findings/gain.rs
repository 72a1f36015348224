//! What removing the cause of a finding would gain, where the replay predicts it; severity and order follow from that.

use super::draft::{ms, percent, period, severity};
use crate::model::Metric;
use crate::report::{Report, WhatIf};
use crate::warning::Finding;

/// Which scenario removes the cause of which finding.
const REMOVES: [(&str, &str); 9] = [
    ("straggler", "nobody-late"),
    ("arrival-jitter", "nobody-late"),
    ("compute-imbalance", "nobody-late"),
    ("exposed-communication", "no-communication"),
    ("dtod-copies", "dtod-copies-free"),
    ("htod-copies", "copies-free"),
    ("dtoh-copies", "copies-free"),
    ("other-copies", "copies-free"),
    ("idle", "host-never-late"),
];

/// Gains below this share of the step are none: two captures of one program differ by more.
const NOTHING: f64 = 0.005;

/// The finding with its cost in time and, if the run was replayed, with what removing its cause would gain.
pub fn weighed(mut finding: Finding, report: &Report) -> Finding {
    let Some(step) = report.summary.values.median(Metric::StepNs).filter(|step| *step > 0.0) else {
        return finding;
    };
    let cost = finding.evidence.get("cost_of_step").and_then(serde_json::Value::as_f64);
    finding.cost_ns = cost.map(|share| (share * step).round() as i64);
    let Some(what) = scenario(&finding.id, report) else { return finding };
    // Where ranks no longer meet, the slowest of each step can be slower than before: nothing is lost by that.
    let gain = what.gain_ns.max(0);
    let share = gain as f64 / step;
    finding.gain_ns = Some(gain);
    finding.severity = severity(share);
    let without = if share < NOTHING {
        format!(
            "Without it {} would take as long (replayed): something else holds it up.",
            period(report).a
        )
    } else {
        format!(
            "Without it {} would take {}, {} ({}) less (replayed).",
            period(report).a,
            ms(what.step_ns as f64),
            ms(gain as f64),
            percent(share)
        )
    };
    finding.title = format!("{} {without}", finding.title);
    finding
}

fn scenario<'a>(finding: &str, report: &'a Report) -> Option<&'a WhatIf> {
    let (_, id) = REMOVES.iter().find(|(removed, _)| *removed == finding)?;
    report.what_if.iter().find(|what| what.id == *id)
}
