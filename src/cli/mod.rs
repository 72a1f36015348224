//! What was typed, and what runs for it.

pub mod compare;
pub mod doctor;
pub mod inputs;
pub mod inspect;
pub mod npkit;
pub(crate) mod output;
pub mod progress;
pub mod report;
pub mod trace;

use std::sync::OnceLock;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{Error, Result};

const EXIT_STATUS: &str = "Exit status:
  0  done
  1  a --gate failed: a variant is slower
  2  wrong usage
  3  an input could not be read or holds nothing to report, or an output could not be written; nothing is written
  4  done, but some inputs were unusable (--keep-going)
  5  a --gate was inconclusive
A signal ends it as it ends any program (130 SIGINT, 143 SIGTERM, 134 where memory runs out); files appear whole or not at all.
A reader that closes the pipe (| head) is not an error: the rest is not written, and the status says how the work ended";

/// `0.1.0 (1a2b3c4d5e6f)`: a release says from which commit it is.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| match option_env!("NSYSNCCL_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// How much of a training step is communication, whether it hides behind compute, and whether a change helped.
#[derive(Debug, Parser)]
#[command(name = "nsysnccl", version = version(), about, after_help = EXIT_STATUS, max_term_width = 120)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report on one run: what share of each step is communication, what of it is exposed, what overlaps, copies, idle.
    Report(Box<report::ReportArgs>),
    /// Compare variants of one program: which change helped, by how much, and why.
    Compare(Box<compare::CompareArgs>),
    /// Write a run as a trace for Perfetto and chrome://tracing, all ranks on one clock.
    Trace(Box<trace::TraceArgs>),
    /// Read Inspector logs alone: bandwidths, times and waits of the whole run, by communicator, operation and size.
    Inspect(Box<inspect::InspectArgs>),
    /// Read NPKit dumps alone: what each channel of each rank does inside of the collectives, and where it waits.
    Npkit(Box<npkit::NpkitArgs>),
    /// Say what is in some files, what is missing for a report, and how to capture it.
    Doctor(Box<doctor::DoctorArgs>),
    /// Write shell completions to standard output.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page to standard output.
    Man {
        /// The command that it is about; without one, the page of nsysnccl.
        #[arg(value_parser = ["report", "compare", "trace", "inspect", "npkit", "doctor", "completions"])]
        command: Option<String>,
    },
}

/// How a command that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// A gate failed: a variant is slower.
    GateFailed,
    /// A gate was inconclusive, and none failed.
    GateInconclusive,
    /// Done without some inputs, which were named.
    Incomplete,
}

impl Outcome {
    /// The exit status.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::GateFailed => 1,
            Outcome::GateInconclusive => 5,
            Outcome::Incomplete => 4,
        }
    }
}

/// Runs what was typed.
///
/// # Errors
/// Whatever the command fails with, or threads that cannot be started.
pub fn run(cli: &Cli) -> Result<Outcome> {
    match &cli.command {
        Command::Report(args) => in_pool(args.steps.threads, || report::run(args)),
        Command::Compare(args) => in_pool(args.steps.threads, || compare::run(args)),
        Command::Trace(args) => in_pool(args.steps.threads, || trace::run(args)),
        Command::Inspect(args) => in_pool(args.threads, || inspect::run(args)),
        Command::Npkit(args) => in_pool(args.threads, || npkit::run(args)),
        Command::Doctor(args) => in_pool(args.threads, || doctor::run(args)),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "nsysnccl", &mut text);
            output::to_stdout(|out| out.write_all(&text))?;
            Ok(Outcome::Done)
        }
        Command::Man { command } => {
            let mut text = Vec::new();
            let mut all = Cli::command();
            all.build();
            let page =
                command.as_ref().and_then(|name| all.find_subcommand(name)).unwrap_or(&all).clone();
            clap_mangen::Man::new(page)
                .render(&mut text)
                .map_err(|e| Error::usage(format!("the man page could not be made: {e}")))?;
            output::to_stdout(|out| out.write_all(&text))?;
            Ok(Outcome::Done)
        }
    }
}

/// Runs a command with the asked-for number of threads: all of it, so that nothing starts others.
fn in_pool(
    threads: Option<u16>,
    command: impl FnOnce() -> Result<Outcome> + Send,
) -> Result<Outcome> {
    let threads = threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|e| {
        let asked = if threads == 0 { "worker".into() } else { format!("--threads {threads}:") };
        Error::usage(format!("{asked} threads cannot be started: {e}"))
    })?;
    pool.install(command)
}
