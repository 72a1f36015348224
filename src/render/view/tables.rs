//! The tables of a report.

use std::collections::BTreeMap;

use crate::collectives::events::BytesSource;
use crate::model::Metric;
use crate::model::metric::{Num, Unit, Values};
use crate::render::table::{Align, Cell, Column, Table, Trim, pick};
use crate::render::units::{self, TimeScale};
use crate::report::{CollectiveGroup, Kernel, RankReport, Report};

/// Rows of the longest table; CSV and JSON have everything.
pub(super) const MOST_ROWS: usize = 1000;

/// What the tables of steps and ranks show, with the order in which columns go where space is short (0 stays).
const COLUMNS: [(Metric, u8); 12] = [
    (Metric::StepNs, 0),
    (Metric::CommNs, 0),
    (Metric::CommFraction, 5),
    (Metric::ExposedCommNs, 0),
    (Metric::OverlapFraction, 4),
    (Metric::ComputeNs, 1),
    (Metric::DtodNs, 6),
    (Metric::ExposedCopyNs, 7),
    (Metric::UnclassifiedNs, 3),
    (Metric::IdleNs, 2),
    (Metric::CommCount, 9),
    (Metric::DtodCount, 10),
];

/// One column of a metric.
fn metric_column(
    metric: Metric,
    scale: TimeScale,
    values: impl Iterator<Item = Option<Num>>,
) -> Column {
    let info = metric.info();
    // The unit stands below the heading, and a narrow heading leaves room for a column more.
    let head =
        if metric == Metric::ExposedCommNs { "exposed" } else { info.label.trim_end_matches(" %") };
    let whole = |v: Num| v.as_int().and_then(|n| u64::try_from(n).ok());
    let column = match info.unit {
        Unit::Ns => Column::time(head, scale, values.map(|v| v.and_then(Num::as_int))),
        Unit::Bytes => Column::bytes(head, values.map(|v| v.and_then(whole))),
        Unit::Count => Column::count(head, values.map(|v| v.and_then(whole))),
        Unit::Ratio(of) => {
            let unit = match of {
                Metric::StepNs => "% of step",
                Metric::CommNs => "% of comm",
                _ => "%",
            };
            Column::percent(head, unit, values.map(|v| v.map(Num::as_f64)))
        }
    };
    column.help(info.definition)
}

/// The numbers of one row, by metric.
type Row<'a> = Box<dyn Fn(Metric) -> Option<Num> + 'a>;

/// The columns of [`COLUMNS`] for these rows; graphs and copies on the device only where there are some.
fn metric_columns(scale: TimeScale, rows: &[Row]) -> Vec<Column> {
    let some = |metric| rows.iter().any(|row| row(metric).is_some_and(|v| v.as_f64() != 0.0));
    let needless: Vec<Metric> = [Metric::UnclassifiedNs, Metric::DtodNs, Metric::DtodCount]
        .into_iter()
        .filter(|&m| !some(m))
        .collect();
    COLUMNS
        .iter()
        .filter(|(metric, _)| !needless.contains(metric))
        .map(|&(metric, rank)| {
            metric_column(metric, scale, rows.iter().map(|row| row(metric))).rank(rank)
        })
        .collect()
}

fn of_values(values: &Values) -> Row<'_> {
    Box::new(|metric| values[metric])
}

/// `4 of 5`, sorted by the first.
fn share_of(part: Option<u64>, whole: Option<u64>) -> Cell {
    match (part, whole) {
        (_, Some(0)) => Cell::missing(),
        (Some(part), Some(whole)) => {
            Cell::number(format!("{} of {}", units::count(part), units::count(whole)), part as f64)
        }
        (Some(part), None) => Cell::number(units::count(part), part as f64),
        _ => Cell::missing(),
    }
}

/// A column of finished numbers.
fn cells(head: &str, cells: impl Iterator<Item = Cell>) -> Column {
    Column::new(head, "", Align::Right, cells.collect())
}

/// One row a rank: medians over its steps.
pub(super) fn ranks(report: &Report, scale: TimeScale) -> Table {
    let ranks = &report.ranks;
    let mut columns = vec![Column::count("rank", ranks.iter().map(|r| Some(u64::from(r.rank))))];
    let medians: Vec<Row> = ranks
        .iter()
        .map(|r| -> Row { Box::new(|metric| r.summary[metric].map(|spread| spread.median)) })
        .collect();
    columns.extend(metric_columns(scale, &medians));
    columns.push(wait_column(ranks, scale).rank(1));
    columns.push(last_column(ranks).rank(5));
    let mut table =
        Table::new("Medians over the steps of each rank", columns).without_blank_columns();
    table.trim = Trim::Spread(extremes(ranks));
    table.note = bounds(report).map(str::to_owned);
    table
}

