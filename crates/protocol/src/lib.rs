//! Kafka's wire protocol: every message of Kafka 3.9 and 4.4, headers, error codes, record batches.
//!
//! No I/O and no policy. [`messages`] is generated from `schemas/` (see there) by
//! `cargo xtask generate`; it reads from a [`Reader`] and writes to a [`Writer`].
//!
//! Non-obvious:
//! - One struct per message is the union of all its versions. Writing a field that the version lacks
//!   is an error unless the schema calls it ignorable or it holds its default.
//! - Where a nullable field has no `default null`, [`Default`] is the empty value, as in Kafka: say
//!   `None` where null is meant (`MetadataRequest::topics`, `ClassicMemberMetadata`).
//! - Bytes that follow a message in its frame are ignored, as Kafka does.
//! - [`Records`] go through as slices or file ranges and are never copied; `None` is written as null,
//!   which librdkafka refuses in a fetch response: send [`Records::default`] instead.

#[cfg(feature = "arbitrary")]
pub mod arbitrary;
mod error;
mod error_code;
mod header;
mod message;
pub mod messages;
mod payload;
mod reader;
pub mod records;
#[cfg(feature = "reflect")]
pub mod reflect;
mod versioned;
mod writer;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use error_code::ErrorCode;
pub use header::{RequestHeader, request_header_version, response_header_version};
pub use header::{decode_response_header, encode_response_header};
pub use message::{Message, RecordKey, Request};
pub use messages::ApiKey;
pub use payload::{FileRange, Records, RecordsFile, RecordsPart};
pub use reader::Reader;
pub use versioned::{decode_newest, decode_versioned, encode_record_key, encode_versioned};
pub use writer::{Segment, TagPosition, Writer};
