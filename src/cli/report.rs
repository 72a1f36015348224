//! `nsysnccl report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::inputs::OneRun;
use super::output::OutputArgs;
use super::progress::Progress;
use super::{Outcome, inputs};
use crate::compare::group::{self, Files};
use crate::render::view::WithTimeline;
use crate::render::{Format, units};
use crate::report::timeline::Timeline;
use crate::report::{By, Report};
use crate::reporting;
use crate::run::{Options, Run};
use crate::steps::{StepChoice, WindowKind};
use crate::{Error, Result};

const EXAMPLES: &str = "Examples:
  nsysnccl report ddp_*.sqlite
  nsysnccl report captures/                                         all that belongs to a run in a folder
  nsysnccl report ddp_*.sqlite --inspector logs/ --nccl-log nccl.*.log --topo topo.txt
  nsysnccl report ddp_*.sqlite --step '^train_step' --skip 2 -o report.html -o report.json
  nsysnccl report run.sqlite --step-kernel '^embedding_forward'     without NVTX ranges";

/// What a step's window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Window {
    /// Where the step's work ran on the GPU.
    Gpu,
    /// The NVTX range on the CPU.
    Cpu,
    /// From the first work of one range to that of the next, whatever runs between.
    Period,
}

/// What the time of steps is told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ByArg {
    /// The outermost NVTX range inside the step.
    Phase,
    /// The innermost such range, and collectives by their number in the step.
    Layer,
    /// The communicator, by its role: a guess.
    Communicator,
    /// The kernel or kind of copy.
    Kernel,
}

impl ByArg {
    fn by(self) -> By {
        match self {
            ByArg::Phase => By::Phase,
            ByArg::Layer => By::Layer,
            ByArg::Communicator => By::Communicator,
            ByArg::Kernel => By::Kernel,
        }
    }
}

/// Options that change how steps and ranks are found; `report` and `compare` share them.
#[derive(Debug, Args)]
pub struct StepArgs {
    /// Regular expression for the text of step ranges, or `whole` for the whole capture as one step
    #[arg(long, value_name = "REGEX|whole", conflicts_with = "step_kernel")]
    pub step: Option<String>,
    /// A step starts with each kernel whose name matches
    #[arg(long, value_name = "REGEX")]
    pub step_kernel: Option<String>,
    /// What a step's window is: where its work ran on the GPU, the NVTX range on the CPU, or the period from the work of one range to
    /// that of the next [default: gpu, or period where ranges cover only a part of what recurs]
    #[arg(long, value_enum)]
    pub window: Option<Window>,
    /// Keep the first captured step in summaries even if it is an outlier
    #[arg(long)]
    pub keep_first: bool,
    /// Leave out the first N steps of each rank
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: usize,
    /// Steps of the run to report on, e.g. 5-7,9, by their index in JSON and CSV: the first is 0
    #[arg(long, value_name = "LIST", value_parser = parse_steps, conflicts_with = "skip")]
    pub steps: Option<NumberList>,
    /// Leave every outlier step out of summaries, not only a first one
    #[arg(long)]
    pub exclude_outliers: bool,
    /// Ranks to report on, e.g. 0,3-5
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    pub ranks: Option<NumberList>,
    /// Take the rank from the file name: a regular expression with a group named `rank`
    #[arg(long, value_name = "REGEX")]
    pub rank_regex: Option<String>,
    /// Kernels whose name matches are communication too
    #[arg(long, value_name = "REGEX")]
    pub comm_regex: Option<String>,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Go on without inputs that cannot be used, name them, and exit with status 4
    #[arg(long)]
    pub keep_going: bool,
}

/// A list of numbers, in order, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberList(pub Vec<u32>);

fn parse_ranks(text: &str) -> std::result::Result<NumberList, String> {
    parse_numbers(text, "rank")
}

fn parse_steps(text: &str) -> std::result::Result<NumberList, String> {
    parse_numbers(text, "step")
}

