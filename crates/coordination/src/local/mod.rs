//! A store for a single node: the tree in memory, every change in a log on its own disk.
//!
//! A change is acknowledged once it is flushed; changes that queue up meanwhile are flushed together.
//! Sessions live as long as the process: the ephemeral nodes of the one before vanish at start.

mod codec;
mod engine;
mod journal;
mod tree;
mod watches;

use crate::{
    Events, Lease, Opening, Pending, Reply, Request, Session, SessionHandle, SessionId, Store,
    StoreError, Zxid,
};
use engine::{Command, Engine};
use platform::{Clock, Disk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// How many queued requests are flushed together at most.
const MAX_BATCH: usize = 4096;

/// The store of a single node.
#[derive(Debug)]
pub struct LocalStore {
    queue: Arc<Queue>,
}

/// How requests reach the engine.
#[derive(Debug)]
enum Queue {
    /// Through its own thread, so that nobody waits for a flush who does not need it.
    Thread(Mutex<Option<(mpsc::Sender<Command>, JoinHandle<()>)>>),
    /// On the caller's thread, one at a time; for simulation and tests.
    Inline(Mutex<Option<Box<Engine>>>),
}

impl LocalStore {
    /// Opens the store in `directory` (created if missing) and starts its thread. Its files begin with
    /// `barnabas-store.`; others may lie beside them.
    ///
    /// # Errors
    /// The disk's; `WouldBlock` if another process has the store open; `InvalidData` if a file is damaged.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let mut engine = Engine::open(disk, directory, clock)?;
        let (sender, receiver) = mpsc::channel::<Command>();
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
            while let Ok(first) = receiver.recv() {
                let batch = std::iter::once(first).chain(receiver.try_iter().take(MAX_BATCH - 1));
                engine.process(batch.collect());
            }
        })?;
        Ok(Self { queue: Arc::new(Queue::Thread(Mutex::new(Some((sender, thread))))) })
    }

    /// Opens the store without a thread: requests are performed, and flushed, inside
    /// [`Session::submit`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_inline(
        disk: Arc<dyn Disk>,
        directory: &Path,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        Self::open_inline_above(disk, directory, clock, Zxid(0))
    }

    /// As [`Self::open_inline`]; every change from now on has a number above `floor`, which is that of a change in
    /// the store whose content comes here.
    ///
    /// # Errors
    /// As [`Self::open`]; `InvalidInput` if nothing can be above `floor`.
    pub fn open_inline_above(
        disk: Arc<dyn Disk>,
        directory: &Path,
        clock: Arc<dyn Clock>,
        floor: Zxid,
    ) -> io::Result<Self> {
        if floor.0 > i64::MAX / 2 {
            let what = format!("no store counts as far as {}", floor.0);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut engine = Engine::open(disk, directory, clock)?;
        engine.raise(floor);
        Ok(Self { queue: Arc::new(Queue::Inline(Mutex::new(Some(Box::new(engine))))) })
    }

    /// Whether a store lies in `directory`.
    ///
    /// # Errors
    /// The disk's; `NotFound` if there is no such directory.
    pub fn is_in(disk: &dyn Disk, directory: &Path) -> io::Result<bool> {
        let is_ours = |name: &PathBuf| {
            let name = name.to_string_lossy();
            name.starts_with("barnabas-store.snapshot.") || name.starts_with("barnabas-store.log.")
        };
        Ok(disk.list(directory)?.iter().any(is_ours))
    }
}

impl Queue {
    fn push(&self, command: Command) {
        let shut_down = || StoreError::Failed("shut down".into());
        match self {
            Self::Thread(thread) => {
                let thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
                match &*thread {
                    Some((sender, _)) => {
                        if let Err(mpsc::SendError(command)) = sender.send(command) {
                            command.fail(shut_down());
                        }
                    }
                    None => command.fail(shut_down()),
                }
            }
            Self::Inline(engine) => {
                match &mut *engine.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(engine) => engine.process(vec![command]),
                    None => command.fail(shut_down()),
                }
            }
        }
    }
}

impl Store for LocalStore {
    fn open_session(&self) -> Opening {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Command::Open { reply });
        let queue = Arc::clone(&self.queue);
        Box::pin(async move {
            let (id, events) = answer.await.map_err(|_| lost())??;
            Ok((SessionHandle::new(Arc::new(LocalSession { id, queue })), events))
        })
    }

    /// Performs what is queued, then stops: later requests fail. Returns when its files are closed.
    fn shut_down(&self) {
        match &*self.queue {
            Queue::Thread(thread) => {
                let taken = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((sender, thread)) = taken {
                    drop(sender);
                    let _ = thread.join();
                }
            }
            Queue::Inline(engine) => {
                engine.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
    }
}

#[derive(Debug)]
struct LocalSession {
    id: SessionId,
    queue: Arc<Queue>,
}

impl Session for LocalSession {
    fn id(&self) -> SessionId {
        self.id
    }

    fn submit(&self, request: Request) -> Pending {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Command::Perform { session: self.id, request, reply });
        Box::pin(async move { answer.await.map_err(|_| lost())? })
    }

    fn lease(&self) -> Option<Lease> {
        None
    }
}

/// The engine's thread ended with our request in hand.
fn lost() -> StoreError {
    StoreError::MayHaveBeenApplied
}

type OpenSender = oneshot::Sender<Result<(SessionId, Events), StoreError>>;
type ReplySender = oneshot::Sender<Result<Reply, StoreError>>;

#[cfg(test)]
mod tests;
