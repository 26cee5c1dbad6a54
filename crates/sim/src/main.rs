//! The simulator as a command: many seeds, one of them in detail, or bugs that are put back.

#[cfg(feature = "planted-bugs")]
mod scoreboard;
mod shrink;

use clap::Parser;
use platform::Clock;
use platform::clock::SystemClock;
use serde_json::json;
use sim::plan::Plan;
use sim::runs::{self, Run};
use sim::situations::Situations;
use sim::trace::Trace;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// Runs whole clusters on virtual time.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim")]
struct Arguments {
    /// How many seeds to run; of bugs, how many at most for each.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only this one.
    #[arg(long)]
    seed: Option<u64>,
    /// Print what happens.
    #[arg(long)]
    trace: bool,
    /// How long there are faults, in seconds of virtual time.
    #[arg(long, default_value_t = 240)]
    seconds: u64,
    /// How many runs at the same time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Fail if a situation that the runs must lead to never came about.
    #[arg(long)]
    sometimes: bool,
    /// With --seed: only these of its faults, by number; "none" for none.
    #[arg(long, value_name = "NUMBERS")]
    faults: Option<String>,
    /// With --seed: only these of its producers, by number.
    #[arg(long, value_name = "NUMBERS")]
    producers: Option<String>,
    /// With --seed, which breaks a rule: look for fewer faults and clients that break it too.
    #[arg(long)]
    shrink: bool,
    /// Put a bug of Kafka's back, by name; without --seed: how many seeds does it take to find it? "all" takes one
    /// after the other, "list" lists them.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// With --plant: rows of the scoreboard instead of JSON.
    #[arg(long)]
    markdown: bool,
}

impl Arguments {
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::of(seed, Duration::from_secs(self.seconds));
        if let Some(kept) = self.faults.as_deref().map(numbers) {
            plan.faults.retain(|fault| kept.contains(&fault.number));
        }
        if let Some(kept) = self.producers.as_deref().map(numbers) {
            plan.producers.retain(|producer| {
                usize::try_from(producer.number).is_ok_and(|number| kept.contains(&number))
            });
        }
        plan
    }

    fn seeds(&self) -> std::ops::Range<u64> {
        match self.seed {
            Some(seed) => seed..seed + 1,
            None => self.from..self.from + self.seeds,
        }
    }
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(not(feature = "planted-bugs"))]
    if arguments.plant.is_some() {
        eprintln!("this simulator was built without bugs: use cargo xtask sim");
        return ExitCode::FAILURE;
    }
    #[cfg(feature = "planted-bugs")]
    if let Some(name) = &arguments.plant {
        match scoreboard::plant(name, &arguments) {
            scoreboard::Planted::One => {}
            scoreboard::Planted::Done(code) => return code,
        }
    }
    if arguments.shrink {
        runs::take_panics();
        return shrink::shrink(&arguments);
    }
    if arguments.trace {
        log_to_standard_output();
        let seed = arguments.seeds().start;
        let run = runs::one(arguments.plan(seed), &Trace::new(200).printing());
        println!("{}", run.line());
        return if run.broken.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    runs::take_panics();
    many(&arguments)
}

fn many(arguments: &Arguments) -> ExitCode {
    let clock = SystemClock::new();
    let begun = clock.now();
    let sum = Mutex::new((0_u64, 0_u64, Duration::ZERO, Situations::default()));
    runs::many(
        arguments.seeds(),
        arguments.jobs,
        |seed| arguments.plan(seed),
        |run| {
            report(run, arguments);
            let (count, failed, virtually, situations) = &mut *sum.lock().expect("no panic");
            *count += 1;
            match (&run.broken, &run.outcome) {
                (None, Some(outcome)) => {
                    *virtually += outcome.elapsed;
                    situations.merge(&outcome.situations);
                }
                (_, _) => *failed += 1,
            }
            true
        },
    );
    let (count, failed, virtually, situations) = sum.into_inner().expect("no panic");
    let took = clock.now().since(begun);
    let missing = situations.missing();
    println!(
        "{}",
        json!({
            "runs": count,
            "failed": failed,
            "missing": format!("{missing:?}"),
            "situations": format!("{situations:?}"),
            "real_s": took.as_secs(),
            "virtual_minutes": virtually.as_secs() / 60,
            "virtual_per_real": virtually.as_secs_f64() / took.as_secs_f64(),
        })
    );
    let is_tame = arguments.sometimes && !missing.is_empty();
    if failed > 0 || is_tame { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn report(run: &Run, arguments: &Arguments) {
    println!("{}", run.line());
    if run.broken.is_some() {
        for line in &run.last {
            eprintln!("{line}");
        }
        eprintln!(
            "seed {} at {}; again with: cargo xtask sim --seed {} --seconds {} --trace",
            run.seed,
            commit(),
            run.seed,
            arguments.seconds
        );
    }
}

fn commit() -> String {
    let asked = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let told = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    told.map_or_else(|| "an unknown commit".to_owned(), |told| told.trim().to_owned())
}

/// What brokers log, with virtual time and whose step it is.
fn log_to_standard_output() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let written = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_timer(sim::trace::VirtualTime)
        .with_ansi(false)
        .with_writer(std::io::stdout);
    written.init();
}
