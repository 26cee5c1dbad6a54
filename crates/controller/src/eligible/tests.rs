//! The rules one by one, and a cluster in small that takes random steps: whoever is elected without saying that it may lose
//! records has all that was committed. Each rule that is left out is missed.

use super::*;
use crate::context::{Standing, State, repaired};
use crate::znodes::StateNode;
use model::{ControllerEpoch, LeaderEpoch, PartitionEpoch};
use platform::Random;
use platform::random::SeededRandom;

fn ids(raw: &[i32]) -> Vec<BrokerId> {
    raw.iter().copied().map(BrokerId).collect()
}

fn state(leader: i32, isr: &[i32]) -> StateNode {
    StateNode {
        leader: Some(BrokerId(leader)).filter(|id| id.0 > 0),
        leader_epoch: LeaderEpoch(7),
        isr: ids(isr),
        controller_epoch: ControllerEpoch(1),
        recovering: false,
    }
}

const SETTINGS: Stamps = [5, 0, 0];

fn list(members: &[i32], leader: i32) -> Option<Eligible> {
    let (members, leader) = (ids(members), BrokerId(leader));
    (!members.is_empty()).then_some(Eligible { members, leader, settings: SETTINGS })
}

/// A partition of brokers 1, 2 and 3.
fn partition(leader: i32, isr: &[i32], listed: &[i32]) -> Partition {
    let state = State { node: state(leader, isr), partition_epoch: PartitionEpoch(0) };
    let mut partition = Partition::assigned(ids(&[1, 2, 3]));
    (partition.state, partition.eligible) = (Some(state), list(listed, 1));
    partition
}

fn minimum(min_insync_replicas: usize) -> Option<LeaderMinimum> {
    Some(LeaderMinimum { min_insync_replicas, settings: SETTINGS, is_applied: true })
}

fn after(partition: &Partition, node: &StateNode, min: usize) -> Vec<i32> {
    let list = eligible_after(partition, node, |_| true, true, minimum(min));
    list.map_or(Vec::new(), |list| list.members.iter().map(|id| id.0).collect())
}

#[test]
fn who_leaves_an_isr_that_becomes_smaller_than_its_minimum_is_eligible() {
    let full = partition(1, &[1, 2, 3], &[]);
    assert_eq!(after(&full, &state(1, &[1, 3]), 2), [0; 0], "two are enough");
    assert_eq!(after(&full, &state(1, &[1]), 2), [2, 3]);
    assert_eq!(after(&full, &state(1, &[1]), 1), [0; 0]);
    assert_eq!(after(&full, &state(1, &[1, 3]), 7), [2], "never more than there are replicas");
    let two = partition(1, &[1, 3], &[]);
    assert_eq!(after(&two, &state(1, &[1]), 2), [3], "2 left when two were enough");
    assert_eq!(after(&partition(1, &[1], &[3]), &state(1, &[1, 2]), 2), [0; 0], "enough again");
    assert_eq!(after(&partition(1, &[1, 2], &[3]), &state(1, &[1]), 3), [2, 3], "both hold it");
}

#[test]
fn a_list_goes_on_while_nobody_leads_and_with_the_next_leader() {
    let alone = partition(1, &[1], &[2, 3]);
    assert_eq!(after(&alone, &state(-1, &[1]), 2), [2, 3]);
    assert_eq!(after(&alone, &state(3, &[3]), 2), [1, 2], "who led holds what was committed");
    let mut last_resort = state(1, &[1]);
    last_resort.recovering = true;
    assert_eq!(after(&alone, &last_resort, 2), [0; 0], "it may have lost some of it");
    let unknown = eligible_after(&alone, &state(1, &[1]), |_| true, true, None);
    assert_eq!(unknown, None, "nobody knows what the leader goes by");
}

