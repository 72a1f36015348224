//! The pictures of a comparison.

use super::{baseline, others, tables};
use crate::compare::{Comparison, Parts, StepTime, Variant, Verdict};
use crate::model::Metric;
use crate::render::document::Figure;
use crate::render::plot::{
    Axis, Ink, LegendEntry, Line, Mark, Paint, Plot, Row, Rows, Size, Thickness,
};
use crate::render::table::pick;
use crate::render::units::{self, TimeScale};
use crate::render::view::figures::{lanes, timeline};

/// Variants in one picture.
const MOST_VARIANTS: usize = 24;
/// Variants in the picture beside the headline.
const MOST_ASIDE: usize = 10;
/// Dots of one variant.
const MOST_DOTS: usize = 200;
/// The axis of step times ends at this many of the largest median; dots beyond it are arrows.
const LONG_STEP: f64 = 1.5;

/// The bars of each variant: colour, name, the number, and the part of it that runs beside nothing.
const BARS: [(Ink, &str, Metric, Metric); 4] = [
    (Ink::Compute, "compute", Metric::ComputeNs, Metric::ComputeNs),
    (Ink::Comm, "communication (full: exposed)", Metric::CommNs, Metric::ExposedCommNs),
    (Ink::Copies, "DtoD copies (full: exposed)", Metric::DtodNs, Metric::DtodExposedNs),
    (Ink::Idle, "idle", Metric::IdleNs, Metric::IdleNs),
];

/// What stands below a variant's name.
fn note(variant: &Variant) -> String {
    match (variant.verdict, variant.speedup) {
        (Verdict::Baseline, _) => "baseline".to_owned(),
        (verdict, Some(speedup)) => format!("{speedup:.3}, {}", verdict.label()),
        (verdict, None) => verdict.label().to_owned(),
    }
}

/// What is said of variants that a picture has no room for.
fn omitted(shown: usize, all: usize) -> String {
    if shown < all {
        format!("; {shown} of {} variants", units::count(all as u64))
    } else {
        String::new()
    }
}

fn shown(comparison: &Comparison) -> Vec<&Variant> {
    let base = comparison.variants.iter().position(|v| v.verdict == Verdict::Baseline).unwrap_or(0);
    pick(comparison.variants.len(), MOST_VARIANTS, &[base])
        .into_iter()
        .filter_map(|i| comparison.variants.get(i))
        .collect()
}

/// The speed-up of every variant with its interval: the picture beside the headline.
pub(super) fn forest(comparison: &Comparison) -> Option<Figure> {
    let measured: Vec<(&Variant, f64)> =
        others(comparison).filter_map(|v| Some((v, v.speedup?))).collect();
    let ranked = by_speed(measured);
    let shown: Vec<(&Variant, f64)> = ranked.iter().take(MOST_ASIDE).copied().collect();
    let ends = || {
        let intervals = shown.iter().flat_map(|(v, _)| v.speedup_ci95).flatten();
        shown.iter().map(|(_, speedup)| *speedup).chain(intervals).chain([1.0])
    };
    let range = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
    let room = 0.05 * (range.1 - range.0).max(0.02);
    let row = |&(variant, speedup): &(&Variant, f64)| {
        let ink = match variant.verdict {
            Verdict::Faster => Ink::Good,
            Verdict::Slower => Ink::Bad,
            _ => Ink::Muted,
        };
        let said = variant
            .speedup_ci95
            .map_or_else(String::new, |[lo, hi]| format!(", 95 % interval {lo:.3} to {hi:.3}"));
        let title =
            format!("{}: {}, speed-up {speedup:.3}{said}", variant.name, variant.verdict.label());
        let interval = variant.speedup_ci95.map(|[lo, hi]| Mark::Interval {
            span: (lo, hi),
            ink,
            title: title.clone(),
        });
        let dot = Mark::Dot { at: speedup, height: 0.5, paint: Paint::Full(ink), title };
        Row {
            label: variant.name.clone(),
            note: variant.verdict.label().to_owned(),
            lines: vec![Line {
                marks: interval.into_iter().chain([dot]).collect(),
                end: format!("{speedup:.3}"),
                ..Line::default()
            }],
        }
    };
    let plot = Rows {
        axis: Axis::linear("speed-up", "", (range.0 - room, range.1 + room)),
        rows: shown.iter().map(row).collect(),
        thickness: Thickness::Tall,
        reference: Some(1.0),
        legend: vec![
            LegendEntry::shape(Ink::Muted, '●', "speed-up, 1 is the baseline's pace"),
            LegendEntry::shape(Ink::Muted, '—', "95 % interval"),
        ],
        size: Size::Aside,
    };
    (!shown.is_empty()).then(|| Figure {
        caption: format!(
            "Speed-up against {}, the fastest first; to the right is faster{}",
            comparison.baseline,
            omitted(shown.len(), ranked.len())
        ),
        description: "Forest plot. The table of verdicts has the numbers.".to_owned(),
        plot: Plot::Rows(plot),
    })
}

