//! The time index (`.timeindex`): up to which offset no record has a larger timestamp.
//!
//! Entry: `timestamp i64 | relative offset i32`, timestamps strictly rising: the largest timestamp so
//! far and the last offset of the batch that has it.

use crate::entry_file::{Entry, EntryFile};
use crate::files::Kind;

/// One entry; the offset is relative to the segment's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    pub(crate) timestamp: i64,
    pub(crate) relative_offset: i32,
}

impl Entry for TimeEntry {
    const SIZE: usize = 12;
    const KIND: Kind = Kind::TimeIndex;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let (mut timestamp, mut offset) = ([0; 8], [0; 4]);
        timestamp.copy_from_slice(&bytes[..8]);
        offset.copy_from_slice(&bytes[8..12]);
        Self {
            timestamp: i64::from_be_bytes(timestamp),
            relative_offset: i32::from_be_bytes(offset),
        }
    }
}

pub(crate) type TimeIndex = EntryFile<TimeEntry>;
