//! The pictures of a report, and what each leaves out.

use std::collections::{BTreeMap, BTreeSet};

use super::headline::noun;
use super::{quoted, spread};
use crate::model::metric::PARTS;
use crate::model::{Metric, Ns, Span};
use crate::render::document::Figure;
use crate::render::plot::{
    Axis, Cell, Grid, Ink, LegendEntry, Line, Paint, Plane, Plot, Row, Rows, SERIES, Scale, Series,
    Shape, Size, Thickness, stacked,
};
use crate::render::table::pick;
use crate::render::units::{self, TimeScale};
use crate::report::{RankReport, RankStep, Report, Strip};

/// Bars in one picture of several steps, and of one step.
const MOST_BARS: usize = 40;
const MOST_BARS_OF_ONE: usize = 64;
/// Bars beside the headline.
const MOST_ASIDE: usize = 12;
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

/// What a median step is made of on each rank: the picture beside the headline.
pub(super) fn first_look(report: &Report, scale: TimeScale) -> Option<Figure> {
    let of_headline = report.headline.as_ref().and_then(|head| report.steps.get(head.step?));
    let name = of_headline.map(|step| &step.name).or(report.strips.first().map(|s| &s.step))?;
    let steps = report.aligned_steps();
    let step = steps.iter().find(|step| step.iter().any(|(_, s)| s.name == *name))?;
    let extremes = [step.iter().enumerate().max_by_key(|(_, (_, s))| s.values.int(Metric::StepNs))];
    let must: Vec<usize> = extremes.into_iter().flatten().map(|(at, _)| at).collect();
    let shown: Vec<(&RankReport, &RankStep)> = pick(step.len(), MOST_ASIDE, &must)
        .into_iter()
        .filter_map(|at| step.get(at).copied())
        .collect();
    let parts = parts(&shown);
    let longest = shown.iter().filter_map(|(_, s)| s.values.int(Metric::StepNs)).max()?;
    let row = |&(rank, step): &(&RankReport, &RankStep)| Row {
        label: format!("rank {}", rank.rank),
        lines: vec![Line { label: String::new(), ..bar(rank, step, &parts, scale) }],
        ..Row::default()
    };
    let what = if noun(report).whole {
        "What the window of each rank is made of".to_owned()
    } else {
        format!("What {}, a median step, is made of on each rank", quoted(name))
    };
    let of = if shown.len() < step.len() {
        format!("; {} of {} ranks", shown.len(), units::count(step.len() as u64))
    } else {
        String::new()
    };
    Some(Figure {
        caption: format!("{what}, in {}{of}", scale.unit),
        description: "Stacked bars, one a rank. The table of ranks has the medians.".to_owned(),
        plot: Plot::Rows(Rows {
            axis: Axis::linear("", scale.unit, (0.0, scale.scaled(longest))),
            rows: shown.iter().map(row).collect(),
            thickness: Thickness::Bar,
            reference: None,
            legend: legend(&parts),
            size: Size::Aside,
        }),
    })
}

/// The parts of a step that these bars have; graphs of unknown class only where there are some.
fn parts(rows: &[(&RankReport, &RankStep)]) -> Vec<Metric> {
    let some = |metric| rows.iter().any(|(_, s)| s.values.int(metric).is_some_and(|ns| ns != 0));
    let graphs = Metric::UnclassifiedExposedNs;
    PARTS.into_iter().filter(|&metric| metric != graphs || some(graphs)).collect()
}

fn legend(parts: &[Metric]) -> Vec<LegendEntry> {
    parts
        .iter()
        .map(|&metric| part(metric))
        .map(|(ink, name)| LegendEntry::colour(ink, name))
        .collect()
}

