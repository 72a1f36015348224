//! What explains the run, each with its evidence and what to try, from the finished numbers of a report.

mod communication;
mod copies;
mod draft;
mod shared_gpu;
mod straggler;

<<<<<<< HEAD
=======
use serde_json::Value;

use self::draft::{Draft, percent, period, rounded, severity};
>>>>>>> 4157a6c
use self::straggler::Cause;
use crate::catalogue::{Finding, Id, Severity};
use crate::model::Metric;
use crate::report::Report;

/// All findings of a report, the most important first.
pub fn find(report: &Report) -> Vec<Finding> {
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
    list.extend(communication::share(report));
    list.extend(communication::tiny_messages(report));
    list.extend(communication::end_spread(report));
    list.extend(copies::copies(report));
    list.extend(communication::idle(
        report,
        late.filter(|late| matches!(late.cause, Cause::Idle | Cause::Host)).map(|late| late.rank),
    ));
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
pub fn weigh_transport(mut finding: Finding, report: &Report) -> Finding {
    let of_step = |metric| report.summary.values.median(metric);
    let is_slow = matches!(
        finding.id,
        Id::TransportBelowTopology
            | Id::SocketTransport
            | Id::SocketsDespiteRdma
            | Id::MissingGdrdma
            | Id::DegradedNvlink
    );
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

/// The order in which findings are printed: severity, then what spoils the measurement, then cost, causes before effects, then name.
pub fn sort(list: &mut [Finding]) {
    let cost = |f: &Finding| f.cost_ns.unwrap_or(0);
    let spoils = |f: &Finding| matches!(f.id, Id::CapturedApart | Id::SharedGpu);
    let effect = |f: &Finding| f.id == Id::ExposedCommunication;
    list.sort_by(|a, b| {
        let by_weight =
            a.severity.cmp(&b.severity).then(spoils(b).cmp(&spoils(a))).then(cost(b).cmp(&cost(a)));
        by_weight.then(effect(a).cmp(&effect(b))).then_with(|| a.id.cmp(&b.id))
    });
}
<<<<<<< HEAD

/// What a figure is of, in words: a step, or the capture where all of it is one window.
struct Period {
    /// A share `of the step`.
    of: &'static str,
    /// Per step.
    each: &'static str,
    /// Per step, where the figure is the median over steps.
    median: &'static str,
}

fn period(report: &Report) -> Period {
    if is_whole(report) {
        Period { of: "of the capture", each: "in the capture", median: "in the capture" }
    } else {
        Period { of: "of the step", each: "a step", median: "a step in the median" }
    }
}

/// True if the whole capture is the only step.
fn is_whole(report: &Report) -> bool {
    report.settings.step_pattern == "whole"
}

fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 0.1 => format!("{ms:.2} ms"),
        _ => crate::units::time(ns.round() as i64),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
=======
>>>>>>> 4157a6c
