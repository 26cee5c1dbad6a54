//! What the store keeps about a node besides its data.

use crate::SessionId;
use model::Timestamp;
use std::fmt;

/// The number of a change of the whole store. Grows with every change, through restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// ZooKeeper's `Stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The change that created the node. Of a broker's registration it is the broker epoch.
    pub czxid: Zxid,
    /// The change that last set the node's data.
    pub mzxid: Zxid,
    /// The change that last created or deleted a child.
    pub pzxid: Zxid,
    /// When the node was created.
    pub ctime: Timestamp,
    /// When its data was last set.
    pub mtime: Timestamp,
    /// How often its data was set since it was created.
    pub version: i32,
    /// How often a child was created or deleted.
    pub cversion: i32,
    /// The session that the node vanishes with; `None` for a persistent node.
    pub ephemeral_owner: Option<SessionId>,
    /// Length of the data; 0 for null too.
    pub data_length: usize,
    /// Number of children.
    pub num_children: usize,
}
