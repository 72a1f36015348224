//! What differs between a variant and the baseline beside the change that is being judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::metric::{Metric, Summary};
use crate::report::{Input, Report, gpus};
use crate::steps::WindowKind;
use crate::text;
use crate::units;

use super::{Remark, Scaling};

/// Kernels that run equally often must make up this share of the baseline's compute time, else the model is another.
const SAME_KERNELS: f64 = 0.5;
/// Beyond this ratio the same kernels do not do the same work at the same speed.
const SAME_SPEED: f64 = 1.5;
/// Things that a sentence lists.
const MOST_LISTED: usize = 8;

/// A variant as far as comparability is concerned.
pub(super) struct Subject<'a> {
    pub name: &'a str,
    pub captures: &'a [Report],
    pub summary: &'a Summary,
}

/// All remarks about a variant.
pub(super) fn remarks(
    baseline: &Subject,
    variant: &Subject,
    scaling: Option<Scaling>,
) -> Vec<Remark> {
    let differences = [
        ("same_files", same_files(baseline, variant)),
        ("gpu", gpus(baseline, variant)),
        ("work", work(baseline, variant)),
        ("model", model(baseline, variant)),
        ("batch", batch(baseline, variant)),
        ("ranks", ranks(baseline, variant, scaling)),
        ("graph_mode", graph_mode(baseline, variant)),
        ("schema", schema(baseline, variant)),
        ("steps", steps(baseline, variant)),
    ];
    let settings =
        settings(baseline, variant).into_iter().map(|message| ("settings", Some(message)));
    differences
        .into_iter()
        .chain(settings)
        .filter_map(|(aspect, message)| {
            Some(Remark { variant: variant.name.to_owned(), aspect, message: message? })
        })
        .collect()
}

/// Ranks that a variant should have and that are not there.
pub(super) fn missing_ranks(variant: &Subject) -> Option<Remark> {
    let (report, world) = variant.captures.iter().find_map(|report| {
        let world = usize::try_from(report.summary.world_size?).ok()?;
        (report.summary.ranks < world).then_some((report, world))
    })?;
    Some(Remark {
        variant: variant.name.to_owned(),
        aspect: "missing_ranks",
        message: format!(
            "Only {} of {world} ranks of '{}' are there: the slowest rank, which sets the pace, may be missing.",
            report.summary.ranks, variant.name
        ),
    })
}

fn inputs<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Input> {
    subject.captures.iter().flat_map(|report| &report.inputs)
}

fn same_files(baseline: &Subject, variant: &Subject) -> Option<String> {
    let files = |subject| inputs(subject).map(|input| input.path.as_str()).collect::<BTreeSet<_>>();
    let shared = files(baseline).intersection(&files(variant)).count();
    (shared > 0).then(|| {
        format!(
            "{} in both variants: the comparison is with itself.",
            units::plural(shared, "same file")
        )
    })
}

fn gpus(baseline: &Subject, variant: &Subject) -> Option<String> {
    let kinds = |subject: &Subject| {
        subject
            .captures
            .iter()
            .flat_map(|r| &r.ranks)
            .filter_map(|rank| rank.gpu.clone())
            .collect::<BTreeSet<_>>()
    };
    let (before, after) = (kinds(baseline), kinds(variant));
    let list =
        |subject: &Subject| gpus::census(subject.captures.iter().flat_map(|r| &r.ranks)).join(", ");
    (!before.is_empty() && !after.is_empty() && before != after).then(|| {
        format!("Different GPUs: {} in the baseline, {} here.", list(baseline), list(variant))
    })
}

/// Steps of all ranks that have a window.
pub(super) fn rank_steps(report: &Report) -> f64 {
    let measured = report
        .ranks
        .iter()
        .flat_map(|rank| &rank.steps)
        .filter(|step| step.values.int(Metric::StepNs).is_some());
    measured.count().max(1) as f64
}

/// Calls of each compute kernel in a step of one rank, and its time there (ns).
pub(super) fn compute_kernels(report: &Report) -> BTreeMap<&str, (f64, f64)> {
    let steps = rank_steps(report);
    report
        .kernels
        .all_compute
        .iter()
        .map(|(name, &(calls, ns))| (name.as_str(), (calls as f64 / steps, ns as f64 / steps)))
        .collect()
}

