//! Makes a run that breaks a rule small: fewer faults and fewer producers, as long as the same rule is broken.

use crate::Arguments;
use sim::plan::Plan;
use sim::runs;
use sim::trace::Trace;
use std::process::ExitCode;

/// Shrinks the run of `--seed`, and prints how to run what is left.
pub(crate) fn shrink(arguments: &Arguments) -> ExitCode {
    let Some(seed) = arguments.seed else {
        eprintln!("--shrink needs --seed");
        return ExitCode::FAILURE;
    };
    let mut plan = arguments.plan(seed);
    let Some(rule) = broken(&plan) else {
        eprintln!("seed {seed} breaks no rule");
        return ExitCode::FAILURE;
    };
    println!("{rule}: {} faults, {} producers", plan.faults.len(), plan.producers.len());
    fewer_faults(&mut plan, &rule);
    fewer_producers(&mut plan, &rule);
    fewer_faults(&mut plan, &rule);
    println!("{rule}: {} faults, {} producers:", plan.faults.len(), plan.producers.len());
    for planned in &plan.faults {
        println!("{:4} after {:?}: {}", planned.number, planned.at, planned.fault);
    }
    let faults: Vec<String> = plan.faults.iter().map(|fault| fault.number.to_string()).collect();
    let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(",") };
    let producers: Vec<String> =
        plan.producers.iter().map(|producer| producer.number.to_string()).collect();
    let plant = arguments.plant.as_ref().map(|name| format!(" --plant {name}")).unwrap_or_default();
    println!(
        "cargo xtask sim --seed {seed} --seconds {}{plant} --faults {faults} --producers {} --trace",
        arguments.seconds,
        producers.join(",")
    );
    ExitCode::SUCCESS
}

/// The rule that a run breaks.
fn broken(plan: &Plan) -> Option<String> {
    runs::one(plan.clone(), &Trace::new(1)).broken.map(|(rule, _)| rule)
}

/// Leaves out runs of faults, half of them first and single ones last, while the rule is broken all the same.
fn fewer_faults(plan: &mut Plan, rule: &str) {
    let mut length = plan.faults.len().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        while at < plan.faults.len() {
            let mut smaller = plan.clone();
            smaller.faults.drain(at..(at + length).min(plan.faults.len()));
            match broken(&smaller).as_deref() == Some(rule) {
                true => *plan = smaller,
                false => at += length,
            }
        }
        length = if length == 1 { 0 } else { length.div_ceil(2) };
    }
}

fn fewer_producers(plan: &mut Plan, rule: &str) {
    let mut at = 0;
    while plan.producers.len() > 1 && at < plan.producers.len() {
        let mut smaller = plan.clone();
        smaller.producers.remove(at);
        match broken(&smaller).as_deref() == Some(rule) {
            true => *plan = smaller,
            false => at += 1,
        }
    }
}
