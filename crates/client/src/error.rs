//! What can go wrong between a client and its brokers.

use protocol::records::{BuildError, RecordsError};
use protocol::{DecodeError, EncodeError, ErrorCode};
use std::io;

/// Why a request has no good answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection to the broker.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        reason: String,
    },
    /// The connection ended before the answer.
    #[error("connection to {address} ended: {reason}")]
    Disconnected {
        /// With whom.
        address: String,
        /// How.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {address} to {api} in time")]
    Timeout {
        /// From whom.
        address: String,
        /// The request.
        api: &'static str,
    },
    /// The broker serves no version of the request that we speak.
    #[error("{address} does not serve {api} in a version that we speak")]
    Unsupported {
        /// Who.
        address: String,
        /// The request.
        api: &'static str,
    },
    /// The answer is not what it should be.
    #[error("answer to {api} cannot be read: {source}")]
    Decode {
        /// The request.
        api: &'static str,
        /// What is wrong.
        source: DecodeError,
    },
    /// The request cannot be said in the version that the broker speaks.
    #[error("{api} cannot be written: {source}")]
    Encode {
        /// The request.
        api: &'static str,
        /// What is wrong.
        source: EncodeError,
    },
    /// The broker answered with an error.
    #[error("{what}: {message} ({})", code.name())]
    Broker {
        /// Which.
        code: ErrorCode,
        /// What it was about.
        what: String,
        /// The broker's words, or ours.
        message: String,
    },
    /// The topic has no such partition.
    #[error("topic {topic} has no partition {partition}")]
    NoPartition {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// Records that were fetched are broken.
    #[error("records of {partition} are broken: {source}")]
    Records {
        /// Where from.
        partition: String,
        /// What is wrong.
        source: RecordsError,
    },
    /// A record that cannot be put into a batch.
    #[error("record cannot be sent: {0}")]
    Build(#[from] BuildError),
    /// Something else failed for good before, and was reported then.
    #[error("stopped after an earlier failure")]
    Stopped,
}

impl ClientError {
    /// An error that a broker answered with. Empty and missing messages are replaced by ours.
    #[must_use]
    pub fn broker(code: i16, what: impl Into<String>, message: Option<&str>) -> Self {
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        let message = message.filter(|message| !message.is_empty()).unwrap_or(code.message());
        Self::Broker { code, what: what.into(), message: message.to_owned() }
    }

    /// `Ok` for code 0, else [`Self::broker`].
    ///
    /// # Errors
    /// The error that the code names.
    pub fn check(code: i16, what: impl Into<String>, message: Option<&str>) -> Result<(), Self> {
        if code == 0 { Ok(()) } else { Err(Self::broker(code, what, message)) }
    }

    /// The broker's error, if that is what it is.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. } => Some(*code),
            Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::Timeout { .. }
            | Self::Unsupported { .. }
            | Self::Decode { .. }
            | Self::Encode { .. }
            | Self::NoPartition { .. }
            | Self::Records { .. }
            | Self::Build(_)
            | Self::Stopped => None,
        }
    }

    /// Whether the same request may succeed later, maybe at another broker.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Disconnected { .. } | Self::Timeout { .. } => true,
            Self::Broker { code, .. } => code.is_retriable(),
            Self::Unsupported { .. }
            | Self::Decode { .. }
            | Self::Encode { .. }
            | Self::NoPartition { .. }
            | Self::Records { .. }
            | Self::Build(_)
            | Self::Stopped => false,
        }
    }

    pub(crate) fn connect(address: &str, error: &io::Error) -> Self {
        Self::Connect { address: address.to_owned(), reason: error.to_string() }
    }
}
