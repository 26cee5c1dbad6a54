//! Puts Kafka's bugs back, one after the other, and counts the seeds until a rule is broken.

use crate::Arguments;
use model::Bug;
use serde_json::json;
use sim::runs::{self, Run};
use std::process::ExitCode;
use std::sync::Mutex;

/// What came of `--plant`.
pub(crate) enum Planted {
    /// This one is planted, and the rest is as without.
    One,
    /// There is nothing more to do.
    Done(ExitCode),
}

/// Plants the bug of this name, and looks for it unless a seed is named.
pub(crate) fn plant(name: &str, arguments: &Arguments) -> Planted {
    if name == "list" {
        for bug in Bug::ALL {
            println!("{:12} {:?}: {}", bug.name(), bug.area(), bug.what());
        }
        return Planted::Done(ExitCode::SUCCESS);
    }
    let bugs = match (name, Bug::named(name)) {
        ("all", _) => Bug::ALL.to_vec(),
        (_, Some(bug)) => vec![bug],
        (_, None) => {
            eprintln!("no bug is named {name}: --plant list");
            return Planted::Done(ExitCode::FAILURE);
        }
    };
    if arguments.seed.is_some() {
        Bug::plant(bugs.first().copied());
        return Planted::One;
    }
    runs::take_panics();
    let missed = bugs.iter().filter(|&&bug| !is_found(bug, arguments)).count();
    println!("{}", json!({"bugs": bugs.len(), "not_found": missed}));
    Planted::Done(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A row of `docs/scoreboard.md`.
fn row(bug: Bug, took: Option<u64>, of: u64, rule: &str) -> String {
    let area = format!("{:?}", bug.area()).to_lowercase();
    let took = took.map_or_else(|| format!("not in {of}"), |took| took.to_string());
    let rule = rule.split(':').next().filter(|rule| !rule.is_empty()).unwrap_or("-");
    format!("| {} | {area} | {} | {took} | {rule} |", bug.ticket(), bug.what())
}

/// Whether a rule is broken by one of the seeds while `bug` is planted; prints by which.
fn is_found(bug: Bug, arguments: &Arguments) -> bool {
    Bug::plant(Some(bug));
    let first: Mutex<Option<Run>> = Mutex::new(None);
    let seeds = arguments.seeds();
    runs::many(
        seeds.clone(),
        arguments.jobs,
        |seed| arguments.plan(seed),
        |run| {
            // Others are under way, perhaps of earlier seeds.
            let mut first = first.lock().expect("no panic");
            if run.broken.is_some() && first.as_ref().is_none_or(|first| run.seed < first.seed) {
                *first = Some(run.clone());
            }
            first.is_none()
        },
    );
    Bug::plant(None);
    let first = first.into_inner().expect("no panic");
    let took = first.as_ref().map(|run| run.seed - seeds.start + 1);
    let (rule, how) = first.as_ref().and_then(|run| run.broken.clone()).unwrap_or_default();
    if arguments.markdown {
        println!("{}", row(bug, took, seeds.end - seeds.start, &rule));
        return first.is_some();
    }
    println!(
        "{}",
        json!({
            "bug": bug.name(),
            "found": first.is_some(),
            "seeds": took.unwrap_or(seeds.end - seeds.start),
            "seed": first.as_ref().map(|run| run.seed),
            "rule": rule,
            "how": how.chars().take(300).collect::<String>(),
        })
    );
    first.is_some()
}
