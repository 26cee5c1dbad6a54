//! One broker with its replica: the leader's rules are those of the product's `replication::Leader`, the follower's are
//! its `replication::truncation`, called as they are.

use super::Variant;
use super::log::{Log, offset, raw};
use super::store::{MIN_ISR, Proposal, Store};
use crate::members::{BROKERS, Members};
use model::LeaderEpoch;
use replication::truncation::{
    OutOfRange, Reconciliation, high_watermark_after_fetch, on_divergence, on_out_of_range,
    reconcile,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Broker {
    pub(super) is_alive: bool,
    /// Power failed since it last registered.
    pub(super) lost_power: bool,
    /// Its broker epoch.
    pub(super) incarnation: u8,
    pub(super) log: Log,
    /// What no power failure takes.
    pub(super) durable: u8,
    pub(super) high_watermark: u8,
    /// The leader epoch that it knows, and who leads in it; 0 before it heard of one.
    pub(super) leader_epoch: u8,
    pub(super) leader: Option<u8>,
    pub(super) leading: Option<Leading>,
    /// A proposal on its way to the controller.
    pub(super) sent: Option<Proposal>,
}

/// What a leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leading {
    pub(super) version: u8,
    pub(super) isr: Members,
    /// Who is being added.
    pub(super) coming: Members,
    pub(super) is_changing: bool,
    pub(super) epoch_start: u8,
    /// What each follower was seen to hold in this epoch.
    pub(super) seen: [Option<Seen>; BROKERS as usize],
}

/// A follower's last fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) end: u8,
    pub(super) incarnation: u8,
}

impl Broker {
    pub(super) fn begin() -> Self {
        Self {
            is_alive: true,
            lost_power: false,
            incarnation: 1,
            log: Log::default(),
            durable: 0,
            high_watermark: 0,
            leader_epoch: 0,
            leader: None,
            leading: None,
            sent: None,
        }
    }

    /// The process ends; the page cache outlives it, but for a power failure.
    pub(super) fn stop(&mut self) {
        (self.leader_epoch, self.leader, self.leading) = (0, None, None);
        self.is_alive = false;
    }

    /// Whether the store says something that it does not know.
    pub(super) fn has_news(&self, id: u8, store: &Store) -> bool {
        let is_other = (store.leader_epoch, store.leader) != (self.leader_epoch, self.leader)
            && store.leader_epoch >= self.leader_epoch;
        let is_led_by_earlier =
            store.leader == Some(id) && store.leader_incarnation != self.incarnation;
        let is_newer = self.leading.is_some_and(|leading| store.version > leading.version)
            && store.leader == Some(id);
        self.is_alive && !is_led_by_earlier && (is_other || is_newer)
    }

    /// Hears all that the store says of the partition.
    pub(super) fn learn(&mut self, id: u8, store: &Store, variant: Variant) {
        let is_known = store.leader_epoch == self.leader_epoch && store.leader == self.leader;
        (self.leader_epoch, self.leader) = (store.leader_epoch, store.leader);
        if store.leader != Some(id) {
            self.leading = None;
            if variant == Variant::TruncationToHighWatermark {
                self.truncate(self.high_watermark);
            }
            return;
        }
        let (isr, version) = (store.isr, store.version);
        let fresh = Leading {
            version,
            isr,
            coming: Members::default(),
            is_changing: false,
            epoch_start: self.log.end(),
            seen: [None; BROKERS as usize],
        };
        self.leading = Some(match self.leading {
            Some(leading) if is_known => {
                Leading { epoch_start: leading.epoch_start, seen: leading.seen, ..fresh }
            }
            _ => fresh,
        });
    }

    /// Where its log ends for all that may be acknowledged.
    fn counted_end(&self, flushes: bool, variant: Variant) -> u8 {
        if flushes && variant != Variant::AcknowledgedUnflushed {
            self.durable
        } else {
            self.log.end()
        }
    }

    /// Leader: moves the high watermark as far as the maximal ISR has the log.
    pub(super) fn advance(&mut self, id: u8, flushes: bool, variant: Variant) {
        let end = self.counted_end(flushes, variant);
        let Some(leading) = &self.leading else { return };
        if leading.isr.len() < MIN_ISR && variant != Variant::CommitBelowMinIsr {
            return;
        }
        let waits_for_coming = variant != Variant::CommittedIsrOnly;
        let coming = if waits_for_coming { leading.coming } else { Members::default() };
        let counted = leading.isr.or(coming);
        let ends = counted.without(id).iter().map(|f| leading.seen[usize::from(f)].map(|s| s.end));
        if let Some(least) = ends.chain([Some(end)]).min().flatten() {
            self.high_watermark = self.high_watermark.max(least);
        }
    }

