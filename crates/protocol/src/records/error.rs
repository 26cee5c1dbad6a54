//! What can be wrong with records from outside.

use std::borrow::Cow;

/// Bytes that are not what they claim to be. Always the sender's fault (or the disk's).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// Framing, magic or checksum: the bytes were damaged. Kafka: `CORRUPT_MESSAGE`.
    #[error("corrupt records: {0}")]
    Corrupt(Cow<'static, str>),
    /// A whole batch with a right checksum whose content breaks the format. Kafka: `INVALID_RECORD`.
    #[error("invalid record: {0}")]
    Invalid(Cow<'static, str>),
    /// A codec that does not exist, or a block that it cannot inflate. Kafka: `UNKNOWN_SERVER_ERROR`,
    /// because its reader fails in a way that its broker does not expect.
    #[error("unreadable records: {0}")]
    Unreadable(Cow<'static, str>),
    /// A codec that this format does not have. Kafka: `UNSUPPORTED_COMPRESSION_TYPE`.
    #[error("unsupported compression: {0}")]
    Codec(Cow<'static, str>),
    /// The compressed block inflates beyond what the caller allows. Kafka: `MESSAGE_TOO_LARGE`.
    #[error("records inflate to more than {limit} bytes")]
    TooLarge {
        /// The limit that was passed in.
        limit: usize,
    },
}

impl RecordsError {
    pub(crate) const fn corrupt(what: &'static str) -> Self {
        Self::Corrupt(Cow::Borrowed(what))
    }

    pub(crate) const fn unreadable(what: &'static str) -> Self {
        Self::Unreadable(Cow::Borrowed(what))
    }

    pub(crate) const fn invalid(what: &'static str) -> Self {
        Self::Invalid(Cow::Borrowed(what))
    }
}
