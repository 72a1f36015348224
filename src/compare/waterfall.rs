//! Where the time went: the parts of one real step, which add up to it exactly, and their differences.

use crate::model::Values;
use crate::model::metric::Metric;
use crate::report::Report;

use super::{MedianStep, Parts, sample};

impl Parts {
    /// The parts of one step of one rank; `None` if one was not measured.
    fn of(values: &Values) -> Option<Self> {
        Some(Self {
            compute_ns: values.int(Metric::ComputeNs)?,
            exposed_comm_ns: values.int(Metric::ExposedCommNs)?,
            exposed_copy_ns: values.int(Metric::ExposedCopyNs)?,
            unclassified_exposed_ns: values.int(Metric::UnclassifiedExposedNs).unwrap_or(0),
            idle_ns: values.int(Metric::IdleNs)?,
        })
    }

    /// Each part with its name, in the order in which they are stacked.
    pub fn named(&self) -> [(&'static str, i64); 5] {
        [
            ("compute", self.compute_ns),
            ("exposed communication", self.exposed_comm_ns),
            ("exposed copies", self.exposed_copy_ns),
            ("unclassified", self.unclassified_exposed_ns),
            ("idle", self.idle_ns),
        ]
    }

    /// The parts that are not 0, the greatest first.
    pub fn changed(&self) -> Vec<(&'static str, i64)> {
        let mut parts: Vec<_> = self.named().into_iter().filter(|(_, ns)| *ns != 0).collect();
        parts.sort_by_key(|(_, ns)| std::cmp::Reverse(ns.unsigned_abs()));
        parts
    }

    /// The sum of the parts, ns.
    pub fn total_ns(&self) -> i64 {
        self.named().iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns))
    }

    /// Part by part, `self - other`.
    #[must_use]
    pub fn minus(&self, other: &Parts) -> Parts {
        Parts {
            compute_ns: self.compute_ns.saturating_sub(other.compute_ns),
            exposed_comm_ns: self.exposed_comm_ns.saturating_sub(other.exposed_comm_ns),
            exposed_copy_ns: self.exposed_copy_ns.saturating_sub(other.exposed_copy_ns),
            unclassified_exposed_ns: self
                .unclassified_exposed_ns
                .saturating_sub(other.unclassified_exposed_ns),
            idle_ns: self.idle_ns.saturating_sub(other.idle_ns),
        }
    }
}

/// The slowest rank of the run step with the lower-median step time over all captures (ties: first capture, lower index).
pub(super) fn median_step(captures: &[Report], exclude_outliers: bool) -> Option<MedianStep> {
    let mut steps: Vec<(i64, usize, usize)> = Vec::new();
    for (capture, report) in captures.iter().enumerate() {
        let counted = sample::counted(report, exclude_outliers);
        steps.extend(
            counted
                .enumerate()
                .filter_map(|(at, step)| Some((step.values.int(Metric::StepNs)?, capture, at))),
        );
    }
    steps.sort_unstable();
    let &(step_ns, capture, at) = steps.get(steps.len().checked_sub(1)? / 2)?;
    let with_ranks = sample::counted_with_ranks(captures.get(capture)?, exclude_outliers);
    let (step, ranks) = with_ranks.get(at)?;
    let (rank, own) = ranks.iter().find(|(rank, _)| Some(*rank) == step.slowest_rank)?;
    Some(MedianStep {
        capture,
        step: step.name.clone(),
        rank: *rank,
        step_ns,
        parts: Parts::of(&own.values)?,
    })
}
