//! What can be asked of a store, and the answers.

use crate::{Stat, StoreError};
use bytes::Bytes;

/// How long a node lives and who names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Until it is deleted.
    Persistent,
    /// Until it is deleted or its session ends. It can have no children.
    Ephemeral,
    /// Persistent; the store appends ten digits to the name.
    PersistentSequential,
    /// Ephemeral; the store appends ten digits to the name.
    EphemeralSequential,
}

impl CreateMode {
    pub(crate) fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    pub(crate) fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }
}

/// One change of a transaction. A `version` of `None` means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a node; its parent must exist. Null data and empty data differ.
    Create {
        /// Where; for sequential modes the digits are appended to this.
        path: String,
        /// The node's data.
        data: Option<Bytes>,
        /// How long it lives and who names it.
        mode: CreateMode,
    },
    /// Sets a node's data.
    Set {
        /// The node.
        path: String,
        /// Its new data.
        data: Option<Bytes>,
        /// The version that the node must have.
        version: Option<i32>,
    },
    /// Deletes a node without children.
    Delete {
        /// The node.
        path: String,
        /// The version that the node must have.
        version: Option<i32>,
    },
    /// Changes nothing; fails the transaction unless the node has this version.
    Check {
        /// The node.
        path: String,
        /// The version that the node must have.
        version: i32,
    },
}

impl Op {
    /// Creates a persistent node.
    pub fn create(path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self::Create { path: path.into(), data: Some(data.into()), mode: CreateMode::Persistent }
    }

    /// Creates a persistent node with null data.
    pub fn create_null(path: impl Into<String>) -> Self {
        Self::Create { path: path.into(), data: None, mode: CreateMode::Persistent }
    }

    /// Creates an ephemeral node.
    pub fn create_ephemeral(path: impl Into<String>, data: Option<Bytes>) -> Self {
        Self::Create { path: path.into(), data, mode: CreateMode::Ephemeral }
    }

    /// Sets a node's data, whatever its version.
    pub fn set(path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self::Set { path: path.into(), data: Some(data.into()), version: None }
    }

    /// Sets a node's data if it has `version`.
    pub fn set_if(path: impl Into<String>, data: impl Into<Bytes>, version: i32) -> Self {
        Self::Set { path: path.into(), data: Some(data.into()), version: Some(version) }
    }

    /// Deletes a node, whatever its version.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::Delete { path: path.into(), version: None }
    }

    /// Fails the transaction unless the node has `version`.
    pub fn check(path: impl Into<String>, version: i32) -> Self {
        Self::Check { path: path.into(), version }
    }

    /// The node that it is about.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    /// About how many bytes it takes in a request.
    #[must_use]
    pub fn size(&self) -> usize {
        let data = match self {
            Self::Create { data, .. } | Self::Set { data, .. } => {
                data.as_ref().map_or(0, Bytes::len)
            }
            Self::Delete { .. } | Self::Check { .. } => 0,
        };
        data + self.path().len() + 32
    }
}

/// What became of one change of a transaction that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// The node was created at this path (with its digits, if it is sequential), with version 0.
    ///
    /// Without its `Stat`, which ZooKeeper before 3.5 does not tell: who needs it sets the node's data in
    /// the same transaction, as Kafka does.
    Created(String),
    /// The data was set.
    Set(Stat),
    /// The node was deleted.
    Deleted,
    /// The version was right.
    Checked,
}

/// Which of a node's properties to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whether it exists. A watch sees its creation, deletion and new data.
    Exists,
    /// Its data. A watch sees its deletion and new data; a missing node leaves no watch.
    Data,
    /// The names of its children, sorted. A watch sees changes of that list, and its deletion.
    Children,
}

/// One read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The node.
    pub path: String,
    /// What to read.
    pub kind: Kind,
    /// Whether to be told of the next change.
    pub watch: bool,
}

impl Read {
    /// The node's data, without a watch.
    pub fn data(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Data, watch: false }
    }

    /// Whether the node exists, without a watch.
    pub fn exists(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Exists, watch: false }
    }

    /// The names of the node's children, without a watch.
    pub fn children(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: Kind::Children, watch: false }
    }

    /// The same with a watch.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.watch = true;
        self
    }
}

/// What one read found. A missing node is [`StoreError::NoNode`], except for [`Kind::Exists`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// The node's `Stat` if it exists.
    Exists(Option<Stat>),
    /// The node's data.
    Data(Option<Bytes>, Stat),
    /// The names of the node's children, sorted.
    Children(Vec<String>, Stat),
}

/// What a session asks. Requests of one session are performed in the order in which they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Several changes, of which all or none are made.
    Write(Vec<Op>),
    /// Several reads. They are not one moment's view: changes may fall between them.
    Read(Vec<Read>),
    /// Ends the session; its ephemeral nodes vanish.
    Close,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// All changes were made.
    Written(Vec<OpResult>),
    /// What each read found.
    Read(Vec<Result<ReadResult, StoreError>>),
    /// The session has ended.
    Closed,
}