#[test]
fn who_may_lack_records_or_is_no_replica_is_not_eligible() {
    let full = partition(1, &[1, 2, 3], &[]);
    let doubtful = |id| id != BrokerId(2);
    let list = eligible_after(&full, &state(1, &[1]), doubtful, true, minimum(3)).unwrap();
    assert_eq!(list.members, ids(&[3]));
    let mut moving = full.clone();
    moving.removing = ids(&[3]);
    assert_eq!(after(&moving, &state(1, &[1]), 2), [2]);
    assert_eq!(after(&moving, &state(1, &[1, 2]), 3), [0; 0], "two will be enough");
}

#[test]
fn a_list_counts_only_while_its_settings_do_and_its_leader_goes_by_them() {
    let alone = partition(1, &[1], &[2]);
    let same = state(1, &[1]);
    let is_kept = |stands, minimum| eligible_after(&alone, &same, |_| true, stands, minimum);
    assert!(is_kept(true, minimum(2)).is_some());
    assert!(is_kept(false, minimum(2)).is_none(), "the minimum was another one in between");
    let unheard = minimum(2).map(|minimum| LeaderMinimum { is_applied: false, ..minimum });
    assert!(is_kept(true, unheard).is_some(), "it has said so before");
    let next = eligible_after(&alone, &state(2, &[2]), |_| true, true, unheard);
    assert!(next.is_none(), "the next leader has not");
    let full = partition(1, &[1, 2, 3], &[]);
    assert!(eligible_after(&full, &same, |_| true, false, unheard).is_none());
}

#[test]
#[should_panic(expected = "nothing says that it can")]
fn a_stranger_is_never_elected_without_saying_so() {
    is_elected_by_list(&partition(1, &[1], &[2]), &state(3, &[3]));
}

/// A rule that a world goes without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// The high watermark moves while the ISR is below the minimum.
    Minimum,
    /// Lists are made by settings that the leader may not have heard of.
    Applied,
    /// Lists outlive the settings that they follow from.
    Stamps,
    /// Whoever lost power stays eligible.
    Doubt,
}

#[derive(Clone, Default)]
struct Broker {
    is_live: bool,
    is_doubtful: bool,
    log: Vec<u32>,
    /// The minimum that it goes by, and up to which change it has heard of settings.
    min: usize,
    changes: i64,
}

/// A leader that has heard that it leads, and of that ISR.
struct Office {
    leader: usize,
    leader_epoch: LeaderEpoch,
    partition_epoch: PartitionEpoch,
    /// With whoever is being added.
    maximal_isr: Vec<BrokerId>,
    /// How many of it are committed.
    isr_len: usize,
    start: usize,
    high_watermark: usize,
    known: [usize; 3],
}

struct World {
    without: Without,
    random: SeededRandom,
    brokers: [Broker; 3],
    partition: Partition,
    office: Option<Office>,
    /// `min.insync.replicas` of the store, and the change that wrote it.
    min: usize,
    changed: i64,
    committed: Vec<u32>,
    records: u32,
    elected_by_list: u32,
    /// What was lost.
    loss: Option<String>,
}

fn index(id: BrokerId) -> usize {
    usize::try_from(id.0 - 1).unwrap()
}

impl World {
    fn new(seed: u64, without: Without) -> Self {
        let live = Broker { is_live: true, min: 2, changes: 1, ..Broker::default() };
        let mut world = Self {
            without,
            random: SeededRandom::new(seed),
            brokers: [live.clone(), live.clone(), live],
            partition: partition(1, &[1, 2, 3], &[]),
            office: None,
            min: 2,
            changed: 1,
            committed: Vec::new(),
            records: 0,
            elected_by_list: 0,
            loss: None,
        };
        world.hear();
        world
    }

    fn below(&self, bound: u64) -> usize {
        usize::try_from(self.random.below(bound)).unwrap()
    }

    fn state(&self) -> &State {
        self.partition.state.as_ref().unwrap()
    }

