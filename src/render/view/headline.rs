//! The first sentences: what a manager can repeat.

use super::{quoted, spread};
use crate::catalogue::Id;
use crate::model::Metric;
use crate::model::metric::Spread;
use crate::render::units::{bytes, count, listed, percent, plural, time};
use crate::report::headline::Headline;
use crate::report::{Report, RunStep, gpus};
use crate::steps::{StepSource, WindowKind};

/// Outlier steps that the headline names.
const OUTLIERS_NAMED: usize = 3;

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
    match &report.headline {
        Some(head) => {
            sentences.push(opening(report, head));
            sentences.push(parts(report, head));
            sentences.extend(communication(report, head));
        }
        None => sentences.push(format!("Steps take {} in the median.", ns(step.median.as_f64()))),
    }
    sentences.extend(copies(report));
    sentences.extend(coverage(report));
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

/// Which step it is and how long it takes.
fn opening(report: &Report, head: &Headline) -> String {
    let took = time(head.mean_step_ns);
    let several = report.ranks.len() > 1;
    let slowest = if several && time(head.step_ns) != took {
        format!(" in the mean over ranks, {} on the slowest", time(head.step_ns))
    } else {
        String::new()
    };
    if noun(report).whole {
        let start = match report.settings.step_pattern_source {
            StepSource::NoRanges => "The capture has no NVTX ranges, so steps are unknown: the",
            StepSource::OnlyNccl => {
                "The capture has no NVTX ranges but NCCL's own, so steps are unknown: the"
            }
            StepSource::OnlyLibraries => {
                "The capture has no NVTX ranges but those of libraries, so steps are unknown: the"
            }
            StepSource::Elsewhere => {
                "The NVTX ranges are those of processes without GPU work, so steps are unknown: the"
            }
            StepSource::Uncovered => {
                "No recurring NVTX range covers half of the GPU work, so steps are unknown: the"
            }
            _ => "The",
        };
        return format!(
            "{start} whole capture, first to last GPU operation, is one window of {took}{slowest}."
        );
    }
    let which = match head.step.and_then(|at| report.steps.get(at)) {
        Some(step) if report.summary.counted_steps > 1 => {
            format!(" ({}, the median step)", quoted(&step.name))
        }
        Some(_) => String::new(),
        None => format!(" (mean of {} of several kinds)", plural(head.steps, "step")),
    };
    format!("A step takes {took}{slowest}{which}.")
}

/// What it is made of: parts that add up to it.
fn parts(report: &Report, head: &Headline) -> String {
    let share = |part: i64| match head.mean_step_ns {
        0 => String::new(),
        whole => format!(" {}", percent(part as f64 / whole as f64)),
    };
    let one = |name: &str, part: i64| format!("{name}{} ({})", share(part), time(part));
    let mut list = vec![one("compute", head.compute_ns)];
    list.push(one("exposed communication", head.exposed_comm_ns));
    for (name, part) in
        [("exposed copies", head.exposed_copy_ns), ("work of unknown class", head.unclassified_ns)]
    {
        if part > 0 {
            list.push(one(name, part));
        }
    }
    list.push(one("idle", head.idle_ns));
    let lower = if head.unclassified_ns > 0 {
        " What is of unknown class (CUDA graphs as one row, kernels without a name) may communicate, so communication is a lower bound."
    } else {
        ""
    };
    let over = if report.ranks.len() > 1 { ", means over ranks" } else { "" };
    format!("It is {}{over}.{lower}", list.join(", "))
}

/// How much communication there is, what hides it, and what of it is waiting.
fn communication(report: &Report, head: &Headline) -> Option<String> {
    let values = &report.steps.get(head.step?)?.values;
    let (comm, overlap) = (values.int(Metric::CommNs)?, values.int(Metric::OverlapNs)?);
    if comm == 0 {
        let doubt = if report.warnings.iter().any(|w| w.code == Id::NoCommunicationRecognised) {
            "; the warnings say which kernels may be it"
        } else if report.ranks.len() == 1 {
            " (one rank)"
        } else {
            ""
        };
        return Some(format!("No communication was recognised in it{doubt}."));
    }
    let hidden = if overlap == 0 {
        "none of it beside compute".to_owned()
    } else if overlap == comm {
        "all of it beside compute".to_owned()
    } else {
        format!("{} of it beside compute", time(overlap))
    };
    let waits = match head.waits_for {
        Some(rank) if head.wait_ns > 0 => {
            format!(
                "; of what is exposed {} is waiting, most of it for rank {rank}",
                time(head.wait_ns)
            )
        }
        _ => String::new(),
    };
    Some(format!("Communication runs for {}, {hidden}{waits}.", time(comm)))
}

/// What is copied on the device.
fn copies(report: &Report) -> Option<String> {
    let (time, count_of, size) = (
        median(report, Metric::DtodNs)?,
        median(report, Metric::DtodCount)?,
        median(report, Metric::DtodBytes)?,
    );
    (count_of > 0.0).then(|| {
        format!(
            "{} on the device take {} and move {} (medians).",
            plural_copies(count_of.round() as usize),
            ns(time),
            bytes(size.round() as u64)
        )
    })
}

fn plural_copies(n: usize) -> String {
    if n == 1 { "1 copy".to_owned() } else { format!("{} copies", count(n as u64)) }
}

/// A share of the GPU work that lies in no step has to be known.
fn coverage(report: &Report) -> Option<String> {
    // Of steps that were chosen it says nothing.
    let all = report.settings.steps.is_none();
    let covered = report.summary.coverage.filter(|&share| all && share < 0.95)?;
    (!noun(report).whole).then(|| {
        format!("Steps cover {} of the GPU work; the rest lies outside them.", percent(covered))
    })
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
    sentences.extend(left_out(report));
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

/// The steps to look at.
fn outliers(report: &Report) -> Option<String> {
    let far = report.outlying_steps();
    let named: Vec<String> = far
        .iter()
        .take(OUTLIERS_NAMED)
        .filter_map(|step| {
            Some(format!("{} ({})", quoted(&step.name), time(step.values.int(Metric::StepNs)?)))
        })
        .collect();
    let more = match far.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    (!named.is_empty())
        .then(|| format!("Steps to look at, far from the median: {}{more}.", named.join(", ")))
}

/// Which outliers no median rests on.
fn left_out(report: &Report) -> Option<String> {
    let outliers: Vec<&RunStep> = report.left_out().collect();
    let [first, ..] = outliers.as_slice() else { return None };
    if report.settings.exclude_outliers {
        let names: Vec<String> = outliers.iter().map(|step| quoted(&step.name)).collect();
        return Some(format!(
            "{} left out of the medians because of --exclude-outliers: {}.",
            are(outliers.len(), "outlier"),
            listed(&names, OUTLIERS_NAMED)
        ));
    }
    let took = first.values.f64(Metric::StepNs).map_or(String::new(), |v| format!(" ({})", ns(v)));
    Some(format!(
        "The first captured step, {}{took}, is an outlier and left out of the medians; --keep-first keeps it.",
        quoted(&first.name)
    ))
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
