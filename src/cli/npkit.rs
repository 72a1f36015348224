//! `nsysnccl npkit`.

use std::path::PathBuf;

use clap::Args;

use super::output::OutputArgs;
use super::{Outcome, inputs};
use crate::Result;
use crate::npkit::ids::{Ids, Library};
use crate::npkit::read::Table;
use crate::npkit::{self, view};

const ABOUT: &str = "Reads the dumps that NPKit leaves in NPKIT_DUMP_DIR and says for each collective, rank and channel where the time goes: \
parts of a ring or tree, sends and receives, waiting, the network's proxies. `report --npkit` puts the same into the kernels of a report.

CSV has one row for each collective, rank, channel and primitive; every other format has the tables.";

const EXAMPLES: &str = "Examples:
  nsysnccl npkit dump/
  nsysnccl npkit host0/dump host1/dump --lib rccl -o npkit.html
  nsysnccl npkit npkit_event_trace.json     what NPKit's generator made of a dump, less exact";

/// Arguments of `npkit`.
#[derive(Debug, Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct NpkitArgs {
    /// Folders with the dumps of one communicator, or the one JSON that NPKit's generator made of them
    #[arg(required = true, value_name = "DUMP_DIR|TRACE.json")]
    pub paths: Vec<PathBuf>,
    /// The library that wrote them [default: what fits the numbers of their events]
    #[arg(long, value_enum, value_name = "LIBRARY", conflicts_with = "header")]
    pub lib: Option<Library>,
    /// Its npkit_event.h, where the numbers of events are other ones
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where the result goes.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs `npkit`.
///
/// # Errors
/// Nothing that NPKit wrote, a file that cannot be read or written, numbers that mean different things in libraries that fit.
pub fn run(args: &NpkitArgs) -> Result<Outcome> {
    args.output.files()?;
    let paths = inputs::expand(&args.paths)?;
    args.output.spare(paths.iter().chain(&args.header))?;
    let table = match (&args.header, args.lib) {
        (Some(header), _) => Table::Given(Ids::of_header(header)?),
        (None, Some(library)) => Table::Given(Ids::of(library)),
        (None, None) => Table::Fitting(&Library::ALL),
    };
    let dump = npkit::read(&paths, table)?;
    let inputs = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    args.output.emit(&view::view(&dump, inputs))?;
    Ok(Outcome::Done)
}
