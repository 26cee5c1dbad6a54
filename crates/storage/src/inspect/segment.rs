//! Segments: a stream of batches.

use super::{InspectError, Item, Options, Tell, Told, beside, first_not_zero, open, read_up_to};
use crate::checkpoint;
use crate::checksums::{CELL_BYTES, ChecksumFile, Comparison};
use crate::error::DiskError;
use crate::scan::StoredBatch;
use model::Offset;
use platform::{Disk, File};
use protocol::records::{Batch, BatchRecords, Batches, HEADER_BYTES};
use std::path::Path;
use std::sync::Arc;

/// So much is read at once.
const READ_AHEAD: usize = 256 << 10;

/// A segment's file, read from front to back.
pub(super) struct Reader<'p> {
    file: Arc<dyn File>,
    path: &'p Path,
    len: u64,
    position: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

/// What comes next in a segment.
enum Found<'a> {
    Batch(u64, Batch<'a>),
    /// The length is right, and the rest is not.
    NoBatch(u64, String),
}

impl<'p> Reader<'p> {
    pub(super) fn open(disk: &Arc<dyn Disk>, path: &'p Path) -> Result<Self, DiskError> {
        let (file, len) = open(disk, path)?;
        Ok(Self { file, path, len, position: 0, buffer: Vec::new(), buffer_at: 0 })
    }

    /// Up to `count` bytes from the current position; fewer at the end.
    fn peek(&mut self, count: usize) -> Result<&[u8], DiskError> {
        let left = usize::try_from(self.len.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let count = count.min(left);
        let skip = usize::try_from(self.position - self.buffer_at).unwrap_or(usize::MAX);
        if self.buffer.get(skip..).is_some_and(|rest| rest.len() >= count) {
            return Ok(&self.buffer[skip..skip + count]);
        }
        let wanted = count.max(READ_AHEAD).min(left);
        self.buffer.resize(wanted, 0);
        self.buffer_at = self.position;
        let read = read_up_to(self.file.as_ref(), self.path, &mut self.buffer, self.position)?;
        self.buffer.truncate(read);
        Ok(&self.buffer[..count.min(read)])
    }

    /// The next batch's head; `None` where no whole batch follows.
    pub(super) fn next_head(&mut self) -> Result<Option<StoredBatch>, DiskError> {
        let (position, len) = (self.position, self.len);
        let head = StoredBatch::parse(self.peek(HEADER_BYTES)?, position);
        let Some(head) = head.filter(|head| head.end() <= len) else { return Ok(None) };
        self.position = head.end();
        Ok(Some(head))
    }

    /// The head of the batch at `position`, if one starts there.
    pub(super) fn head_at(&self, position: u64) -> Result<Option<StoredBatch>, DiskError> {
        let mut head = [0; HEADER_BYTES];
        let read = read_up_to(self.file.as_ref(), self.path, &mut head, position)?;
        let head = StoredBatch::parse(&head[..read], position);
        Ok(head.filter(|head| head.end() <= self.len))
    }

    /// The next batch; `None` where no whole batch follows.
    fn next(&mut self, limit: usize) -> Result<Option<Found<'_>>, DiskError> {
        let Some(head) = self.next_head()? else { return Ok(None) };
        let position = head.position;
        let Some(size) = usize::try_from(head.size).ok().filter(|&size| size <= limit) else {
            let text = format!("the batch is {} bytes long, the limit is {limit}", head.size);
            return Ok(Some(Found::NoBatch(position, text)));
        };
        self.position = position;
        let read = self.peek(size)?.len();
        self.position = head.end();
        let skip = usize::try_from(position - self.buffer_at).unwrap_or(usize::MAX);
        let bytes = &self.buffer[skip..skip + read];
        Ok(Some(match Batches::new(bytes).next() {
            Some(Ok(batch)) => Found::Batch(position, batch),
            Some(Err(error)) => Found::NoBatch(position, error.to_string()),
            None => Found::NoBatch(position, "the file became shorter meanwhile".to_owned()),
        }))
    }

    /// What follows the last whole batch, in words.
    fn tail(&mut self) -> Result<Option<String>, DiskError> {
        let (position, len) = (self.position, self.len);
        let left = len.saturating_sub(position);
        if left == 0 {
            return Ok(None);
        }
        if first_not_zero(self.file.as_ref(), self.path, position, len)?.is_none() {
            return Ok(Some(format!(
                "position {position}: {left} zero bytes at the end: allocated ahead of need, or not written before \
                 a crash"
            )));
        }
        let cut = StoredBatch::parse(self.peek(HEADER_BYTES)?, position);
        Ok(Some(match cut {
            Some(cut) => format!(
                "position {position}: the last {left} bytes are a batch cut off (it says that it has {}), or none",
                cut.size
            ),
            None => format!("position {position}: the last {left} bytes are no batch"),
        }))
    }
}

