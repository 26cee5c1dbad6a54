//! A store and the sessions on it.

use crate::{CreateMode, Kind, Op, OpResult, Read, ReadResult, Reply, Request, Stat};
use bytes::Bytes;
use model::Instant;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Names a session for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Why a request was not answered with what it asked for. Variants differ in what a caller does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The node (or, for a creation, its parent) does not exist.
    #[error("no node {0}")]
    NoNode(String),
    /// The node exists already.
    #[error("node {0} exists")]
    NodeExists(String),
    /// The node has another version than the one that was asked for.
    #[error("node {0} has another version")]
    BadVersion(String),
    /// The node has children.
    #[error("node {0} has children")]
    NotEmpty(String),
    /// The parent is ephemeral.
    #[error("the parent of {0} is ephemeral")]
    NoChildrenForEphemerals(String),
    /// No path, or too much data.
    #[error("not a path, or too much data: {0}")]
    BadArguments(String),
    /// A write whose reply was lost or late, or whose flush failed: it may have been made, or still be.
    #[error("connection to the store lost; the change may have been made")]
    MayHaveBeenApplied,
    /// The request was not performed, for want of a connection in time; it may be made again as it is.
    /// [`Event::Connected`] says when that has a chance.
    #[error("no connection to the store")]
    Disconnected,
    /// No session could be opened in time; why not. It may be tried again.
    #[error("no server could be used in time: {0}")]
    Unreachable(String),
    /// The store does not allow it: a node's ACL, or the store itself, does not know this client.
    #[error("the store does not allow it: {0}")]
    Denied(String),
    /// The disk had no room, or refused: the change was not made. Later ones may succeed.
    #[error("the store could not write: {0}")]
    NotWritten(String),
    /// The session has ended, and its ephemeral nodes with it. A new one is needed.
    #[error("the session has expired")]
    SessionExpired,
    /// The store is gone for good: its disk failed, or it was shut down.
    #[error("the store has failed: {0}")]
    Failed(String),
}

/// How a watched node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was set.
    Data,
    /// A child was created or deleted.
    Children,
}

/// What a session is told without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watched node changed. The watch is spent.
    Watched(Change, String),
    /// The connection was lost; watches and ephemeral nodes are still there.
    Disconnected,
    /// No store has confirmed the session for as long as it lasts: others may take it for over, so that
    /// its holder must behave as if it were, until `Connected` or `Expired` says which. Comes after
    /// `Disconnected`.
    Lapsed,
    /// The connection is back, in the same session, with the same watches: changes that were missed follow
    /// as `Watched`, before any reply. A request that failed meanwhile may be made again.
    Connected,
    /// The session is over: nothing more comes.
    Expired,
}

/// Where a session's events arrive, in the order of the changes.
pub type Events = mpsc::UnboundedReceiver<Event>;

/// A reply on its way.
pub type Pending = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// A session on its way.
pub type Opening =
    Pin<Box<dyn Future<Output = Result<(SessionHandle, Events), StoreError>> + Send>>;

/// How long a session can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When the last request was sent that the store has answered; on the clock that the store was given.
    pub confirmed_at: Instant,
    /// How long after that the store keeps the session at least.
    pub timeout: Duration,
}

/// A store to open sessions on.
pub trait Store: Debug + Send + Sync {
    /// Opens a session.
    ///
    /// Fails with [`StoreError::Unreachable`] if no store can be reached in time, and with
    /// [`StoreError::Failed`] only if trying again is of no use.
    fn open_session(&self) -> Opening;

    /// Ends the store's work: sessions that are open can no longer be used. Returns when that is done.
    fn shut_down(&self);
}

/// One session, as a back-end provides it.
pub trait Session: Debug + Send + Sync {
    /// Its id.
    fn id(&self) -> SessionId;

    /// Makes a request. It is on its way when this returns; the future only waits for the reply, so
    /// that several can be under way at once. Dropping the future does not recall it.
    ///
    /// Every request is answered, at the latest when the session's timeout has passed: while there is no
    /// connection it waits that long for one. Reads that a lost connection took along are made again by the
    /// back-end; writes are not, and fail with [`StoreError::MayHaveBeenApplied`].
    fn submit(&self, request: Request) -> Pending;

    /// How long the session can be relied on; `None` if it lasts as long as the process.
    fn lease(&self) -> Option<Lease>;
}

/// A session, with a method for each kind of request.
#[derive(Clone, Debug)]
pub struct SessionHandle(Arc<dyn Session>);

impl SessionHandle {
    /// Wraps a back-end's session.
    #[must_use]
    pub fn new(session: Arc<dyn Session>) -> Self {
        Self(session)
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id()
    }

