//! Tables of an examination.

use crate::doctor::{Examination, Export, Number, Rank, Rows, Run};
use crate::render::table::{Align, Cell, Column, Table};
use crate::render::units::{self, TimeScale};
use crate::text::shorten;

/// Rows of a table; JSON has all.
const MOST_ROWS: usize = 1000;

/// Characters of a note of the profiler that a table shows; JSON has more.
const NOTE: usize = 500;

/// Tables that are named in a cell; JSON has more.
const UNREAD: usize = 20;

fn file(path: &str) -> Cell {
    Cell::text(path.rsplit(['/', '\\']).next().unwrap_or(path)).with_title(path)
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

/// `2x NVIDIA H200`.
fn gpus(export: &Export) -> String {
    let gpus: Vec<String> = export.gpus.iter().map(|(model, n)| format!("{n}x {model}")).collect();
    super::listed(&gpus.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether the report of each run has the numbers that stand or fall together; why not is told by the findings.
pub(super) fn numbers(view: &Examination) -> Table {
    let runs = &view.runs[..view.runs.len().min(MOST_ROWS)];
    let mut columns = vec![
        Column::text("run", runs.iter().map(|run| run.name.as_str())),
        Column::count("ranks", runs.iter().map(|run| Some(run.ranks.len() as u64))),
        Column::count("steps", runs.iter().map(|run| run.steps.count.map(|steps| steps as u64)))
            .rank(1),
    ];
    let groups = runs.first().map_or(0, |run| run.numbers.len());
    columns.extend((0..groups).filter_map(|at| {
        let name = runs.first()?.numbers.get(at)?;
        let cell = |number: &Number| {
            let cell = Cell::text(number.state.label()).with_tone(super::tone(number.state));
            if let Some(why) = &number.why { cell.with_title(why) } else { cell }
        };
        let cells =
            runs.iter().map(|run| run.numbers.get(at).map_or_else(Cell::missing, cell)).collect();
        // Beside the number of steps, and short.
        let head = match name.id {
            "steps" => "times",
            "across" => "waits",
            id => id,
        };
        Some(Column::new(head, "", Align::Left, cells).help(name.name))
    }));
    Table::new("What a report has of each: yes, in part, or no; the findings say why", columns)
}

/// The ranks of all runs.
pub(super) fn ranks(view: &Examination) -> Option<Table> {
    let rows: Vec<(&Run, &Rank)> = view
        .runs
        .iter()
        .flat_map(|run| run.ranks.iter().map(move |rank| (run, rank)))
        .take(MOST_ROWS)
        .collect();
    let several = view.runs.len() > 1;
    let count =
        |head, f: fn(&Rank) -> u64| Column::count(head, rows.iter().map(|(_, rank)| Some(f(rank))));
    let columns = vec![
        Column::numbers("rank", "", rows.iter().map(|(_, rank)| Some(rank.rank)), |&rank| {
            Cell::number(rank.to_string(), f64::from(rank))
        }),
        Column::text(
            "run",
            rows.iter().map(|(run, _)| if several { run.name.as_str() } else { "" }),
        )
        .rank(1),
        Column::text("known from", rows.iter().map(|(_, rank)| rank.rank_source.label()))
            .help("what says the rank's number")
            .rank(1),
        Column::new(
            "file",
            "",
            Align::Left,
            rows.iter().map(|(_, rank)| file(&rank.report)).collect(),
        )
        .rank(3),
        Column::text("host", rows.iter().map(|(_, rank)| text(rank.hostname.as_ref()))).rank(4),
        Column::text("GPU", rows.iter().map(|(_, rank)| text(rank.gpu.as_ref()))).rank(5),
        Column::text("process", rows.iter().map(|(_, rank)| rank.pid.to_string())).rank(6),
        Column::count("steps", rows.iter().map(|(_, rank)| rank.steps.map(|steps| steps as u64))),
        count("kernels", |rank| rank.kernels).rank(2),
        count("comm kernels", |rank| rank.comm_kernels)
            .help("kernels of NCCL and other communication libraries"),
        count("copies", |rank| rank.copies).rank(7),
        count("memsets", |rank| rank.memsets).rank(8),
        Column::count("graphs", rows.iter().map(|(_, rank)| Some(rank.graphs).filter(|n| *n > 0)))
            .help("CUDA graphs captured as one row each")
            .rank(2),
    ];
    (!rows.is_empty()).then(|| {
        Table::new("Devices that ran kernels, and how the rank of each is known", columns)
            .without_blank_columns()
    })
}

/// The exports.
pub(super) fn exports(view: &Examination) -> Option<Table> {
    let exports = &view.exports[..view.exports.len().min(MOST_ROWS)];
    let count = |head, f: fn(&Rows) -> u64| {
        Column::count(head, exports.iter().map(|export| Some(f(&export.rows))))
    };
    let times = |f: fn(&Export) -> Option<i64>| exports.iter().map(f);
    let notes = |error: bool| {
        exports.iter().map(move |export| {
            Some(
                export
                    .profiler_notes
                    .iter()
                    .filter(|note| note.error == error)
                    .map(|note| note.count)
                    .sum::<u64>(),
            )
        })
    };
    let captured = TimeScale::of(times(|export| export.capture_ns).flatten());
    let columns = vec![
        Column::new(
            "file",
            "",
            Align::Left,
            exports.iter().map(|export| file(&export.path)).collect(),
        ),
        Column::bytes("size", exports.iter().map(|export| Some(export.size_bytes))).rank(7),
        Column::text("nsys", exports.iter().map(|export| text(export.nsys_version.as_ref())))
            .rank(1),
        Column::text("schema", exports.iter().map(|export| text(export.schema_version.as_ref())))
            .rank(10),
        Column::text("host", exports.iter().map(|export| text(export.hostname.as_ref()))).rank(11),
        Column::text("GPUs", exports.iter().map(gpus)).rank(6),
        Column::time("captured", captured, times(|export| export.capture_ns)).rank(2),
        Column::time("GPU work", captured, times(|export| export.gpu_work_ns))
            .help("from the first start to the last end")
            .rank(12),
        Column::text(
            "CUDA graphs",
            exports.iter().map(|export| text(export.cuda_graph_mode.as_ref())),
        )
        .help("how nsys captures them")
        .rank(8),
        count("API calls", |rows| rows.api_calls).rank(5),
        count("NVTX ranges", |rows| rows.ranges).rank(3),
        count("NCCL calls", |rows| rows.nccl_calls).help("NVTX ranges of NCCL that move data"),
        count("with sizes", |rows| rows.nccl_sizes)
            .help("NCCL calls that carry their size in a payload"),
        Column::count(
            "MPI ranks",
            exports.iter().map(|export| Some(export.rows.mpi_ranks).filter(|n| *n > 0)),
        )
        .rank(13),
        Column::count("errors", notes(true)).help("that the profiler noted").rank(4),
        Column::count("warnings", notes(false))
            .help("that the profiler noted; some stand in every good capture")
            .rank(9),
    ];
    (!exports.is_empty())
        .then(|| Table::new("What each export holds", columns).without_blank_columns())
}

/// Inspector logs, NCCL logs and topologies.
pub(super) fn logs(view: &Examination) -> Option<Table> {
    let of_run = |path: &String| {
        let runs = view.runs.iter().filter(|run| {
            run.inspector.contains(path)
                || run.nccl_logs.contains(path)
                || run.topology.as_ref() == Some(path)
        });
        units::listed(&runs.map(|run| run.name.as_str()).collect::<Vec<_>>(), 3)
    };
    let mut rows: Vec<(&String, &str, String)> = Vec::new();
    for log in &view.inspector_logs {
        let ranks = log
            .writers
            .iter()
            .map(|writer| format!("rank {} of {}", writer.rank, writer.n_ranks))
            .collect::<std::collections::BTreeSet<_>>();
        let who = ranks.into_iter().take(3).collect::<Vec<_>>().join(", ");
        let what = format!(
            "{} ({})",
            units::plural(usize::try_from(log.records).unwrap_or(usize::MAX), "record"),
            log.formats.join(", ")
        );
        rows.push((
            &log.path,
            "Inspector log",
            if who.is_empty() { what } else { format!("{what}, {who}") },
        ));
    }
    for log in &view.nccl_logs {
        let versions = units::listed(&log.versions.iter().collect::<Vec<_>>(), 3);
        let version =
            if versions.is_empty() { String::new() } else { format!("NCCL {versions}, ") };
        let processes = match log.processes.len() {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        };
        rows.push((
            &log.path,
            "NCCL log",
            format!(
                "{version}{processes}, {}",
                units::plural(usize::try_from(log.connections).unwrap_or(usize::MAX), "connection")
            ),
        ));
    }
    for topology in &view.topologies {
        let links = match &topology.links {
            Some((best, worst)) if best == worst => format!(", {best}"),
            Some((best, worst)) => format!(", {best} to {worst}"),
            None if topology.gpus.len() == 1 => ", nothing to join".to_owned(),
            None => ", peer access only".to_owned(),
        };
        rows.push((
            &topology.path,
            "topology",
            format!("{}{links}", units::plural(topology.gpus.len(), "GPU")),
        ));
    }
    rows.truncate(MOST_ROWS);
    let columns = vec![
        Column::new("file", "", Align::Left, rows.iter().map(|(path, ..)| file(path)).collect()),
        Column::text("kind", rows.iter().map(|(_, kind, _)| *kind)),
        Column::text("holds", rows.iter().map(|(.., what)| what.as_str())),
        Column::text("belongs to", rows.iter().map(|(path, ..)| of_run(path))).rank(1),
    ];
    (!rows.is_empty())
        .then(|| Table::new("What is beside the exports", columns).without_blank_columns())
}

/// Tables with measurements that no command reads, and how many columns of the others.
pub(super) fn unread(view: &Examination) -> Option<Table> {
    let rows: Vec<&Export> = view
        .exports
        .iter()
        .filter(|export| !export.unread_tables.is_empty() || !export.unread_columns.is_empty())
        .take(MOST_ROWS)
        .collect();
    let tables = |export: &&Export| units::listed(&export.unread_tables, UNREAD);
    let columns = vec![
        Column::new("file", "", Align::Left, rows.iter().map(|e| file(&e.path)).collect()),
        Column::text("tables", rows.iter().map(tables)),
        Column::count(
            "columns of other tables",
            rows.iter().map(|export| Some(export.unread_columns.len() as u64)),
        )
        .help("JSON names them"),
    ];
    (!rows.is_empty()).then(|| Table::new("What is there and not read", columns))
}

/// What the profiler noted.
pub(super) fn notes(view: &Examination) -> Option<Table> {
    let rows: Vec<_> = view
        .exports
        .iter()
        .flat_map(|export| export.profiler_notes.iter().map(move |note| (export, note)))
        .take(MOST_ROWS)
        .collect();
    let columns = vec![
        Column::new(
            "file",
            "",
            Align::Left,
            rows.iter().map(|(export, _)| file(&export.path)).collect(),
        ),
        Column::text(
            "kind",
            rows.iter().map(|(_, note)| if note.error { "error" } else { "warning" }),
        ),
        Column::text("text", rows.iter().map(|(_, note)| shorten(&note.text, NOTE))),
        Column::count("times", rows.iter().map(|(_, note)| Some(note.count))),
    ];
    (!rows.is_empty()).then(|| Table::new("What the profiler noted", columns))
}
