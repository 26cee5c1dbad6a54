//! Log lines of a broker: text for people, JSON for programs; to standard error.

use broker::log_levels::{self, LogLevel};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, reload};

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
    // A lone word that is no level would be taken for the name of a target, and silence all others.
    for directive in text.split(',').map(str::trim) {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "{directive:?}: {level:?} is no level; say error, warn, info, debug, trace or off, for all or as broker=debug"
            ));
        }
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Starts logging: what `filter` lets through, else `BARNABAS_LOG`, else from INFO up. Levels that are set
/// by request (KIP-412) go over it.
pub(crate) fn start(format: LogFormat, filter: Option<&str>) {
    let text = filter.map(str::to_owned).or_else(|| std::env::var("BARNABAS_LOG").ok());
    let text = text.unwrap_or_default();
    let initial =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse_lossy(&text);
    let most = initial.max_level_hint();
    let (filter, handle) = reload::Layer::new(initial);
    log_levels::on_change(level(most), move |levels| {
        // Fails only if logging is gone.
        handle.reload(EnvFilter::builder().parse_lossy(over(&text, levels))).ok();
    });
    let lines = tracing_subscriber::registry().with(filter);
    let form = fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            lines.with(form.with_target(false).with_ansi(std::io::stderr().is_terminal())).init();
        }
        LogFormat::Json => lines.with(form.json().flatten_event(true)).init(),
    }
}

/// A filter with levels that were set over it: later directives win.
fn over(filter: &str, levels: &BTreeMap<String, LogLevel>) -> String {
    let directive = |(logger, level): (&String, &LogLevel)| {
        // There is nothing above an error.
        let level = if *level == LogLevel::Fatal { LogLevel::Error } else { *level };
        match logger.as_str() {
            "root" => level.name().to_owned(),
            logger => format!("{logger}={level}"),
        }
    };
    let filter = if filter.is_empty() { "info" } else { filter };
    std::iter::once(filter.to_owned())
        .chain(levels.iter().map(directive))
        .collect::<Vec<_>>()
        .join(",")
}

/// Kafka's name for the most that is let through.
fn level(filter: Option<LevelFilter>) -> LogLevel {
    match filter {
        Some(LevelFilter::TRACE) => LogLevel::Trace,
        Some(LevelFilter::DEBUG) => LogLevel::Debug,
        Some(LevelFilter::WARN) => LogLevel::Warn,
        Some(LevelFilter::ERROR | LevelFilter::OFF) => LogLevel::Error,
        _ => LogLevel::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_set_go_over_the_filter() {
        let set = |pairs: &[(&str, LogLevel)]| {
            pairs.iter().map(|&(name, level)| (name.to_owned(), level)).collect()
        };
        assert_eq!(over("", &set(&[])), "info");
        let levels = set(&[("broker", LogLevel::Debug), ("root", LogLevel::Fatal)]);
        assert_eq!(over("info,storage=trace", &levels), "info,storage=trace,broker=DEBUG,ERROR");
        let filter = EnvFilter::builder().parse(over("info", &levels)).unwrap();
        assert_eq!(filter.max_level_hint(), Some(LevelFilter::DEBUG));
        assert!(!filter.to_string().contains("info"), "root was replaced: {filter}");
    }
}
