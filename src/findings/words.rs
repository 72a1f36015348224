//! The words that all findings share.

use crate::report::Report;

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
