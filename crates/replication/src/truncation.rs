//! How a follower's log is made a prefix of its leader's (KIP-101, KIP-279, KIP-595).
//!
//! Both sides compare by *epoch ends*: the exclusive end offset of the records of the greatest epoch
//! not above the one asked for. The leader tells a fetching follower where it diverged; the follower
//! cuts its log and asks again, until the last epoch of its log is one that the leader has as long.

use model::{Bug, LeaderEpoch, Offset};

/// Where the records of `epoch` end in one log, exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The end of its records.
    pub end_offset: Offset,
}

/// What a leader finds when a follower says which epoch its last record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciliation {
    /// The follower's log is a prefix of the leader's.
    Prefix,
    /// The leader cannot tell, or no longer has what the follower needs: `OFFSET_OUT_OF_RANGE`.
    OutOfRange,
    /// The follower's log departed from the leader's at or before this end.
    Diverged(EpochEnd),
}

/// Leader's side of a fetch at `fetch_offset` by a follower whose last record has an epoch for which
/// the leader's log answers `found`.
#[must_use]
pub fn reconcile(
    last_fetched_epoch: LeaderEpoch,
    fetch_offset: Offset,
    log_start_offset: Offset,
    found: Option<EpochEnd>,
) -> Reconciliation {
    let is_older = |end: EpochEnd| end.epoch < last_fetched_epoch && !Bug::Kafka6361.is_planted();
    match found {
        None => Reconciliation::OutOfRange,
        Some(_) if fetch_offset < log_start_offset => Reconciliation::OutOfRange,
        Some(end) if is_older(end) || end.end_offset < fetch_offset => {
            Reconciliation::Diverged(end)
        }
        Some(_) => Reconciliation::Prefix,
    }
}

/// What a follower must do to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Cut everything at or above; fetch on from here.
    pub to: Offset,
    /// Whether the log is a prefix of the leader's now; else the next fetch will tell.
    pub is_final: bool,
}

/// Follower's side of a divergence at `leaders`, absent if the leader has no epoch to answer with.
///
/// `own` is the follower's own answer for the leader's epoch; `high_watermark` is where a follower
/// stands that has nothing better to go by.
#[must_use]
pub fn on_divergence(
    leaders: Option<EpochEnd>,
    own: Option<EpochEnd>,
    high_watermark: Offset,
    log_end_offset: Offset,
) -> Truncation {
    let Some(leaders) = leaders else {
        return Truncation { to: high_watermark.min(log_end_offset), is_final: true };
    };
    match own {
        None => Truncation { to: leaders.end_offset.min(log_end_offset), is_final: true },
        Some(own) if own.epoch != leaders.epoch => {
            Truncation { to: own.end_offset.min(log_end_offset), is_final: false }
        }
        Some(own) => Truncation {
            to: own.end_offset.min(leaders.end_offset).min(log_end_offset),
            is_final: true,
        },
    }
}

/// What a follower does whose fetch offset is out of its leader's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// The leader's log is shorter: cut to its end.
    TruncateTo(Offset),
    /// The leader's log starts beyond this one's end: drop all and start there.
    RestartAt(Offset),
    /// Fetch on from here.
    ContinueAt(Offset),
}

/// Follower's side of `OFFSET_OUT_OF_RANGE`, given the ends of the leader's log.
#[must_use]
pub fn on_out_of_range(
    leader_log_start_offset: Offset,
    leader_log_end_offset: Offset,
    log_end_offset: Offset,
) -> OutOfRange {
    if leader_log_end_offset < log_end_offset {
        OutOfRange::TruncateTo(leader_log_end_offset)
    } else if leader_log_start_offset > log_end_offset {
        OutOfRange::RestartAt(leader_log_start_offset)
    } else {
        OutOfRange::ContinueAt(log_end_offset)
    }
}

