//! What is in some files, which numbers a report of them has, what is missing, and how to capture it.
//!
//! ```text
//! paths --files--> exports, Inspector logs, NCCL logs, topologies --runs--> which belong together, steps, ranks
//!                                                   '--> numbers, findings, command (pure) --> Examination
//! ```
//! Steps and ranks come from the rules of `report` itself, so that what is said here is what happens there.

mod assemble;
mod command;
mod files;
mod findings;
mod nccl_log;
mod numbers;
mod runs;
mod view;

pub use files::{Listed, list};
pub use numbers::alone;
pub use view::*;

use std::path::PathBuf;

use crate::ingest::kind::{self, Kind};
use crate::{Error, Result};

/// Files that are named in an error, at most.
const NAMED: usize = 20;

/// Looks into every file of a [`list`]. `tick` is called once for each that was read.
///
/// # Errors
/// Nothing in the files can be used.
pub fn examine(listed: &[Result<Listed>], tick: impl Fn() + Sync) -> Result<Examination> {
    let read = read(listed, tick)?;
    let runs = runs::of(read.exports, &read.inspector, &read.nccl_logs, &read.topologies)?;
    Ok(assemble::assemble(
        (runs, read.without_work),
        read.inspector,
        read.nccl_logs,
        read.topologies,
        read.further,
        (&read.other, &read.unusable),
    ))
}

/// What belongs together among some files, for commands that take a folder.
#[derive(Debug)]
pub struct Together {
    /// The runs, each with its exports, logs and topology.
    pub runs: Vec<Run>,
    /// Exports without GPU work, which belong to no run.
    pub without_work: Vec<String>,
    /// Inputs of other commands and of other options.
    pub further: Vec<FurtherFile>,
    /// Files that cannot be used.
    pub unusable: Vec<Error>,
    /// A command that compares the runs, one word each, if they can be.
    pub compare_command: Option<Vec<String>>,
}

/// Finds what belongs together, by the same rules as [`examine`].
///
/// # Errors
/// Nothing in the files can be used.
pub fn together(listed: &[Result<Listed>], tick: impl Fn() + Sync) -> Result<Together> {
    let read = read(listed, tick)?;
    let runs = runs::of(read.exports, &read.inspector, &read.nccl_logs, &read.topologies)?;
    let runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    Ok(Together {
        compare_command: command::compare(&runs),
        runs,
        without_work: read.without_work.into_iter().map(|(export, _)| export.path).collect(),
        further: read.further.into_iter().collect(),
        unusable: read.unusable,
    })
}

impl Together {
    /// The files of a kind, in order.
    pub fn of(&self, kind: Kind) -> Vec<PathBuf> {
        let of_kind = self.further.iter().filter(|file| file.kind == kind);
        of_kind.map(|file| PathBuf::from(&file.path)).collect()
    }
}

/// Reads every file.
fn read(listed: &[Result<Listed>], tick: impl Fn() + Sync) -> Result<files::Read> {
    let read = files::read(listed, &tick)?;
    let nothing = read.exports.is_empty()
        && read.without_work.is_empty()
        && read.inspector.is_empty()
        && read.nccl_logs.is_empty()
        && read.topologies.is_empty()
        && read.further.is_empty();
    if nothing { Err(nothing_usable(&read.unusable, read.other.len())) } else { Ok(read) }
}

fn nothing_usable(unusable: &[Error], other: usize) -> Error {
    match unusable {
        [] => Error::inputs(format!("none of the {other} files there is one that nsysnccl reads"))
            .with_hint(format!("name some of these: {}", kind::list())),
        [one] => one.clone(),
        [first, ..] => {
            let named: Vec<String> = unusable.iter().take(NAMED).map(ToString::to_string).collect();
            let more = unusable.len().saturating_sub(NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let error = Error::inputs(format!(
                "nothing in these {} files can be used: {}{more}",
                unusable.len(),
                named.join("; ")
            ));
            Error { hint: first.hint.clone(), ..error }
        }
    }
}
