//! The tables of dumps, alone and beside a report.

use std::collections::BTreeMap;

use crate::npkit::channels::Channel;
use crate::npkit::join::Joined;
use crate::npkit::phases::Phases;
use crate::npkit::totals::EventTotal;
use crate::npkit::view::Npkit;
use crate::render::table::{Align, Cell, Column, Table};
use crate::render::units::{self, TimeScale};

/// Primitives that have a column of their own: those with most time.
const PRIMITIVES: usize = 6;

/// One row of a table of collectives.
struct Row<'p> {
    name: String,
    rank: u32,
    length_ns: i64,
    late_ns: Option<i64>,
    phases: &'p Phases,
}

pub(in crate::render) fn collectives(view: &Npkit) -> Option<Table> {
    let rows: Vec<Row<'_>> = view
        .collectives
        .iter()
        .flat_map(|collective| {
            collective.ranks.iter().map(|(rank, of_rank)| Row {
                name: collective.index.to_string(),
                rank: *rank,
                length_ns: of_rank.end_ns - of_rank.start_ns,
                late_ns: of_rank.late_ns,
                phases: &of_rank.phases,
            })
        })
        .collect();
    table("Collectives by rank: from the first event to the last", "collective", &rows)
}

pub(in crate::render) fn kernels(joined: &Joined) -> Option<Table> {
    let rows: Vec<Row<'_>> = joined
        .kernels
        .iter()
        .map(|kernel| Row {
            name: kernel.step.map_or_else(|| units::MISSING.to_owned(), |step| step.to_string()),
            rank: kernel.rank,
            length_ns: kernel.end_ns - kernel.start_ns,
            late_ns: kernel.late_ns,
            phases: &kernel.phases,
        })
        .collect();
    table("Communication kernels with events, by rank and time", "step", &rows)
}

fn table(caption: &str, first: &str, rows: &[Row<'_>]) -> Option<Table> {
    let mut by_time: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, ns) in rows.iter().flat_map(|row| &row.phases.phases) {
        *by_time.entry(name).or_default() += ns;
    }
    let mut primitives: Vec<(&str, i64)> = by_time.into_iter().collect();
    primitives.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let scale = TimeScale::of(rows.iter().map(|row| row.length_ns));
    let number = |n: u32| Cell::number(n.to_string(), f64::from(n));
    let mut columns = vec![
        Column::text(first, rows.iter().map(|row| row.name.as_str())),
        Column::new("rank", "", Align::Right, rows.iter().map(|row| number(row.rank)).collect()),
        Column::time("length", scale, rows.iter().map(|row| Some(row.length_ns))),
        Column::percent("wait", "% of primitives", rows.iter().map(|r| r.phases.wait_fraction)),
        Column::text(
            "mostly in",
            rows.iter().map(|r| r.phases.wait_in.clone().unwrap_or_default()),
        )
        .help("the primitive in which most of the waiting is")
        .rank(3),
        Column::time("late", scale, rows.iter().map(|row| row.late_ns))
            .help("after the first rank")
            .rank(2),
        Column::time("entry spread", scale, rows.iter().map(|row| row.phases.entry_spread_ns))
            .help("over channels")
            .rank(5),
        Column::count("channels", rows.iter().map(|row| Some(row.phases.channels))).rank(4),
    ];
    columns.extend(primitives.iter().take(PRIMITIVES).map(|(name, _)| {
        let times = rows.iter().map(|row| row.phases.phases.get(*name).copied());
        Column::time(name, scale, times).help("of a channel, median over channels").rank(1)
    }));
    (!rows.is_empty()).then(|| Table::new(caption, columns).without_blank_columns())
}

pub(in crate::render) fn channels(channels: &[Channel]) -> Option<Table> {
    let scale = TimeScale::of(channels.iter().map(|c| c.length_ns));
    let relative = |v: &f64| Cell::number(format!("{v:.2}"), *v);
    let number = |n: u32| Cell::number(n.to_string(), f64::from(n));
    let last = channels.iter().map(|c| {
        let text = format!("{} of {}", units::count(c.last_count), units::count(c.compared));
        Cell::number(text, c.last_count as f64)
    });
    let table = Table::new(
        "Length of each channel over the collectives",
        vec![
            Column::new(
                "channel",
                "",
                Align::Right,
                channels.iter().map(|c| number(c.channel)).collect(),
            ),
            Column::new(
                "rank",
                "",
                Align::Right,
                channels.iter().map(|c| number(c.rank)).collect(),
            ),
            Column::time("length", scale, channels.iter().map(|c| Some(c.length_ns)))
                .help("waiting included, median over collectives"),
            Column::numbers("relative", "", channels.iter().map(|c| c.relative), relative)
                .help("without waiting, by the median channel"),
            Column::new("ended last", "", Align::Right, last.collect())
                .help("of the collectives that were compared"),
            Column::text(
                "mostly in",
                channels.iter().map(|c| c.mostly_in.clone().unwrap_or_default()),
            ),
            Column::count("collectives", channels.iter().map(|c| Some(c.collectives))).rank(1),
        ],
    );
    (!channels.is_empty()).then_some(table)
}