/// Numbers and ranges of them: `0,3-5`.
fn parse_numbers(text: &str, what: &str) -> std::result::Result<NumberList, String> {
    let number = |text: &str| {
        text.trim().parse::<u32>().map_err(|_| format!("'{text}' is not the number of a {what}"))
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => list.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last || last - first > 1_000_000 {
                    return Err(format!("'{part}' is not a range of {what}s"));
                }
                list.extend(first..=last);
            }
        }
    }
    list.sort_unstable();
    list.dedup();
    Ok(NumberList(list))
}

impl StepArgs {
    /// The options of the pipeline.
    pub fn options(&self) -> Options {
        let step = match (&self.step, &self.step_kernel) {
            (_, Some(kernel)) => StepChoice::Kernel(kernel.clone()),
            (Some(word), None) if word == "whole" => StepChoice::Whole,
            (Some(pattern), None) => StepChoice::Pattern(pattern.clone()),
            (None, None) => StepChoice::Automatic,
        };
        Options {
            step,
            window: self.window.map(|window| match window {
                Window::Gpu => WindowKind::Gpu,
                Window::Cpu => WindowKind::Cpu,
                Window::Period => WindowKind::Period,
            }),
            skip: self.skip,
            steps: self.steps.as_ref().map(|list| list.0.clone()),
            keep_first: self.keep_first,
            exclude_outliers: self.exclude_outliers,
            ranks: self.ranks.as_ref().map(|list| list.0.clone()),
            rank_regex: self.rank_regex.clone(),
            comm_regex: self.comm_regex.clone(),
            keep_going: self.keep_going,
            ..Options::default()
        }
    }
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "nsysnccl report [OPTIONS] <REPORT.sqlite|FOLDER>...")]
pub struct ReportArgs {
    /// Reports of one run: .sqlite, as `nsys export --type sqlite` writes it; .nsys-rep, which the nsys on the PATH exports into the
    /// cache; or a folder, in which the reports, logs and topology of a run are found. Patterns like 'ddp_*.sqlite' are expanded
    #[arg(required_unless_present_any = ["inspector", "nccl_log"], value_name = "REPORT.sqlite|FOLDER")]
    pub reports: Vec<PathBuf>,
    /// NCCL Inspector logs of the run, or folders with them: pairs kernels with records, which adds sizes and bandwidths
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub inspector: Vec<PathBuf>,
    /// NCCL logs of the run (NCCL_DEBUG=INFO): which transport each pair of ranks uses, and which ranks communicators have
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub nccl_log: Vec<PathBuf>,
    /// Output of `nvidia-smi topo -m` on the run's machine: which transport would be possible
    #[arg(long, value_name = "FILE")]
    pub topo: Option<PathBuf>,
    /// Print what changes would gain: no communication, nobody late, copies free, ... (JSON has it in any case)
    #[arg(long, conflicts_with = "no_replay")]
    pub what_if: bool,
    /// Where in the program the time goes, with idle time before each and its share of the critical path; CSV is this table then
    #[arg(long, value_enum)]
    pub by: Option<ByArg>,
    /// Leave out the replay: no critical path, no predicted gains, less time and memory
    #[arg(long)]
    pub no_replay: bool,
    /// Folders with NPKit dumps of one communicator of the run: what happens inside of its kernels
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub npkit: Vec<PathBuf>,
    /// Counters of GPUs that were sampled during the run, where nsys sampled none: output of dcgmi dmon, the DCGM exporter or
    /// nvidia-smi dmon
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub counters: Vec<PathBuf>,
    /// Also write operations, steps, collectives, waits and findings as Parquet files to this folder (in builds with the feature
    /// `parquet`)
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<PathBuf>,
    /// How steps and ranks are found.
    #[command(flatten)]
    pub steps: StepArgs,
    /// Where the report goes.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs `report`.
///
/// # Errors
/// See [`Run::read`]; a file that cannot be written.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    args.output.files()?;
    if args.parquet.is_some() && !cfg!(feature = "parquet") {
        return Err(Error::usage("--parquet: this build cannot write Parquet files")
            .with_hint("build it with: cargo install --path . --features parquet"));
    }
    let (mut reports, mut nccl_logs) = (args.reports.clone(), args.nccl_log.clone());
    let (mut inspector, mut npkit) = (args.inspector.clone(), args.npkit.clone());
    let mut counters = args.counters.clone();
    // `--inspector logs/ ddp_*.sqlite`: the option takes all that follows, but a report is never a log.
    for logs in [&mut inspector, &mut nccl_logs, &mut npkit, &mut counters] {
        reports.extend(logs.extract_if(.., |path| inputs::is_report(path)));
    }
    if reports.is_empty() {
        return Err(Error::usage("no report was named").with_hint(
            "nsysnccl report REPORT.sqlite... --inspector PATH... --nccl-log FILE...; nsysnccl doctor FOLDER proposes the command",
        ));
    }
    let named = Files {
        reports: inputs::expand(&reports)?,
        inspector: inputs::expand(&inspector)?,
        nccl_logs: inputs::expand(&nccl_logs)?,
        topology: args.topo.clone(),
    };
    // Of a folder of reports only what is found is read.
    args.output
        .spare(named.all().filter(|path| !(path.is_dir() && named.reports.contains(path))))?;
    let found = inputs::one_run(named, args.steps.keep_going, &args.output)?;
    args.output.spare(found.files.all())?;
    let OneRun { files, beside, unusable } = found;
    let Files { reports: paths, inspector, nccl_logs, topology } = files;
    let found_beside = npkit.is_empty() && counters.is_empty();
    let beside = beside.or(&npkit, &counters, &args.output)?;
    args.output.spare(&beside.counters)?;
    let options = Options {
        nccl_logs,
        topology,
        inspector,
        npkit: beside.npkit,
        counters: beside.counters,
        found_beside,
        replay: !args.no_replay,
        pieces: args.output.asks_for(Format::Html),
        what_if: args.what_if,
        by: args.by.map(ByArg::by),
        ..args.steps.options()
    };
    let progress = Progress::new(paths.len() as u64, "reading reports", args.output.quiet);
    let run = Run::read(&paths, &options, || progress.tick());
    let mut run = run.map_err(|error| proposing_compare(error, &paths))?;
    drop(progress);
    run.unusable.splice(0..0, unusable);
    let report = reporting::of(&run);
    tell_inputs(&args.output, &report);
    args.output.name_left_out(&run.unusable);
    write_parquet(args, &run, &report)?;
    // Only pages have it, and of a large run it is not made in vain.
    let timeline = args.output.asks_for(Format::Html).then(|| Timeline::of(&run)).flatten();
    args.output.emit(&WithTimeline { report: &report, timeline })?;
    Ok(if run.unusable.is_empty() { Outcome::Done } else { Outcome::Incomplete })
}

