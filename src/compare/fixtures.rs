//! Real runs as finished reports, for tests: the numbers of each step come from an independent implementation of the metrics.

use std::collections::BTreeMap;

use super::{Comparison, Settings, Variant, VariantInput, compare};
use crate::collectives::matches::Method;
use crate::model::CommOp;
use crate::model::metric::{Metric, Values};
use crate::report::{CollectiveGroup, RankReport, RankStep, Report, by_hand};
use crate::stats;

/// One line for each step of each rank; the head names the metrics.
const STEPS: &str = include_str!("fixtures.tsv");

/// The report of a run such as `shm/shm-2gpu`.
pub(crate) fn run(name: &str) -> Report {
    let mut lines = STEPS.lines();
    let metrics: Vec<Metric> = lines
        .next()
        .expect("a head")
        .split('\t')
        .skip(3)
        .map(|path| Metric::by_path(path).expect("a metric"))
        .collect();
    let mut ranks: BTreeMap<u32, Vec<(String, Values)>> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[0] == name {
            let mut values = Values::unmeasured();
            for (&metric, field) in metrics.iter().zip(&fields[3..]) {
                values.set(metric, field.parse().expect("an integer"));
            }
            values.set(Metric::UnclassifiedNs, 0);
            values.set(Metric::UnclassifiedExposedNs, 0);
            values.set_ratios();
            ranks
                .entry(fields[1].parse().expect("a rank"))
                .or_default()
                .push((fields[2].to_owned(), values));
        }
    }
    assert!(!ranks.is_empty(), "{name} is not a fixture");
    report(name, &ranks.into_values().collect::<Vec<_>>())
}

/// A report of one rank whose steps take `times` (ns) and compute all the time.
pub(crate) fn timed(name: &str, times: &[i64]) -> Report {
    let steps = times.iter().enumerate().map(|(i, &ns)| {
        let mut values = Values::unmeasured();
        for metric in [Metric::StepNs, Metric::ComputeNs] {
            values.set(metric, ns);
        }
        for metric in [
            Metric::CommNs,
            Metric::ExposedCommNs,
            Metric::ExposedCopyNs,
            Metric::IdleNs,
            Metric::UnclassifiedNs,
        ] {
            values.set(metric, 0);
        }
        (format!("step {i}"), values)
    });
    report(name, &[steps.collect()])
}

/// The run of these ranks; a first step that is an outlier does not count.
fn report(name: &str, ranks: &[Vec<(String, Values)>]) -> Report {
    let slowest = |step: usize| ranks.iter().filter_map(|r| r[step].1.int(Metric::StepNs)).max();
    let times: Vec<i64> = (0..ranks[0].len()).filter_map(slowest).collect();
    let outliers = stats::outliers(&times);
    let step = |(index, (name, values)): (usize, &(String, Values))| RankStep {
        outlier: outliers[index],
        counted: !outliers[index] || index > 0,
        ..by_hand::step(index, name, values.clone())
    };
    let rank = |(number, steps): (usize, &Vec<(String, Values)>)| RankReport {
        report: format!("{name}_{number}.sqlite"),
        gpu: Some("NVIDIA H200".to_owned()),
        ..by_hand::rank(number as u32, steps.iter().enumerate().map(step).collect())
    };
    by_hand::report(name, ranks.iter().enumerate().map(rank).collect())
}

/// Adds compute kernels: name, calls in a step of one rank, duration of a call (ns).
pub(crate) fn with_kernels(mut report: Report, kernels: &[(&str, u64, i64)]) -> Report {
    let rank_steps: u64 = report.ranks.iter().map(|rank| rank.steps.len() as u64).sum();
    let kernel = |&(name, calls, ns): &(&str, u64, i64)| {
        (name.to_owned(), (calls * rank_steps, ns * (calls * rank_steps) as i64))
    };
    report.kernels.all_compute = kernels.iter().map(kernel).collect();
    report
}

/// Adds collectives: operation, calls in a step, payload bytes of a call.
pub(crate) fn with_collectives(mut report: Report, collectives: &[(&str, u64, u64)]) -> Report {
    let steps = report.steps.len() as u64;
    let group = |&(op, calls, bytes): &(&str, u64, u64)| CollectiveGroup {
        op: CommOp::parse(op).expect("an operation"),
        ranks: vec![0, 1],
        bytes: Some(bytes),
        count: calls * steps,
        matched_by: Method::Communicator,
        ..CollectiveGroup::default()
    };
    report.collectives = collectives.iter().map(group).collect();
    report
}

/// A variant of one or more captures.
pub(crate) fn variant(name: &str, captures: Vec<Report>) -> VariantInput {
    VariantInput {
        name: name.to_owned(),
        captures,
        options: Vec::new(),
        guess_options: true,
        notes: None,
    }
}

/// A comparison of named runs, one capture each; the first is the baseline. A variant is called as its run without the folder.
pub(crate) fn compared(runs: &[&str]) -> Comparison {
    let inputs: Vec<VariantInput> = runs
        .iter()
        .map(|name| variant(name.rsplit('/').next().expect("a name"), vec![run(name)]))
        .collect();
    compare(&inputs, &Settings::default()).expect("compares")
}

/// The variant of that name.
pub(crate) fn of<'a>(comparison: &'a Comparison, name: &str) -> &'a Variant {
    comparison.variants.iter().find(|v| v.name == name).expect("is there")
}
