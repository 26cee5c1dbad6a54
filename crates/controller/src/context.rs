//! What the active controller knows, and the elections that follow from it. Pure.

use crate::eligible::Eligible;
use crate::out_of_sync::Departures;
use crate::znodes::{StateNode, TopicNode};
use metadata::BrokerImage;
use model::{BrokerEpoch, BrokerId, Bug, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch};
use model::{TopicId, TopicName, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A registered broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveBroker {
    pub(crate) image: Arc<BrokerImage>,
    pub(crate) epoch: BrokerEpoch,
    /// The version of the registration's node.
    pub(crate) version: i32,
    /// The version of its incarnation's node, if the registration was made by a broker of ours.
    pub(crate) incarnation: Option<i32>,
}

/// What a broker of ours says of its logs when it registers after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogDoubt {
    /// Logs may be missing; those that are there are whole.
    Incomplete,
    /// Logs may lack records at their ends that the broker had said it has: the power failed.
    Unclean,
}

/// How far a log reaches: the leader epoch of its last record, and its end (exclusive). Of the logs of one
/// ISR the greatest has every committed record that any of them has: within one epoch all are pieces of one
/// log from its start, and whoever has records of a later epoch has all that was committed before that.
pub(crate) type LogEnd = (LeaderEpoch, Offset);

