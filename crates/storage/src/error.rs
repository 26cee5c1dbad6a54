//! What can go wrong with a log. A variant exists only where a caller acts differently.

use model::{Offset, ProducerEpoch, ProducerId, Sequence};
use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on a file or directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct DiskError {
    /// What was attempted, as an infinitive: "open", "sync".
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

impl DiskError {
    /// Adds what was attempted, and on what, to the system's error.
    pub(crate) fn at<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self { action, path: path.to_owned(), source }
    }

    /// Whether a sync failed. What the kernel could not write it may have dropped: a second sync would succeed
    /// and mean nothing, so the log directory must not be written to any more.
    #[must_use]
    pub fn is_failed_sync(&self) -> bool {
        self.action == "sync"
    }

    /// Whether the volume is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Why a log could not be opened, changed or flushed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The offset lies outside of what the operation allows.
    #[error("offset {offset} is not in {lowest}..={highest}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The lowest that is allowed.
        lowest: Offset,
        /// The highest that is allowed.
        highest: Offset,
    },
    /// The log refuses changes since a write failed, or its directory does. Reads go on.
    #[error("the log or its directory is offline since a write failed")]
    Offline,
    /// The disk failed. The log takes no more changes; its directory was told.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The directory holds what no log can be made of.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why an append was refused. Nothing was written and nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The log refuses changes since a write failed, or its directory does.
    #[error("the log or its directory is offline since a write failed")]
    Offline,
    /// The volume has no more free than what is to stay free.
    #[error("{usable} bytes are free on the volume of {}, and barnabas.disk.reserve.bytes keeps {kept} of them: delete something, or make it larger", path.display())]
    NoRoom {
        /// The log directory.
        path: PathBuf,
        /// What the broker could use, in bytes.
        usable: u64,
        /// What is to stay free, in bytes.
        kept: u64,
    },
    /// The batches of one append are larger than a segment.
    #[error("{size} bytes of batches do not fit a segment of {segment_bytes} bytes")]
    RecordListTooLarge {
        /// Size of the batches in bytes.
        size: u64,
        /// `segment.bytes`.
        segment_bytes: u64,
    },
    /// A newer incarnation of the producer has written.
    #[error("producer {producer_id} has epoch {current}, not {epoch}")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// The epoch of the batch.
        epoch: ProducerEpoch,
        /// The epoch last seen.
        current: ProducerEpoch,
    },
    /// A batch is missing before this one, or it repeats one too old to be remembered.
    #[error("producer {producer_id} sent sequence {sequence} after {last:?}")]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// The batch's first sequence.
        sequence: Sequence,
        /// The last sequence seen in the current epoch, if any.
        last: Option<Sequence>,
    },
    /// The batch does not fit the state of its producer's transaction.
    #[error("producer {producer_id}: {reason}")]
    InvalidTransactionState {
        /// The producer.
        producer_id: ProducerId,
        /// What does not fit.
        reason: &'static str,
    },
    /// A newer coordinator has written a marker of this producer.
    #[error("producer {producer_id} has a marker of coordinator epoch {current}, not {epoch}")]
    TransactionCoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// The coordinator epoch of the marker.
        epoch: i32,
        /// The coordinator epoch last seen.
        current: i32,
    },
    /// A follower's batches do not begin at or after its log end.
    #[error("batches from {first} to {last} do not continue a log that ends at {log_end_offset}")]
    UnexpectedOffset {
        /// The first offset of the batches.
        first: Offset,
        /// The last offset of the batches.
        last: Offset,
        /// The log's end.
        log_end_offset: Offset,
    },
    /// A batch that a leader sent is damaged.
    #[error("damaged batch: {0}")]
    Corrupt(String),
    /// A new segment was needed and could not be started. The log is offline.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is below the log's start or above its end.
    #[error("offset {offset} is not in {log_start_offset}..={log_end_offset}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The first readable offset.
        log_start_offset: Offset,
        /// The log's end (exclusive).
        log_end_offset: Offset,
    },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Stored records do not decode.
    #[error("damaged records at offset {offset}: {reason}")]
    Corrupt {
        /// The batch's first or last offset.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
}
