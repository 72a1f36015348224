//! What is in the files and what is missing, on its way to a person or a program.

mod csv;
mod tables;

use std::io::{self, Write};
use std::path::Path;

use super::document::{Block, Document, Entry, Level, Note, Section};
use super::table::Tone;
use super::view::tables::settings;
use super::{Page, units};
use crate::catalogue::Severity;
use crate::doctor::{Examination, Missing, Number, Run, State};
use crate::steps::StepSource;

/// Of more runs than this the numbers are one table.
const FEW: usize = 3;

/// Runs whose command is printed.
const RUNS: usize = 12;

/// Findings that are printed, the most important.
const FINDINGS: usize = 40;

/// Kinds of trouble with files that are listed.
const TROUBLES: usize = 40;

/// Sections that belong to the answer, besides those of the runs.
const KEY: [&str; 2] = ["The runs side by side", "Files that cannot be used"];

/// Files or runs that are named in one sentence.
const NAMES: usize = 6;

impl Page for Examination {
    fn document(&self) -> Document {
        document(self)
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv::write(self, out)
    }
}

/// Everything that the terminal, Markdown and HTML print of an examination.
fn document(view: &Examination) -> Document {
    let mut sections: Vec<Section> = if view.runs.len() <= FEW {
        view.runs.iter().filter_map(run_section).collect()
    } else {
        let more = view.runs.len().saturating_sub(RUNS);
        let rest = (more > 0).then(|| {
            Block::Text(format!(
                "The commands of {} are in JSON.",
                many(more, "more run", "more runs")
            ))
        });
        let commands = view.runs.iter().take(RUNS).map(command).chain(rest).collect();
        let numbers = vec![Block::Table(tables::numbers(view))];
        [("Numbers of a report of each run", numbers), ("A report of each run", commands)]
            .into_iter()
            .filter_map(|(heading, blocks)| Section::new(heading, blocks))
            .collect()
    };
    let runs = sections.len();
    let export_settings =
        settings(view.exports.iter().map(|export| (export.path.as_str(), &export.settings)));
    let rest = [
        (
            "The runs side by side",
            view.compare_command.clone().map(Block::Command).into_iter().collect(),
        ),
        ("Files that cannot be used", unusable(view).into_iter().collect()),
        ("Inputs of other commands", further(view).into_iter().collect()),
        ("Ranks", tables::ranks(view).into_iter().map(Block::Table).collect()),
        ("Exports of nsys", tables::exports(view).into_iter().map(Block::Table).collect()),
        ("Logs and topologies", tables::logs(view).into_iter().map(Block::Table).collect()),
        (
            "More about the captures",
            export_settings
                .into_iter()
                .chain(tables::unread(view))
                .chain(tables::notes(view))
                .map(Block::Details)
                .collect::<Vec<_>>(),
        ),
    ];
    sections.extend(rest.into_iter().filter_map(|(heading, blocks)| Section::new(heading, blocks)));
    for (at, section) in sections.iter_mut().enumerate() {
        section.key = at < runs || KEY.contains(&section.heading.as_str());
    }
    Document {
        title: title(view),
        facts: facts(view),
        headline: headline(view),
        picture: None,
        findings: view.findings.iter().take(FINDINGS).map(|finding| note(view, finding)).collect(),
        sections,
        warnings: Vec::new(),
        definitions: Vec::new(),
        method: method(),
    }
}

/// The run, or the folder that all files share.
fn title(view: &Examination) -> String {
    if let [run] = view.runs.as_slice() {
        return run.name.clone();
    }
    let logs = view
        .inspector_logs
        .iter()
        .map(|log| &log.path)
        .chain(view.nccl_logs.iter().map(|log| &log.path));
    let paths: Vec<&Path> =
        view.exports.iter().map(|export| &export.path).chain(logs).map(Path::new).collect();
    let folder = paths.first().and_then(|first| {
        first.ancestors().skip(1).find(|folder| paths.iter().all(|path| path.starts_with(folder)))
    });
    let name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "Captures".to_owned())
}

