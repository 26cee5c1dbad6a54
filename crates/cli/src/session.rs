//! What the commands that talk to a broker share: how to reach it, how to fail, how to print.

use clap::Args;
use client::{Client, ClientError, ClientOptions, OnRetry, ProducerOptions};
use comfy_table::{Table, presets};
use model::Instant;
use platform::Clock;
use platform::clock::SystemClock;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// How to reach the broker.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Brokers to ask first: HOST:PORT, separated by commas. Also from BARNABAS_BROKER.
    #[arg(short = 'b', long = "broker", value_name = "HOST:PORT", global = true)]
    broker: Option<String>,
    /// Seconds to go on trying while a broker is not reachable or not ready, or does not answer. 30 if not given, and 120
    /// for records that are sent.
    #[arg(long, value_name = "SECONDS", global = true)]
    timeout: Option<u64>,
}

/// How long something fails before people are told why they wait: longer than an election takes.
const QUIET_WAIT: Duration = Duration::from_secs(2);
/// How soon they are told another reason, and how soon the same again.
const NEXT_REASON: Duration = Duration::from_secs(3);
const REMINDER: Duration = Duration::from_secs(10);

impl Target {
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        Ok(self.try_connect().await?)
    }

    pub(crate) async fn try_connect(&self) -> Result<Client, ClientError> {
        let from_environment = || std::env::var("BARNABAS_BROKER").ok();
        let broker = self.broker.clone().or_else(from_environment);
        let mut options = ClientOptions::new(broker.as_deref().unwrap_or("127.0.0.1:9092"));
        if let Some(timeout) = self.timeout() {
            options.retry_timeout = timeout;
            let of_connection = &mut options.connection;
            // Without time to answer nothing could ever be asked.
            let longest = timeout.max(Duration::from_secs(1));
            of_connection.connect_timeout = of_connection.connect_timeout.min(longest);
            of_connection.request_timeout = of_connection.request_timeout.min(longest);
        }
        options.on_retry = say_why_we_wait();
        options.connection.software_name = "barnabas-cli".into();
        Client::connect(options).await
    }

    /// What `--timeout` says.
    fn timeout(&self) -> Option<Duration> {
        self.timeout.map(Duration::from_secs)
    }

    /// How to produce within `--timeout`.
    pub(crate) fn producer_options(&self) -> ProducerOptions {
        let mut options = ProducerOptions::default();
        if let Some(timeout) = self.timeout() {
            options.delivery_timeout = timeout.max(Duration::from_secs(1));
        }
        options
    }
}

/// Tells on standard error why a command waits: once it has waited for a while, when the reason changes, and from time
/// to time.
fn say_why_we_wait() -> OnRetry {
    let clock = SystemClock::new();
    let last = Mutex::new(None::<(String, Instant)>);
    OnRetry::new(move |error, failing_for| {
        let Ok(mut last) = last.lock() else { return };
        let (now, text) = (clock.now(), error.to_string());
        let too_soon = last.as_ref().is_some_and(|(said, at)| {
            now.since(*at) < if *said == text { REMINDER } else { NEXT_REASON }
        });
        if failing_for >= QUIET_WAIT && !too_soon {
            eprintln!("barnabas: waiting for {} s: {text}", failing_for.as_secs());
            *last = Some((text, now));
        }
    })
}

/// Why a command ends with something else than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was tried and did not work: 1.
    Failed(String),
    /// It makes no sense as asked: 2.
    Usage(String),
    /// Data was read and is damaged: 3.
    Damaged(String),
    /// Whoever read our output has seen enough: 0.
    OutputClosed,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let mut text = error.to_string();
        if matches!(error, ClientError::Connect { .. }) {
            text.push_str("; is a broker running there? (barnabas serve; --broker HOST:PORT)");
        }
        Self::Failed(text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Failed(error.to_string())
    }
}

impl Failure {
    fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::Failed(text) => (text, 1),
            Self::Usage(text) => (text, 2),
            Self::Damaged(text) => (text, 3),
        };
        eprintln!("barnabas: {text}");
        ExitCode::from(code)
    }
}

/// Runs a command to its exit code.
pub(crate) fn run(command: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(command);
            // A thread may still sit in a read from standard input.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(error.into()),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}

/// Prints a line.
pub(crate) fn say(line: impl std::fmt::Display) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{line}")?)
}

/// Prints JSON for a program.
pub(crate) fn say_json(value: &Value) -> Result<(), Failure> {
    say(value)
}

/// Prints a table for people.
pub(crate) fn say_table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<(), Failure> {
    say(table(header, rows))
}

/// A table for people.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    let last = header.len().saturating_sub(1);
    for row in rows {
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { 2 }));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Brokers' ids, separated by commas.
pub(crate) fn ids(brokers: &[i32]) -> String {
    brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A number from `LOWEST` to `HIGHEST`, for clap.
pub(crate) fn at_most<const LOWEST: usize, const HIGHEST: usize>(
    text: &str,
) -> Result<usize, String> {
    let number = text.parse().map_err(|error| format!("{error}"))?;
    match (LOWEST..=HIGHEST).contains(&number) {
        true => Ok(number),
        false => Err(format!("{number} is not in {LOWEST}..={HIGHEST}")),
    }
}

/// Splits `key=value`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// Several things were to be done: fails with what did not work, all of it.
pub(crate) fn all_done(failures: Vec<String>) -> Result<(), Failure> {
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(failures.join("\nbarnabas: "))),
    }
}