/// The fastest first; of equals the order in which they were named.
fn by_speed(mut variants: Vec<(&Variant, f64)>) -> Vec<(&Variant, f64)> {
    variants.sort_by(|a, b| b.1.total_cmp(&a.1));
    variants
}

/// The medians of compute, communication, copies and idle, side by side.
pub(super) fn grouped(comparison: &Comparison) -> Option<Figure> {
    let scale = tables::scale(comparison);
    let shown = shown(comparison);
    let median =
        |variant: &Variant, metric| variant.summary[metric].and_then(|s| s.median.as_int());
    let bar = |variant: &Variant, (ink, name, metric, full)| {
        let Some(ns) = median(variant, metric) else {
            return Line { end: "not measured".to_owned(), ..Line::default() };
        };
        let exposed = scale.scaled(median(variant, full).unwrap_or(ns).min(ns));
        let title = |part: &str| format!("{}: {name}{part}, of {}", variant.name, units::time(ns));
        let mark = |span, paint, part| Mark::bar(span, paint, String::new(), title(part));
        let hidden = mark((exposed, scale.scaled(ns)), Paint::Light(ink), ", hidden");
        Line {
            marks: vec![mark((0.0, exposed), Paint::Full(ink), ""), hidden],
            end: scale.number(ns),
            ..Line::default()
        }
    };
    let row = |variant: &&Variant| Row {
        label: variant.name.clone(),
        note: note(variant),
        lines: BARS.into_iter().map(|of| bar(variant, of)).collect(),
    };
    let medians = shown
        .iter()
        .flat_map(|v| BARS.map(|(.., metric, _)| median(v, metric)))
        .flatten()
        .max()
        .unwrap_or(0);
    let end = scale.scaled(medians);
    let caption = format!(
        "Medians of a step, in {}; the number below a name is its speed-up{}",
        scale.unit,
        omitted(shown.len(), comparison.variants.len())
    );
    let plot = Rows {
        axis: Axis::linear("", scale.unit, (0.0, end)),
        rows: shown.iter().map(row).collect(),
        thickness: Thickness::Thin,
        reference: None,
        legend: BARS.iter().map(|(ink, name, ..)| LegendEntry::colour(*ink, name)).collect(),
        size: Size::Page,
    };
    let description = "Grouped bars: compute, communication, device copies and idle time of each variant. The table above has the numbers.";
    (end > 0.0).then(|| Figure {
        caption,
        description: description.to_owned(),
        plot: Plot::Rows(plot),
    })
}

