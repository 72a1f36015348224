//! The pictures of a comparison.

use super::{baseline, others, tables};
use crate::compare::{Comparison, Parts, Variant, Verdict};
use crate::model::Metric;
use crate::render::document::Figure;
use crate::render::plot::{
    Bar, BarGroup, Dot, DotRow, Dots, Fall, Grouped, Ink, Lane, LaneGroup, Lanes, Plot, Waterfall,
};
use crate::render::table::pick;
use crate::render::units::{self, TimeScale};

/// Variants in one picture.
const MOST_VARIANTS: usize = 24;
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

/// The medians of compute, communication, copies and idle, side by side.
pub(super) fn grouped(comparison: &Comparison) -> Option<Figure> {
    let scale = tables::scale(comparison);
    let shown = shown(comparison);
    let median =
        |variant: &Variant, metric| variant.summary[metric].and_then(|s| s.median.as_int());
    let bar = |variant: &Variant, metric, full| {
        let ns = median(variant, metric)?;
        Some(Bar {
            value: scale.scaled(ns),
            full: scale.scaled(median(variant, full).unwrap_or(ns).min(ns)),
            text: scale.number(ns),
        })
    };
    let group = |variant: &&Variant| BarGroup {
        label: variant.name.clone(),
        note: note(variant),
        bars: BARS.iter().map(|&(_, _, metric, full)| bar(variant, metric, full)).collect(),
    };
    let groups: Vec<BarGroup> = shown.iter().map(group).collect();
    let end =
        groups.iter().flat_map(|g| &g.bars).flatten().map(|bar| bar.value).fold(0.0, f64::max);
    let caption = format!(
        "Medians of a step, in {}; the number below a name is its speed-up{}",
        scale.unit,
        omitted(shown.len(), comparison.variants.len())
    );
    let plot = Grouped {
        unit: scale.unit,
        series: BARS.iter().map(|(ink, name, ..)| (*ink, (*name).to_owned())).collect(),
        groups,
        end,
    };
    let description = "Grouped bars: compute, communication, device copies and idle time of each variant. The table above has the numbers.";
    (end > 0.0).then(|| Figure {
        caption,
        description: description.to_owned(),
        plot: Plot::Grouped(plot),
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
    let fall = |(variant, changes): &&(&Variant, &Parts)| {
        let named = changes.named();
        Fall {
            label: variant.name.clone(),
            note: variant.median_step.as_ref().map_or_else(String::new, |step| {
                format!(
                    "{} → {} {}",
                    scale.number(base.step_ns),
                    scale.number(step.step_ns),
                    scale.unit
                )
            }),
            changes: parts
                .iter()
                .map(|&at| (scale.scaled(named[at].1), signed(named[at].1)))
                .collect(),
            total: signed(changes.total_ns()),
        }
    };
    let plot = Waterfall {
        unit: scale.unit,
        parts: parts.iter().map(|&at| (inks[at], names[at].to_owned())).collect(),
        rows: shown.iter().map(fall).collect(),
    };
    let caption = format!(
        "From the median step of {} (0) to each variant's, by part, in {}: to the left is faster{}",
        comparison.baseline,
        scale.unit,
        omitted(shown.len(), all.len())
    );
    let description = "Waterfall by part of the step. The table above has the numbers.";
    Some(Figure { caption, description: description.to_owned(), plot: Plot::Waterfall(plot) })
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
        DotRow {
            label: variant.name.clone(),
            note: note(variant),
            dots: dots
                .map(|(s, ns)| Dot {
                    value: scale.scaled(*ns),
                    outlier: s.outlier,
                    faint: !s.counted,
                })
                .collect(),
            median: variant.summary[Metric::StepNs]
                .and_then(|s| s.median.as_int())
                .map(|ns| scale.scaled(ns)),
        }
    };
    let plot = Dots {
        unit: scale.unit,
        range: (scale.scaled((least - room) as i64), scale.scaled((most + room) as i64)),
        rows: shown.iter().map(row).collect(),
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
    Some(Figure { caption, description, plot: Plot::Dots(plot) })
}

/// One median step of each variant on one time axis.
pub(super) fn strips(comparison: &Comparison) -> Option<Figure> {
    let all: Vec<_> =
        shown(comparison).into_iter().filter_map(|v| Some((v, v.strip.as_ref()?))).collect();
    let length = all.iter().map(|(_, strip)| strip.step_ns).max().filter(|&ns| ns > 0)?;
    let lane = |ink, label: &str, spans: &[crate::model::Span]| Lane {
        ink,
        label: label.to_owned(),
        spans: spans.to_vec(),
    };
    let scale = TimeScale::of([length]);
    let groups = all
        .iter()
        .map(|(variant, strip)| {
            let mut lanes = vec![
                lane(Ink::Compute, "compute", &strip.compute),
                lane(Ink::Comm, "communication", &strip.comm),
                lane(Ink::Copies, "copies", &strip.copies),
            ];
            if !strip.unclassified.is_empty() {
                lanes.push(lane(Ink::Unclassified, "unknown", &strip.unclassified));
            }
            let label = format!(
                "{}: {}, rank {}, {}",
                variant.name,
                strip.step,
                strip.rank,
                units::time(strip.step_ns)
            );
            LaneGroup { label, length: strip.step_ns, lanes }
        })
        .collect();
    let caption = format!(
        "One median step of each variant on its slowest rank: when compute, communication and copies ran, in {}{}",
        scale.unit,
        omitted(all.len(), comparison.variants.len())
    );
    let description = "Timelines with one lane each for compute, communication and copies; a lighter shade means that only part of that time is covered.";
    Some(Figure {
        caption,
        description: description.to_owned(),
        plot: Plot::Lanes(Lanes { length, scale, groups }),
    })
}
