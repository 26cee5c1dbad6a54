//! The leader of one partition during one leader epoch: high watermark and ISR.

use crate::follower::Follower;
use crate::isr::Isr;
use model::{BrokerEpoch, BrokerId, Bug, Instant, LeaderEpoch, Offset, PartitionEpoch};
use std::time::Duration;

/// What a leader goes by; changed at any time with [`Event::SettingsChanged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderSettings {
    /// `min.insync.replicas` of the topic.
    pub min_isr: usize,
    /// `replica.lag.time.max.ms`.
    pub lag_max: Duration,
}

/// A leadership as the controller announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderTerm {
    /// This broker.
    pub id: BrokerId,
    /// The epoch of this leadership.
    pub leader_epoch: LeaderEpoch,
    /// The version of the partition's state.
    pub partition_epoch: PartitionEpoch,
    /// All replicas, this broker included.
    pub replicas: Vec<BrokerId>,
    /// The in-sync replicas.
    pub isr: Vec<BrokerId>,
}

/// A follower's fetch that did not diverge; it proves that the follower holds every record below
/// `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Who fetched.
    pub follower: BrokerId,
    /// Its registration, if it said.
    pub broker_epoch: Option<BrokerEpoch>,
    /// The offset that it asked for.
    pub offset: Offset,
    /// Where its log starts.
    pub log_start_offset: Offset,
    /// The leader's log end as it was before the read that answers the fetch.
    pub leader_log_end_offset: Offset,
}

/// What is known of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerView {
    /// Its broker.
    pub id: BrokerId,
    /// Where its log starts, if it said.
    pub log_start_offset: Option<Offset>,
    /// Exclusive end of what it holds; absent if nothing is known of it.
    pub log_end_offset: Option<Offset>,
    /// When it last held all that the leader held.
    pub caught_up_at: Option<Instant>,
    /// Whether its broker is registered and not shutting down.
    pub is_live: bool,
}

/// Why the controller did not carry out a proposed ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsrRefusal {
    /// It will never be carried out (ineligible replica, not attempted): back to the committed state.
    Refused,
    /// This leader's view is stale: a new one is on its way, and until then nothing may change.
    Stale,
    /// Neither: to be proposed again.
    Unanswered,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The log's end, exclusive, is now this.
    Appended(Offset),
    /// A follower fetched.
    Fetched(FollowerFetch),
    /// A follower's session fetched at `at` without naming this partition: it stands where it stood. To
    /// be told before an append moves the end away from it.
    StoodAtEnd {
        /// Whose session.
        follower: BrokerId,
        /// When it last fetched.
        at: Instant,
    },
    /// The metadata says that a follower's broker came or went.
    LivenessChanged {
        /// Whose.
        follower: BrokerId,
        /// Whether it is registered and not shutting down.
        is_live: bool,
    },
    /// The controller committed an ISR.
    IsrCommitted {
        /// In this leader epoch.
        leader_epoch: LeaderEpoch,
        /// As this version.
        partition_epoch: PartitionEpoch,
        /// The members.
        isr: Vec<BrokerId>,
    },
    /// The controller did not commit the proposed ISR.
    IsrRefused(IsrRefusal),
    /// The settings are now these.
    SettingsChanged(LeaderSettings),
    /// Time passed.
    Tick,
}

/// What must be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Everything below is committed: make it visible and answer who waits for it.
    AdvanceHighWatermark(Offset),
    /// Ask the controller to change the ISR; answer with [`Event::IsrCommitted`] or
    /// [`Event::IsrRefused`].
    ProposeIsr {
        /// The members, this broker included, each with its registration where known.
        isr: Vec<(BrokerId, Option<BrokerEpoch>)>,
        /// In this leader epoch.
        leader_epoch: LeaderEpoch,
        /// Only if the state still has this version.
        partition_epoch: PartitionEpoch,
    },
}