    /// Leader: whether `follower` may be proposed for the ISR.
    pub(super) fn may_join(&self, follower: u8, variant: Variant) -> bool {
        let Some(leading) = &self.leading else { return false };
        let is_early = variant == Variant::JoinBeforeEpochStart;
        let starts = if is_early { 0 } else { leading.epoch_start };
        let least = self.high_watermark.max(starts);
        !leading.is_changing
            && !leading.isr.contains(follower)
            && leading.seen[usize::from(follower)].is_some_and(|seen| seen.end >= least)
    }

    /// Leader: whether `follower` may be found lagging.
    pub(super) fn may_leave(&self, follower: u8) -> bool {
        self.leading.is_some_and(|leading| {
            let seen = leading.seen[usize::from(follower)];
            !leading.is_changing
                && leading.isr.contains(follower)
                && seen.is_none_or(|seen| seen.end < self.log.end())
        })
    }

    pub(super) fn propose(&mut self, joins: Option<u8>, leaves: Option<u8>) {
        let Some(leading) = &mut self.leading else { return };
        let joins = joins.and_then(|id| Some((id, leading.seen[usize::from(id)]?.incarnation)));
        let coming = joins.map_or(Members::default(), |(id, _)| Members::of(&[id]));
        let leaving = leaves.map_or(Members::default(), |id| Members::of(&[id]));
        (leading.coming, leading.is_changing) = (coming, true);
        self.sent = Some(Proposal {
            leader_epoch: self.leader_epoch,
            version: leading.version,
            isr: leading.isr.or(coming).minus(leaving),
            joins,
        });
    }

    /// Leader: the controller refused; back to the ISR that is committed.
    pub(super) fn abandon(&mut self) {
        if let Some(leading) = &mut self.leading {
            (leading.coming, leading.is_changing) = (Members::default(), false);
        }
    }

    pub(super) fn truncate(&mut self, to: u8) {
        self.log.truncate(to);
        self.durable = self.durable.min(to);
        self.high_watermark = self.high_watermark.min(to);
    }

    pub(super) fn flush(&mut self) {
        self.durable = self.log.end();
    }
}

/// `follower` fetches from `leader`: at most one record, or it cuts its log.
pub(super) fn fetch(
    (id, follower): (u8, &mut Broker),
    (leader_id, leader): (u8, &mut Broker),
    flushes: bool,
    variant: Variant,
) {
    let Some(leading) = leader.leading else { return };
    let (end, leaders_end) = (follower.log.end(), leader.log.end());
    let own = (leader.leader_epoch, leading.epoch_start);
    let last = follower.log.last_epoch();
    // Before KIP-101 leaders did not look at their followers' epochs.
    let is_believed = variant == Variant::TruncationToHighWatermark && end <= leaders_end;
    let found = (end > 0 && !is_believed).then(|| {
        let found = leader.log.end_for(last, Some(own));
        reconcile(LeaderEpoch(last.into()), offset(end), offset(0), found)
    });
    match found {
        Some(Reconciliation::Diverged(theirs))
            if variant != Variant::OnlyEndsCompared || theirs.end_offset < offset(end) =>
        {
            let raw_epoch = u8::try_from(theirs.epoch.0).unwrap_or_default();
            let ours = follower.log.end_for(raw_epoch, None);
            let cut =
                on_divergence(Some(theirs), ours, offset(follower.high_watermark), offset(end));
            follower.truncate(raw(cut.to));
            return;
        }
        Some(Reconciliation::OutOfRange) => {
            if let OutOfRange::TruncateTo(to) =
                on_out_of_range(offset(0), offset(leaders_end), offset(end))
            {
                follower.truncate(raw(to));
            }
            return;
        }
        Some(Reconciliation::Diverged(_) | Reconciliation::Prefix) | None => {}
    }
    if let Some(leading) = &mut leader.leading {
        let known = &mut leading.seen[usize::from(id)];
        // A fetch from before its last start counts for nothing (`Follower::is_superseded`).
        if known.is_none_or(|seen| seen.incarnation <= follower.incarnation) {
            *known = Some(Seen { end, incarnation: follower.incarnation });
        }
    }
    leader.advance(leader_id, flushes, variant);
    if let Some(&next) = leader.log.records().get(usize::from(end)) {
        follower.log.push(next);
        if flushes {
            follower.flush();
        }
    }
    let watermark = high_watermark_after_fetch(
        offset(leader.high_watermark),
        offset(0),
        offset(follower.log.end()),
    );
    follower.high_watermark = raw(watermark);
}
