//! What the active controller knows, and the elections that follow from it. Pure.

use crate::znodes::{StateNode, TopicNode};
use metadata::BrokerImage;
use model::{BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch};
use model::{TopicId, TopicName, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveBroker {
    pub(crate) image: Arc<BrokerImage>,
    pub(crate) epoch: BrokerEpoch,
}

/// A topic as the store has it.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) partitions: BTreeMap<i32, Partition>,
    /// Whether `/brokers/topics/<t>/partitions` exists.
    pub(crate) has_partitions_node: bool,
}

impl Topic {
    /// What its node is to hold.
    pub(crate) fn node(&self) -> TopicNode {
        let moving = |of: fn(&Partition) -> &Vec<BrokerId>| {
            let with = self.partitions.iter().filter(|(_, p)| !of(p).is_empty());
            with.map(|(&index, p)| (index, of(p).clone())).collect()
        };
        TopicNode {
            id: Some(self.id),
            partitions: self.partitions.iter().map(|(&i, p)| (i, p.replicas.clone())).collect(),
            adding: moving(|p| &p.adding),
            removing: moving(|p| &p.removing),
        }
    }
}

/// A partition as the store has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) replicas: Vec<BrokerId>,
    pub(crate) adding: Vec<BrokerId>,
    pub(crate) removing: Vec<BrokerId>,
    /// `None` while it never had a leader.
    pub(crate) state: Option<State>,
}

impl Partition {
    pub(crate) fn assigned(replicas: Vec<BrokerId>) -> Self {
        Self { replicas, ..Self::default() }
    }

    pub(crate) fn is_moving(&self) -> bool {
        !self.adding.is_empty() || !self.removing.is_empty()
    }
}

/// A state node and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) node: StateNode,
    pub(crate) partition_epoch: PartitionEpoch,
}

#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) brokers: BTreeMap<BrokerId, LiveBroker>,
    pub(crate) topics: BTreeMap<TopicName, Topic>,
    pub(crate) names: BTreeMap<TopicId, TopicName>,
    /// Replicas of live brokers whose log directory failed.
    pub(crate) offline: BTreeSet<(BrokerId, TopicPartition)>,
    /// Topics on their way out, and the brokers that still have to delete their replicas.
    pub(crate) deleting: BTreeMap<TopicName, BTreeSet<BrokerId>>,
}

impl Context {
    pub(crate) fn insert(&mut self, name: TopicName, topic: Topic) {
        self.names.insert(topic.id, name.clone());
        self.topics.insert(name, topic);
    }

    pub(crate) fn remove(&mut self, name: &TopicName) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.id);
        }
        self.deleting.remove(name);
        self.offline.retain(|(_, partition)| partition.topic != *name);
    }

    pub(crate) fn partition(&self, at: &TopicPartition) -> Option<&Partition> {
        self.topics.get(&at.topic)?.partitions.get(&at.partition)
    }

    pub(crate) fn partition_mut(&mut self, at: &TopicPartition) -> Option<&mut Partition> {
        self.topics.get_mut(&at.topic)?.partitions.get_mut(&at.partition)
    }

    /// Every partition there is.
    pub(crate) fn all_partitions(&self) -> Vec<TopicPartition> {
        let topics = self.topics.iter();
        topics
            .flat_map(|(name, topic)| {
                topic.partitions.keys().map(|&index| TopicPartition::new(name.clone(), index))
            })
            .collect()
    }

    /// Whether `broker` lives and has not lost its replica of `at`.
    pub(crate) fn is_online(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        self.brokers.contains_key(&broker)
            && (self.offline.is_empty() || !self.offline.contains(&(broker, at.clone())))
    }

    /// Whether some partition of `topic` cannot be led because the disks of all its replicas have failed.
    pub(crate) fn has_no_disk(&self, topic: &TopicName) -> bool {
        let Some(known) = self.topics.get(topic) else { return false };
        !self.offline.is_empty()
            && known.partitions.iter().any(|(&index, partition)| {
                let at = TopicPartition::new(topic.clone(), index);
                partition.replicas.iter().all(|&id| self.offline.contains(&(id, at.clone())))
            })
    }

    pub(crate) fn is_led(&self, topic: &TopicName) -> bool {
        self.topics.get(topic).is_some_and(|topic| {
            let mut states = topic.partitions.values().map(|p| &p.state);
            states.all(|s| s.as_ref().is_some_and(|s| s.node.leader.is_some()))
        })
    }

    /// The state that `at` has to go to now that brokers came or went; `None` if it may stay.
    pub(crate) fn repaired(
        &self,
        at: &TopicPartition,
        unclean: bool,
        controller_epoch: ControllerEpoch,
    ) -> Option<StateNode> {
        let partition = self.partition(at)?;
        repaired(partition, |broker| self.is_online(broker, at), unclean, controller_epoch)
    }
}

