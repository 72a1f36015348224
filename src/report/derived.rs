//! What follows from a report where it is printed or compared.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};

use super::{RankReport, RankStep, Report, RunStep};
use crate::model::Metric;

/// One step on the ranks that have it.
pub type AlignedStep<'a> = Vec<(&'a RankReport, &'a RankStep)>;

impl Report {
    /// Every step of any rank, in the order in which they first occur: the ranks that have it, each with its own step.
    /// Steps of different ranks are the same if the run has them as one; of those that it lacks, if name and occurrence agree.
    pub fn aligned_steps(&self) -> Vec<AlignedStep<'_>> {
        let mut places: HashMap<(Option<usize>, &str, usize), usize> = HashMap::new();
        let mut steps: Vec<AlignedStep<'_>> = Vec::new();
        for rank in &self.ranks {
            let mut occurrences: HashMap<&str, usize> = HashMap::new();
            for step in &rank.steps {
                let occurrence = occurrences.entry(&step.name).or_default();
                let key = match step.run_step {
                    Some(index) => (Some(index), "", 0),
                    None => (None, step.name.as_str(), *occurrence),
                };
                *occurrence += 1;
                let place = *places.entry(key).or_insert(steps.len());
                match steps.get_mut(place) {
                    Some(ranks) => ranks.push((rank, step)),
                    None => steps.push(vec![(rank, step)]),
                }
            }
        }
        steps
    }

    /// Steps that are not measured on every rank and so not steps of the run.
    pub fn partial_steps(&self) -> usize {
        self.aligned_steps().len().saturating_sub(self.steps.len())
    }

    /// Outliers that no median rests on: the first captured step, or all of them where that was asked for.
    pub fn left_out(&self) -> impl Iterator<Item = &RunStep> {
        self.steps.iter().filter(|step| step.outlier && !step.counted)
    }

    /// Steps that count and lie far from the median, the furthest first.
    pub fn outlying_steps(&self) -> Vec<&RunStep> {
        let median = self.summary.values.median(Metric::StepNs).unwrap_or(0.0);
        let distance =
            |step: &RunStep| (step.values.f64(Metric::StepNs).unwrap_or(median) - median).abs();
        let mut far: Vec<&RunStep> =
            self.steps.iter().filter(|step| step.outlier && step.counted).collect();
        far.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
        far
    }

    /// True if the whole capture is one window, because it has no steps or was asked for so.
    pub fn is_one_window(&self) -> bool {
        self.settings.step_pattern == "whole"
    }

    /// Ranks that the run has, if the report has fewer.
    pub fn of_world(&self) -> Option<u32> {
        self.summary.world_size.filter(|&world| world as usize > self.ranks.len())
    }

    /// Hosts of the ranks.
    pub fn hosts(&self) -> BTreeSet<&str> {
        self.ranks.iter().filter_map(|rank| rank.hostname.as_deref()).collect()
    }

    /// Versions of Nsight Systems that exported the files.
    pub fn nsys_versions(&self) -> BTreeSet<&str> {
        self.inputs.iter().filter_map(|input| input.nsys_version.as_deref()).collect()
    }
}
