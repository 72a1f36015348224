//! What known options should do to counts, bytes and times, and whether they did.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::model::CommOp;
use crate::model::metric::Metric;
use crate::report::Report;
use crate::units;
use crate::warning::{Finding, Severity};

use super::{Expectation, TrainingOption, Variant, comparability};

/// A ratio in this range counts as a half.
const HALF: std::ops::RangeInclusive<f64> = 0.4..=0.6;
/// Variants that a sentence names; of more it gives the number, and the evidence names them.
const NAMED: usize = 2;
/// A ratio in this range counts as unchanged.
const UNCHANGED: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// A variant with what its reports say about kernels.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub variant: &'a Variant,
    pub report: &'a Report,
}

/// One thing that an option should do.
struct Check {
    expected: String,
    observed: String,
    /// The same of the variant that lacks the option.
    without: String,
    holds: Option<bool>,
}

impl Check {
    /// A check of what `observe` says of the variant, beside what it says of the reference.
    fn new(
        expected: impl Into<String>,
        reference: &Reference,
        variant: &Facts,
        observe: impl Fn(&Facts) -> String,
        holds: Option<bool>,
    ) -> Self {
        Self {
            expected: expected.into(),
            observed: observe(variant),
            without: observe(&reference.facts),
            holds,
        }
    }

    /// A check of what ranks exchange, of which one rank alone shows nothing.
    fn between_ranks(self, variant: &Facts) -> Self {
        Self { holds: self.holds.filter(|_| !variant.is_alone()), ..self }
    }
}

impl Facts<'_> {
    fn median(&self, metric: Metric) -> Option<f64> {
        self.variant.summary.median(metric)
    }

    fn mean(&self, metric: Metric) -> Option<f64> {
        self.variant.summary[metric].map(|s| s.mean.as_f64())
    }

    /// True if there is nobody to exchange anything with.
    fn is_alone(&self) -> bool {
        let one = self.variant.ranks == 1
            && self.report.summary.world_size.is_none_or(|ranks| ranks <= 1);
        one && self.median(Metric::CommCount) == Some(0.0)
    }

    fn has(&self, wanted: fn(TrainingOption) -> bool) -> bool {
        self.variant.options.iter().any(|o| wanted(o.option))
    }

    /// Calls a step of one rank of each collective, by what the kernels are called.
    fn collective_calls(&self) -> Vec<(&'static str, f64)> {
        let rank_steps = comparability::rank_steps(self.report);
        [CommOp::AllReduce, CommOp::AllGather, CommOp::ReduceScatter]
            .into_iter()
            .map(|op| {
                let calls: u64 = self
                    .report
                    .kernels
                    .comm
                    .iter()
                    .filter(|k| k.name.contains(op.label()))
                    .map(|k| k.count)
                    .sum();
                (op.label(), calls as f64 / rank_steps)
            })
            .collect()
    }

    /// `3 collectives of 3.10 MB in 0.21 ms`, the time without waiting.
    fn traffic(&self) -> String {
        let count = self.median(Metric::CommCount);
        if count == Some(0.0) {
            return "no collectives".to_owned();
        }
        let noun = if count == Some(1.0) { "collective" } else { "collectives" };
        let bytes = self
            .variant
            .comm_bytes_per_step
            .map_or_else(String::new, |n| format!(" of {}", units::bytes(n.unsigned_abs())));
        let time = self
            .variant
            .comm_transfer_ns
            .map_or_else(String::new, |ns| format!(" in {}", units::time(ns)));
        format!("{} {noun}{bytes}{time}", number(count))
    }

    /// `368 DtoD copies of 1.70 GB`.
    fn copies(&self) -> String {
        let bytes = self
            .median(Metric::DtodBytes)
            .map_or_else(|| units::MISSING.to_owned(), |b| units::bytes(b as u64));
        format!("{} DtoD copies of {bytes}", number(self.median(Metric::DtodCount)))
    }

    fn time(&self, metric: Metric) -> String {
        self.median(metric).map_or_else(|| units::MISSING.to_owned(), |ns| units::time(ns as i64))
    }
}