/// Said where work of unknown class runs: communication is known only outside them.
fn bounds(report: &Report) -> Option<&'static str> {
    let graphs = report.summary.values.median(Metric::UnclassifiedNs).is_some_and(|ns| ns > 0.0);
    graphs.then_some("Communication and compute are lower bounds where work of unknown class runs, and their shares are unknown.")
}

fn wait_column(ranks: &[RankReport], scale: TimeScale) -> Column {
    Column::time("waits", scale, ranks.iter().map(|r| r.wait_ns_per_step))
        .help("time per step in matched collectives that the rank waits for others")
}

fn last_column(ranks: &[RankReport]) -> Column {
    cells("last", ranks.iter().map(|r| share_of(r.last_count, r.ordered_count)))
        .help("collectives at which the rank arrived last")
}

/// The ranks that wait least and most.
fn extremes(ranks: &[RankReport]) -> Vec<usize> {
    let by = |rank: &&usize| ranks[**rank].wait_ns_per_step;
    let with_wait: Vec<usize> =
        (0..ranks.len()).filter(|&rank| ranks[rank].wait_ns_per_step.is_some()).collect();
    with_wait
        .iter()
        .min_by_key(by)
        .into_iter()
        .chain(with_wait.iter().max_by_key(by))
        .copied()
        .collect()
}

/// One row a step of the run.
pub(super) fn steps(report: &Report, scale: TimeScale) -> Table {
    let outliers: Vec<usize> =
        (0..report.steps.len()).filter(|&i| report.steps[i].outlier).collect();
    let rows = pick(report.steps.len(), MOST_ROWS, &outliers);
    let steps: Vec<_> = rows.iter().filter_map(|&row| report.steps.get(row)).collect();
    let mut columns = vec![Column::text("step", steps.iter().map(|s| s.name.as_str()))];
    columns.extend(metric_columns(
        scale,
        &steps.iter().map(|s| of_values(&s.values)).collect::<Vec<_>>(),
    ));
    if report.ranks.len() > 1 {
        let slowest =
            Column::count("slowest rank", steps.iter().map(|s| s.slowest_rank.map(u64::from)));
        columns.push(slowest.help("the rank whose window is longest").rank(6));
    }
    columns.push(
        Column::text(
            "note",
            steps
                .iter()
                .map(|s| remark(s.outlier, s.counted, s.values[Metric::StepNs].is_some(), None)),
        )
        .rank(2),
    );
    let caption = if report.ranks.len() > 1 {
        "Steps of the run: time of the slowest rank, all else the mean over ranks"
    } else {
        "Steps of the run"
    };
    let mut table = Table::new(caption, columns).without_blank_columns();
    table.faint = (0..steps.len()).filter(|&i| !steps[i].counted).collect();
    table.trim =
        Trim::Spread((0..steps.len()).filter(|&i| steps[i].outlier || !steps[i].counted).collect());
    if steps.len() < report.steps.len() {
        table.note = Some(format!(
            "{} of {} steps; CSV and JSON have all.",
            units::count(steps.len() as u64),
            units::count(report.steps.len() as u64)
        ));
    }
    table
}

fn remark(outlier: bool, counted: bool, measured: bool, reason: Option<&str>) -> String {
    match (measured, outlier, counted) {
        (false, ..) => reason.unwrap_or("not measured").to_owned(),
        (_, true, true) => "outlier".to_owned(),
        (_, true, false) => "outlier, left out".to_owned(),
        (_, false, false) => "left out".to_owned(),
        (_, false, true) => String::new(),
    }
}