    /// The leader of the store's state hears of it, if it lives.
    fn hear(&mut self) {
        let state = self.state().clone();
        let Some(leader) = state.node.leader.map(index).filter(|&id| self.brokers[id].is_live)
        else {
            return;
        };
        let log_end = self.brokers[leader].log.len();
        let previous = self.office.take().filter(|office| office.leader == leader);
        let is_new = previous.as_ref().is_none_or(|o| o.leader_epoch != state.node.leader_epoch);
        let mut known = [0; 3];
        if let (Some(office), false) = (&previous, is_new) {
            known = office.known;
        }
        self.office = Some(Office {
            leader,
            leader_epoch: state.node.leader_epoch,
            partition_epoch: state.partition_epoch,
            isr_len: state.node.isr.len(),
            maximal_isr: state.node.isr,
            start: previous.as_ref().filter(|_| !is_new).map_or(log_end, |office| office.start),
            high_watermark: previous.map_or(0, |office| office.high_watermark),
            known,
        });
    }

    fn may_lead(&self, id: BrokerId) -> bool {
        self.without == Without::Doubt || !self.brokers[index(id)].is_doubtful
    }

    fn stands(&self) -> bool {
        let stamp = [self.changed, 0, 0];
        let list = self.partition.eligible.as_ref();
        list.is_some_and(|list| self.without == Without::Stamps || list.settings == stamp)
    }

    /// The controller writes a state with the list that goes with it.
    fn write(&mut self, after: StateNode) {
        let minimum = after.leader.map(|leader| LeaderMinimum {
            min_insync_replicas: self.min,
            settings: [self.changed, 0, 0],
            is_applied: self.without == Without::Applied
                || self.brokers[index(leader)].changes >= self.changed,
        });
        let list =
            eligible_after(&self.partition, &after, |id| self.may_lead(id), self.stands(), minimum);
        let before = self.state().node.clone();
        let elected = after.leader.filter(|_| after.leader != before.leader || after.recovering);
        if let Some(leader) = elected {
            let log = &self.brokers[index(leader)].log;
            if after.recovering {
                let same = self.committed.iter().zip(log).take_while(|(a, b)| a == b).count();
                self.committed.truncate(same);
            }
            self.elected_by_list +=
                u32::from(is_elected_by_list(&self.partition, &after) && !after.recovering);
            if !log.starts_with(&self.committed) {
                let of = (&self.committed, &self.partition);
                self.loss = Some(format!("{leader} is elected with {log:?}: {of:?}"));
            }
        }
        let partition_epoch = PartitionEpoch(self.state().partition_epoch.0 + 1);
        self.partition.eligible = list;
        self.partition.state = Some(State { node: after, partition_epoch });
        let node = self.state().node.clone();
        for (id, broker) in (1..).map(BrokerId).zip(&mut self.brokers) {
            broker.is_doubtful &= node.isr.contains(&id) && node.leader != Some(id);
        }
    }

    fn repair(&mut self) {
        if !self.stands() {
            self.partition.eligible = None;
        }
        let standing = |id| {
            let broker = &self.brokers[index(id)];
            match (broker.is_live, broker.is_doubtful) {
                (false, _) => Standing::Away,
                (true, true) => Standing::Doubtful,
                (true, false) => Standing::Online,
            }
        };
        let longest = |doubtful: &[BrokerId], others_may_return: bool| {
            let end = |id: &BrokerId| self.brokers[index(*id)].log.len();
            doubtful.iter().copied().max_by_key(end).filter(|_| !others_may_return)
        };
        let after = repaired(&self.partition, standing, longest, false, ControllerEpoch(1));
        if let Some(after) = after {
            self.write(after);
        }
    }

