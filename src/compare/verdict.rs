//! Whether a variant helped: from the interval of its speed-up, unless its captures do not carry a verdict.

use crate::model::metric::{Metric, PARTS};
use crate::report::Report;
use crate::stats;
use crate::units;

use super::statistic::Statistic;
use super::{CONFIDENCE, Capture, Parts, Variant, Verdict, sample};

/// Fewest steps of a variant that carry a verdict.
const FEWEST_STEPS: usize = 3;
/// Fewest steps that carry one where the variants are far apart.
const FEWEST_CLEAR: usize = 2;
/// How far that is: |ln speed-up| over this,
const FAR: f64 = 0.10;
/// and over this many times the larger spread (ln max/min) of the steps of a side.
const FAR_SPREADS: f64 = 5.0;
/// Of a difference this share in idle time needs a repeat.
const ONLY_IDLE: f64 = 0.8;
/// Shares of the kinds of steps that differ by no more are one mixture.
const SAME_MIXTURE: f64 = 0.02;
/// Fewer steps than these make a rough interval.
pub(crate) const ROUGH_STEPS: usize = 6;
/// Outlier steps of one variant that are tried one by one; more than these are not a single culprit.
const OUTLIERS_TRIED: usize = 8;
/// In a sample of more steps than these no single one decides.
const STEPS_TRIED: usize = 200;
/// A variant that computes less than this share of the baseline's time does not do its work.
const LEAST_COMPUTE: f64 = 0.05;

/// Said of a verdict without repeats.
pub(crate) const ONE_CAPTURE: &str = "One capture a side: the interval covers the variation from step to step only, not from run to run.";

/// One variant as a sample of step times.
pub(super) struct Side<'a> {
    variant: &'a Variant,
    reports: &'a [Report],
    exclude_outliers: bool,
    statistic: Statistic,
    seed: u64,
    draws: Vec<f64>,
}

/// A verdict and what it rests on.
pub(super) struct Judgement {
    pub speedup: Option<f64>,
    pub interval: Option<[f64; 2]>,
    pub verdict: Verdict,
    pub why: String,
    /// True if the captures carry no verdict, however narrow the interval is.
    pub undecided: bool,
}

impl<'a> Side<'a> {
    /// The sample of a variant. The two sides of a comparison need different seeds, so that their resamples are independent, and one
    /// statistic: `means` if the steps of either are of several kinds.
    pub(super) fn new(
        reports: &'a [Report],
        variant: &'a Variant,
        (means, exclude_outliers): (bool, bool),
        seed: u64,
    ) -> Self {
        let statistic = match means {
            true => Statistic::means(reports),
            false => Statistic::medians(reports, exclude_outliers),
        };
        let draws = statistic.draws(seed);
        Self { variant, reports, exclude_outliers, statistic, seed, draws }
    }

    fn steps(&self) -> usize {
        self.statistic.times.iter().map(Vec::len).sum()
    }

    /// ln(max / min) of the steps that count: how far they spread.
    fn step_spread(&self) -> f64 {
        let times = || self.statistic.times.iter().flatten().copied();
        match (times().min(), times().max()) {
            (Some(min), Some(max)) if min > 0 => (max as f64 / min as f64).ln(),
            _ => f64::INFINITY,
        }
    }

    /// ln(max / min) of the captures' medians: how much captures of the same thing differ.
    fn repeat_spread(&self) -> f64 {
        let medians = self.statistic.of_captures();
        let (min, max) = (
            medians.iter().copied().fold(f64::INFINITY, f64::min),
            medians.iter().copied().fold(0.0, f64::max),
        );
        if medians.len() < 2 || min <= 0.0 { 0.0 } else { (max / min).ln() }
    }

    /// The median of GPU time of one kind, ns.
    fn typical(&self, metric: Metric) -> f64 {
        self.variant.summary.median(metric).unwrap_or(0.0)
    }

    fn name(&self) -> &str {
        &self.variant.name
    }

