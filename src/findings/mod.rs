//! What explains the run, each with its evidence and what to try, from the finished numbers of a report.

mod communication;
mod copies;
mod shared_gpu;
mod straggler;

use serde_json::{Map, Value};

use self::straggler::Cause;
use crate::model::Metric;
use crate::report::Report;
use crate::warning::{Finding, Severity};

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
    let warning = report.warnings.iter().find(|warning| warning.code == "captured-apart")?;
    let Draft(mut finding) = Draft::new("captured-apart", Severity::High, warning.message.clone());
    finding.advice.clone_from(&warning.hint);
    Some(finding)
}

/// A slow transport is the cause of which exposed communication is the effect: it weighs as much and is said first.
pub fn weigh_transport(mut finding: Finding, report: &Report) -> Finding {
    let of_step = |metric| report.summary.values.median(metric);
    let slow = [
        "transport-below-topology",
        "socket-transport",
        "sockets-despite-rdma",
        "missing-gdrdma",
        "degraded-nvlink",
    ];
    if let (true, Some(comm), Some(exposed)) = (
        slow.contains(&finding.id.as_str()),
        of_step(Metric::CommFraction),
        communication::moving_fraction(report),
    ) {
        finding.title = format!(
            "{} Communication takes {} {}.",
            finding.title,
            percent(comm),
            period(report).of
        );
        finding.severity = finding.severity.min(severity(exposed));
        finding.evidence.insert("cost_of_step".to_owned(), rounded(exposed).into());
    }
    finding
}

/// The order in which findings are printed: severity, then what spoils the measurement, then cost, causes before effects, then name.
pub fn sort(list: &mut [Finding]) {
    let cost = |f: &Finding| f.evidence.get("cost_of_step").and_then(Value::as_f64).unwrap_or(0.0);
    let spoils = |f: &Finding| ["captured-apart", "shared-gpu"].contains(&f.id.as_str());
    let effect = |f: &Finding| f.id == "exposed-communication";
    list.sort_by(|a, b| {
        let by_weight = a
            .severity
            .cmp(&b.severity)
            .then(spoils(b).cmp(&spoils(a)))
            .then(cost(b).total_cmp(&cost(a)));
        by_weight.then(effect(a).cmp(&effect(b))).then_with(|| a.id.cmp(&b.id))
    });
}

/// Six digits of a share say enough; fewer would be rounded twice in print (0.32947 as 33.0 %).
fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

/// A finding under construction.
struct Draft(Finding);

impl Draft {
    fn new(id: &str, severity: Severity, title: String) -> Draft {
        Draft(Finding { id: id.to_owned(), severity, title, evidence: Map::new(), advice: None })
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Draft {
        self.0.evidence.insert(name.to_owned(), value.into());
        self
    }

    /// The share of the step that it costs at most; findings of one severity are ordered by it.
    fn costs(self, share: f64) -> Draft {
        self.with("cost_of_step", rounded(share))
    }

    fn advice(mut self, text: impl Into<String>) -> Finding {
        self.0.advice = Some(text.into());
        self.0
    }
}

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

/// By what a part of the step costs: a tenth is high, a fiftieth medium.
fn severity(share: f64) -> Severity {
    match share {
        s if s >= 0.1 => Severity::High,
        s if s >= 0.02 => Severity::Medium,
        _ => Severity::Info,
    }
}
