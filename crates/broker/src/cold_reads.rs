//! The threads that read what has to come from the disk, for fetches.
//!
//! A reactor serves many connections: while it waits for a disk, all of them wait. A fetch that wants what is not in
//! memory, or was not looked at since it came from the disk, goes here, and its answer goes back when it has been read. From
//! there on it is in memory, and `sendfile` finds it there.
//!
//! Threads come with the first such fetch, as many as there are fetches at a time, up to [`MOST_THREADS`].

use crate::server::spawn;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use tracing::error;

/// Disks serve several reads at a time better than one after the other; beyond that there is nothing to gain.
const MOST_THREADS: usize = 4;

/// The list of what is to be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColdReads {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    asked: VecDeque<ColdRead>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopping: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("asked", &self.asked.len()).finish_non_exhaustive()
    }
}

/// One read, with what is to be done after it.
pub(crate) type ColdRead = Box<dyn FnOnce() + Send>;

impl ColdReads {
    /// Has a thread carry out `read`. Where none can be had the caller's does, and waits.
    pub(crate) fn ask(&self, read: ColdRead) {
        let mut state = self.shared.state.lock();
        if state.stopping {
            // Nobody is answered any more.
            return;
        }
        state.asked.push_back(read);
        if state.idle < state.asked.len() && state.threads.len() < MOST_THREADS {
            let this = self.clone();
            match spawn("cold-reads", move || this.run()) {
                Ok(thread) => state.threads.push(thread),
                Err(failure) if state.threads.is_empty() => {
                    error!(%failure, "the system refuses a thread: a read from the disk holds others up");
                    let read = state.asked.pop_back();
                    drop(state);
                    if let Some(read) = read {
                        read();
                    }
                    return;
                }
                // Those that there are get to it.
                Err(_) => {}
            }
        }
        drop(state);
        self.shared.news.notify_one();
    }

    fn run(&self) {
        loop {
            let read = {
                let mut state = self.shared.state.lock();
                loop {
                    if state.stopping {
                        return;
                    }
                    if let Some(read) = state.asked.pop_front() {
                        break read;
                    }
                    state.idle += 1;
                    self.shared.news.wait(&mut state);
                    state.idle -= 1;
                }
            };
            read();
        }
    }

    /// Ends the threads after what they are reading. What waits is not read any more.
    pub(crate) fn stop(&self) {
        let (waiting, threads) = {
            let mut state = self.shared.state.lock();
            state.stopping = true;
            (std::mem::take(&mut state.asked), std::mem::take(&mut state.threads))
        };
        self.shared.news.notify_all();
        for thread in threads {
            thread.join().expect("a panic would have ended the process");
        }
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn reads_go_on_beside_one_that_takes_long_and_end_with_the_stop() {
        let reads = ColdReads::default();
        let (release, hold) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        reads.ask(Box::new(move || hold.recv().unwrap()));
        for number in 0..10 {
            let tell = tell.clone();
            reads.ask(Box::new(move || tell.send(number).unwrap()));
        }
        let mut seen: Vec<i32> = (0..10).map(|_| told.recv().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert!(reads.shared.state.lock().threads.len() <= MOST_THREADS);
        release.send(()).unwrap();
        reads.stop();
        reads.ask(Box::new(move || tell.send(10).unwrap()));
        assert!(told.recv().is_err(), "dropped unread");
    }
}
