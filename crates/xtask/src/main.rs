//! Development commands: `cargo xtask --help`.

mod generate;
#[cfg(test)]
mod tidy;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Development commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write `crates/protocol/src/messages` from the schemas.
    Generate {
        /// Only say what is stale.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Generate { check } => generate::run(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
