//! The only thread that waits for a disk to be flushed.
//!
//! Partitions ask when a flush setting says so; whatever was appended meanwhile is flushed with it.

use crate::partition::Partition;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// The committer's list, shared by the partitions and the thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    news: Condvar,
    /// The same for a task of a simulator.
    rung: Notify,
}

#[derive(Debug, Default)]
struct Asked {
    partitions: VecDeque<Weak<Partition>>,
    stopping: bool,
}

impl Committer {
    /// Asks for a flush of `partition`. Cheap; a partition's lock may be held.
    pub(crate) fn ask(&self, partition: &Arc<Partition>) {
        self.shared.asked.lock().partitions.push_back(Arc::downgrade(partition));
        self.shared.news.notify_one();
        self.shared.rung.notify_one();
    }

    /// Waits until something may have been asked for since this last returned.
    pub(crate) async fn wait(&self) {
        self.shared.rung.notified().await;
    }

    /// Flushes what was asked for until [`Committer::stop`]; the thread's main function.
    pub(crate) fn run(&self) {
        loop {
            let partition = {
                let mut asked = self.shared.asked.lock();
                loop {
                    match asked.partitions.pop_front() {
                        Some(partition) => break partition,
                        None if asked.stopping => return,
                        None => self.shared.news.wait(&mut asked),
                    }
                }
            };
            if let Some(partition) = partition.upgrade() {
                partition.flush();
            }
        }
    }

    /// Flushes what was asked for so far, on this thread. For tests and simulation.
    pub(crate) fn run_once(&self) {
        loop {
            let Some(partition) = self.shared.asked.lock().partitions.pop_front() else { return };
            if let Some(partition) = partition.upgrade() {
                partition.flush();
            }
        }
    }

    /// Lets [`Committer::run`] return once its list is empty.
    pub(crate) fn stop(&self) {
        self.shared.asked.lock().stopping = true;
        self.shared.news.notify_all();
    }
}