/// What leaves the number of AllReduce and when they run as it is: all but the number, size and order of buckets.
const KEEPS_CALLS: &[TrainingOption] = &[
    TrainingOption::P2pOff,
    TrainingOption::StaticGraph,
    TrainingOption::GradientAsBucketView,
    TrainingOption::Bf16Hook,
];
/// What leaves the bytes of a step as they are.
const KEEPS_BYTES: &[TrainingOption] = &[
    TrainingOption::P2pOff,
    TrainingOption::StaticGraph,
    TrainingOption::GradientAsBucketView,
    TrainingOption::BucketCap(0),
    TrainingOption::GradientAccumulation,
];
/// What leaves the copies on a device as they are; PowerSGD adds some of its own.
const KEEPS_COPIES: &[TrainingOption] = &[
    TrainingOption::P2pOff,
    TrainingOption::StaticGraph,
    TrainingOption::BucketCap(0),
    TrainingOption::Bf16Hook,
];
/// What leaves the compute kernels as they are.
const KEEPS_KERNELS: &[TrainingOption] =
    &[TrainingOption::P2pOff, TrainingOption::StaticGraph, TrainingOption::GradientAsBucketView];
/// Every option changes times.
const KEEPS_TIMES: &[TrainingOption] = &[];

/// A variant that lacks the option.
struct Reference<'a> {
    facts: Facts<'a>,
    same_ranks: bool,
    /// Other options that only one of the two has.
    differing: Vec<TrainingOption>,
}

impl<'a> Reference<'a> {
    fn new(option: TrainingOption, facts: Facts<'a>, variant: &Facts) -> Self {
        let options =
            |facts: &Facts| facts.variant.options.iter().map(|o| o.option).collect::<BTreeSet<_>>();
        Self {
            facts,
            same_ranks: facts.variant.ranks == variant.variant.ranks,
            differing: (&options(&facts) ^ &options(variant))
                .into_iter()
                .filter(|o| !o.same_kind(option))
                .collect(),
        }
    }

    /// True if the two differ only in options that leave what is compared as it is.
    fn comparable(&self, harmless: &[TrainingOption]) -> bool {
        self.same_ranks
            && self
                .differing
                .iter()
                .all(|option| harmless.iter().any(|kind| kind.same_kind(*option)))
    }

    /// What a check says, if the two are alike enough for it.
    fn if_comparable(
        &self,
        harmless: &[TrainingOption],
        holds: impl FnOnce() -> Option<bool>,
    ) -> Option<bool> {
        self.comparable(harmless).then(holds).flatten()
    }
}

/// Checks every option of every variant for which there is something to compare with.
pub(super) fn expectations(baseline: &Facts, all: &[Facts]) -> Vec<Expectation> {
    let mut list = Vec::new();
    for variant in all {
        for changed in &variant.variant.options {
            let Some(reference) = reference(changed.option, variant, baseline, all) else {
                continue;
            };
            list.extend(checks(changed.option, &reference, variant).into_iter().map(|check| {
                Expectation {
                    variant: variant.variant.name.clone(),
                    option: changed.option,
                    source: changed.source.clone(),
                    compared_with: reference.facts.variant.name.clone(),
                    expected: check.expected,
                    observed: check.observed,
                    observed_without: check.without,
                    holds: check.holds,
                }
            }));
        }
    }
    list
}

/// What shows the effect of one option alone: the variant that has as many as possible of the other options and nothing else, where
/// possible with as many ranks and on the same path between them. Of those the baseline, else the one by whose name the variant's begins,
/// else the first. Without any it is the baseline, if that lacks the option.
fn reference<'a>(
    option: TrainingOption,
    variant: &Facts<'a>,
    baseline: &Facts<'a>,
    all: &[Facts<'a>],
) -> Option<Reference<'a>> {
    let others = |facts: &&Facts| {
        facts.variant.options.iter().all(|o| {
            !o.option.same_kind(option)
                && variant.variant.options.iter().any(|own| own.option == o.option)
        })
    };
    let is_baseline = |facts: &Facts| facts.variant.name == baseline.variant.name;
    let lacks = |facts: &Facts| facts.variant.options.iter().all(|o| !o.option.same_kind(option));
    all.iter()
        .enumerate()
        .filter(|(_, facts)| others(facts))
        .max_by_key(|(at, facts)| {
            let same_ranks = facts.variant.ranks == variant.variant.ranks;
            let same_path = facts.has(is_p2p_off) == variant.has(is_p2p_off);
            let same_name = variant.variant.name.starts_with(&facts.variant.name);
            (
                same_ranks,
                same_path,
                facts.variant.options.len(),
                is_baseline(facts),
                same_name,
                std::cmp::Reverse(*at),
            )
        })
        .map(|(_, facts)| *facts)
        .or_else(|| (lacks(baseline) && !is_baseline(variant)).then_some(*baseline))
        .map(|facts| Reference::new(option, facts, variant))
}

