//! The pictures of an inspection: speed over the run, and how the operations with most time spread.

use super::tables::run_scale;
use super::{comm_name, op_name};
use crate::inspect::{Box5, Communicator, Inspection, Op, Series};
use crate::render::document::Figure;
use crate::render::plot::{BoxRow, Boxes, Cloud, Histogram, Plot, SERIES, Scatter};
use crate::render::units;

/// Operations and sizes that get pictures.
const PICTURED: usize = 6;
/// Points of one picture; of more, evenly spread ones are drawn.
const POINTS: usize = 1500;
/// Ranks of one picture of boxes.
const BOXES: usize = 32;

pub(super) fn timeline(view: &Inspection) -> Option<Figure> {
    let scale = run_scale(view);
    let first = view.timeline.bins.first()?.start_us;
    let cloud = |name: &str, timeline: &crate::inspect::Timeline| Cloud {
        name: name.to_owned(),
        points: timeline
            .bins
            .iter()
            .map(|bin| {
                (scale.scaled((bin.start_us - first).saturating_mul(1000)), bin.relative_speed)
            })
            .collect(),
    };
    let mut clouds = vec![cloud("all communicators", &view.timeline)];
    if view.communicators.len() > 1 {
        let comms = view
            .communicators
            .iter()
            .filter(|c| !c.timeline.bins.is_empty())
            .take(usize::from(SERIES) - 1);
        clouds.extend(comms.map(|c| cloud(&comm_name(c), &c.timeline)));
    }
    let bin = units::time(view.timeline.bin_us.saturating_mul(1000));
    Some(Figure {
        caption: format!(
            "Speed over the run in bins of {bin}: 1 is what is usual for each operation and size, below 1 is slower"
        ),
        description: format!(
            "Relative speed of {} in {} bins",
            units::plural(clouds.len(), "group"),
            view.timeline.bins.len()
        ),
        plot: Plot::Scatter(Scatter {
            x: format!("time ({})", scale.unit),
            y: "speed, 1 is usual".to_owned(),
            clouds,
            joined: true,
        }),
    })
}

/// Scatter, histogram and box plots of the operations and sizes with most time.
pub(super) fn operations(view: &Inspection) -> Vec<Figure> {
    view.series(PICTURED, POINTS)
        .into_iter()
        .flat_map(|Series { comm, op, points }| {
            [scatter(comm, op, points), Some(histogram(comm, op)), boxes(comm, op)]
        })
        .flatten()
        .collect()
}

fn what(comm: &Communicator, op: &Op) -> String {
    format!("{} on {}", op_name(op), comm_name(comm))
}

fn scatter(comm: &Communicator, op: &Op, points: Vec<(f64, f64)>) -> Option<Figure> {
    let drawn = points.len();
    let basis = if op.compared > 0 { "without waiting" } else { "of each rank, waiting included" };
    (drawn > 1).then(|| Figure {
        caption: format!(
            "{}: bus bandwidth {basis}, by sequence number ({})",
            what(comm, op),
            units::plural(drawn, "point")
        ),
        description: format!("{drawn} points of bus bandwidth by sequence number"),
        plot: Plot::Scatter(Scatter {
            x: "sequence number".to_owned(),
            y: "busbw (GB/s)".to_owned(),
            clouds: vec![Cloud { name: op_name(op), points }],
            joined: false,
        }),
    })
}

fn histogram(comm: &Communicator, op: &Op) -> Figure {
    let median = op.busbw_gbs.map(|b| b.median);
    Figure {
        caption: format!(
            "{}: how often each bus bandwidth occurs, {} records",
            what(comm, op),
            units::count(op.count)
        ),
        description: format!(
            "Histogram of bus bandwidth; the median is {}",
            median.map_or_else(|| "unknown".to_owned(), units::bandwidth)
        ),
        plot: Plot::Histogram(Histogram {
            x: "busbw (GB/s)".to_owned(),
            values: op.busbw_counts.clone(),
            mark: median.map(|m| (m, format!("median {}", units::bandwidth(m)))),
        }),
    }
}

fn boxes(comm: &Communicator, op: &Op) -> Option<Figure> {
    let row = |rank: &crate::inspect::OpRank| {
        let Box5 { p5, p25, median, p75, p95 } = rank.busbw_gbs?;
        let note = format!("{} rec.", units::count(rank.count));
        Some(BoxRow {
            label: format!("rank {}", rank.rank),
            note,
            percentiles: [p5, p25, median, p75, p95],
        })
    };
    let rows: Vec<BoxRow> = op.ranks.iter().filter_map(row).take(BOXES).collect();
    let left_out = op.ranks.len().saturating_sub(rows.len());
    let more =
        if left_out > 0 { format!("; {left_out} more ranks are in JSON") } else { String::new() };
    (rows.len() > 1).then(|| Figure {
        caption: format!("{}: bus bandwidth by rank, waiting included{more}", what(comm, op)),
        description: format!("Box plots of bus bandwidth of {}", units::plural(rows.len(), "rank")),
        plot: Plot::Boxes(Boxes { unit: "GB/s", rows }),
    })
}