/// A new partition is led by its first online replica. Of an old one, whatever is not online leaves the
/// ISR (its last member never does), and if the leader is not online, the first assigned replica that
/// is in the ISR leads; with `unclean`, and none of those, the first that is online.
pub(crate) fn repaired(
    partition: &Partition,
    is_online: impl Fn(BrokerId) -> bool,
    unclean: bool,
    controller_epoch: ControllerEpoch,
) -> Option<StateNode> {
    let online = |ids: &[BrokerId]| -> Vec<BrokerId> {
        ids.iter().copied().filter(|&id| is_online(id)).collect()
    };
    let Some(State { node: before, .. }) = &partition.state else {
        let isr = online(&partition.replicas);
        let leader = Some(*isr.first()?);
        let leader_epoch = LeaderEpoch(0);
        return Some(StateNode { leader, leader_epoch, isr, controller_epoch, recovering: false });
    };
    let mut after = before.clone();
    after.isr = online(&before.isr);
    if after.isr.is_empty() {
        after.isr = before.isr.last().copied().into_iter().collect();
    }
    if !before.leader.is_some_and(&is_online) {
        let candidates = online(&partition.replicas);
        after.leader = candidates.iter().copied().find(|id| before.isr.contains(id));
        if let (None, true, Some(&first)) = (after.leader, unclean, candidates.first()) {
            (after.leader, after.isr, after.recovering) = (Some(first), vec![first], true);
        }
    }
    if after == *before {
        return None;
    }
    Some(elected(after, controller_epoch))
}

/// A state in the next leader epoch.
pub(crate) fn elected(mut node: StateNode, controller_epoch: ControllerEpoch) -> StateNode {
    node.leader_epoch = LeaderEpoch(node.leader_epoch.0.wrapping_add(1));
    node.controller_epoch = controller_epoch;
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn repair(
        leader: i32,
        isr: &[i32],
        online: &[i32],
        unclean: bool,
    ) -> Option<(i32, i32, Vec<i32>)> {
        let node = StateNode {
            leader: Some(BrokerId(leader)).filter(|id| id.0 > 0),
            leader_epoch: LeaderEpoch(7),
            isr: ids(isr),
            controller_epoch: ControllerEpoch(1),
            recovering: false,
        };
        let state = Some(State { node, partition_epoch: PartitionEpoch(0) });
        let partition = Partition { state, ..Partition::assigned(ids(&[1, 2, 3])) };
        let online = ids(online);
        let after = repaired(&partition, |id| online.contains(&id), unclean, ControllerEpoch(2))?;
        assert_eq!(after.controller_epoch, ControllerEpoch(2));
        let isr = after.isr.iter().map(|id| id.0).collect();
        Some((after.leader.map_or(-1, |id| id.0), after.leader_epoch.0, isr))
    }

    #[test]
    fn a_partition_whose_isr_is_online_stays_as_it_is() {
        assert_eq!(repair(2, &[2, 1], &[1, 2], false), None);
        assert_eq!(repair(-1, &[3], &[1, 2], false), None, "still without a leader");
    }

    #[test]
    fn the_first_assigned_replica_in_the_isr_leads_next() {
        assert_eq!(repair(3, &[3, 2, 1], &[1, 2], false), Some((1, 8, vec![2, 1])));
        assert_eq!(repair(1, &[1, 2], &[1], false), Some((1, 8, vec![1])), "the ISR shrinks");
        assert_eq!(repair(-1, &[2], &[1, 2], false), Some((2, 8, vec![2])));
    }

    #[test]
    fn the_last_member_stays_in_the_isr_and_leads_when_it_returns() {
        assert_eq!(repair(3, &[3], &[1, 2], false), Some((-1, 8, vec![3])));
        assert_eq!(repair(3, &[3], &[1, 2], true), Some((1, 8, vec![1])), "unclean");
    }

    #[test]
    fn a_new_partition_is_led_by_its_first_online_replica() {
        let partition = Partition::assigned(ids(&[1, 2, 3]));
        let state = repaired(&partition, |id| id.0 > 1, false, ControllerEpoch(2)).unwrap();
        assert_eq!((state.leader, state.isr), (Some(BrokerId(2)), ids(&[2, 3])));
        assert_eq!(repaired(&partition, |_| false, true, ControllerEpoch(2)), None);
    }
}