fn checks(option: TrainingOption, reference: &Reference, variant: &Facts) -> Vec<Check> {
    match option {
        TrainingOption::StaticGraph => vec![little_changes(reference, variant)],
        TrainingOption::GradientAsBucketView => vec![bucket_copies_vanish(reference, variant)],
        TrainingOption::Bf16Hook => vec![
            traffic_halves(reference, variant).between_ranks(variant),
            conversions_appear(reference, variant),
        ],
        TrainingOption::PowerSgd => vec![
            traffic_shrinks(reference, variant).between_ranks(variant),
            compute_grows(reference, variant),
        ],
        TrainingOption::BucketCap(mib) => {
            vec![
                buckets_fit(mib, reference, variant).between_ranks(variant),
                overlap_rises(reference, variant).between_ranks(variant),
            ]
        }
        TrainingOption::DdpOneGpu => vec![copies_without_communication(reference, variant)],
        TrainingOption::GradientAccumulation => {
            vec![fewer_collectives(reference, variant).between_ranks(variant)]
        }
        TrainingOption::Fsdp => {
            vec![sharded_collectives(reference, variant).between_ranks(variant)]
        }
        TrainingOption::P2pOff => {
            vec![same_traffic_slower(reference, variant).between_ranks(variant)]
        }
    }
}

fn little_changes(reference: &Reference, variant: &Facts) -> Check {
    let equal = |metric| Some(reference.facts.median(metric)? == variant.median(metric)?);
    let all_equal = || {
        Some(equal(Metric::CommCount)? && equal(Metric::DtodCount)? && equal(Metric::DtodBytes)?)
    };
    let observe = |facts: &Facts| format!("{}, {}", facts.traffic(), facts.copies());
    let holds = reference.if_comparable(&[TrainingOption::P2pOff], all_equal);
    Check::new("as many collectives and copies", reference, variant, observe, holds)
}

/// The gradients of a step in bytes: what all-reduces carry where no hook compresses them.
fn gradient_bytes(reference: &Reference, variant: &Facts) -> Option<i64> {
    let whole = |facts: &&Facts| !facts.has(is_hook);
    let hooks_aside = [KEEPS_BYTES, &[TrainingOption::Bf16Hook, TrainingOption::PowerSgd]].concat();
    let other = Some(&reference.facts).filter(|_| reference.comparable(&hooks_aside));
    [other, Some(variant)]
        .into_iter()
        .flatten()
        .filter(whole)
        .find_map(|facts| facts.variant.comm_bytes_per_step.filter(|&bytes| bytes > 0))
}

fn is_p2p_off(option: TrainingOption) -> bool {
    option == TrainingOption::P2pOff
}

fn is_hook(option: TrainingOption) -> bool {
    matches!(option, TrainingOption::Bf16Hook | TrainingOption::PowerSgd)
}

fn bucket_copies_vanish(reference: &Reference, variant: &Facts) -> Check {
    let gradients = gradient_bytes(reference, variant);
    let vanish = || {
        let bytes =
            (reference.facts.median(Metric::DtodBytes)?, variant.median(Metric::DtodBytes)?);
        let counts =
            (reference.facts.median(Metric::DtodCount)?, variant.median(Metric::DtodCount)?);
        let enough = match gradients {
            Some(gradients) => bytes.0 - bytes.1 >= 0.9 * gradients as f64,
            None => bytes.1 < 0.9 * bytes.0,
        };
        Some(enough && counts.1 < counts.0)
    };
    let expected = match gradients {
        Some(bytes) => {
            format!("the DtoD copies of the buckets vanish, {}", units::bytes(bytes.unsigned_abs()))
        }
        None => "the DtoD copies of the buckets vanish".to_owned(),
    };
    Check::new(
        expected,
        reference,
        variant,
        |facts| facts.copies(),
        reference.if_comparable(KEEPS_COPIES, vanish),
    )
}

