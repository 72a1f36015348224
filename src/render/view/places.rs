//! Where in the program a step's time goes: tables, a picture, CSV; and operations over their sizes.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::render::csv::{field, real, record, whole};
use crate::render::document::{Block, Figure};
use crate::render::plot::{
    Axis, Ink, LegendEntry, Line, Paint, Plot, Row, Rows, Size, Thickness, stacked,
};
use crate::render::table::{Align, Cell, Column, Table};
use crate::render::units::{self, TimeScale};
use crate::report::{By, Place, Report, SizeFit};

/// Bars of the picture.
const MOST_BARS: usize = 12;
/// Rows of a table of hosts or of kernels that take longer.
const MOST_ROWS: usize = 12;

/// A part of a place: its ink, its name, its value.
type Part = (Ink, &'static str, fn(&Place) -> i64);

const PARTS: [Part; 5] = [
    (Ink::Compute, "compute", |place| place.compute_ns),
    (Ink::Comm, "exposed communication", |place| place.exposed_comm_ns),
    (Ink::Copies, "exposed copies and memsets", |place| place.exposed_copy_ns),
    (Ink::Unclassified, "work of unknown class", |place| place.unclassified_ns),
    (Ink::Idle, "idle", |place| place.idle_ns),
];

/// The tables and the picture of the section. Without `--by` it is by phase, where there are phases.
pub(super) fn blocks(report: &Report, scale: TimeScale) -> Vec<Option<Block>> {
    let by = report.settings.by.unwrap_or(By::Phase);
    let places = report.places.by(by);
    let asked = report.settings.by.is_some();
    if places.is_empty() {
        let reason = report.places.reason.as_ref().filter(|_| asked);
        return vec![reason.map(|reason| Block::Text(format!("No {}: {reason}.", by.label())))];
    }
    vec![
        Some(Block::Table(table(places, by, scale))),
        figure(places, by, scale).map(Block::Figure),
        idle(report, scale).map(Block::Details),
        excess(report, scale).map(Block::Details),
    ]
}

fn table(places: &[Place], by: By, scale: TimeScale) -> Table {
    let total: i64 = places.iter().map(|place| place.ns).sum();
    let share = |place: &Place| (total > 0).then(|| place.ns as f64 / total as f64);
    let mut columns = vec![
        Column::text(by.label(), places.iter().map(|place| place.name.as_str())),
        Column::time("time", scale, places.iter().map(|place| Some(place.ns))),
        Column::percent("share", "% of step", places.iter().map(share)).rank(1),
    ];
    for (ink, name, of) in PARTS {
        if ink != Ink::Unclassified || places.iter().any(|place| of(place) != 0) {
            let (head, rank) = match ink {
                Ink::Comm => ("comm", 0),
                Ink::Copies => ("copies", 3),
                Ink::Unclassified => ("unclassified", 0),
                _ => (name, 0),
            };
            let times = places.iter().map(|place| Some(of(place)));
            columns.push(Column::time(head, scale, times).rank(rank));
        }
    }
    columns.push(
        Column::time("critical", scale, places.iter().map(|place| place.critical_ns))
            .help("its operations on the critical path, over all ranks")
            .rank(2),
    );
    let count = |place: &Place| Cell::number(format!("{:.1}", place.count), place.count);
    let counts = places.iter().map(count).collect();
    columns.push(Column::new("operations", "a step", Align::Right, counts).rank(4));
    let caption = format!(
        "Where a step's time goes by {}: means over ranks and counted steps; communication and copies are what nothing hides, idle time is before the operations of its row",
        by.label()
    );
    Table::new(caption, columns).without_blank_columns()
}

fn figure(places: &[Place], by: By, scale: TimeScale) -> Option<Figure> {
    let longest = places.iter().map(|place| place.ns).max().filter(|&ns| ns > 0)?;
    let used = PARTS.iter().filter(|(_, _, of)| places.iter().any(|place| of(place) != 0));
    let used: Vec<&Part> = used.collect();
    let row = |place: &Place| {
        let mark = |&&(ink, name, of): &&Part| {
            let ns = of(place);
            let title = format!("{}: {name} {}", place.name, units::time(ns));
            (Paint::Full(ink), scale.scaled(ns.max(0)), scale.number(ns), title)
        };
        let marks = stacked(used.iter().map(mark));
        let line = Line { marks, end: units::time(place.ns), ..Line::default() };
        Row {
            label: crate::text::shorten(&place.name, 40).into_owned(),
            lines: vec![line],
            ..Row::default()
        }
    };
    let shown = &places[..places.len().min(MOST_BARS)];
    let of = match shown.len() < places.len() {
        true => format!("; {} of {}", shown.len(), places.len()),
        false => String::new(),
    };
    Some(Figure {
        caption: format!("A step by {}, in {}{of}", by.label(), scale.unit),
        description: "Stacked bars. The table above has the numbers.".to_owned(),
        plot: Plot::Rows(Rows {
            axis: Axis::linear("", scale.unit, (0.0, scale.scaled(longest))),
            rows: shown.iter().map(row).collect(),
            thickness: Thickness::Bar,
            reference: None,
            legend: used.iter().map(|(ink, name, _)| LegendEntry::colour(*ink, name)).collect(),
            size: Size::Page,
        }),
    })
}

/// What hosts did while their GPUs were idle.
fn idle(report: &Report, scale: TimeScale) -> Option<Table> {
    let list = &report.places.idle[..report.places.idle.len().min(MOST_ROWS)];
    let columns = vec![
        Column::text("host", list.iter().map(|row| row.name.as_str())),
        Column::count("rank", list.iter().map(|row| Some(u64::from(row.rank)))),
        Column::time("time", scale, list.iter().map(|row| Some(row.ns))),
        counts("times", list.iter().map(|row| row.count)),
    ];
    (!list.is_empty()).then(|| {
        Table::new("What hosts did while their GPU was idle: means over counted steps", columns)
    })
}

/// Kernels that take longer on one rank.
fn excess(report: &Report, scale: TimeScale) -> Option<Table> {
    let list = &report.places.excess[..report.places.excess.len().min(MOST_ROWS)];
    let columns = vec![
        Column::text("kernel", list.iter().map(|row| row.name.as_str())),
        Column::count("rank", list.iter().map(|row| Some(u64::from(row.rank)))),
        Column::time("more", scale, list.iter().map(|row| Some(row.excess_ns))),
        Column::time("time", scale, list.iter().map(|row| Some(row.ns))),
        Column::time("others", scale, list.iter().map(|row| Some(row.others_ns))).rank(1),
        counts("calls", list.iter().map(|row| row.count)),
        counts("others' calls", list.iter().map(|row| row.others_count)).rank(1),
    ];
    (!list.is_empty()).then(|| {
        Table::new(
            "Compute kernels that take longer on one rank than on the others on average, per counted step (beside communication kernels take longer, too)",
            columns,
        )
    })
}

fn counts(head: &str, list: impl Iterator<Item = f64>) -> Column {
    let cells = list.map(|count| Cell::number(format!("{count:.1}"), count)).collect();
    Column::new(head, "a step", Align::Right, cells)
}

/// Operations over their sizes; only where a line was found.
pub(super) fn size_fits(report: &Report) -> Option<Table> {
    let list: Vec<&SizeFit> =
        report.size_fits.iter().filter(|fit| fit.latency_ns.is_some()).take(MOST_ROWS).collect();
    let columns = vec![
        Column::text("operation", list.iter().map(|fit| fit.op.label())),
        Column::text("communicator", list.iter().map(|fit| fit.comm_id.as_deref().unwrap_or("")))
            .rank(2),
        Column::count("sizes", list.iter().map(|fit| Some(fit.sizes as u64))),
        Column::new(
            "latency",
            "",
            Align::Right,
            list.iter()
                .map(|fit| match fit.latency_ns {
                    Some(ns) => Cell::number(units::time(ns.round() as i64), ns),
                    None => Cell::missing(),
                })
                .collect(),
        ),
        Column::new(
            "bandwidth",
            "",
            Align::Right,
            list.iter()
                .map(|fit| match fit.gbs {
                    Some(gbs) => Cell::number(units::bandwidth(gbs), gbs),
                    None => Cell::missing(),
                })
                .collect(),
        ),
        Column::new(
            "half speed at",
            "",
            Align::Right,
            list.iter()
                .map(|fit| match fit.half_speed_bytes {
                    Some(bytes) => Cell::number(units::bytes(bytes), bytes as f64),
                    None => Cell::missing(),
                })
                .collect(),
        ),
        Column::count("calls below", list.iter().map(|fit| fit.calls_below)),
        Column::count("of", list.iter().map(|fit| Some(fit.calls))),
    ];
    (!list.is_empty()).then(|| {
        Table::new(
            "Operations over their sizes: time = latency + payload / bandwidth, a line through the medians of the sizes",
            columns,
        )
        .without_blank_columns()
    })
}

/// A table of places as comma-separated values, times in ns.
pub(super) fn csv(places: &[Place], by: By, out: &mut dyn Write) -> io::Result<()> {
    let head = [
        by.label(),
        "ns",
        "compute_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "unclassified_ns",
        "idle_ns",
        "critical_ns",
        "count",
    ];
    record(out, head.into_iter().map(Cow::Borrowed))?;
    for place in places {
        let parts = PARTS.iter().map(|(_, _, of)| whole(Some(of(place))));
        let first = [field(&place.name), whole(Some(place.ns))];
        let last = [whole(place.critical_ns), real(Some(place.count))];
        record(out, first.into_iter().chain(parts).chain(last))?;
    }
    Ok(())
}
