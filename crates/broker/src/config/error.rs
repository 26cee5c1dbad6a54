//! What is wrong with a configuration: everything at once, each with its remedy.

use std::fmt;

/// The process's exit code when its configuration is refused.
pub const EXIT_CODE: i32 = 2;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, or the file.
    pub key: String,
    /// What is wrong, in Kafka's words where it has some. Never a password.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    pub(super) fn new(key: impl Into<String>, message: String, remedy: impl Into<String>) -> Self {
        Self { key: key.into(), message, remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message.trim_end_matches('.'))?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// A configuration that a broker must not start with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] => write!(f, "configuration refused: {one}"),
            many => {
                write!(f, "configuration refused, {} problems:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

/// Something to tell the operator that does not stop the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key.
    pub key: String,
    /// What about it.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}