/// One row a rank and step.
pub(super) fn rank_steps(report: &Report, scale: TimeScale) -> Table {
    let all: Vec<_> = report
        .ranks
        .iter()
        .flat_map(|rank| rank.steps.iter().map(move |step| (rank.rank, step)))
        .collect();
    let outliers: Vec<usize> =
        (0..all.len()).filter(|&i| all[i].1.outlier || all[i].1.reason.is_some()).collect();
    let rows: Vec<_> =
        pick(all.len(), MOST_ROWS, &outliers).into_iter().filter_map(|row| all.get(row)).collect();
    let mut columns = vec![
        Column::count("rank", rows.iter().map(|(rank, _)| Some(u64::from(*rank)))),
        Column::text("step", rows.iter().map(|(_, step)| step.name.as_str())),
    ];
    columns.extend(metric_columns(
        scale,
        &rows.iter().map(|(_, step)| of_values(&step.values)).collect::<Vec<_>>(),
    ));
    let note = |s: &crate::report::RankStep| {
        remark(s.outlier, s.counted, s.values[Metric::StepNs].is_some(), s.reason.as_deref())
    };
    columns.push(Column::text("note", rows.iter().map(|(_, step)| note(step))).rank(2));
    let mut table = Table::new("Every step of every rank", columns).without_blank_columns();
    table.faint = (0..rows.len()).filter(|&i| !rows[i].1.counted).collect();
    if rows.len() < all.len() {
        table.note = Some(format!(
            "{} of {} rows; CSV and JSON have all.",
            units::count(rows.len() as u64),
            units::count(all.len() as u64)
        ));
    }
    table
}

/// One row a rank: how long it waits, and how often others wait for it. Nothing if no collective was matched.
pub(super) fn waits(report: &Report, scale: TimeScale) -> Option<Table> {
    let ranks = &report.ranks;
    if ranks.iter().all(|r| r.wait_ns_per_step.is_none() && r.last_count.is_none()) {
        return None;
    }
    let longest: Vec<_> = ranks
        .iter()
        .map(|rank| {
            report
                .waits
                .iter()
                .filter(|w| w.rank == rank.rank)
                .max_by_key(|w| (w.wait_ns, std::cmp::Reverse(w.step)))
        })
        .collect();
    let step_name = |step: usize| report.steps.get(step).map_or("", |s| s.name.as_str());
    let columns = vec![
        Column::count("rank", ranks.iter().map(|r| Some(u64::from(r.rank)))),
        Column::time("waits", scale, ranks.iter().map(|r| r.wait_ns_per_step))
            .help("per step, median over steps"),
        Column::time("longest wait", scale, longest.iter().map(|w| w.map(|w| w.wait_ns)))
            .help("in one step")
            .rank(2),
        Column::text("in step", longest.iter().map(|w| w.map_or("", |w| step_name(w.step))))
            .rank(3),
        last_column(ranks),
        cells("first", ranks.iter().map(|r| share_of(r.first_count, r.ordered_count)))
            .help("collectives at which the rank arrived first")
            .rank(1),
    ];
    let mut table = Table::new("Waiting for other ranks in matched collectives, per step; a rank that arrives last is waited for", columns)
        .without_blank_columns();
    table.trim = Trim::Spread(extremes(ranks));
    Some(table)
}

/// One row a group of matched collectives.
pub(super) fn collectives(report: &Report) -> Option<Table> {
    let groups: Vec<&CollectiveGroup> = report.collectives.iter().take(MOST_ROWS).collect();
    if groups.is_empty() {
        return None;
    }
    let texts = |head: &str, text: &dyn Fn(&CollectiveGroup) -> String| {
        Column::text(head, groups.iter().map(|g| text(g)))
    };
    let duration =
        |ns: &i64| Cell::number(units::time(*ns), *ns as f64).with_title(format!("{ns} ns"));
    let ends = |g: &CollectiveGroup| match g.from_rank {
        Some(from) => {
            let others: Vec<u32> = g.ranks.iter().copied().filter(|rank| *rank != from).collect();
            format!("{from} → {}", units::rank_list(&others))
        }
        None => units::rank_list(&g.ranks),
    };
    let columns = vec![
        texts("operation", &|g| g.op.to_string()),
        texts("communicator", &|g| g.comm_id.clone().unwrap_or_default()).rank(5),
        texts("ranks", &ends).rank(4),
        Column::bytes("size", groups.iter().map(|g| g.bytes))
            .help("payload bytes as logged: of one rank for AllGather and ReduceScatter, of one peer for AllToAll"),
        Column::count("calls", groups.iter().map(|g| Some(g.count))).rank(2),
        Column::count("untimed", groups.iter().map(|g| (g.untimed > 0).then_some(g.untimed)))
            .help("calls whose transfer cannot be told; the reasons stand below")
            .rank(4),
        Column::numbers("transfer", "", groups.iter().map(|g| g.transfer_ns), duration).help("median over calls"),
        Column::numbers("transfer p95", "", groups.iter().map(|g| g.transfer_p95_ns), duration).rank(8),
        cells("median wait", groups.iter().map(|g| longest_wait(&g.wait_ns)))
            .help("of the rank that waits longest, median over calls")
            .rank(3),
        cells("arrives last", groups.iter().map(|g| most_often_last(g))).help("the rank that arrives last most often").rank(6),
        Column::bandwidth("algbw", groups.iter().map(|g| g.algbw_gbs)).rank(7),
        Column::bandwidth("busbw", groups.iter().map(|g| g.busbw_gbs)).rank(1),
        Column::percent("busbw", "% of peak", groups.iter().map(|g| g.peak_share)).help("share of the link's one-direction peak").rank(3),
        texts("peak", &|g| g.peak_source.clone().unwrap_or_default()).rank(9),
        texts("size from", &|g| g.bytes_source.map_or("", BytesSource::label).to_owned()).rank(9),
        texts("matched by", &|g| g.matched_by.label().to_owned()).rank(9),
        texts("no busbw because", &|g| g.no_bandwidth.clone().unwrap_or_default()).rank(10),
    ];
    let mut table = Table::new(
        "Matched collectives by operation, communicator and size; medians over calls",
        columns,
    )
    .without_blank_columns();
    let mut notes = unknown(&report.collectives);
    if groups.len() < report.collectives.len() {
        notes.push(format!(
            "{} more groups are in JSON.",
            units::count((report.collectives.len() - groups.len()) as u64)
        ));
    }
    table.note = (!notes.is_empty()).then(|| notes.join(" "));
    Some(table)
}