/// Variant / reference of the bytes of a step if both are known, else of the communication time without waiting.
fn traffic_ratio(reference: &Reference, variant: &Facts) -> Option<f64> {
    let ratio = |harmless: &[TrainingOption], number: fn(&Variant) -> Option<i64>| {
        let before =
            number(reference.facts.variant).filter(|&b| b > 0 && reference.comparable(harmless))?;
        Some(number(variant.variant)? as f64 / before as f64)
    };
    ratio(KEEPS_BYTES, |v| v.comm_bytes_per_step)
        .or_else(|| ratio(KEEPS_TIMES, |v| v.comm_transfer_ns))
}

fn traffic_halves(reference: &Reference, variant: &Facts) -> Check {
    let holds = traffic_ratio(reference, variant).map(|ratio| HALF.contains(&ratio));
    Check::new(
        "half the bytes, or half the time",
        reference,
        variant,
        |facts| facts.traffic(),
        holds,
    )
}

/// Kernels that run more often than in the reference, those with most time first.
fn added_kernels(reference: &Facts, variant: &Facts) -> Vec<String> {
    let (before, after) = (
        comparability::compute_kernels(reference.report),
        comparability::compute_kernels(variant.report),
    );
    let mut added: Vec<(f64, String)> = after
        .iter()
        .filter_map(|(name, &(calls, ns))| {
            let earlier = before.get(name).map_or(0.0, |&(calls, _)| calls);
            (calls - earlier >= 0.5).then(|| {
                (
                    ns,
                    format!("{} ({earlier:.0} → {calls:.0} calls)", crate::text::shorten(name, 40)),
                )
            })
        })
        .collect();
    added.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    added.into_iter().map(|(_, text)| text).collect()
}

/// A check of compute time that names the kernels which the variant runs more often.
fn compute_check(
    expected: &str,
    reference: &Reference,
    variant: &Facts,
    holds: Option<bool>,
) -> Check {
    let added = added_kernels(&reference.facts, variant);
    let kernels = match added.as_slice() {
        _ if !reference.comparable(KEEPS_KERNELS)
            || variant.report.kernels.all_compute.is_empty() =>
        {
            String::new()
        }
        [] => "; no kernel runs more often".to_owned(),
        [one] => format!("; more calls of {one}"),
        [first, rest @ ..] => {
            format!("; more calls of {first} and {}", units::plural(rest.len(), "other kernel"))
        }
    };
    let observe = |facts: &Facts| format!("compute {}", facts.time(Metric::ComputeNs));
    let check = Check::new(expected, reference, variant, observe, holds);
    Check { observed: format!("{}{kernels}", check.observed), ..check }
}

fn conversions_appear(reference: &Reference, variant: &Facts) -> Check {
    let appear = || {
        (!variant.report.kernels.all_compute.is_empty())
            .then(|| !added_kernels(&reference.facts, variant).is_empty())
    };
    compute_check(
        "more kernels: gradients are converted",
        reference,
        variant,
        reference.if_comparable(KEEPS_KERNELS, appear),
    )
}

fn traffic_shrinks(reference: &Reference, variant: &Facts) -> Check {
    let holds = traffic_ratio(reference, variant).map(|ratio| ratio < *HALF.start());
    Check::new(
        "a few small collectives instead of the whole gradients",
        reference,
        variant,
        |facts| facts.traffic(),
        holds,
    )
}

fn compute_grows(reference: &Reference, variant: &Facts) -> Check {
    let before = reference.facts.median(Metric::ComputeNs).filter(|&ns| ns > 0.0);
    let grows = || Some(variant.median(Metric::ComputeNs)? / before? > 1.01);
    compute_check(
        "more compute: gradients are factorised",
        reference,
        variant,
        reference.if_comparable(KEEPS_TIMES, grows),
    )
}

/// DDP closes a bucket when it reaches the cap, so a bucket is rarely smaller and can be larger by its last gradient.
fn buckets_fit(mib: u32, reference: &Reference, variant: &Facts) -> Check {
    let cap = f64::from(mib) * f64::from(1 << 20);
    let (before, after) =
        (reference.facts.median(Metric::CommCount), variant.median(Metric::CommCount));
    let observe = |facts: &Facts| number(facts.median(Metric::CommCount));
    let (expected, holds) = match gradient_bytes(reference, variant) {
        Some(bytes) => {
            let most = (bytes as f64 / cap).ceil();
            let expected = format!(
                "up to about {most:.0} AllReduce: {} in buckets of {mib} MiB",
                units::bytes(bytes.unsigned_abs())
            );
            (expected, after.map(|n| n >= (0.5 * most).floor().max(1.0) && n <= most + 2.0))
        }
        None => {
            let another = || before.zip(after).map(|(before, after)| before != after);
            (
                format!("another number of AllReduce: gradients / {mib} MiB"),
                reference.if_comparable(KEEPS_CALLS, another),
            )
        }
    };
    Check::new(expected, reference, variant, observe, holds)
}

