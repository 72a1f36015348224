//! The pictures of a report, and what each leaves out.

use std::collections::{BTreeMap, BTreeSet};

use super::headline::noun;
use super::{quoted, spread};
use crate::model::Metric;
use crate::model::metric::{PARTS, Values};
use crate::render::document::Figure;
use crate::render::plot::{
    BarRow, Bars, Curve, Heat, HeatCell, Ink, Lane, LaneGroup, Lanes, LogLog, Plot, SERIES, Segment,
};
use crate::render::table::pick;
use crate::render::units::{self, TimeScale};
use crate::report::{RankReport, RankStep, Report, Strip};

/// Bars in one picture of several steps, and of one step.
const MOST_BARS: usize = 40;
const MOST_BARS_OF_ONE: usize = 64;
/// Ranks in the timeline.
const MOST_STRIPS: usize = 8;
/// Rows and columns of the picture of waits.
const MOST_HEAT_ROWS: usize = 64;
const MOST_HEAT_COLUMNS: usize = 60;
/// The axis of bars reaches this many medians for a step that is left out, and at most so many for one that counts.
const LONG_LEFT_OUT: f64 = 1.6;
const LONG_COUNTED: f64 = 5.0;

fn part(metric: Metric) -> (Ink, &'static str) {
    match metric {
        Metric::ComputeNs => (Ink::Compute, "compute"),
        Metric::ExposedCommNs => (Ink::Comm, "exposed communication"),
        Metric::ExposedCopyNs => (Ink::Copies, "exposed copies and memsets"),
        Metric::UnclassifiedExposedNs => (Ink::Unclassified, "work of unknown class"),
        _ => (Ink::Idle, "idle"),
    }
}

/// What each step of each rank is made of.
pub(super) fn composition(report: &Report, scale: TimeScale) -> Option<Figure> {
    let rows = bar_rows(report);
    if rows.iter().all(|(_, step)| step.values[Metric::StepNs].is_none()) {
        return None;
    }
    let unclassified = rows
        .iter()
        .any(|(_, step)| step.values.int(Metric::UnclassifiedExposedNs).is_some_and(|ns| ns != 0));
    let parts: Vec<Metric> =
        PARTS.into_iter().filter(|&m| m != Metric::UnclassifiedExposedNs || unclassified).collect();
    let end = bars_end(report, &rows);
    let whole = noun(report).whole;
    let bars = Bars {
        unit: scale.unit,
        parts: parts.iter().map(|&m| part(m)).map(|(ink, name)| (ink, name.to_owned())).collect(),
        rows: rows.iter().map(|(rank, step)| bar_row(rank, step, &parts, scale, whole)).collect(),
        end: scale.scaled(end),
    };
    let all: usize = report.ranks.iter().map(|rank| rank.steps.len()).sum();
    let mut caption = format!(
        "What each {} of each rank is made of, in {}; the parts add up exactly",
        noun(report).one,
        scale.unit
    );
    if rows.len() < all {
        caption.push_str(&format!("; {} of {} bars", rows.len(), units::count(all as u64)));
    }
    let description = report
        .ranks
        .iter()
        .take(4)
        .map(|rank| describe(rank, &parts))
        .collect::<Vec<_>>()
        .join(" ");
    Some(Figure {
        caption,
        description: format!("Stacked bars. {description}"),
        plot: Plot::Bars(bars),
    })
}

/// Where the axis of the bars ends: no bar that counts is cut unless it is extreme, and one that is left out squeezes no other.
fn bars_end(report: &Report, rows: &[(&RankReport, &RankStep)]) -> i64 {
    let longest = |counted: bool| {
        let steps = rows.iter().map(|(_, step)| step).filter(|step| step.counted || !counted);
        steps.filter_map(|step| step.values.int(Metric::StepNs)).max().unwrap_or(0)
    };
    let Some(median) = spread(report, Metric::StepNs).map(|s| s.median.as_f64()) else {
        return longest(false);
    };
    let reach = |medians: f64| (median * medians).ceil() as i64;
    longest(false).min(longest(true).max(reach(LONG_LEFT_OUT))).min(reach(LONG_COUNTED))
}

/// Medians of one rank as a sentence for those who do not see the bars.
fn describe(rank: &RankReport, parts: &[Metric]) -> String {
    let medians = parts
        .iter()
        .filter_map(|&metric| {
            Some(format!(
                "{} {}",
                part(metric).1,
                units::time(rank.summary.median(metric)?.round() as i64)
            ))
        })
        .collect::<Vec<_>>();
    format!("Rank {}, medians: {}.", rank.rank, medians.join(", "))
}

