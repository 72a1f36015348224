//! What Inspector logs say, on its way to a person or a program.

mod csv;
mod figures;
mod tables;

use std::io::{self, Write};
use std::path::Path;

use super::document::{Block, Document, Section};
use super::view::notes;
use super::{Page, units};
use crate::catalogue::Id;
use crate::inspect::{Communicator, Inspected, Inspection, Op, Verdict, format_time};

/// Sections that belong to the answer.
const KEY: [&str; 2] = ["Against the other job", "Operations and sizes"];

impl Page for Inspected {
    fn document(&self) -> Document {
        document(self)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv::write(self, out)
    }
}

/// Everything that the terminal, Markdown and HTML print of an inspection.
fn document(inspected: &Inspected) -> Document {
    let view = &inspected.view;
    let against = view.against.as_ref();
    let sections = [
        (
            "Against the other job",
            vec![
                against.map(tables::against).map(Block::Table),
                against.and_then(tables::unpaired).map(Block::Text),
            ],
        ),
        ("Communicators", vec![tables::communicators(view).map(Block::Table)]),
        ("Operations and sizes", vec![tables::operations(view).map(Block::Table)]),
        ("Who waits for whom", vec![tables::processes(view).map(Block::Table)]),
        (
            "Over the run",
            vec![
                figures::timeline(view).map(Block::Figure),
                tables::timeline(view).map(Block::Table),
            ],
        ),
        (
            "Where most time goes",
            vec![
                figures::by_size(view).map(Block::Figure),
                Some(figures::operations(inspected)).filter(|f| !f.is_empty()).map(Block::Figures),
            ],
        ),
        ("Prometheus mode", vec![tables::prometheus(view).map(Block::Table)]),
        ("Files", vec![Some(Block::Details(tables::files(view)))]),
    ];
    Document {
        title: title(view),
        facts: facts(view),
        headline: headline(view),
        picture: figures::first_look(view),
        findings: notes::findings(&view.findings),
        sections: sections
            .into_iter()
            .filter_map(|(heading, blocks)| {
                Section::new(heading, blocks.into_iter().flatten().collect())
                    .map(|section| section.with_key(KEY.contains(&heading)))
            })
            .collect(),
        warnings: notes::warnings(&view.warnings),
        definitions: definitions(),
        method: method(view),
    }
}

