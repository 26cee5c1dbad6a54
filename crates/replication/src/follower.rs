//! One follower's progress, as its leader sees it during one leader epoch.
//!
//! In sync means reaching the leader's log end once per `replica.lag.time.max.ms` (KIP-16). Under
//! load no follower ever holds the *newest* record; what counts is what was newest at its last
//! fetch.

use model::{BrokerEpoch, BrokerId, Bug, Instant, Offset};
use std::time::Duration;

/// Invariant: `caught_up_at <= last_fetch_at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    pub(crate) id: BrokerId,
    /// Exclusive end of what it holds; absent until it fetched from a leader that knew nothing of it.
    pub(crate) log_end_offset: Option<Offset>,
    /// The start of its log as it last said.
    pub(crate) log_start_offset: Option<Offset>,
    /// When it last held all that the leader held; absent if it never did during this epoch and was
    /// not in the ISR when the epoch began.
    caught_up_at: Option<Instant>,
    last_fetch_at: Option<Instant>,
    leader_end_at_last_fetch: Offset,
    /// Whether its broker is registered and not shutting down, as the cluster metadata says.
    pub(crate) is_live: bool,
    /// Whether it has fetched in this leader epoch; what it held before that does not let it into the ISR.
    pub(crate) has_fetched: bool,
    /// Its registration when it last fetched; proposed with it, so that the controller refuses a
    /// fetch from before a reboot (KIP-903).
    pub(crate) broker_epoch: Option<BrokerEpoch>,
}

impl Follower {
    /// What a new leader assumes: a member of the ISR gets one full lag time to be heard.
    pub(crate) fn unheard(
        id: BrokerId,
        in_sync_since: Option<Instant>,
        epoch_start: Offset,
    ) -> Self {
        Self {
            id,
            log_end_offset: None,
            log_start_offset: None,
            caught_up_at: in_sync_since,
            last_fetch_at: in_sync_since,
            leader_end_at_last_fetch: epoch_start,
            is_live: true,
            has_fetched: false,
            broker_epoch: None,
        }
    }

    /// The same follower at the start of the same leader's next epoch: what it holds is still known.
    pub(crate) fn carried_over(self, in_sync_since: Option<Instant>, epoch_start: Offset) -> Self {
        Self {
            log_end_offset: self.log_end_offset,
            log_start_offset: self.log_start_offset,
            is_live: self.is_live,
            broker_epoch: self.broker_epoch,
            ..Self::unheard(self.id, in_sync_since, epoch_start)
        }
    }

    /// A fetch at `offset` proves that it holds every record below.
    pub(crate) fn record_fetch(
        &mut self,
        at: Instant,
        offset: Offset,
        leader_log_end_offset: Offset,
    ) {
        // Fetches of one follower may arrive by connections of different threads, each with its own
        // reading of the clock.
        let at = at.max(self.last_fetch_at.unwrap_or_default());
        if offset >= leader_log_end_offset {
            self.caught_up_at = Some(at);
        } else if offset >= self.leader_end_at_last_fetch && self.last_fetch_at.is_some() {
            self.caught_up_at = self.caught_up_at.max(self.last_fetch_at);
        }
        self.log_end_offset = Some(offset);
        self.leader_end_at_last_fetch = leader_log_end_offset;
        self.last_fetch_at = Some(at);
        self.has_fetched = true;
    }

    /// Its session fetched at `at`, and it still stood at the leader's log end then. A session does not
    /// name partitions without news, so no fetch of this one tells it.
    pub(crate) fn stood_at_end(&mut self, at: Instant) {
        self.caught_up_at = self.caught_up_at.max(Some(at));
        self.last_fetch_at = self.last_fetch_at.max(Some(at));
    }

    /// Notes which registration fetches. What an earlier one held counts for nothing: the broker has
    /// started again since and may have lost it (KIP-903).
    pub(crate) fn note_registration(&mut self, broker_epoch: Option<BrokerEpoch>) {
        let has_restarted = self.broker_epoch.is_some() && broker_epoch > self.broker_epoch;
        if has_restarted && !Bug::Kafka14617.is_planted() {
            let leader_end = self.leader_end_at_last_fetch;
            let is_live = self.is_live;
            *self = Self { is_live, ..Self::unheard(self.id, None, leader_end) };
        }
        self.broker_epoch = broker_epoch.or(self.broker_epoch);
    }

    /// Whether a fetch by this registration comes from before the broker's last start.
    pub(crate) fn is_superseded(&self, broker_epoch: Option<BrokerEpoch>) -> bool {
        broker_epoch.is_some() && broker_epoch < self.broker_epoch
    }

    /// How long ago it was last caught up, for choosing among several; absent if it never was.
    pub(crate) fn caught_up_at(&self) -> Option<Instant> {
        self.caught_up_at
    }

    /// Whether it counts as in sync. One that holds everything never lags, however long it is
    /// silent: an idle partition must not lose its replicas.
    pub(crate) fn is_caught_up(&self, log_end: Offset, lag_max: Duration, now: Instant) -> bool {
        self.log_end_offset >= Some(log_end)
            || self.caught_up_at.is_some_and(|at| now.since(at) <= lag_max)
    }

    /// When it will be found lagging if nothing more is heard of it.
    pub(crate) fn lags_after(&self, lag_max: Duration) -> Option<Instant> {
        self.caught_up_at.map(|at| at + lag_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_MAX: Duration = Duration::from_secs(30);

    fn at(second: u64) -> Instant {
        Instant(Duration::from_secs(second))
    }

    #[test]
    fn a_follower_always_one_fetch_behind_stays_in_sync() {
        let mut follower = Follower::unheard(BrokerId(2), Some(at(0)), Offset(0));
        for second in 1..100 {
            follower.record_fetch(at(second), Offset(second as i64 - 1), Offset(second as i64));
        }
        assert!(follower.is_caught_up(Offset(100), LAG_MAX, at(98 + 30)));
        assert!(
            !follower.is_caught_up(Offset(101), LAG_MAX, at(98 + 31)),
            "caught up at second 98"
        );
    }

    #[test]
    fn a_silent_follower_that_holds_everything_is_in_sync() {
        let mut follower = Follower::unheard(BrokerId(2), Some(at(0)), Offset(0));
        follower.record_fetch(at(1), Offset(5), Offset(5));
        assert!(follower.is_caught_up(Offset(5), LAG_MAX, at(10_000)));
        assert!(!follower.is_caught_up(Offset(6), LAG_MAX, at(10_000)));
    }

    #[test]
    fn a_follower_outside_the_isr_starts_out_lagging() {
        let mut follower = Follower::unheard(BrokerId(2), None, Offset(50));
        assert!(!follower.is_caught_up(Offset(50), LAG_MAX, at(0)));
        follower.record_fetch(at(1), Offset(60), Offset(100));
        assert!(!follower.is_caught_up(Offset(100), LAG_MAX, at(1)), "no earlier fetch to go by");
        follower.record_fetch(at(2), Offset(100), Offset(120));
        assert!(
            follower.is_caught_up(Offset(120), LAG_MAX, at(31)),
            "it held at 2 what was newest at 1"
        );
        assert!(!follower.is_caught_up(Offset(120), LAG_MAX, at(32)));
    }
}
