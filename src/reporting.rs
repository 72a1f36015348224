//! From a run to its report: the numbers first, then what explains them.

use crate::catalogue::Finding;
use crate::counters::findings as counters;
use crate::findings;
use crate::npkit::join::Joined;
use crate::report::{Report, build};
use crate::run::Run;
use crate::transport::Facts;

/// The report of a run. Every number in it is final.
pub fn of(run: &Run) -> Report {
    let report = build::numbers(run);
    let facts = build::facts(run);
    let of_transport =
        facts.as_ref().map_or_else(Vec::new, |facts| transport_findings(facts, &report));
    let found: Vec<Finding> = of_transport
        .into_iter()
        .chain(findings::find(&report))
        .chain(report.npkit.iter().flat_map(Joined::findings))
        .chain(report.counter_details.iter().flat_map(|d| counters::find(&report.counters, d)))
        .collect();
    let findings = findings::weighed(found, &report);
    let unknown = findings::unknown(&report, &findings);
    Report { findings, unknown, ..report }
}

fn transport_findings(facts: &Facts, report: &Report) -> Vec<Finding> {
    let captured: Vec<_> =
        report.inputs.iter().map(|input| input.capture.settings.clone()).collect();
    let findings = facts.findings(&captured).into_iter();
    findings.map(|finding| findings::weigh_transport(finding, report)).collect()
}
