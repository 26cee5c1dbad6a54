//! The right rules hold over their bounds, and each wrong one is caught.

use specs::run::Run;

fn check(runs: impl Iterator<Item = Run>) {
    for run in runs {
        let outcome = run.check();
        let rules = run.wrong.map_or("the right rules", |wrong| wrong.what);
        assert!(outcome.is_as_it_should(run.wrong), "{}: {rules}: {outcome:#?}", run.model);
    }
}

#[test]
fn the_right_rules_hold_and_are_not_idle() {
    check(specs::runs().into_iter().filter(|run| run.wrong.is_none()));
}

#[test]
fn every_wrong_rule_is_caught() {
    check(specs::runs().into_iter().filter(|run| run.wrong.is_some()));
}

#[test]
fn what_a_wrong_rule_comes_to_is_the_same_each_time() {
    let caught = || {
        let run = specs::runs().into_iter().find(|run| run.wrong.is_some()).unwrap();
        let outcome = run.check();
        (outcome.states, outcome.broken)
    };
    assert_eq!(caught(), caught());
}