    /// Why these captures carry no verdict by themselves.
    fn too_few_steps(&self) -> Option<String> {
        let (counted, all) =
            (self.steps(), self.reports.iter().map(|r| r.steps.len()).sum::<usize>());
        if counted >= FEWEST_STEPS {
            return None;
        }
        let left_out =
            self.reports.iter().flat_map(|r| &r.steps).find(|step| step.outlier && !step.counted);
        let reason = match left_out.and_then(|step| Some((step, step.values.int(Metric::StepNs)?)))
        {
            Some((step, ns)) if counted + 1 == all => {
                format!(" (the first, '{}' with {}, is an outlier)", step.name, units::time(ns))
            }
            _ if counted < all => format!(" of {all}"),
            _ => String::new(),
        };
        Some(format!(
            "'{}' has only {} that count{}{reason}: a verdict needs at least {FEWEST_STEPS}.",
            self.name(),
            units::plural(counted, "step"),
            if counted == 1 { "s" } else { "" },
        ))
    }

    /// The same sample without one step.
    fn without(&self, capture: usize, step: usize) -> Vec<f64> {
        let mut times = self.statistic.times.clone();
        if let Some(times) = times.get_mut(capture)
            && step < times.len()
        {
            times.remove(step);
        }
        stats::resampled_medians(&times, stats::DRAWS, self.seed)
    }

    /// Outlier steps that count: capture, position among the steps that count, text, time (ns).
    fn outliers(&self) -> impl Iterator<Item = (usize, usize, &str, i64)> {
        self.reports.iter().enumerate().flat_map(|(capture, report)| {
            sample::counted(report, self.exclude_outliers)
                .enumerate()
                .filter(|(_, step)| step.outlier)
                .filter_map(move |(at, step)| {
                    Some((capture, at, step.name.as_str(), step.values.int(Metric::StepNs)?))
                })
        })
    }
}

/// The verdict that an interval gives: `e` is the smallest effect that counts.
fn by_interval([lo, hi]: [f64; 2], e: f64) -> Verdict {
    let (slow, fast) = (1.0 / (1.0 + e), 1.0 + e);
    if lo > fast {
        Verdict::Faster
    } else if hi < slow {
        Verdict::Slower
    } else if lo >= slow && hi <= fast {
        Verdict::Same
    } else {
        Verdict::Inconclusive
    }
}

/// Compares a variant with the baseline; `e` is the smallest effect that counts.
pub(super) fn judge(baseline: &Side, variant: &Side, e: f64) -> Judgement {
    let speedup = match (baseline.statistic.figure(), variant.statistic.figure()) {
        (Some(a), Some(b)) if b > 0.0 => Some(a / b),
        _ => None,
    };
    let interval = stats::ratio_interval(&baseline.draws, &variant.draws, CONFIDENCE);
    let undecided = |why: String| Judgement {
        speedup,
        interval,
        verdict: Verdict::Inconclusive,
        why,
        undecided: true,
    };

    if let Some(why) = no_work(baseline, variant).or_else(|| other_mixture(baseline, variant)) {
        return undecided(why);
    }
    let few = baseline.too_few_steps().or_else(|| variant.too_few_steps());
    let clear = few.is_some().then(|| far_apart(baseline, variant, speedup)).flatten();
    if let (Some(why), None) = (&few, clear) {
        return undecided(why.clone());
    }
    let (Some(ratio), Some(interval)) = (speedup, interval) else {
        return undecided("A median step time is 0, so there is no ratio.".to_owned());
    };
    let verdict = clear.unwrap_or_else(|| by_interval(interval, e));
    if let Some(why) = only_idle(baseline, variant, verdict) {
        return undecided(why);
    }
    if let Some(why) = captures_disagree([baseline, variant], ratio, verdict, e) {
        return undecided(why);
    }

    let mut why = vec![interval_sentence(ratio, interval, verdict, e)];
    if clear.is_some() {
        why.push(format!(
            "Rough: {} and {} a side, which differ among themselves by far less than the variants do.",
            units::plural(baseline.steps(), "step"),
            units::plural(variant.steps(), "step")
        ));
    }
    why.extend([variant, baseline].iter().find_map(|side| side.statistic.sentence(side.name())));
    why.extend(deciding_outlier(baseline, variant, verdict, e));
    if baseline.reports.len() == 1 && variant.reports.len() == 1 {
        why.push(ONE_CAPTURE.to_owned());
    }
    if clear.is_some() {
        // Said above.
    } else if variant.steps() < ROUGH_STEPS {
        why.push(format!("With {} steps the interval is rough.", variant.steps()));
    } else if baseline.steps() < ROUGH_STEPS {
        why.push(format!("The baseline has {} steps, so the interval is rough.", baseline.steps()));
    }
    Judgement { speedup, interval: Some(interval), verdict, why: why.join(" "), undecided: false }
}

