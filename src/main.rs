//! Arguments in, one error with its hint out.

use std::process::ExitCode;

use clap::Parser;
use nsysnccl::cli::output::note;
use nsysnccl::cli::{self, Cli};

fn main() -> ExitCode {
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