/// What is not known of collectives, and why, in sentences.
fn unknown(groups: &[CollectiveGroup]) -> Vec<String> {
    let calls = |n: u64| units::plural(usize::try_from(n).unwrap_or(usize::MAX), "call");
    let mut untimed: BTreeMap<&str, u64> = BTreeMap::new();
    groups
        .iter()
        .flat_map(|g| &g.untimed_reasons)
        .for_each(|(why, n)| *untimed.entry(why).or_default() += n);
    let mut notes: Vec<String> = untimed
        .into_iter()
        .map(|(why, n)| format!("No transfer time of {}: {why}.", calls(n)))
        .collect();
    // Sizes that the whole capture lacks have a note of their own.
    let mut no_busbw: BTreeMap<&str, u64> = BTreeMap::new();
    let sized = groups.iter().any(|g| g.bytes.is_some());
    groups.iter().filter(|_| sized).for_each(|g| {
        g.no_bandwidth.iter().for_each(|why| *no_busbw.entry(why).or_default() += g.count)
    });
    notes.extend(no_busbw.into_iter().map(|(why, n)| format!("No busbw of {}: {why}.", calls(n))));
    let unordered: u64 = groups.iter().map(|g| g.unordered).sum();
    if unordered > 0 {
        let text = "ranks come closer together than their clocks and departures tell apart";
        notes.push(format!("No order of arrival of {}: {text}.", calls(unordered)));
    }
    notes
}

fn longest_wait(waits: &BTreeMap<u32, i64>) -> Cell {
    match waits.iter().max_by_key(|(rank, wait)| (**wait, std::cmp::Reverse(**rank))) {
        Some((rank, wait)) => {
            Cell::number(format!("{} (rank {rank})", units::time(*wait)), *wait as f64)
        }
        None => Cell::missing(),
    }
}

fn most_often_last(group: &CollectiveGroup) -> Cell {
    match group.last_arriver.iter().max_by_key(|(rank, times)| (**times, std::cmp::Reverse(**rank)))
    {
        Some((rank, times)) => Cell::number(
            format!("rank {rank}, {} of {}", units::count(*times), units::count(group.count)),
            *times as f64,
        ),
        None => Cell::missing(),
    }
}

/// Kernels by total time.
pub(super) fn kernels(caption: &str, kernels: &[Kernel], omitted: usize) -> Option<Table> {
    if kernels.is_empty() {
        return None;
    }
    let shown = &kernels[..kernels.len().min(MOST_ROWS)];
    let scale = TimeScale::of(shown.iter().map(|k| k.total_ns));
    let duration =
        |ns: &i64| Cell::number(units::time(*ns), *ns as f64).with_title(format!("{ns} ns"));
    let columns = vec![
        Column::text("kernel", shown.iter().map(|k| k.name.as_str())),
        Column::text("class", shown.iter().map(|k| k.class.as_str())).rank(2),
        Column::count("calls", shown.iter().map(|k| Some(k.count))).rank(1),
        Column::time("total", scale, shown.iter().map(|k| Some(k.total_ns)))
            .help("sum of durations over all ranks"),
        Column::numbers("median", "", shown.iter().map(|k| Some(k.median_ns)), duration)
            .help("median duration of a call"),
    ];
    let table = Table::new(caption, columns);
    let omitted = omitted + kernels.len() - shown.len();
    Some(if omitted > 0 {
        table
            .with_note(format!("{} by name are not listed.", units::plural(omitted, "more kernel")))
    } else {
        table
    })
}

