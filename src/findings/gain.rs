//! What removing the cause of a finding would gain, where the replay predicts it; severity and order follow from that.

use super::words::{ms, percent, period};
use crate::catalogue::{Finding, Removal, Severity};
use crate::model::Metric;
use crate::report::Report;

/// Gains below this share of the step are none: two captures of one program differ by more.
const NOTHING: f64 = 0.005;

/// The finding with what removing its cause would gain, if the run was replayed.
pub(super) fn weighed(mut finding: Finding, report: &Report) -> Finding {
    let Some(step) = report.summary.values.median(Metric::StepNs).filter(|step| *step > 0.0) else {
        return finding;
    };
    let Some(Removal { scenario, with }) = finding.id.removed() else { return finding };
    let Some(what) = report.what_if.iter().find(|what| what.id == scenario) else {
        return finding;
    };
    // Where ranks no longer meet, the slowest of each step can be slower than before: nothing is lost by that.
    let gain = what.gain_ns.max(0);
    let share = gain as f64 / step;
    finding.gain_ns = Some(gain);
    finding.severity = Severity::of_share(share);
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
