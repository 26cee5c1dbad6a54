//! The thread that moves logs between log directories, one after the other.

use crate::partition::{Ended, Relocation};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The mover's list, shared by handlers and the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mover {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<VecDeque<Relocation>>,
    news: Condvar,
    /// The same for a task of a simulator.
    rung: Notify,
    stopping: AtomicBool,
}

impl Mover {
    /// Puts a move on the list. Cheap.
    pub(crate) fn ask(&self, relocation: Relocation) {
        self.shared.asked.lock().push_back(relocation);
        self.shared.news.notify_one();
        self.shared.rung.notify_one();
    }

    /// Waits until something may have been asked for since this last returned.
    pub(crate) async fn wait(&self) {
        self.shared.rung.notified().await;
    }

    /// Moves until [`Mover::stop`]; the thread's main function.
    pub(crate) fn run(&self) {
        loop {
            let relocation = {
                let mut asked = self.shared.asked.lock();
                loop {
                    match asked.pop_front() {
                        Some(relocation) => break relocation,
                        None if self.is_stopping() => return,
                        None => self.shared.news.wait(&mut asked),
                    }
                }
            };
            self.carry_out(relocation);
        }
    }

    /// Does all the moves on the list, on this thread. For tests and simulation.
    pub(crate) fn run_once(&self) {
        loop {
            let Some(relocation) = self.shared.asked.lock().pop_front() else { return };
            self.carry_out(relocation);
        }
    }

    fn carry_out(&self, relocation: Relocation) {
        match relocation.run(|| self.is_stopping()) {
            Ended::Next(next) => self.ask(next),
            Ended::Done | Ended::Interrupted => {}
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::SeqCst)
    }

    /// Interrupts what is going on: copies stay where they are for the next start.
    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Under the lock, or the thread may miss it between its look and its sleep.
        drop(self.shared.asked.lock());
        self.shared.news.notify_all();
    }
}