    fn step(&mut self) {
        let id = self.below(3);
        let broker = BrokerId(i32::try_from(id).unwrap() + 1);
        match self.below(14) {
            0 | 1 => {
                if let Some(office) = &self.office {
                    self.records += 1;
                    self.brokers[office.leader].log.push(self.records);
                }
            }
            2..=4 => self.fetch(id),
            5 | 6 => self.advance(),
            7 => self.propose(broker, false),
            8 => self.propose(broker, true),
            9 => self.hear(),
            10 => {
                if self.below(2) == 0 {
                    self.changed += 1;
                    self.min = self.below(3) + 1;
                }
            }
            11 => (self.brokers[id].min, self.brokers[id].changes) = (self.min, self.changed),
            _ if !self.brokers[id].is_live => {
                self.brokers[id].is_live = true;
                if self.below(2) == 0 {
                    let kept = self.below(self.brokers[id].log.len() as u64 + 1);
                    self.brokers[id].log.truncate(kept);
                    self.brokers[id].is_doubtful = self.state().node.isr.contains(&broker);
                    if let Some(list) =
                        self.partition.eligible.as_mut().filter(|_| self.without != Without::Doubt)
                    {
                        list.members.retain(|member| *member != broker);
                    }
                    self.partition.eligible.take_if(|list| list.members.is_empty());
                }
                self.repair();
            }
            _ => {
                self.brokers[id].is_live = false;
                self.office.take_if(|office| office.leader == id);
                // What it fetches after a restart counts anew.
                if let Some(office) = &mut self.office {
                    office.known[id] = 0;
                }
                self.repair();
            }
        }
    }

    /// A follower takes one record, after cutting what its leader does not have.
    fn fetch(&mut self, follower: usize) {
        let Some(office) = &mut self.office else { return };
        let is_current =
            self.partition.state.as_ref().unwrap().node.leader_epoch == office.leader_epoch;
        if follower == office.leader || !self.brokers[follower].is_live || !is_current {
            return;
        }
        let leader = self.brokers[office.leader].log.clone();
        let log = &mut self.brokers[follower].log;
        let same = log.iter().zip(&leader).take_while(|(a, b)| a == b).count();
        log.truncate(same);
        office.known[follower] = same;
        log.extend(leader.get(same));
    }

    fn advance(&mut self) {
        let Some(office) = &mut self.office else { return };
        let leader = &self.brokers[office.leader];
        if office.isr_len < leader.min && self.without != Without::Minimum {
            return;
        }
        let members = office.maximal_isr.iter().map(|&id| index(id));
        let followers = members.filter(|&id| id != office.leader);
        let end = followers.map(|id| office.known[id]).min().unwrap_or(usize::MAX);
        let end = end.min(leader.log.len());
        office.high_watermark = office.high_watermark.max(end);
        if office.high_watermark > self.committed.len() {
            self.committed = leader.log[..office.high_watermark].to_vec();
        }
    }

    /// The leader has the controller take `broker` into the ISR, or out.
    fn propose(&mut self, broker: BrokerId, joins: bool) {
        let Some(office) = &mut self.office else { return };
        let state = self.partition.state.as_ref().unwrap();
        let is_known = (office.leader_epoch, office.partition_epoch)
            == (state.node.leader_epoch, state.partition_epoch);
        let follower = index(broker);
        if !is_known || follower == office.leader || joins == office.maximal_isr.contains(&broker) {
            return;
        }
        let mut after = state.node.clone();
        after.recovering = false;
        if joins {
            let has_all = office.known[follower] >= office.start.max(office.high_watermark);
            if !has_all || !self.brokers[follower].is_live {
                return;
            }
            after.isr.push(broker);
            office.maximal_isr.push(broker);
        } else {
            after.isr.retain(|member| *member != broker);
        }
        self.write(after);
    }
}

/// What the first of so many worlds loses that loses a committed record, and how many leaders were elected by lists.
fn lost(worlds: u64, without: Without) -> (Option<String>, u32) {
    let mut by_list = 0;
    for seed in 0..worlds {
        let mut world = World::new(seed, without);
        for _ in 0..300 {
            world.step();
            if let Some(loss) = world.loss {
                return (Some(format!("seed {seed}: {loss}")), by_list);
            }
        }
        by_list += world.elected_by_list;
    }
    (None, by_list)
}

#[test]
fn whoever_is_elected_without_loss_has_all_that_was_committed() {
    let (loss, by_list) = lost(3000, Without::Nothing);
    assert_eq!(loss, None);
    assert!(by_list > 500, "only {by_list} elections were of interest");
    for without in [Without::Minimum, Without::Applied, Without::Stamps, Without::Doubt] {
        assert!(lost(30_000, without).0.is_some(), "{without:?} is not missed");
    }
}