fn facts(view: &Examination) -> Vec<String> {
    let kinds = [
        (view.exports.len(), "export of nsys", "exports of nsys"),
        (view.inspector_logs.len(), "Inspector log", "Inspector logs"),
        (view.nccl_logs.len(), "NCCL log", "NCCL logs"),
        (view.topologies.len(), "topology", "topologies"),
        (view.further_files.len(), "input of another command", "inputs of other commands"),
        (view.unusable.len(), "file that cannot be used", "files that cannot be used"),
        (view.other_files.len(), "other file", "other files"),
    ];
    kinds
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, several)| many(n, one, several))
        .collect()
}

fn many(n: usize, one: &str, several: &str) -> String {
    format!("{} {}", units::count(n as u64), if n == 1 { one } else { several })
}

fn headline(view: &Examination) -> Vec<String> {
    let (good, bad): (Vec<&Run>, Vec<&Run>) =
        view.runs.iter().partition(|run| run.problem.is_none());
    let mut sentences = match (good.as_slice(), bad.as_slice()) {
        ([], []) => {
            vec!["There is no export of nsys with GPU work: no report can be made.".to_owned()]
        }
        ([run], []) => {
            let mut sentences =
                vec![format!("A report of {} can be made: {}.", run.name, extent(run))];
            sentences.extend(missing(run));
            sentences
        }
        ([], [run]) => {
            let fact = run.problem.as_ref().map_or("", |problem| problem.fact.as_str());
            vec![format!("A report of {} stops with an error: {fact}.", run.name)]
        }
        (good, bad) => {
            let complete = good
                .iter()
                .filter(|run| run.numbers.iter().all(|number| number.state == State::Measured))
                .count();
            let fails =
                if bad.is_empty() { String::new() } else { format!(", of {} not", bad.len()) };
            vec![
                format!("Reports of {} can be made{fails}.", many(good.len(), "run", "runs")),
                match complete {
                    0 => "None of them would have every number; what they lack is said below."
                        .to_owned(),
                    n if n == good.len() => {
                        "Nothing is missing: every number is measured.".to_owned()
                    }
                    n => format!(
                        "{n} of them would have every number; what the others lack is said below."
                    ),
                },
            ]
        }
    };
    if !view.unusable.is_empty() {
        sentences.push(format!("{} cannot be used.", many(view.unusable.len(), "file", "files")));
    }
    sentences
}

/// `2 of 8 ranks, 5 steps from “Batch 5” on`.
fn extent(run: &Run) -> String {
    let ranks = match run.world_size {
        Some(world) if world as usize > run.ranks.len() => {
            format!("{} of {world} ranks", run.ranks.len())
        }
        _ => units::plural(run.ranks.len(), "rank"),
    };
    let steps = match (run.steps.count, &run.steps.first) {
        (Some(count), Some(first)) => format!("{} from “{first}” on", units::plural(count, "step")),
        (Some(_), None) => "no step that every rank has".to_owned(),
        (None, _) => "the whole capture as one step".to_owned(),
    };
    format!("{ranks}, {steps}")
}

/// What of the run's report is null or weaker.
fn missing(run: &Run) -> Vec<String> {
    let of = |state: State| {
        run.numbers.iter().filter(|n| n.state == state).map(|n| n.name).collect::<Vec<_>>()
    };
    let say = |what: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| format!("{what}: {}.", names.join("; ")))
    };
    let list: Vec<String> =
        [say("What it lacks", of(State::Null)), say("What it has in part", of(State::Weaker))]
            .into_iter()
            .flatten()
            .collect();
    if list.is_empty() {
        vec!["Nothing is missing: every number is measured.".to_owned()]
    } else {
        list
    }
}

fn note(view: &Examination, finding: &Missing) -> Note {
    let about: Vec<&str> = finding.about.iter().map(String::as_str).collect();
    // Where there is only one run, it goes without saying.
    let obvious =
        about.is_empty() || matches!(view.runs.as_slice(), [run] if about == [run.name.as_str()]);
    let every =
        view.runs.len() > 1 && view.runs.iter().all(|run| about.contains(&run.name.as_str()));
    let about = match (obvious, every) {
        (true, _) => String::new(),
        (_, true) => "All runs: ".to_owned(),
        _ => format!("{}: ", listed(&about)),
    };
    Note {
        level: match finding.severity {
            Severity::High => Level::High,
            Severity::Medium => Level::Medium,
            Severity::Info => Level::Info,
        },
        text: format!("{about}{} {}", finding.title, finding.cost),
        evidence: None,
        advice: Some(finding.advice.clone()),
    }
}

