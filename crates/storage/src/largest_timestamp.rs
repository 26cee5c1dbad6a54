//! The largest timestamp of a segment that was found on the disk.
//!
//! A time index has no checksums, and retention and look-ups go by its last entry: one that says too little has records removed,
//! or passed over. An entry is believed if its batch has that timestamp; what comes after that batch is walked. Where that
//! does not fit, everything is.

use crate::error::DiskError;
use crate::files::{Kind, SegmentFiles};
use crate::offset_index::OffsetIndex;
use crate::scan::{Scanner, StoredBatch};
use crate::segment::{Lookup, MaxTimestamp};
use crate::time_index::{TimeEntry, TimeIndex};
use std::sync::Arc;

/// The largest timestamp in the first `size` bytes.
///
/// # Errors
/// The disk's.
pub(crate) fn find(
    files: &Arc<SegmentFiles>,
    offset_index: &OffsetIndex,
    time_index: &TimeIndex,
    size: u64,
) -> Result<MaxTimestamp, DiskError> {
    let lookup = Lookup::of(files, offset_index, size);
    let last = time_index.last(files)?;
    if let Some(entry) = last
        && let Some(batch) = batch_of(&lookup, entry)?
    {
        let claimed = MaxTimestamp { timestamp: entry.timestamp, offset: batch.last_offset };
        let (largest, is_whole) = walk(files, batch.end(), size, claimed)?;
        if is_whole {
            return Ok(largest);
        }
    }
    let none = MaxTimestamp { timestamp: -1, offset: files.base };
    let (largest, is_whole) = walk(files, 0, size, none)?;
    if last.is_none_or(|last| last.timestamp != largest.timestamp) && largest.timestamp >= 0 {
        files.blame_index(Kind::TimeIndex);
    }
    // Behind a damaged batch there may be more: rather too large than too small.
    let claimed = last.filter(|last| !is_whole && last.timestamp > largest.timestamp);
    Ok(claimed.map_or(largest, |last| MaxTimestamp {
        timestamp: last.timestamp,
        offset: files.base + i64::from(last.relative_offset),
    }))
}

/// The batch that `entry` is of, if it is of one.
pub(crate) fn batch_of(
    lookup: &Lookup,
    entry: TimeEntry,
) -> Result<Option<StoredBatch>, DiskError> {
    let batch = lookup.find(lookup.files().base + i64::from(entry.relative_offset))?;
    Ok(batch.filter(|batch| batch.max_timestamp == entry.timestamp))
}

/// The largest timestamp from `position` on, at least `known`; whether there was nothing damaged in between.
fn walk(
    files: &SegmentFiles,
    position: u64,
    size: u64,
    known: MaxTimestamp,
) -> Result<(MaxTimestamp, bool), DiskError> {
    let mut largest = known;
    let mut scanner = Scanner::near(files, position, size)?;
    while let Some(batch) = scanner.next_head()? {
        if batch.max_timestamp > largest.timestamp {
            largest = MaxTimestamp { timestamp: batch.max_timestamp, offset: batch.last_offset };
        }
    }
    Ok((largest, scanner.position() >= size))
}
