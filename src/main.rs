//! Arguments in, one error with its hint out.

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use nsysnccl::internals::cli::output::note;
use nsysnccl::internals::cli::{self, Cli};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(said));
    match cli::run(&Cli::parse()) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            note(&format!("error: {error}"));
            if let Some(hint) = &error.hint {
                note(&format!("  try: {hint}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// What a mistake in the program says. Without a backtrace: where memory has run out, asking for one
/// (`RUST_BACKTRACE`) makes the standard library wait for itself.
fn said(panic: &PanicHookInfo<'_>) {
    note(&format!("error: a mistake in nsysnccl: {panic}"));
    note("  try: report it, with the command and `nsysnccl doctor` of the files");
}
