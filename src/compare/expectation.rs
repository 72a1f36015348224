//! What known options should do to counts, bytes and times, and whether they did.

use serde_json::{Map, Value, json};

use crate::model::CommOp;
use crate::model::metric::Metric;
use crate::report::Report;
use crate::units;
use crate::warning::{Finding, Severity};

use super::{ChangedOption, Expectation, TrainingOption, Variant, comparability};

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
    holds: Option<bool>,
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

    /// `3 collectives of 3.10 MB together, 0.21 ms`.
    fn traffic(&self) -> String {
        let count = self.median(Metric::CommCount);
        let noun = if count == Some(1.0) { "collective" } else { "collectives" };
        let bytes = match self.variant.comm_bytes_per_step {
            Some(bytes) => format!(" of {}{}", units::bytes(bytes.unsigned_abs()), if count == Some(1.0) { "" } else { " together" }),
            None => String::new(),
        };
        let time = self.variant.comm_transfer_ns.map_or_else(String::new, |ns| format!(" in {}", units::time(ns)));
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

/// Checks the options of `variant` that the baseline does not have.
pub(super) fn expectations(baseline: &Facts, variant: &Facts) -> Vec<Expectation> {
    changed_options(baseline, variant)
        .flat_map(|changed| {
            checks(changed.option, baseline, variant).into_iter().map(|check| Expectation {
                variant: variant.variant.name.clone(),
                option: changed.option,
                source: changed.source.clone(),
                expected: check.expected,
                observed: check.observed,
                holds: check.holds,
            })
        })
        .collect()
}

fn changed_options<'a>(baseline: &'a Facts, variant: &'a Facts) -> impl Iterator<Item = &'a ChangedOption> {
    variant.variant.options.iter().filter(|o| !baseline.variant.options.iter().any(|b| b.option == o.option))
}

fn checks(option: TrainingOption, baseline: &Facts, variant: &Facts) -> Vec<Check> {
    match option {
        TrainingOption::StaticGraph => vec![little_changes(baseline, variant)],
        TrainingOption::GradientAsBucketView => vec![bucket_copies_vanish(baseline, variant)],
        TrainingOption::Bf16Hook => vec![traffic_halves(baseline, variant), conversions_appear(baseline, variant)],
        TrainingOption::PowerSgd => vec![traffic_shrinks(baseline, variant), compute_grows(baseline, variant)],
        TrainingOption::BucketCap(mib) => vec![buckets_fit(mib, baseline, variant), overlap_rises(baseline, variant)],
        TrainingOption::DdpOneGpu => vec![copies_without_communication(baseline, variant)],
        TrainingOption::GradientAccumulation => vec![fewer_collectives(baseline, variant)],
        TrainingOption::Fsdp => vec![sharded_collectives(variant)],
        TrainingOption::P2pOff => vec![same_traffic_slower(baseline, variant)],
    }
}

fn little_changes(baseline: &Facts, variant: &Facts) -> Check {
    let counts = [Metric::CommCount, Metric::DtodCount, Metric::DtodBytes];
    let equal = counts.iter().map(|&m| Some(baseline.median(m)? == variant.median(m)?)).collect::<Option<Vec<bool>>>();
    Check {
        expected: "as many collectives and copies as before".to_owned(),
        observed: format!("{}, {}; before: {}, {}", variant.traffic(), variant.copies(), baseline.traffic(), baseline.copies()),
        holds: equal.map(|equal| equal.into_iter().all(|e| e)),
    }
}

/// The gradients of a step in bytes: what all-reduces carry where no hook compresses them.
fn gradient_bytes(baseline: &Facts, variant: &Facts) -> Option<i64> {
    [baseline, variant].into_iter().filter(|facts| !facts.has(is_hook)).find_map(|facts| facts.variant.comm_bytes_per_step)
}

fn is_hook(option: TrainingOption) -> bool {
    matches!(option, TrainingOption::Bf16Hook | TrainingOption::PowerSgd)
}

fn bucket_copies_vanish(baseline: &Facts, variant: &Facts) -> Check {
    let gradients = gradient_bytes(baseline, variant);
    let holds = || {
        let bytes = (baseline.median(Metric::DtodBytes)?, variant.median(Metric::DtodBytes)?);
        let counts = (baseline.median(Metric::DtodCount)?, variant.median(Metric::DtodCount)?);
        let enough = match gradients {
            Some(gradients) => bytes.0 - bytes.1 >= 0.9 * gradients as f64,
            None => bytes.1 < 0.9 * bytes.0,
        };
        Some(enough && counts.1 < counts.0)
    };
    Check {
        expected: match gradients {
            Some(bytes) => format!("the DtoD copies of the buckets vanish, {} a step", units::bytes(bytes.unsigned_abs())),
            None => "the DtoD copies of the buckets vanish".to_owned(),
        },
        observed: format!("{} a step, before: {}", variant.copies(), baseline.copies()),
        holds: holds(),
    }
}

/// Variant / baseline of the bytes of a step if both are known, else of the communication time without waiting.
fn traffic_ratio(baseline: &Facts, variant: &Facts) -> Option<f64> {
    let ratio = |before: Option<i64>, after: Option<i64>| Some(after? as f64 / before.filter(|&b| b > 0)? as f64);
    ratio(baseline.variant.comm_bytes_per_step, variant.variant.comm_bytes_per_step)
        .or_else(|| ratio(baseline.variant.comm_transfer_ns, variant.variant.comm_transfer_ns))
}

fn traffic_observed(baseline: &Facts, variant: &Facts) -> String {
    format!("{}, before: {}", variant.traffic(), baseline.traffic())
}

fn traffic_halves(baseline: &Facts, variant: &Facts) -> Check {
    Check {
        expected: "AllReduce carries half the bytes, or takes half the time".to_owned(),
        observed: traffic_observed(baseline, variant),
        holds: traffic_ratio(baseline, variant).map(|ratio| HALF.contains(&ratio)),
    }
}

/// Kernels that run more often than in the baseline, those with most time first.
fn added_kernels(baseline: &Facts, variant: &Facts) -> Vec<String> {
    let (before, after) = (comparability::compute_kernels(baseline.report), comparability::compute_kernels(variant.report));
    let mut added: Vec<(f64, String)> = after
        .iter()
        .filter_map(|(name, &(calls, ns))| {
            let earlier = before.get(name).map_or(0.0, |&(calls, _)| calls);
            (calls - earlier >= 0.5).then(|| (ns, format!("{} ({earlier:.0} -> {calls:.0} calls)", crate::text::shorten(name, 40))))
        })
        .collect();
    added.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    added.into_iter().map(|(_, text)| text).collect()
}

fn compute_observed(baseline: &Facts, variant: &Facts) -> String {
    let added = added_kernels(baseline, variant);
    let kernels = match added.as_slice() {
        [] => "no kernel runs more often".to_owned(),
        [one] => format!("more calls of {one}"),
        [first, rest @ ..] => format!("more calls of {first} and {}", units::plural(rest.len(), "other kernel")),
    };
    format!("compute {} a step, before {}; {kernels}", variant.time(Metric::ComputeNs), baseline.time(Metric::ComputeNs))
}

fn conversions_appear(baseline: &Facts, variant: &Facts) -> Check {
    Check {
        expected: "kernels that convert the gradients run in addition".to_owned(),
        observed: compute_observed(baseline, variant),
        holds: (!variant.report.kernels.all_compute.is_empty()).then(|| !added_kernels(baseline, variant).is_empty()),
    }
}

fn traffic_shrinks(baseline: &Facts, variant: &Facts) -> Check {
    Check {
        expected: "a few small collectives instead of the whole gradients".to_owned(),
        observed: traffic_observed(baseline, variant),
        holds: traffic_ratio(baseline, variant).map(|ratio| ratio < *HALF.start()),
    }
}

fn compute_grows(baseline: &Facts, variant: &Facts) -> Check {
    let ratio = || Some(variant.median(Metric::ComputeNs)? / baseline.median(Metric::ComputeNs).filter(|&ns| ns > 0.0)?);
    Check {
        expected: "compute grows: gradients are factorised and orthogonalised".to_owned(),
        observed: compute_observed(baseline, variant),
        holds: ratio().map(|ratio| ratio > 1.01),
    }
}

/// DDP closes a bucket when it reaches the cap, so a bucket is rarely smaller and can be larger by its last gradient.
fn buckets_fit(mib: u32, baseline: &Facts, variant: &Facts) -> Check {
    let cap = f64::from(mib) * f64::from(1 << 20);
    let (before, after) = (baseline.median(Metric::CommCount), variant.median(Metric::CommCount));
    let observed = format!("{} a step, before {}", number(after), number(before));
    match gradient_bytes(baseline, variant) {
        Some(bytes) => {
            let most = bytes as f64 / cap;
            Check {
                expected: format!(
                    "about {:.0} AllReduce a step: {} of gradients in buckets of {mib} MiB",
                    most.max(1.0),
                    units::bytes(bytes.unsigned_abs())
                ),
                observed,
                holds: after.map(|n| n >= (0.5 * most).max(1.0) && n <= most + 2.0),
            }
        }
        None => Check {
            expected: format!("another number of AllReduce a step: gradients / {mib} MiB"),
            observed,
            holds: before.zip(after).map(|(before, after)| before != after),
        },
    }
}

fn overlap_rises(baseline: &Facts, variant: &Facts) -> Check {
    let more_buckets = baseline.median(Metric::CommCount) < variant.median(Metric::CommCount);
    let (before, after) = (baseline.median(Metric::OverlapFraction), variant.median(Metric::OverlapFraction));
    let share = |share: Option<f64>| share.map_or_else(|| units::MISSING.to_owned(), units::percent);
    Check {
        expected: "more of the communication runs beside compute if there are more buckets".to_owned(),
        observed: format!("{} of the communication, before {}", share(after), share(before)),
        holds: before.zip(after).filter(|_| more_buckets).map(|(before, after)| after > before + 0.05),
    }
}

fn copies_without_communication(baseline: &Facts, variant: &Facts) -> Check {
    let holds = || {
        let without = variant.median(Metric::CommCount)? == 0.0;
        let more = baseline.median(Metric::CommCount)? > 0.0 || variant.median(Metric::DtodBytes)? > baseline.median(Metric::DtodBytes)?;
        Some(without && more && variant.median(Metric::DtodCount)? > 0.0)
    };
    Check {
        expected: "the wrapper copies gradients to its buckets although there is nobody to send them to".to_owned(),
        observed: format!(
            "{} a step and {}, in the baseline {} and {}",
            variant.copies(),
            variant.traffic(),
            baseline.copies(),
            baseline.traffic()
        ),
        holds: holds(),
    }
}

fn fewer_collectives(baseline: &Facts, variant: &Facts) -> Check {
    let (before, after) = (baseline.mean(Metric::CommCount), variant.mean(Metric::CommCount));
    Check {
        expected: "fewer collectives a step".to_owned(),
        observed: format!("{} a step on average, before {}", number(after), number(before)),
        holds: before.zip(after).map(|(before, after)| after < before),
    }
}

fn sharded_collectives(variant: &Facts) -> Check {
    let calls = variant.collective_calls();
    let of = |op: CommOp| calls.iter().find(|(name, _)| *name == op.label()).map_or(0.0, |(_, calls)| *calls);
    let (reduce, gather, scatter) = (of(CommOp::AllReduce), of(CommOp::AllGather), of(CommOp::ReduceScatter));
    Check {
        expected: "AllGather and ReduceScatter instead of AllReduce".to_owned(),
        observed: calls.iter().map(|(name, calls)| format!("{calls:.1} {name}")).collect::<Vec<_>>().join(", ") + " a step",
        holds: Some(gather > 0.0 && scatter > 0.0 && gather + scatter > reduce),
    }
}

fn same_traffic_slower(baseline: &Facts, variant: &Facts) -> Check {
    let holds = || {
        let slower = variant.variant.comm_transfer_ns? as f64 > UNCHANGED.end() * baseline.variant.comm_transfer_ns? as f64;
        Some(slower && baseline.median(Metric::CommCount)? == variant.median(Metric::CommCount)?)
    };
    Check {
        expected: "the same collectives take longer: through host memory instead of peer access".to_owned(),
        observed: traffic_observed(baseline, variant),
        holds: holds(),
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

/// Explains the expectations that failed and what hooks do to the copies.
pub(super) fn findings(baseline: &Facts, all: &[Facts], expectations: &[Expectation]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for facts in all.iter().filter(|facts| facts.variant.name != baseline.variant.name) {
        let copies = copies_brought_back(baseline, facts, all);
        let explains_view = copies.is_some();
        let own = expectations.iter().filter(|e| e.variant == facts.variant.name && e.holds == Some(false));
        for (at, failed) in own.enumerate() {
            if failed.option == TrainingOption::PowerSgd {
                // Its two expectations fail together, for one reason.
                if at == 0 || findings.last().is_none_or(|f: &Finding| f.id != "option-without-effect") {
                    findings.push(power_sgd_failed(baseline, facts, failed));
                }
            } else if !(explains_view && failed.option == TrainingOption::GradientAsBucketView) {
                findings.push(expectation_failed(failed));
            }
        }
        findings.extend(copies);
    }
    findings
}

fn evidence(failed: &Expectation) -> Map<String, Value> {
    [("variant", &failed.variant), ("expected", &failed.expected), ("observed", &failed.observed), ("option_source", &failed.source)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

fn expectation_failed(failed: &Expectation) -> Finding {
    Finding {
        id: "expectation-failed".to_owned(),
        severity: Severity::Medium,
        title: format!("{}: {} did not do what it should: {}.", failed.variant, failed.option, failed.observed),
        evidence: evidence(failed),
        advice: Some(format!(
            "Expected: {}. Check that the option reached the program{}.",
            failed.expected,
            if failed.source.starts_with("guessed") { "; that it is used is guessed, --option says what is" } else { "" }
        )),
    }
}

/// PowerSGD sends uncompressed gradients until `start_powerSGD_iter`.
fn power_sgd_failed(baseline: &Facts, variant: &Facts, failed: &Expectation) -> Finding {
    let unchanged = traffic_ratio(baseline, variant).is_some_and(|ratio| UNCHANGED.contains(&ratio));
    if !unchanged {
        return expectation_failed(failed);
    }
    let steps = &variant.report.steps;
    let which = match (steps.first(), steps.last()) {
        (Some(first), Some(last)) => format!("'{}' to '{}'", first.name, last.name),
        _ => "unknown".to_owned(),
    };
    let mut evidence = evidence(failed);
    evidence.insert("captured_steps".to_owned(), json!(which));
    Finding {
        id: "option-without-effect".to_owned(),
        severity: Severity::High,
        title: format!("{}: PowerSGD had no effect: {}.", variant.variant.name, failed.observed),
        evidence,
        advice: Some(format!(
            "The hook sends whole gradients until start_powerSGD_iter (1000 unless set); the captured steps are {which}. Set it lower or capture later steps."
        )),
    }
}

/// A communication hook returns its result in buffers of its own, which DDP copies into the gradients: the copies that
/// gradient_as_bucket_view saves are back.
fn copies_brought_back(baseline: &Facts, variant: &Facts, all: &[Facts]) -> Option<Finding> {
    let is_view = |option| option == TrainingOption::GradientAsBucketView;
    if !variant.has(is_hook) {
        return None;
    }
    let own = variant.median(Metric::DtodCount)?;
    let saved = |facts: &&Facts| !facts.has(is_hook) && facts.median(Metric::DtodCount).is_some_and(|n| n < 0.9 * own);
    let without = all.iter().filter(|facts| facts.has(is_view)).find(saved);
    let told = variant.has(is_view);
    if own < 0.99 * baseline.median(Metric::DtodCount)? || (!told && without.is_none()) {
        return None;
    }
    let compared = without.map_or_else(
        || format!("as many as in {} ({})", baseline.variant.name, baseline.copies()),
        |facts| format!("{} in {}", facts.copies(), facts.variant.name),
    );
    let although = if told { "although gradient_as_bucket_view is on" } else { "that gradient_as_bucket_view saves without a hook" };
    Some(Finding {
        id: "hook-brings-copies-back".to_owned(),
        severity: Severity::Medium,
        title: format!(
            "{}: the communication hook brings the bucket copies back {although}: {} a step, {compared}.",
            variant.variant.name,
            variant.copies()
        ),
        evidence: Map::from_iter([
            ("variant".to_owned(), json!(variant.variant.name)),
            ("dtod_count".to_owned(), json!(own)),
            ("dtod_bytes".to_owned(), json!(variant.median(Metric::DtodBytes))),
            ("dtod_count_without_hook".to_owned(), json!(without.and_then(|facts| facts.median(Metric::DtodCount)))),
        ]),
        advice: Some(
            "A hook returns its result in buffers of its own, which DDP copies into the gradients. Weigh the copies against the bytes that the hook saves."
                .to_owned(),
        ),
    })
}
