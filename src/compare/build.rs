//! From finished reports to a finished comparison.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::catalogue::Id;
use crate::error::{Error, Result};
use crate::model::Num;
use crate::model::metric::Metric;
use crate::report::Report;
use crate::stats;
use crate::units;
use crate::warning::Warning;

use super::comparability::{self, Subject};
use super::expectation::{self, Facts};
use super::values::delta;
use super::verdict::{self, Judgement, Side};
use super::{
    CONFIDENCE, Comparison, Deltas, KernelChange, Method, Parts, PathMean, SCHEMA, Scaling,
    Settings, Variant, VariantInput, Verdict, gate, kernels, option, replayed, sample, statistic,
    waterfall,
};

/// Names that a sentence lists.
const MOST_NAMES: usize = 12;
/// The two sides of a ratio are resampled independently.
const BASELINE_SEED: u64 = 1;
const VARIANT_SEED: u64 = 2;

/// Compares every variant with the baseline.
///
/// # Errors
/// Fewer than two variants, two of one name, one without captures, or a baseline that is none of them.
pub fn compare(inputs: &[VariantInput], settings: &Settings) -> Result<Comparison> {
    let base = baseline_index(inputs, settings.baseline.as_deref())?;
    let exclude = settings.exclude_outliers;
    let mut variants: Vec<Variant> = inputs.iter().map(|input| describe(input, exclude)).collect();

    let mixed: Vec<bool> = inputs
        .iter()
        .map(|input| statistic::kinds(&input.captures).iter().any(Option::is_some))
        .collect();
    let side = |at: usize, means: bool, seed: u64| {
        Side::new(&inputs[at].captures, &variants[at], (means, exclude), seed)
    };
    let judgements: Vec<Option<Judgement>> = (0..variants.len())
        .into_par_iter()
        .map(|at| {
            let means = mixed[base] || mixed[at];
            (at != base).then(|| {
                let baseline = side(base, means, BASELINE_SEED);
                verdict::judge(&baseline, &side(at, means, VARIANT_SEED), settings.min_effect)
            })
        })
        .collect();
    let undecided: Vec<bool> =
        judgements.iter().map(|j| j.as_ref().is_some_and(|j| j.undecided)).collect();

    let baseline = variants[base].clone();
    for (variant, judgement) in variants.iter_mut().zip(judgements) {
        relate(variant, &baseline, judgement, settings.scaling);
    }

    let facts: Vec<Facts> = variants
        .iter()
        .zip(inputs)
        .filter_map(|(variant, input)| Some(Facts { variant, report: input.captures.first()? }))
        .collect();
    let expectations = expectation::expectations(&facts[base], &facts);
    let mut findings = expectation::findings(&facts[base], &facts, &expectations);
    findings.sort_by_key(|finding| finding.severity);

    Ok(Comparison {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        baseline: baseline.name.clone(),
        settings: Method {
            baseline_source: settings.baseline_source,
            min_effect: settings.min_effect,
            confidence: CONFIDENCE,
            draws: stats::DRAWS,
            scaling: settings.scaling,
            exclude_outliers: exclude,
        },
        expectations,
        waterfall: differences(&baseline, &variants),
        kernels: kernel_changes(inputs, base),
        critical_path: inputs
            .iter()
            .filter_map(|input| Some((input.name.clone(), PathMean::of(&input.captures)?)))
            .collect(),
        promises: replayed::promises((&baseline, &inputs[base].captures), &variants),
        gate: settings.gate_percent.map(|limit| gate::gate(limit, &variants, &undecided)),
        comparability: remarks(inputs, &variants, base, settings.scaling),
        findings,
        warnings: inputs.iter().filter_map(ranks_as_captures).chain(warnings(inputs)).collect(),
        variants,
    })
}

fn baseline_index(inputs: &[VariantInput], name: Option<&str>) -> Result<usize> {
    let names = || {
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        units::listed(&names, MOST_NAMES)
    };
    if inputs.len() < 2 {
        return Err(Error::usage(format!(
            "a comparison needs at least two variants, here is only '{}'",
            names()
        ))
        .with_hint("name the variants: nsysnccl compare before='a_*.sqlite' after='b_*.sqlite'"));
    }
    for (at, input) in inputs.iter().enumerate() {
        if inputs[..at].iter().any(|other| other.name == input.name) {
            return Err(Error::usage(format!("two variants are called '{}'", input.name)));
        }
        if input.captures.is_empty() {
            return Err(Error::usage(format!("variant '{}' has no reports", input.name)));
        }
    }
    match name {
        None => Ok(0),
        Some(name) => inputs.iter().position(|input| input.name == name).ok_or_else(|| {
            Error::usage(format!("the baseline '{name}' is none of the variants"))
                .with_hint(format!("use one of: {}", names()))
        }),
    }
}

