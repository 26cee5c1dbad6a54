//! What a log directory knows of its logs without opening them: what its checkpoints say.

use model::{Offset, TopicPartition};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How a log was last left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Files are complete and on disk.
    Clean,
    /// Files are complete; they are synced when the broker stops.
    Settled,
    /// It has to be recovered.
    Unclean,
    /// It is open.
    Open,
}

/// One log of a directory. Its numbers are written by the log's owner and read by whoever writes
/// checkpoints; each stands alone, so nothing is ordered.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) name: TopicPartition,
    /// The directory's name, if it is not the partition's: a `-future` log.
    future: Mutex<Option<Box<str>>>,
    recovery_point: AtomicI64,
    /// As it was last written to disk.
    written_recovery_point: AtomicI64,
    log_start_offset: AtomicI64,
    high_watermark: AtomicI64,
    /// -1 if the log was never compacted.
    cleaner_offset: AtomicI64,
    size: AtomicU64,
    stopped: AtomicU8,
    log_start_needed: AtomicU8,
}

const UNKNOWN: u64 = u64::MAX;

impl LogEntry {
    pub(crate) fn new(name: TopicPartition, future: Option<String>, stopped: Stopped) -> Self {
        let entry = Self {
            name,
            future: Mutex::new(future.map(Into::into)),
            recovery_point: AtomicI64::new(0),
            written_recovery_point: AtomicI64::new(0),
            log_start_offset: AtomicI64::new(0),
            high_watermark: AtomicI64::new(0),
            cleaner_offset: AtomicI64::new(-1),
            size: AtomicU64::new(UNKNOWN),
            stopped: AtomicU8::new(0),
            log_start_needed: AtomicU8::new(0),
        };
        entry.set_stopped(stopped);
        entry
    }

    pub(crate) fn is_future(&self) -> bool {
        self.future.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The log is now the partition's live one.
    pub(crate) fn promote(&self) {
        *self.future.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn directory_name(&self) -> String {
        match &*self.future.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(name) => name.to_string(),
            None => self.name.to_string(),
        }
    }

    pub(crate) fn recovery_point(&self) -> Offset {
        Offset(self.recovery_point.load(Ordering::Relaxed))
    }

    pub(crate) fn set_recovery_point(&self, offset: Offset) {
        self.recovery_point.store(offset.0, Ordering::Relaxed);
    }

    pub(crate) fn written_recovery_point(&self) -> Offset {
        Offset(self.written_recovery_point.load(Ordering::Relaxed))
    }

    pub(crate) fn set_written_recovery_point(&self, offset: Offset) {
        self.written_recovery_point.store(offset.0, Ordering::Relaxed);
    }

    pub(crate) fn log_start_offset(&self) -> Offset {
        Offset(self.log_start_offset.load(Ordering::Relaxed))
    }

    /// The log start, if the first segment starts below it: only then is it checkpointed.
    pub(crate) fn checkpointed_log_start(&self) -> Option<Offset> {
        (self.log_start_needed.load(Ordering::Relaxed) == 1).then(|| self.log_start_offset())
    }

    pub(crate) fn set_log_start_offset(&self, offset: Offset, is_needed: bool) {
        self.log_start_offset.store(offset.0, Ordering::Relaxed);
        self.log_start_needed.store(u8::from(is_needed), Ordering::Relaxed);
    }

    pub(crate) fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Relaxed))
    }

    /// Whether it was another.
    pub(crate) fn set_high_watermark(&self, offset: Offset) -> bool {
        // One writer: the log's owner.
        let differs = self.high_watermark() != offset;
        self.high_watermark.store(offset.0, Ordering::Relaxed);
        differs
    }

    /// Where compaction goes on, if it ever began.
    pub(crate) fn cleaner_offset(&self) -> Option<Offset> {
        Some(self.cleaner_offset.load(Ordering::Relaxed)).filter(|&offset| offset >= 0).map(Offset)
    }

    pub(crate) fn set_cleaner_offset(&self, offset: Option<Offset>) {
        self.cleaner_offset.store(offset.map_or(-1, |offset| offset.0), Ordering::Relaxed);
    }

    /// Bytes in its segments, if that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Relaxed)).filter(|&size| size != UNKNOWN)
    }

    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    pub(crate) fn add_size(&self, size: u64) {
        self.size.fetch_add(size, Ordering::Relaxed);
    }

    pub(crate) fn stopped(&self) -> Stopped {
        match self.stopped.load(Ordering::Relaxed) {
            0 => Stopped::Clean,
            1 => Stopped::Unclean,
            2 => Stopped::Open,
            _ => Stopped::Settled,
        }
    }

    pub(crate) fn set_stopped(&self, stopped: Stopped) {
        let number = match stopped {
            Stopped::Clean => 0,
            Stopped::Unclean => 1,
            Stopped::Open => 2,
            Stopped::Settled => 3,
        };
        self.stopped.store(number, Ordering::Relaxed);
    }
}
