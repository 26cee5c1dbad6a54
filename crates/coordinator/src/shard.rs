//! One partition's replicated state and the writes between decision and commit.

use crate::{Origin, Replicated};
use model::{Instant, Offset};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Names one batch on its way to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// Replicated state and its queue of writes; `W` is what waits for a write to be committed.
///
/// Writes submitted before the next [`Shard::next_batch`] are gathered into one batch, up to a size. Invariant: the
/// queue is in log order, those already handed out come first.
pub struct Shard<S: Replicated, W> {
    state: S,
    queue: VecDeque<Write<S::Record, W>>,
    next_id: u64,
    max_batch_bytes: usize,
    timeout: Duration,
}

struct Write<R, W> {
    id: WriteId,
    records: Vec<R>,
    bytes: usize,
    waiters: Vec<W>,
    deadline: Instant,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// More may be gathered into it.
    Gathering,
    /// Handed out by `next_batch`.
    Appending,
    /// In the log, `last` included.
    Appended { base: Offset, last: Offset },
}

impl<S: Replicated, W> Shard<S, W> {
    /// A shard around `state`; a write that is not committed within `timeout` fails its waiters.
    ///
    /// A batch holds at most `max_batch_bytes` of records, or the records of one request.
    pub fn new(state: S, max_batch_bytes: usize, timeout: Duration) -> Self {
        Self { state, queue: VecDeque::new(), next_id: 0, max_batch_bytes, timeout }
    }

    /// The state as of the last committed record.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// For changes of what is not replicated, and for loading.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// Queues records that were decided on. `waiter` comes back from [`Shard::advance`] when they are committed, or
    /// from [`Shard::failed`], [`Shard::expire`] or [`Shard::close`] if not.
    pub fn submit(&mut self, now: Instant, records: Vec<S::Record>, waiter: Option<W>) {
        let bytes = records.iter().map(S::size).sum::<usize>();
        if let Some(write) = self.queue.back_mut()
            && write.progress == Progress::Gathering
            && write.bytes + bytes <= self.max_batch_bytes
        {
            write.records.extend(records);
            write.bytes += bytes;
            write.waiters.extend(waiter);
            return;
        }
        let id = WriteId(self.next_id);
        self.next_id += 1;
        self.queue.push_back(Write {
            id,
            records,
            bytes,
            waiters: waiter.into_iter().collect(),
            deadline: now + self.timeout,
            progress: Progress::Gathering,
        });
    }

    /// The next batch to append, in order; the caller must report its outcome by [`Shard::appended`] or
    /// [`Shard::failed`].
    pub fn next_batch(&mut self) -> Option<(WriteId, &[S::Record])> {
        let write = self.queue.iter_mut().find(|w| w.progress == Progress::Gathering)?;
        write.progress = Progress::Appending;
        Some((write.id, &write.records))
    }

    /// The batch is in the log, at `base..=last`, and not committed yet.
    pub fn appended(&mut self, id: WriteId, base: Offset, last: Offset) {
        if let Some(write) = self.queue.iter_mut().find(|w| w.id == id) {
            write.progress = Progress::Appended { base, last };
        }
    }

    /// The batch is not in the log and never will be; returns who waited for it.
    pub fn failed(&mut self, id: WriteId) -> Vec<W> {
        let at = self.queue.iter().position(|w| w.id == id);
        at.and_then(|at| self.queue.remove(at)).map_or_else(Vec::new, |write| write.waiters)
    }

    /// Replays what is below `high_watermark` now, and returns who waited for it, in order.
    pub fn advance(&mut self, high_watermark: Offset) -> Vec<W> {
        let mut done = Vec::new();
        while let Some(write) = self.queue.front()
            && let Progress::Appended { base, last } = write.progress
            && last < high_watermark
        {
            let Some(write) = self.queue.pop_front() else { break };
            for record in write.records {
                self.state.replay(Origin { base_offset: base, transaction: None }, record);
            }
            done.extend(write.waiters);
        }
        done
    }

    /// Takes out the waiters whose time is up; they fail with [`crate::WriteError::TimedOut`]. The write itself stays.
    pub fn expire(&mut self, now: Instant) -> Vec<W> {
        let late = self.queue.iter_mut().take_while(|w| w.deadline <= now);
        late.flat_map(|w| std::mem::take(&mut w.waiters)).collect()
    }

