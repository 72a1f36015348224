//! The pictures of an inspection: speed over the run, and how the operations with most time spread.

use std::collections::BTreeMap;

use super::tables::run_scale;
use super::{comm_name, microseconds, op_name};
use crate::inspect::{self, Box5, Communicator, Inspected, Inspection, Op};
use crate::render::document::Figure;
use crate::render::plot::{
    Axis, Ink, LegendEntry, Line, Mark, Paint, Plane, Plot, Row, Rows, SERIES, Scale, Series,
    Shape, Size, Thickness,
};
use crate::render::units;
use crate::text;

/// Operations and sizes that get pictures.
const PICTURED: usize = 6;
/// Operations and sizes beside the headline.
const MOST_ASIDE: usize = 8;
/// Points of one picture; of more, evenly spread ones are drawn.
const POINTS: usize = 1500;
/// Ranks of one picture of boxes.
const BOXES: usize = 32;

pub(super) fn timeline(view: &Inspection) -> Option<Figure> {
    let scale = run_scale(view);
    let first = view.timeline.bins.first()?.start_us;
    let curve = |name: &str, timeline: &inspect::Timeline| Series {
        name: name.to_owned(),
        shape: Shape::Curve,
        points: timeline
            .bins
            .iter()
            .map(|bin| {
                (scale.scaled((bin.start_us - first).saturating_mul(1000)), bin.relative_speed)
            })
            .collect(),
    };
    let mut series = vec![curve("all communicators", &view.timeline)];
    if view.communicators.len() > 1 {
        let comms = view
            .communicators
            .iter()
            .filter(|c| !c.timeline.bins.is_empty())
            .take(usize::from(SERIES) - 1);
        series.extend(comms.map(|c| curve(&comm_name(c), &c.timeline)));
    }
    let bin = units::time(view.timeline.bin_us.saturating_mul(1000));
    Some(Figure {
        caption: format!(
            "Speed over the run in bins of {bin}: 1 is what is usual for each operation and size, below 1 is slower"
        ),
        description: format!(
            "Relative speed of {} in {} bins",
            units::plural(series.len(), "group"),
            view.timeline.bins.len()
        ),
        plot: plane(("time", scale.unit), ("speed, 1 is usual", ""), series),
    })
}

/// Points on two linear axes, of which the vertical one starts at 0 and has a tenth of room above the highest point.
fn plane(x: (&str, &str), y: (&str, &str), series: Vec<Series>) -> Plot {
    let points =
        || series.iter().flat_map(|s| &s.points).filter(|p| p.0.is_finite() && p.1.is_finite());
    let (first, last) =
        points().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), p| (a.min(p.0), b.max(p.0)));
    let across = if first <= last { (first, last.max(first + 1.0)) } else { (0.0, 1.0) };
    let top = points().map(|p| p.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.1;
    Plot::Plane(Plane {
        x: Axis::linear(x.0, x.1, across),
        y: Axis::linear(y.0, y.1, (0.0, top)),
        series,
        mark: None,
    })
}

/// Time in operations by communicator, operation and size: the picture beside the headline.
pub(super) fn first_look(view: &Inspection) -> Option<Figure> {
    let all = view.costliest();
    let shown = &all[..all.len().min(MOST_ASIDE)];
    let time = view.total_time_us();
    let row = |&(comm, op): &(&Communicator, &Op)| {
        let share = op.total_time_us / time;
        let paint = Paint::Full(Ink::Comm);
        let title = format!(
            "{}: {} of {} records",
            what(comm, op),
            microseconds(op.total_time_us),
            units::count(op.count)
        );
        Row {
            label: op_name(op),
            note: comm.name.clone().unwrap_or_else(|| comm.comm_id.clone()),
            lines: vec![Line {
                marks: vec![Mark::bar((0.0, 100.0 * share), paint, String::new(), title)],
                end: units::percent(share),
                ..Line::default()
            }],
        }
    };
    let most = shown.first().map_or(0.0, |(_, op)| op.total_time_us / time);
    (time > 0.0 && most > 0.0).then(|| Figure {
        caption: format!(
            "Time in operations, % of {} over all ranks{}",
            microseconds(time),
            if shown.len() < all.len() {
                format!(
                    "; {} of {} operations and sizes",
                    shown.len(),
                    units::count(all.len() as u64)
                )
            } else {
                String::new()
            }
        ),
        description: "Bars by operation, size and communicator. The table has the numbers."
            .to_owned(),
        plot: Plot::Rows(Rows {
            axis: Axis::linear("", "%", (0.0, 100.0 * most)),
            rows: shown.iter().map(row).collect(),
            thickness: Thickness::Tall,
            reference: None,
            legend: Vec::new(),
            size: Size::Aside,
        }),
    })
}

/// Scatter, histogram and box plots of the operations and sizes with most time, by what they are of.
pub(super) fn operations(inspected: &Inspected) -> Vec<(String, Vec<Figure>)> {
    inspected
        .series(PICTURED, POINTS)
        .into_iter()
        .map(|inspect::Series { comm, op, counts, points }| {
            let figures = [scatter(op, points), Some(histogram(op, counts)), boxes(op)];
            (what(comm, op), figures.into_iter().flatten().collect())
        })
        .collect()
}

fn what(comm: &Communicator, op: &Op) -> String {
    format!("{} on {}", op_name(op), comm_name(comm))
}

