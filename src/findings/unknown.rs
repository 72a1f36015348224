//! What cannot be told of a report, since a kind of evidence is missing.

use crate::catalogue::{Class, Finding, Id, Unknown};
use crate::report::Report;

/// One entry for each missing kind that a rule of the catalogue needs. A rule that says something has what it needs.
pub(crate) fn unknown(report: &Report, findings: &[Finding]) -> Vec<Unknown> {
    let silent = |id: &Id| !findings.iter().any(|finding| finding.id == *id);
    let missing = Class::ALL.into_iter().filter(|class| is_missing(*class, report));
    let entry = |class: Class| {
        let rules: Vec<Id> = match class {
            // No rule needs them to speak; a gain is predicted from nothing else.
            Class::Dependencies => {
                findings.iter().map(|f| f.id).filter(|id| id.removed().is_some()).collect()
            }
            _ => {
                let needs =
                    |id: &Id| id.entry().rule.is_some_and(|rule| rule.needs.contains(&class));
                Id::ALL.iter().copied().filter(|id| needs(id) && silent(id)).collect()
            }
        };
        (!rules.is_empty()).then(|| Unknown {
            class,
            rules,
            answers: class.answers().to_owned(),
            capture: class.capture(),
        })
    };
    missing.filter_map(entry).collect()
}

/// True if the report lacks this evidence, and a run like this one could have it.
fn is_missing(class: Class, report: &Report) -> bool {
    let talks = report.kernels.comm.iter().any(|kernel| kernel.count > 0);
    let transport = report.transport.as_ref();
    match class {
        Class::Trace => report.ranks.is_empty(),
        Class::OtherRanks => {
            report.ranks.len() == 1 && talks && report.summary.world_size != Some(1)
        }
        Class::Sizes => {
            talks && !report.collectives.iter().any(|collective| collective.bytes.is_some())
        }
        Class::Dependencies => report.replay.reason.is_some(),
        Class::NcclLog => talks && transport.is_none_or(|transport| transport.pairs.is_empty()),
        Class::Topology => talks && transport.is_none_or(|transport| transport.topology.is_none()),
        Class::Npkit => talks && report.npkit.as_ref().is_none_or(|npkit| npkit.kernels.is_empty()),
        Class::Counters => talks && report.counters.is_empty(),
        Class::Inspector => talks && report.inspector.is_none(),
    }
}
