//! `nsysnccl doctor`.

use std::path::PathBuf;

use clap::Args;

use super::output::OutputArgs;
use super::progress::Progress;
use super::{Outcome, inputs};
use crate::{Result, doctor};

const ABOUT: &str =
    "Looks into exports of nsys, NCCL Inspector logs, NCCL logs and topologies, in any mixture, and says what each holds, which \
belong together as one run, which numbers a report of them has, which are null and why, how to capture what is missing, and which command \
to run. Files are only read.

CSV has one row for each run and group of numbers; every other format has all of it.";

const EXAMPLES: &str = "Examples:
  nsysnccl doctor captures/
  nsysnccl doctor ddp_*.sqlite nccl.*.log topo.txt -o doctor.html
  nsysnccl doctor captures/ --format json";

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Files or folders, which are searched; patterns like 'ddp_*.sqlite' are expanded
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where the result goes.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs `doctor`. Files that cannot be used are part of the result, as long as there is another one.
///
/// # Errors
/// Nothing in the files can be used, a pattern that matches nothing, a file that cannot be written.
pub fn run(args: &DoctorArgs) -> Result<Outcome> {
    args.output.files()?;
    let paths = inputs::expand(&args.paths)?;
    let files = doctor::list(&paths);
    let progress = Progress::new(files.len() as u64, "looking into files", args.output.quiet);
    let examined = doctor::examine(&files, || progress.tick())?;
    drop(progress);
    // What an earlier call left in one of the folders may be written again.
    let left =
        |path: &PathBuf| examined.other_files.iter().any(|other| *other == path.to_string_lossy());
    args.output.spare(files.iter().flatten().map(|file| &file.path).filter(|path| !left(path)))?;
    for file in files.iter().flatten() {
        args.output.tell(|| format!("looked into {}", file.path.display()));
    }
    args.output.emit(&examined)?;
    Ok(Outcome::Done)
}
