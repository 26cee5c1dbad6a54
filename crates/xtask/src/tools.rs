//! Starts the tools that live in crates of their own.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// Builds broker and benchmark in release mode and measures.
pub(crate) fn bench(arguments: &[String]) -> Result<(), String> {
    cargo(&["build", "--release", "--bin", "barnabas", "--bin", "barnabas-bench"])?;
    replace_with("target/release/barnabas-bench", &[&["run".to_owned()], arguments].concat())
}

/// Builds broker and comparison and compares.
pub(crate) fn differential(arguments: &[String]) -> Result<(), String> {
    cargo(&["build", "--profile", "ci", "--bin", "barnabas", "--bin", "barnabas-differential"])?;
    replace_with("target/ci/barnabas-differential", arguments)
}

/// Builds the simulator and runs it: optimised, with all checks, and with bugs that `--plant` puts back.
pub(crate) fn sim(arguments: &[String]) -> Result<(), String> {
    cargo(&["build", "--profile", "sim", "--package", "sim", "--features", "planted-bugs"])?;
    replace_with("target/sim/barnabas-sim", arguments)
}

/// Builds the crash enumerator and runs it.
pub(crate) fn crash(arguments: &[String]) -> Result<(), String> {
    cargo(&["build", "--profile", "ci", "--package", "crash"])?;
    replace_with("target/ci/barnabas-crash", arguments)
}

/// Builds the models and checks them.
pub(crate) fn specs(arguments: &[String]) -> Result<(), String> {
    cargo(&["build", "--profile", "ci", "--package", "specs"])?;
    replace_with("target/ci/barnabas-specs", arguments)
}

/// Becomes `program`, so that signals reach it; it ends what it started. Returns only if that fails.
fn replace_with(program: &str, arguments: &[String]) -> Result<(), String> {
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{program}: {error}; run from the root of the project"))
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    run(env!("CARGO"), &arguments)
}

fn run(program: &str, arguments: &[String]) -> Result<(), String> {
    succeeded(program, Command::new(program).args(arguments).status())
}

/// Whether `program` could be run and ended well.
pub(crate) fn succeeded(program: &str, status: io::Result<ExitStatus>) -> Result<(), String> {
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}")) }
}
