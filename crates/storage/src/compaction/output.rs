//! Writing the segments that replace others.

use super::Pace;
use super::cleaning::CleaningError;
use crate::error::{DiskError, LogError};
use crate::files::{Kind, PartitionDirectory, SegmentFiles};
use crate::log_config::LogConfig;
use crate::recovery;
use crate::scan::StoredBatch;
use crate::segment::{IndexWrites, Segment};
use crate::transaction_index::TransactionEntry;
use model::{Offset, Timestamp};
use protocol::records::HEADER_BYTES;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// A segment's batches and its positions: Java counts both in an i32.
const MOST_BYTES: u64 = i32::MAX as u64;

/// What a group becomes: one segment, or several if one cannot hold it.
#[derive(Debug)]
pub(crate) struct Output {
    directory: Arc<PartitionDirectory>,
    config: Arc<LogConfig>,
    now: Timestamp,
    /// The last is being written.
    segments: Vec<Segment>,
    aborted: Vec<TransactionEntry>,
    next_offset: Offset,
    buffer: Vec<u8>,
    flush_at: usize,
}

impl Output {
    pub(crate) fn new(
        directory: &Arc<PartitionDirectory>,
        config: &Arc<LogConfig>,
        base: Offset,
        now: Timestamp,
        flush_at: usize,
    ) -> Result<Self, DiskError> {
        let mut output = Self {
            directory: Arc::clone(directory),
            config: Arc::clone(config),
            now,
            segments: Vec::new(),
            aborted: Vec::new(),
            next_offset: base,
            buffer: Vec::new(),
            flush_at,
        };
        output.begin(base)?;
        Ok(output)
    }

    fn begin(&mut self, base: Offset) -> Result<(), DiskError> {
        let files = Arc::new(SegmentFiles::cleaned(Arc::clone(&self.directory), base));
        self.segments.push(Segment::empty(Arc::clone(&files), self.now));
        recovery::create_files(&files)
    }

    fn current(&mut self) -> &mut Segment {
        self.segments.last_mut().expect("there is one from the beginning")
    }

    /// Appends a whole batch; with the index entry of the aborted transaction that it ends.
    pub(crate) fn append(
        &mut self,
        batch: &[u8],
        aborted: Option<TransactionEntry>,
        pace: &mut dyn Pace,
    ) -> Result<(), CleaningError> {
        let position = self.current().size;
        let head = &batch[..batch.len().min(HEADER_BYTES)];
        let mut stored = StoredBatch::parse(head, position).expect("a whole batch");
        let lowest = Offset(stored.last_offset.0.saturating_sub(i64::from(i32::MAX)));
        if position + stored.size > MOST_BYTES
            || self.current().relative(stored.last_offset).is_none()
        {
            let base = stored.base_offset.unwrap_or(lowest).max(lowest).max(self.next_offset);
            self.finish_segment(pace)?;
            self.begin(base).map_err(LogError::from)?;
            stored.position = 0;
        }
        self.next_offset = stored.next_offset();
        let config = Arc::clone(&self.config);
        self.current().append(&stored, &config);
        self.current().files.record(stored.position, head, stored.size);
        self.aborted.extend(aborted);
        self.buffer.extend_from_slice(batch);
        if self.buffer.len() >= self.flush_at {
            self.write_out(pace)?;
        }
        Ok(())
    }

    /// Completes the current segment and goes on in one that begins at `base`.
    pub(crate) fn next_segment(
        &mut self,
        base: Offset,
        pace: &mut dyn Pace,
    ) -> Result<(), CleaningError> {
        self.finish_segment(pace)?;
        Ok(self.begin(base).map_err(LogError::from)?)
    }

    fn write_out(&mut self, pace: &mut dyn Pace) -> Result<(), CleaningError> {
        let len = self.buffer.len() as u64;
        if len == 0 {
            return Ok(());
        }
        let segment = self.segments.last_mut().expect("there is one from the beginning");
        let path = segment.files.path(Kind::Log);
        let file = segment.files.get(Kind::Log).map_err(LogError::from)?;
        file.write_all_at(&[IoSlice::new(&self.buffer)], segment.published)
            .map_err(DiskError::at("write", &path))
            .map_err(LogError::from)?;
        segment.published += len;
        self.buffer.clear();
        pace.moved(len).map_err(|_| CleaningError::Interrupted)
    }

    /// Completes the files of the current segment and makes them durable.
    fn finish_segment(&mut self, pace: &mut dyn Pace) -> Result<(), CleaningError> {
        self.write_out(pace)?;
        let aborted = std::mem::take(&mut self.aborted);
        Ok(self.complete_files(&aborted).map_err(LogError::from)?)
    }

    fn complete_files(&mut self, aborted: &[TransactionEntry]) -> Result<(), DiskError> {
        let segment = self.current();
        assert_eq!(segment.size, segment.published, "everything is written out");
        recovery::write_transactions(segment, aborted)?;
        segment.push_time_entry();
        segment.write_indexes(IndexWrites::Cut)?;
        segment.sealed = true;
        Ok(())
    }

    /// The new segments, complete and durable. They take over when the last of the old was modified.
    pub(crate) fn finish(
        mut self,
        modified: Timestamp,
        pace: &mut dyn Pace,
    ) -> Result<Vec<Segment>, (Vec<Segment>, CleaningError)> {
        if let Err(error) = self.finish_segment(pace) {
            return Err((self.segments, error));
        }
        match sync(&self.segments, modified) {
            Ok(()) => Ok(self.segments),
            Err(error) => Err((self.segments, error)),
        }
    }

    /// Gives up; what was written has to be removed.
    pub(crate) fn abandon(self) -> Vec<Segment> {
        self.segments
    }
}

fn sync(segments: &[Segment], modified: Timestamp) -> Result<(), CleaningError> {
    for segment in segments {
        for kind in Kind::ALL {
            let is_missing = kind == Kind::TransactionIndex && segment.transactions.entries == 0;
            if is_missing || kind == Kind::Checksums {
                continue;
            }
            let path = segment.files.path(kind);
            let file = segment.files.get(kind).map_err(LogError::from)?;
            file.set_modified(modified)
                .map_err(DiskError::at("set the time of", &path))
                .map_err(LogError::from)?;
            file.sync()
                .map_err(DiskError::at("sync", &path))
                .map_err(|error| CleaningError::Sync(error.into()))?;
        }
        // Last: it tells when the segment was modified.
        segment.files.try_save_checksums(segment.size);
        match segment.files.sync(Kind::Checksums) {
            Err(error) if error.source.kind() != io::ErrorKind::NotFound => {
                return Err(CleaningError::Sync(error.into()));
            }
            _ => {}
        }
    }
    Ok(())
}
