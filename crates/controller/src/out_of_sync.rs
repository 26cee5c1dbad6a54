//! Which replicas are not in sync, since when, and why they left. Pure.
//!
//! Every change of an ISR passes the controller, so it is the one that can say. It keeps this in memory only:
//! a broker with thousands of partitions that dies costs no write. What left under an earlier controller is
//! known by its state node, which was last written then or later. Source: decision 13 in `docs/decisions`.

use crate::context::{Context, Standing};
use model::{BrokerId, Timestamp, TopicName, TopicPartition};
use std::collections::BTreeMap;

/// Why a replica left the ISR, or is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its leader did not see it catch up within `replica.lag.time.max.ms`.
    Lagged,
    /// Its process had ended, as two others saw (`barnabas.fast.failure.detection`).
    ProcessEnded,
    /// Its broker's session with the store ended: it died, or was cut off from the store.
    SessionEnded,
    /// Its broker shut down in order.
    ShutDown,
    /// It could not use its log: the directory failed, the disk was full, or the log was gone.
    LogFailed,
    /// It is back from a failure of the power, and its log may lack what it had.
    MayLackRecords,
    /// It has been given the partition, and was never in the ISR.
    NeverJoined,
    /// It left under an earlier controller, which took the reason with it.
    Unknown,
}

impl Cause {
    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lagged => "lagged",
            Self::ProcessEnded => "process-ended",
            Self::SessionEnded => "session-ended",
            Self::ShutDown => "shut-down",
            Self::LogFailed => "log-failed",
            Self::MayLackRecords => "may-lack-records",
            Self::NeverJoined => "never-joined",
            Self::Unknown => "unknown",
        }
    }
}

/// When and why a replica left the ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When the controller wrote the state without it; of [`Cause::Unknown`] at the latest.
    pub at: Timestamp,
    /// Why.
    pub cause: Cause,
}

/// A replica that is not in sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfSync {
    /// The partition.
    pub partition: TopicPartition,
    /// Whose replica.
    pub replica: BrokerId,
    /// When and why it left.
    pub departure: Departure,
    /// Whether it holds all the same everything that was committed, and may lead without loss (KIP-966).
    pub is_eligible: bool,
}

/// The departures of all replicas that are not in sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures {
    partitions: BTreeMap<TopicPartition, BTreeMap<BrokerId, Departure>>,
    /// Why brokers are not registered, where it is not their session that ended by itself.
    brokers: BTreeMap<BrokerId, Cause>,
}

impl Departures {
    /// `broker` is about to vanish, for this cause.
    pub(crate) fn broker_leaves(&mut self, broker: BrokerId, cause: Cause) {
        self.brokers.insert(broker, cause);
    }

    /// `broker` is registered.
    pub(crate) fn broker_came(&mut self, broker: BrokerId) {
        self.brokers.remove(&broker);
    }

    pub(crate) fn forget(&mut self, topic: &TopicName) {
        self.partitions.retain(|at, _| at.topic != *topic);
    }
}

impl Context {
    /// Takes note of the ISR that `at` has now, at `now`; before it was `before`, or there was none.
    pub(crate) fn note_isr(
        &mut self,
        at: &TopicPartition,
        before: Option<&[BrokerId]>,
        now: Timestamp,
    ) {
        let Some(partition) = self.partition(at) else { return };
        let Some(state) = &partition.state else { return };
        let is_out = |id: &BrokerId| !state.node.isr.contains(id);
        let out: Vec<BrokerId> = partition.replicas.iter().copied().filter(is_out).collect();
        if out.is_empty() {
            self.departures.partitions.remove(at);
            return;
        }
        let causes: Vec<_> = out
            .into_iter()
            .map(|id| match before {
                Some(isr) if isr.contains(&id) => (id, Some(self.why_it_leaves(id, at))),
                Some(_) if !partition.adding.contains(&id) => (id, None),
                Some(_) | None => (id, Some(Cause::NeverJoined)),
            })
            .collect();
        let known = self.departures.partitions.entry(at.clone()).or_default();
        let earlier = std::mem::take(known);
        for (id, cause) in causes {
            let departure = match (earlier.get(&id), cause) {
                (Some(&known), None | Some(Cause::NeverJoined)) => known,
                (_, Some(cause)) => Departure { at: now, cause },
                (None, None) => Departure { at: now, cause: Cause::Unknown },
            };
            known.insert(id, departure);
        }
    }

    /// The state of `at` was read, which was last written at `written`: who is not in its ISR left by then.
    pub(crate) fn note_read_isr(&mut self, at: &TopicPartition, written: Timestamp) {
        let isr = self.partition(at).and_then(|partition| partition.state.as_ref());
        let Some(isr) = isr.map(|state| state.node.isr.clone()) else { return };
        self.note_isr(at, Some(&isr), written);
    }

    fn why_it_leaves(&self, broker: BrokerId, at: &TopicPartition) -> Cause {
        match self.standing(broker, at) {
            Standing::Away if self.leaving.contains(&broker) => Cause::ShutDown,
            Standing::Away => {
                self.departures.brokers.get(&broker).copied().unwrap_or(Cause::SessionEnded)
            }
            Standing::Broken => Cause::LogFailed,
            Standing::Doubtful => Cause::MayLackRecords,
            Standing::Lingering => Cause::ShutDown,
            // Only its leader takes one out that is there, and for this alone.
            Standing::Online => Cause::Lagged,
        }
    }

