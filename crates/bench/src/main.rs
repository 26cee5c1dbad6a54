//! Measures brokers side by side: `cargo xtask bench` and `barnabas-bench --help`.
//!
//! One run alternates the two brokers, so that both meet the same machine. The main figure is the
//! broker's own CPU time per megabyte or per request; rates say little where the load shares the cores.
//!
//! ```text
//! main -> scenarios -> servers   start, stop, CPU and memory of a broker process
//!                   -> storage_scenarios  compaction, rolls, deletion, catching up
//!                   -> load      our own generator: closed loop, open loop, fetch
//!                   -> topics    created, found, deleted
//!                   -> report    medians and extremes, table, plot
//! ```

mod cpu;
mod error;
mod histogram;
mod load;
mod null_broker;
mod report;
mod scenarios;
mod servers;
mod storage_scenarios;
mod topics;
mod wire;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Measures Barnabas beside Apache Kafka.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// What a single load did as one line of JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run scenarios, alternating both brokers, and write the table and the plot.
    Run(RunOptions),
    /// Be a broker that stores nothing: what a client can do at most.
    Null {
        /// Port of 127.0.0.1 to listen on.
        #[arg(long, default_value_t = 19092)]
        port: u16,
    },
    /// Send batches as fast as a broker answers.
    Produce(load::ProduceOptions),
    /// Read a partition from its start.
    Fetch(load::FetchOptions),
    /// Send one record at a time at a fixed rate and time it until a consumer has it.
    Latency(load::LatencyOptions),
}

/// What `run` is asked to do.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// Scenarios, such as `s7`; all if none is named.
    pub(crate) scenarios: Vec<String>,
    /// Release of Apache Kafka to measure against.
    #[arg(long, default_value = "4.3.1")]
    pub(crate) against: String,
    /// Rounds at least; more until two medians agree within 5 %.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Rounds at most.
    #[arg(long, default_value_t = 15)]
    pub(crate) max_rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Seconds of load on Kafka before its first measurement, and a fifth of that before the first of
    /// each scenario. Others, and all later, are preceded by a quarter of their own time.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) warm_up: f64,
    /// The broker to measure.
    #[arg(long, default_value = "target/release/barnabas")]
    pub(crate) binary: PathBuf,
    /// The script that starts Apache Kafka.
    #[arg(long, default_value = "tools/kafka-peer")]
    pub(crate) peer: PathBuf,
    /// Folder for the results: one JSON line per measurement, a table and a plot.
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Measure only Barnabas.
    #[arg(long)]
    pub(crate) alone: bool,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let show = |measured: load::Measured| match arguments.json {
        true => println!("{}", measured.json()),
        false => println!("{measured}"),
    };
    let result = match arguments.command {
        Command::Run(options) => scenarios::run(&options),
        Command::Null { port } => null_broker::serve(port),
        Command::Produce(options) => load::produce(&options).map(show),
        Command::Fetch(options) => load::fetch(&options).map(show),
        Command::Latency(options) => load::latency(&options).map(show),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("barnabas-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