fn bar_row(
    rank: &RankReport,
    step: &RankStep,
    parts: &[Metric],
    scale: TimeScale,
    whole: bool,
) -> BarRow {
    let segment = |values: &Values, metric: Metric| {
        let ns = values.int(metric)?;
        Some(Segment { value: scale.scaled(ns.max(0)), text: scale.number(ns) })
    };
    let measured = step.values.int(Metric::StepNs);
    BarRow {
        group: if whole { String::new() } else { step.name.clone() },
        label: format!("rank {}", rank.rank),
        segments: measured
            .and_then(|_| parts.iter().map(|&metric| segment(&step.values, metric)).collect()),
        total: measured.map_or_else(|| "not measured".to_owned(), units::time),
        faint: !step.counted,
    }
}

/// The bars by step, then rank; of many, some steps, and of very many ranks some ranks.
fn bar_rows(report: &Report) -> Vec<(&RankReport, &RankStep)> {
    let steps = report.aligned_steps();
    let ranks = pick(report.ranks.len(), MOST_BARS_OF_ONE, &[]);
    let most_steps = (MOST_BARS / ranks.len().max(1)).max(1);
    let outliers: Vec<usize> =
        (0..steps.len()).filter(|&i| steps[i].iter().any(|(_, step)| step.outlier)).collect();
    // A single step is the one of the timeline: the first may be an outlier.
    let median = report.strips.first().and_then(|strip| {
        steps.iter().position(|step| step.iter().any(|(_, s)| s.name == strip.step))
    });
    let chosen = match median {
        Some(median) if most_steps == 1 && steps.len() > 1 => vec![median],
        _ => pick(steps.len(), most_steps, &outliers),
    };
    let shown: BTreeSet<u32> =
        ranks.iter().filter_map(|&rank| report.ranks.get(rank)).map(|rank| rank.rank).collect();
    chosen
        .into_iter()
        .flat_map(|step| steps[step].iter().copied())
        .filter(|(rank, _)| shown.contains(&rank.rank))
        .collect()
}

/// When compute, communication and copies ran in a median step.
pub(super) fn strips(report: &Report) -> Option<Figure> {
    let shown: Vec<&Strip> = pick(report.strips.len(), MOST_STRIPS, &[])
        .into_iter()
        .filter_map(|i| report.strips.get(i))
        .collect();
    let length = shown.iter().map(|strip| strip.step_ns).max().filter(|&ns| ns > 0)?;
    let lane = |ink, label: &str, spans: &[crate::model::Span]| Lane {
        ink,
        label: label.to_owned(),
        spans: spans.to_vec(),
    };
    let group = |strip: &&Strip| {
        let mut lanes = vec![
            lane(Ink::Compute, "compute", &strip.compute),
            lane(Ink::Comm, "communication", &strip.comm),
            lane(Ink::Copies, "copies", &strip.copies),
        ];
        if !strip.unclassified.is_empty() {
            lanes.push(lane(Ink::Unclassified, "unknown", &strip.unclassified));
        }
        LaneGroup { label: format!("rank {}", strip.rank), length: strip.step_ns, lanes }
    };
    let scale = TimeScale::of([length]);
    let step = match (noun(report).whole, shown.first()) {
        (false, Some(strip)) => format!("{}, a median step", quoted(&strip.step)),
        _ => "The window".to_owned(),
    };
    let mut caption = format!(
        "{step}: when compute, communication and copies ran, in {} from the start of each rank's window",
        scale.unit
    );
    if shown.len() < report.strips.len() {
        caption.push_str(&format!(
            "; {} of {} ranks",
            shown.len(),
            units::count(report.strips.len() as u64)
        ));
    }
    let description = "Timeline with one lane each for compute, communication and copies per rank; a lighter shade means that only part of that time is covered.";
    let lanes = Lanes { length, scale, groups: shown.iter().map(group).collect() };
    Some(Figure { caption, description: description.to_owned(), plot: Plot::Lanes(lanes) })
}

