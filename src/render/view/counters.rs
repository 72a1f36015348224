//! What counters add to a report: the matrix, what links carried, and what was wrong.

use crate::counters::Details;
use crate::counters::classes::NAMES;
use crate::counters::health::Health;
use crate::counters::links::LinkBytes;
use crate::counters::rows::{Row, Sampling};
use crate::render::document::Block;
use crate::render::table::{Align, Cell, Column, Table};
use crate::render::units::{self, TimeScale};
use crate::report::Report;

/// Rows of the longest table; JSON has everything.
const MOST_ROWS: usize = super::tables::MOST_ROWS;

/// How it was sampled, the matrix, links, errors; nothing if nothing was sampled.
pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let Some(details) = &report.counter_details else { return Vec::new() };
    let tables = [
        matrix(&report.counters),
        links(&details.links),
        sampling(&details.sampling),
        health(&details.health),
    ];
    std::iter::once(Block::Text(sources(&report.counters, details)))
        .chain(tables.into_iter().flatten().map(Block::Table))
        .collect()
}

fn sources(rows: &[Row], details: &Details) -> String {
    let mut sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    let intervals = || details.sampling.iter().filter_map(|one| one.interval_ns);
    let interval = match (intervals().min(), intervals().max()) {
        (Some(least), Some(most)) if least == most => {
            format!(", one sample in {}", units::time(most))
        }
        (Some(least), Some(most)) => {
            format!(", one sample in {} to {}", units::time(least), units::time(most))
        }
        _ => ", without times".to_owned(),
    };
    format!(
        "{}{interval}. Averages over the parts of the counted steps, weighted by time; a dash where a part is shorter than a sample or there is none.",
        if sources.is_empty() { "No levels".to_owned() } else { sources.join(", ") }
    )
}

fn number(n: u32) -> Cell {
    Cell::number(n.to_string(), f64::from(n))
}

fn level(value: Option<f64>) -> Cell {
    value.map_or_else(Cell::missing, |value| Cell::number(units::bandwidth_number(value), value))
}

fn matrix(rows: &[Row]) -> Option<Table> {
    let shown = &rows[..rows.len().min(MOST_ROWS)];
    let mut columns = vec![
        Column::new("rank", "", Align::Right, shown.iter().map(|row| number(row.rank)).collect()),
        Column::text("counter", shown.iter().map(|row| row.metric.replace('_', " "))),
        Column::text("unit", shown.iter().map(|row| row.unit.as_str())),
    ];
    columns.extend(NAMES.iter().enumerate().map(|(i, name)| {
        let cell = |row: &Row| {
            let cell = level(row.parts.list().get(i).copied().flatten());
            match row.reasons.get(*name) {
                Some(reason) => cell.with_title(reason.clone()),
                None => cell,
            }
        };
        Column::new(name, "", Align::Right, shown.iter().map(cell).collect())
    }));
    columns.extend([
        Column::new("mean", "", Align::Right, shown.iter().map(|row| level(row.mean)).collect())
            .help("over the counted steps; over the file where samples have no times"),
        Column::new("peak", "", Align::Right, shown.iter().map(|row| level(row.peak)).collect())
            .help("of all links of the GPU's model in one direction; of a clock the highest")
            .rank(2),
        Column::text("counter's own name", shown.iter().map(|row| row.name.as_str())).rank(4),
    ]);
    let table = Table::new("Counters in each part of the steps", columns).without_blank_columns();
    let left = rows.len() - shown.len();
    (!rows.is_empty()).then(|| match left {
        0 => table,
        n => table.with_note(format!("{} more in JSON.", units::plural(n, "row"))),
    })
}

fn links(links: &[LinkBytes]) -> Option<Table> {
    let shown: Vec<&LinkBytes> = links.iter().take(MOST_ROWS).collect();
    let bytes = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let table = Table::new(
        "What links carried a step, against what was to be moved",
        vec![
            Column::new("rank", "", Align::Right, shown.iter().map(|l| number(l.rank)).collect()),
            Column::text("link", shown.iter().map(|l| format!("{} {}", l.link, l.direction))),
            Column::bytes("counted", shown.iter().map(|l| bytes(l.counted_bytes)))
                .help("in samples that share time with the operations"),
            Column::bytes("±", shown.iter().map(|l| bytes(l.rounding_bytes)))
                .help("half a unit of the counter")
                .rank(2),
            Column::bytes("payload", shown.iter().map(|l| bytes(l.payload_bytes)))
                .help("NVLink: of communication; PCIe: of copies from and to the host"),
            Column::new("ratio", "", Align::Right, shown.iter().map(|l| level(l.ratio)).collect()),
            Column::bytes("whole step", shown.iter().map(|l| bytes(l.step_bytes)))
                .help("whatever moved them")
                .rank(1),
            Column::text("why not", shown.iter().map(|l| l.reason.clone().unwrap_or_default()))
                .rank(3),
        ],
    );
    (!shown.is_empty()).then(|| table.without_blank_columns())
}

fn sampling(list: &[Sampling]) -> Option<Table> {
    let shown: Vec<&Sampling> = list.iter().take(MOST_ROWS).collect();
    let scale = TimeScale::of(shown.iter().flat_map(|one| one.part_ns.list()));
    let mut columns = vec![
        Column::new("rank", "", Align::Right, shown.iter().map(|s| number(s.rank)).collect()),
        Column::text("file", shown.iter().map(|s| s.file.as_str())),
        Column::count("samples", shown.iter().map(|s| Some(s.samples as u64))),
    ];
    for (i, name) in NAMES.iter().enumerate() {
        columns.push(
            Column::time(name, scale, shown.iter().map(|s| s.part_ns.list().get(i).copied()))
                .help("mean length a step"),
        );
        columns.push(
            Column::percent(
                "alone",
                "%",
                shown.iter().map(|s| s.own_fraction.list().get(i).copied().flatten()),
            )
            .help(format!("share of {name} in samples that hold nothing else"))
            .rank(2),
        );
    }
    (!shown.is_empty()).then(|| {
        Table::new(
            "How it was sampled: parts of a step and their share in samples of their own",
            columns,
        )
        .without_blank_columns()
    })
}

fn health(list: &[Health]) -> Option<Table> {
    let shown: Vec<&Health> = list.iter().take(MOST_ROWS).collect();
    let throttled = |one: &&Health| {
        let words: Vec<String> = one
            .throttled
            .iter()
            .map(|(word, share)| format!("{word} {}", units::percent(*share)))
            .collect();
        words.join(", ")
    };
    let table = Table::new(
        "Errors, and what held the clock down",
        vec![
            Column::new("rank", "", Align::Right, shown.iter().map(|h| number(h.rank)).collect()),
            Column::count("NVLink errors", shown.iter().map(|h| h.nvlink_errors)),
            Column::count("new", shown.iter().map(|h| h.nvlink_errors_new))
                .help("while it was sampled"),
            Column::count("PCIe replays", shown.iter().map(|h| h.pcie_replays)),
            Column::count("new", shown.iter().map(|h| h.pcie_replays_new))
                .help("while it was sampled"),
            Column::count("XID", shown.iter().map(|h| h.xid)),
            Column::text("held down by", shown.iter().map(throttled)).help("share of samples"),
            Column::text("file", shown.iter().map(|h| h.file.as_str())).rank(2),
        ],
    );
    (!shown.is_empty()).then(|| table.without_blank_columns())
}
