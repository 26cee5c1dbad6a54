//! One partition's log on a [`platform::Disk`], in Kafka's own files.

mod append;
mod error;
mod log_config;
mod log_directories;
mod partition_log;
mod producer_state;
mod read;
pub mod stand_in;

pub use append::{AppendOrigin, AppendRecords, AppendRequest, Appended, Duplicate, Reserved};
pub use append::{Verification, VerificationGuard};
pub use error::{AppendError, DiskError, LogError, ReadError};
pub use log_config::{CleanupPolicy, LogConfig};
pub use log_directories::{LogDirectories, LogDirectoriesConfig, LogDirectory, StartError};
pub use partition_log::{ClosedLog, FlushWork, PartitionLog, PendingAppend, ReadPlan};
pub use producer_state::ProducerDescription;
pub use read::{AbortedTransaction, EpochEnd, LogRead, ReadRequest, TimestampOffset};
