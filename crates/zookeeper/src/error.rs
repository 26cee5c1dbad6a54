//! Why a call was not answered with what it asked for.

/// Why a server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node (or, for a creation, its parent) does not exist.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// The node has another version.
    BadVersion,
    /// The node has children.
    NotEmpty,
    /// The parent is ephemeral.
    NoChildrenForEphemerals,
    /// The ACL does not allow it.
    NoAuth,
    /// The ACL cannot be set; `auth` from a client that has not authenticated is one.
    InvalidAcl,
    /// Not a path, or otherwise nonsense.
    BadArguments,
    /// Another change of the transaction was refused.
    NotTried,
    /// The server knows the session no longer.
    SessionExpired,
    /// The session is with another server now.
    SessionMoved,
    /// Any other of ZooKeeper's error codes.
    Other(i32),
}

impl Refusal {
    /// The meaning of an error code in an answer; `None` for success. Source: `KeeperException.Code`.
    #[must_use]
    pub fn of(code: i32) -> Option<Self> {
        Some(match code {
            0 => return None,
            -2 => Self::NotTried,
            -8 => Self::BadArguments,
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -108 => Self::NoChildrenForEphemerals,
            -110 => Self::NodeExists,
            -111 => Self::NotEmpty,
            -112 => Self::SessionExpired,
            -114 => Self::InvalidAcl,
            -118 => Self::SessionMoved,
            other => Self::Other(other),
        })
    }
}

/// Why a call failed. Variants differ in what a caller does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server refused it: nothing was changed.
    #[error("ZooKeeper refused change {index}: {refusal:?}")]
    Refused {
        /// Which change of a transaction; 0 for other calls.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// A write was sent, and its answer was lost with the connection or is late.
    #[error("connection to ZooKeeper lost; the change may have been made")]
    MayHaveBeenApplied,
    /// The call was not performed, for want of a connection in time.
    #[error("no connection to ZooKeeper")]
    Disconnected,
    /// No session was opened in time; what came of the last try, if there was any.
    #[error("no ZooKeeper server could be used in time: {0}")]
    Unreachable(String),
    /// The session has ended, and its ephemeral nodes with it.
    #[error("the ZooKeeper session has expired")]
    SessionExpired,
    /// The servers do not accept this client's name and password.
    #[error("ZooKeeper authentication failed: {0}")]
    AuthenticationFailed(String),
    /// The request has more bytes than servers take.
    #[error("a request of {0} bytes is more than ZooKeeper takes")]
    TooLarge(usize),
    /// The client was closed.
    #[error("the ZooKeeper client was closed")]
    Closed,
}