    /// When to call [`Shard::expire`] next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.queue.iter().find(|w| !w.waiters.is_empty()).map(|w| w.deadline)
    }

    /// Records decided on and not committed yet, in order.
    pub fn in_flight(&self) -> impl Iterator<Item = &S::Record> {
        self.queue.iter().flat_map(|w| &w.records)
    }

    /// Gives up the partition: returns everyone who waits and forgets the writes.
    pub fn close(&mut self) -> Vec<W> {
        self.queue.drain(..).flat_map(|w| w.waiters).collect()
    }
}

impl<S: Replicated + fmt::Debug, W> fmt::Debug for Shard<S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("state", &self.state)
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ProducerId;

    /// Remembers what was replayed, in order.
    #[derive(Debug, Default)]
    struct Journal(Vec<(i64, u32)>);

    impl Replicated for Journal {
        type Record = u32;

        fn size(_: &u32) -> usize {
            10
        }

        fn replay(&mut self, origin: Origin, record: u32) {
            self.0.push((origin.base_offset.0, record));
        }

        fn end_transaction(&mut self, _: ProducerId, _: bool) {}
    }

    fn at(seconds: u64) -> Instant {
        Instant(Duration::from_secs(seconds))
    }

    fn shard() -> Shard<Journal, &'static str> {
        Shard::new(Journal::default(), 30, Duration::from_secs(5))
    }

    #[test]
    fn nothing_is_replayed_or_answered_before_it_is_committed() {
        let mut shard = shard();
        shard.submit(at(0), vec![1, 2], Some("a"));
        shard.submit(at(0), vec![3], Some("b"));
        let (id, records) = shard.next_batch().expect("one batch");
        assert_eq!(records, [1, 2, 3], "requests are gathered");
        assert!(shard.next_batch().is_none());
        assert!(shard.advance(Offset(100)).is_empty(), "not even in the log");
        shard.appended(id, Offset(7), Offset(9));
        assert!(
            shard.advance(Offset(9)).is_empty(),
            "the last record is not below the high watermark"
        );
        assert!(shard.state().0.is_empty());
        assert_eq!(shard.advance(Offset(10)), ["a", "b"]);
        assert_eq!(shard.state().0, [(7, 1), (7, 2), (7, 3)]);
        assert_eq!(shard.in_flight().count(), 0);
    }

    #[test]
    fn a_failed_append_leaves_no_trace_and_hits_only_its_own_batch() {
        let mut shard = shard();
        shard.submit(at(0), vec![1, 2, 3], Some("too big to share"));
        shard.submit(at(0), vec![4], Some("next batch"));
        let first = shard.next_batch().expect("first").0;
        let second = shard.next_batch().expect("second").0;
        assert_eq!(shard.failed(first), ["too big to share"]);
        shard.appended(second, Offset(0), Offset(0));
        assert_eq!(shard.advance(Offset(1)), ["next batch"]);
        assert_eq!(shard.state().0, [(0, 4)]);
    }

    #[test]
    fn a_write_that_timed_out_is_still_replayed_when_it_is_committed_late() {
        let mut shard = shard();
        shard.submit(at(0), vec![1], Some("a"));
        let id = shard.next_batch().expect("one").0;
        shard.appended(id, Offset(0), Offset(0));
        assert_eq!(shard.next_deadline(), Some(at(5)));
        assert!(shard.expire(at(4)).is_empty());
        assert_eq!(shard.expire(at(5)), ["a"]);
        assert_eq!(shard.next_deadline(), None);
        assert!(shard.advance(Offset(1)).is_empty(), "answered already");
        assert_eq!(shard.state().0, [(0, 1)]);
    }

    #[test]
    fn giving_up_the_partition_returns_everyone_who_waits() {
        let mut shard = shard();
        shard.submit(at(0), vec![1, 2, 3], Some("a"));
        shard.submit(at(0), vec![4], Some("b"));
        assert_eq!(shard.close(), ["a", "b"]);
        assert!(shard.next_batch().is_none());
    }
}
