//! Watches everything: gathers the facts after each step and asks the invariants.

use crate::facts::{Facts, LoggedRecord, PartitionState, ReplicaStep, Told, records};
use crate::history::{History, Seen};
use crate::invariants::{self, Invariant};
use crate::node::Node;
use crate::plan::{Plan, TOPIC};
use crate::scheduler::ProcessId;
use crate::situations::{Situation, Situations};
use crate::store::{StoreServer, Written};
use crate::trace::Trace;
use broker::stepped::SteppedBroker;
use broker::{ReplicaView, RoleView};
use coordination::Op;
use model::{Offset, TopicPartition};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where groups commit.
const OFFSETS: &str = "__consumer_offsets";

/// What is read of a log at once.
const PIECE: usize = 1 << 20;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it says.
    pub invariant: &'static str,
    /// How it was broken.
    pub what: String,
}

/// Watches one run.
pub struct Oracle {
    /// What is known.
    pub facts: Facts,
    /// What came about.
    pub situations: Situations,
    invariants: Vec<Box<dyn Invariant>>,
    /// How many there are.
    partitions: i32,
    views: BTreeMap<(i32, i32), (ProcessId, ReplicaView)>,
    told: BTreeMap<(i32, i32), Told>,
    /// Where logs ended when their machine lost power.
    ends_at_power_loss: BTreeMap<(i32, i32), Offset>,
    violation: Option<Violation>,
    trace: Trace,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Oracle").field("violation", &self.violation).finish_non_exhaustive()
    }
}

impl Oracle {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(plan: &Plan, trace: Trace) -> Self {
        let min_insync = usize::try_from(plan.min_insync).expect("few");
        Self {
            facts: Facts { min_insync, controller_epoch: -1, ..Facts::default() },
            situations: Situations::default(),
            invariants: invariants::all(),
            partitions: plan.partitions,
            views: BTreeMap::new(),
            told: BTreeMap::new(),
            ends_at_power_loss: BTreeMap::new(),
            violation: None,
            trace,
        }
    }

