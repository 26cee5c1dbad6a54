//! `cargo xtask specs`: checks the models, and that wrong rules are caught.

use clap::Parser;
use specs::run::{Outcome, Run};
use specs::{runs, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Looks at every state of the models, and shows that wrong rules are caught.
#[derive(Parser)]
#[command(name = "cargo xtask specs")]
struct Arguments {
    /// Only this model.
    model: Option<String>,
    /// Only rules whose ticket or description contains this.
    #[arg(long)]
    rule: Option<String>,
    /// Print the shortest way to what breaks.
    #[arg(long)]
    trace: bool,
    /// Write the tables into this document, between its two marks.
    #[arg(long)]
    write: Option<PathBuf>,
}

const BEGIN: &str = "<!-- written by cargo xtask specs --write docs/models.md -->\n";
const END: &str = "<!-- end -->\n";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut results = Vec::new();
    for run in runs().into_iter().filter(|run| is_wanted(run, &arguments)) {
        let outcome = run.check();
        tell(&run, &outcome, arguments.trace);
        results.push((run, outcome));
    }
    if let Some(document) = &arguments.write
        && let Err(error) = write(document, &table::tables(&results))
    {
        eprintln!("error: {}: {error}", document.display());
        return ExitCode::FAILURE;
    }
    let good = results.iter().all(|(run, outcome)| outcome.is_as_it_should(run.wrong));
    if good && !results.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_wanted(run: &Run, arguments: &Arguments) -> bool {
    let is_model = arguments.model.as_ref().is_none_or(|model| run.model == model);
    let is_rule = arguments.rule.as_ref().is_none_or(|rule| {
        run.wrong.is_some_and(|wrong| wrong.ticket.contains(rule) || wrong.what.contains(rule))
    });
    is_model && is_rule
}

fn tell(run: &Run, outcome: &Outcome, trace: bool) {
    let verdict = if outcome.is_as_it_should(run.wrong) { "ok" } else { "FAILED" };
    let rules = run.wrong.map_or("right rules".to_owned(), |w| format!("{}: {}", w.ticket, w.what));
    let found = match &outcome.broken {
        Some((property, steps)) => format!("not so after {} steps: {property}", steps.len()),
        None => "holds".to_owned(),
    };
    let (model, states, seconds) = (run.model, outcome.states, outcome.took.as_secs_f64());
    println!(
        "{verdict} {model} ({rules}; {}): {found}; {states} states, {seconds:.1} s",
        run.bounds
    );
    if run.wrong.is_none() {
        outcome.missed.iter().for_each(|situation| println!("  never: {situation}"));
    }
    if let Some((_, steps)) = &outcome.broken
        && (trace || run.wrong.is_none())
    {
        steps.iter().for_each(|step| println!("  {step}"));
    }
}

fn write(document: &PathBuf, tables: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(document)?;
    let parts = text.split_once(BEGIN).zip(text.split_once(END));
    let Some(((before, _), (_, after))) = parts else {
        return Err(std::io::Error::other("its two marks are missing"));
    };
    std::fs::write(document, format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}
