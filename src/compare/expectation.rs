//! What known options should do to counts, bytes and times, and whether they did.

use std::collections::BTreeSet;

use serde_json::json;

use crate::catalogue::{Finding, Id};
use crate::model::CommOp;
use crate::model::metric::Metric;
use crate::report::Report;
use crate::units;

use super::{Expectation, TrainingOption, Variant, comparability};

/// A ratio in this range counts as a half.
const HALF: std::ops::RangeInclusive<f64> = 0.4..=0.6;
/// Variants that a sentence names; of more it gives the number, and the evidence names them.
const NAMED: usize = 2;
/// A ratio in this range counts as unchanged.
const UNCHANGED: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// The optimizer runs once however many passes there are, so two passes are less than twice the work.
const MORE_WORK: f64 = 1.2;

/// A variant with what its reports say about kernels.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub variant: &'a Variant,
    pub report: &'a Report,
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
    fn collective_calls(&self) -> Vec<(CommOp, f64)> {
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
                (op, calls as f64 / rank_steps)
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

    /// `compute 81.7 ms`.
    fn compute(&self) -> String {
        let time = self
            .median(Metric::ComputeNs)
            .map_or_else(|| units::MISSING.to_owned(), |ns| units::time(ns as i64));
        format!("compute {time}")
    }

    /// Calls of compute kernels in a step of one rank; `None` if there are none.
    fn compute_calls(&self) -> Option<f64> {
        let kernels = comparability::compute_kernels(self.report);
        Some(kernels.values().map(|(calls, _)| calls).sum()).filter(|&calls| calls > 0.0)
    }

    /// `3 a step, one to 120 compute kernels`.
    fn work_for_each_collective(&self) -> String {
        let count = self.mean(Metric::CommCount);
        let share = |amount: Option<f64>| {
            amount.zip(count.filter(|&n| n > 0.0)).map(|(amount, n)| amount / n)
        };
        let work = match (share(self.compute_calls()), share(self.mean(Metric::ComputeNs))) {
            (Some(kernels), _) => {
                format!(", one to {} compute kernels", units::count(kernels.round() as u64))
            }
            (_, Some(ns)) => format!(", one to {} of compute", units::time(ns as i64)),
            _ => String::new(),
        };
        format!("{} a step{work}", number(count))
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
            let pair = Pair { option: changed.option, reference: &reference, variant };
            let own = CHECKS.iter().filter(|check| check.option.same_kind(changed.option));
            list.extend(own.map(|check| check.of(&pair, &changed.source)));
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

/// A variant beside what lacks one of its options.
struct Pair<'p, 'a> {
    option: TrainingOption,
    reference: &'p Reference<'a>,
    variant: &'p Facts<'a>,
}

impl Pair<'_, '_> {
    /// A number of the reference, then the same of the variant.
    fn both(&self, number: impl Fn(&Facts) -> Option<f64>) -> Option<(f64, f64)> {
        Some((number(&self.reference.facts)?, number(self.variant)?))
    }

    fn medians(&self, metric: Metric) -> Option<(f64, f64)> {
        self.both(|facts| facts.median(metric))
    }

    fn is_equal(&self, metric: Metric) -> Option<bool> {
        self.medians(metric).map(|(before, after)| before == after)
    }
}

/// One thing that an option should do.
struct Check {
    option: TrainingOption,
    /// What it should do, as a clause.
    expected: fn(&Pair) -> String,
    /// What of a variant shows it.
    observe: fn(&Facts) -> String,
    /// What is said of the variant alone, after what shows it.
    remark: fn(&Pair) -> String,
    /// Whether the data shows it; `None` if it cannot tell.
    holds: fn(&Pair) -> Option<bool>,
    /// Options in which the two may differ, too; `None` if any may, or `holds` looks itself.
    harmless: Option<&'static [TrainingOption]>,
    /// True if it is about what ranks exchange, of which one rank alone shows nothing.
    between_ranks: bool,
}

const NO_REMARK: fn(&Pair) -> String = |_| String::new();

/// What every option should do.
const CHECKS: &[Check] = &[
    Check {
        option: TrainingOption::StaticGraph,
        expected: |_| "as many collectives and copies".to_owned(),
        observe: |facts| format!("{}, {}", facts.traffic(), facts.copies()),
        remark: NO_REMARK,
        holds: |pair| {
            Some(
                pair.is_equal(Metric::CommCount)?
                    && pair.is_equal(Metric::DtodCount)?
                    && pair.is_equal(Metric::DtodBytes)?,
            )
        },
        harmless: Some(&[TrainingOption::P2pOff]),
        between_ranks: false,
    },
    Check {
        option: TrainingOption::GradientAsBucketView,
        expected: |pair| {
            let bytes = gradient_bytes(pair).map_or_else(String::new, |bytes| {
                format!(", {}", units::bytes(bytes.unsigned_abs()))
            });
            format!("the DtoD copies of the buckets vanish{bytes}")
        },
        observe: |facts| facts.copies(),
        remark: NO_REMARK,
        holds: |pair| {
            let bytes = pair.medians(Metric::DtodBytes)?;
            let counts = pair.medians(Metric::DtodCount)?;
            let enough = match gradient_bytes(pair) {
                Some(gradients) => bytes.0 - bytes.1 >= 0.9 * gradients as f64,
                None => bytes.1 < 0.9 * bytes.0,
            };
            Some(enough && counts.1 < counts.0)
        },
        harmless: Some(KEEPS_COPIES),
        between_ranks: false,
    },
    Check {
        option: TrainingOption::Bf16Hook,
        expected: |_| "half the bytes, or half the time".to_owned(),
        observe: |facts| facts.traffic(),
        remark: NO_REMARK,
        holds: |pair| traffic_ratio(pair.reference, pair.variant).map(|r| HALF.contains(&r)),
        harmless: None,
        between_ranks: true,
    },
    Check {
        option: TrainingOption::Bf16Hook,
        expected: |_| "more kernels: gradients are converted".to_owned(),
        observe: |facts| facts.compute(),
        remark: more_calls,
        holds: |pair| {
            (!pair.variant.report.kernels.all_compute.is_empty())
                .then(|| !added_kernels(&pair.reference.facts, pair.variant).is_empty())
        },
        harmless: Some(KEEPS_KERNELS),
        between_ranks: false,
    },
    Check {
        option: TrainingOption::PowerSgd,
        expected: |_| "a few small collectives instead of the whole gradients".to_owned(),
        observe: |facts| facts.traffic(),
        remark: NO_REMARK,
        holds: |pair| traffic_ratio(pair.reference, pair.variant).map(|r| r < *HALF.start()),
        harmless: None,
        between_ranks: true,
    },
    Check {
        option: TrainingOption::PowerSgd,
        expected: |_| "more compute: gradients are factorised".to_owned(),
        observe: |facts| facts.compute(),
        remark: more_calls,
        holds: |pair| {
            let (before, after) = pair.medians(Metric::ComputeNs).filter(|ns| ns.0 > 0.0)?;
            Some(after / before > 1.01)
        },
        harmless: Some(KEEPS_TIMES),
        between_ranks: false,
    },
    Check {
        option: TrainingOption::BucketCap(0),
        expected: |pair| match (most_buckets(pair), pair.option) {
            (Some((bytes, most)), TrainingOption::BucketCap(mib)) => format!(
                "up to about {most:.0} AllReduce: {} in buckets of {mib} MiB",
                units::bytes(bytes.unsigned_abs())
            ),
            (None, TrainingOption::BucketCap(mib)) => {
                format!("another number of AllReduce: gradients / {mib} MiB")
            }
            _ => "another number of AllReduce".to_owned(),
        },
        observe: |facts| number(facts.median(Metric::CommCount)),
        remark: NO_REMARK,
        holds: |pair| match most_buckets(pair) {
            Some((_, most)) => {
                let n = pair.variant.median(Metric::CommCount)?;
                Some(n >= (0.5 * most).floor().max(1.0) && n <= most + 2.0)
            }
            None => {
                let another = || pair.is_equal(Metric::CommCount).map(|equal| !equal);
                pair.reference.if_comparable(KEEPS_CALLS, another)
            }
        },
        harmless: None,
        between_ranks: true,
    },
    Check {
        option: TrainingOption::BucketCap(0),
        expected: |_| "more overlap, if there are more buckets".to_owned(),
        observe: |facts| {
            let share = facts
                .median(Metric::OverlapFraction)
                .map_or_else(|| units::MISSING.to_owned(), units::percent);
            format!("overlap {share}")
        },
        remark: NO_REMARK,
        holds: |pair| {
            pair.medians(Metric::CommCount).filter(|(before, after)| before < after)?;
            pair.medians(Metric::OverlapFraction).map(|(before, after)| after > before + 0.05)
        },
        harmless: Some(KEEPS_CALLS),
        between_ranks: true,
    },
    Check {
        option: TrainingOption::DdpOneGpu,
        expected: |_| "copies to the buckets, nothing sent".to_owned(),
        observe: |facts| format!("{}, {}", facts.copies(), facts.traffic()),
        remark: NO_REMARK,
        holds: |pair| {
            let (others, own) = pair.medians(Metric::CommCount)?;
            let more = others > 0.0 || {
                let (before, after) = pair.medians(Metric::DtodBytes)?;
                after > before
            };
            Some(own == 0.0 && more && pair.variant.median(Metric::DtodCount)? > 0.0)
        },
        // Buckets that are views need no copies, so only what has the same other options shows anything; sizes are mostly tried with views.
        harmless: Some(&[
            TrainingOption::P2pOff,
            TrainingOption::StaticGraph,
            TrainingOption::Bf16Hook,
        ]),
        between_ranks: false,
    },
    // A step range may hold one backward pass, of which only some send, or all that belong to one synchronisation: either way there is
    // more compute for each collective.
    Check {
        option: TrainingOption::GradientAccumulation,
        expected: |_| "fewer collectives for the same work".to_owned(),
        observe: |facts| facts.work_for_each_collective(),
        remark: NO_REMARK,
        holds: |pair| {
            let growth = |work: fn(&Facts) -> Option<f64>| {
                let each = |facts: &Facts| Some(work(facts)? / facts.mean(Metric::CommCount)?);
                let (before, after) = pair.both(each)?;
                (before.is_finite() && before > 0.0).then(|| after / before)
            };
            let growth = growth(|facts| facts.compute_calls())
                .or_else(|| growth(|facts| facts.mean(Metric::ComputeNs)));
            growth.map(|growth| growth > MORE_WORK)
        },
        harmless: Some(KEEPS_CALLS),
        between_ranks: true,
    },
    Check {
        option: TrainingOption::Fsdp,
        expected: |_| "AllGather and ReduceScatter instead of AllReduce".to_owned(),
        observe: |facts| {
            let calls: Vec<String> = facts
                .collective_calls()
                .iter()
                .filter(|(_, n)| *n > 0.0)
                .map(|(op, n)| format!("{} {}", number(Some(*n)), op.label()))
                .collect();
            if calls.is_empty() { "none of them".to_owned() } else { calls.join(", ") }
        },
        remark: NO_REMARK,
        holds: |pair| {
            let calls = pair.variant.collective_calls();
            let of = |op| calls.iter().find(|(other, _)| *other == op).map_or(0.0, |(_, n)| *n);
            let (gather, scatter) = (of(CommOp::AllGather), of(CommOp::ReduceScatter));
            Some(gather > 0.0 && scatter > 0.0 && gather + scatter > of(CommOp::AllReduce))
        },
        harmless: None,
        between_ranks: true,
    },
    Check {
        option: TrainingOption::P2pOff,
        expected: |_| "the same collectives take longer: through host memory".to_owned(),
        observe: |facts| facts.traffic(),
        remark: NO_REMARK,
        holds: |pair| {
            let same = pair.is_equal(Metric::CommCount)?;
            let (before, after) = pair.both(|f| Some(f.variant.comm_transfer_ns? as f64))?;
            same.then_some(after > UNCHANGED.end() * before)
        },
        harmless: Some(KEEPS_TIMES),
        between_ranks: true,
    },
];

impl Check {
    /// What it says of a variant.
    fn of(&self, pair: &Pair, source: &str) -> Expectation {
        let holds = match self.harmless {
            Some(harmless) => pair.reference.if_comparable(harmless, || (self.holds)(pair)),
            None => (self.holds)(pair),
        };
        let facts = &pair.reference.facts;
        Expectation {
            variant: pair.variant.variant.name.clone(),
            option: pair.option,
            source: source.to_owned(),
            compared_with: facts.variant.name.clone(),
            expected: (self.expected)(pair),
            observed: format!("{}{}", (self.observe)(pair.variant), (self.remark)(pair)),
            observed_without: (self.observe)(facts),
            holds: holds.filter(|_| !(self.between_ranks && pair.variant.is_alone())),
        }
    }
}

/// The gradients of a step in bytes: what all-reduces carry where no hook compresses them.
fn gradient_bytes(pair: &Pair) -> Option<i64> {
    let whole = |facts: &&Facts| !facts.has(is_hook);
    let hooks_aside = [KEEPS_BYTES, &[TrainingOption::Bf16Hook, TrainingOption::PowerSgd]].concat();
    let other = Some(&pair.reference.facts).filter(|_| pair.reference.comparable(&hooks_aside));
    [other, Some(pair.variant)]
        .into_iter()
        .flatten()
        .filter(whole)
        .find_map(|facts| facts.variant.comm_bytes_per_step.filter(|&bytes| bytes > 0))
}

/// The gradients in bytes, and how many buckets they fill. DDP closes a bucket when it reaches the cap, so a bucket is rarely smaller and
/// can be larger by its last gradient.
fn most_buckets(pair: &Pair) -> Option<(i64, f64)> {
    let TrainingOption::BucketCap(mib) = pair.option else { return None };
    let bytes = gradient_bytes(pair)?;
    Some((bytes, (bytes as f64 / (f64::from(mib) * f64::from(1 << 20))).ceil()))
}

fn is_p2p_off(option: TrainingOption) -> bool {
    option == TrainingOption::P2pOff
}

fn is_hook(option: TrainingOption) -> bool {
    matches!(option, TrainingOption::Bf16Hook | TrainingOption::PowerSgd)
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

/// The kernels that the variant runs more often, where nothing else that the two differ in brings some.
fn more_calls(pair: &Pair) -> String {
    if !pair.reference.comparable(KEEPS_KERNELS)
        || pair.variant.report.kernels.all_compute.is_empty()
    {
        return String::new();
    }
    match added_kernels(&pair.reference.facts, pair.variant).as_slice() {
        [] => "; no kernel runs more often".to_owned(),
        [one] => format!("; more calls of {one}"),
        [first, rest @ ..] => {
            format!("; more calls of {first} and {}", units::plural(rest.len(), "other kernel"))
        }
    }
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

/// A finding with what was expected and what was observed.
fn of_failed(id: Id, title: String, failed: &Expectation) -> Finding {
    Finding::new(id, title)
        .with("variant", failed.variant.as_str())
        .with("expected", failed.expected.as_str())
        .with("observed", failed.observed.as_str())
        .with("without_it", failed.observed_without.as_str())
        .with("compared_with", failed.compared_with.as_str())
        .with("option_source", failed.source.as_str())
}

fn expectation_failed(failed: &Expectation) -> Finding {
    let guessed = if failed.source.starts_with("guessed") {
        "; that it is used is guessed, --option says what is"
    } else {
        ""
    };
    let title = format!("{}: {} does not show what it should do.", failed.variant, failed.option);
    of_failed(Id::ExpectationFailed, title, failed)
        .advice(format!("Check that the option reached the program{guessed}."))
}

/// PowerSGD sends uncompressed gradients until `start_powerSGD_iter`.
fn power_sgd_without_effect(variant: &Facts, failed: &Expectation) -> Finding {
    let steps = &variant.report.steps;
    let which = match (steps.first(), steps.last()) {
        (Some(first), Some(last)) => format!("'{}' to '{}'", first.name, last.name),
        _ => "unknown".to_owned(),
    };
    let title = format!(
        "{}: PowerSGD had no effect: communication is as it is without it.",
        variant.variant.name
    );
    of_failed(Id::OptionWithoutEffect, title, failed).advice(format!(
        "The hook sends whole gradients until start_powerSGD_iter (1000 unless set), and the captured steps are {which}. Set it lower or capture later steps."
    ))
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
        let title = format!(
            "The communication hook brings the bucket copies back {}: {}, {} {compared}.",
            if self.view_is_on {
                "although gradient_as_bucket_view is on"
            } else {
                "that gradient_as_bucket_view saves without one"
            },
            list.join("; "),
            if self.saved { "against" } else { "no fewer than" },
        );
        let medians = |metric| -> Vec<Option<f64>> {
            self.variants.iter().map(|facts| facts.median(metric)).collect()
        };
        let names: Vec<&str> = self.variants.iter().map(|f| f.variant.name.as_str()).collect();
        Finding::new(Id::HookBringsCopiesBack, title)
            .with("variants", names)
            .with("dtod_copies_count", json!(medians(Metric::DtodCount)))
            .with("dtod_copies_bytes", json!(medians(Metric::DtodBytes)))
            .with("compared_with", self.compared.variant.name.as_str())
            .advice("A hook returns its result in buffers of its own, which DDP copies into the gradients, so gradient_as_bucket_view saves nothing beside one. Weigh the copies against the bytes that the hook saves.")
    }
}
