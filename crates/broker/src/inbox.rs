//! What other threads have to tell a reactor.
//!
//! The reactor empties its inbox in every turn; it is woken only if it sleeps, and at most once.

use crate::reactor::Accepted;
use crate::request::{Completion, ConnectionToken};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// One piece of news for a reactor.
#[derive(Debug)]
pub(crate) enum News {
    /// A parked request has ended.
    Completed { connection: ConnectionToken, sequence: u64, completion: Completion },
    /// A connection to look after.
    Accepted(Accepted),
    /// The broker knows its cluster: what was held back can be executed.
    Ready,
    /// Take no new requests, finish those that are under way, close.
    Drain,
    /// Close everything now.
    Stop,
}

thread_local! {
    /// The address of the inbox that this thread reads.
    static READ_HERE: Cell<usize> = const { Cell::new(0) };
    /// What this thread has to tell itself: most requests end where they began, and need no lock.
    static OWN: RefCell<Vec<News>> = const { RefCell::new(Vec::new()) };
}

/// A reactor's inbox.
#[derive(Debug, Default)]
pub struct Inbox {
    news: Mutex<Vec<News>>,
    /// True from before the reactor last looked until it wakes.
    asleep: AtomicBool,
    waker: OnceLock<ReaderWaker>,
}

/// Ends the sleep of who reads.
#[derive(Debug)]
enum ReaderWaker {
    /// A thread that waits for sockets.
    Thread(mio::Waker),
    /// A task of a simulator.
    Task(Arc<Notify>),
}

impl Inbox {
    /// An inbox that wakes its reader with `waker`.
    pub(crate) fn with_waker(waker: mio::Waker) -> Self {
        Self { waker: OnceLock::from(ReaderWaker::Thread(waker)), ..Self::default() }
    }

    /// An inbox whose reader waits for `news`.
    pub(crate) fn with_notify(news: Arc<Notify>) -> Self {
        Self { waker: OnceLock::from(ReaderWaker::Task(news)), ..Self::default() }
    }

    /// From now on this thread is the one that reads it.
    pub(crate) fn is_read_here(&self) {
        READ_HERE.set(self.address());
    }

    /// This thread reads no inbox any more. While it ends, requests may be given up that are only found
    /// now.
    pub(crate) fn is_read_no_more() {
        READ_HERE.set(0);
    }

    /// For a while others read on this thread: what it has told itself and not taken yet is kept here.
    pub(crate) fn is_put_aside(&self) {
        OWN.with_borrow_mut(|own| self.news.lock().append(own));
        Self::is_read_no_more();
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn send(&self, news: News) {
        if READ_HERE.get() == self.address() {
            // Whoever reads is awake.
            return OWN.with_borrow_mut(|own| own.push(news));
        }
        self.news.lock().push(news);
        self.wake();
    }

    /// Ends the sleep of the reactor if it sleeps.
    pub(crate) fn wake(&self) {
        // A load is cheap; the reactor's own news finds it awake.
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(waker) = self.waker.get()
        {
            match waker {
                // A failure means that the eventfd's counter is full: the reactor is being woken already.
                ReaderWaker::Thread(waker) => drop(waker.wake()),
                ReaderWaker::Task(news) => news.notify_one(),
            }
        }
    }

    pub(crate) fn complete(
        &self,
        connection: ConnectionToken,
        sequence: u64,
        completion: Completion,
    ) {
        self.send(News::Completed { connection, sequence, completion });
    }

    /// Moves all news to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<News>) {
        into.append(&mut self.news.lock());
        if READ_HERE.get() == self.address() {
            OWN.with_borrow_mut(|own| into.append(own));
        }
    }

    /// Whether the reactor may sleep now. From here to [`Inbox::awake`] senders wake it.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.news.lock().is_empty() && OWN.with_borrow(Vec::is_empty) {
            return true;
        }
        self.awake();
        false
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[test]
fn what_a_thread_tells_itself_keeps_it_awake_until_it_is_taken() {
    let (here, elsewhere) = (Inbox::default(), Inbox::default());
    here.is_read_here();
    here.send(News::Ready);
    elsewhere.send(News::Stop);
    assert!(!here.fall_asleep());
    assert!(here.news.lock().is_empty(), "no lock is needed");
    let mut news = Vec::new();
    elsewhere.take(&mut news);
    assert!(matches!(news.as_slice(), [News::Stop]));
    here.take(&mut news);
    assert!(matches!(news.as_slice(), [News::Stop, News::Ready]));
    assert!(here.fall_asleep());
    Inbox::is_read_no_more();
    here.send(News::Drain);
    assert!(!here.asleep.load(Ordering::SeqCst), "it is woken like any other");
}
