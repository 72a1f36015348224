//! `nsysnccl inspect`.

use std::path::PathBuf;

use clap::Args;

use super::output::OutputArgs;
use super::progress::Progress;
use super::{Outcome, inputs};
use crate::ingest::inspector;
use crate::inspect::{self, Filter, Inspected, Tally};
use crate::model::CommOp;
use crate::{Error, Result, units};

const ABOUT: &str =
    "Reads the logs of NCCL Inspector (JSON lines of every version, plain or .gz, and its Prometheus text) and says per communicator, \
operation and size: how often, how long, at which bandwidth, which ranks wait for which, and how it went over the run.

CSV has one row for each operation; every other format has the tables.";

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(long_about = ABOUT)]
pub struct InspectArgs {
    /// Inspector logs; folders are searched for .log, .jsonl, .json and .prom, also as .gz
    #[arg(required = true, value_name = "INSPECTOR_PATH")]
    pub paths: Vec<PathBuf>,
    /// Logs of another job to compare with: the same communicators, operations and sizes side by side. Takes every path up to
    /// the next option
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub against: Vec<PathBuf>,
    /// Leave out what was written before: 2026-11-30T01:45:54Z (UTC without a zone), Unix seconds or microseconds
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<i64>,
    /// Leave out what was written from then on
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<i64>,
    /// Only this communicator: its name, its id, or the beginning of its id (0x...)
    #[arg(long, value_name = "ID")]
    pub comm: Option<String>,
    /// Only this operation: AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Send, Recv
    #[arg(long, value_name = "OP", value_parser = operation)]
    pub op: Option<CommOp>,
    /// Also write the records as Parquet files, one for each log, to this folder (in builds with the feature `parquet`)
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Go on without inputs that cannot be used, name them, and exit with status 4
    #[arg(long)]
    pub keep_going: bool,
    /// Where the result goes.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn time(text: &str) -> std::result::Result<i64, String> {
    inspect::parse_time(text).map_err(|e| format!("{}; {}", e.fact, e.hint.unwrap_or_default()))
}

fn operation(text: &str) -> std::result::Result<CommOp, String> {
    CommOp::parse(text).ok_or_else(|| format!("'{text}' is not an operation of NCCL"))
}

/// Runs `inspect`.
///
/// # Errors
/// A path that cannot be read, logs without a record, a file that cannot be written.
pub fn run(args: &InspectArgs) -> Result<Outcome> {
    args.output.files()?;
    args.output.spare(args.paths.iter().chain(&args.against))?;
    if args.parquet.is_some() && !cfg!(feature = "parquet") {
        return Err(Error::usage("--parquet: this build cannot write Parquet files")
            .with_hint("build it with: cargo install --path . --features parquet"));
    }
    let filter =
        Filter { since_us: args.since, until_us: args.until, comm: args.comm.clone(), op: args.op };
    if let (Some(since), Some(until)) = (filter.since_us, filter.until_us)
        && since >= until
    {
        return Err(Error::usage("--until is not after --since"));
    }
    let Job { mut inspected, files, mut unusable } = job(&args.paths, &filter, args)?;
    if !args.against.is_empty() {
        let there = job(&args.against, &filter, args)?;
        inspected.view.against = Some(inspect::compare(&inspected.view, &there.inspected.view));
        unusable.extend(there.unusable);
    }
    write_parquet(args, &files, &filter, &inspected)?;
    args.output.name_left_out(&unusable);
    args.output.emit(&inspected)?;
    Ok(if unusable.is_empty() { Outcome::Done } else { Outcome::Incomplete })
}

#[cfg(feature = "parquet")]
fn write_parquet(
    args: &InspectArgs,
    files: &[PathBuf],
    filter: &Filter,
    inspected: &Inspected,
) -> Result<()> {
    let Some(folder) = &args.parquet else { return Ok(()) };
    let rows = inspect::parquet::write(files, filter, &inspected.left_out, folder)?;
    args.output.tell(|| format!("wrote {} records to {}", units::count(rows), folder.display()));
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &InspectArgs, _: &[PathBuf], _: &Filter, _: &Inspected) -> Result<()> {
    Ok(())
}

/// What the logs of one job say.
struct Job {
    inspected: Inspected,
    /// The files behind it.
    files: Vec<PathBuf>,
    /// Files that could not be read.
    unusable: Vec<Error>,
}

fn job(paths: &[PathBuf], filter: &Filter, args: &InspectArgs) -> Result<Job> {
    let files = inspector::files(&inputs::expand(paths)?)?;
    let budget = inspect::budget(files.len());
    let progress = Progress::new(files.len() as u64, "reading logs", args.output.quiet);
    let read = inspector::read(&files, || Tally::new(filter.clone(), budget), || progress.tick());
    let mut logs = Vec::with_capacity(read.len());
    let (mut usable, mut unusable) = (Vec::with_capacity(read.len()), Vec::new());
    for (path, result) in files.iter().zip(read) {
        match result {
            Ok(log) => {
                args.output.tell(|| {
                    format!("read {}: {} records", log.0.path, units::count(log.0.records))
                });
                logs.push(log);
                usable.push(path.clone());
            }
            Err(error) if args.keep_going => unusable.push(error),
            Err(error) => return Err(error),
        }
    }
    if logs.iter().all(|(log, _)| log.records == 0) {
        let first = logs.iter().find_map(|(log, _)| Some((log, log.bad.first()?)));
        let why = first.map_or_else(String::new, |(log, bad)| {
            format!(": line {} of {} {}", bad.line, log.path, bad.reason)
        });
        return Err(Error::inputs(format!("no Inspector record in {} file{}{why}", files.len(), if files.len() == 1 { "" } else { "s" }))
            .with_hint("name the logs that NCCL_PROFILER_PLUGIN with NCCL_INSPECTOR_ENABLE=1 wrote; they are empty unless NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS is set"));
    }
    let inspected = inspect::inspect(logs, filter);
    if inspected.view.operations == 0 && inspected.view.filtered_operations > 0 {
        return Err(Error::usage(format!(
            "the filters leave none of {} records",
            inspected.view.filtered_operations
        ))
        .with_hint("relax --since, --until, --comm or --op"));
    }
    Ok(Job { inspected, files: usable, unusable })
}