    /// The replicas of `topics` that are not in sync.
    pub(crate) fn out_of_sync(&self, topics: &[TopicName]) -> Vec<OutOfSync> {
        let mut found = Vec::new();
        for name in topics {
            let first = TopicPartition::new(name.clone(), 0);
            let of_topic = self.departures.partitions.range(first..);
            for (at, replicas) in of_topic.take_while(|(at, _)| at.topic == *name) {
                let list = self.partition(at).and_then(|partition| partition.eligible.as_ref());
                found.extend(replicas.iter().map(|(&replica, &departure)| OutOfSync {
                    partition: at.clone(),
                    replica,
                    departure,
                    is_eligible: list.is_some_and(|list| list.members.contains(&replica)),
                }));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{LiveBroker, Partition, State, Topic};
    use crate::znodes::StateNode;
    use metadata::BrokerImage;
    use model::{BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId};
    use std::sync::Arc;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn at() -> TopicPartition {
        TopicPartition::new("t", 0)
    }

    /// Brokers 1 to 3 live; a partition that they have, with no state yet.
    fn context() -> Context {
        let mut context = Context::default();
        for id in ids(&[1, 2, 3]) {
            let image = Arc::new(BrokerImage { id, endpoints: Vec::new(), rack: None });
            let epoch = BrokerEpoch(7);
            let broker = LiveBroker { image, epoch, version: 1, incarnation: None };
            context.brokers.insert(id, broker);
        }
        let partitions = [(0, Partition::assigned(ids(&[1, 2, 3])))].into();
        let topic = Topic { id: TopicId([7; 16]), partitions, has_partitions_node: true };
        context.insert("t".into(), topic);
        context
    }

    fn isr_becomes(context: &mut Context, isr: &[i32], now: i64) {
        let partition = context.partition_mut(&at()).unwrap();
        let before = partition.state.take().map(|state| state.node.isr);
        let node = StateNode {
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(0),
            isr: ids(isr),
            controller_epoch: ControllerEpoch(1),
            recovering: false,
        };
        partition.state = Some(State { node, partition_epoch: PartitionEpoch(0) });
        context.note_isr(&at(), before.as_deref(), Timestamp(now));
    }

    fn told(context: &Context) -> Vec<(i32, i64, Cause)> {
        let all = context.out_of_sync(&["t".into()]).into_iter();
        all.map(|one| (one.replica.0, one.departure.at.0, one.departure.cause)).collect()
    }

    #[test]
    fn who_leaves_is_told_with_time_and_cause_until_it_is_back() {
        let mut context = context();
        isr_becomes(&mut context, &[1, 2, 3], 10);
        assert_eq!(told(&context), []);
        isr_becomes(&mut context, &[1, 3], 20);
        assert_eq!(told(&context), [(2, 20, Cause::Lagged)], "it lives, so its leader took it out");
        context.brokers.remove(&BrokerId(3));
        isr_becomes(&mut context, &[1], 30);
        let both = [(2, 20, Cause::Lagged), (3, 30, Cause::SessionEnded)];
        assert_eq!(told(&context), both, "the first stays as it was");
        isr_becomes(&mut context, &[1, 2], 40);
        assert_eq!(told(&context), [(3, 30, Cause::SessionEnded)]);
        isr_becomes(&mut context, &[1, 2, 3], 50);
        assert_eq!(told(&context), []);
    }

    #[test]
    fn the_cause_is_what_the_controller_knows_of_the_broker() {
        let mut context = context();
        isr_becomes(&mut context, &[1, 2, 3], 10);
        context.leaving.insert(BrokerId(2));
        context.offline.insert((BrokerId(3), at()));
        isr_becomes(&mut context, &[1], 20);
        assert_eq!(told(&context), [(2, 20, Cause::ShutDown), (3, 20, Cause::LogFailed)]);
        isr_becomes(&mut context, &[1, 2, 3], 30);
        context.leaving.clear();
        context.brokers.remove(&BrokerId(2));
        context.departures.broker_leaves(BrokerId(2), Cause::ProcessEnded);
        isr_becomes(&mut context, &[1, 3], 40);
        assert_eq!(told(&context), [(2, 40, Cause::ProcessEnded)]);
    }

    #[test]
    fn one_that_was_never_in_it_is_told_apart_from_one_that_left_under_another_controller() {
        let mut new = context();
        isr_becomes(&mut new, &[1, 2], 10);
        assert_eq!(told(&new), [(3, 10, Cause::NeverJoined)]);
        let mut read = context();
        isr_becomes(&mut read, &[1, 2, 3], 5);
        read.partition_mut(&at()).unwrap().state.as_mut().unwrap().node.isr = ids(&[1, 2]);
        read.note_read_isr(&at(), Timestamp(10));
        assert_eq!(told(&read), [(3, 10, Cause::Unknown)]);
        read.note_read_isr(&at(), Timestamp(20));
        assert_eq!(told(&read), [(3, 10, Cause::Unknown)], "read again, it did not leave again");
    }

    #[test]
    fn a_deleted_topic_and_a_replica_that_is_none_any_more_are_forgotten() {
        let mut context = context();
        isr_becomes(&mut context, &[1, 2, 3], 10);
        isr_becomes(&mut context, &[1], 20);
        context.partition_mut(&at()).unwrap().replicas = ids(&[1, 2]);
        isr_becomes(&mut context, &[1], 30);
        assert_eq!(told(&context), [(2, 20, Cause::Lagged)]);
        context.remove(&"t".into());
        assert_eq!(told(&context), []);
    }
}
