//! `nsysnccl trace`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ColorChoice};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::Outcome;
use super::inputs::{self, OneRun};
use super::output::{OutputArgs, note, to_stdout};
use super::progress::Progress;
use super::report::StepArgs;
use crate::compare::group::Files;
use crate::run::{Options, Run};
use crate::stage::Stage;
use crate::trace::writer::Counts;
use crate::trace::{self, Options as Drawn};
use crate::{Error, Result, units};

const ABOUT: &str = "Writes a run as a trace (Trace Event Format) that ui.perfetto.dev and chrome://tracing open: one process a rank, all on \
one clock, with lanes for steps, the critical path, NVTX ranges, NCCL and CUDA calls, compute by stream, communication by communicator, \
waits and copies. Arrows lead from launching calls to operations, and through the ranks of each collective to the one that came last. \
Counters say how many operations run. With NPKit's dumps there is a lane for each channel, and what was sampled of \
the GPUs (GPU metrics of nsys, DCGM, nvidia-smi) are counters, too.";

const EXAMPLES: &str = "Examples:
  nsysnccl trace ddp_*.sqlite -o ddp.json.gz
  nsysnccl trace ddp_*.sqlite --steps 5-7,9 --ranks 0,3-5 --min-us 10 -o part.json.gz
  nsysnccl trace run.sqlite -o - | gzip > run.json.gz";

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, override_usage = "nsysnccl trace [OPTIONS] <REPORT.sqlite|FOLDER>... --output <FILE>")]
pub struct TraceArgs {
    /// Reports of one run, as `nsysnccl report` takes them
    #[arg(required = true, value_name = "REPORT.sqlite|FOLDER")]
    pub reports: Vec<PathBuf>,
    /// The file to write: .json.gz or .json; - is standard output (not compressed)
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Leave out operations, calls, ranges and waits shorter than this, microseconds; steps, critical paths and counters stay whole
    #[arg(long, value_name = "US", default_value = "0", allow_negative_numbers = true, value_parser = parse_micros)]
    pub min_us: MinNs,
    /// NCCL Inspector logs of the run, or folders with them: adds sizes and bandwidths
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub inspector: Vec<PathBuf>,
    /// NCCL logs of the run (NCCL_DEBUG=INFO): which ranks communicators have
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub nccl_log: Vec<PathBuf>,
    /// NPKit's dumps of the run, or folders with them: channels inside of the communication kernels
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub npkit: Vec<PathBuf>,
    /// Counters of the run's GPUs, as `nsysnccl report` takes them; those that nsys sampled are in the reports
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub counters: Vec<PathBuf>,
    /// Leave out the host's calls, the critical path and arrows from launches: less time and memory
    #[arg(long)]
    pub no_replay: bool,
    /// How steps and ranks are found.
    #[command(flatten)]
    pub steps: StepArgs,
    /// No progress and no warnings on standard error
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say on standard error what was read
    #[arg(short, long)]
    pub verbose: bool,
}

/// A shortest time, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinNs(pub i64);

fn parse_micros(text: &str) -> std::result::Result<MinNs, String> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=1e12).contains(&us) => Ok(MinNs((us * 1000.0).round() as i64)),
        _ => Err(format!("'{text}' is not a number of microseconds")),
    }
}