/// A variant on its own.
fn describe(input: &VariantInput, exclude_outliers: bool) -> Variant {
    let reports = &input.captures;
    let times: Vec<Vec<i64>> =
        reports.iter().map(|report| sample::step_times(report, exclude_outliers)).collect();
    let median_step = waterfall::median_step(reports, exclude_outliers);
    let strip = median_step.as_ref().and_then(|step| {
        let strips = &reports.get(step.capture)?.strips;
        strips
            .iter()
            .find(|strip| strip.rank == step.rank && strip.step == step.step)
            .or_else(|| strips.first())
            .cloned()
    });
    Variant {
        name: input.name.clone(),
        reports: reports
            .iter()
            .flat_map(|report| report.inputs.iter().map(|file| file.path.clone()))
            .collect(),
        ranks: reports.first().map_or(0, |report| report.summary.ranks),
        steps: reports.iter().map(|report| report.steps.len()).sum(),
        counted_steps: times.iter().map(Vec::len).sum(),
        options: option::options_of(input),
        notes: input.notes.clone(),
        summary: sample::summary(reports, exclude_outliers),
        throughput_steps_per_s: sample::typical_step(&times)
            .filter(|&ns| ns > 0.0)
            .map(|ns| 1e9 / ns),
        comm_bytes_per_step: mean_of_all(reports, comm_bytes_per_step),
        comm_transfer_ns: mean_of_all(reports, |report| comm_transfer_ns(report, exclude_outliers)),
        speedup: None,
        speedup_ci95: None,
        scaling_efficiency: None,
        captures: reports.iter().map(|report| sample::capture(report, exclude_outliers)).collect(),
        verdict: Verdict::Baseline,
        why: "The others are compared with it.".to_owned(),
        median_step,
        delta: Deltas::of(&sample::summary(&[], false), &sample::summary(&[], false)),
        strip,
    }
}

/// The mean over captures of a number that all of them have.
fn mean_of_all(reports: &[Report], number: impl Fn(&Report) -> Option<i64>) -> Option<i64> {
    stats::mean_i64(&reports.iter().map(number).collect::<Option<Vec<_>>>()?)
}

/// Payload bytes of the collectives of a step; `None` if one of them has no size or none was matched although some ran.
fn comm_bytes_per_step(report: &Report) -> Option<i64> {
    let steps = i128::try_from(report.steps.len()).ok().filter(|&n| n > 0)?;
    if report.collectives.is_empty() {
        let none_ran = report.summary.values[Metric::CommCount]?.max == Num::Int(0);
        return none_ran.then_some(0);
    }
    let total = report.collectives.iter().try_fold(0i128, |sum, group| {
        sum.checked_add(i128::from(group.bytes?).checked_mul(i128::from(group.count))?)
    })?;
    i64::try_from(total.checked_add(steps / 2)? / steps).ok()
}

/// Median over steps of the least summed communication time of any rank: a rank that waits for nobody shows the transfer alone.
fn comm_transfer_ns(report: &Report, exclude_outliers: bool) -> Option<i64> {
    let steps = sample::counted_with_ranks(report, exclude_outliers);
    let least: Vec<i64> = steps
        .iter()
        .filter_map(|(_, ranks)| {
            ranks.iter().filter_map(|(_, step)| step.values.int(Metric::CommSumNs)).min()
        })
        .collect();
    stats::median_i64(&least)
}

