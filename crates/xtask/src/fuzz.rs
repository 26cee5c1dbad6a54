//! `cargo xtask fuzz`: builds the targets of `crates/fuzz` with the compiler's coverage and runs libFuzzer on them.

use crate::tools;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// What libFuzzer needs of the compiler. These work on a stable toolchain, where cargo-fuzz asks for a nightly one.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks \
    --cfg fuzzing";
const CORPUS: &str = "crates/fuzz/corpus";
const WORK: &str = "target/fuzz";

/// Look for bytes that are read wrongly.
#[derive(clap::Args)]
pub(crate) struct Fuzz {
    /// The target, or `all`.
    target: String,
    /// How long, each.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Keep in `crates/fuzz/corpus` the fewest inputs that reach what all found so far reach, but none longer than this.
    #[arg(long, value_name = "BYTES")]
    keep: Option<u64>,
}

impl Fuzz {
    /// One line per target on standard output: `target=NAME seconds=N result=ok|finding corpus=N`.
    pub(crate) fn run(&self) -> Result<(), String> {
        let triple = host()?;
        let flags = [env::var("RUSTFLAGS").unwrap_or_default(), COVERAGE.to_owned()].join(" ");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "-p", "fuzz", "--features", "libfuzzer"])
            // With a target of their own, build scripts and macros are built without the flags.
            .args(["--target", &triple, "--target-dir", WORK])
            .env("RUSTFLAGS", flags)
            .status();
        tools::succeeded("cargo build", built)?;
        let programs = Path::new(WORK).join(&triple).join("release");
        let (program, seeds) = (programs.join("barnabas-fuzz"), Path::new(WORK).join("seeds"));
        // It is instrumented too, and has no libFuzzer: the uninstrumented build writes the seeds.
        let directory = seeds.display().to_string();
        tools::cargo(&[
            "run",
            "-q",
            "-p",
            "fuzz",
            "--bin",
            "barnabas-fuzz-seeds",
            "--",
            &directory,
        ])?;
        let mut names: Vec<_> = fs::read_dir(&seeds)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
            .map_err(|error: std::io::Error| format!("{}: {error}", seeds.display()))?;
        names.sort();
        let names: Vec<_> = names
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| self.target == "all" || self.target == *name)
            .collect();
        if names.is_empty() {
            return Err(format!("{} is no target; crates/fuzz/src/targets has them", self.target));
        }
        let mut findings = Vec::new();
        for name in names {
            let is_ok = self.fuzz(&program, &name, &seeds.join(&name))?;
            if !is_ok {
                findings.push(name);
            }
        }
        match findings.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "findings in {}: their inputs are in {WORK}/findings",
                findings.join(", ")
            )),
        }
    }

    fn fuzz(&self, program: &Path, name: &str, seeds: &Path) -> Result<bool, String> {
        let directory = |of: &str| -> Result<PathBuf, String> {
            let path = Path::new(WORK).join(of).join(name);
            fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(path)
        };
        let (found, findings, logs) =
            (directory("corpus")?, directory("findings")?, directory("logs")?);
        let kept = Path::new(CORPUS).join(name);
        fs::create_dir_all(&kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        let log = logs.join("log");
        let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        eprintln!("{name}: {} s, log in {}", self.seconds, log.display());
        let status = Command::new(program)
            .env("BARNABAS_FUZZ_TARGET", name)
            .args([format!("-max_total_time={}", self.seconds), "-use_value_profile=1".into()])
            .args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .args([&found, &kept])
            .arg(seeds)
            .stdout(Stdio::null())
            .stderr(file)
            .status()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if let Some(bytes) = self.keep {
            let merged = Command::new(program)
                .env("BARNABAS_FUZZ_TARGET", name)
                .args(["-merge=1".to_owned(), format!("-max_len={bytes}")])
                .args([&kept, &found])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            tools::succeeded("merging", merged)?;
        }
        let corpus = fs::read_dir(&found).map_or(0, Iterator::count);
        let result = if status.success() { "ok" } else { "finding" };
        let text = fs::read_to_string(&log).unwrap_or_default();
        let runs =
            text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        let covered = text.lines().rev().find_map(|line| {
            line.split_once(" cov: ").and_then(|(_, rest)| rest.split_whitespace().next())
        });
        println!(
            "target={name} seconds={} result={result} runs={} coverage={} corpus={corpus}",
            self.seconds,
            runs.map_or("?", str::trim),
            covered.unwrap_or("?"),
        );
        Ok(status.success())
    }
}

/// The triple that the compiler builds for.
fn host() -> Result<String, String> {
    let said =
        Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc -vV: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(ToOwned::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
