//! What removing the cause of a finding would gain, where the replay predicts it; severity and order follow from that.

use super::draft::{ms, percent, period, severity};
use crate::model::Metric;
use crate::report::Report;
use crate::warning::Finding;

/// Which scenario removes the cause of which finding, and how it is said.
const REMOVES: [(&str, &str, &str); 14] = [
    ("straggler", "nobody-late", EVEN),
    ("arrival-jitter", "nobody-late", EVEN),
    ("compute-imbalance", "nobody-late", EVEN),
    ("exposed-communication", "no-communication", "Without communication"),
    ("transport-below-topology", "no-communication", FASTER),
    ("socket-transport", "no-communication", FASTER),
    ("sockets-despite-rdma", "no-communication", FASTER),
    ("missing-gdrdma", "no-communication", FASTER),
    ("degraded-nvlink", "no-communication", FASTER),
    ("dtod-copies", "dtod-copies-free", "Without these copies"),
    ("htod-copies", "copies-free", "Without any copies"),
    ("dtoh-copies", "copies-free", "Without any copies"),
    ("other-copies", "copies-free", "Without any copies"),
    ("idle", "host-never-late", "With hosts that are never late"),
];
const EVEN: &str = "With each rank's work as the median rank's";
const FASTER: &str = "Without communication, the bound of any faster link,";

/// Gains below this share of the step are none: two captures of one program differ by more.
const NOTHING: f64 = 0.005;

/// The finding with its cost in time and, if the run was replayed, with what removing its cause would gain.
pub fn weighed(mut finding: Finding, report: &Report) -> Finding {
    let Some(step) = report.summary.values.median(Metric::StepNs).filter(|step| *step > 0.0) else {
        return finding;
    };
    let cost = finding.evidence.get("cost_of_step").and_then(serde_json::Value::as_f64);
    finding.cost_ns = cost.map(|share| (share * step).round() as i64);
    let removed = REMOVES.iter().find(|(id, ..)| *id == finding.id);
    let Some(&(_, scenario, with)) = removed else { return finding };
    let Some(what) = report.what_if.iter().find(|what| what.id == scenario) else {
        return finding;
    };
    // Where ranks no longer meet, the slowest of each step can be slower than before: nothing is lost by that.
    let gain = what.gain_ns.max(0);
    let share = gain as f64 / step;
    finding.gain_ns = Some(gain);
    finding.severity = severity(share);
    let period = period(report).a;
    let then = if share < NOTHING {
        format!("{with} {period} would take as long: something else holds it up (replayed).")
    } else {
        let (then, gain) = (ms(what.step_ns as f64), ms(gain as f64));
        format!("{with} {period} would take {then}, {gain} ({}) less (replayed).", percent(share))
    };
    finding.title = format!("{} {then}", finding.title);
    finding
}
