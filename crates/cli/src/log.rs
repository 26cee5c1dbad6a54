//! Log lines of a broker: text for people, JSON for programs; to standard error.

use clap::ValueEnum;
use std::io::IsTerminal;
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

/// Checks a level or a filter.
pub(crate) fn check_filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Starts logging: what `filter` lets through, else `BARNABAS_LOG`, else from INFO up.
pub(crate) fn start(format: LogFormat, filter: Option<&str>) {
    let from_environment = || {
        EnvFilter::builder()
            .with_env_var("BARNABAS_LOG")
            .with_default_directive(LevelFilter::INFO.into())
            .from_env_lossy()
    };
    let filter = filter.map_or_else(from_environment, EnvFilter::new);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).init();
        }
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
