//! Who wants to know when a partition has more to read: fetch sessions, and fetches that wait.
//!
//! A [`Watcher`] stands for one session, or for one waiting fetch without a session. Each of its
//! partitions has a *slot* in it, and each partition keeps a [`Subscription`] that names the slot.
//! When a partition has news it adds its slot to the watcher's list, once, and the bytes that became
//! readable to its sum. So a session costs nothing while nothing happens, and a fetch finds the
//! partitions that changed without looking at the others (KIP-227).
//!
//! The sum may be too high (a partition that is read while it grows is counted twice), never too low:
//! whoever is woken looks again, and waits on if it was not enough.
//!
//! Lock order: a partition's lock, then a watcher's. Wakes run without either.

use model::{BrokerId, Instant, Offset};
use parking_lot::Mutex;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Something that waits for records.
pub(crate) trait Wake: Debug + Send {
    /// Looks again, and answers or waits on. Called without locks, on any thread.
    fn wake(self: Box<Self>);
}

/// How far a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Up to the log's end: followers, and coordinators loading.
    LogEnd,
    /// Up to the high watermark: `read_uncommitted`.
    HighWatermark,
    /// Up to the last stable offset: `read_committed`.
    LastStableOffset,
}

/// One session, or one waiting fetch.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    state: Mutex<WatcherState>,
    /// When its reader last fetched, in nanoseconds of the broker's clock; 0 if nobody said.
    fetched_at: AtomicU64,
    /// When it fetched before that; 0 if it did not.
    fetched_before_at: AtomicU64,
}

#[derive(Debug, Default)]
struct WatcherState {
    /// Slots with news since they were last taken, each once.
    ready: Vec<u32>,
    /// Bytes that became readable since the sum was last reset; at least what there really are.
    bytes: u64,
    waiting: Option<Waiting>,
    /// Names the latest wait, so that its timer cannot end a later one.
    waits: u64,
}

#[derive(Debug)]
struct Waiting {
    min_bytes: u64,
    wake: Box<dyn Wake>,
}

/// Names one wait of one watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitId(u64);

/// What a partition has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// So many more bytes can be read.
    Readable(u64),
    /// Something else that the next answer must tell: watermark or log start moved.
    Changed,
    /// The wait is over whatever it waits for: leadership or log is gone.
    Urgent,
}

impl Watcher {
    /// Its reader fetches: all its partitions stand where they stood, but for those that it names.
    pub(crate) fn note_fetch(&self, now: Instant) {
        let nanos = u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX);
        let before = self.fetched_at.fetch_max(nanos, Ordering::Relaxed);
        self.fetched_before_at.fetch_max(before, Ordering::Relaxed);
    }

    /// Since when at the latest its reader is known to have been reading; `None` if it fetched only once.
    ///
    /// A fetch may have waited in the socket of a frozen process for any time. But its reader sent it after it
    /// had the answer to the one before, which was not given before that came.
    pub(crate) fn followed_at(&self) -> Option<Instant> {
        let nanos = self.fetched_before_at.load(Ordering::Relaxed);
        (nanos > 0).then_some(Instant(Duration::from_nanos(nanos)))
    }

    /// When its reader last fetched.
    pub(crate) fn fetched_at(&self) -> Instant {
        Instant(Duration::from_nanos(self.fetched_at.load(Ordering::Relaxed)))
    }

    /// Forgets the sum and moves the slots with news to `into`: a fetch is about to look at them.
    pub(crate) fn take_ready(&self, into: &mut Vec<u32>) {
        let mut state = self.state.lock();
        state.bytes = 0;
        into.append(&mut state.ready);
    }

    /// Adds news of `slot`, which is not in the list yet if `is_first`. Returns whom to wake.
    #[must_use = "somebody waits"]
    pub(crate) fn tell(&self, slot: u32, is_first: bool, news: News) -> Option<Box<dyn Wake>> {
        let mut state = self.state.lock();
        if is_first {
            state.ready.push(slot);
        }
        match news {
            News::Readable(bytes) => state.bytes = state.bytes.saturating_add(bytes),
            News::Changed => {}
            News::Urgent => state.bytes = u64::MAX,
        }
        state.take_satisfied()
    }

    /// Lets `wake` wait until `min_bytes` are readable.
    ///
    /// # Errors
    /// `wake`, if they are already: it is to look at once.
    pub(crate) fn wait<W: Wake + 'static>(
        &self,
        min_bytes: u64,
        wake: Box<W>,
    ) -> Result<WaitId, Box<W>> {
        let mut state = self.state.lock();
        if state.bytes >= min_bytes {
            return Err(wake);
        }
        state.waits += 1;
        let id = WaitId(state.waits);
        state.waiting = Some(Waiting { min_bytes, wake });
        Ok(id)
    }

    /// Ends the wait `id` if it still goes on; its timer does this.
    #[must_use = "somebody waits"]
    pub(crate) fn end_wait(&self, id: WaitId) -> Option<Box<dyn Wake>> {
        let mut state = self.state.lock();
        if state.waits != id.0 {
            return None;
        }
        state.waiting.take().map(|waiting| waiting.wake)
    }

    /// Ends whatever wait goes on: the session is closed.
    #[must_use = "somebody waits"]
    pub(crate) fn end_any_wait(&self) -> Option<Box<dyn Wake>> {
        self.state.lock().waiting.take().map(|waiting| waiting.wake)
    }
}

