//! The newest batches of a log in memory, so that who reads along needs neither file nor `sendfile`.
//!
//! Invariant: the batches are consecutive and the last one ends at the log end, or there are none.
//!
//! A log that nobody reads keeps none: they are kept from the first read on, until much was appended
//! without another.

use bytes::{Bytes, BytesMut};
use model::Offset;
use protocol::{Records, RecordsPart};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Reads of less are answered from memory; from here on `sendfile` is cheaper than copying.
pub(crate) const SMALL_READ_BYTES: usize = 16 << 10;
/// At most so much of one log is kept.
const LOG_BYTES: usize = 64 << 10;
/// So much is appended after a read before it is taken for the last one.
const UNREAD_BYTES: usize = 1 << 20;
/// What keeping a batch costs on top of its bytes.
const OVERHEAD_BYTES: usize = 96;

/// What all tails may use together.
#[derive(Debug)]
pub(crate) struct TailBudget {
    limit: usize,
    used: AtomicUsize,
}

impl TailBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    fn take(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used + bytes > self.limit {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }
}

#[derive(Debug)]
struct TailBatch {
    base_offset: Offset,
    last_offset: Offset,
    bytes: Bytes,
}

#[derive(Debug)]
pub(crate) struct Tail {
    budget: Arc<TailBudget>,
    batches: VecDeque<TailBatch>,
    bytes: usize,
    /// Bytes that were appended since the last read.
    unread: Cell<usize>,
}

/// A read from memory.
#[derive(Debug)]
pub(crate) struct TailRead {
    pub(crate) records: Records,
    pub(crate) size: usize,
    pub(crate) first_batch_incomplete: bool,
}

impl Tail {
    pub(crate) fn new(budget: Arc<TailBudget>) -> Self {
        let unread = Cell::new(UNREAD_BYTES);
        Self { budget, batches: VecDeque::new(), bytes: 0, unread }
    }

    /// Adds a batch that was just published, in two parts.
    pub(crate) fn push(&mut self, base_offset: Offset, last_offset: Offset, parts: [&[u8]; 2]) {
        let len = parts[0].len() + parts[1].len();
        if len >= SMALL_READ_BYTES || self.unread.get() >= UNREAD_BYTES {
            return self.clear();
        }
        self.unread.set(self.unread.get() + len);
        let cost = len + OVERHEAD_BYTES;
        while self.bytes + cost > LOG_BYTES {
            self.pop();
        }
        while !self.budget.take(cost) {
            if self.batches.is_empty() {
                return;
            }
            self.pop();
        }
        self.bytes += cost;
        let mut bytes = BytesMut::with_capacity(len);
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        self.batches.push_back(TailBatch { base_offset, last_offset, bytes: bytes.freeze() });
    }

    fn pop(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            let cost = batch.bytes.len() + OVERHEAD_BYTES;
            self.bytes -= cost;
            self.budget.used.fetch_sub(cost, Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = 0;
        self.batches = VecDeque::new();
    }

    /// Batches from the one that holds `offset` up to `bound`, if they are all here and small.
    pub(crate) fn read(
        &self,
        offset: Offset,
        bound: Offset,
        max_bytes: usize,
        min_one_message: bool,
    ) -> Option<TailRead> {
        self.unread.set(0);
        if self.batches.front()?.base_offset > offset {
            return None;
        }
        let from = self.batches.partition_point(|batch| batch.last_offset < offset);
        let mut read =
            TailRead { records: Records::default(), size: 0, first_batch_incomplete: false };
        for batch in self.batches.range(from..).take_while(|batch| batch.base_offset < bound) {
            let len = batch.bytes.len();
            let is_first = read.size == 0;
            if read.size + len > max_bytes && !(is_first && min_one_message) {
                if is_first {
                    read.records.push(RecordsPart::Bytes(batch.bytes.slice(..max_bytes)));
                    read.size = max_bytes;
                    read.first_batch_incomplete = true;
                }
                break;
            }
            read.size += len;
            if read.size >= SMALL_READ_BYTES {
                return None;
            }
            read.records.push(RecordsPart::Bytes(batch.bytes.clone()));
        }
        Some(read)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(limit: usize) -> Tail {
        is_read(Tail::new(Arc::new(TailBudget::new(limit))))
    }

    fn is_read(tail: Tail) -> Tail {
        assert!(tail.read(Offset(0), Offset(0), 0, true).is_none());
        tail
    }

    #[test]
    fn nothing_is_kept_of_a_log_that_nobody_reads() {
        let mut tail = Tail::new(Arc::new(TailBudget::new(1 << 20)));
        tail.push(Offset(0), Offset(0), [&[1; 61], &[2; 939]]);
        assert!(tail.read(Offset(0), Offset(1), 1 << 20, true).is_none(), "the first read");
        for n in 1..=1000 {
            tail.push(Offset(n), Offset(n), [&[1; 61], &[2; 939]]);
        }
        assert!(tail.read(Offset(1000), Offset(1001), 1 << 20, true).is_some(), "read before");
        for n in 1001..=2100 {
            tail.push(Offset(n), Offset(n), [&[1; 61], &[2; 939]]);
        }
        assert_eq!((tail.bytes, tail.budget.used.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn only_what_is_held_without_gaps_is_answered() {
        let mut tail = tail(1 << 20);
        for n in 0..400 {
            tail.push(Offset(2 * n), Offset(2 * n + 1), [&[1; 61], &[2; 139]]);
        }
        assert!(tail.bytes <= LOG_BYTES);
        assert!(tail.read(Offset(0), Offset(800), 1 << 20, true).is_none(), "too old");
        let read = tail.read(Offset(795), Offset(798), 1 << 20, true).unwrap();
        assert_eq!(read.size, 2 * 200, "the batch that holds 795, and the next");
        assert!(tail.read(Offset(600), Offset(800), 1 << 20, true).is_none(), "not small");
        let read = tail.read(Offset(600), Offset(800), 500, false).unwrap();
        assert_eq!((read.size, read.first_batch_incomplete), (400, false));
        let read = tail.read(Offset(600), Offset(800), 10, false).unwrap();
        assert_eq!((read.size, read.first_batch_incomplete), (10, true));
        let read = tail.read(Offset(600), Offset(800), 10, true).unwrap();
        assert_eq!((read.size, read.first_batch_incomplete), (200, false));
        tail.push(Offset(800), Offset(800), [&[1; 61], &[0; SMALL_READ_BYTES]]);
        assert!(tail.read(Offset(799), Offset(801), 10, true).is_none());
        assert_eq!(tail.budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_budget_is_shared() {
        let mut first = tail(1000);
        let mut second = is_read(Tail::new(Arc::clone(&first.budget)));
        first.push(Offset(0), Offset(0), [&[0; 61], &[0; 600]]);
        second.push(Offset(0), Offset(0), [&[0; 61], &[0; 600]]);
        assert!(second.read(Offset(0), Offset(1), 10_000, true).is_none(), "there was no room");
        drop(first);
        second.push(Offset(1), Offset(1), [&[0; 61], &[0; 600]]);
        assert!(second.read(Offset(1), Offset(2), 10_000, true).is_some());
    }
}