fn overlap_rises(reference: &Reference, variant: &Facts) -> Check {
    let before = reference.facts.median(Metric::OverlapFraction);
    let rises = || {
        let more_buckets =
            reference.facts.median(Metric::CommCount)? < variant.median(Metric::CommCount)?;
        before
            .zip(variant.median(Metric::OverlapFraction))
            .filter(|_| more_buckets)
            .map(|(before, after)| after > before + 0.05)
    };
    let observe = |facts: &Facts| {
        let share = facts
            .median(Metric::OverlapFraction)
            .map_or_else(|| units::MISSING.to_owned(), units::percent);
        format!("overlap {share}")
    };
    Check::new(
        "more overlap, if there are more buckets",
        reference,
        variant,
        observe,
        reference.if_comparable(KEEPS_CALLS, rises),
    )
}

fn copies_without_communication(reference: &Reference, variant: &Facts) -> Check {
    let copies = || {
        let without = variant.median(Metric::CommCount)? == 0.0;
        let others = reference.facts.median(Metric::CommCount)? > 0.0;
        let more = others
            || variant.median(Metric::DtodBytes)? > reference.facts.median(Metric::DtodBytes)?;
        Some(without && more && variant.median(Metric::DtodCount)? > 0.0)
    };
    // Buckets that are views need no copies, so only what has the same other options shows anything; sizes are mostly tried with views.
    let holds = reference.if_comparable(
        &[TrainingOption::P2pOff, TrainingOption::StaticGraph, TrainingOption::Bf16Hook],
        copies,
    );
    Check::new(
        "copies to the buckets, nothing sent",
        reference,
        variant,
        |facts| format!("{}, {}", facts.copies(), facts.traffic()),
        holds,
    )
}

/// A step range may hold one backward pass, of which only some send, or all that belong to one synchronisation: either way there is more
/// compute for each collective.
fn fewer_collectives(reference: &Reference, variant: &Facts) -> Check {
    // The optimizer runs once however many passes there are, so two passes are less than twice the work.
    const MORE_WORK: f64 = 1.2;
    let kernels = |facts: &Facts| {
        comparability::compute_kernels(facts.report).values().map(|(calls, _)| calls).sum::<f64>()
    };
    let work = |facts: &Facts| Some(kernels(facts)).filter(|&calls| calls > 0.0);
    let time = |facts: &Facts| facts.mean(Metric::ComputeNs);
    let growth = |work: &dyn Fn(&Facts) -> Option<f64>| {
        let each = |facts: &Facts| Some(work(facts)? / facts.mean(Metric::CommCount)?);
        Some(
            each(variant)?
                / each(&reference.facts).filter(|each| each.is_finite() && *each > 0.0)?,
        )
    };
    let grows = || growth(&work).or_else(|| growth(&time)).map(|growth| growth > MORE_WORK);
    let observe = |facts: &Facts| {
        let count = facts.mean(Metric::CommCount);
        let share = |amount: Option<f64>| {
            amount.zip(count.filter(|&n| n > 0.0)).map(|(amount, n)| amount / n)
        };
        match (share(work(facts)), share(time(facts))) {
            (Some(kernels), _) => format!(
                "{} a step, one to {} compute kernels",
                number(count),
                units::count(kernels.round() as u64)
            ),
            (_, Some(ns)) => {
                format!("{} a step, one to {} of compute", number(count), units::time(ns as i64))
            }
            _ => format!("{} a step", number(count)),
        }
    };
    Check::new(
        "fewer collectives for the same work",
        reference,
        variant,
        observe,
        reference.if_comparable(KEEPS_CALLS, grows),
    )
}