/// Sets a variant against the baseline.
fn relate(
    variant: &mut Variant,
    baseline: &Variant,
    judgement: Option<Judgement>,
    scaling: Option<Scaling>,
) {
    variant.delta = Deltas::of(&variant.summary, &baseline.summary);
    variant.delta.throughput_steps_per_s = delta(
        variant.throughput_steps_per_s.map(Num::Real),
        baseline.throughput_steps_per_s.map(Num::Real),
    );
    variant.delta.comm_bytes_per_step = delta(
        variant.comm_bytes_per_step.map(Num::Int),
        baseline.comm_bytes_per_step.map(Num::Int),
    );
    variant.delta.comm_transfer_ns =
        delta(variant.comm_transfer_ns.map(Num::Int), baseline.comm_transfer_ns.map(Num::Int));
    let Some(judgement) = judgement else { return };
    variant.speedup = judgement.speedup;
    variant.speedup_ci95 = judgement.interval;
    variant.verdict = judgement.verdict;
    variant.why = judgement.why;
    variant.scaling_efficiency = match (scaling, variant.speedup) {
        (Some(scaling), Some(speedup)) if variant.ranks != baseline.ranks && variant.ranks > 0 => {
            Some(match scaling {
                Scaling::Weak => speedup,
                Scaling::Strong => speedup * baseline.ranks as f64 / variant.ranks as f64,
            })
        }
        _ => None,
    };
}

fn differences(baseline: &Variant, variants: &[Variant]) -> BTreeMap<String, Parts> {
    let Some(base) = &baseline.median_step else { return BTreeMap::new() };
    variants
        .iter()
        .filter(|variant| variant.verdict != Verdict::Baseline)
        .filter_map(|variant| {
            Some((variant.name.clone(), variant.median_step.as_ref()?.parts.minus(&base.parts)))
        })
        .collect()
}

fn kernel_changes(inputs: &[VariantInput], base: usize) -> BTreeMap<String, Vec<KernelChange>> {
    let others = inputs.iter().enumerate().filter(|(at, _)| *at != base);
    others
        .map(|(_, input)| {
            let changes = kernels::changes(&inputs[base].captures, &input.captures);
            (input.name.clone(), changes)
        })
        .collect()
}

fn remarks(
    inputs: &[VariantInput],
    variants: &[Variant],
    base: usize,
    scaling: Option<Scaling>,
) -> Vec<super::Remark> {
    let subjects: Vec<Subject> = inputs
        .iter()
        .zip(variants)
        .map(|(input, variant)| Subject {
            name: &input.name,
            captures: &input.captures,
            summary: &variant.summary,
        })
        .collect();
    let compared = subjects
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != base)
        .flat_map(|(_, s)| comparability::remarks(&subjects[base], s, scaling));
    subjects.iter().filter_map(comparability::missing_ranks).chain(compared).collect()
}

/// Captures of a variant whose ranks have nothing in common are one run in parts: quotes were forgotten, or a name was given to each file.
fn ranks_as_captures(input: &VariantInput) -> Option<Warning> {
    let ranks: Vec<BTreeSet<u32>> = input
        .captures
        .iter()
        .map(|capture| capture.ranks.iter().map(|rank| rank.rank).collect())
        .collect();
    let apart = ranks
        .iter()
        .enumerate()
        .any(|(i, one)| ranks[i + 1..].iter().any(|other| one.is_disjoint(other)));
    let world = input.captures.iter().filter_map(|capture| capture.summary.world_size).max()?;
    (apart && world > 1).then(|| {
        Warning::new(
            Id::RanksAsCaptures,
            format!("The captures of '{}' hold different ranks: ranks of one run are one capture, not repeats.", input.name),
        )
        .with_hint(format!("Name all reports of a run at once: {}='NAME_*.sqlite'", input.name))
    })
}

/// The warnings of all reports. One that several reports share is there once, with the variants that it is about.
fn warnings(inputs: &[VariantInput]) -> Vec<Warning> {
    let mut shared: Vec<(Warning, Vec<&str>)> = Vec::new();
    for input in inputs {
        for warning in input.captures.iter().flat_map(|report| &report.warnings) {
            let plain = Warning { report: None, ..warning.clone() };
            match shared.iter_mut().find(|(other, _)| *other == plain) {
                Some((_, names)) if names.contains(&input.name.as_str()) => {}
                Some((_, names)) => names.push(&input.name),
                None => shared.push((plain, vec![&input.name])),
            }
        }
    }
    shared
        .into_iter()
        .map(|(warning, names)| Warning {
            message: format!("{}: {}", units::listed(&names, MOST_NAMES), warning.message),
            ..warning
        })
        .collect()
}
