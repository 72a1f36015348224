//! What explains the run, each with its evidence and what to try, from the finished numbers of a report.

mod communication;
mod copies;
mod gain;
mod shared_gpu;
mod straggler;
mod unknown;
mod words;

#[cfg(test)]
mod tests;

use self::straggler::Cause;
pub(crate) use self::unknown::unknown;
use self::words::{percent, period};
use crate::catalogue::{Finding, Id, Severity};
use crate::model::Metric;
use crate::report::Report;

/// All findings of a report, not yet weighed.
pub(crate) fn find(report: &Report) -> Vec<Finding> {
    let late = straggler::find(report);
    let mut list = Vec::new();
    match &late {
        Some(late) => list.extend(late.finding(report)),
        None => {
            list.extend(straggler::jitter(report));
            list.extend(straggler::imbalance(report));
        }
    }
    match captured_apart(report) {
        // One after the other, runs use the same GPUs.
        Some(apart) => list.push(apart),
        None => list.extend(shared_gpu::shared_gpu(report)),
    }
    let largest = communication::largest(report);
    list.extend(communication::share(report, largest));
    list.extend(communication::tiny_messages(report));
    list.extend(communication::end_spread(report));
    list.extend(copies::copies(report));
    list.extend(communication::idle(
        report,
        late.filter(|late| matches!(late.cause, Cause::Idle | Cause::Host)).map(|late| late.rank),
        largest,
    ));
    list
}

/// Weighs findings by what removing their cause would gain, where that is predicted, and puts them in order.
pub(crate) fn weighed(findings: Vec<Finding>, report: &Report) -> Vec<Finding> {
    let mut list: Vec<Finding> =
        findings.into_iter().map(|finding| gain::weighed(finding, report)).collect();
    sort(&mut list);
    list
}

/// Reports of different runs, of which no number across ranks means anything: that is said before all else.
fn captured_apart(report: &Report) -> Option<Finding> {
    let warning = report.warnings.iter().find(|warning| warning.code == Id::CapturedApart)?;
    let finding = Finding::new(Id::CapturedApart, warning.message.clone());
    Some(Finding { advice: warning.hint.clone(), ..finding })
}

/// A slow transport is the cause of which exposed communication is the effect: it weighs as much and is said first.
pub(crate) fn weigh_transport(mut finding: Finding, report: &Report) -> Finding {
    let of_step = |metric| report.summary.values.median(metric);
    let is_slow = finding.id.removed().is_some();
    let (Some(step), Some(comm), Some(exposed)) = (
        of_step(Metric::StepNs),
        of_step(Metric::CommFraction),
        communication::moving_fraction(report),
    ) else {
        return finding;
    };
    if !is_slow {
        return finding;
    }
    finding.title =
        format!("{} Communication takes {} {}.", finding.title, percent(comm), period(report).of);
    let weight = finding.severity.min(Severity::of_share(exposed));
    finding.costs(exposed, step).weighing(weight)
}

/// The order in which findings are printed: what spoils the measurement, then severity, gain, cost, causes before effects, name.
pub(crate) fn sort(list: &mut [Finding]) {
    let cost = |f: &Finding| f.cost_ns.unwrap_or(0);
    // Without a prediction nothing is known to be gained: such findings come after those of their severity that have one.
    let gain = |f: &Finding| f.gain_ns.unwrap_or(-1);
    let spoils = |f: &Finding| matches!(f.id, Id::CapturedApart | Id::SharedGpu);
    let effect = |f: &Finding| f.id == Id::ExposedCommunication;
    list.sort_by(|a, b| {
        let by_weight = spoils(b)
            .cmp(&spoils(a))
            .then(a.severity.cmp(&b.severity))
            .then(gain(b).cmp(&gain(a)))
            .then(cost(b).cmp(&cost(a)));
        by_weight.then(effect(a).cmp(&effect(b))).then_with(|| a.id.cmp(&b.id))
    });
}
