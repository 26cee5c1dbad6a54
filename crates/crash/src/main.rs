//! `cargo xtask crash`: tries what crashes may leave, or shows what would be noticed.

use clap::Parser;
use crash::campaign::{self, Crash, Options};
use crash::power;
use std::process::ExitCode;

/// Crashes the storage layer on a disk in memory, as often as it is told, and judges what is recovered.
#[derive(Parser)]
#[command(name = "cargo xtask crash")]
struct Arguments {
    /// How many images of crashes to try.
    #[arg(long, default_value_t = 100_000)]
    images: u64,
    /// The seed of the first workload; the next has the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// At most so many images of one workload; all it has if there are fewer.
    #[arg(long, default_value_t = 2_000)]
    of_each: usize,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Try one crash again: what a failure was printed with.
    #[arg(long)]
    replay: Option<Crash>,
    /// With `--replay`: how many of the operations before the crash to print.
    #[arg(long, default_value_t = 15)]
    context: usize,
    /// Leave each kind of sync and rename out in turn, and say which are noticed; `--images` each.
    #[arg(long)]
    power: bool,
    /// With `--power`: only kinds whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic is a failure like another, and is told with its crash.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(crash) = arguments.replay {
        return match campaign::replay(crash, arguments.context) {
            Ok(_) => {
                println!("ok {crash}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("FAILED {failure}");
                ExitCode::FAILURE
            }
        };
    }
    if arguments.power {
        return show_power(&arguments);
    }
    let options = Options {
        seed: arguments.seed,
        images: arguments.images,
        of_each: arguments.of_each,
        left_out: None,
        stops: !arguments.keep_going,
    };
    let mut told = 0;
    let (totals, failures) = campaign::run(options, |totals| {
        if totals.images >= told + 5_000 {
            told = totals.images;
            eprintln!("{} images of {} workloads", totals.images, totals.workloads);
        }
    });
    for (step, images) in &totals.by_step {
        println!("step={step:?} images={images}");
    }
    failures.iter().for_each(|failure| println!("FAILED {failure}"));
    println!(
        "seed={} workloads={} operations={} images={} recoveries={} failures={}",
        arguments.seed,
        totals.workloads,
        totals.operations,
        totals.images,
        totals.recoveries,
        failures.len()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_power(arguments: &Arguments) -> ExitCode {
    let kinds = power::kinds(arguments.seed, 40);
    for (label, count) in kinds {
        if !label.to_string().contains(&arguments.only) {
            continue;
        }
        let outcome = power::try_without(label, arguments.seed, arguments.images);
        let images = outcome.images;
        match outcome.noticed {
            Some(how) => println!("noticed\t{label}\t{count}\t{images}\t{how}"),
            None => println!("unnoticed\t{label}\t{count}\t{images}"),
        }
    }
    ExitCode::SUCCESS
}