pub(in crate::render) fn totals(totals: &[EventTotal]) -> Option<Table> {
    let time = |ns: &i64| Cell::number(units::time(*ns), *ns as f64);
    let times = |of: fn(&EventTotal) -> i64| totals.iter().map(move |t| Some(of(t)));
    let table = Table::new(
        "Events by name, all ranks, those with most time first",
        vec![
            Column::text("event", totals.iter().map(|t| t.name.as_str())),
            Column::count("events", totals.iter().map(|t| Some(t.count))),
            Column::numbers("total", "", times(|t| t.total_ns), time),
            Column::numbers("mean", "", times(|t| t.mean_ns), time),
            Column::numbers("longest", "", times(|t| t.max_ns), time).rank(2),
            Column::bytes("moved", totals.iter().map(|t| t.bytes)).rank(1),
            Column::bandwidth("bandwidth", totals.iter().map(|t| t.gbs)),
            Column::percent("wait", "% of total", totals.iter().map(|t| t.wait_fraction)),
            Column::text(
                "no bandwidth",
                totals.iter().map(|t| t.no_bandwidth.clone().unwrap_or_default()),
            )
            .rank(4),
        ],
    );
    (!totals.is_empty()).then(|| table.without_blank_columns())
}

pub(in crate::render) fn proxies_alone(view: &Npkit) -> Option<Table> {
    let of_collectives = view.collectives.iter().flat_map(|collective| {
        let ranks = collective.ranks.iter();
        ranks.map(|(rank, of_rank)| (collective.index, *rank, &of_rank.phases))
    });
    proxies(of_collectives)
}

pub(in crate::render) fn proxies_joined(joined: &Joined) -> Option<Table> {
    proxies(joined.kernels.iter().map(|kernel| (kernel.collective, kernel.rank, &kernel.phases)))
}

fn proxies<'p>(collectives: impl Iterator<Item = (usize, u32, &'p Phases)>) -> Option<Table> {
    let requests = |(index, rank, phases): (usize, u32, &'p Phases)| {
        phases.proxies.iter().map(move |(name, requests)| (index, rank, name, requests))
    };
    let rows: Vec<_> = collectives.flat_map(requests).collect();
    let scale = TimeScale::of(rows.iter().map(|(.., requests)| requests.max_ns));
    let table = Table::new(
        "Requests of proxy threads by collective and rank",
        vec![
            Column::text("collective", rows.iter().map(|(index, ..)| index.to_string())),
            Column::text("rank", rows.iter().map(|(_, rank, ..)| rank.to_string())),
            Column::text("event", rows.iter().map(|(_, _, name, _)| name.as_str())),
            Column::count("requests", rows.iter().map(|(.., r)| Some(r.count))),
            Column::time("p50", scale, rows.iter().map(|(.., r)| Some(r.p50_ns))),
            Column::time("p95", scale, rows.iter().map(|(.., r)| Some(r.p95_ns))),
            Column::time("max", scale, rows.iter().map(|(.., r)| Some(r.max_ns))),
        ],
    );
    (!rows.is_empty()).then_some(table)
}

pub(in crate::render) fn ranks(joined: &Joined) -> Option<Table> {
    let rows = &joined.ranks;
    let mhz = |khz: &f64| Cell::number(format!("{:.0}", khz / 1e3), *khz);
    let time = |ns: &i64| Cell::number(units::time(*ns), *ns as f64);
    let rank =
        |rank: Option<u32>| rank.map_or_else(|| units::MISSING.to_owned(), |r| r.to_string());
    let table = Table::new(
        "How the dump fits the report",
        vec![
            Column::text("dump's rank", rows.iter().map(|row| row.dump_rank.to_string())),
            Column::text("rank", rows.iter().map(|row| rank(row.rank))),
            Column::count("records", rows.iter().map(|row| Some(row.events))),
            Column::count("in kernels", rows.iter().map(|row| Some(row.inside_kernels))),
            Column::numbers("nominal", "MHz", rows.iter().map(|row| row.nominal_khz), mhz)
                .help("the GPU's clock as its file says"),
            Column::numbers("measured", "MHz", rows.iter().map(|row| row.measured_khz), mhz)
                .help("between clock records, median"),
            Column::numbers("end gap", "", rows.iter().map(|row| row.end_gap_p50_ns), time)
                .help("from the last event of a kernel to its end, median"),
            Column::numbers("longest", "", rows.iter().map(|row| row.end_gap_max_ns), time),
        ],
    );
    (!rows.is_empty()).then_some(table)
}
