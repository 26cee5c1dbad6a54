//! What the store says of the partition, and what a controller writes there. Elections are those of the product's
//! `controller/src/context.rs`, lists of eligible leaders those of `controller/src/eligible.rs`.

use super::Variant;
use super::log::Log;
use crate::members::{BROKERS, Members};

/// `min.insync.replicas`.
pub(super) const MIN_ISR: u32 = 2;

/// Invariant: `eligible` has nobody of the ISR, and is empty while the ISR has [`MIN_ISR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) leader: Option<u8>,
    /// The registration that was made leader.
    pub(super) leader_incarnation: u8,
    pub(super) leader_epoch: u8,
    /// The partition epoch: goes up with each write.
    pub(super) version: u8,
    pub(super) isr: Members,
    /// Who may lead without loss besides the ISR (KIP-966).
    pub(super) eligible: Members,
    /// The broker epoch of each; 0 if it is not registered.
    pub(super) registered: [u8; BROKERS as usize],
    /// Who returned from a power failure, until the ISRs have been changed for it.
    pub(super) doubts: Members,
}

/// An ISR that a leader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposal {
    pub(super) leader_epoch: u8,
    pub(super) version: u8,
    pub(super) isr: Members,
    /// Who joins, and the registration in which it fetched.
    pub(super) joins: Option<(u8, u8)>,
}

/// The controller's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Committed,
    /// The state is another by now, and the leader will hear of it.
    Stale,
    /// Who joins may not.
    Ineligible,
}

impl Store {
    pub(super) fn begin(isr: Members) -> Self {
        Self {
            leader: Some(0),
            leader_incarnation: 1,
            leader_epoch: 1,
            version: 1,
            isr,
            eligible: Members::default(),
            registered: [1; BROKERS as usize],
            doubts: Members::default(),
        }
    }

    pub(super) fn registration(&self, id: u8) -> u8 {
        self.registered[usize::from(id)]
    }

    /// A broker registers; one that lost power says so in the same transaction.
    pub(super) fn register(
        &mut self,
        id: u8,
        broker_epoch: u8,
        lost_power: bool,
        variant: Variant,
    ) {
        self.registered[usize::from(id)] = broker_epoch;
        if lost_power && variant != Variant::PowerFailureUnnoticed {
            if variant != Variant::EligibleAfterPowerFailure {
                self.eligible = self.eligible.without(id);
            }
            if self.isr.contains(id) {
                self.doubts = self.doubts.with(id);
            }
        }
    }

    pub(super) fn decide(&mut self, proposal: Proposal, variant: Variant) -> Answer {
        let (now, asked) =
            ((self.leader_epoch, self.version), (proposal.leader_epoch, proposal.version));
        let is_current = asked == now || variant == Variant::IsrWrittenBlindly;
        if !is_current {
            return Answer::Stale;
        }
        let may_join = proposal.joins.is_none_or(|(id, incarnation)| {
            self.registration(id) == incarnation && !self.doubts.contains(id)
                || variant == Variant::JoinOfOlderIncarnation && self.registration(id) != 0
        });
        if !may_join {
            return Answer::Ineligible;
        }
        let before = *self;
        self.isr = proposal.isr;
        self.version += 1;
        self.eligible = eligible_after(&before, self);
        Answer::Committed
    }

    /// What a controller may write because of who is there and who is not; nothing if all is well. `ends` are the logs of
    /// those that can be asked.
    pub(super) fn repairs(
        &self,
        ends: &[Option<Log>; BROKERS as usize],
        variant: Variant,
    ) -> Vec<Self> {
        let there =
            Members::of(&(0..BROKERS).filter(|&id| self.registration(id) != 0).collect::<Vec<_>>());
        let certain = there.minus(self.doubts);
        let in_sync = self.isr.and(certain);
        let eligible = self.eligible.and(certain);
        let all = |leaders: Members, isr: &dyn Fn(u8) -> Members| -> Vec<Self> {
            leaders.iter().map(|id| self.elect(id, isr(id), false, variant)).collect()
        };
        if variant == Variant::ElectionOutsideIsr && !self.leads_on(certain) {
            return all(certain, &|id| in_sync.with(id));
        }
        if !in_sync.is_empty() {
            if self.leads_on(in_sync) {
                if in_sync == self.isr {
                    return Vec::new();
                }
                return self
                    .leader
                    .map(|id| self.elect(id, in_sync, false, variant))
                    .into_iter()
                    .collect();
            }
            return all(in_sync, &|_| in_sync);
        }
        if !eligible.is_empty() {
            return all(eligible, &|id| Members::default().with(id));
        }
        let all_are_there = self.isr.and(there) == self.isr && self.eligible.is_empty();
        if all_are_there || variant == Variant::NobodyWaitedFor {
            let asked = self.isr.and(there).iter();
            let known = asked.filter_map(|id| ends[usize::from(id)].map(|log| (id, log)));
            if let Some((id, _)) = known.max_by_key(|(_, log)| (log.last_epoch(), log.end())) {
                return vec![self.elect(id, Members::default().with(id), true, variant)];
            }
        }
        if self.leader.is_none() {
            return Vec::new();
        }
        vec![Self {
            leader: None,
            leader_epoch: self.leader_epoch + 1,
            version: self.version + 1,
            eligible: self.eligible.minus(self.doubts),
            ..*self
        }]
    }

    /// Whether the leader is one of `members` and is still the process that was made leader.
    fn leads_on(&self, members: Members) -> bool {
        self.leader.is_some_and(|id| {
            members.contains(id) && self.registration(id) == self.leader_incarnation
        })
    }

    fn elect(&self, leader: u8, isr: Members, may_lose: bool, variant: Variant) -> Self {
        let mut after = Self {
            leader: Some(leader),
            leader_incarnation: self.registration(leader),
            leader_epoch: self.leader_epoch + u8::from(variant != Variant::EpochNotRaised),
            version: self.version + 1,
            isr,
            ..*self
        };
        after.eligible = if may_lose { Members::default() } else { eligible_after(self, &after) };
        after.doubts = Members::default();
        after
    }
}

/// Who left the ISR or was listed before, as long as nothing can have been committed since.
fn eligible_after(before: &Store, after: &Store) -> Members {
    if after.isr.len() >= MIN_ISR {
        return Members::default();
    }
    before.eligible.or(before.isr).minus(after.isr).minus(before.doubts)
}