/// The one file, or the folder that all files share.
fn title(view: &Inspection) -> String {
    let paths: Vec<&Path> = view.files.iter().map(|file| Path::new(&file.path)).collect();
    let shared = match paths.as_slice() {
        [] => None,
        [one] => one.file_name(),
        [first, rest @ ..] => first
            .ancestors()
            .skip(1)
            .find(|folder| rest.iter().all(|p| p.starts_with(folder)))
            .and_then(Path::file_name),
    };
    shared.map_or_else(|| "Inspector logs".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn facts(view: &Inspection) -> Vec<String> {
    let mut hosts: Vec<&str> = view.processes.iter().map(|p| p.hostname.as_str()).collect();
    hosts.dedup();
    let mut facts = vec![units::plural(view.files.len(), "file")];
    if !view.processes.is_empty() {
        facts.push(format!(
            "{} on {}",
            many(view.processes.len(), "process", "processes"),
            units::plural(hosts.len(), "host")
        ));
        facts.push(units::plural(view.communicators.len(), "communicator"));
        facts.push(units::plural(usize::try_from(view.operations).unwrap_or(usize::MAX), "record"));
    }
    facts.push(format!("format {}", view.formats.join(", ")));
    if let (Some(first), Some(last)) = (view.first_us, view.last_us) {
        facts.push(format!(
            "written from {} UTC over {}",
            format_time(first),
            units::time(last.saturating_sub(first).saturating_mul(1000))
        ));
    }
    let settings = &view.settings;
    let filters = [
        settings.comm.as_ref().map(|comm| format!("only {comm}")),
        settings.op.as_ref().map(|op| format!("only {op}")),
        settings.since_us.map(|t| format!("since {}", format_time(t))),
        settings.until_us.map(|t| format!("until {}", format_time(t))),
    ];
    facts.extend(filters.into_iter().flatten());
    facts
}

fn headline(view: &Inspection) -> Vec<String> {
    let mut sentences: Vec<String> = view.against.iter().map(against_sentence).collect();
    sentences.extend(standing_out(view));
    match view.costliest().first() {
        Some((comm, op)) if op.total_time_us > 0.0 => {
            let busbw = op
                .busbw_gbs
                .map_or_else(String::new, |b| format!(" at {}", units::bandwidth(b.median)));
            let time = op.exec_time_us.map_or_else(String::new, |t| {
                format!(", {} in the median{busbw}", microseconds(t.p50))
            });
            sentences.push(format!(
                "{} of the time in operations goes to {} on {}: {} records{time}.",
                units::percent(op.total_time_us / view.total_time_us()),
                op_name(op),
                comm_name(comm),
                units::count(op.count)
            ));
        }
        _ if view.operations == 0 => sentences.push(
            "The logs hold no operation with its time, only counters and summaries.".to_owned(),
        ),
        _ => sentences.push("No operation has a time.".to_owned()),
    }
    if let Some(share) = view.wait_share() {
        sentences.push(format!(
            "Waiting for later ranks is {} of the time in operations that all ranks logged.",
            units::percent(share)
        ));
    } else if view.operations > 0 {
        sentences.push("How long ranks wait for others is not known: no operation was logged by all ranks of its communicator.".to_owned());
    }
    sentences
}

/// Whether ranks, communicators or stretches of the run stand out: the findings in one sentence. Without a transfer time of
/// any operation it is not known.
fn standing_out(view: &Inspection) -> Option<String> {
    view.wait_share()?;
    let kinds = [
        (Id::SlowRank, "slow rank"),
        (Id::SlowCommunicator, "slow communicator"),
        (Id::SlowStretch, "slow stretch of the run"),
    ];
    let count = |id: Id| view.findings.iter().filter(|finding| finding.id == id).count();
    let found: Vec<String> = kinds
        .into_iter()
        .map(|(id, what)| (count(id), what))
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| match what.split_once(" of ") {
            Some((one, of)) => format!("{} of {of}", units::plural(n, one)),
            None => units::plural(n, what),
        })
        .collect();
    Some(match found.as_slice() {
        [] => "No rank, no communicator and no stretch of the run stands out as slow.".to_owned(),
        found => format!("{} found: see Findings.", units::listed(found, found.len())),
    })
}

fn against_sentence(against: &crate::inspect::Against) -> String {
    let count = |verdict: Verdict| against.rows.iter().filter(|row| row.verdict == verdict).count();
    let parts: Vec<String> = [
        (count(Verdict::Slower), "slower than in the other job"),
        (count(Verdict::Faster), "faster"),
        (count(Verdict::Same), "the same within 5 %"),
        (count(Verdict::WithinSpread), "within the spread of a job"),
        (count(Verdict::TooFew), "too rare to tell"),
        (count(Verdict::Unknown), "without a bandwidth"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", units::count(n as u64)))
    .collect();
    match against.rows.len() {
        0 => "The two jobs have no operation of one size on one kind of communicator in common."
            .to_owned(),
        n => format!(
            "Both jobs run {}: {}.",
            many(n, "operation and size", "operations and sizes"),
            parts.join(", ")
        ),
    }
}

fn many(n: usize, one: &str, several: &str) -> String {
    format!("{} {}", units::count(n as u64), if n == 1 { one } else { several })
}

/// A communicator by its name where it has one.
fn comm_name(comm: &Communicator) -> String {
    match &comm.name {
        Some(name) => format!("{name} ({})", comm.comm_id),
        None => comm.comm_id.clone(),
    }
}

/// `AllReduce of 16.8 MB`.
fn op_name(op: &Op) -> String {
    match size(op.bytes, op.bytes_range) {
        Some(size) => format!("{} of {size}", op.op),
        None => op.op.to_string(),
    }
}

fn size(bytes: Option<u64>, range: Option<[u64; 2]>) -> Option<String> {
    bytes.map(units::bytes).or_else(|| {
        range.map(|[from, to]| match to {
            // The last range has no end.
            u64::MAX => format!("{} and more", units::bytes(from)),
            _ => format!("{} to {}", units::bytes(from), units::bytes(to)),
        })
    })
}

fn microseconds(us: f64) -> String {
    units::time(nanoseconds(us))
}

fn nanoseconds(us: f64) -> i64 {
    (us * 1e3).round() as i64
}

fn definitions() -> Vec<(String, String)> {
    [
        ("time", "execution time of one record, microseconds in the log: from the first start to the last stop of a channel on this rank, waiting for late ranks included."),
        ("transfer", "the shortest time of any rank of an operation that all ranks logged: the best estimate of the transfer alone."),
        ("wait", "own time minus the transfer. Only for operations that all ranks leave together: AllReduce, AllGather, ReduceScatter, AllToAll."),
        ("arrived last", "the rank with the shortest time, where another waited more than 10 µs and 5 %: the one the others wait for."),
        (
            "algbw, busbw",
            "algbw = S / time in GB/s, busbw = algbw x factor, recomputed: AllReduce 2(n-1)/n; AllGather, ReduceScatter (n-1)/n with S = size x n; others 1; n ranks of the communicator.",
        ),
        ("spans", "guessed from ranks and nodes alone; in JSON and CSV the class: single-rank; nvlink-only (one node, whatever joins its GPUs); hca-only (as many nodes as ranks); mixed."),
        ("missing", "sequence numbers of collectives between those logged; by default operations below 8192 bytes are not logged."),
        ("speed", "time that the operations of a bin would have taken at the median of their kind and size over the run, by the time that they took: 1.00 is usual."),
    ]
    .map(|(term, text)| (term.to_owned(), text.to_owned()))
    .to_vec()
}

fn method(view: &Inspection) -> Vec<String> {
    let mut sentences = vec![
        "Times of writing, not of the operation, place a record in the run. Sizes and bandwidths are decimal. A dash means not measured."
            .to_owned(),
    ];
    if view.compared_one_in > 1 {
        sentences.push(format!(
            "Transfer, wait and speed rest on one operation in {}, the same on all ranks.",
            units::count(view.compared_one_in)
        ));
    }
    sentences
}
