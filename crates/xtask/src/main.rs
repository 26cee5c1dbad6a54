//! Development commands: `cargo xtask --help`.

mod fuzz;
mod generate;
mod schema_check;
#[cfg(test)]
mod tidy;
mod tools;

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
    /// Compare our schemas with those in the jars of Kafka 3.9 and 4.4, which it fetches.
    SchemaCheck,
    /// Measure Barnabas beside Apache Kafka: `cargo xtask bench s7 --against 4.3.1`.
    #[command(disable_help_flag = true)]
    Bench {
        /// Scenarios and options of `barnabas-bench run`; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Have libFuzzer look for bytes from outside that are read wrongly: `cargo xtask fuzz recovery --seconds 600`.
    Fuzz(fuzz::Fuzz),
    /// Compare our answers with Apache Kafka's, field by field: `cargo xtask differential --api Fetch`.
    #[command(disable_help_flag = true)]
    Differential {
        /// Options of `barnabas-differential`; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run whole clusters on virtual time: `cargo xtask sim --seeds 300`, `cargo xtask sim --seed 7 --trace`.
    #[command(disable_help_flag = true)]
    Sim {
        /// Options of `barnabas-sim`; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Crash the storage layer on a disk in memory and judge what is recovered: `cargo xtask crash --images 100000`.
    #[command(disable_help_flag = true)]
    Crash {
        /// Options of `barnabas-crash`; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Try every state of the models, and show that wrong rules are caught: `cargo xtask specs replication`.
    #[command(disable_help_flag = true)]
    Specs {
        /// Options of `barnabas-specs`; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Generate { check } => generate::run(check),
        Command::SchemaCheck => schema_check::run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Bench { arguments } => tools::bench(&arguments),
        Command::Differential { arguments } => tools::differential(&arguments),
        Command::Crash { arguments } => tools::crash(&arguments),
        Command::Specs { arguments } => tools::specs(&arguments),
        Command::Sim { arguments } => tools::sim(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