/// The leader of one partition.
///
/// Invariant: `high_watermark <= log_end_offset`; the high watermark never goes back.
#[derive(Clone, Debug)]
pub struct Leader {
    id: BrokerId,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    epoch_start_offset: Offset,
    settings: LeaderSettings,
    /// The greatest `min.insync.replicas` that this leadership went by.
    highest_min_isr: usize,
    isr: Isr,
    followers: Box<[Follower]>,
    log_end_offset: Offset,
    high_watermark: Offset,
}

impl Leader {
    /// Starts a leadership over a log with these ends. `previous` is this broker's own leadership of
    /// the epoch before, if it was one: what it knew of its followers' logs still holds.
    ///
    /// Step it with [`Event::Tick`] at once: an ISR of one may commit what the log already holds.
    #[must_use]
    pub fn new(
        now: Instant,
        term: LeaderTerm,
        settings: LeaderSettings,
        high_watermark: Offset,
        log_end_offset: Offset,
        previous: Option<&Leader>,
    ) -> Self {
        assert!(high_watermark <= log_end_offset, "{term:?}: {high_watermark} > {log_end_offset}");
        let new_epoch = previous.is_none_or(|leader| leader.leader_epoch != term.leader_epoch);
        let known = |id| previous?.followers.iter().find(|follower| follower.id == id);
        let followers = term.replicas.iter().filter(|&&id| id != term.id).map(|&id| {
            let in_sync_since = term.isr.contains(&id).then_some(now);
            match known(id) {
                Some(follower) if !new_epoch => *follower,
                Some(follower) => follower.carried_over(in_sync_since, log_end_offset),
                None => Follower::unheard(id, in_sync_since, log_end_offset),
            }
        });
        Self {
            id: term.id,
            leader_epoch: term.leader_epoch,
            partition_epoch: term.partition_epoch,
            epoch_start_offset: match previous {
                Some(leader) if !new_epoch => leader.epoch_start_offset,
                _ => log_end_offset,
            },
            settings,
            highest_min_isr: match previous {
                Some(leader) if !new_epoch => leader.highest_min_isr.max(settings.min_isr),
                _ => settings.min_isr,
            },
            followers: followers.collect(),
            isr: Isr::committed_as(term.isr),
            log_end_offset,
            high_watermark,
        }
    }

