//! What all messages have in common.

use crate::{ApiKey, DecodeError, DecodeErrorKind, EncodeError, Reader, Writer};
use std::ops::RangeInclusive;

/// A message: one struct for all its versions.
pub trait Message: Sized + Clone + std::fmt::Debug + Default + PartialEq {
    /// Kafka's name, such as `ProduceRequest`.
    const NAME: &'static str;
    /// The versions that can be read and written, early-access ones included.
    const VERSIONS: RangeInclusive<i16>;
    /// The newest version that Kafka does not mark as unstable.
    const STABLE: i16;
    /// The first version with compact lengths and tagged fields (KIP-482).
    const FLEXIBLE: Option<i16>;

    /// Reads the body. Bytes after it stay unread, for the caller to ignore as Kafka does.
    ///
    /// # Errors
    /// If the version does not exist or the bytes are not such a message.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {
        if !Self::VERSIONS.contains(&version) {
            let kind = DecodeErrorKind::UnsupportedVersion(Self::NAME, version);
            return Err(reader.error(kind));
        }
        Self::read(reader, version)
    }

    /// Writes the body.
    ///
    /// # Errors
    /// If the version does not exist or cannot carry a value that is set.
    fn encode(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {
        if !Self::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion(Self::NAME, version));
        }
        self.write(writer, version)
    }

    /// [`decode`](Self::decode) of a version that is known to exist.
    #[doc(hidden)]
    fn read(reader: &mut Reader, version: i16) -> Result<Self, DecodeError>;

    /// [`encode`](Self::encode) to a version that is known to exist.
    #[doc(hidden)]
    fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError>;
}

/// A request and what answers it.
pub trait Request: Message {
    /// Its key in the request header.
    const KEY: ApiKey;
    /// The answer, in the same version.
    type Response: Message;
}

/// The key of a record in a coordinator's topic: a type, then the body in version 0.
pub trait RecordKey: Message {
    /// Written in two bytes before the body; Kafka 3.9 calls it the key's version.
    const TYPE: i16;
    /// The record's value, which starts with its own version.
    type Value: Message;
}