fn sharded_collectives(reference: &Reference, variant: &Facts) -> Check {
    let of = |op: CommOp| {
        variant
            .collective_calls()
            .into_iter()
            .find(|(name, _)| *name == op.label())
            .map_or(0.0, |(_, calls)| calls)
    };
    let (reduce, gather, scatter) =
        (of(CommOp::AllReduce), of(CommOp::AllGather), of(CommOp::ReduceScatter));
    let observe = |facts: &Facts| {
        let calls: Vec<String> = facts
            .collective_calls()
            .iter()
            .filter(|(_, n)| *n > 0.0)
            .map(|(name, n)| format!("{} {name}", number(Some(*n))))
            .collect();
        if calls.is_empty() { "none of them".to_owned() } else { calls.join(", ") }
    };
    let holds = gather > 0.0 && scatter > 0.0 && gather + scatter > reduce;
    Check::new(
        "AllGather and ReduceScatter instead of AllReduce",
        reference,
        variant,
        observe,
        Some(holds),
    )
}

fn same_traffic_slower(reference: &Reference, variant: &Facts) -> Check {
    let slower = || {
        let same =
            reference.facts.median(Metric::CommCount)? == variant.median(Metric::CommCount)?;
        let slower = variant.variant.comm_transfer_ns? as f64
            > UNCHANGED.end() * reference.facts.variant.comm_transfer_ns? as f64;
        same.then_some(slower)
    };
    let expected = "the same collectives take longer: through host memory";
    Check::new(
        expected,
        reference,
        variant,
        |facts| facts.traffic(),
        reference.if_comparable(KEEPS_TIMES, slower),
    )
}

/// A count, which is whole except where ranks differ.
fn number(value: Option<f64>) -> String {
    match value {
        None => units::MISSING.to_owned(),
        Some(n) if n.fract() == 0.0 && n >= 0.0 => units::count(n as u64),
        Some(n) => format!("{n:.1}"),
    }
}

/// Explains the expectations that failed, one finding an option, and what hooks do to the copies.
pub(super) fn findings(
    baseline: &Facts,
    all: &[Facts],
    expectations: &[Expectation],
) -> Vec<Finding> {
    let back = CopiesBack::find(baseline, all);
    let named = |name: &str| all.iter().find(|facts| facts.variant.name == name);
    let mut findings: Vec<Finding> = Vec::new();
    let mut explained: Vec<(&str, TrainingOption)> = Vec::new();
    for failed in expectations.iter().filter(|e| e.holds == Some(false)) {
        let (Some(variant), Some(reference)) =
            (named(&failed.variant), named(&failed.compared_with))
        else {
            continue;
        };
        let because_of_hook = failed.option == TrainingOption::GradientAsBucketView
            && back.iter().any(|b| b.concerns(&failed.variant));
        if because_of_hook || explained.contains(&(failed.variant.as_str(), failed.option)) {
            continue;
        }
        explained.push((&failed.variant, failed.option));
        findings.push(match failed.option {
            TrainingOption::PowerSgd
                if traffic_ratio(&Reference::new(failed.option, *reference, variant), variant)
                    .is_some_and(|ratio| ratio >= *UNCHANGED.start()) =>
            {
                power_sgd_without_effect(variant, failed)
            }
            _ => expectation_failed(failed),
        });
    }
    findings.extend(back.iter().map(CopiesBack::finding));
    findings
}

fn evidence(failed: &Expectation) -> Map<String, Value> {
    [
        ("variant", &failed.variant),
        ("expected", &failed.expected),
        ("observed", &failed.observed),
        ("without_it", &failed.observed_without),
        ("compared_with", &failed.compared_with),
        ("option_source", &failed.source),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), json!(value)))
    .collect()
}

fn expectation_failed(failed: &Expectation) -> Finding {
    let guessed = if failed.source.starts_with("guessed") {
        "; that it is used is guessed, --option says what is"
    } else {
        ""
    };
    Finding {
        gain_ns: None,
        cost_ns: None,
        id: "expectation-failed".to_owned(),
        severity: Severity::Medium,
        title: format!("{}: {} does not show what it should do.", failed.variant, failed.option),
        evidence: evidence(failed),
        advice: Some(format!("Check that the option reached the program{guessed}.")),
    }
}

/// PowerSGD sends uncompressed gradients until `start_powerSGD_iter`.
fn power_sgd_without_effect(variant: &Facts, failed: &Expectation) -> Finding {
    let steps = &variant.report.steps;
    let which = match (steps.first(), steps.last()) {
        (Some(first), Some(last)) => format!("'{}' to '{}'", first.name, last.name),
        _ => "unknown".to_owned(),
    };
    Finding {
        gain_ns: None,
        cost_ns: None,
        id: "option-without-effect".to_owned(),
        severity: Severity::High,
        title: format!(
            "{}: PowerSGD had no effect: communication is as it is without it.",
            variant.variant.name
        ),
        evidence: evidence(failed),
        advice: Some(format!(
            "The hook sends whole gradients until start_powerSGD_iter (1000 unless set), and the captured steps are {which}. Set it lower or capture later steps."
        )),
    }
}