/// A member of an ISR whose broker came back and may lack what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) about: LogDoubt,
    /// Answers to requests up to this one are an earlier registration's.
    pub(crate) since: u64,
    /// What its broker says.
    pub(crate) log_end: Option<LogEnd>,
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
    /// Whether its node is there though its state is not; where its state is there, it does not matter.
    pub(crate) has_node: bool,
    /// Its state node is there and cannot be read: it is left alone, so that nothing is overwritten.
    pub(crate) is_unreadable: bool,
    /// Who else may lead without loss, if the store has such a list that goes with the state.
    pub(crate) eligible: Option<Eligible>,
    /// Whether the list's node is there, even if it goes with another state.
    pub(crate) has_eligible_node: bool,
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    pub(crate) brokers: BTreeMap<BrokerId, LiveBroker>,
    pub(crate) topics: BTreeMap<TopicName, Topic>,
    pub(crate) names: BTreeMap<TopicId, TopicName>,
    /// Replicas of live brokers whose log directory failed.
    pub(crate) offline: BTreeSet<(BrokerId, TopicPartition)>,
    /// Members of ISRs that may lack what they had. Each is settled when it has left the ISR, or leads.
    pub(crate) doubts: BTreeMap<(BrokerId, TopicPartition), Doubt>,
    /// Brokers in doubt that wait for the rest of their ISRs, which may be certain to have everything.
    pub(crate) patient: BTreeSet<BrokerId>,
    /// Brokers that have answered this controller since they registered. A registration alone may be left over
    /// from before a power failure: whoever it belongs to has yet to say what it lacks.
    pub(crate) heard: BTreeSet<BrokerId>,
    /// Registered brokers that asked to shut down: they lead nothing new and count as gone from ISRs.
    pub(crate) leaving: BTreeSet<BrokerId>,
    /// Topics on their way out, and the brokers that still have to delete their replicas.
    pub(crate) deleting: BTreeMap<TopicName, BTreeSet<BrokerId>>,
    /// Since when and why replicas are not in sync.
    pub(crate) departures: Departures,
    /// Topics whose node below `/barnabas/eligible` is there.
    pub(crate) eligible_topics: BTreeSet<TopicName>,
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
        self.eligible_topics.remove(name);
        self.offline.retain(|(_, partition)| partition.topic != *name);
        self.doubts.retain(|(_, partition), _| partition.topic != *name);
        self.departures.forget(name);
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

    /// Whether `broker` is registered and stays.
    pub(crate) fn is_live(&self, broker: BrokerId) -> bool {
        self.brokers.contains_key(&broker) && !self.leaving.contains(&broker)
    }

    /// The brokers that are registered and stay.
    pub(crate) fn live(&self) -> impl Iterator<Item = &LiveBroker> {
        self.brokers.values().filter(|broker| !self.leaving.contains(&broker.image.id))
    }

    /// Whether `broker` lives, has not lost its replica of `at`, and has all that it is counted on for.
    pub(crate) fn is_online(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        self.is_live(broker) && self.is_whole(broker, at) && !self.is_doubtful(broker, at)
    }

    /// Whether `broker` may lack what it had of `at`.
    pub(crate) fn is_doubtful(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        !self.doubts.is_empty() && self.doubts.contains_key(&(broker, at.clone()))
    }

    fn is_whole(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        self.offline.is_empty() || !self.offline.contains(&(broker, at.clone()))
    }

    /// The replicas of `at` that can be told something: online, in doubt, or about to shut down.
    pub(crate) fn reachable_replicas(&self, at: &TopicPartition) -> Vec<BrokerId> {
        let replicas = self.partition(at).map_or(&[][..], |partition| &partition.replicas);
        let reachable = |id: &BrokerId| self.brokers.contains_key(id) && self.is_whole(*id, at);
        replicas.iter().copied().filter(reachable).collect()
    }

    /// Whether `at` has a leader that lives.
    pub(crate) fn has_online_leader(&self, at: &TopicPartition) -> bool {
        let state = self.partition(at).and_then(|partition| partition.state.as_ref());
        state.and_then(|state| state.node.leader).is_some_and(|id| self.is_online(id, at))
    }

    /// Whether any partition is being moved.
    pub(crate) fn is_any_moving(&self) -> bool {
        self.topics.values().any(|topic| topic.partitions.values().any(Partition::is_moving))
    }

    /// The partitions with a replica on one of `brokers`, and those without a leader that lives.
    pub(crate) fn affected_by(&self, brokers: &BTreeSet<BrokerId>) -> Vec<TopicPartition> {
        let mut all = self.all_partitions();
        all.retain(|at| {
            let replicas = self.partition(at).map_or(&[][..], |p| &p.replicas);
            replicas.iter().any(|id| brokers.contains(id)) || !self.has_online_leader(at)
        });
        all
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
        let is_in_doubt = partition
            .state
            .as_ref()
            .is_some_and(|state| state.node.isr.iter().any(|&member| self.is_doubtful(member, at)));
        let is_listed = |id| partition.eligible.as_ref().is_some_and(|e| e.members.contains(&id));
        let is_unheard = |id| (is_in_doubt || is_listed(id)) && !self.heard.contains(&id);
        let leader = partition.state.as_ref().and_then(|state| state.node.leader);
        if leader.is_some_and(|id| self.is_online(id, at) && is_unheard(id)) {
            // It is heard soon, or gone.
            return None;
        }
        let standing = |broker| {
            let standing = self.standing(broker, at);
            let is_left_over = standing == Standing::Online && is_unheard(broker);
            if is_left_over { Standing::Away } else { standing }
        };
        let last_resort = |doubtful: &[BrokerId], others_may_return| {
            self.best_in_doubt(at, doubtful, others_may_return, unclean)
        };
        repaired(partition, standing, last_resort, unclean, controller_epoch)
    }

    /// As [`Self::repaired`], for an unclean election that was asked for: whatever can lead does so at once, and
    /// nobody whose broker is about to shut down.
    pub(crate) fn elected_uncleanly(
        &self,
        at: &TopicPartition,
        controller_epoch: ControllerEpoch,
    ) -> Option<StateNode> {
        let partition = self.partition(at)?;
        let standing = |broker| self.standing(broker, at).unless_lingering();
        let last_resort = |doubtful: &[BrokerId], _| {
            self.best_in_doubt(at, doubtful, false, true).or_else(|| doubtful.first().copied())
        };
        repaired(partition, standing, last_resort, true, controller_epoch)
    }

    /// Who of `doubtful`, all members of the ISR, is to lead `at`, because nobody can who is certain to have
    /// everything. `None` while that cannot be told: others are waited for, or how far their logs reach.
    fn best_in_doubt(
        &self,
        at: &TopicPartition,
        doubtful: &[BrokerId],
        others_may_return: bool,
        unclean: bool,
    ) -> Option<BrokerId> {
        let end = |id: BrokerId| self.doubts.get(&(id, at.clone())).and_then(|doubt| doubt.log_end);
        let all_wait = doubtful.iter().all(|id| self.patient.contains(id));
        if others_may_return && !unclean && all_wait {
            return None;
        }
        let is_alone = doubtful.len() == 1 && !others_may_return;
        if !is_alone && doubtful.iter().any(|&id| end(id).is_none()) {
            return None;
        }
        // The first of those that are equal.
        doubtful.iter().rev().copied().max_by_key(|&id| end(id))
    }

    /// Whether `broker`, which left the ISR of `at` or is about to, may be eligible: nothing says that it lacks
    /// records. A broker of Apache's would not say so.
    pub(crate) fn may_be_eligible(&self, broker: BrokerId, at: &TopicPartition) -> bool {
        let is_ours = self.brokers.get(&broker).is_none_or(|live| live.incarnation.is_some());
        is_ours && self.is_whole(broker, at) && !self.is_doubtful(broker, at)
    }

    /// What can be expected of `broker`'s replica of `at`.
    pub(crate) fn standing(&self, broker: BrokerId, at: &TopicPartition) -> Standing {
        match (self.brokers.contains_key(&broker), self.is_whole(broker, at)) {
            (false, _) => Standing::Away,
            (true, false) => Standing::Broken,
            (true, true) if self.is_doubtful(broker, at) => match self.leaving.contains(&broker) {
                true => Standing::Away,
                false => Standing::Doubtful,
            },
            (true, true) if self.leaving.contains(&broker) => Standing::Lingering,
            (true, true) => Standing::Online,
        }
    }
}

