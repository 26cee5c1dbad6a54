//! Why bytes are no message, and why a message has no bytes.

use std::fmt;

/// The bytes are not the message that they claim to be: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {position}")]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// How far reading had come, in bytes from the start of the frame.
    pub position: usize,
}

/// What is wrong with bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The frame ends too early.
    Truncated,
    /// Null where the version does not allow it.
    Null,
    /// More elements than the rest of the frame can hold, or than its memory budget allows.
    TooMany(u64),
    /// A variable-length number of more than 32 (or 64) bits.
    Varint,
    /// A string that is not UTF-8.
    Utf8,
    /// More tagged fields than any message has, or one that is longer than its stated length.
    Tags,
    /// No such API.
    UnknownApiKey(i16),
    /// The message has no such version.
    UnsupportedVersion(&'static str, i16),
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("truncated"),
            Self::Null => f.write_str("null where a value must stand"),
            Self::TooMany(count) => write!(f, "{count} elements cannot be here"),
            Self::Varint => f.write_str("over-long number"),
            Self::Utf8 => f.write_str("text that is not UTF-8"),
            Self::Tags => f.write_str("impossible tagged fields"),
            Self::UnknownApiKey(key) => write!(f, "unknown api key {key}"),
            Self::UnsupportedVersion(name, version) => write!(f, "{name} has no version {version}"),
        }
    }
}

/// The message cannot be said in this version: our fault, or a request for the impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version lacks a field that holds a value and may not be left out.
    #[error("version {version} has no {field}")]
    Unsupported {
        /// The field, in Kafka's spelling.
        field: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// Null where the version does not allow it.
    #[error("{field} may not be null in version {version}")]
    Null {
        /// The field, in Kafka's spelling.
        field: &'static str,
        /// The version that was asked for.
        version: i16,
    },
    /// A length that its place cannot express: 32,767 bytes in an old string, else 2 GiB.
    #[error("{0} bytes or elements are too many")]
    TooLong(usize),
    /// The message has no such version.
    #[error("{0} has no version {1}")]
    UnsupportedVersion(&'static str, i16),
}

impl EncodeError {
    pub(crate) fn unsupported(field: &'static str, version: i16) -> Self {
        Self::Unsupported { field, version }
    }

    pub(crate) fn null(field: &'static str, version: i16) -> Self {
        Self::Null { field, version }
    }
}