/// Runs `trace`.
///
/// # Errors
/// See [`Run::read`]; a file that cannot be written.
pub fn run(args: &TraceArgs) -> Result<Outcome> {
    let output = OutputArgs {
        format: None,
        output: vec![args.output.clone()],
        color: ColorChoice::Auto,
        width: None,
        full: false,
        quiet: args.quiet,
        verbose: args.verbose,
    };
    let target = Target::of(&args.output)?;
    let mut reports = args.reports.clone();
    let (mut inspector, mut nccl_logs) = (args.inspector.clone(), args.nccl_log.clone());
    let (mut npkit, mut counters) = (args.npkit.clone(), args.counters.clone());
    for logs in [&mut inspector, &mut nccl_logs, &mut npkit, &mut counters] {
        reports.extend(logs.extract_if(.., |path| inputs::is_report(path)));
    }
    let named = Files {
        reports: inputs::expand(&reports)?,
        inspector: inputs::expand(&inspector)?,
        nccl_logs: inputs::expand(&nccl_logs)?,
        topology: None,
    };
    // Of a folder of reports only what is found is read.
    output.spare(named.all().filter(|path| !(path.is_dir() && named.reports.contains(path))))?;
    let found = inputs::one_run(named, args.steps.keep_going, &output)?;
    output.spare(found.files.all())?;
    let OneRun { files, beside, unusable } = found;
    let found_beside = npkit.is_empty() && counters.is_empty();
    let beside = beside.or(&npkit, &counters, &output)?;
    output.spare(&beside.counters)?;
    let options = Options {
        nccl_logs: files.nccl_logs,
        inspector: files.inspector,
        npkit: beside.npkit,
        counters: beside.counters,
        found_beside,
        replay: !args.no_replay,
        pieces: !args.no_replay,
        ..args.steps.options()
    };
    let progress = Progress::new(files.reports.len() as u64, "reading reports", args.quiet);
    let mut run = Run::read(&files.reports, &options, || progress.tick())?;
    drop(progress);
    run.unusable.splice(0..0, unusable);
    output.name_left_out(&run.unusable);
    for warning in run.warnings.iter().filter(|_| args.verbose) {
        note(&format!("warning: {}", warning.message));
    }
    let drawn = Drawn { min_ns: args.min_us.0 };
    let (counts, size) = target.write(&args.output, &run, drawn)?;
    if !args.quiet && target != Target::Stdout {
        note(&wrote(&args.output, &counts, size));
    }
    if !args.quiet
        && let Some(reason) = run.dependency.replay.reason.as_ref().filter(|_| !args.no_replay)
    {
        note(&format!("no critical path: {reason}"));
    }
    Ok(if run.unusable.is_empty() { Outcome::Done } else { Outcome::Incomplete })
}

/// `wrote ddp.json.gz (1.2 MB): 2 ranks, 34 tracks, 12,345 slices, 6,789 arrows; 12 slices left out ...`.
fn wrote(path: &Path, counts: &Counts, size: u64) -> String {
    let mut text = format!(
        "wrote {} ({}): {}, {}, {} slices, {} arrows",
        path.display(),
        units::bytes(size),
        units::plural(counts.processes as usize, "rank"),
        units::plural(counts.tracks as usize, "track"),
        units::count(counts.slices),
        units::count(counts.flows),
    );
    for (n, what) in [
        (counts.left_out_short, "slices shorter than --min-us left out"),
        (counts.left_out_crowded, "slices left out, since more run at once than a lane has tracks"),
        (
            counts.launches_without_call,
            "operations without arrow: their launch is not in the capture",
        ),
        (counts.launches_backwards, "operations without arrow: they start before their launch"),
    ] {
        if n > 0 {
            text.push_str(&format!("; {} {what}", units::count(n)));
        }
    }
    text
}

/// Where a trace goes, and how it is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Stdout,
    Json,
    Gzip,
}

impl Target {
    fn of(path: &Path) -> Result<Target> {
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        if path.is_dir() {
            return Err(Error::usage(format!("--output '{}' is a folder", path.display()))
                .with_hint("name a file in it"));
        }
        let name = path.to_string_lossy().to_lowercase();
        match (name.ends_with(".json"), name.ends_with(".json.gz")) {
            (true, _) => Ok(Target::Json),
            (_, true) => Ok(Target::Gzip),
            _ => Err(Error::usage(format!(
                "the ending of '{}' does not say which format to write",
                path.display()
            ))
            .with_hint("end the name in .json.gz or .json")),
        }
    }

    /// Writes the trace; returns what is in it and its size, bytes.
    fn write(self, path: &Path, run: &Run, drawn: Drawn) -> Result<(Counts, u64)> {
        let mut counts = Counts::default();
        if self == Target::Stdout {
            to_stdout(|out| {
                counts = trace::write(run, drawn, out)?;
                Ok(())
            })?;
            return Ok((counts, 0));
        }
        let mut stage = Stage::default();
        let size = stage.fill(path, |out| {
            if self == Target::Json {
                counts = trace::write(run, drawn, out)?;
                return Ok(());
            }
            let mut packed = std::io::BufWriter::new(GzEncoder::new(out, Compression::new(4)));
            counts = trace::write(run, drawn, &mut packed)?;
            packed.flush()?;
            packed.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish().map(|_| ())
        })?;
        stage.place()?;
        Ok((counts, size))
    }
}