/// Where each rank comes from and how its clock stands.
pub(super) fn identity(report: &Report) -> Table {
    let ranks = &report.ranks;
    let duration = |ns: &i64| Cell::number(units::time(*ns), *ns as f64);
    let columns = vec![
        Column::count("rank", ranks.iter().map(|r| Some(u64::from(r.rank)))),
        Column::text("known from", ranks.iter().map(|r| r.rank_source.label())).rank(1),
        Column::text("report", ranks.iter().map(|r| r.report.as_str())).rank(2),
        Column::text("host", ranks.iter().map(|r| r.hostname.clone().unwrap_or_default())).rank(6),
        Column::text("GPU", ranks.iter().map(|r| r.gpu.clone().unwrap_or_default())).rank(5),
        // Neither is a quantity, so thousands are not separated.
        Column::text("process", ranks.iter().map(|r| r.pid.to_string())).rank(7),
        Column::text("device", ranks.iter().map(|r| r.device.to_string())).rank(8),
        Column::numbers("clock offset", "", ranks.iter().map(|r| r.clock.offset_ns), duration)
            .help("correction of this rank's clock from the ends of matched collectives")
            .rank(3),
        Column::text("drift", ranks.iter().map(|r| r.clock.drift.clone().unwrap_or_default()))
            .rank(4),
        Column::numbers("rest p50", "", ranks.iter().map(|r| r.clock.residual_p50_ns), duration)
            .help("what remains after it, median")
            .rank(9),
        Column::numbers("rest p95", "", ranks.iter().map(|r| r.clock.residual_p95_ns), duration)
            .help("what remains after it, 95th percentile")
            .rank(4),
        Column::count(
            "from",
            ranks.iter().map(|r| (r.clock.collectives > 0).then_some(r.clock.collectives)),
        )
        .help("collectives that the correction rests on")
        .rank(10),
    ];
    Table::new("Where ranks come from, and their clocks", columns).without_blank_columns()
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The files that were read.
pub(super) fn inputs(report: &Report) -> Table {
    let inputs = &report.inputs;
    let rows = |name: &'static str| {
        Column::count(name, inputs.iter().map(move |i| i.capture.rows.get(name).copied()))
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let columns = vec![
        Column::new(
            "file",
            "",
            Align::Left,
            inputs
                .iter()
                .map(|i| Cell::text(file_name(&i.path)).with_title(i.path.as_str()))
                .collect(),
        ),
        Column::bytes("size", inputs.iter().map(|i| Some(i.size_bytes))).rank(3),
        Column::text("nsys", inputs.iter().map(|i| text(&i.nsys_version))).rank(2),
        Column::text("schema", inputs.iter().map(|i| text(&i.schema_version))).rank(6),
        Column::text("CUDA graphs", inputs.iter().map(|i| text(&i.capture.cuda_graph_mode)))
            .rank(5),
        Column::text(
            "NCCL sizes",
            inputs.iter().map(|i| if i.capture.nccl_payloads { "yes" } else { "no" }),
        )
        .help("whether NCCL's ranges carry communicator and bytes")
        .rank(4),
        rows("kernels").rank(1),
        rows("copies").rank(7),
        rows("memsets").rank(9),
        rows("graphs").rank(7),
        rows("ranges").rank(8),
    ];
    Table::new("Files", columns).without_blank_columns()
}

/// NCCL and CUDA variables of the captured environments.
pub(in crate::render) fn settings<'a>(
    inputs: impl Iterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Option<Table> {
    let mut values: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let mut reports = 0;
    for (path, settings) in inputs {
        reports += 1;
        for (name, value) in settings {
            values.entry((name, value)).or_default().push(file_name(path));
        }
    }
    if values.is_empty() {
        return None;
    }
    let files = |paths: &Vec<&str>| {
        if paths.len() == reports { "all".to_owned() } else { units::listed(paths, 3) }
    };
    let columns = vec![
        Column::text("variable", values.keys().map(|(name, _)| *name)),
        Column::text("value", values.keys().map(|(_, value)| *value)),
        Column::text("files", values.values().map(files)).rank(1),
    ];
    Some(Table::new("NCCL and CUDA settings in the captured environment", columns))
}
