//! Indexes: entries of fixed size, and the batches that they point to.

use super::segment::Reader;
use super::{
    InspectError, Item, Options, Tell, Told, first_not_zero, log_beside, open, read_up_to,
};
use crate::entry_file::Entry;
use crate::error::DiskError;
use crate::offset_index::OffsetEntry;
use crate::scan::StoredBatch;
use crate::time_index::TimeEntry;
use crate::transaction_index::{ENTRY_BYTES, TransactionEntry};
use model::Offset;
use platform::Disk;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// So many entries are read at once.
const BLOCK: usize = 1024;

/// An index whose entries can be checked against the segment's batches.
pub(super) trait Checked: Entry {
    fn item(&self, base: Offset) -> Item<'static>;

    /// What is wrong between an entry and the one before it, in words.
    fn after(&self, previous: &Self) -> Option<&'static str>;

    /// What is wrong between an entry and the segment's batches. Entries come in order.
    fn against(&self, base: Offset, walk: &mut Walk<'_>) -> Result<Option<String>, DiskError>;
}

/// A walk through the heads of a segment's batches.
pub(super) struct Walk<'p> {
    log: Reader<'p>,
    /// The batch that the walk has come to.
    at: Option<StoredBatch>,
    /// The largest timestamp before that batch.
    max_timestamp: i64,
}

impl Walk<'_> {
    /// The first batch that does not end before `offset`.
    fn to(&mut self, offset: Offset) -> Result<Option<&StoredBatch>, DiskError> {
        while self.at.as_ref().is_none_or(|batch| batch.last_offset < offset) {
            let Some(next) = self.log.next_head()? else { return Ok(None) };
            if let Some(passed) = self.at.replace(next) {
                self.max_timestamp = self.max_timestamp.max(passed.max_timestamp);
            }
        }
        Ok(self.at.as_ref())
    }
}

impl Checked for OffsetEntry {
    fn item(&self, base: Offset) -> Item<'static> {
        let offset = Offset(base.0.saturating_add(i64::from(self.relative_offset)));
        Item::OffsetEntry { offset, position: self.position }
    }

    fn after(&self, previous: &Self) -> Option<&'static str> {
        let rises = self.relative_offset > previous.relative_offset;
        (!rises || self.position <= previous.position)
            .then_some("it does not rise above the one before")
    }

    fn against(&self, base: Offset, walk: &mut Walk<'_>) -> Result<Option<String>, DiskError> {
        let last = base.0.saturating_add(i64::from(self.relative_offset));
        let found = walk.log.head_at(u64::from(self.position))?;
        Ok(match found {
            None => Some(format!("no batch starts at position {}", self.position)),
            Some(batch) if batch.last_offset.0 != last => Some(format!(
                "the batch at position {} ends at offset {}, not {last}",
                self.position, batch.last_offset
            )),
            Some(_) => None,
        })
    }
}

impl Checked for TimeEntry {
    fn item(&self, base: Offset) -> Item<'static> {
        let offset = Offset(base.0.saturating_add(i64::from(self.relative_offset)));
        Item::TimeEntry { timestamp: self.timestamp, offset }
    }

    fn after(&self, previous: &Self) -> Option<&'static str> {
        let rises =
            self.timestamp > previous.timestamp && self.relative_offset >= previous.relative_offset;
        (!rises).then_some("it does not rise above the one before")
    }

    fn against(&self, base: Offset, walk: &mut Walk<'_>) -> Result<Option<String>, DiskError> {
        let offset = Offset(base.0.saturating_add(i64::from(self.relative_offset)));
        let timestamp = self.timestamp;
        let Some(batch) = walk.to(offset)? else {
            return Ok(Some(format!("no batch has the offset {offset}")));
        };
        let (found, starts) = (batch.max_timestamp, batch.base_offset);
        if starts.is_some_and(|starts| starts > offset) {
            return Ok(Some(format!("no batch has the offset {offset}")));
        }
        if found != timestamp {
            return Ok(Some(format!(
                "the largest timestamp of the batch with offset {offset} is {found}, not {timestamp}"
            )));
        }
        let before = walk.max_timestamp;
        Ok((before > timestamp)
            .then(|| format!("a batch before offset {offset} has the larger timestamp {before}")))
    }
}