/// How the baseline's step becomes each variant's.
pub(super) fn waterfall(comparison: &Comparison) -> Option<Figure> {
    let base = baseline(comparison)?.median_step.as_ref()?;
    let scale = tables::scale(comparison);
    let all: Vec<(&Variant, &Parts)> =
        others(comparison).filter_map(|v| Some((v, comparison.waterfall.get(&v.name)?))).collect();
    let shown: Vec<_> =
        pick(all.len(), MOST_VARIANTS, &[]).into_iter().filter_map(|i| all.get(i)).collect();
    if shown.is_empty() {
        return None;
    }
    let graphs = shown.iter().any(|(_, parts)| parts.unclassified_exposed_ns != 0);
    let names = Parts::default().named().map(|(name, _)| name);
    let inks = [Ink::Compute, Ink::Comm, Ink::Copies, Ink::Unclassified, Ink::Idle];
    let parts: Vec<usize> =
        (0..names.len()).filter(|&at| inks[at] != Ink::Unclassified || graphs).collect();
    let signed = |ns: i64| tables::signed(scale, ns);
    let mut range = (0f64, 0f64);
    let mut fall = |(variant, changes): &&(&Variant, &Parts)| {
        let named = changes.named();
        let mut sum = 0.0;
        let mut lines: Vec<Line> = Vec::with_capacity(parts.len() + 1);
        for &at in &parts {
            let (name, ns) = named[at];
            let from = sum;
            sum += scale.scaled(ns);
            range = (range.0.min(sum), range.1.max(sum));
            let title = format!("{}: {name} {} {}", variant.name, signed(ns), scale.unit);
            let mark = Mark::bar((from, sum), Paint::Full(inks[at]), String::new(), title);
            lines.push(Line { marks: vec![mark], end: signed(ns), ..Line::default() });
        }
        let total = signed(changes.total_ns());
        let title = format!("{}: whole difference {total} {}", variant.name, scale.unit);
        let mark = Mark::bar((0.0, sum), Paint::Full(Ink::Text), String::new(), title);
        lines.push(Line { marks: vec![mark], end: total, ..Line::default() });
        let note = variant.median_step.as_ref().map_or_else(String::new, |step| {
            format!(
                "{} → {} {}",
                scale.number(base.step_ns),
                scale.number(step.step_ns),
                scale.unit
            )
        });
        Row { label: variant.name.clone(), note, lines }
    };
    let rows: Vec<Row> = shown.iter().map(&mut fall).collect();
    let colours = parts.iter().map(|&at| LegendEntry::colour(inks[at], names[at]));
    let plot = Rows {
        axis: Axis::linear("", scale.unit, if range.0 < range.1 { range } else { (0.0, 1.0) }),
        rows,
        thickness: Thickness::Thin,
        reference: Some(0.0),
        legend: colours.chain([LegendEntry::colour(Ink::Text, "whole difference")]).collect(),
        size: Size::Page,
    };
    let caption = format!(
        "From the median step of {} (0) to each variant's, by part, in {}: to the left is faster{}",
        comparison.baseline,
        scale.unit,
        omitted(shown.len(), all.len())
    );
    let description = "Waterfall by part of the step. The table above has the numbers.";
    Some(Figure { caption, description: description.to_owned(), plot: Plot::Rows(plot) })
}