/// A side that does not do the work: less time there is no gain.
fn no_work(baseline: &Side, variant: &Side) -> Option<String> {
    for side in [variant, baseline] {
        let busy =
            [Metric::ComputeNs, Metric::CommNs, Metric::ExposedCopyNs, Metric::UnclassifiedNs];
        if busy.iter().all(|&metric| side.typical(metric) == 0.0) {
            return Some(format!(
                "'{}' has no GPU work in its steps, so there is nothing to compare.",
                side.name()
            ));
        }
    }
    let (before, after) = (baseline.typical(Metric::ComputeNs), variant.typical(Metric::ComputeNs));
    if variant.typical(Metric::UnclassifiedNs) == 0.0 && after < LEAST_COMPUTE * before {
        return Some(format!(
            "'{}' computes {} a step where '{}' computes {}: it does not do the same work.",
            variant.name(),
            units::time(after as i64),
            baseline.name(),
            units::time(before as i64)
        ));
    }
    None
}

/// The verdict of few steps that lie much further from those of the other side than from each other.
fn far_apart(baseline: &Side, variant: &Side, speedup: Option<f64>) -> Option<Verdict> {
    let spread = baseline.step_spread().max(variant.step_spread());
    let effect = speedup.filter(|ratio| *ratio > 0.0)?.ln();
    let enough = baseline.steps().min(variant.steps()) >= FEWEST_CLEAR;
    (enough && effect.abs() > FAR && effect.abs() > FAR_SPREADS * spread)
        .then_some(if effect > 0.0 { Verdict::Faster } else { Verdict::Slower })
}

/// Captures with different shares of the kinds of steps: a mean over one says nothing about the other.
fn other_mixture(baseline: &Side, variant: &Side) -> Option<String> {
    let (before, after) = (baseline.statistic.marked_share()?, variant.statistic.marked_share()?);
    ((before - after).abs() > SAME_MIXTURE).then(|| {
        format!(
            "The captures hold different mixtures of two kinds of steps: {} of those of '{}' are of the longer or communicating kind, {} of those of '{}'. Capture whole cycles on both sides.",
            units::percent(before),
            baseline.name(),
            units::percent(after),
            variant.name()
        )
    })
}

/// A difference that lies in idle time alone may be the host's of that hour: it needs a repeat.
fn only_idle(baseline: &Side, variant: &Side, verdict: Verdict) -> Option<String> {
    let one_each = baseline.reports.len() == 1 && variant.reports.len() == 1;
    if !one_each || !matches!(verdict, Verdict::Faster | Verdict::Slower) {
        return None;
    }
    let mean = |side: &Side, metric: Metric| {
        side.variant.summary[metric].map_or(0.0, |spread| spread.mean.as_f64())
    };
    let difference = |metric: Metric| mean(variant, metric) - mean(baseline, metric);
    let all: f64 = PARTS.iter().map(|&metric| difference(metric)).sum();
    let idle = difference(Metric::IdleNs);
    (all != 0.0 && idle / all >= ONLY_IDLE).then(|| {
        format!(
            "Of the difference of {} a step (mean over ranks) {} is idle time: host noise or a slower host. Capture again; with a repeat of each side this would carry a verdict.",
            units::time(all.abs().round() as i64),
            units::time(idle.abs().round() as i64)
        )
    })
}

