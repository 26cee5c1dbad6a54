//! A slice of the simulator's seeds, small enough for every run of the tests; `cargo xtask sim` runs more.

use sim::plan::Plan;
use sim::situations::Situations;
use sim::trace::Trace;
use sim::world::{self, Outcome};
use std::time::Duration;

fn run(seed: u64, seconds: u64) -> Outcome {
    println!("seed {seed}; again with: cargo xtask sim --seed {seed} --seconds {seconds} --trace");
    world::run(Plan::of(seed, Duration::from_secs(seconds)), &Trace::new(200))
}

#[test]
fn the_same_seed_is_the_same_run_to_the_last_step() {
    let (first, again, another) = (run(5, 10), run(5, 10), run(6, 10));
    assert_eq!(
        (first.hash, first.steps, first.acked, first.last),
        (again.hash, again.steps, again.acked, again.last)
    );
    assert_ne!(first.hash, another.hash);
}

#[test]
fn whatever_fails_every_rule_holds_and_everything_heals() {
    let mut situations = Situations::default();
    for seed in 25..=40 {
        let outcome = run(seed, 20);
        if let Some(violation) = outcome.violation {
            outcome.last.iter().for_each(|line| println!("{line}"));
            panic!("seed {seed} breaks {}: {}", violation.invariant, violation.what);
        }
        assert!(outcome.acked > 0, "seed {seed}: clients did something");
        situations.merge(&outcome.situations);
    }
    let mut missing = situations.missing();
    missing.retain(|situation| !situation.is_rare());
    assert_eq!(missing, [], "the seeds must lead to all of these");
}