/// What each step of each rank is made of.
pub(super) fn composition(report: &Report, scale: TimeScale) -> Option<Figure> {
    let bars = bar_rows(report);
    if bars.iter().all(|(_, step)| step.values[Metric::StepNs].is_none()) {
        return None;
    }
    let parts = parts(&bars);
    let whole = noun(report).whole;
    let mut rows: Vec<Row> = Vec::new();
    for &(rank, step) in &bars {
        let label = if whole { String::new() } else { step.name.clone() };
        let line = bar(rank, step, &parts, scale);
        match rows.last_mut() {
            Some(row) if row.label == label => row.lines.push(line),
            _ => rows.push(Row { label, lines: vec![line], ..Row::default() }),
        }
    }
    let plot = Plot::Rows(Rows {
        axis: Axis::linear("", scale.unit, (0.0, scale.scaled(bars_end(report, &bars)))),
        rows,
        thickness: Thickness::Bar,
        reference: None,
        legend: legend(&parts),
        size: Size::Page,
    });
    let all: usize = report.ranks.iter().map(|rank| rank.steps.len()).sum();
    let mut caption = format!(
        "What each {} of each rank is made of, in {}; the parts add up exactly",
        noun(report).one,
        scale.unit
    );
    if bars.len() < all {
        caption.push_str(&format!("; {} of {} bars", bars.len(), units::count(all as u64)));
    }
    let described: Vec<String> =
        report.ranks.iter().take(4).map(|rank| describe(rank, &parts)).collect();
    let description = format!("Stacked bars. {}", described.join(" "));
    Some(Figure { caption, description, plot })
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

/// One step of one rank as a stacked bar; one that takes no part in the medians is light.
fn bar(rank: &RankReport, step: &RankStep, parts: &[Metric], scale: TimeScale) -> Line {
    let measured = step.values.int(Metric::StepNs);
    let segment = |&metric: &Metric| {
        let ns = step.values.int(metric).filter(|_| measured.is_some())?;
        let (ink, name) = part(metric);
        let title = format!("rank {}, {}: {name} {}", rank.rank, step.name, units::time(ns));
        let paint = if step.counted { Paint::Full(ink) } else { Paint::Light(ink) };
        Some((paint, scale.scaled(ns.max(0)), scale.number(ns), title))
    };
    Line {
        label: format!("rank {}", rank.rank),
        marks: stacked(parts.iter().map(segment).collect::<Option<Vec<_>>>().unwrap_or_default()),
        end: measured.map_or_else(|| "not measured".to_owned(), units::time),
        ..Line::default()
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
    let scale = TimeScale::of([length]);
    let rows: Vec<Row> = shown
        .iter()
        .map(|strip| lanes(strip, format!("rank {}", strip.rank), length, scale))
        .collect();
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
    let description = "Timeline with one lane each for compute, communication and copies per rank; a lower bar means that only part of that time is covered.";
    Some(Figure {
        caption,
        description: description.to_owned(),
        plot: timeline(rows, length, scale),
    })
}

/// Rows of lanes over one time axis.
pub(in crate::render) fn timeline(rows: Vec<Row>, length: Ns, scale: TimeScale) -> Plot {
    let mut legend = vec![
        LegendEntry::colour(Ink::Compute, "compute"),
        LegendEntry::colour(Ink::Comm, "communication"),
        LegendEntry::colour(Ink::Copies, "copies"),
    ];
    if rows.iter().any(|row| row.lines.len() > legend.len()) {
        legend.push(LegendEntry::colour(Ink::Unclassified, "work of unknown class"));
    }
    Plot::Rows(Rows {
        axis: Axis::linear("", scale.unit, (0.0, scale.scaled(length))),
        rows,
        thickness: Thickness::Thin,
        reference: None,
        legend,
        size: Size::Page,
    })
}

/// When compute, communication and copies of one rank ran in one step, on an axis of `length`.
pub(in crate::render) fn lanes(strip: &Strip, label: String, length: Ns, scale: TimeScale) -> Row {
    let lane = |ink, name: &str, spans: &[Span]| {
        let own = (length, strip.step_ns);
        let ran: Ns = spans.iter().map(|span| span.end - span.start).sum();
        let share = units::percent(ran as f64 / strip.step_ns.max(1) as f64);
        let title = format!(
            "rank {}, {}: {name} runs {}, {share} of the step",
            strip.rank,
            strip.step,
            units::time(ran)
        );
        Line { title, ..Line::lane(name, ink, spans, own, |ns| scale.scaled(ns)) }
    };
    let mut lines = vec![
        lane(Ink::Compute, "compute", &strip.compute),
        lane(Ink::Comm, "communication", &strip.comm),
        lane(Ink::Copies, "copies", &strip.copies),
    ];
    if !strip.unclassified.is_empty() {
        lines.push(lane(Ink::Unclassified, "unknown", &strip.unclassified));
    }
    Row { label, lines, ..Row::default() }
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
        let last = if wait.last_count > 0 { ", arrived last at least once" } else { "" };
        Some(Cell {
            fill: wait.wait_ns.max(0) as f64 / full as f64,
            text: scale.number(wait.wait_ns),
            title: format!(
                "rank {}, {}: waits {}{last}",
                wait.rank,
                report.steps.get(step)?.name,
                units::time(wait.wait_ns)
            ),
            marked: wait.last_count > 0,
        })
    };
    let grid = Grid {
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
    let mut caption =
        format!("Waiting time by rank and step, in {}: the fuller a cell, the longer", scale.unit);
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
    Some(Figure { caption, description, plot: Plot::Grid(grid) })
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
                .entry((group.op.label(), group.comm_id.as_deref()))
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
            Series { name, shape: Shape::Curve, points }
        })
        .collect::<Vec<_>>();
    let all = named.len();
    let mut drawn = named;
    // The curves with most points say most; the order by name stays.
    if all > usize::from(SERIES) {
        let mut lengths: Vec<usize> = drawn.iter().map(|series| series.points.len()).collect();
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
    let points = || drawn.iter().flat_map(|series| &series.points);
    let plot = Plane {
        x: Axis::log("message size", "", Scale::LogBytes, points().map(|p| p.0)),
        y: Axis::log("busbw", "GB/s", Scale::Log, points().map(|p| p.1)),
        series: drawn,
        mark: None,
    };
    Some(Figure {
        caption,
        description: format!("Bandwidth curves; the best is {}.", units::bandwidth(best)),
        plot: Plot::Plane(plot),
    })
}