    /// The first rule that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Takes note of a rule that was broken, unless one was before.
    pub fn violate(&mut self, invariant: &'static str, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// A step was made by `process`. Whether a rule is broken.
    pub fn observe(
        &mut self,
        now: Duration,
        process: ProcessId,
        nodes: &[Node],
        store: &StoreServer,
        history: &History,
    ) -> bool {
        self.facts.now = now;
        for written in store.take_written() {
            self.store_written(&written);
        }
        for partition in self.facts.partitions.values_mut() {
            if partition.eligible_before != partition.eligible {
                partition.eligible_before = partition.eligible.clone();
            }
        }
        let stepped = nodes.iter().find(|node| node.process() == Some(process));
        if let Some(node) = stepped
            && let Some(broker) = node.broker()
        {
            node.look_inside(|| self.broker_stepped(node.id(), process, &broker));
        }
        for seen in history.take() {
            self.client_saw(&seen);
        }
        self.violation.is_some()
    }

    /// Everything is whole, and was read to its end.
    pub fn whole(&mut self) {
        self.ask(|invariant, facts| invariant.whole(facts));
    }

    /// Whether every partition has at least two replicas in sync whose logs are whole, besides `id`'s or with it:
    /// then what was only in its memory is not gone.
    #[must_use]
    pub fn can_lose_power(&self, id: i32) -> bool {
        self.facts.partitions.values().all(|facts| {
            let isr = facts.state.as_ref().map_or(&[][..], |state| &state.isr);
            !isr.contains(&id) || isr.len() > 1
        }) && self.facts.offsets.values().all(|(_, isr)| !isr.contains(&id) || isr.len() > 1)
    }

    /// Whether an ISR has a member that lost power since it came into it, so that its other members must stay.
    #[must_use]
    pub fn is_anybody_doubtful(&self) -> bool {
        !self.facts.doubtful.is_empty() || !self.facts.doubtful_offsets.is_empty()
    }

    /// `id`'s machine loses power.
    pub fn power_lost(&mut self, id: i32) {
        self.situations.note(Situation::PowerLost);
        let Facts { partitions, doubtful, offsets, doubtful_offsets, .. } = &mut self.facts;
        let holds = offsets.iter().filter(|(_, (_, isr))| isr.contains(&id));
        doubtful_offsets.extend(holds.map(|(&partition, _)| (partition, id)));
        for (&partition, facts) in partitions {
            if facts.state.as_ref().is_some_and(|state| state.isr.contains(&id)) {
                doubtful.insert((partition, id));
            }
        }
        for (&(_, partition), (_, view)) in self.views.range((id, i32::MIN)..=(id, i32::MAX)) {
            if let Some(log) = &view.log {
                self.ends_at_power_loss.insert((id, partition), log.log_end_offset);
            }
        }
    }

    fn ask(&mut self, mut rule: impl FnMut(&mut dyn Invariant, &Facts) -> invariants::Verdict) {
        for invariant in &mut self.invariants {
            if let Err(what) = rule(&mut **invariant, &self.facts) {
                let invariant = invariant.name();
                self.violation.get_or_insert(Violation { invariant, what });
            }
        }
    }

    fn client_saw(&mut self, seen: &Seen) {
        self.ask(|invariant, facts| invariant.seen(facts, seen));
    }

    fn broker_stepped(&mut self, id: i32, process: ProcessId, broker: &SteppedBroker) {
        for partition in 0..self.partitions {
            let name = TopicPartition::new(TOPIC, partition);
            let Some(view) = broker.replica(&name) else { continue };
            let key = (id, name.partition);
            let known = self.views.get(&key).filter(|(own, _)| *own == process);
            if known.is_some_and(|(_, before)| *before == view) {
                continue;
            }
            let before = known.map(|(_, before)| before.clone());
            self.replica_changed(key, before.as_ref(), &view, &name, broker);
            self.views.insert(key, (process, view));
        }
        for partition in 0..self.partitions {
            let Some((leader, leader_epoch, partition_epoch)) = broker.told(TOPIC, partition)
            else {
                continue;
            };
            let told = Told {
                broker: id,
                process,
                partition,
                leader: leader.map_or(-1, |leader| leader.0),
                leader_epoch: leader_epoch.0,
                partition_epoch: partition_epoch.0,
            };
            if self.told.insert((id, partition), told) != Some(told) {
                self.ask(|invariant, facts| invariant.told(facts, &told));
            }
        }
    }

    fn replica_changed(
        &mut self,
        (id, partition): (i32, i32),
        before: Option<&ReplicaView>,
        after: &ReplicaView,
        name: &TopicPartition,
        broker: &SteppedBroker,
    ) {
        if let (Some(Some(old)), Some(new)) = (before.map(|view| &view.log), &after.log)
            && new.log_end_offset < old.log_end_offset
        {
            self.situations.note(Situation::FollowerTruncated);
        }
        if let Some(log) = &after.log {
            if let Some(end) = self.ends_at_power_loss.remove(&(id, partition))
                && log.log_end_offset < end
            {
                self.situations.note(Situation::RecordsLostByPowerFailure);
            }
            if log.epochs.len() > 2 && before.is_none_or(|before| before.log.is_none()) {
                self.situations.note(Situation::LeadersOfManyEpochs);
            }
        }
        if let RoleView::Leader { .. } = after.role
            && before.is_none_or(|before| before.isr != after.isr)
        {
            let sizes = &mut self.facts.partitions.entry(partition).or_default().isr_sizes_led;
            sizes.push((self.facts.now, after.isr.len()));
        }
        let read = |from: i64, to: i64| read(broker, name, from, to);
        if let (RoleView::Leader { .. }, Some(log)) = (after.role, &after.log) {
            let from = self.facts.committed_end(partition);
            if log.high_watermark.0 > from {
                match read(from, log.high_watermark.0) {
                    Some(records) => {
                        self.committed((partition, after.leader_epoch.0), from, records);
                    }
                    None => self.violate(
                        "a leader can read what is committed",
                        format!("broker {id}, partition {partition} from {from}: {log:?}"),
                    ),
                }
            }
        }
        let producers = || broker.producers(name);
        let step = ReplicaStep {
            broker: id,
            partition,
            before,
            after,
            read: &read,
            producers: &producers,
        };
        self.ask(|invariant, facts| invariant.replica(facts, &step));
    }

    fn committed(
        &mut self,
        (partition, leader_epoch): (i32, i32),
        from: i64,
        records: Vec<(i64, LoggedRecord)>,
    ) {
        for (expected, (offset, record)) in (from..).zip(records) {
            if offset != expected {
                let what = format!("partition {partition}: {offset} follows {expected}");
                return self.violate("offsets have no gaps", what);
            }
            self.ask(|invariant, facts| invariant.committed(facts, partition, offset, &record));
            let facts = self.facts.partitions.entry(partition).or_default();
            facts.committed.push(record);
            facts.committed_in.push(leader_epoch);
        }
    }

    fn store_written(&mut self, written: &Written) {
        let (session, op) = match written {
            Written::Made { session, op, .. } => (*session, op),
            Written::Ended(session) => {
                return self.facts.registered.retain(|_, owner| owner != session);
            }
        };
        let (path, data) = match op {
            Op::Create { path, data, .. } | Op::Set { path, data, .. } => (path, data),
            Op::Delete { path, .. } => (path, &None),
            Op::Check { .. } => return,
        };
        let text = || std::str::from_utf8(data.as_deref().unwrap_or_default()).unwrap_or_default();
        let json = || serde_json::from_str::<Value>(text()).unwrap_or_default();
        let topic = format!("/brokers/topics/{TOPIC}");
        let offsets = format!("/brokers/topics/{OFFSETS}");
        if path == "/controller_epoch" {
            let Ok(epoch) = text().parse() else { return };
            self.ask(|invariant, facts| invariant.controller_epoch_written(facts, epoch));
            if epoch > 1 {
                self.situations.note(Situation::ControllerElected);
            }
            self.facts.controller_epoch = epoch;
        } else if let Some(number) = path.strip_prefix(&format!("/barnabas/eligible/{TOPIC}/"))
            && let Ok(partition) = number.parse()
        {
            let facts = self.facts.partitions.entry(partition).or_default();
            let json = json();
            facts.eligible = ids(&json["eligible"]);
            facts.eligible_with = (json["leader_epoch"].as_i64().unwrap_or(-1), ids(&json["isr"]));
        } else if let Some(id) = path.strip_prefix("/brokers/ids/").and_then(|id| id.parse().ok()) {
            match op {
                Op::Delete { .. } => drop(self.facts.registered.remove(&id)),
                Op::Create { .. } => drop(self.facts.registered.insert(id, session)),
                Op::Set { .. } | Op::Check { .. } => {}
            }
        } else if data.is_none() {
            // Other nodes that are deleted say nothing.
        } else if *path == topic {
            let Some(partitions) = json()["partitions"].as_object().cloned() else { return };
            for (number, replicas) in partitions {
                let Ok(partition) = number.parse::<i32>() else { continue };
                self.facts.partitions.entry(partition).or_default().replicas = ids(&replicas);
            }
        } else if *path == offsets {
            let Some(partitions) = json()["partitions"].as_object().cloned() else { return };
            for (number, replicas) in partitions {
                let Ok(partition) = number.parse::<i32>() else { continue };
                self.facts.offsets.entry(partition).or_default().0 = ids(&replicas);
            }
        } else if let Some(partition) = partition_of(path, &offsets) {
            let isr = ids(&json()["isr"]);
            let doubtful = &mut self.facts.doubtful_offsets;
            doubtful.retain(|(of, id)| *of != partition || isr.contains(id));
            self.facts.offsets.entry(partition).or_default().1 = isr;
        } else if let Some(partition) = partition_of(path, &topic) {
            let json = json();
            let number = |field: &str| json[field].as_i64().unwrap_or(i64::MIN);
            let state = PartitionState {
                controller_epoch: number("controller_epoch"),
                leader: i32::try_from(number("leader")).unwrap_or(i32::MIN),
                leader_epoch: number("leader_epoch"),
                isr: ids(&json["isr"]),
            };
            self.state_written(partition, state);
        }
    }

    fn state_written(&mut self, partition: i32, state: PartitionState) {
        self.ask(|invariant, facts| invariant.state_written(facts, partition, &state));
        let now = self.facts.now;
        let PartitionState { leader, leader_epoch, isr, controller_epoch } = &state;
        self.trace.event(now, &format!("partition {partition}: leader {leader}, epoch {leader_epoch}, ISR {isr:?}, by controller epoch {controller_epoch}"));
        let facts = self.facts.partitions.entry(partition).or_default();
        if let Some(known) = &facts.state {
            if known.leader != state.leader && state.leader != -1 {
                self.situations.note(Situation::LeaderElected);
            }
            if state.leader == -1 {
                self.situations.note(Situation::PartitionWithoutLeader);
            }
            if state.leader != -1 && !known.isr.contains(&state.leader) {
                self.situations.note(Situation::LedByList);
            }
            if state.isr.len() < self.facts.min_insync {
                self.situations.note(Situation::IsrBelowMinimum);
            }
            if state.isr.len() < known.isr.len() {
                self.situations.note(Situation::IsrShrank);
            }
            if state.isr.len() > known.isr.len() {
                self.situations.note(Situation::IsrGrew);
            }
        }
        self.facts.doubtful.retain(|(of, id)| *of != partition || state.isr.contains(id));
        facts.isr_sizes.push((now, state.isr.len()));
        facts.state = Some(state);
    }
}

/// Of the node of which partition's state this is the path.
fn partition_of(path: &str, topic: &str) -> Option<i32> {
    path.strip_prefix(topic)?.strip_prefix("/partitions/")?.strip_suffix("/state")?.parse().ok()
}

fn ids(value: &Value) -> Vec<i32> {
    let all = value.as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter_map(|id| i32::try_from(id.as_i64()?).ok()).collect()
}

fn read(
    broker: &SteppedBroker,
    name: &TopicPartition,
    from: i64,
    to: i64,
) -> Option<Vec<(i64, LoggedRecord)>> {
    let (mut found, mut next) = (Vec::new(), from);
    while next < to {
        let bytes = broker.batches(name, Offset(next), Offset(to), PIECE)?;
        // What does not fit is cut off; it begins the next piece.
        let whole = protocol::records::Batches::new(&bytes);
        let end =
            whole.clone().filter_map(Result::ok).map(|b| b.position() + b.bytes().len()).last();
        let piece = records(&bytes[..end.unwrap_or_default()], next, to);
        next = piece.last()?.0 + 1;
        found.extend(piece);
    }
    Some(found)
}