    /// The only way in: applies one event and appends what must be done about it, in order.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Appended(log_end_offset) => {
                assert!(log_end_offset >= self.log_end_offset, "{self:?}: end {log_end_offset}");
                self.log_end_offset = log_end_offset;
            }
            Event::Fetched(fetch) => self.record_fetch(now, fetch, actions),
            Event::StoodAtEnd { follower, at } => {
                let end = Some(self.log_end_offset);
                if let Some(follower) = self.followers.iter_mut().find(|f| f.id == follower)
                    && follower.log_end_offset >= end
                {
                    follower.stood_at_end(at);
                }
            }
            Event::LivenessChanged { follower, is_live } => {
                self.set_liveness(follower, is_live);
                self.propose_joins(now, actions);
            }
            Event::IsrCommitted { leader_epoch, partition_epoch, isr } => {
                let is_newer = partition_epoch >= self.partition_epoch;
                if leader_epoch == self.leader_epoch && is_newer || Bug::Kafka12686.is_planted() {
                    self.partition_epoch = partition_epoch;
                    self.isr.commit(isr);
                    self.propose_joins(now, actions);
                }
            }
            Event::IsrRefused(refusal) => match refusal {
                IsrRefusal::Refused => self.isr.abandon(),
                IsrRefusal::Stale => {}
                IsrRefusal::Unanswered if self.isr.is_changing() => self.propose(actions),
                IsrRefusal::Unanswered => {}
            },
            Event::SettingsChanged(settings) => {
                self.settings = settings;
                self.highest_min_isr = self.highest_min_isr.max(settings.min_isr);
            }
            Event::Tick => {
                self.propose_shrink(now, actions);
                self.propose_joins(now, actions);
            }
        }
        self.advance_high_watermark(now, actions);
        assert!(self.high_watermark <= self.log_end_offset, "{self:?}");
    }

    /// Says whether a follower's broker is live, before the first step; later say
    /// [`Event::LivenessChanged`].
    pub fn set_liveness(&mut self, follower: BrokerId, is_live: bool) {
        if let Some(follower) = self.followers.iter_mut().find(|f| f.id == follower) {
            follower.is_live = is_live;
        }
    }

    /// When to send [`Event::Tick`] if nothing happens first: a core never sleeps. Absent without
    /// followers that could lag.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.isr.is_changing() {
            return None;
        }
        self.followers
            .iter()
            .filter(|follower| self.isr.committed().contains(&follower.id))
            .filter(|follower| follower.log_end_offset < Some(self.log_end_offset))
            .filter_map(|follower| follower.lags_after(self.settings.lag_max))
            .min()
    }

    /// The epoch of this leadership.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// The version of the partition's state as last heard.
    #[must_use]
    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.partition_epoch
    }

    /// Where this leadership's own records begin. Until the high watermark reaches it the leader does
    /// not know how far its predecessor committed (KIP-207).
    #[must_use]
    pub fn epoch_start_offset(&self) -> Offset {
        self.epoch_start_offset
    }

    /// Exclusive end of what the leader itself counts as having.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Exclusive end of what is committed.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The in-sync replicas.
    #[must_use]
    pub fn isr(&self) -> &Isr {
        &self.isr
    }

    /// Whether `broker` is one of the partition's replicas.
    #[must_use]
    pub fn is_replica(&self, broker: BrokerId) -> bool {
        broker == self.id || self.followers.iter().any(|follower| follower.id == broker)
    }

    /// Whether `broker` is a replica other than the leader: who may fetch as a follower.
    #[must_use]
    pub fn is_follower(&self, broker: BrokerId) -> bool {
        self.followers.iter().any(|follower| follower.id == broker)
    }

    /// Whether a fetch of `broker` in this registration is one from before its last start.
    #[must_use]
    pub fn is_superseded(&self, broker: BrokerId, broker_epoch: Option<BrokerEpoch>) -> bool {
        let follower = self.followers.iter().find(|follower| follower.id == broker);
        follower.is_some_and(|follower| follower.is_superseded(broker_epoch))
    }

    /// The replicas that could have been made leader without this one's knowledge: the followers in the ISR, or all
    /// of them if elections may be unclean, or if the ISR is so small that others may be eligible (KIP-966). A minimum that
    /// was lowered meanwhile does not take back what followed from the higher one.
    pub fn successors(&self, unclean: bool) -> impl Iterator<Item = BrokerId> + '_ {
        let followers = self.followers.iter().map(|follower| follower.id);
        let others_may_lead =
            self.isr.committed().len() < self.highest_min_isr.min(self.followers.len() + 1);
        followers.filter(move |&id| unclean || others_may_lead || self.isr.maximal_contains(id))
    }

    /// The followers, for telling of them.
    pub fn followers(&self) -> impl Iterator<Item = FollowerView> {
        self.followers.iter().map(|follower| FollowerView {
            id: follower.id,
            log_start_offset: follower.log_start_offset,
            log_end_offset: follower.log_end_offset,
            caught_up_at: follower.caught_up_at(),
            is_live: follower.is_live,
        })
    }

    /// `min.insync.replicas`, but never more than there are replicas.
    #[must_use]
    pub fn effective_min_isr(&self) -> usize {
        self.settings.min_isr.min(self.followers.len() + 1)
    }

    /// Whether an append with `acks=all` may begin; else `NOT_ENOUGH_REPLICAS`.
    #[must_use]
    pub fn has_enough_replicas(&self) -> bool {
        self.isr.committed().len() >= self.effective_min_isr()
    }

    /// Whether a committed append still counts as one with `acks=all`; else
    /// `NOT_ENOUGH_REPLICAS_AFTER_APPEND`.
    #[must_use]
    pub fn had_enough_replicas(&self) -> bool {
        self.isr.maximal_len() >= self.effective_min_isr()
    }

    /// The least log start over this log, which starts at `log_start_offset`, and every live
    /// follower's: below it records are gone everywhere. Answers DeleteRecords.
    #[must_use]
    pub fn low_watermark(&self, log_start_offset: Offset) -> Offset {
        self.followers
            .iter()
            .filter(|follower| follower.is_live)
            .map(|follower| follower.log_start_offset.unwrap_or_default())
            .fold(log_start_offset, Offset::min)
    }

    fn record_fetch(&mut self, now: Instant, fetch: FollowerFetch, actions: &mut Vec<Action>) {
        let Some(follower) = self.followers.iter_mut().find(|f| f.id == fetch.follower) else {
            return;
        };
        if follower.is_superseded(fetch.broker_epoch) {
            return;
        }
        follower.note_registration(fetch.broker_epoch);
        follower.record_fetch(now, fetch.offset, fetch.leader_log_end_offset);
        follower.log_start_offset = Some(fetch.log_start_offset);
        let may_join = follower.is_live
            && fetch.offset >= self.high_watermark
            && (fetch.offset >= self.epoch_start_offset || Bug::Kafka7128.is_planted());
        if may_join && !self.isr.is_changing() && !self.isr.committed().contains(&fetch.follower) {
            self.isr.expand(fetch.follower);
            self.propose(actions);
        }
    }

    /// Lets in who could not join when it fetched: an ISR change was under way, or its broker did not seem live. Its
    /// session does not name a partition without news, and there is none where too few replicas are in sync for
    /// appends, so its next fetch may never come. A join that the controller refuses is proposed again with the
    /// next [`Event::Tick`], not at once.
    fn propose_joins(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.isr.is_changing() {
            return;
        }
        let least = self.high_watermark.max(self.epoch_start_offset);
        let waits = self.followers.iter().find(|follower| {
            follower.is_live
                && follower.has_fetched
                && follower.log_end_offset.is_some_and(|end| end >= least)
                && follower.is_caught_up(self.log_end_offset, self.settings.lag_max, now)
                && !self.isr.committed().contains(&follower.id)
        });
        if let Some(id) = waits.map(|follower| follower.id) {
            self.isr.expand(id);
            self.propose(actions);
        }
    }

    fn propose_shrink(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.isr.is_changing() {
            return;
        }
        let lagging: Vec<_> = self
            .followers
            .iter()
            .filter(|follower| self.isr.committed().contains(&follower.id))
            .filter(|f| !f.is_caught_up(self.log_end_offset, self.settings.lag_max, now))
            .map(|follower| follower.id)
            .collect();
        if !lagging.is_empty() {
            self.isr.shrink(lagging);
            self.propose(actions);
        }
    }

    fn propose(&self, actions: &mut Vec<Action>) {
        let registration =
            |id| self.followers.iter().find(|follower| follower.id == id)?.broker_epoch;
        actions.push(Action::ProposeIsr {
            isr: self.isr.proposed().into_iter().map(|id| (id, registration(id))).collect(),
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
        });
    }

    /// The least log end over this broker, the maximal ISR, and every live follower that is caught
    /// up: the last are about to join, and must not find the watermark beyond their reach.
    fn advance_high_watermark(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if !self.has_enough_replicas() && !Bug::Kafka15583.is_planted() {
            return;
        }
        let mut committed = self.log_end_offset;
        for follower in &self.followers {
            let counts = self.isr.maximal_contains(follower.id)
                || follower.is_live
                    && follower.is_caught_up(self.log_end_offset, self.settings.lag_max, now);
            if counts {
                match follower.log_end_offset {
                    Some(end) => committed = committed.min(end),
                    None => return,
                }
            }
        }
        if committed > self.high_watermark {
            self.high_watermark = committed;
            actions.push(Action::AdvanceHighWatermark(committed));
        }
    }
}

#[cfg(test)]
mod tests;
