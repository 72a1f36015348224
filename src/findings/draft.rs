//! A finding under construction, and the words that all share.

use serde_json::{Map, Value};

use crate::report::Report;
use crate::warning::{Finding, Severity};

/// Six digits of a share say enough; fewer would be rounded twice in print (0.32947 as 33.0 %).
pub(super) fn rounded(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

/// A finding under construction.
pub(super) struct Draft(pub(super) Finding);

impl Draft {
    pub(super) fn new(id: &str, severity: Severity, title: String) -> Draft {
        Draft(Finding {
            gain_ns: None,
            cost_ns: None,
            id: id.to_owned(),
            severity,
            title,
            evidence: Map::new(),
            advice: None,
        })
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Draft {
        self.0.evidence.insert(name.to_owned(), value.into());
        self
    }

    /// The share of the step that it costs at most; findings of one severity are ordered by it.
    pub(super) fn costs(self, share: f64) -> Draft {
        self.with("cost_of_step", rounded(share))
    }

    pub(super) fn advice(mut self, text: impl Into<String>) -> Finding {
        self.0.advice = Some(text.into());
        self.0
    }
}

/// What a figure is of, in words: a step, or the capture where all of it is one window.
pub(super) struct Period {
    /// A share `of the step`.
    pub(super) of: &'static str,
    /// One step.
    pub(super) a: &'static str,
    /// Per step.
    pub(super) each: &'static str,
    /// Per step, where the figure is the median over steps.
    pub(super) median: &'static str,
}

pub(super) fn period(report: &Report) -> Period {
    if is_whole(report) {
        Period {
            of: "of the capture",
            a: "the capture",
            each: "in the capture",
            median: "in the capture",
        }
    } else {
        Period { of: "of the step", a: "a step", each: "a step", median: "a step in the median" }
    }
}

/// True if the whole capture is the only step.
pub(super) fn is_whole(report: &Report) -> bool {
    report.settings.step_pattern == "whole"
}

pub(super) fn ms(ns: f64) -> String {
    match ns / 1e6 {
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 0.1 => format!("{ms:.2} ms"),
        _ => crate::units::time(ns.round() as i64),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// By what a part of the step costs: a tenth is high, a fiftieth medium.
pub(super) fn severity(share: f64) -> Severity {
    match share {
        s if s >= 0.1 => Severity::High,
        s if s >= 0.02 => Severity::Medium,
        _ => Severity::Info,
    }
}
