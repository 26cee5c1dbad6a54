//! What other threads have to tell a reactor.
//!
//! The reactor empties its inbox in every turn; it is woken only if it sleeps, and at most once.

use crate::reactor::Accepted;
use crate::request::{Completion, ConnectionToken};
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// A reactor's inbox.
#[derive(Debug, Default)]
pub struct Inbox {
    news: Mutex<Vec<News>>,
    /// True from before the reactor last looked until it wakes.
    asleep: AtomicBool,
    waker: OnceLock<mio::Waker>,
}

impl Inbox {
    /// An inbox that wakes its reader with `waker`.
    pub(crate) fn with_waker(waker: mio::Waker) -> Self {
        Self { waker: OnceLock::from(waker), ..Self::default() }
    }

    pub(crate) fn send(&self, news: News) {
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
            // A failure means that the eventfd's counter is full: the reactor is being woken already.
            drop(waker.wake());
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
    }

    /// Whether the reactor may sleep now. From here to [`Inbox::awake`] senders wake it.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if self.news.lock().is_empty() {
            return true;
        }
        self.awake();
        false
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
