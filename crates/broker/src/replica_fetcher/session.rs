//! A follower's side of an incremental fetch session (KIP-227).

use protocol::ErrorCode;

const NO_SESSION: i32 = 0;
const INITIAL_EPOCH: i32 = 0;

/// What the next fetch says of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionFields {
    pub(super) id: i32,
    pub(super) epoch: i32,
}

/// The session with one leader. Starts without one.
#[derive(Debug, Default)]
pub(super) struct FetchSession {
    id: i32,
    epoch: i32,
    /// Whether the session names topics by id; it cannot do both.
    uses_topic_ids: bool,
}

impl FetchSession {
    /// What a fetch says that names topics by id, or by name.
    pub(super) fn next(&mut self, uses_topic_ids: bool) -> SessionFields {
        if self.uses_topic_ids != uses_topic_ids {
            self.uses_topic_ids = uses_topic_ids;
            self.epoch = INITIAL_EPOCH;
        }
        SessionFields { id: self.id, epoch: self.epoch }
    }

    /// Whether the next fetch must name every partition.
    pub(super) fn is_full(&self) -> bool {
        self.epoch == INITIAL_EPOCH
    }

    /// The leader answered in the session called `id`; 0 if it has ended, or was not granted.
    pub(super) fn answered(&mut self, id: i32) {
        if id == NO_SESSION {
            (self.id, self.epoch) = (NO_SESSION, INITIAL_EPOCH);
        } else {
            self.id = id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// The leader refused the fetch as a whole.
    pub(super) fn refused(&mut self, code: ErrorCode) {
        if code == ErrorCode::FetchSessionIdNotFound {
            self.id = NO_SESSION;
        }
        self.epoch = INITIAL_EPOCH;
    }

    /// The answer did not come, so it is not known what the session has told: the next fetch closes it
    /// and asks for another.
    pub(super) fn lost(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(id: i32, epoch: i32) -> SessionFields {
        SessionFields { id, epoch }
    }

    #[test]
    fn a_granted_session_counts_up_and_wraps_to_one() {
        let mut session = FetchSession::default();
        assert_eq!(session.next(true), fields(0, 0));
        session.answered(7);
        assert_eq!(session.next(true), fields(7, 1));
        session.answered(7);
        assert_eq!(session.next(true), fields(7, 2));
        session.epoch = i32::MAX;
        session.answered(7);
        assert_eq!(session.next(true), fields(7, 1));
    }

    #[test]
    fn a_leader_that_grants_none_is_asked_in_full_every_time() {
        let mut session = FetchSession::default();
        session.answered(0);
        assert!(session.is_full());
        assert_eq!(session.next(true), fields(0, 0));
    }

    #[test]
    fn an_unknown_session_is_forgotten_and_any_other_trouble_closes_it() {
        let mut session = FetchSession::default();
        session.next(true);
        session.answered(7);
        session.refused(ErrorCode::InvalidFetchSessionEpoch);
        assert_eq!(session.next(true), fields(7, 0));
        session.answered(8);
        session.refused(ErrorCode::FetchSessionIdNotFound);
        assert_eq!(session.next(true), fields(0, 0));
        session.answered(9);
        session.lost();
        assert_eq!(session.next(true), fields(9, 0));
    }

    #[test]
    fn going_from_ids_to_names_needs_a_new_session() {
        let mut session = FetchSession::default();
        session.next(true);
        session.answered(7);
        assert_eq!(session.next(false), fields(7, 0));
        session.answered(8);
        assert_eq!(session.next(false), fields(8, 1));
    }
}