fn tone(state: State) -> Tone {
    match state {
        State::Measured => Tone::Good,
        State::Weaker => Tone::Neutral,
        State::Null => Tone::Bad,
    }
}

/// The command that makes the run's report, or why there is none.
fn command(run: &Run) -> Block {
    match (&run.command, &run.problem) {
        (Some(command), _) => Block::Command(command.clone()),
        (None, Some(problem)) => {
            Block::Text(format!("A report of {} stops with an error: {}.", run.name, problem.fact))
        }
        (None, None) => Block::Text(format!(
            "The name of a file of {} cannot be printed as it is, so no command is proposed: rename it.",
            run.name
        )),
    }
}

fn run_section(run: &Run) -> Option<Section> {
    let entry = |number: &Number| Entry {
        name: number.name.to_owned(),
        text: match &number.why {
            Some(why) => format!("{} ({why})", number.state.label()),
            None => number.state.label().to_owned(),
        },
        tone: tone(number.state),
    };
    let steps = match (&run.steps.pattern, run.steps.source) {
        (Some(_), Some(StepSource::Default)) => "; steps by the default pattern".to_owned(),
        (Some(pattern), Some(source)) => format!("; steps: {pattern} ({})", source.label()),
        _ => String::new(),
    };
    let ranks: Vec<u32> = run.ranks.iter().map(|rank| rank.rank).collect();
    let mut blocks = vec![
        command(run),
        Block::Text(format!(
            "{}: rank {}{steps}",
            units::plural(run.reports.len(), "file"),
            units::rank_list(&ranks)
        )),
    ];
    blocks.push(Block::Entries(run.numbers.iter().map(entry).collect()));
    Section::new(&format!("Numbers of a report of {}", run.name), blocks)
}

/// Files with the same trouble are named together.
fn unusable(view: &Examination) -> Option<Block> {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for file in &view.unusable {
        let text = match &file.advice {
            Some(advice) => format!("{}; {advice}", file.fact),
            None => file.fact.clone(),
        };
        let name = file.path.as_deref().unwrap_or_default();
        match kinds.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name),
            None => kinds.push((text, vec![name])),
        }
    }
    let entry = |(text, names): (String, Vec<&str>)| {
        let text = if names.len() > 1 { format!("each {text}") } else { text };
        Entry { name: listed(&names), text, tone: Tone::Bad }
    };
    let more = kinds.len().saturating_sub(TROUBLES);
    let mut entries: Vec<Entry> = kinds.into_iter().take(TROUBLES).map(entry).collect();
    if more > 0 {
        let name = many(more, "more kind of trouble", "more kinds of trouble");
        entries.push(Entry { name, text: "in JSON".to_owned(), tone: Tone::Bad });
    }
    (!entries.is_empty()).then_some(Block::Entries(entries))
}

/// Inputs of other commands, those of a kind together.
fn further(view: &Examination) -> Option<Block> {
    let kinds = view.further_files.chunk_by(|a, b| a.kind == b.kind);
    let entries: Vec<Entry> = kinds
        .filter_map(|files| {
            let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            let first = files.first()?;
            let what = if files.len() > 1 {
                format!("{}, read", first.kind.row().several)
            } else {
                format!("{}, read", first.what)
            };
            let text = format!("{what} by nsysnccl {}", first.read_by);
            Some(Entry { name: listed(&names), text, tone: Tone::Neutral })
        })
        .collect();
    (!entries.is_empty()).then_some(Block::Entries(entries))
}

/// The first few names.
fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES)].join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn method() -> Vec<String> {
    vec![
        "Rows were counted, nothing was measured. Steps and ranks are those that report finds with the same files; “in part” means that a \
         number is there and says less than it could. Of a captured environment only NCCL and CUDA settings are read."
            .to_owned(),
    ]
}