#[cfg(feature = "parquet")]
fn write_parquet(args: &ReportArgs, run: &Run, report: &Report) -> Result<()> {
    let Some(folder) = &args.parquet else { return Ok(()) };
    let rows = crate::tables::rows::write(run, report, folder)?;
    args.output.tell(|| format!("wrote {} rows to {}", units::count(rows), folder.display()));
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn write_parquet(_: &ReportArgs, _: &Run, _: &Report) -> Result<()> {
    Ok(())
}

/// With `--verbose`: what each file held, and which ranks came of it.
pub(super) fn tell_inputs(output: &OutputArgs, report: &Report) {
    for input in &report.inputs {
        output.tell(|| {
            let rows = input
                .capture
                .rows
                .iter()
                .map(|(kind, n)| format!("{kind} {}", units::count(*n)))
                .collect::<Vec<_>>()
                .join(", ");
            format!("read {} ({}): {rows}", input.path, units::bytes(input.size_bytes))
        });
    }
    for rank in &report.ranks {
        output.tell(|| {
            let steps = units::plural(rank.steps.len(), "step");
            format!(
                "rank {} (from {}): process {} in {}, {steps}",
                rank.rank,
                rank.rank_source.label(),
                rank.pid,
                rank.report
            )
        });
    }
}

/// An error that no single file is to blame for may come from files of several runs: then the hint is how to compare them.
fn proposing_compare(error: Error, paths: &[PathBuf]) -> Error {
    match group::several_runs(paths).filter(|_| error.path.is_none()) {
        Some(command) => {
            Error { hint: Some(format!("these look like several runs: {command}")), ..error }
        }
        None => error,
    }
}