/// A follower's high watermark after a fetch: the leader's, as far as the own log reaches. It may go
/// back: a new leader may know less than the old one did.
#[must_use]
pub fn high_watermark_after_fetch(
    leader_high_watermark: Offset,
    log_start_offset: Offset,
    log_end_offset: Offset,
) -> Offset {
    leader_high_watermark.max(log_start_offset).min(log_end_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(epoch: i32, end_offset: i64) -> EpochEnd {
        EpochEnd { epoch: LeaderEpoch(epoch), end_offset: Offset(end_offset) }
    }

    /// A log as its epochs' start offsets and its end.
    #[derive(Clone, Debug, PartialEq)]
    struct Log(Vec<(i32, i64)>, i64);

    impl Log {
        /// `endOffsetFor`: log-format.md 3.5.
        fn end_for(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
            let next = self.0.iter().find(|entry| entry.0 > epoch.0);
            let floor = self.0.iter().rev().find(|entry| entry.0 <= epoch.0)?;
            Some(end(floor.0, next.map_or(self.1, |entry| entry.1)))
        }

        fn truncate(&mut self, to: Offset) {
            self.0.retain(|entry| entry.1 < to.0);
            self.1 = to.0;
        }

        fn epoch_at(&self, offset: i64) -> i32 {
            self.0.iter().rev().find(|entry| entry.1 <= offset).expect("offset is in the log").0
        }
    }

    /// Fetches and truncates until the leader finds a prefix; returns the number of rounds.
    fn settle(leader: &Log, follower: &mut Log) -> usize {
        for round in 0..100 {
            let Some(last) = follower.0.last().map(|entry| LeaderEpoch(entry.0)) else {
                return round;
            };
            let fetch_offset = Offset(follower.1);
            let found = leader.end_for(last);
            match reconcile(last, fetch_offset, Offset(0), found) {
                Reconciliation::Prefix => return round,
                Reconciliation::OutOfRange => {
                    match on_out_of_range(Offset(0), Offset(leader.1), fetch_offset) {
                        OutOfRange::TruncateTo(to) => follower.truncate(to),
                        OutOfRange::RestartAt(_) | OutOfRange::ContinueAt(_) => return round,
                    }
                }
                Reconciliation::Diverged(theirs) => {
                    let own = follower.end_for(theirs.epoch);
                    follower.truncate(on_divergence(Some(theirs), own, Offset(0), fetch_offset).to);
                }
            }
        }
        panic!("never settles: {leader:?} {follower:?}");
    }

    #[test]
    fn a_diverged_follower_becomes_a_prefix_of_its_leader() {
        // KIP-279: alternating fast failovers leave epochs that the other log never saw.
        let leader = Log(vec![(0, 0), (2, 10), (4, 20)], 30);
        for (epochs, log_end) in [
            (vec![(0, 0), (1, 8)], 12),
            (vec![(0, 0), (1, 10), (3, 12)], 40),
            (vec![(0, 0), (2, 10), (3, 15)], 20),
            (vec![(0, 0), (2, 10), (4, 20)], 35),
            (vec![(0, 0), (2, 10), (4, 20), (5, 30)], 30),
            (vec![(0, 0)], 25),
        ] {
            let mut follower = Log(epochs, log_end);
            let start = follower.clone();
            settle(&leader, &mut follower);
            assert!(follower.1 <= leader.1, "{start:?} -> {follower:?}");
            for offset in 0..follower.1 {
                assert_eq!(
                    follower.epoch_at(offset),
                    leader.epoch_at(offset),
                    "{start:?} {offset}"
                );
            }
        }
    }

    #[test]
    fn a_deposed_leader_without_records_of_its_epoch_truncates_nothing() {
        let leader = Log(vec![(0, 0), (2, 10)], 10);
        let mut follower = Log(vec![(0, 0), (1, 10)], 10);
        settle(&leader, &mut follower);
        assert_eq!(follower.1, 10);
    }

    #[test]
    fn without_common_epochs_the_high_watermark_or_the_leaders_end_decides() {
        let (hw, leo) = (Offset(7), Offset(20));
        assert_eq!(on_divergence(None, None, hw, leo).to, hw);
        assert_eq!(on_divergence(Some(end(3, 15)), None, hw, leo).to, Offset(15));
        assert_eq!(on_divergence(Some(end(3, 25)), None, hw, leo).to, leo);
    }

    #[test]
    fn an_unknown_epoch_and_a_deleted_offset_are_out_of_range() {
        let (epoch, start) = (LeaderEpoch(3), Offset(10));
        assert_eq!(reconcile(epoch, Offset(12), start, None), Reconciliation::OutOfRange);
        assert_eq!(
            reconcile(epoch, Offset(9), start, Some(end(3, 20))),
            Reconciliation::OutOfRange
        );
        assert_eq!(reconcile(epoch, Offset(20), start, Some(end(3, 20))), Reconciliation::Prefix);
        assert_eq!(
            reconcile(epoch, Offset(21), start, Some(end(3, 20))),
            Reconciliation::Diverged(end(3, 20))
        );
    }

    #[test]
    fn a_follower_beyond_its_leaders_range_moves_into_it() {
        assert_eq!(
            on_out_of_range(Offset(0), Offset(5), Offset(9)),
            OutOfRange::TruncateTo(Offset(5))
        );
        assert_eq!(
            on_out_of_range(Offset(12), Offset(20), Offset(9)),
            OutOfRange::RestartAt(Offset(12))
        );
        assert_eq!(
            on_out_of_range(Offset(3), Offset(20), Offset(9)),
            OutOfRange::ContinueAt(Offset(9))
        );
    }

    #[test]
    fn a_followers_watermark_stays_within_its_log() {
        assert_eq!(high_watermark_after_fetch(Offset(50), Offset(5), Offset(40)), Offset(40));
        assert_eq!(high_watermark_after_fetch(Offset(2), Offset(5), Offset(40)), Offset(5));
    }
}
