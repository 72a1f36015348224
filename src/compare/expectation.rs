//! What known options should do to counts, bytes and times, and whether they did.

use serde_json::{Map, Value, json};

use crate::model::CommOp;
use crate::model::metric::Metric;
use crate::report::Report;
use crate::units;
use crate::warning::{Finding, Severity};

use super::{Expectation, TrainingOption, Variant, comparability};

/// A ratio in this range counts as a half.
const HALF: std::ops::RangeInclusive<f64> = 0.4..=0.6;
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
        reference: &Facts,
        variant: &Facts,
        observe: impl Fn(&Facts) -> String,
        holds: Option<bool>,
    ) -> Self {
        Self { expected: expected.into(), observed: observe(variant), without: observe(reference), holds }
    }
}

impl Facts<'_> {
    fn median(&self, metric: Metric) -> Option<f64> {
        self.variant.summary.median(metric)
    }

    fn mean(&self, metric: Metric) -> Option<f64> {
        self.variant.summary[metric].map(|s| s.mean.as_f64())
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
                let calls: u64 = self.report.kernels.comm.iter().filter(|k| k.name.contains(op.label())).map(|k| k.count).sum();
                (op.label(), calls as f64 / rank_steps)
            })
            .collect()
    }

    /// `3 collectives a step of 3.10 MB together in 0.21 ms without waiting`.
    fn traffic(&self) -> String {
        let count = self.median(Metric::CommCount);
        if count == Some(0.0) {
            return "no collectives".to_owned();
        }
        let noun = if count == Some(1.0) { "collective" } else { "collectives" };
        let bytes = match self.variant.comm_bytes_per_step {
            Some(bytes) => format!(" of {}{}", units::bytes(bytes.unsigned_abs()), if count == Some(1.0) { "" } else { " together" }),
            None => String::new(),
        };
        let time = self.variant.comm_transfer_ns.map_or_else(String::new, |ns| format!(" in {} without waiting", units::time(ns)));
        format!("{} {noun} a step{bytes}{time}", number(count))
    }

    /// `368 DtoD copies of 1.70 GB`.
    fn copies(&self) -> String {
        let bytes = self.median(Metric::DtodBytes).map_or_else(|| units::MISSING.to_owned(), |b| units::bytes(b as u64));
        format!("{} DtoD copies of {bytes}", number(self.median(Metric::DtodCount)))
    }

    fn time(&self, metric: Metric) -> String {
        self.median(metric).map_or_else(|| units::MISSING.to_owned(), |ns| units::time(ns as i64))
    }
}

/// Checks every option of every variant for which there is something to compare with.
pub(super) fn expectations(baseline: &Facts, all: &[Facts]) -> Vec<Expectation> {
    let mut list = Vec::new();
    for variant in all {
        for changed in &variant.variant.options {
            let Some(reference) = reference(changed.option, variant, baseline, all) else { continue };
            list.extend(checks(changed.option, &reference, variant).into_iter().map(|check| Expectation {
                variant: variant.variant.name.clone(),
                option: changed.option,
                source: changed.source.clone(),
                compared_with: reference.variant.name.clone(),
                expected: check.expected,
                observed: check.observed,
                observed_without: check.without,
                holds: check.holds,
            }));
        }
    }
    list
}

/// What shows the effect of one option alone: the variant that has as many as possible of the other options and nothing else, of those one
/// with as many ranks, of those the baseline, else the first. Without any it is the baseline, if that lacks the option.
fn reference<'a>(option: TrainingOption, variant: &Facts<'a>, baseline: &Facts<'a>, all: &[Facts<'a>]) -> Option<Facts<'a>> {
    let others = |facts: &&Facts| {
        facts
            .variant
            .options
            .iter()
            .all(|o| !o.option.same_kind(option) && variant.variant.options.iter().any(|own| own.option == o.option))
    };
    let is_baseline = |facts: &Facts| facts.variant.name == baseline.variant.name;
    let lacks = |facts: &Facts| facts.variant.options.iter().all(|o| !o.option.same_kind(option));
    all.iter()
        .enumerate()
        .filter(|(_, facts)| others(facts))
        .max_by_key(|(at, facts)| {
            let same_ranks = facts.variant.ranks == variant.variant.ranks;
            // How ranks reach each other changes every time, so it has to be equal before anything else is.
            let same_path = facts.has(is_p2p_off) == variant.has(is_p2p_off);
            (same_path, facts.variant.options.len(), same_ranks, is_baseline(facts), std::cmp::Reverse(*at))
        })
        .map(|(_, facts)| *facts)
        .or_else(|| (lacks(baseline) && !is_baseline(variant)).then_some(*baseline))
}