pub(super) fn inspect<T: Checked, E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    base: Offset,
    options: Options,
    tell: Tell<'_, E>,
) -> Told<E> {
    let log = log_beside(path);
    let mut walk = if options.verify { open_log(disk, &log, tell)? } else { None };
    let mut previous = None::<T>;
    entries(disk, path, T::SIZE, tell, |at, bytes, tell| {
        let entry = T::decode(bytes);
        tell(entry.item(base))?;
        if options.verify {
            let order = previous.as_ref().and_then(|previous| entry.after(previous));
            let mut problem = order.map(str::to_owned);
            if let (None, Some(walk)) = (&problem, &mut walk) {
                problem = entry.against(base, walk)?;
            }
            if let Some(problem) = problem {
                tell(Item::Problem(format!("entry {at}: {problem}")))?;
            }
        }
        previous = Some(entry);
        Ok(())
    })
}

fn open_log<'p, E>(
    disk: &Arc<dyn Disk>,
    log: &'p Path,
    tell: Tell<'_, E>,
) -> Result<Option<Walk<'p>>, InspectError<E>> {
    match Reader::open(disk, log) {
        Ok(log) => Ok(Some(Walk { log, at: None, max_timestamp: -1 })),
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
            let name = log.display();
            tell(Item::Problem(format!(
                "it cannot be checked against its batches: there is no {name}"
            )))?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Hands out the whole entries of a file, numbered from 0.
fn entries<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    size: usize,
    tell: Tell<'_, E>,
    mut each: impl FnMut(u64, &[u8], Tell<'_, E>) -> Told<E>,
) -> Told<E> {
    let (file, len) = open(disk, path)?;
    let mut block = vec![0; BLOCK * size];
    let (mut position, mut at, mut not_zero) = (0, 0, 0);
    loop {
        let read = read_up_to(file.as_ref(), path, &mut block, position)?;
        for (index, entry) in block[..read].chunks_exact(size).enumerate() {
            let from = position + (index * size) as u64;
            // What was found once is not looked for again: a file of zeros and a last one costs two reads.
            if entry.iter().all(|&byte| byte == 0) && from >= not_zero {
                match first_not_zero(file.as_ref(), path, from, len)? {
                    None => return tell(Item::Padding { bytes: len.saturating_sub(from) }),
                    Some(at) => not_zero = at,
                }
            }
            each(at, entry, tell)?;
            at += 1;
        }
        position += read as u64;
        let rest = read % size;
        if rest > 0 {
            tell(Item::Problem(format!(
                "the last {rest} bytes are no whole entry of {size} bytes"
            )))?;
        }
        if read < block.len() {
            return Ok(());
        }
    }
}

pub(super) fn transactions<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: Options,
    tell: Tell<'_, E>,
) -> Told<E> {
    let log = log_beside(path);
    let mut walk = if options.verify { open_log(disk, &log, tell)? } else { None };
    let mut previous = None::<TransactionEntry>;
    entries(disk, path, ENTRY_BYTES, tell, |at, bytes, tell| {
        let version = i16::from_be_bytes([bytes[0], bytes[1]]);
        let entry = TransactionEntry::decode(bytes);
        let TransactionEntry { producer_id, first_offset, last_offset, last_stable_offset } = entry;
        tell(Item::Aborted {
            version,
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        })?;
        let mut problem = |text: String| tell(Item::Problem(format!("entry {at}: {text}")));
        if version != 0 {
            problem(format!("its version {version} is not 0"))?;
        }
        if options.verify {
            if first_offset > last_offset {
                problem(format!("it starts at {first_offset}, after its marker at {last_offset}"))?;
            }
            if previous.is_some_and(|previous| previous.last_offset >= last_offset) {
                problem("its marker is not after that of the one before".to_owned())?;
            } else if let Some(walk) = &mut walk {
                let found = walk.to(last_offset)?;
                let header = found.and_then(|batch| batch.header.as_ref());
                let is_marker = header.is_some_and(|header| {
                    header.attributes.is_control()
                        && header.base_offset() <= last_offset
                        && header.producer_id == producer_id.0
                });
                if !is_marker {
                    problem(format!("no marker of producer {producer_id} is at {last_offset}"))?;
                }
            }
        }
        previous = Some(entry);
        Ok(())
    })
}