/// Variants whose communication hook brings back the copies that gradient_as_bucket_view saves: a hook returns its result in buffers
/// of its own, which DDP copies into the gradients.
struct CopiesBack<'a> {
    /// True if these variants are known to use gradient_as_bucket_view.
    view_is_on: bool,
    variants: Vec<Facts<'a>>,
    /// What has as many copies, or a variant that shows how few there can be.
    compared: Facts<'a>,
    saved: bool,
}

impl<'a> CopiesBack<'a> {
    fn find(baseline: &Facts<'a>, all: &[Facts<'a>]) -> Vec<Self> {
        let is_view = |option| option == TrainingOption::GradientAsBucketView;
        let copies = |facts: &Facts| facts.median(Metric::DtodCount);
        // Of several the plainest: with the fewest other options, then the one with the shortest name.
        let saving = all
            .iter()
            .filter(|f| f.has(is_view) && !f.has(is_hook))
            .min_by_key(|f| (f.variant.options.len(), f.variant.name.len()));
        let mut found = Vec::new();
        for view_is_on in [true, false] {
            // Without a variant that shows what the option saves, having it on and copying as before is the evidence.
            let Some(compared) = saving.or(view_is_on.then_some(baseline)) else { continue };
            let back = |f: &&Facts| match saving {
                Some(saving) => {
                    f.variant.ranks == saving.variant.ranks
                        && copies(f) > copies(saving).map(|n| 1.1 * n)
                }
                None => {
                    f.variant.name != baseline.variant.name
                        && copies(f) >= copies(baseline).map(|n| 0.99 * n)
                }
            };
            let variants: Vec<Facts> = all
                .iter()
                .filter(|f| f.has(is_hook) && f.has(is_view) == view_is_on && copies(f).is_some())
                .filter(back)
                .copied()
                .collect();
            if !variants.is_empty() {
                found.push(Self {
                    view_is_on,
                    variants,
                    compared: *compared,
                    saved: saving.is_some(),
                });
            }
        }
        found
    }

    fn concerns(&self, name: &str) -> bool {
        self.variants.iter().any(|facts| facts.variant.name == name)
    }

    fn finding(&self) -> Finding {
        let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
        for facts in &self.variants {
            let copies = facts.copies();
            match kinds.iter_mut().find(|(kind, _)| *kind == copies) {
                Some((_, names)) => names.push(&facts.variant.name),
                None => kinds.push((copies, vec![&facts.variant.name])),
            }
        }
        let whose = |names: &[&str]| {
            if names.len() <= NAMED {
                names.join(", ")
            } else {
                units::plural(names.len(), "variant")
            }
        };
        let list: Vec<String> = kinds
            .iter()
            .map(|(copies, names)| format!("{copies} a step in {}", whose(names)))
            .collect();
        let compared = format!("{} in {}", self.compared.copies(), self.compared.variant.name);
        Finding { gain_ns: None, cost_ns: None,
            id: "hook-brings-copies-back".to_owned(),
            severity: Severity::Medium,
            title: format!(
                "The communication hook brings the bucket copies back {}: {}, {} {compared}.",
                if self.view_is_on { "although gradient_as_bucket_view is on" } else { "that gradient_as_bucket_view saves without one" },
                list.join("; "),
                if self.saved { "against" } else { "no fewer than" },
            ),
            evidence: Map::from_iter([
                ("variants".to_owned(), self.variants.iter().map(|f| json!(f.variant.name)).collect()),
                ("dtod_copies_count".to_owned(), self.variants.iter().map(|f| json!(f.median(Metric::DtodCount))).collect()),
                ("dtod_copies_bytes".to_owned(), self.variants.iter().map(|f| json!(f.median(Metric::DtodBytes))).collect()),
                ("compared_with".to_owned(), json!(self.compared.variant.name)),
            ]),
            advice: Some(
                "A hook returns its result in buffers of its own, which DDP copies into the gradients, so gradient_as_bucket_view saves nothing beside one. Weigh the copies against the bytes that the hook saves."
                    .to_owned(),
            ),
        }
    }
}
