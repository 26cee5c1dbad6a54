//! The partitions that one thread follows, and what the next fetch must say of them.
//!
//! A fetch in a session names only partitions whose wish has changed since the last one, so what is kept
//! here is which those are. Nothing is done for a partition that has no news.

use super::backoff;
use super::session::FetchSession;
use crate::partition::{FollowerPosition, Partition};
use bytestring::ByteString;
use model::{Bug, Instant, LeaderEpoch, TopicId, TopicName};
use protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The first pause after a failure; it doubles up to `replica.fetch.backoff.ms`.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);

/// Names one partition among those of a thread.
pub(super) type Slot = usize;

/// One partition.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) partition: Arc<Partition>,
    pub(super) topic: ByteString,
    pub(super) topic_id: Option<TopicId>,
    /// The leadership that is followed.
    pub(super) epoch: LeaderEpoch,
    /// Where its log stands; `None` if it has to be asked.
    pub(super) position: Option<FollowerPosition>,
    standing: Standing,
    failures: u32,
    /// Whether the session has it.
    in_session: bool,
    /// Whether its wish is not what the session has.
    changed: bool,
    /// How many records it lacked of what is committed, when it was last answered; absent before that.
    pub(super) lag: Option<i64>,
    /// When it last got records: who waits longest comes first in a fetch without a session.
    served: u64,
}

/// Whether a partition takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Fetching,
    /// Not before then.
    Delayed(Instant),
    /// Not in this leadership: only a new word of the controller helps.
    Failed,
    /// Not while its throttle is exceeded.
    HeldBack,
}

/// All partitions of one thread.
#[derive(Debug, Default)]
pub(super) struct FollowedPartitions {
    slots: Vec<Option<Followed>>,
    free: Vec<Slot>,
    by_name: HashMap<(ByteString, i32), Slot>,
    by_id: HashMap<(TopicId, i32), Slot>,
    changed: Vec<Slot>,
    /// Partitions that the session has and should not.
    forgotten: Vec<(ByteString, Option<TopicId>, i32)>,
    delayed: Vec<Slot>,
    held_back: Vec<Slot>,
    /// Partitions whose position is not known.
    unread: Vec<Slot>,
    without_id: usize,
    fetching: usize,
    serves: u64,
}

/// The partitions of one fetch.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wishes {
    pub(super) topics: Vec<FetchTopic>,
    pub(super) forgotten: Vec<ForgottenTopic>,
}