/// How many times as often as in the baseline the kernels run that make up most of its compute time, if that is one number and not 1:
/// a step that holds several micro-batches, or a model with more layers.
fn repetition(
    before: &BTreeMap<&str, (f64, f64)>,
    after: &BTreeMap<&str, (f64, f64)>,
) -> Option<f64> {
    let ratio = |name: &str, calls: f64| {
        after
            .get(name)
            .map(|(other, _)| other / calls)
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
    };
    let ratios: Vec<(f64, f64)> =
        before.iter().filter_map(|(name, (calls, ns))| Some((ratio(name, *calls)?, *ns))).collect();
    let &(most, _) = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let alike: f64 = ratios
        .iter()
        .filter(|(ratio, _)| (ratio / most - 1.0).abs() < 0.02)
        .map(|(_, ns)| ns)
        .sum();
    let total: f64 = before.values().map(|(_, ns)| ns).sum();
    ((most - 1.0).abs() > 0.1 && alike >= SAME_KERNELS * total).then_some(most)
}

fn work(baseline: &Subject, variant: &Subject) -> Option<String> {
    let (before, after) =
        (compute_kernels(baseline.captures.first()?), compute_kernels(variant.captures.first()?));
    let times = repetition(&before, &after)?;
    Some(format!(
        "The kernels run {times:.1} times as often in a step as in the baseline: a step does another amount of work."
    ))
}

/// Compares the compute kernels of the first captures: an option adds some and removes some, another model shares few.
fn model(baseline: &Subject, variant: &Subject) -> Option<String> {
    let (before, after) =
        (compute_kernels(baseline.captures.first()?), compute_kernels(variant.captures.first()?));
    let total: f64 = before.values().map(|(_, ns)| ns).sum();
    if total <= 0.0 || after.is_empty() || repetition(&before, &after).is_some() {
        return None;
    }
    let equally_often = |name: &str, calls: f64| {
        after.get(name).is_some_and(|(other, _)| (calls - other).abs() <= (0.01 * calls).max(0.5))
    };
    let shared: Vec<&str> = before
        .iter()
        .filter(|(name, (calls, _))| equally_often(name, *calls))
        .map(|(name, _)| *name)
        .collect();
    let time = |kernels: &BTreeMap<&str, (f64, f64)>| {
        shared.iter().filter_map(|name| kernels.get(name)).map(|(_, ns)| ns).sum::<f64>()
    };
    let share = time(&before) / total;
    if share < SAME_KERNELS {
        return Some(format!(
            "Only {} of the baseline's compute time is in kernels that run as often here: another model, precision or shape.",
            units::percent(share)
        ));
    }
    let slower = time(&after) / time(&before);
    (!(1.0 / SAME_SPEED..=SAME_SPEED).contains(&slower)).then(|| {
        format!("The same kernels, as often as in the baseline, take {slower:.2} times as long: another batch size, shape or GPU clock.")
    })
}

fn batch(baseline: &Subject, variant: &Subject) -> Option<String> {
    let bytes = |subject: &Subject| {
        subject.summary[Metric::HtodBytes]
            .and_then(|s| s.median.as_int())
            .filter(|&bytes| bytes > 0)
    };
    let (before, after) = (bytes(baseline)?, bytes(variant)?);
    let ratio = after as f64 / before as f64;
    ((ratio - 1.0).abs() > 0.01).then(|| {
        format!(
            "{} are copied to the device in a step, {} in the baseline: the batch may differ.",
            units::bytes(after.unsigned_abs()),
            units::bytes(before.unsigned_abs())
        )
    })
}

fn ranks(baseline: &Subject, variant: &Subject, scaling: Option<Scaling>) -> Option<String> {
    let count = |subject: &Subject| subject.captures.first().map(|report| report.summary.ranks);
    let (before, after) = (count(baseline)?, count(variant)?);
    if before == after {
        return None;
    }
    let meaning = match scaling {
        Some(Scaling::Weak) => {
            "weak scaling: each rank does the same work, so an equal step time is ideal"
        }
        Some(Scaling::Strong) => {
            "strong scaling: all ranks together do the same work, so the step time should fall as ranks are added"
        }
        None => {
            "say --scaling weak or --scaling strong to have the step times set against the ideal"
        }
    };
    Some(format!("{} here, {} in the baseline; {meaning}.", units::plural(after, "rank"), before))
}

