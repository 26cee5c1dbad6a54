//! The sessions that a broker's data directory remembers.

use coordination::SessionId;
use std::fmt::Debug;

/// How many sessions are remembered: the present one, and those whose ephemeral nodes may still be there.
pub const REMEMBERED_SESSIONS: usize = 8;

/// Remembers which sessions this broker registered with, across restarts.
///
/// Whoever holds the directory is the only one who can have used them: a registration that belongs to one
/// of them is left over, and may be taken over without waiting for its session to expire.
pub trait SessionRecord: Debug + Send + Sync {
    /// The sessions of the last record, in order; empty if there is none or it cannot be read.
    fn last(&self) -> Vec<SessionId>;

    /// Replaces the record, durably. One that cannot be written is reported here: it costs no more than the
    /// waiting for a session's expiry after the next crash.
    fn record(&self, sessions: &[SessionId]);
}

/// For a store whose ephemeral nodes do not outlive this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSessionRecord;

impl SessionRecord for NoSessionRecord {
    fn last(&self) -> Vec<SessionId> {
        Vec::new()
    }

    fn record(&self, _: &[SessionId]) {}
}