pub(super) fn inspect<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    base: Offset,
    options: Options,
    tell: Tell<'_, E>,
) -> Told<E> {
    let mut reader = Reader::open(disk, path)?;
    let mut order = Order { base, next: base, leader_epoch: -1 };
    let mut comparison = if options.verify { comparison(disk, path, base)? } else { None };
    while let Some(found) = reader.next(options.limit)? {
        match found {
            Found::Batch(position, batch) => {
                if let Some(comparison) = &mut comparison {
                    comparison.note(position, batch.bytes());
                }
                batch_item(position, &batch, options, &mut order, tell)?
            }
            Found::NoBatch(position, reason) => {
                tell(Item::Problem(format!("position {position}: {reason}")))?;
            }
        }
    }
    reader.tail()?.map_or(Ok(()), |text| tell(Item::Problem(text)))?;
    comparison.map_or(Ok(()), |comparison| differences(disk, path, &comparison, tell))
}

/// The checksums beside the segment, if there are any that can be used.
fn comparison(
    disk: &Arc<dyn Disk>,
    path: &Path,
    base: Offset,
) -> Result<Option<Comparison>, DiskError> {
    let bytes = checkpoint::read_file(disk.as_ref(), &beside(path, "checksums"))?;
    let file = bytes.and_then(|bytes| ChecksumFile::parse(&bytes, base));
    Ok(file.map(ChecksumFile::compared))
}

fn differences<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    comparison: &Comparison,
    tell: Tell<'_, E>,
) -> Told<E> {
    let metadata = disk.metadata(path).map_err(DiskError::at("look at", path))?;
    let fits = comparison.file().covers() == (metadata.len, metadata.modified);
    let or_else = if fits { "" } else { ", or another broker wrote to the segment since" };
    for from in comparison.differences() {
        tell(Item::Problem(format!(
            "position {from} to {}: offsets, lengths, epochs or formats of batches that start there are not those that \
             were written{or_else}",
            from + CELL_BYTES
        )))?;
    }
    Ok(())
}

fn batch_item<E>(
    position: u64,
    batch: &Batch<'_>,
    options: Options,
    order: &mut Order,
    tell: Tell<'_, E>,
) -> Result<(), InspectError<E>> {
    let valid = batch.verify();
    let mut problems = Vec::new();
    if !valid {
        problems.push("the checksum is wrong".to_owned());
    }
    let wanted = options.records || options.verify;
    let records = wanted.then(|| batch.records(options.limit)).transpose();
    let records = records.unwrap_or_else(|error| {
        problems.push(error.to_string());
        None
    });
    if options.verify {
        order.check(batch, &mut problems);
    }
    if let Some(records) = &records {
        check_records(batch, records, &mut problems);
    }
    let records = records.as_ref().filter(|_| options.records);
    tell(Item::Batch { position, batch, valid, records })?;
    for problem in problems {
        let last = batch.last_offset();
        tell(Item::Problem(format!("position {position}, batch up to offset {last}: {problem}")))?;
    }
    Ok(())
}

/// What batches must be to each other.
struct Order {
    base: Offset,
    next: Offset,
    leader_epoch: i32,
}

impl Order {
    fn check(&mut self, batch: &Batch<'_>, problems: &mut Vec<String>) {
        let (first, last) =
            (batch.base_offset().unwrap_or(batch.last_offset()), batch.last_offset());
        if first < self.next {
            problems.push(format!("it starts at offset {first}, below {} that is due", self.next));
        }
        if last < first {
            problems.push(format!("it ends at offset {last}, before its start {first}"));
        }
        if last.0.saturating_sub(self.base.0) > i64::from(i32::MAX) {
            problems.push(format!("it is too far from the segment's first offset {}", self.base));
        }
        self.next = self.next.max(Offset(last.0.saturating_add(1)));
        let epoch = batch.header().map_or(-1, |header| header.partition_leader_epoch);
        if epoch >= 0 && epoch < self.leader_epoch {
            let before = self.leader_epoch;
            problems
                .push(format!("its leader epoch {epoch} is lower than {before}, of one before"));
        }
        self.leader_epoch = self.leader_epoch.max(epoch);
    }
}

/// What records must be to each other and to their batch.
fn check_records(batch: &Batch<'_>, records: &BatchRecords<'_>, problems: &mut Vec<String>) {
    let last = batch.last_offset();
    let mut lowest = batch.base_offset();
    for record in records {
        let offset = match record {
            Ok(record) => record.offset,
            Err(error) => return problems.push(error.to_string()),
        };
        if lowest.is_some_and(|lowest| offset < lowest) || offset > last {
            return problems.push(format!("the record with offset {offset} is out of order"));
        }
        lowest = Some(Offset(offset.0.saturating_add(1)));
    }
    if let Some(messages) = records.messages() {
        // The outer message's own checksum was looked at.
        for message in messages.skip(usize::from(batch.base_offset().is_some())).flatten() {
            if !message.verify() {
                let offset = message.offset;
                problems.push(format!("the checksum of the message with offset {offset} is wrong"));
            }
        }
    }
}
