//! The `barnabas` command: `barnabas --help`.

mod apis;
mod cluster;
mod config;
mod consume;
mod coordinator_records;
mod data;
mod dump;
mod format;
mod group;
mod lines;
mod log;
mod out_of_sync;
mod produce;
mod serve;
mod session;
mod store;
mod topic;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A turn of a reactor allocates for all requests that are ready before it frees for any of them, which
/// is more than glibc's allocator keeps at hand.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Kafka broker in one binary, and the commands to use it.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 data was read and is damaged (`data dump`).
#[derive(Debug, Parser)]
#[command(
    name = "barnabas",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  barnabas serve                               a broker on 127.0.0.1:9092, data in ./barnabas-data
  barnabas produce greetings < lines.txt       a record per line
  barnabas consume greetings --from-beginning --exit
  barnabas topic list"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Cluster(cluster::Cluster),
    Topic(topic::Topic),
    Produce(produce::Produce),
    Consume(consume::Consume),
    Group(group::Group),
    Config(config::Config),
    Data(data::Data),
    Store(store::Store),
    Apis(apis::Apis),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Topic(topic) => topic.run(),
        Command::Produce(produce) => produce.run(),
        Command::Consume(consume) => consume.run(),
        Command::Group(group) => group.run(),
        Command::Config(config) => config.run(),
        Command::Data(data) => data.run(),
        Command::Store(store) => store.run(),
        Command::Apis(apis) => apis.run(),
    }
}