impl FollowedPartitions {
    /// Follows `partition` in `epoch` from here on, from wherever its log stands.
    pub(super) fn add(&mut self, partition: &Arc<Partition>, epoch: LeaderEpoch) {
        self.remove(partition);
        let topic = ByteString::from(&*partition.topic.name);
        let topic_id = partition.topic.id();
        let followed = Followed {
            partition: Arc::clone(partition),
            topic: topic.clone(),
            topic_id,
            epoch,
            position: None,
            standing: Standing::Fetching,
            failures: 0,
            in_session: false,
            changed: false,
            lag: None,
            served: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(followed);
                slot
            }
            None => {
                self.slots.push(Some(followed));
                self.slots.len() - 1
            }
        };
        self.by_name.insert((topic, partition.index), slot);
        match topic_id {
            Some(id) => {
                self.by_id.insert((id, partition.index), slot);
            }
            None => self.without_id += 1,
        }
        self.fetching += 1;
        self.unread.push(slot);
    }

    /// Follows `partition` no more.
    pub(super) fn remove(&mut self, partition: &Partition) {
        let name = (ByteString::from(&*partition.topic.name), partition.index);
        let Some(&slot) = self.by_name.get(&name) else { return };
        self.discard(slot);
    }

    /// Follows the partition in `slot` no more.
    pub(super) fn discard(&mut self, slot: Slot) {
        let Some(followed) = self.slots[slot].take() else { return };
        let index = followed.partition.index;
        self.by_name.remove(&(followed.topic.clone(), index));
        match followed.topic_id {
            Some(id) => {
                self.by_id.remove(&(id, index));
            }
            None => self.without_id -= 1,
        }
        if followed.standing == Standing::Fetching {
            self.fetching -= 1;
        }
        if followed.in_session {
            self.forgotten.push((followed.topic, followed.topic_id, index));
        }
        self.take_off_lists(slot);
        self.free.push(slot);
    }

    /// The partition of this name.
    pub(super) fn named(&self, topic: &TopicName, index: i32) -> Option<&Followed> {
        self.get(*self.by_name.get(&(ByteString::from(&**topic), index))?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether there is anything to fetch now.
    pub(super) fn has_wishes(&self) -> bool {
        self.fetching > 0
    }

    /// Whether topics can be named by id, which takes an id of each.
    pub(super) fn have_ids(&self) -> bool {
        self.without_id == 0
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Followed> {
        self.slots.get(slot)?.as_ref()
    }

    /// The partition that an answer names.
    pub(super) fn find(
        &self,
        by_id: bool,
        topic: &ByteString,
        id: TopicId,
        index: i32,
    ) -> Option<Slot> {
        match by_id {
            true => self.by_id.get(&(id, index)),
            false => self.by_name.get(&(topic.clone(), index)),
        }
        .copied()
    }

    /// Partitions whose log is to be asked where it stands.
    pub(super) fn take_unread(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.unread)
    }

    /// Lets those take part again whose pause is over.
    pub(super) fn end_pauses(&mut self, now: Instant) {
        let mut due = Vec::new();
        let slots = &self.slots;
        self.delayed.retain(|&slot| {
            let is_due = slots[slot].as_ref().is_some_and(
                |followed| matches!(followed.standing, Standing::Delayed(until) if until <= now),
            );
            if is_due {
                due.push(slot);
            }
            !is_due
        });
        for slot in due {
            self.take_part(slot);
        }
    }

    /// When the next pause is over.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let until = |&slot: &Slot| match self.get(slot)?.standing {
            Standing::Delayed(until) => Some(until),
            Standing::Fetching | Standing::Failed | Standing::HeldBack => None,
        };
        self.delayed.iter().filter_map(until).min()
    }

    /// Holds throttled partitions back that lag, or lets all take part again.
    pub(super) fn throttle(&mut self, is_exceeded: bool, broker: i32) {
        if is_exceeded {
            let lags = |followed: &Followed| {
                let throttled = &followed.partition.topic.settings.load().follower_throttled;
                followed.standing == Standing::Fetching
                    && followed.lag.is_none_or(|lag| lag > 0)
                    && throttled.contains(followed.partition.index, broker)
            };
            let all = (0..self.slots.len()).filter(|&slot| self.get(slot).is_some_and(lags));
            let held: Vec<_> = all.collect();
            for slot in held {
                self.stand_back(slot, Standing::HeldBack);
                self.held_back.push(slot);
            }
        } else {
            for slot in std::mem::take(&mut self.held_back) {
                self.take_part(slot);
            }
        }
    }

    /// Whether a throttle holds partitions back.
    pub(super) fn has_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// What the leader has committed that `slot` lacks.
    pub(super) fn set_lag(&mut self, slot: Slot, lag: i64) {
        if let Some(Some(followed)) = self.slots.get_mut(slot) {
            followed.lag = Some(lag);
        }
    }

    fn take_part(&mut self, slot: Slot) {
        let Some(Some(followed)) = self.slots.get_mut(slot) else { return };
        if followed.standing != Standing::Fetching {
            followed.standing = Standing::Fetching;
            self.fetching += 1;
        }
        // The log may have changed in between.
        self.unread.push(slot);
    }

    /// The log of `slot` stands there; with `is_served` it just got records.
    pub(super) fn moved(&mut self, slot: Slot, position: FollowerPosition, is_served: bool) {
        let serves = self.serves;
        let Some(Some(followed)) = self.slots.get_mut(slot) else { return };
        followed.failures = 0;
        if is_served {
            followed.served = serves + 1;
            self.serves += 1;
        }
        if followed.position != Some(position) || !followed.in_session {
            followed.position = Some(position);
            self.mark_changed(slot);
        }
    }

    fn mark_changed(&mut self, slot: Slot) {
        if let Some(Some(followed)) = self.slots.get_mut(slot)
            && !std::mem::replace(&mut followed.changed, true)
        {
            self.changed.push(slot);
        }
    }

    /// The leader's answer settled nothing: ask again for the same.
    pub(super) fn repeat(&mut self, slot: Slot) {
        if !self.unread.contains(&slot) {
            self.unread.push(slot);
        }
    }

    /// Pauses `slot`: longer from failure to failure, up to `longest`.
    pub(super) fn delay(&mut self, slot: Slot, now: Instant, longest: Duration) {
        let Some(Some(followed)) = self.slots.get_mut(slot) else { return };
        let pause = backoff(FIRST_BACKOFF, followed.failures, longest);
        followed.failures += 1;
        self.stand_back(slot, Standing::Delayed(now + pause));
        self.delayed.push(slot);
    }

    /// Gives `slot` up until the controller speaks of it again.
    pub(super) fn fail(&mut self, slot: Slot) {
        self.stand_back(slot, Standing::Failed);
    }

    fn take_off_lists(&mut self, slot: Slot) {
        let lists = [&mut self.changed, &mut self.delayed, &mut self.held_back, &mut self.unread];
        for list in lists {
            list.retain(|&other| other != slot);
        }
    }

    fn stand_back(&mut self, slot: Slot, standing: Standing) {
        let Some(Some(followed)) = self.slots.get_mut(slot) else { return };
        if std::mem::replace(&mut followed.standing, standing) == Standing::Fetching {
            self.fetching -= 1;
        }
        followed.position = None;
        followed.changed = false;
        if std::mem::take(&mut followed.in_session) {
            let name = (followed.topic.clone(), followed.topic_id, followed.partition.index);
            self.forgotten.push(name);
        }
        self.take_off_lists(slot);
    }

    /// What the next fetch in `session` asks for, and what of the session it takes back. From here on the
    /// session is taken to know it; if the fetch fails say [`Self::forget_session`].
    pub(super) fn wishes(&mut self, session: &FetchSession, by_id: bool, max_bytes: i32) -> Wishes {
        let mut slots = std::mem::take(&mut self.changed);
        if session.is_full() {
            slots = (0..self.slots.len()).filter(|&slot| self.get(slot).is_some()).collect();
            slots.sort_by_key(|&slot| self.get(slot).map(|followed| followed.served));
            self.forgotten.clear();
        }
        let mut topics: Vec<FetchTopic> = Vec::new();
        for slot in slots {
            let Some(Some(followed)) = self.slots.get_mut(slot) else { continue };
            followed.changed = false;
            let (Standing::Fetching, Some(position)) = (followed.standing, followed.position)
            else {
                followed.in_session = false;
                continue;
            };
            followed.in_session = true;
            let partition = FetchPartition {
                partition: followed.partition.index,
                current_leader_epoch: followed.epoch.0,
                fetch_offset: position.offset.0,
                last_fetched_epoch: match position.last_fetched_epoch {
                    Some(epoch) if !Bug::Kafka7164.is_planted() => epoch.0,
                    Some(_) | None => -1,
                },
                log_start_offset: position.log_start_offset.0,
                partition_max_bytes: max_bytes,
                ..Default::default()
            };
            match topics.last_mut() {
                Some(last) if last.topic == followed.topic => last.partitions.push(partition),
                _ => topics.push(FetchTopic {
                    topic: followed.topic.clone(),
                    topic_id: followed.topic_id.filter(|_| by_id).unwrap_or(TopicId::ZERO),
                    partitions: vec![partition],
                }),
            }
        }
        Wishes { topics, forgotten: self.take_forgotten() }
    }

    /// By topic; without those that the session is to have again.
    fn take_forgotten(&mut self) -> Vec<ForgottenTopic> {
        let mut by_topic: BTreeMap<(ByteString, TopicId), Vec<i32>> = BTreeMap::new();
        for (topic, id, index) in std::mem::take(&mut self.forgotten) {
            let is_back = self.by_name.get(&(topic.clone(), index)).is_some_and(|&slot| {
                self.get(slot).is_some_and(|other| other.in_session && other.topic_id == id)
            });
            if !is_back {
                by_topic.entry((topic, id.unwrap_or(TopicId::ZERO))).or_default().push(index);
            }
        }
        let forgotten = by_topic.into_iter();
        forgotten
            .map(|((topic, topic_id), partitions)| ForgottenTopic { topic, topic_id, partitions })
            .collect()
    }

    /// There is no session any more, or not this one: nothing is known to it.
    pub(super) fn forget_session(&mut self) {
        for followed in self.slots.iter_mut().flatten() {
            followed.in_session = false;
        }
        self.forgotten.clear();
    }
}