/// Who waits in which step.
pub(super) fn waits(report: &Report, scale: TimeScale) -> Option<Figure> {
    let counted = |step: usize| report.steps.get(step).is_some_and(|s| s.counted);
    let longest = report.waits.iter().max_by_key(|w| w.wait_ns)?;
    // A step that is left out may hold a wait beside which all others would be invisible.
    let full = report
        .waits
        .iter()
        .filter(|w| counted(w.step))
        .map(|w| w.wait_ns)
        .max()
        .unwrap_or(longest.wait_ns)
        .max(1);
    let by_place: BTreeMap<(u32, usize), _> =
        report.waits.iter().map(|w| ((w.rank, w.step), w)).collect();
    let ranks = pick(report.ranks.len(), MOST_HEAT_ROWS, &[]);
    let outliers: Vec<usize> =
        (0..report.steps.len()).filter(|&i| report.steps[i].outlier).collect();
    let steps = pick(report.steps.len(), MOST_HEAT_COLUMNS, &outliers);
    let cell = |rank: usize, step: usize| {
        let wait = by_place.get(&(report.ranks.get(rank)?.rank, report.steps.get(step)?.index))?;
        Some(HeatCell {
            shade: wait.wait_ns.max(0) as f64 / full as f64,
            text: scale.number(wait.wait_ns),
            marked: wait.last_count > 0,
        })
    };
    let heat = Heat {
        rows: ranks
            .iter()
            .filter_map(|&rank| report.ranks.get(rank))
            .map(|r| format!("rank {}", r.rank))
            .collect(),
        columns: steps
            .iter()
            .filter_map(|&step| report.steps.get(step))
            .map(|s| s.name.clone())
            .collect(),
        cells: ranks
            .iter()
            .map(|&rank| steps.iter().map(|&step| cell(rank, step)).collect())
            .collect(),
        full: format!(
            "waits {}{}",
            units::time(full),
            if longest.wait_ns > full { " or longer" } else { "" }
        ),
        marked: "arrived last at least once".to_owned(),
    };
    let mut caption = format!(
        "Waiting time by rank and step, in {}: the stronger the colour, the longer",
        scale.unit
    );
    if ranks.len() < report.ranks.len() || steps.len() < report.steps.len() {
        caption.push_str(&format!(
            "; {} of {} ranks, {} of {} steps",
            ranks.len(),
            units::count(report.ranks.len() as u64),
            steps.len(),
            units::count(report.steps.len() as u64)
        ));
    }
    let description = format!(
        "Grid of waiting times. The longest wait is {} on rank {}.",
        units::time(longest.wait_ns),
        longest.rank
    );
    Some(Figure { caption, description, plot: Plot::Heat(heat) })
}

/// Bandwidth by message size; nothing unless it is known for two sizes of one operation.
pub(super) fn bandwidth(report: &Report) -> Option<Figure> {
    /// Operation and communicator.
    type Key<'a> = (&'a str, Option<&'a str>);
    let mut curves: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    for group in &report.collectives {
        if let (Some(bytes), Some(gbs)) =
            (group.bytes.filter(|&b| b > 0), group.busbw_gbs.filter(|&v| v > 0.0))
        {
            curves
                .entry((&group.op, group.comm_id.as_deref()))
                .or_default()
                .push((bytes as f64, gbs));
        }
    }
    if curves.values().all(|points| points.iter().all(|point| point.0 == points[0].0)) {
        return None;
    }
    let communicators = |op: &str| curves.keys().filter(|(other, _)| *other == op).count();
    let named = curves
        .iter()
        .map(|((op, comm), points)| {
            let mut points = points.clone();
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let name = match comm {
                Some(id) if communicators(op) > 1 => {
                    format!("{op} on {}", crate::text::shorten(id, 11))
                }
                _ => (*op).to_owned(),
            };
            Curve { name, points }
        })
        .collect::<Vec<_>>();
    let all = named.len();
    let mut drawn = named;
    // The curves with most points say most; the order by name stays.
    if all > usize::from(SERIES) {
        let mut lengths: Vec<usize> = drawn.iter().map(|curve| curve.points.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let least = lengths[usize::from(SERIES) - 1];
        drawn.retain(|curve| curve.points.len() >= least);
        drawn.truncate(usize::from(SERIES));
    }
    let best = drawn.iter().flat_map(|curve| &curve.points).map(|p| p.1).fold(0.0, f64::max);
    let mut caption = "busbw (GB/s) by message size as logged, both axes logarithmic".to_owned();
    if drawn.len() < all {
        caption.push_str(&format!("; {} of {} curves", drawn.len(), units::count(all as u64)));
    }
    let plot = LogLog { x: "message size".to_owned(), y: "busbw, GB/s".to_owned(), curves: drawn };
    Some(Figure {
        caption,
        description: format!("Bandwidth curves; the best is {}.", units::bandwidth(best)),
        plot: Plot::LogLog(plot),
    })
}
