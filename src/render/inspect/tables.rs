//! The tables of an inspection.

use super::{comm_name, microseconds, nanoseconds, size};
use crate::inspect::{Against, Communicator, Inspection, Op, Process, Side, Verdict, format_time};
use crate::render::table::{Align, Cell, Column, Table, Tone, Trim};
use crate::render::units::{self, TimeScale};

/// Rows of the longest table; JSON has everything.
const MOST_ROWS: usize = 1000;

/// Times of any magnitude, each with its own unit.
fn times(head: &str, us: impl IntoIterator<Item = Option<f64>>) -> Column {
    Column::numbers(head, "", us, |&us| {
        Cell::number(microseconds(us), us).with_title(format!("{us} µs"))
    })
}

pub(super) fn communicators(view: &Inspection) -> Option<Table> {
    let comms: Vec<&Communicator> = view.communicators.iter().take(MOST_ROWS).collect();
    let column =
        |f: fn(&Communicator) -> Option<u64>| comms.iter().map(move |c| f(c)).collect::<Vec<_>>();
    let ranks = comms.iter().map(|c| {
        let seen = c.ranks_seen.len();
        let text = if c.ranks_missing_count == 0 {
            c.n_ranks.to_string()
        } else {
            format!("{seen} of {}", c.n_ranks)
        };
        Cell::number(text, f64::from(c.n_ranks))
    });
    let table = Table::new(
        "Communicators, those with most time first",
        vec![
            Column::text("communicator", comms.iter().map(|c| comm_name(c))),
            Column::new("ranks", "", Align::Right, ranks.collect())
                .help("ranks with records, and of how many if some have none"),
            Column::count("nodes", column(|c| c.nnodes.map(u64::from))).rank(3),
            Column::text("spans", comms.iter().map(|c| spans(&c.class)))
                .help("guessed from the numbers of ranks and nodes alone"),
            Column::count("records", column(|c| Some(c.operations))),
            times("time", comms.iter().map(|c| Some(c.total_time_us)))
                .help("sum of the times of all records of all ranks"),
            Column::percent("wait", "% of time", comms.iter().map(|c| c.wait_share()))
                .help("waiting as a share of the time in operations that all ranks logged"),
            Column::count("missing", column(|c| Some(c.missing_operations).filter(|&n| n > 0)))
                .help("sequence numbers missing between those logged")
                .rank(1),
            Column::count("dropped", column(|c| c.dropped))
                .help("records that Inspector says it dropped")
                .rank(2),
            Column::text("hosts", comms.iter().map(|c| hosts(&c.hosts))).rank(4),
        ],
    );
    (!comms.is_empty()).then(|| table.without_blank_columns())
}

/// What a communicator spans, in words: the classes of JSON and CSV name links that the logs do not.
fn spans(class: &str) -> &str {
    match class {
        "single-rank" => "one rank",
        "nvlink-only" => "one node",
        "hca-only" => "nodes, one rank each",
        "mixed" => "several nodes",
        other => other,
    }
}