/// Bus bandwidth by message size, a curve an operation and communicator; `None` where all have one size.
pub(super) fn by_size(view: &Inspection) -> Option<Figure> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (comm, op) in view.costliest() {
        let gbs = op.transfer_busbw_gbs.or(op.busbw_gbs).map(|b| b.median).filter(|&gbs| gbs > 0.0);
        if let (Some(bytes), Some(gbs)) = (op.bytes.filter(|&bytes| bytes > 0), gbs) {
            let name = comm.name.clone().unwrap_or_else(|| text::shorten(&comm.comm_id, 11).into());
            curves.entry(format!("{} on {name}", op.op)).or_default().push((bytes as f64, gbs));
        }
    }
    curves.retain(|_, points| points.len() > 1);
    let all = curves.len();
    let mut drawn: Vec<Series> = curves
        .into_iter()
        .map(|(name, mut points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            Series { name, shape: Shape::Curve, points }
        })
        .collect();
    drawn.sort_by_key(|curve| std::cmp::Reverse(curve.points.len()));
    drawn.truncate(usize::from(SERIES));
    let points = || drawn.iter().flat_map(|series| &series.points);
    let plot = Plane {
        x: Axis::log("message size", "", Scale::LogBytes, points().map(|p| p.0)),
        y: Axis::log("busbw", "GB/s", Scale::Log, points().map(|p| p.1)),
        series: drawn.clone(),
        mark: None,
    };
    let more = if drawn.len() < all {
        format!("; {} of {all} curves", drawn.len())
    } else {
        String::new()
    };
    (!drawn.is_empty()).then(|| Figure {
        caption: format!(
            "Median bus bandwidth (GB/s) by message size, without waiting where all ranks were logged, both axes logarithmic{more}"
        ),
        description: "Curves of bus bandwidth by message size. The table has the numbers.".to_owned(),
        plot: Plot::Plane(plot),
    })
}

fn scatter(op: &Op, points: Vec<(f64, f64)>) -> Option<Figure> {
    let drawn = points.len();
    let basis = if op.compared > 0 { "without waiting" } else { "of each rank, waiting included" };
    (drawn > 1).then(|| Figure {
        caption: format!(
            "Bus bandwidth {basis}, by sequence number ({})",
            units::plural(drawn, "point")
        ),
        description: format!("{drawn} points of bus bandwidth by sequence number"),
        plot: plane(
            ("sequence number", ""),
            ("busbw", "GB/s"),
            vec![Series { name: op_name(op), shape: Shape::Cloud, points }],
        ),
    })
}

fn histogram(op: &Op, counts: &[(f64, u64)]) -> Figure {
    let median = op.busbw_gbs.map(|b| b.median);
    Figure {
        caption: format!("How often each bus bandwidth occurs, {} records", units::count(op.count)),
        description: format!(
            "Histogram of bus bandwidth; the median is {}",
            median.map_or_else(|| "unknown".to_owned(), units::bandwidth)
        ),
        plot: Plot::Plane(Plane::histogram(
            "busbw",
            "GB/s",
            counts,
            median.map(|m| (m, format!("median {}", units::bandwidth(m)))),
        )),
    }
}

fn boxes(op: &Op) -> Option<Figure> {
    let row = |rank: &inspect::OpRank| {
        let Box5 { p5, p25, median, p75, p95 } = rank.busbw_gbs?;
        let gbs = units::bandwidth_number;
        let title = format!(
            "rank {}: median {}; 25th to 75th percentile {} to {}; 5th to 95th {} to {} GB/s",
            rank.rank,
            gbs(median),
            gbs(p25),
            gbs(p75),
            gbs(p5),
            gbs(p95)
        );
        let ink = Ink::Series(0);
        let line = Line {
            label: format!("{} rec.", units::count(rank.count)),
            marks: vec![
                Mark::Interval { span: (p5, p95), ink, title: title.clone() },
                Mark::bar((p25, p75), Paint::Light(ink), String::new(), title.clone()),
                Mark::Stroke { at: median, title },
            ],
            ..Line::default()
        };
        Some((
            p95,
            Row { label: format!("rank {}", rank.rank), lines: vec![line], ..Row::default() },
        ))
    };
    let (ends, rows): (Vec<f64>, Vec<Row>) = op.ranks.iter().filter_map(row).take(BOXES).unzip();
    let end = ends.into_iter().filter(|end| end.is_finite()).fold(0.0, f64::max);
    let left_out = op.ranks.len().saturating_sub(rows.len());
    let more =
        if left_out > 0 { format!("; {left_out} more ranks are in JSON") } else { String::new() };
    (rows.len() > 1).then(|| Figure {
        caption: format!("Bus bandwidth by rank, waiting included{more}"),
        description: format!("Box plots of bus bandwidth of {}", units::plural(rows.len(), "rank")),
        plot: Plot::Rows(Rows {
            axis: Axis::linear("busbw", "GB/s", (0.0, end)),
            rows,
            thickness: Thickness::Thin,
            reference: None,
            legend: vec![
                LegendEntry::shape(Ink::Text, '|', "median"),
                LegendEntry::shape(Ink::Series(0), '■', "25th to 75th percentile"),
                LegendEntry::shape(Ink::Series(0), '—', "5th to 95th percentile"),
            ],
            size: Size::Page,
        }),
    })
}
