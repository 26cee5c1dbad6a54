//! What can go wrong in a measurement: all of it ends the run.

use std::io;

/// Why a measurement did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The system's.
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
    /// A broker answered an error.
    #[error("{api} was answered with error {code}")]
    Broker {
        /// Which request.
        api: &'static str,
        /// Kafka's error code.
        code: i16,
    },
    /// A broker's answer was no answer.
    #[error("{0}")]
    Protocol(String),
    /// What was asked for does not exist.
    #[error("{0}")]
    Usage(String),
}

/// Names what was being done when the system failed.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
    let what = what.into();
    move |error| BenchError::Io(what, error)
}
