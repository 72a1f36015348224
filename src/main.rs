//! Arguments in, one error with its hint out.

use std::process::ExitCode;

use clap::Parser;
use nsysnccl::cli::{self, Cli};

fn main() -> ExitCode {
    match cli::run(&Cli::parse()) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            anstream::eprintln!("error: {error}");
            if let Some(hint) = &error.hint {
                anstream::eprintln!("  try: {}", nsysnccl::text::printable(hint));
            }
            ExitCode::from(error.exit_code())
        }
    }
}
