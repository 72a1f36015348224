//! The pictures of an inspection: speed over the run, and how the operations with most time spread.

use std::collections::BTreeMap;

use super::tables::run_scale;
use super::{comm_name, op_name};
use crate::inspect::{Box5, Communicator, Inspection, Op, Operation};
use crate::model::record::busbw_gbs;
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
    let mut groups: Vec<(&Communicator, &Op)> =
        view.communicators.iter().flat_map(|c| c.ops.iter().map(move |op| (c, op))).collect();
    groups.retain(|(_, op)| op.busbw_gbs.is_some_and(|b| b.p95 > 0.0));
    groups.sort_by(|a, b| b.1.total_time_us.total_cmp(&a.1.total_time_us));
    groups.truncate(PICTURED);
    let clouds = points(view, &groups);
    groups
        .iter()
        .zip(clouds)
        .flat_map(|(&(comm, op), cloud)| {
            [scatter(comm, op, cloud), Some(histogram(comm, op)), boxes(comm, op)]
        })
        .flatten()
        .collect()
}

/// For each group the bandwidth of its operations by sequence number: without waiting where all ranks logged them, and of each rank where
/// some are missing.
fn points(view: &Inspection, groups: &[(&Communicator, &Op)]) -> Vec<Vec<(f64, f64)>> {
    let mut place: BTreeMap<(&str, &str, Option<u64>), usize> = BTreeMap::new();
    for (i, (comm, op)) in groups.iter().enumerate().filter(|(_, (_, op))| op.bytes_range.is_none())
    {
        place.insert((&comm.comm_id, &op.op, op.bytes), i);
    }
    let mut clouds = vec![Vec::new(); groups.len()];
    for operation in view.seen.iter() {
        let Some(op) = operation.key.op else { continue };
        let group = place.get(&(operation.key.comm_id.as_str(), op.label(), operation.bytes));
        if let (Some(cloud), Some(bytes)) =
            (group.and_then(|&i| clouds.get_mut(i)), operation.bytes)
        {
            let at =
                |us: f64| (operation.sn as f64, busbw_gbs(op, bytes, operation.key.n_ranks, us));
            cloud.extend(times(&operation).map(at));
        }
    }
    for cloud in &mut clouds {
        let step = cloud.len().div_ceil(POINTS).max(1);
        *cloud = cloud.iter().copied().step_by(step).collect();
    }
    clouds
}

fn times(operation: &Operation<'_>) -> impl Iterator<Item = f64> {
    let complete = operation.is_complete().then(|| operation.shortest_us()).flatten();
    let own: Vec<f64> = match complete {
        Some(shortest) => vec![shortest],
        None => operation.records.iter().map(|r| r.exec_us).filter(|t| t.is_finite()).collect(),
    };
    own.into_iter()
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
