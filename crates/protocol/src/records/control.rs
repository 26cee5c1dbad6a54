//! Control records: the markers that end transactions, and those that this broker only passes on.

use super::builder::{BuildError, RecordBatchBuilder};
use super::error::RecordsError;
use super::record::Record;
use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Timestamp};

/// What a control record says (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// A transaction ended.
    EndTransaction(EndTransaction),
    /// A type that this broker does not act upon (`KRaft`'s, and what is yet to come).
    Other {
        /// The number of the type.
        kind: i16,
    },
}

/// How a transaction ended, from its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndTransaction {
    /// Committed, else aborted.
    pub committed: bool,
    /// The coordinator's epoch; fences older coordinators.
    pub coordinator_epoch: i32,
}

impl ControlRecord {
    /// Reads the record of a control batch.
    ///
    /// # Errors
    /// [`RecordsError::Invalid`] if key or value is too short or has a negative version.
    pub fn parse(record: &Record<'_>) -> Result<Self, RecordsError> {
        let short = RecordsError::invalid("control record is too short");
        let negative = RecordsError::invalid("negative version of a control record");
        let Some([version @ .., high, low]) = record.key.and_then(|key| key.first_chunk::<4>())
        else {
            return Err(short);
        };
        if i16::from_be_bytes(*version) < 0 {
            return Err(negative);
        }
        let kind = i16::from_be_bytes([*high, *low]);
        if !matches!(kind, 0 | 1) {
            return Ok(Self::Other { kind });
        }
        let Some([v0, v1, epoch @ ..]) = record.value.and_then(|value| value.first_chunk::<6>())
        else {
            return Err(short);
        };
        if i16::from_be_bytes([*v0, *v1]) < 0 {
            return Err(negative);
        }
        let coordinator_epoch = i32::from_be_bytes(*epoch);
        Ok(Self::EndTransaction(EndTransaction { committed: kind == 1, coordinator_epoch }))
    }
}

impl EndTransaction {
    /// The key of the marker.
    #[must_use]
    pub fn key(self) -> [u8; 4] {
        [0, 0, 0, u8::from(self.committed)]
    }

    /// The value of the marker.
    #[must_use]
    pub fn value(self) -> [u8; 6] {
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        value
    }

    /// The 78-byte batch that a broker appends for the marker.
    #[must_use]
    pub fn batch(self, id: ProducerId, epoch: ProducerEpoch, now: Timestamp) -> Bytes {
        let mut builder = RecordBatchBuilder::new().producer(id, epoch, None).transactional();
        builder = builder.control();
        let built: Result<Bytes, BuildError> = builder
            .append(Some(now), Some(&self.key()), Some(&self.value()))
            .and_then(|()| builder.build());
        built.expect("one small record fits in a batch")
    }
}