fn checks(option: TrainingOption, reference: &Facts, variant: &Facts) -> Vec<Check> {
    match option {
        TrainingOption::StaticGraph => vec![little_changes(reference, variant)],
        TrainingOption::GradientAsBucketView => vec![bucket_copies_vanish(reference, variant)],
        TrainingOption::Bf16Hook => vec![traffic_halves(reference, variant), conversions_appear(reference, variant)],
        TrainingOption::PowerSgd => vec![traffic_shrinks(reference, variant), compute_grows(reference, variant)],
        TrainingOption::BucketCap(mib) => vec![buckets_fit(mib, reference, variant), overlap_rises(reference, variant)],
        TrainingOption::DdpOneGpu => vec![copies_without_communication(reference, variant)],
        TrainingOption::GradientAccumulation => vec![fewer_collectives(reference, variant)],
        TrainingOption::Fsdp => vec![sharded_collectives(reference, variant)],
        TrainingOption::P2pOff => vec![same_traffic_slower(reference, variant)],
    }
}

fn little_changes(reference: &Facts, variant: &Facts) -> Check {
    let counts = [Metric::CommCount, Metric::DtodCount, Metric::DtodBytes];
    let equal = counts.iter().map(|&m| Some(reference.median(m)? == variant.median(m)?)).collect::<Option<Vec<bool>>>();
    let observe = |facts: &Facts| format!("{}, {}", facts.traffic(), facts.copies());
    Check::new("as many collectives and copies as without it", reference, variant, observe, equal.map(|equal| equal.into_iter().all(|e| e)))
}

/// The gradients of a step in bytes: what all-reduces carry where no hook compresses them.
fn gradient_bytes(reference: &Facts, variant: &Facts) -> Option<i64> {
    [reference, variant].into_iter().filter(|facts| !facts.has(is_hook)).find_map(|facts| facts.variant.comm_bytes_per_step)
}

fn is_p2p_off(option: TrainingOption) -> bool {
    option == TrainingOption::P2pOff
}

fn is_hook(option: TrainingOption) -> bool {
    matches!(option, TrainingOption::Bf16Hook | TrainingOption::PowerSgd)
}

fn bucket_copies_vanish(reference: &Facts, variant: &Facts) -> Check {
    let gradients = gradient_bytes(reference, variant);
    let holds = || {
        let bytes = (reference.median(Metric::DtodBytes)?, variant.median(Metric::DtodBytes)?);
        let counts = (reference.median(Metric::DtodCount)?, variant.median(Metric::DtodCount)?);
        let enough = match gradients {
            Some(gradients) => bytes.0 - bytes.1 >= 0.9 * gradients as f64,
            None => bytes.1 < 0.9 * bytes.0,
        };
        Some(enough && counts.1 < counts.0)
    };
    let expected = match gradients {
        Some(bytes) => format!("the DtoD copies of the buckets vanish, {} a step", units::bytes(bytes.unsigned_abs())),
        None => "the DtoD copies of the buckets vanish".to_owned(),
    };
    Check::new(expected, reference, variant, |facts| facts.copies(), holds())
}

/// Variant / reference of the bytes of a step if both are known, else of the communication time without waiting.
fn traffic_ratio(reference: &Facts, variant: &Facts) -> Option<f64> {
    let ratio = |before: Option<i64>, after: Option<i64>| Some(after? as f64 / before.filter(|&b| b > 0)? as f64);
    ratio(reference.variant.comm_bytes_per_step, variant.variant.comm_bytes_per_step)
        .or_else(|| ratio(reference.variant.comm_transfer_ns, variant.variant.comm_transfer_ns))
}

fn traffic_halves(reference: &Facts, variant: &Facts) -> Check {
    let holds = traffic_ratio(reference, variant).map(|ratio| HALF.contains(&ratio));
    Check::new("AllReduce carries half the bytes, or takes half the time", reference, variant, |facts| facts.traffic(), holds)
}

/// Kernels that run more often than in the reference, those with most time first.
fn added_kernels(reference: &Facts, variant: &Facts) -> Vec<String> {
    let (before, after) = (comparability::compute_kernels(reference.report), comparability::compute_kernels(variant.report));
    let mut added: Vec<(f64, String)> = after
        .iter()
        .filter_map(|(name, &(calls, ns))| {
            let earlier = before.get(name).map_or(0.0, |&(calls, _)| calls);
            (calls - earlier >= 0.5).then(|| (ns, format!("{} ({earlier:.0} → {calls:.0} calls)", crate::text::shorten(name, 40))))
        })
        .collect();
    added.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    added.into_iter().map(|(_, text)| text).collect()
}

