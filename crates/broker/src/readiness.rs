//! Whether this broker knows its cluster: what clients ask before that waits.
//!
//! A broker is registered, and so told by the controller through its sockets, before it has heard of a
//! single topic. A client that got through in between would be told that its topics do not exist.

use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

type Work = Box<dyn FnOnce() + Send>;

/// Set once, for good.
#[derive(Default)]
pub(crate) struct Readiness {
    is_ready: AtomicBool,
    waiting: Mutex<Vec<Work>>,
}

impl Readiness {
    /// Whether the controller has told this broker of its cluster.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Does `work` once the broker is ready: now, or on the thread that makes it so.
    pub(crate) fn when_ready(&self, work: impl FnOnce() + Send + 'static) {
        let mut waiting = self.waiting.lock();
        if self.is_ready() {
            drop(waiting);
            work();
        } else {
            waiting.push(Box::new(work));
        }
    }

    /// The broker knows its cluster.
    pub(crate) fn set(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.is_ready.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(|work| work());
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_waits_is_done_once_the_broker_is_ready_and_what_comes_later_at_once() {
        let readiness = Readiness::default();
        let done = Arc::new(Mutex::new(Vec::new()));
        let note = |number| {
            let done = Arc::clone(&done);
            move || done.lock().push(number)
        };
        readiness.when_ready(note(1));
        readiness.when_ready(note(2));
        assert!(done.lock().is_empty());
        readiness.set();
        assert_eq!(*done.lock(), [1, 2]);
        readiness.when_ready(note(3));
        assert_eq!(*done.lock(), [1, 2, 3]);
    }
}
