//! Levels of this broker's loggers, as `BROKER_LOGGER` resources show and change them (KIP-412).
//!
//! Loggers are the crates that log, below `root`. Levels last until the process ends. Whoever writes the
//! log registers with [`on_change`]; without that, levels are kept and shown but change nothing.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;

/// The logger that the others inherit from.
pub(crate) const ROOT: &str = "root";

/// The crates that log.
const LOGGERS: &[&str] = &[
    "broker",
    "client",
    "controller",
    "coordination",
    "coordinator",
    "group",
    "replication",
    "storage",
];

/// How much is logged; Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only what ends the process; we log that as an error.
    Fatal,
    /// What a person must act on.
    Error,
    /// What was not expected.
    Warn,
    /// Changes of state.
    Info,
    /// Per request.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    pub(crate) const ALL: [Self; 6] =
        [Self::Debug, Self::Error, Self::Fatal, Self::Info, Self::Trace, Self::Warn];

    /// Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

type OnChange = Box<dyn Fn(&BTreeMap<String, LogLevel>) + Send>;

struct Levels {
    set: BTreeMap<String, LogLevel>,
    initial: LogLevel,
    on_change: Option<OnChange>,
}

/// The process has one log, so this is a matter of the process too.
static LEVELS: Mutex<Levels> =
    Mutex::new(Levels { set: BTreeMap::new(), initial: LogLevel::Info, on_change: None });

/// Has `apply` called with the levels that were set by request (`root` among them, if it was) whenever
/// they change. `initial` is what everything starts with.
pub fn on_change(initial: LogLevel, apply: impl Fn(&BTreeMap<String, LogLevel>) + Send + 'static) {
    let mut levels = LEVELS.lock();
    levels.initial = initial;
    levels.on_change = Some(Box::new(apply));
}

/// Every logger and its level.
pub(crate) fn all() -> Vec<(String, LogLevel)> {
    let levels = LEVELS.lock();
    let root = levels.set.get(ROOT).copied().unwrap_or(levels.initial);
    let level = |name: &&str| levels.set.get(*name).copied().unwrap_or(root);
    let names = LOGGERS.iter().chain(&[ROOT]);
    names.map(|name| ((*name).to_owned(), level(name))).collect()
}

/// Sets levels, or (`None`) has loggers inherit them again.
pub(crate) fn change(changes: Vec<(String, Option<LogLevel>)>) {
    let mut levels = LEVELS.lock();
    for (name, level) in changes {
        match level {
            Some(level) => levels.set.insert(name, level),
            None => levels.set.remove(&name),
        };
    }
    if let Some(apply) = &levels.on_change {
        apply(&levels.set);
    }
}