/// A check of compute time that names the kernels which the variant runs more often.
fn compute_check(expected: &str, reference: &Facts, variant: &Facts, holds: Option<bool>) -> Check {
    let kernels = match added_kernels(reference, variant).as_slice() {
        [] => "no kernel runs more often".to_owned(),
        [one] => format!("more calls of {one}"),
        [first, rest @ ..] => format!("more calls of {first} and {}", units::plural(rest.len(), "other kernel")),
    };
    let observe = |facts: &Facts| format!("compute {} a step", facts.time(Metric::ComputeNs));
    let check = Check::new(expected, reference, variant, observe, holds);
    Check { observed: format!("{}; {kernels}", check.observed), ..check }
}

fn conversions_appear(reference: &Facts, variant: &Facts) -> Check {
    let holds = (!variant.report.kernels.all_compute.is_empty()).then(|| !added_kernels(reference, variant).is_empty());
    compute_check("kernels that convert the gradients run in addition", reference, variant, holds)
}

fn traffic_shrinks(reference: &Facts, variant: &Facts) -> Check {
    let holds = traffic_ratio(reference, variant).map(|ratio| ratio < *HALF.start());
    Check::new("a few small collectives instead of the whole gradients", reference, variant, |facts| facts.traffic(), holds)
}

fn compute_grows(reference: &Facts, variant: &Facts) -> Check {
    let ratio = || Some(variant.median(Metric::ComputeNs)? / reference.median(Metric::ComputeNs).filter(|&ns| ns > 0.0)?);
    let holds = ratio().map(|ratio| ratio > 1.01);
    compute_check("compute grows: gradients are factorised and orthogonalised", reference, variant, holds)
}

/// DDP closes a bucket when it reaches the cap, so a bucket is rarely smaller and can be larger by its last gradient.
fn buckets_fit(mib: u32, reference: &Facts, variant: &Facts) -> Check {
    let cap = f64::from(mib) * f64::from(1 << 20);
    let (before, after) = (reference.median(Metric::CommCount), variant.median(Metric::CommCount));
    let observe = |facts: &Facts| format!("{} a step", number(facts.median(Metric::CommCount)));
    let (expected, holds) = match gradient_bytes(reference, variant) {
        Some(bytes) => {
            let most = bytes as f64 / cap;
            let size = units::bytes(bytes.unsigned_abs());
            let expected = format!("about {:.0} AllReduce a step: {size} of gradients in buckets of {mib} MiB", most.max(1.0));
            (expected, after.map(|n| n >= (0.5 * most).max(1.0) && n <= most + 2.0))
        }
        None => {
            let expected = format!("another number of AllReduce a step: gradients / {mib} MiB");
            (expected, before.zip(after).map(|(before, after)| before != after))
        }
    };
    Check::new(expected, reference, variant, observe, holds)
}

fn overlap_rises(reference: &Facts, variant: &Facts) -> Check {
    let more_buckets = reference.median(Metric::CommCount) < variant.median(Metric::CommCount);
    let (before, after) = (reference.median(Metric::OverlapFraction), variant.median(Metric::OverlapFraction));
    let observe = |facts: &Facts| {
        let share = facts.median(Metric::OverlapFraction).map_or_else(|| units::MISSING.to_owned(), units::percent);
        format!("{share} of the communication overlaps")
    };
    let holds = before.zip(after).filter(|_| more_buckets).map(|(before, after)| after > before + 0.05);
    Check::new("more of the communication runs beside compute if there are more buckets", reference, variant, observe, holds)
}

fn copies_without_communication(reference: &Facts, variant: &Facts) -> Check {
    let holds = || {
        let without = variant.median(Metric::CommCount)? == 0.0;
        let more =
            reference.median(Metric::CommCount)? > 0.0 || variant.median(Metric::DtodBytes)? > reference.median(Metric::DtodBytes)?;
        Some(without && more && variant.median(Metric::DtodCount)? > 0.0)
    };
    let expected = "the wrapper copies gradients to its buckets although there is nobody to send them to";
    Check::new(expected, reference, variant, |facts| format!("{} and {}", facts.copies(), facts.traffic()), holds())
}