    /// How long the session can be relied on; `None` if it lasts as long as the process.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.0.lease()
    }

    /// Makes all of `ops` or none, and returns what became of each.
    ///
    /// On its way when this returns, before the future is polled.
    pub fn multi(
        &self,
        ops: Vec<Op>,
    ) -> impl Future<Output = Result<Vec<OpResult>, StoreError>> + Send + use<> {
        let pending = self.0.submit(Request::Write(ops));
        async move {
            match pending.await? {
                Reply::Written(results) => Ok(results),
                Reply::Read(_) | Reply::Closed => unreachable!("a write is answered by Written"),
            }
        }
    }

    /// Performs several reads. On its way when this returns, before the future is polled.
    ///
    /// The future resolves to an error if any of them was not performed, so that no result says of a node
    /// anything but what was found; each result that is an error is about its node.
    pub fn read_all(
        &self,
        reads: Vec<Read>,
    ) -> impl Future<Output = Result<Vec<Result<ReadResult, StoreError>>, StoreError>> + Send + use<>
    {
        let pending = self.0.submit(Request::Read(reads));
        async move {
            match pending.await? {
                Reply::Read(results) => Ok(results),
                Reply::Written(_) | Reply::Closed => unreachable!("a read is answered by Read"),
            }
        }
    }

    /// Creates a node and returns its path, which differs from `path` if it is sequential. Its version is 0.
    ///
    /// # Errors
    /// [`StoreError::NodeExists`], [`StoreError::NoNode`] if the parent is missing, or why the store
    /// did not answer.
    pub async fn create(
        &self,
        path: &str,
        data: Option<Bytes>,
        mode: CreateMode,
    ) -> Result<String, StoreError> {
        let results = self.multi(vec![Op::Create { path: path.into(), data, mode }]).await?;
        match results.into_iter().next() {
            Some(OpResult::Created(path)) => Ok(path),
            _ => unreachable!("a creation is answered by Created"),
        }
    }

    /// Creates a persistent node with null data and all missing parents; existing ones are fine.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn create_parents(&self, path: &str) -> Result<(), StoreError> {
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
        for end in ends.chain([path.len()]) {
            match self.create(&path[..end], None, CreateMode::Persistent).await {
                Ok(_) | Err(StoreError::NodeExists(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sets a node's data, if it has `version` (`None`: any).
    ///
    /// # Errors
    /// [`StoreError::NoNode`], [`StoreError::BadVersion`], or why the store did not answer.
    pub async fn set(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        version: Option<i32>,
    ) -> Result<Stat, StoreError> {
        let op = Op::Set { path: path.into(), data: Some(data.into()), version };
        match self.multi(vec![op]).await?.into_iter().next() {
            Some(OpResult::Set(stat)) => Ok(stat),
            _ => unreachable!("a set is answered by Set"),
        }
    }

    /// Deletes a node, if it has `version` (`None`: any).
    ///
    /// # Errors
    /// [`StoreError::NoNode`], [`StoreError::BadVersion`], [`StoreError::NotEmpty`], or why the store
    /// did not answer.
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<(), StoreError> {
        self.multi(vec![Op::Delete { path: path.into(), version }]).await.map(drop)
    }

    /// A node's data.
    ///
    /// # Errors
    /// [`StoreError::NoNode`], or why the store did not answer.
    pub async fn get(&self, path: &str, watch: bool) -> Result<(Option<Bytes>, Stat), StoreError> {
        match self.read(path, Kind::Data, watch).await? {
            ReadResult::Data(data, stat) => Ok((data, stat)),
            ReadResult::Exists(_) | ReadResult::Children(..) => unreachable!("asked for data"),
        }
    }

    /// A node's `Stat`, or `None` if there is no such node.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn exists(&self, path: &str, watch: bool) -> Result<Option<Stat>, StoreError> {
        match self.read(path, Kind::Exists, watch).await? {
            ReadResult::Exists(stat) => Ok(stat),
            ReadResult::Data(..) | ReadResult::Children(..) => unreachable!("asked for existence"),
        }
    }

    /// The names of a node's children, sorted.
    ///
    /// # Errors
    /// [`StoreError::NoNode`], or why the store did not answer.
    pub async fn children(&self, path: &str, watch: bool) -> Result<Vec<String>, StoreError> {
        match self.read(path, Kind::Children, watch).await? {
            ReadResult::Children(names, _) => Ok(names),
            ReadResult::Exists(_) | ReadResult::Data(..) => unreachable!("asked for children"),
        }
    }

    async fn read(&self, path: &str, kind: Kind, watch: bool) -> Result<ReadResult, StoreError> {
        let results = self.read_all(vec![Read { path: path.into(), kind, watch }]).await?;
        results.into_iter().next().expect("one result per read")
    }

    /// Ends the session: its ephemeral nodes vanish, later requests fail.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.0.submit(Request::Close).await.map(drop)
    }
}
