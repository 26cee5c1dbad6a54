//! Log lines of a broker: text for people, JSON for programs; to standard error.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The form of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging. What is logged is `BARNABAS_LOG` (such as `debug` or `info,broker=debug`), else
/// from INFO up.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_env_var("BARNABAS_LOG")
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