fn graph_mode(baseline: &Subject, variant: &Subject) -> Option<String> {
    let modes = |subject| {
        inputs(subject)
            .map(|input| input.capture.cuda_graph_mode.as_deref().unwrap_or("not stated"))
            .collect::<BTreeSet<_>>()
    };
    let graphs = |subject| {
        inputs(subject).any(|input| input.capture.rows.get("graphs").is_some_and(|&n| n > 0))
    };
    let (before, after) = (modes(baseline), modes(variant));
    // The mode is stated only where a graph ran or it was asked for; without graphs it changes nothing.
    (before != after && (graphs(baseline) || graphs(variant))).then(|| {
        let list = |modes: BTreeSet<&str>| {
            units::listed(&modes.into_iter().collect::<Vec<_>>(), MOST_LISTED)
        };
        format!(
            "CUDA graphs were captured differently: {} here, {} in the baseline.",
            list(after),
            list(before)
        )
    })
}

fn schema(baseline: &Subject, variant: &Subject) -> Option<String> {
    let versions = |subject| {
        inputs(subject).filter_map(|input| input.schema_version.as_deref()).collect::<BTreeSet<_>>()
    };
    let (before, after) = (versions(baseline), versions(variant));
    let list = |versions: &BTreeSet<&str>| {
        units::listed(&versions.iter().copied().collect::<Vec<_>>(), MOST_LISTED)
    };
    (!before.is_empty() && !after.is_empty() && before != after).then(|| {
        format!("Export schema {} here, {} in the baseline: event times may have been recorded differently.", list(&after), list(&before))
    })
}

fn steps(baseline: &Subject, variant: &Subject) -> Option<String> {
    let sources = |subject: &Subject| {
        subject
            .captures
            .iter()
            .map(|r| (r.settings.step_pattern.clone(), r.settings.window))
            .collect::<BTreeSet<_>>()
    };
    let (before, after) = (sources(baseline), sources(variant));
    let list = |all: &BTreeSet<(String, WindowKind)>| {
        let one = |(pattern, window): &(String, WindowKind)| {
            format!("'{pattern}' ({} windows)", window.label())
        };
        units::listed(&all.iter().map(one).collect::<Vec<_>>(), MOST_LISTED)
    };
    (before != after).then(|| {
        format!(
            "Steps were found differently: {} here, {} in the baseline.",
            list(&after),
            list(&before)
        )
    })
}

/// Variables that only say what is recorded and where.
const RECORDING: [&str; 3] = ["NCCL_DEBUG", "NCCL_INSPECTOR_", "NCCL_PROFILER_PLUGIN"];

/// NCCL and CUDA variables that are set on one side only or to another value, a sentence each. That NCCL Inspector records is said, how
/// it does is not.
fn settings(baseline: &Subject, variant: &Subject) -> Vec<String> {
    let set = |subject| {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, value) in inputs(subject).flat_map(|input| &input.capture.settings) {
            if name == "NCCL_INSPECTOR_ENABLE"
                || !RECORDING.iter().any(|prefix| name.starts_with(prefix))
            {
                values.entry(name).or_default().insert(value);
            }
        }
        values
    };
    let (before, after) = (set(baseline), set(variant));
    let list = |name: &str, values: &BTreeSet<&str>| {
        values
            .iter()
            .map(|value| format!("{name}={}", text::shorten(value, 40)))
            .collect::<Vec<_>>()
            .join(" or ")
    };
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let differs = |name: &str| match (before.get(name), after.get(name)) {
        (None, Some(here)) => Some(format!("Set only here: {}.", list(name, here))),
        (Some(there), None) => Some(format!("Set only in the baseline: {}.", list(name, there))),
        (Some(there), Some(here)) if there != here => {
            Some(format!("Set here: {}; in the baseline: {}.", list(name, here), list(name, there)))
        }
        _ => None,
    };
    names.into_iter().filter_map(differs).collect()
}