impl WatcherState {
    fn take_satisfied(&mut self) -> Option<Box<dyn Wake>> {
        let bytes = self.bytes;
        self.waiting.take_if(|waiting| bytes >= waiting.min_bytes).map(|waiting| waiting.wake)
    }
}

/// A watcher's interest in one partition; lives behind the partition's lock.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(super) watcher: Arc<Watcher>,
    pub(super) slot: u32,
    /// Where its reader stands.
    pub(super) from: Offset,
    pub(super) isolation: Isolation,
    /// What one answer would carry at most.
    pub(super) max_bytes: u64,
    /// Whether exact byte counts matter: its fetches ask for more than one byte.
    pub(super) counts_bytes: bool,
    /// Set if a follower reads.
    pub(super) replica: Option<BrokerId>,
    /// The high watermark that a follower was last told to look for.
    pub(super) told_high_watermark: Offset,
    /// How much of what is readable from `from` was told.
    pub(super) told_bytes: u64,
    /// Whether the slot is in the watcher's list.
    pub(super) is_ready: bool,
}

/// Below every high watermark.
pub(super) const NOTHING_TOLD: Offset = Offset(-1);

/// What a reader says about itself when it subscribes or reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    /// The next offset that it wants.
    pub(crate) from: Offset,
    /// How far it may see.
    pub(crate) isolation: Isolation,
    /// What one answer would carry at most.
    pub(crate) max_bytes: u64,
    /// Whether it waits for more than one byte.
    pub(crate) counts_bytes: bool,
    /// Set if a follower reads.
    pub(crate) replica: Option<BrokerId>,
}

impl Subscription {
    pub(super) fn new(watcher: Arc<Watcher>, slot: u32, interest: Interest) -> Self {
        let Interest { from, isolation, max_bytes, counts_bytes, replica } = interest;
        Self {
            watcher,
            slot,
            from,
            isolation,
            max_bytes,
            counts_bytes,
            replica,
            told_high_watermark: NOTHING_TOLD,
            told_bytes: 0,
            is_ready: false,
        }
    }

    pub(super) fn is(&self, watcher: &Arc<Watcher>, slot: u32) -> bool {
        self.slot == slot && Arc::ptr_eq(&self.watcher, watcher)
    }

    /// Tells the watcher that `readable` bytes in all can be read from `from`.
    pub(super) fn tell_readable(&mut self, readable: u64) -> Option<Box<dyn Wake>> {
        let readable = readable.min(self.max_bytes.max(1));
        if readable <= self.told_bytes {
            return None;
        }
        let more = readable - self.told_bytes;
        self.told_bytes = readable;
        self.tell(News::Readable(more))
    }

    pub(super) fn tell(&mut self, news: News) -> Option<Box<dyn Wake>> {
        let is_first = !std::mem::replace(&mut self.is_ready, true);
        self.watcher.tell(self.slot, is_first, news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Woken(Arc<Mutex<u32>>);

    impl Wake for Woken {
        fn wake(self: Box<Self>) {
            *self.0.lock() += 1;
        }
    }

    fn subscription(watcher: &Arc<Watcher>, slot: u32) -> Subscription {
        let isolation = Isolation::HighWatermark;
        let interest = Interest {
            from: Offset(0),
            isolation,
            max_bytes: 100,
            counts_bytes: true,
            replica: None,
        };
        Subscription::new(Arc::clone(watcher), slot, interest)
    }

    #[test]
    fn a_wait_ends_when_all_partitions_together_have_enough() {
        let (watcher, count) = (Arc::new(Watcher::default()), Arc::default());
        let (mut a, mut b) = (subscription(&watcher, 0), subscription(&watcher, 1));
        assert!(a.tell_readable(60).is_none());
        watcher.wait(100, Box::new(Woken(Arc::clone(&count)))).expect("60 are not enough");
        assert!(a.tell_readable(60).is_none(), "nothing new");
        assert!(b.tell_readable(39).is_none());
        b.tell_readable(40).expect("100 are").wake();
        assert_eq!(*count.lock(), 1);
        let woken = Box::new(Woken(Arc::clone(&count)));
        watcher.wait(100, woken).expect_err("they still are there").wake();
        let mut ready = Vec::new();
        watcher.take_ready(&mut ready);
        assert_eq!(ready, [0, 1], "each once");
    }

    #[test]
    fn one_partition_counts_no_more_than_it_may_return() {
        let (watcher, count) = (Arc::new(Watcher::default()), Arc::default());
        let mut a = subscription(&watcher, 0);
        watcher.wait(101, Box::new(Woken(Arc::clone(&count)))).expect("nothing there yet");
        assert!(a.tell_readable(5000).is_none(), "an answer carries 100 of them");
        a.tell(News::Urgent).expect("it waits no more").wake();
    }

    #[test]
    fn a_timer_ends_only_its_own_wait() {
        let (watcher, count) = (Arc::new(Watcher::default()), Arc::default());
        let first = watcher.wait(1, Box::new(Woken(Arc::clone(&count)))).expect("waits");
        watcher.end_wait(first).expect("still waits").wake();
        let second = watcher.wait(1, Box::new(Woken(Arc::clone(&count)))).expect("waits");
        assert!(watcher.end_wait(first).is_none());
        assert!(watcher.end_wait(second).is_some());
    }
}
