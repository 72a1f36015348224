//! Which steps of a variant count, and what they say on their own.

use std::collections::BTreeMap;

use crate::model::metric::{Metric, Num, Spread, Summary};
use crate::report::{RankStep, Report, RunStep};
use crate::stats;

use super::{Capture, Parts, StepTime};

/// The steps of a capture that count.
pub(super) fn counted(report: &Report, exclude_outliers: bool) -> impl Iterator<Item = &RunStep> {
    report.steps.iter().filter(move |step| counts(step, exclude_outliers))
}

fn counts(step: &RunStep, exclude_outliers: bool) -> bool {
    step.counted && step.values.int(Metric::StepNs).is_some() && !(exclude_outliers && step.outlier)
}

/// The step times (ns) of a capture that count.
pub(super) fn step_times(report: &Report, exclude_outliers: bool) -> Vec<i64> {
    counted(report, exclude_outliers).filter_map(|step| step.values.int(Metric::StepNs)).collect()
}

/// The median step time, or the mean of the captures' medians, ns.
pub(super) fn typical_step(captures: &[Vec<i64>]) -> Option<f64> {
    let medians: Vec<f64> = captures
        .iter()
        .filter_map(|times| stats::median(&times.iter().map(|&t| t as f64).collect::<Vec<_>>()))
        .collect();
    stats::mean(&medians)
}

/// One capture as the comparison shows it.
pub(super) fn capture(report: &Report, exclude_outliers: bool) -> Capture {
    let summary = summary_of_one(report, exclude_outliers);
    let part = |metric| summary[metric].and_then(|s| s.median.as_int()).unwrap_or(0);
    Capture {
        reports: report.inputs.iter().map(|input| input.path.clone()).collect(),
        steps: counted(report, exclude_outliers).count(),
        step_ns_median: summary[Metric::StepNs].and_then(|s| s.median.as_int()),
        parts: Parts {
            compute_ns: part(Metric::ComputeNs),
            exposed_comm_ns: part(Metric::ExposedCommNs),
            exposed_copy_ns: part(Metric::ExposedCopyNs),
            unclassified_exposed_ns: part(Metric::UnclassifiedExposedNs),
            idle_ns: part(Metric::IdleNs),
        },
        step_times: report
            .steps
            .iter()
            .map(|step| StepTime {
                name: step.name.clone(),
                step_ns: step.values.int(Metric::StepNs),
                outlier: step.outlier,
                counted: counts(step, exclude_outliers),
            })
            .collect(),
    }
}

/// The numbers of a variant: of several captures the mean of their medians and means, the least minimum and the greatest maximum.
pub(super) fn summary(reports: &[Report], exclude_outliers: bool) -> Summary {
    let each: Vec<Summary> =
        reports.iter().map(|report| summary_of_one(report, exclude_outliers)).collect();
    Summary::from_fn(|metric| {
        merge(&each.iter().filter_map(|summary| summary[metric]).collect::<Vec<_>>())
    })
}

fn summary_of_one(report: &Report, exclude_outliers: bool) -> Summary {
    Summary::from_fn(|metric| {
        let values: Vec<Num> =
            counted(report, exclude_outliers).filter_map(|step| step.values[metric]).collect();
        stats::spread(&values)
    })
}

fn merge(spreads: &[Spread]) -> Option<Spread> {
    let over =
        |pick: fn(&Spread) -> Num| stats::spread(&spreads.iter().map(pick).collect::<Vec<_>>());
    Some(Spread {
        median: over(|s| s.median)?.mean,
        mean: over(|s| s.mean)?.mean,
        min: over(|s| s.min)?.min,
        max: over(|s| s.max)?.max,
    })
}

/// Each step of the run that counts with the ranks' own steps of it.
pub(super) fn counted_with_ranks(
    report: &Report,
    exclude_outliers: bool,
) -> Vec<(&RunStep, Vec<(u32, &RankStep)>)> {
    let ranks: Vec<(u32, BTreeMap<usize, &RankStep>)> = report
        .ranks
        .iter()
        .map(|rank| {
            let own = rank.steps.iter().filter_map(|step| Some((step.run_step?, step)));
            (rank.rank, own.collect())
        })
        .collect();
    report
        .steps
        .iter()
        .filter(|step| counts(step, exclude_outliers))
        .map(|step| {
            let own = ranks.iter().filter_map(|(rank, own)| Some((*rank, *own.get(&step.index)?)));
            (step, own.collect())
        })
        .collect()
}