fn fewer_collectives(reference: &Facts, variant: &Facts) -> Check {
    let holds = reference.mean(Metric::CommCount).zip(variant.mean(Metric::CommCount)).map(|(before, after)| after < before);
    let observe = |facts: &Facts| format!("{} a step on average", number(facts.mean(Metric::CommCount)));
    Check::new("fewer collectives a step", reference, variant, observe, holds)
}

fn sharded_collectives(reference: &Facts, variant: &Facts) -> Check {
    let of = |op: CommOp| variant.collective_calls().into_iter().find(|(name, _)| *name == op.label()).map_or(0.0, |(_, calls)| calls);
    let (reduce, gather, scatter) = (of(CommOp::AllReduce), of(CommOp::AllGather), of(CommOp::ReduceScatter));
    let observe = |facts: &Facts| {
        let calls = facts.collective_calls();
        calls.iter().map(|(name, calls)| format!("{calls:.1} {name}")).collect::<Vec<_>>().join(", ") + " a step"
    };
    let holds = gather > 0.0 && scatter > 0.0 && gather + scatter > reduce;
    Check::new("AllGather and ReduceScatter instead of AllReduce", reference, variant, observe, Some(holds))
}

fn same_traffic_slower(reference: &Facts, variant: &Facts) -> Check {
    let holds = || {
        let same = reference.median(Metric::CommCount)? == variant.median(Metric::CommCount)?;
        let slower = variant.variant.comm_transfer_ns? as f64 > UNCHANGED.end() * reference.variant.comm_transfer_ns? as f64;
        same.then_some(slower)
    };
    let expected = "the same collectives take longer: through host memory instead of peer access";
    Check::new(expected, reference, variant, |facts| facts.traffic(), holds())
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
pub(super) fn findings(baseline: &Facts, all: &[Facts], expectations: &[Expectation]) -> Vec<Finding> {
    let back = CopiesBack::find(baseline, all);
    let named = |name: &str| all.iter().find(|facts| facts.variant.name == name);
    let mut findings: Vec<Finding> = Vec::new();
    let mut explained: Vec<(&str, TrainingOption)> = Vec::new();
    for failed in expectations.iter().filter(|e| e.holds == Some(false)) {
        let (Some(variant), Some(reference)) = (named(&failed.variant), named(&failed.compared_with)) else { continue };
        let because_of_hook = failed.option == TrainingOption::GradientAsBucketView && back.iter().any(|b| b.concerns(&failed.variant));
        if because_of_hook || explained.contains(&(failed.variant.as_str(), failed.option)) {
            continue;
        }
        explained.push((&failed.variant, failed.option));
        findings.push(match failed.option {
            TrainingOption::PowerSgd if traffic_ratio(reference, variant).is_some_and(|ratio| ratio >= *UNCHANGED.start()) => {
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
    let guessed = if failed.source.starts_with("guessed") { "; that it is used is guessed, --option says what is" } else { "" };
    Finding {
        id: "expectation-failed".to_owned(),
        severity: Severity::Medium,
        title: format!("{}: {} did not do what it should.", failed.variant, failed.option),
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
        id: "option-without-effect".to_owned(),
        severity: Severity::High,
        title: format!("{}: PowerSGD had no effect: communication is as it is without it.", variant.variant.name),
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
        let saving = all.iter().find(|f| f.has(is_view) && !f.has(is_hook));
        let mut found = Vec::new();
        for view_is_on in [true, false] {
            // Without a variant that shows what the option saves, having it on and copying as before is the evidence.
            let Some(compared) = saving.or(view_is_on.then_some(baseline)) else { continue };
            let back = |f: &&Facts| match saving {
                Some(saving) => f.variant.ranks == saving.variant.ranks && copies(f) > copies(saving).map(|n| 1.1 * n),
                None => f.variant.name != baseline.variant.name && copies(f) >= copies(baseline).map(|n| 0.99 * n),
            };
            let variants: Vec<Facts> = all
                .iter()
                .filter(|f| f.has(is_hook) && f.has(is_view) == view_is_on && copies(f).is_some())
                .filter(back)
                .copied()
                .collect();
            if !variants.is_empty() {
                found.push(Self { view_is_on, variants, compared: *compared, saved: saving.is_some() });
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
        let list: Vec<String> = kinds.iter().map(|(copies, names)| format!("{copies} a step in {}", names.join(", "))).collect();
        let compared = format!("{} in {}", self.compared.copies(), self.compared.variant.name);
        Finding {
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
