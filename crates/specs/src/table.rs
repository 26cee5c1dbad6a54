//! What was checked, as tables for people.

use crate::run::{Outcome, Run};

/// The lines of both tables.
#[must_use]
pub fn tables(results: &[(Run, Outcome)]) -> String {
    let mut right = String::from("| model | bounds | states | seconds |\n|---|---|---|---|\n");
    let mut wrong = String::from(
        "| model | source | wrong rule | bounds | states until caught | steps | what breaks |\n|---|---|---|---|---|---|---|\n",
    );
    for (run, outcome) in results {
        let (model, bounds, states) = (run.model, &run.bounds, outcome.states);
        match run.wrong {
            None => {
                let seconds = outcome.took.as_secs_f64();
                right += &format!("| {model} | {bounds} | {states} | {seconds:.1} |\n");
            }
            Some(rule) => {
                let (what, steps) = match &outcome.broken {
                    Some((property, steps)) => {
                        (format!("not so: {property}"), steps.len().to_string())
                    }
                    None => ("**not caught**".to_owned(), "-".to_owned()),
                };
                let (ticket, rule) = (rule.ticket, rule.what);
                wrong += &format!(
                    "| {model} | {ticket} | {rule} | {bounds} | {states} | {steps} | {what} |\n"
                );
            }
        }
    }
    format!("{right}\n{wrong}")
}
