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
mod numbers;
mod runs;
mod view;

pub use files::{Listed, list};
pub use numbers::alone;
pub use view::*;

use crate::{Error, Result};

/// Files that are named in an error, at most.
const NAMED: usize = 20;

/// Looks into every file of a [`list`]. `tick` is called once for each that was read.
///
/// # Errors
/// Nothing in the files can be used.
pub fn examine(listed: &[Result<Listed>], tick: impl Fn() + Sync) -> Result<Examination> {
    let files::Read { exports, without_work, inspector, nccl_logs, topologies, other, unusable } =
        files::read(listed, &tick)?;
    let nothing = exports.is_empty() && without_work.is_empty();
    if nothing && inspector.is_empty() && nccl_logs.is_empty() && topologies.is_empty() {
        return Err(nothing_usable(&unusable, other.len()));
    }
    let runs = runs::of(exports, &inspector, &nccl_logs, &topologies)?;
    Ok(assemble::assemble(
        (runs, without_work),
        inspector,
        nccl_logs,
        topologies,
        (&other, &unusable),
    ))
}

fn nothing_usable(unusable: &[Error], other: usize) -> Error {
    match unusable {
        [] => Error::inputs(format!("none of the {other} files there is one that nsysnccl reads"))
            .with_hint("name exports of nsys (.sqlite), NCCL Inspector logs, NCCL logs or the output of nvidia-smi topo -m"),
        [one] => one.clone(),
        [first, ..] => {
            let named: Vec<String> = unusable.iter().take(NAMED).map(ToString::to_string).collect();
            let more = unusable.len().saturating_sub(NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let error = Error::inputs(format!("nothing in these {} files can be used: {}{more}", unusable.len(), named.join("; ")));
            Error { hint: first.hint.clone(), ..error }
        }
    }
}
