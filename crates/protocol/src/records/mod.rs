//! Record batches: what producers send, what lies in segments, what consumers get.
//!
//! The same bytes travel from socket to disk to socket, so everything here borrows: a [`Batch`] is a
//! view, a [`Record`] is a view into it, and only compression, conversion and building make new bytes.
//!
//! ```text
//! bytes -> Batches -> Batch -> BatchRecords -> Record      reading, any magic
//! bytes -> validate::validate -> Validated                  a leader's append
//! bytes -> convert::down_convert -> bytes                   fetches of version 0 to 3
//! RecordBatchBuilder -> bytes                               writing, magic 2
//! ```
//!
//! Three formats exist ("magic"): 0 and 1 are *message sets*, in which each message is its own batch
//! and a compressed set hides in the value of a wrapper message; 2 is the *record batch* of KIP-98.
//!
//! # Non-obvious
//! - The CRC of a v2 batch starts at byte 21, so base offset and leader epoch can be assigned without
//!   touching it; attributes and max timestamp cannot.
//! - A batch may hold fewer records than its offset range (compaction), or none; offsets have gaps;
//!   timestamp deltas may be negative (delete horizons, KIP-534).
//! - Nothing that a peer declares (counts, lengths, window and block sizes) is ever reserved up front,
//!   and every decompressor checks its output limit while it inflates.

mod batch;
mod builder;
mod checksum;
pub mod compression;
mod control;
pub mod convert;
mod error;
mod header;
mod legacy;
mod record;
mod retain;
pub mod validate;
pub(crate) mod varint;

pub use batch::{Batch, BatchRecords, Batches, Incomplete, RecordIter};
pub use builder::{BuildError, RecordBatchBuilder};
pub use checksum::BatchChecksum;
pub use compression::{Compression, CompressionLevels};
pub use control::{ControlRecord, EndTransaction};
pub use error::RecordsError;
pub use header::{Attributes, BatchHeader, ProducerStamp, TimestampType};
pub use header::{HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION};
pub use legacy::LegacyMessage;
pub use record::{Header, Headers, Record};
pub use retain::{RetainRules, Retained, empty_batch, retain};

#[cfg(test)]
mod tests;