/// Every step time of every variant.
pub(super) fn steps(comparison: &Comparison) -> Option<Figure> {
    let scale = tables::scale(comparison);
    let shown = shown(comparison);
    let times = || {
        shown
            .iter()
            .flat_map(|v| &v.captures)
            .flat_map(|c| &c.step_times)
            .filter_map(|step| step.step_ns)
    };
    let medians = shown.iter().filter_map(|v| v.summary.median(Metric::StepNs));
    let cap = medians.fold(0.0, f64::max) * LONG_STEP;
    let (least, most) =
        (times().min()? as f64, times().map(|ns| (ns as f64).min(cap)).fold(0.0, f64::max));
    let room = 0.04 * (most - least).max(0.01 * most).max(1.0);
    let row = |variant: &&Variant| {
        let steps: Vec<_> = variant
            .captures
            .iter()
            .flat_map(|c| &c.step_times)
            .filter_map(|s| Some((s, s.step_ns?)))
            .collect();
        let outliers: Vec<usize> = (0..steps.len()).filter(|&i| steps[i].0.outlier).collect();
        let dots = pick(steps.len(), MOST_DOTS, &outliers).into_iter().filter_map(|i| steps.get(i));
        let shown: Vec<_> = dots.collect();
        let all = shown.len().max(1) as f64;
        let dot = |(i, (step, ns)): (usize, &&(&StepTime, i64))| {
            let paint = match (step.counted, step.outlier) {
                (false, _) => Paint::Light(Ink::Muted),
                (true, true) => Paint::Frame(Ink::Compute),
                (true, false) => Paint::Light(Ink::Compute),
            };
            Mark::Dot {
                at: scale.scaled(*ns),
                height: (i as f64 + 0.5) / all,
                paint,
                title: format!("{}, {}: {}", variant.name, step.name, units::time(*ns)),
            }
        };
        let median = variant.summary[Metric::StepNs].and_then(|s| s.median.as_int());
        let stroke = median.filter(|ns| (*ns as f64) < most + room).map(|ns| Mark::Stroke {
            at: scale.scaled(ns),
            title: format!("{}: median {}", variant.name, units::time(ns)),
        });
        let marks = stroke.into_iter().chain(shown.iter().enumerate().map(dot)).collect();
        Row {
            label: variant.name.clone(),
            note: note(variant),
            lines: vec![Line { marks, ..Line::default() }],
        }
    };
    let range = (scale.scaled((least - room) as i64), scale.scaled((most + room) as i64));
    let plot = Rows {
        axis: Axis::linear("step", scale.unit, range),
        rows: shown.iter().map(row).collect(),
        thickness: Thickness::Tall,
        reference: None,
        legend: vec![
            LegendEntry::shape(Ink::Compute, '●', "step, the first highest"),
            LegendEntry::shape(Ink::Compute, '○', "outlier"),
            LegendEntry::shape(Ink::Muted, '●', "left out"),
            LegendEntry::shape(Ink::Text, '|', "median"),
        ],
        size: Size::Page,
    };
    let caption = format!(
        "Step times, in {}; the axis does not start at 0{}",
        scale.unit,
        omitted(shown.len(), comparison.variants.len())
    );
    let describe = |v: &&Variant| {
        let spread = v.summary[Metric::StepNs]?;
        let time = |n: crate::model::Num| units::time(n.as_f64().round() as i64);
        Some(format!(
            "{}: {} to {}, median {}.",
            v.name,
            time(spread.min),
            time(spread.max),
            time(spread.median)
        ))
    };
    let description =
        format!("Dots. {}", shown.iter().filter_map(describe).collect::<Vec<_>>().join(" "));
    Some(Figure { caption, description, plot: Plot::Rows(plot) })
}

/// One median step of each variant on one time axis.
pub(super) fn strips(comparison: &Comparison) -> Option<Figure> {
    let all: Vec<_> =
        shown(comparison).into_iter().filter_map(|v| Some((v, v.strip.as_ref()?))).collect();
    let length = all.iter().map(|(_, strip)| strip.step_ns).max().filter(|&ns| ns > 0)?;
    let scale = TimeScale::of([length]);
    let rows = all
        .iter()
        .map(|(variant, strip)| {
            let label = format!(
                "{}: {}, rank {}, {}",
                variant.name,
                strip.step,
                strip.rank,
                units::time(strip.step_ns)
            );
            lanes(strip, label, length, scale)
        })
        .collect();
    let caption = format!(
        "One median step of each variant on its slowest rank: when compute, communication and copies ran, in {}{}",
        scale.unit,
        omitted(all.len(), comparison.variants.len())
    );
    let description = "Timelines with one lane each for compute, communication and copies; a lower bar means that only part of that time is covered.";
    Some(Figure {
        caption,
        description: description.to_owned(),
        plot: timeline(rows, length, scale),
    })
}
