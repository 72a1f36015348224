//! Real runs as finished reports, for tests: the numbers of each step come from an independent implementation of the metrics.

use std::collections::BTreeMap;

use super::{Comparison, Settings, Variant, VariantInput, compare};
use crate::model::metric::{Metric, Summary, Values};
use crate::report::{
    Capture, Clock, CollectiveGroup, Input, Kernels, RankReport, RankStep, Report, RunStep,
    RunSummary, Settings as StepSettings,
};
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
    assert!(!ranks.is_empty(), "{name} is no fixture");
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

fn report(name: &str, ranks: &[Vec<(String, Values)>]) -> Report {
    let mut steps: Vec<RunStep> = (0..ranks[0].len())
        .map(|i| {
            let own: Vec<&Values> = ranks.iter().map(|steps| &steps[i].1).collect();
            let mut values = Values::unmeasured();
            for &metric in Metric::ALL.iter().filter(|m| m.ratio_of().is_none()) {
                if let Some(list) = own.iter().map(|v| v.int(metric)).collect::<Option<Vec<i64>>>()
                {
                    values.set(
                        metric,
                        if metric == Metric::StepNs {
                            *list.iter().max().unwrap()
                        } else {
                            stats::mean_i64(&list).unwrap()
                        },
                    );
                }
            }
            values.set_ratios();
            let slowest = (0..ranks.len())
                .max_by_key(|&r| (own[r].int(Metric::StepNs), std::cmp::Reverse(r)))
                .map(|r| r as u32);
            RunStep {
                index: i,
                name: ranks[0][i].0.clone(),
                outlier: false,
                counted: true,
                slowest_rank: slowest,
                values,
            }
        })
        .collect();
    let times: Vec<i64> = steps.iter().filter_map(|s| s.values.int(Metric::StepNs)).collect();
    for (step, outlier) in steps.iter_mut().zip(stats::outliers(&times)) {
        (step.outlier, step.counted) = (outlier, !outlier || step.index > 0);
    }
    let rank = |(number, steps): (usize, &Vec<(String, Values)>)| RankReport {
        rank: number as u32,
        rank_source: "test".to_owned(),
        report: format!("{name}_{number}.sqlite"),
        pid: 1,
        device: 0,
        gpu: Some("NVIDIA H200".to_owned()),
        gpu_uuid: None,
        hostname: None,
        clock: Clock {
            epoch_ns: None,
            offset_ns: None,
            residual_p50_ns: None,
            residual_p95_ns: None,
            drift: None,
            collectives: 0,
        },
        wait_ns_per_step: None,
        last_count: None,
        first_count: None,
        ordered_count: None,
        steps: steps
            .iter()
            .enumerate()
            .map(|(index, (name, values))| RankStep {
                run_step: Some(index),
                index,
                name: name.clone(),
                outlier: false,
                counted: true,
                reason: None,
                values: values.clone(),
            })
            .collect(),
        summary: Summary::from_fn(|_| None),
    };
    Report {
        schema: crate::report::SCHEMA,
        tool_version: "0",
        name: name.to_owned(),
        settings: StepSettings {
            step_pattern: "default".to_owned(),
            step_pattern_source: "default".to_owned(),
            window: "gpu".to_owned(),
            skip: 0,
            ranks: None,
            keep_first: false,
            comm_regex: None,
        },
        inputs: (0..ranks.len())
            .map(|r| Input {
                path: format!("{name}_{r}.sqlite"),
                nsys_version: Some("2025.3.2".to_owned()),
                schema_version: Some("3.20.3".to_owned()),
                capture: Capture {
                    cuda_graph_mode: None,
                    settings: BTreeMap::new(),
                    rows: BTreeMap::new(),
                    nccl_payloads: false,
                },
                size_bytes: 1,
            })
            .collect(),
        summary: RunSummary {
            ranks: ranks.len(),
            world_size: Some(ranks.len() as u32),
            steps: steps.len(),
            counted_steps: steps.iter().filter(|s| s.counted).count(),
            values: Summary::from_fn(|metric| {
                stats::spread(
                    &steps
                        .iter()
                        .filter(|s| s.counted)
                        .filter_map(|s| s.values[metric])
                        .collect::<Vec<_>>(),
                )
            }),
        },
        ranks: ranks.iter().enumerate().map(rank).collect(),
        steps,
        kernels: Kernels {
            comm: Vec::new(),
            compute: Vec::new(),
            compute_omitted: 0,
            all_compute: BTreeMap::new(),
        },
        collectives: Vec::new(),
        waits: Vec::new(),
        inspector: None,
        transport: None,
        findings: Vec::new(),
        warnings: Vec::new(),
        strips: Vec::new(),
    }
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
        op: op.to_owned(),
        ranks: vec![0, 1],
        bytes: Some(bytes),
        count: calls * steps,
        matched_by: "payload".to_owned(),
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
