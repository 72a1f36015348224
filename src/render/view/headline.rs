//! The first sentences: what a manager can repeat.

use super::{quoted, spread};
use crate::model::Metric;
use crate::model::metric::Spread;
use crate::render::units::{bytes, count, percent, plural, time};
use crate::report::{Report, gpus};
use crate::steps::{StepSource, WindowKind};

/// Outliers that the headline names.
const NAMED_OUTLIERS: usize = 3;

/// What a window is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noun {
    /// In a sentence.
    pub one: &'static str,
    /// Over a table.
    pub heading: &'static str,
    /// True if the whole capture is one window.
    pub whole: bool,
}

/// A step, or the whole capture where there are no steps.
pub(super) fn noun(report: &Report) -> Noun {
    if report.is_one_window() {
        Noun { one: "window", heading: "The capture as one window", whole: true }
    } else {
        Noun { one: "step", heading: "Steps", whole: false }
    }
}

/// A few words each: ranks, steps, GPUs, profiler.
pub(super) fn facts(report: &Report) -> Vec<String> {
    let mut facts = Vec::new();
    let ranks = report.ranks.len();
    facts.push(match report.of_world() {
        Some(world) => format!("{} of {} ranks", count(ranks as u64), count(u64::from(world))),
        None => plural(ranks, "rank"),
    });
    facts.push(match (noun(report).whole, report.steps.first(), report.steps.last()) {
        (true, ..) => "whole capture as one window".to_owned(),
        (_, Some(first), Some(last)) if report.steps.len() > 1 => {
            format!(
                "{} {} to {}",
                plural(report.steps.len(), "step"),
                quoted(&first.name),
                quoted(&last.name)
            )
        }
        (_, Some(only), _) => format!("1 step {}", quoted(&only.name)),
        _ => "no steps".to_owned(),
    });
    if !noun(report).whole {
        facts.push(
            match report.settings.window {
                WindowKind::Gpu => "windows on the GPU",
                WindowKind::Cpu => "NVTX ranges on the CPU",
                WindowKind::Period => "periods on the GPU, from one range to the next",
            }
            .to_owned(),
        );
    }
    facts.extend(gpus::census(&report.ranks));
    let hosts = report.hosts();
    if hosts.len() > 1 {
        facts.push(plural(hosts.len(), "host"));
    }
    let versions = report.nsys_versions();
    if !versions.is_empty() {
        facts.push(format!("nsys {}", versions.into_iter().collect::<Vec<_>>().join(", ")));
    }
    facts
}

/// The headline, the most important sentence first.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let Some(step) = spread(report, Metric::StepNs) else {
        return vec![nothing_measured(report)];
    };
    let mut sentences = Vec::new();
    if noun(report).whole {
        sentences.push(whole_capture(report, step));
        sentences.push(communication(report));
    } else {
        sentences.push(format!(
            "A step takes {}. {}",
            ns(step.median.as_f64()),
            communication(report)
        ));
    }
    sentences.extend(rest(report));
    sentences.extend(steps_behind_it(report, step));
    sentences.extend(missing_ranks(report));
    sentences
}

fn ns(value: f64) -> String {
    time(value.round() as i64)
}

fn median(report: &Report, metric: Metric) -> Option<f64> {
    report.summary.values.median(metric)
}

fn nothing_measured(report: &Report) -> String {
    let reason =
        report.ranks.iter().flat_map(|rank| &rank.steps).find_map(|step| step.reason.as_deref());
    match reason {
        Some(reason) => {
            format!("No {} could be measured: {}.", noun(report).one, reason.trim_end_matches('.'))
        }
        None => {
            format!("No {} could be measured on all ranks; the warnings say why.", noun(report).one)
        }
    }
}

fn whole_capture(report: &Report, step: Spread) -> String {
    let start = match report.settings.step_pattern_source {
        StepSource::NoRanges => "The capture has no NVTX ranges, so steps are unknown: the",
        StepSource::OnlyNccl => {
            "The capture has no NVTX ranges but NCCL's own, so steps are unknown: the"
        }
        _ => "The",
    };
    format!(
        "{start} whole capture of {}, first to last GPU operation, is one window.",
        ns(step.median.as_f64())
    )
}

