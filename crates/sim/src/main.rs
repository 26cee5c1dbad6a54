//! The simulator as a command: many seeds, or one of them in detail.

use clap::Parser;
use serde_json::json;
use sim::plan::Plan;
use sim::situations::Situations;
use sim::trace::Trace;
use sim::world::{self, Outcome};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs whole clusters on virtual time.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask sim")]
struct Arguments {
    /// How many seeds to run.
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.from..arguments.from + arguments.seeds,
    };
    if arguments.trace {
        log_to_standard_output();
    }
    let next = AtomicU64::new(seeds.start);
    let (failed, situations) = (AtomicU64::new(0), Mutex::new(Situations::default()));
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match one(seed, &arguments) {
                        Some(found) => situations.lock().expect("no panic").merge(&found),
                        None => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    let missing = situations.into_inner().expect("no panic").missing();
    println!(
        "{}",
        json!({"runs": seeds.end - seeds.start, "failed": failed, "missing": format!("{missing:?}")})
    );
    let is_tame = arguments.sometimes && !missing.is_empty();
    if failed > 0 || is_tame { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// One run; what it led to, unless it failed.
fn one(seed: u64, arguments: &Arguments) -> Option<Situations> {
    let trace = Trace::new(200);
    let trace = if arguments.trace { trace.printing() } else { trace };
    let plan = Plan::of(seed, Duration::from_secs(arguments.seconds));
    let clock = platform::clock::SystemClock::new();
    let begun = platform::Clock::now(&clock);
    let outcome = catch_unwind(AssertUnwindSafe(|| world::run(plan, &trace)));
    let took = platform::Clock::now(&clock).since(begun);
    let (broken, situations) = match &outcome {
        Ok(Outcome { violation: None, situations, .. }) => (None, Some(situations.clone())),
        Ok(Outcome { violation: Some(violation), .. }) => {
            (Some(format!("{}: {}", violation.invariant, violation.what)), None)
        }
        Err(_) => (Some("panic".to_owned()), None),
    };
    let mut line = json!({
        "seed": seed,
        "ok": broken.is_none(),
        "broken": broken,
        "real_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "hash": format!("{:016x}", trace.hash()),
    });
    if let Ok(outcome) = &outcome {
        line["steps"] = json!(outcome.steps);
        line["virtual_s"] = json!(outcome.elapsed.as_secs());
        line["faults"] = json!(outcome.faults);
        line["acked"] = json!(outcome.acked);
        line["committed"] = json!(outcome.committed);
        line["unanswered"] = json!(outcome.unknown);
        line["refused"] = json!(outcome.refused);
    }
    println!("{line}");
    if broken.is_some() {
        for line in trace.last() {
            eprintln!("{line}");
        }
        eprintln!(
            "seed {seed} at {}; again with: cargo xtask sim --seed {seed} --seconds {} --trace",
            commit(),
            arguments.seconds
        );
    }
    situations
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