/// What can be expected of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It can lead.
    Online,
    /// It serves still, and is about to shut down.
    Lingering,
    /// Its broker is not registered; its log is where it was, as far as is known.
    Away,
    /// Its broker lives and says that it cannot use its log, or has lost it.
    Broken,
    /// Its broker lives, and its log may lack what it had when it was last in sync.
    Doubtful,
}

impl Standing {
    /// The same, where a leader is looked for that stays.
    pub(crate) fn unless_lingering(self) -> Self {
        match self {
            Self::Lingering => Self::Away,
            Self::Online | Self::Away | Self::Broken | Self::Doubtful => self,
        }
    }
}

/// A new partition is led by its first online replica. Of an old one, whatever is not online leaves the
/// ISR, and if the leader is not online, the first assigned replica that is in the ISR leads; with `unclean`,
/// and none of those, the first that is online. A leader that is about to shut down leads on while nobody can
/// take over.
///
/// Where nobody in the ISR is online, all stay in it whose logs are not known to be gone: each of them holds
/// what was committed, and whichever comes back first may lead. (Kafka keeps one, and waits for that.) The
/// last one stays even if its log is gone: somebody has to say that this partition has lost its records.
///
/// Where nobody in the ISR can lead who is in no doubt, one leads that left it with all that was committed (KIP-966), if
/// one is there. Such that are away are waited for as those of the ISR are.
///
/// Who is in doubt leaves the ISR where somebody else leads. Where nobody in the ISR can who is not, it is up to
/// `last_resort`, which gets those in doubt and whether others of the ISR may return, who of them leads now;
/// all others leave the ISR then. While that says nobody, all stay.
pub(crate) fn repaired(
    partition: &Partition,
    standing: impl Fn(BrokerId) -> Standing,
    last_resort: impl Fn(&[BrokerId], bool) -> Option<BrokerId>,
    unclean: bool,
    controller_epoch: ControllerEpoch,
) -> Option<StateNode> {
    if partition.is_unreadable {
        return None;
    }
    let is_online = |id: BrokerId| standing(id) == Standing::Online;
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
    let mut is_last_resort = false;
    if !before.leader.is_some_and(is_online) {
        let candidates = online(&partition.replicas);
        after.leader = candidates.iter().copied().find(|id| before.isr.contains(id));
        let is_lingering = |id: &BrokerId| standing(*id) == Standing::Lingering;
        let is_doubtful = |id: &&BrokerId| standing(**id) == Standing::Doubtful;
        let is_away = |id: &BrokerId| standing(*id) == Standing::Away;
        let in_isr = partition.replicas.iter().filter(|id| before.isr.contains(id));
        let doubtful: Vec<BrokerId> = in_isr.filter(is_doubtful).copied().collect();
        let listed = partition.eligible.as_ref().map_or(&[][..], |eligible| &eligible.members);
        let eligible = candidates.iter().copied().find(|id| listed.contains(id));
        if let (None, Some(old)) = (after.leader, before.leader.filter(is_lingering)) {
            after.leader = Some(old);
            after.isr =
                before.isr.iter().copied().filter(|&id| id == old || is_online(id)).collect();
        } else if let (None, Some(first)) = (after.leader, eligible) {
            (after.leader, after.isr) = (Some(first), vec![first]);
        } else if after.leader.is_none() && !doubtful.is_empty() {
            let others_may_return = before.isr.iter().chain(listed).any(is_away);
            if let Some(best) = last_resort(&doubtful, others_may_return) {
                is_last_resort = true;
                (after.leader, after.isr) = (Some(best), vec![best]);
                after.recovering |= partition.replicas.len() > 1;
            }
        } else if let (None, true, Some(&first)) = (after.leader, unclean, candidates.first()) {
            (after.leader, after.isr, after.recovering) = (Some(first), vec![first], true);
        }
    }
    if after.isr.is_empty() && Bug::Kafka3143.is_planted() {
        return Some(elected(after, controller_epoch));
    }
    if after.isr.is_empty() {
        let away = before.isr.iter().copied().filter(|&id| standing(id) != Standing::Broken);
        after.isr = away.collect();
    }
    if after.isr.is_empty() {
        after.isr = before.isr.last().copied().into_iter().collect();
    }
    if after == *before && !is_last_resort {
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

    fn nobody(_: &[BrokerId], _: bool) -> Option<BrokerId> {
        None
    }

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    /// Of brokers 1, 2 and 3.
    fn partition(leader: i32, isr: &[i32]) -> Partition {
        let node = StateNode {
            leader: Some(BrokerId(leader)).filter(|id| id.0 > 0),
            leader_epoch: LeaderEpoch(7),
            isr: ids(isr),
            controller_epoch: ControllerEpoch(1),
            recovering: false,
        };
        let state = Some(State { node, partition_epoch: PartitionEpoch(0) });
        Partition { state, ..Partition::assigned(ids(&[1, 2, 3])) }
    }

    fn repair(
        leader: i32,
        isr: &[i32],
        online: &[i32],
        unclean: bool,
    ) -> Option<(i32, i32, Vec<i32>)> {
        let partition = partition(leader, isr);
        let online = ids(online);
        // Of those that are not online, 9 is about to shut down, and 8 has lost its log.
        let standing = |id: BrokerId| match id.0 {
            _ if online.contains(&id) => Standing::Online,
            9 => Standing::Lingering,
            8 => Standing::Broken,
            _ => Standing::Away,
        };
        let after = repaired(&partition, standing, nobody, unclean, ControllerEpoch(2))?;
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
    fn all_who_went_at_once_stay_in_the_isr_and_whoever_is_back_first_leads() {
        assert_eq!(repair(3, &[3, 2], &[1], false), Some((-1, 8, vec![3, 2])));
        assert_eq!(repair(-1, &[3, 2], &[1, 2], false), Some((2, 8, vec![2])));
    }

    #[test]
    fn one_whose_log_is_gone_leaves_the_isr_to_those_that_are_away() {
        assert_eq!(repair(8, &[8, 3], &[], false), Some((-1, 8, vec![3])));
        assert_eq!(repair(8, &[8, 2, 3], &[2], false), Some((2, 8, vec![2])));
        assert_eq!(
            repair(8, &[8], &[1, 2], false),
            Some((-1, 8, vec![8])),
            "and nobody else leads"
        );
        assert_eq!(repair(8, &[8], &[1], true), Some((1, 8, vec![1])), "unless that is allowed");
    }

    #[test]
    fn a_new_partition_is_led_by_its_first_online_replica() {
        let partition = Partition::assigned(ids(&[1, 2, 3]));
        let epoch = ControllerEpoch(2);
        let standing = |id: BrokerId| if id.0 > 1 { Standing::Online } else { Standing::Away };
        let state = repaired(&partition, standing, nobody, false, epoch).unwrap();
        assert_eq!((state.leader, state.isr), (Some(BrokerId(2)), ids(&[2, 3])));
        let lingering = repaired(&partition, |_| Standing::Lingering, nobody, true, epoch);
        assert_eq!(lingering, None);
    }

    #[test]
    fn one_that_is_about_to_shut_down_leads_on_while_nobody_can_take_over() {
        assert_eq!(repair(9, &[9, 1], &[1], false), Some((1, 8, vec![1])));
        assert_eq!(repair(9, &[9], &[1, 2], false), None);
        assert_eq!(repair(9, &[9, 3], &[1, 2], false), Some((9, 8, vec![9])));
        assert_eq!(repair(9, &[9], &[1, 2], true), None, "no need to lose anything");
    }

    #[test]
    fn a_partition_whose_state_cannot_be_read_is_left_alone() {
        let partition = Partition { is_unreadable: true, ..Partition::assigned(ids(&[1])) };
        let epoch = ControllerEpoch(2);
        assert_eq!(repaired(&partition, |_| Standing::Online, nobody, true, epoch), None);
    }

    /// A partition of brokers 1, 2 and 3. Of those in doubt each has the end of its log, if it is known.
    #[derive(Clone)]
    struct World(Context, TopicPartition);

    impl World {
        fn new(leader: i32, isr: &[i32], live: &[i32]) -> Self {
            let at = TopicPartition::new("t", 0);
            let mut context = Context::default();
            let id = TopicId([7; 16]);
            let partitions = [(0, partition(leader, isr))].into();
            context.insert(at.topic.clone(), Topic { id, partitions, has_partitions_node: true });
            for &id in live {
                let image = BrokerImage { id: BrokerId(id), rack: None, endpoints: Vec::new() };
                let (epoch, version, incarnation) = (BrokerEpoch(1), 1, Some(0));
                let broker = LiveBroker { image: Arc::new(image), epoch, version, incarnation };
                context.brokers.insert(BrokerId(id), broker);
                context.heard.insert(BrokerId(id));
            }
            Self(context, at)
        }

        fn doubt(mut self, id: i32, about: LogDoubt, log_end: Option<(i32, i64)>) -> Self {
            let log_end = log_end.map(|(epoch, end)| (LeaderEpoch(epoch), Offset(end)));
            let doubt = Doubt { about, since: 0, log_end };
            self.0.doubts.insert((BrokerId(id), self.1.clone()), doubt);
            self.0.patient.insert(BrokerId(id));
            self
        }

        fn unclean(self, id: i32, log_end: Option<(i32, i64)>) -> Self {
            self.doubt(id, LogDoubt::Unclean, log_end)
        }

        fn impatient(mut self) -> Self {
            self.0.patient.clear();
            self
        }

        fn repaired(&self, unclean: bool) -> Option<(i32, Vec<i32>, bool)> {
            let after = self.0.repaired(&self.1, unclean, ControllerEpoch(2))?;
            let isr = after.isr.iter().map(|id| id.0).collect();
            Some((after.leader.map_or(-1, |id| id.0), isr, after.recovering))
        }
    }

    #[test]
    fn who_may_lack_records_leaves_the_isr_of_whoever_does_not() {
        let world = World::new(2, &[1, 2, 3], &[1, 2, 3]).unclean(1, None);
        assert_eq!(world.repaired(false), Some((2, vec![2, 3], false)));
        let world = World::new(1, &[1, 2, 3], &[1, 2, 3]).unclean(1, Some((6, 100)));
        assert_eq!(world.repaired(false), Some((2, vec![2, 3], false)), "it led");
        let world = World::new(1, &[1, 3], &[1, 2, 3]).unclean(1, None).unclean(2, None);
        assert_eq!(world.repaired(false), Some((3, vec![3], false)));
    }

    #[test]
    fn others_of_the_isr_are_waited_for_and_not_for_ever() {
        let world = World::new(1, &[1, 2], &[1, 3]).unclean(1, Some((6, 100)));
        assert_eq!(world.repaired(false), Some((-1, vec![1, 2], false)), "2 may have everything");
        let waited = world.clone().impatient();
        assert_eq!(waited.repaired(false), Some((1, vec![1], true)));
        assert_eq!(world.repaired(true), Some((1, vec![1], true)), "sooner than one not in sync");
        let world = World::new(1, &[1, 2], &[1, 3]).unclean(1, None).impatient();
        assert_eq!(world.repaired(false), Some((-1, vec![1, 2], false)), "and has not said a word");
    }

    #[test]
    fn a_registration_that_may_be_left_over_takes_nobody_out_of_the_isr() {
        let mut world = World::new(1, &[1, 2, 3], &[1, 2, 3]).unclean(1, Some((6, 100)));
        world.0.heard = ids(&[1]).into_iter().collect();
        assert_eq!(world.repaired(false), Some((-1, vec![1, 2, 3], false)));
        world.0.heard.insert(BrokerId(3));
        assert_eq!(world.repaired(false), Some((3, vec![3], false)), "it lives");
        let mut world = World::new(2, &[1, 2], &[1, 2]).unclean(1, Some((6, 100)));
        world.0.heard.clear();
        assert_eq!(world.repaired(false), None, "a leader is heard first");
        world.0.heard.insert(BrokerId(2));
        assert_eq!(world.repaired(false), Some((2, vec![2], false)));
    }

    #[test]
    fn if_all_of_the_isr_are_in_doubt_the_longest_log_leads_once_all_are_known() {
        let world = World::new(1, &[1, 2, 3], &[1, 2, 3]).unclean(1, Some((6, 100)));
        let two = world.clone().unclean(2, Some((6, 101)));
        let unheard = two.clone().unclean(3, None);
        assert_eq!(unheard.repaired(false), Some((-1, vec![1, 2, 3], false)));
        assert_eq!(unheard.repaired(true), Some((-1, vec![1, 2, 3], false)));
        let longest = two.clone().unclean(3, Some((5, 200)));
        assert_eq!(longest.repaired(false), Some((2, vec![2], true)), "by epoch, then by end");
        let equal = world.unclean(2, Some((6, 100))).unclean(3, Some((6, 99)));
        assert_eq!(equal.repaired(false), Some((1, vec![1], true)), "the first assigned");
    }

    #[test]
    fn who_is_alone_in_the_isr_leads_whatever_it_lacks() {
        let world = World::new(1, &[1], &[1, 2]).unclean(1, None);
        assert_eq!(world.repaired(false), Some((1, vec![1], true)));
        let (mut context, at) = (world.0, world.1);
        context.partition_mut(&at).unwrap().state.as_mut().unwrap().node.recovering = true;
        let after = context.repaired(&at, false, ControllerEpoch(2)).unwrap();
        assert_eq!(after.leader_epoch, LeaderEpoch(8), "a new leadership, though all else is so");
    }

    #[test]
    fn who_may_have_lost_its_log_takes_nobody_out_of_the_isr() {
        let world =
            World::new(1, &[1, 2, 3], &[1]).doubt(1, LogDoubt::Incomplete, None).impatient();
        assert_eq!(world.repaired(false), Some((-1, vec![1, 2, 3], false)));
        let (mut context, at) = (world.0, world.1);
        context.doubts.clear();
        context.offline.insert((BrokerId(1), at.clone()));
        let after = context.repaired(&at, false, ControllerEpoch(2)).unwrap();
        assert_eq!((after.leader, after.isr), (None, ids(&[2, 3])), "its log is gone");
    }

    #[test]
    fn an_unclean_election_that_is_asked_for_waits_for_nobody() {
        let world = World::new(-1, &[1, 2], &[1, 3]).unclean(1, None);
        let after = world.0.elected_uncleanly(&world.1, ControllerEpoch(2)).unwrap();
        assert_eq!((after.leader, after.isr), (Some(BrokerId(1)), ids(&[1])));
    }
}
