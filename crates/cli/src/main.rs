//! The `barnabas` command: `barnabas --help`.

mod apis;
mod log;
mod serve;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A Kafka broker in one binary.
#[derive(Debug, Parser)]
#[command(name = "barnabas", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Apis(apis::Apis),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Apis(apis) => apis.run(),
    }
}
