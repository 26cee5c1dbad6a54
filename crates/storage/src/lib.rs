//! One partition's log on a [`platform::Disk`], in Kafka's own files: a directory that Kafka wrote opens
//! here, and the other way round.
//!
//! [`LogDirectories`] finds the logs of `log.dirs`; a [`ClosedLog`] becomes a [`PartitionLog`] when
//! somebody uses it.
//!
//! # Non-obvious
//! - What is reserved is provisional. A failed write takes the log offline; its state is rebuilt from
//!   the disk, and published records must all be there.
//! - Only what a sync returned for is durable; a failed sync is never repeated.
//! - An index entry names the *last* offset of the batch at its position.
//! - A segment's size in memory counts what is reserved; readers stop at what is published.
//! - Whatever shortens a log is durable before anything is appended: else what was cut off might come back after
//!   a crash behind what came instead, and fit.
//! - A sync of a file does not make its name durable, nor one of a directory that of the directory; names come
//!   back in any order.
//! - A segment's bytes are looked at when they come from the disk for the first time; what is damaged is never served.
//! - Files may outlive their names: a reader keeps the file that it was given.

mod aborted;
mod append;
mod checkpoint;
mod checksums;
mod compaction;
mod continuity;
mod deletions;
mod directory_name;
mod entry_file;
mod error;
mod files;
mod flush;
mod headroom;
pub mod inspect;
mod largest_timestamp;
mod leader_epochs;
mod log_config;
mod log_directories;
mod mending;
mod meta_properties;
mod moves;
mod offset_index;
mod partition_log;
mod partition_metadata;
mod pending;
mod producer_state;
mod read;
mod read_plan;
mod recovery;
mod registry;
mod scan;
mod scrub;
mod segment;
mod snapshot;
mod survey;
mod tail;
mod time_index;
mod transaction_index;

pub use append::{AppendOrigin, AppendRecords, AppendRequest, Appended, Duplicate, Reserved};
pub use append::{Verification, VerificationGuard};
pub use compaction::{CleanedGroup, Cleaning, CleaningBuffers, CleaningError, CleaningState};
pub use compaction::{CleaningSwap, CleaningTotals, Consequence, Interrupted, LogView, Pace};
pub use error::{AppendError, DiskError, LogError, ReadError};
pub use flush::FlushWork;
pub use log_config::{CleanupPolicy, LogConfig};
pub use log_directories::{LogDirectories, LogDirectoriesConfig, LogDirectory, NewLog, StartError};
pub use mending::{Mending, MendingError};
pub use partition_log::{ClosedLog, PartitionLog, SwappedFiles};
pub use pending::PendingAppend;
pub use producer_state::ProducerDescription;
pub use read::{AbortedTransaction, EpochEnd, LogRead, ReadRequest, TimestampOffset};
pub use read_plan::ReadPlan;
pub use scrub::{ScrubError, ScrubSegment, Scrubbed};
pub use survey::{DirectorySurvey, PartitionSurvey};