fn hosts(hosts: &[String]) -> String {
    match hosts {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

pub(super) fn operations(view: &Inspection) -> Option<Table> {
    let mut rows = view.costliest();
    let all = rows.len();
    rows.truncate(MOST_ROWS);
    let ops = || rows.iter().map(|(_, op)| *op);
    let sources =
        |op: &Op| match op.timing_sources.keys().map(String::as_str).collect::<Vec<_>>().as_slice()
        {
            [only] => (*only).to_owned(),
            _ => op
                .timing_sources
                .iter()
                .map(|(name, n)| format!("{name} {n}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
    let algorithms = |op: &Op| {
        let name = |part: &Option<String>| part.clone().unwrap_or_default();
        op.algorithms
            .iter()
            .map(|a| format!("{} {}", name(&a.algo), name(&a.proto)).trim().to_owned())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let sizes = ops().map(|op| match size(op.bytes, op.bytes_range) {
        Some(text) => {
            Cell::number(text, op.bytes.or(op.bytes_range.map(|r| r[0])).unwrap_or(0) as f64)
                .with_title(
                    op.bytes.map_or_else(String::new, |b| format!("{} bytes", units::count(b))),
                )
        }
        None => Cell::missing(),
    });
    let mut table = Table::new(
        "By communicator, operation and size, those with most time first",
        vec![
            Column::text("operation", ops().map(|op| op.op.label())),
            Column::new("size", "", Align::Right, sizes.collect())
                .help("of one rank for AllGather and ReduceScatter"),
            Column::text(
                "communicator",
                rows.iter().map(|(comm, _)| comm.name.as_deref().unwrap_or(&comm.comm_id)),
            )
            .rank(1),
            Column::count("records", ops().map(|op| Some(op.count))),
            times("p50", ops().map(|op| op.exec_time_us.map(|t| t.p50)))
                .help("median time, waiting included"),
            times("p95", ops().map(|op| op.exec_time_us.map(|t| t.p95))).rank(5),
            times("p99", ops().map(|op| op.exec_time_us.map(|t| t.p99))).rank(8),
            times("max", ops().map(|op| op.exec_time_us.map(|t| t.max))).rank(6),
            Column::bandwidth("algbw", ops().map(|op| op.algbw_gbs.map(|b| b.median))).rank(9),
            Column::bandwidth("busbw", ops().map(|op| op.busbw_gbs.map(|b| b.median)))
                .help("median over records"),
            Column::bandwidth("5 %", ops().map(|op| op.busbw_gbs.map(|b| b.p5)))
                .help("5th percentile of busbw")
                .rank(7),
            Column::bandwidth("95 %", ops().map(|op| op.busbw_gbs.map(|b| b.p95)))
                .help("95th percentile of busbw")
                .rank(7),
            Column::bandwidth("logged", ops().map(|op| op.logged_busbw_gbs_mean))
                .help("mean of the busbw that the log gives")
                .rank(10),
            Column::bandwidth("transfer", ops().map(|op| op.transfer_busbw_gbs.map(|b| b.median)))
                .help("busbw without waiting")
                .rank(2),
            times("wait", ops().map(|op| op.wait_us.map(|w| w.p50)))
                .help("median wait over ranks")
                .rank(3),
            times("wait 95 %", ops().map(|op| op.wait_us.map(|w| w.p95)))
                .help("95th percentile of the wait over ranks")
                .rank(4),
            Column::text("algorithm", ops().map(algorithms)).rank(11),
            Column::text("timing", ops().map(sources)).rank(12),
        ],
    )
    .without_blank_columns();
    if all > MOST_ROWS {
        table = table.with_note(format!(
            "{} more operations and sizes are in JSON.",
            units::count((all - MOST_ROWS) as u64)
        ));
    }
    (all > 0).then_some(table)
}

pub(super) fn processes(view: &Inspection) -> Option<Table> {
    let mut rows: Vec<&Process> = view.processes.iter().filter(|p| p.waits.compared > 0).collect();
    rows.sort_by(|a, b| b.waits.last_count.cmp(&a.waits.last_count).then(a.rank.cmp(&b.rank)));
    rows.truncate(MOST_ROWS);
    let waits = || rows.iter().map(|p| &p.waits);
    let last = waits().map(|w| {
        Cell::number(
            format!("{} of {}", units::count(w.last_count), units::count(w.ordered_count)),
            w.last_count as f64,
        )
    });
    let table = Table::new(
        "Processes over all communicators, those that arrive last most often first",
        vec![
            Column::count("rank", rows.iter().map(|p| Some(u64::from(p.rank))))
                .help("rank in the largest communicator of the process"),
            Column::text("host", rows.iter().map(|p| p.hostname.as_str())).rank(2),
            Column::numbers("pid", "", rows.iter().map(|p| p.pid), |pid| {
                Cell::number(pid.to_string(), f64::from(*pid))
            })
            .rank(3),
            Column::new("arrived last", "", Align::Right, last.collect())
                .help("of the operations whose order of arrival is clear"),
            Column::numbers("its share", "", waits().map(|w| w.last_expected), |n| {
                Cell::number(format!("{n:.1}"), *n)
            })
            .help("how often it would be if all ranks arrived last equally often"),
            Column::percent("wait", "% of time", waits().map(|w| w.share())),
            times("p50", waits().map(|w| w.wait_us.map(|t| t.p50))).help("median wait"),
            times("p95", waits().map(|w| w.wait_us.map(|t| t.p95))).rank(1),
            times("max", waits().map(|w| w.wait_us.map(|t| t.max))).rank(4),
        ],
    );
    (!rows.is_empty()).then_some(table)
}

pub(super) fn timeline(view: &Inspection) -> Option<Table> {
    let bins = &view.timeline.bins;
    let slowest = bins
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.relative_speed.total_cmp(&b.1.relative_speed))
        .map(|(i, _)| i);
    let speed = |v: &f64| Cell::number(format!("{v:.2}"), *v);
    let mut table = Table::new(
        format!(
            "In bins of {} by the time of writing (UTC)",
            units::time(view.timeline.bin_us.saturating_mul(1000))
        ),
        vec![
            Column::text("from", bins.iter().map(|bin| format_time(bin.start_us))),
            Column::count("operations", bins.iter().map(|bin| Some(bin.operations))),
            times("time", bins.iter().map(|bin| Some(bin.time_us))),
            Column::numbers("speed", "", bins.iter().map(|bin| Some(bin.relative_speed)), speed)
                .help("1.00 is usual, 0.50 half as fast"),
            Column::bandwidth("busbw", bins.iter().map(|bin| bin.busbw_gbs)),
        ],
    );
    table.trim = Trim::Spread(slowest.into_iter().collect());
    (!bins.is_empty()).then_some(table)
}

pub(super) fn against(against: &Against) -> Table {
    let rows: Vec<_> = against.rows.iter().take(MOST_ROWS).collect();
    let change = |row: &crate::inspect::AgainstRow| match row.change {
        Some(change) => {
            Cell { tone: tone(row.verdict), ..Cell::number(units::signed_percent(change), change) }
        }
        None => Cell::missing(),
    };
    let verdicts =
        rows.iter().map(|row| Cell { tone: tone(row.verdict), ..Cell::text(row.verdict.label()) });
    let spread = |side: &Side| match (side.busbw_p5_gbs, side.busbw_p95_gbs) {
        (Some(low), Some(high)) => Cell::text(format!(
            "{} to {}",
            units::bandwidth_number(low),
            units::bandwidth_number(high)
        )),
        _ => Cell::missing(),
    };
    let sizes = rows.iter().map(|row| match size(row.bytes, row.bytes_range) {
        Some(text) => Cell::number(text, row.bytes.unwrap_or(0) as f64),
        None => Cell::missing(),
    });
    Table::new(
        "Median times (of the transfer where all ranks were logged, else waiting included) and bandwidths, the most time lost first",
        vec![
            Column::text("operation", rows.iter().map(|row| row.op.label())),
            Column::new("size", "", Align::Right, sizes.collect()),
            Column::text("communicator", rows.iter().map(|row| row.communicator.as_str())).rank(2),
            times("here", rows.iter().map(|row| row.here.time_us)),
            times("there", rows.iter().map(|row| row.there.time_us)),
            Column::new("change", "", Align::Right, rows.iter().map(|row| change(row)).collect())
                .help("of the median time; more is slower"),
            Column::new("verdict", "", Align::Left, verdicts.collect()),
            times("wait here", rows.iter().map(|row| row.here.wait_us))
                .help("median wait of a rank for others, of operations that all ranks logged")
                .rank(1),
            times("wait there", rows.iter().map(|row| row.there.wait_us))
                .help("the same in the other job")
                .rank(1),
            Column::bandwidth("busbw here", rows.iter().map(|row| row.here.busbw_gbs)),
            Column::new(
                "5 to 95 % here",
                "GB/s",
                Align::Right,
                rows.iter().map(|row| spread(&row.here)).collect(),
            )
            .rank(3),
            Column::bandwidth("busbw there", rows.iter().map(|row| row.there.busbw_gbs)),
            Column::new(
                "5 to 95 % there",
                "GB/s",
                Align::Right,
                rows.iter().map(|row| spread(&row.there)).collect(),
            )
            .rank(3),
            Column::count("values here", rows.iter().map(|row| Some(row.here.count))).rank(5),
            Column::count("values there", rows.iter().map(|row| Some(row.there.count))).rank(5),
            Column::text("time of", rows.iter().map(|row| row.basis.as_str()))
                .help("transfer: the shortest of all ranks; own: waiting included")
                .rank(4),
        ],
    )
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Slower => Tone::Bad,
        Verdict::Faster => Tone::Good,
        _ => Tone::Neutral,
    }
}

/// What only one of the jobs runs.
pub(super) fn unpaired(against: &Against) -> Option<String> {
    let list = |names: &[String]| {
        let more = names
            .len()
            .checked_sub(5)
            .filter(|&n| n > 0)
            .map_or_else(String::new, |n| format!(" and {n} more"));
        format!("{}{more}", names.iter().take(5).cloned().collect::<Vec<_>>().join("; "))
    };
    let parts: Vec<String> =
        [("Only here", &against.only_here), ("Only there", &against.only_there)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}.", list(names)))
            .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

pub(super) fn prometheus(view: &Inspection) -> Option<Table> {
    let rows = &view.prometheus[..view.prometheus.len().min(MOST_ROWS)];
    let text = |f: fn(&crate::model::record::PrometheusRow) -> Option<&String>| {
        rows.iter().map(move |row| f(row).cloned().unwrap_or_default())
    };
    let table = Table::new(
        "Samples as they are: the last operation (2.29) or means over an interval (2.30 on)",
        vec![
            Column::text("operation", text(|row| row.op.as_ref())),
            Column::text("size", text(|row| row.message_size.as_ref()))
                .help("in units of 1024, as labelled"),
            Column::text("communicator", text(|row| row.comm.as_ref())),
            Column::count("ranks", rows.iter().map(|row| row.n_ranks.map(u64::from))),
            Column::count("nodes", rows.iter().map(|row| row.nnodes.map(u64::from))).rank(3),
            times("time", rows.iter().map(|row| row.exec_time_us)),
            Column::bandwidth("busbw", rows.iter().map(|row| row.busbw_gbs)),
            Column::text("algorithm", text(|row| row.algo_proto.as_ref())).rank(2),
            Column::text("host", text(|row| row.hostname.as_ref())).rank(1),
        ],
    );
    (!rows.is_empty()).then(|| table.without_blank_columns())
}

pub(super) fn files(view: &Inspection) -> Table {
    let files = &view.files[..view.files.len().min(MOST_ROWS)];
    Table::new(
        "Files",
        vec![
            Column::text("file", files.iter().map(|f| f.path.as_str())),
            Column::count("lines", files.iter().map(|f| Some(f.lines))),
            Column::count("records", files.iter().map(|f| Some(f.records))),
            Column::count("bad lines", files.iter().map(|f| Some(f.bad_lines))),
            Column::text("formats", files.iter().map(|f| f.formats.join(", "))),
            Column::text(
                "first bad line",
                files.iter().map(|f| {
                    f.bad
                        .first()
                        .map_or_else(String::new, |b| format!("line {} {}", b.line, b.reason))
                }),
            ),
        ],
    )
}

/// The scale of a run's time axis.
pub(super) fn run_scale(view: &Inspection) -> TimeScale {
    let span = view
        .first_us
        .zip(view.last_us)
        .map(|(first, last)| nanoseconds(last.saturating_sub(first) as f64));
    TimeScale::of(span)
}