/// How much is communication and how much of it shows.
fn communication(report: &Report) -> String {
    let one = noun(report).one;
    let Some(comm) = spread(report, Metric::CommNs) else {
        return format!("Communication was not measured in this {one}.");
    };
    let took = ns(comm.median.as_f64());
    let unclassified =
        spread(report, Metric::UnclassifiedNs).map(|s| s.median.as_f64()).filter(|&v| v > 0.0);
    let Some(share) = median(report, Metric::CommFraction) else {
        return match unclassified {
            Some(graphs) => {
                let known = if comm.max.as_f64() == 0.0 {
                    "no communication runs".to_owned()
                } else {
                    format!("communication takes {took}")
                };
                format!(
                    "How much of it is communication is unknown: for {} CUDA graphs run that were captured as one row each. Outside them {known}.",
                    ns(graphs)
                )
            }
            None => format!("Communication takes {took}; its share of the {one} is unknown."),
        };
    };
    if comm.max.as_f64() == 0.0 {
        let alone = if report.ranks.len() == 1 { " (one rank)" } else { "" };
        return format!("No communication runs in it{alone}.");
    }
    if comm.median.as_f64() == 0.0 {
        return format!(
            "Most {one}s are without communication; at most it takes {}.",
            ns(comm.max.as_f64())
        );
    }
    let start = format!("Communication is {} of it ({took})", percent(share));
    let (overlap, exposed) =
        (spread(report, Metric::OverlapNs), spread(report, Metric::ExposedCommNs));
    match (overlap, exposed) {
        (Some(overlap), _) if overlap.max.as_f64() == 0.0 => {
            format!("{start}, all of it exposed: no compute runs beside it.")
        }
        (_, Some(exposed)) if exposed.max.as_f64() == 0.0 => {
            format!("{start}, all of it hidden behind compute.")
        }
        (_, Some(exposed)) => {
            let of_step = median(report, Metric::ExposedCommFraction)
                .map_or(String::new(), |s| format!(" ({} of the {one})", percent(s)));
            let beside = median(report, Metric::OverlapFraction)
                .map_or(String::new(), |s| format!(" {} of that runs beside compute;", percent(s)));
            format!("{start};{beside} {}{of_step} is exposed.", ns(exposed.median.as_f64()))
        }
        _ => format!("{start}."),
    }
}

/// Compute, copies, idle.
fn rest(report: &Report) -> Option<String> {
    let share = |time: Metric, ratio: Metric| {
        let time = ns(median(report, time)?);
        Some(median(report, ratio).map_or(time.clone(), |r| format!("{} ({time})", percent(r))))
    };
    let mut parts = Vec::new();
    if let Some(compute) = share(Metric::ComputeNs, Metric::ComputeFraction) {
        parts.push(format!("Compute {compute}"));
    }
    if let Some(idle) = share(Metric::IdleNs, Metric::IdleFraction) {
        parts.push(format!("idle {idle}"));
    }
    if let (Some(time), Some(copies), Some(size)) = (
        median(report, Metric::DtodNs),
        median(report, Metric::DtodCount),
        median(report, Metric::DtodBytes),
    ) {
        parts.push(if copies == 0.0 {
            "no copies on the device".to_owned()
        } else {
            let copies = copies.round() as usize;
            let noun = if copies == 1 { "copy" } else { "copies" };
            format!(
                "copies on the device {} ({} {noun}, {})",
                ns(time),
                count(copies as u64),
                bytes(size.round() as u64)
            )
        });
    }
    if let Some(exposed) = median(report, Metric::ExposedCopyNs).filter(|&v| v > 0.0) {
        parts.push(format!("exposed copies and memsets {}", ns(exposed)));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}

/// How many steps the medians rest on, how far they spread, and which were left out.
fn steps_behind_it(report: &Report, step: Spread) -> Vec<String> {
    if noun(report).whole {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    let counted = report.summary.counted_steps;
    let slowest = if report.ranks.len() > 1 { " of the slowest rank" } else { "" };
    if counted > 1 {
        let (low, high) = (ns(step.min.as_f64()), ns(step.max.as_f64()));
        let spread = if low == high {
            "hardly varies".to_owned()
        } else {
            format!("lies between {low} and {high}")
        };
        sentences.push(format!(
            "Medians of {}; the step time{slowest} {spread}.",
            plural(counted, "step")
        ));
    } else {
        sentences.push("It is a single step: nothing is known about the spread.".to_owned());
    }
    for left_out in report.left_out() {
        let took =
            left_out.values.f64(Metric::StepNs).map_or(String::new(), |v| format!(" ({})", ns(v)));
        sentences.push(format!(
            "The first captured step, {}{took}, is an outlier and left out of the medians; --keep-first keeps it.",
            quoted(&left_out.name)
        ));
    }
    sentences.extend(outliers(report));
    let partial = report.partial_steps();
    if partial > 0 {
        sentences.push(format!(
            "{} not measured on every rank and left out of the run's figures.",
            are(partial, "step")
        ));
    }
    sentences
}

/// The steps to look at: those that count and lie far from the median, the furthest first.
fn outliers(report: &Report) -> Option<String> {
    let median = median(report, Metric::StepNs)?;
    let mut far: Vec<(&str, f64)> = report
        .steps
        .iter()
        .filter(|step| step.outlier && step.counted)
        .filter_map(|step| Some((step.name.as_str(), step.values.f64(Metric::StepNs)?)))
        .collect();
    far.sort_by(|a, b| (b.1 - median).abs().total_cmp(&(a.1 - median).abs()));
    let named: Vec<String> = far
        .iter()
        .take(NAMED_OUTLIERS)
        .map(|(name, took)| format!("{} ({})", quoted(name), ns(*took)))
        .collect();
    let more = match far.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    (!named.is_empty())
        .then(|| format!("Steps to look at, far from the median: {}{more}.", named.join(", ")))
}

/// `1 step is`, `2 steps are`.
fn are(n: usize, one: &str) -> String {
    format!("{} {}", plural(n, one), if n == 1 { "is" } else { "are" })
}

fn missing_ranks(report: &Report) -> Option<String> {
    let world = report.of_world()?;
    let why = if report.settings.ranks.is_some() { "--ranks chose" } else { "The report has" };
    Some(format!(
        "{why} {} of the run's {} ranks; what the others do is unknown.",
        count(report.ranks.len() as u64),
        count(u64::from(world))
    ))
}