/// Captures of one variant that differ as much as the variants do: says so and in which part of the step they differ most.
///
/// A verdict of `same` stands as long as the captures agree within the smallest effect that counts: there the variants differ by
/// nearly nothing, and captures always by a little more.
fn captures_disagree(sides: [&Side; 2], speedup: f64, verdict: Verdict, e: f64) -> Option<String> {
    let side = sides.into_iter().max_by(|a, b| a.repeat_spread().total_cmp(&b.repeat_spread()))?;
    let captures = &side.variant.captures;
    let (repeats, effect) = (side.repeat_spread(), speedup.ln().abs());
    if repeats == 0.0 || repeats < effect || (verdict == Verdict::Same && repeats <= e.ln_1p()) {
        return None;
    }
    let list = |values: Vec<i64>| {
        values.iter().map(|&ns| units::time(ns)).collect::<Vec<_>>().join(" and ")
    };
    let mut why = format!(
        "The captures of '{}' differ by {} ({} a step), '{}' and '{}' by {}.",
        side.name(),
        units::percent(repeats.exp() - 1.0),
        list(captures.iter().filter_map(|c| c.step_ns_median).collect()),
        sides[1].name(),
        sides[0].name(),
        units::percent(effect.exp() - 1.0),
    );
    if let Some((part, values)) = most_different_part(captures) {
        why.push_str(&format!(" They differ most in {part} time: {}.", list(values)));
    }
    Some(why)
}

/// The part of the step in which captures differ most, with its time (ns) in each.
fn most_different_part(captures: &[Capture]) -> Option<(&'static str, Vec<i64>)> {
    let names = Parts::default().named().map(|(name, _)| name);
    let mut most: Option<(i64, &'static str, Vec<i64>)> = None;
    for (at, name) in names.into_iter().enumerate() {
        let values: Vec<i64> =
            captures.iter().filter(|c| c.steps > 0).map(|c| c.parts.named()[at].1).collect();
        let range = values.iter().max()?.saturating_sub(*values.iter().min()?);
        if most.as_ref().is_none_or(|(widest, ..)| range > *widest) {
            most = Some((range, name, values));
        }
    }
    most.map(|(_, name, values)| (name, values))
}

/// The first sentence of the reasons for a verdict that rests on an interval.
pub(crate) fn interval_sentence(
    speedup: f64,
    interval: [f64; 2],
    verdict: Verdict,
    e: f64,
) -> String {
    let [lo, hi] = interval;
    format!(
        "Speed-up {speedup:.3}, 95 % interval {lo:.3} to {hi:.3}, {}.",
        interval_meaning(interval, verdict, e)
    )
}

/// What an interval says, as the end of a sentence about it.
pub(crate) fn interval_meaning([lo, hi]: [f64; 2], verdict: Verdict, e: f64) -> String {
    let counts = units::percent(e);
    match verdict {
        Verdict::Faster => format!("all of it more than {counts} faster"),
        Verdict::Slower => format!("all of it more than {counts} slower"),
        Verdict::Same => format!("all of it within {counts}, the smallest effect that counts"),
        Verdict::Baseline | Verdict::Inconclusive => {
            let (slow, fast) = (lo < 1.0 / (1.0 + e), hi > 1.0 + e);
            match (slow, fast) {
                (true, true) => "which leaves open whether it is faster or slower".to_owned(),
                (false, _) => {
                    format!("which leaves open whether it is faster by the {counts} that count")
                }
                (true, false) => {
                    format!("which leaves open whether it is slower by the {counts} that count")
                }
            }
        }
    }
}

/// An outlier step without which the verdict would be another.
fn deciding_outlier(baseline: &Side, variant: &Side, verdict: Verdict, e: f64) -> Option<String> {
    for (side, is_baseline) in [(variant, false), (baseline, true)] {
        if side.statistic.is_mean()
            || !(FEWEST_STEPS + 1..=STEPS_TRIED).contains(&side.steps())
            || side.outliers().count() > OUTLIERS_TRIED
        {
            continue;
        }
        for (capture, at, name, ns) in side.outliers() {
            let draws = side.without(capture, at);
            let interval = if is_baseline {
                stats::ratio_interval(&draws, &variant.draws, CONFIDENCE)
            } else {
                stats::ratio_interval(&baseline.draws, &draws, CONFIDENCE)
            };
            let without =
                interval.map_or(Verdict::Inconclusive, |interval| by_interval(interval, e));
            if without != verdict {
                return Some(format!(
                    "One step decides this: without the outlier '{name}' ({}) of '{}' it would be {}.",
                    units::time(ns),
                    side.name(),
                    without.label()
                ));
            }
        }
    }
    None
}
