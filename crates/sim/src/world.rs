//! One run: a cluster and its clients, faults, and a time in which everything must heal.

use crate::clients::{self, ClientContext};
use crate::faults::{Fault, STORE};
use crate::history::History;
use crate::network::{HostId, Network};
use crate::node::{Node, Surroundings};
use crate::oracle::{Oracle, Violation};
use crate::plan::{Plan, TOPIC};
use crate::scheduler::{Ended, ProcessId, Scheduler};
use crate::situations::{Situation, Situations};
use crate::store::StoreServer;
use crate::trace::Trace;
use parking_lot::Mutex;
use platform::Random;
use platform::random::SeededRandom;
use protocol::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where the first client is.
const FIRST_CLIENT: u8 = 200;
/// The number of the first consumer among the clients.
const FIRST_CONSUMER: u8 = 20;
/// The number of the group's first member.
const FIRST_MEMBER: u8 = 30;
/// Everything must be there so soon after the beginning.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Producers go on so long after the last fault.
const CALM: Duration = Duration::from_secs(10);
/// Everything must be whole so soon after that.
const HEAL_WITHIN: Duration = Duration::from_secs(120);
/// The last client must have read everything so soon after that.
const AUDIT_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether things are as they should be.
const LOOK: Duration = Duration::from_millis(500);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule that was broken, if one was.
    pub violation: Option<Violation>,
    /// What came about.
    pub situations: Situations,
    /// The same for the same seed and code.
    pub hash: u64,
    /// Steps of tasks.
    pub steps: u64,
    /// How long it was, in virtual time.
    pub elapsed: Duration,
    /// Records that were committed.
    pub committed: u64,
    /// Batches that were acknowledged.
    pub acked: u64,
    /// Commits of group members that were acknowledged.
    pub group_commits: u64,
    /// Answers that were errors, by code.
    pub refused: BTreeMap<i16, u64>,
    /// Requests without an answer.
    pub unknown: u64,
    /// Faults that there were.
    pub faults: u64,
    /// The last events.
    pub last: Vec<String>,
}

/// Runs what `plan` says.
///
/// # Panics
/// If a broker or the simulator does: an invariant of theirs is broken.
#[must_use]
pub fn run(plan: Plan, trace: &Trace) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    runtime.block_on(async {
        let mut world = World::new(plan, trace.clone());
        world.live().await;
        world.end()
    })
}

/// What is to be done at some time.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Fault(usize),
    Look,
    Start(HostId),
    Resume(HostId),
    Mend(HostId, HostId),
    UsualDelays,
    RightClock(HostId),
    RightDisk(HostId),
    Expire(HostId),
    CatchUp(HostId),
}

struct World {
    surroundings: Surroundings,
    random: SeededRandom,
    nodes: Vec<Node>,
    history: History,
    oracle: Oracle,
    trace: Trace,
    agenda: BTreeMap<(Duration, u64), Deed>,
    deeds: u64,
    faults: u64,
}

impl World {
    fn new(plan: Plan, trace: Trace) -> Self {
        let scheduler = Scheduler::new(plan.seed ^ 0x7363_6865, trace.clone());
        let network = Network::new(scheduler.clone(), plan.seed ^ 0x6e65_7477, plan.delays);
        let store = StoreServer::start(&scheduler, &network, STORE, plan.session_timeout);
        let plan = Arc::new(plan);
        let surroundings = Surroundings { scheduler, network, store, plan: Arc::clone(&plan) };
        let hosts = (1..=plan.brokers).map(HostId);
        let nodes = hosts.map(|host| Node::new(host, &surroundings)).collect();
        Self {
            surroundings,
            random: SeededRandom::new(plan.seed ^ 0x6661_756c),
            nodes,
            history: History::default(),
            oracle: Oracle::new(&plan, trace.clone()),
            trace,
            agenda: BTreeMap::new(),
            deeds: 0,
            faults: 0,
        }
    }

    async fn live(&mut self) {
        self.say(&format!("seed {}: {}", self.plan().seed, self.plan()));
        for at in 0..self.nodes.len() {
            self.start(at);
        }
        let replicas = self.plan().replicas;
        let admin = self.surroundings.scheduler.process();
        let creating = clients::create_topic(self.client(0), replicas);
        self.surroundings.scheduler.spawn(admin, creating);
        self.later(LOOK, Deed::Look);
        if !self.becomes_whole("the cluster starts", START_WITHIN).await {
            return;
        }
        self.start_clients();
        self.say("clients begin");
        let end = self.now() + self.plan().fault_span;
        self.plan_faults();
        if !self.run_until(end).await {
            return;
        }
        self.heal();
        if !self.run_until(self.now() + CALM).await {
            return;
        }
        self.history.produce(false);
        if !self.becomes_whole("the cluster heals", HEAL_WITHIN).await {
            return;
        }
        self.audit().await;
    }

    fn end(mut self) -> Outcome {
        for node in &mut self.nodes {
            node.kill(&self.surroundings);
        }
        let counts = self.history.counts();
        let situations = &mut self.oracle.situations;
        let refused =
            |code: ErrorCode| counts.refused.get(&code.code()).copied().unwrap_or_default();
        situations.add(Situation::NotEnoughReplicas, refused(ErrorCode::NotEnoughReplicas));
        situations.add(Situation::GroupCommitted, counts.committed);
        let ousted = [ErrorCode::IllegalGeneration, ErrorCode::UnknownMemberId];
        situations.add(Situation::MemberOusted, ousted.into_iter().map(refused).sum());
        let moved = [ErrorCode::NotCoordinator, ErrorCode::CoordinatorLoadInProgress];
        situations.add(Situation::CoordinatorMoved, moved.into_iter().map(refused).sum());
        situations.add(Situation::StorageFailed, refused(ErrorCode::KafkaStorageError));
        situations.add(Situation::NotLeader, refused(ErrorCode::NotLeaderOrFollower));
        situations.add(Situation::AnswerLost, counts.unknown);
        situations.add(Situation::SentAgain, counts.repeated);
        situations.add(Situation::WriteUnanswered, self.surroundings.store.unanswered());
        situations.add(Situation::StaleRead, self.surroundings.store.stale());
        situations.add(Situation::SessionExpired, self.surroundings.store.expired());
        let committed = self.oracle.facts.partitions.values().map(|p| p.committed.len() as u64);
        Outcome {
            committed: committed.sum(),
            refused: counts.refused.clone(),
            unknown: counts.unknown,
            group_commits: counts.committed,
            violation: self.oracle.violation().cloned(),
            situations: self.oracle.situations.clone(),
            hash: self.trace.hash(),
            steps: self.surroundings.scheduler.steps(),
            elapsed: self.now(),
            acked: counts.acked,
            faults: self.faults,
            last: self.trace.last(),
        }
    }

    fn plan(&self) -> &Plan {
        &self.surroundings.plan
    }

    fn now(&self) -> Duration {
        self.surroundings.scheduler.elapsed()
    }

    fn node(&self, host: HostId) -> &Node {
        &self.nodes[index(host)]
    }

    fn say(&self, what: &str) {
        self.trace.event(self.now(), what);
    }

    /// A time between two, in milliseconds.
    fn between(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.random.below(most - least + 1))
    }

    fn later(&mut self, delay: Duration, deed: Deed) {
        self.deeds += 1;
        self.agenda.insert((self.now() + delay, self.deeds), deed);
    }

    fn client(&self, number: u8) -> ClientContext {
        let seed = self.plan().seed ^ 0x636c_6965 ^ (u64::from(number) << 48);
        ClientContext {
            host: HostId(FIRST_CLIENT + number),
            network: self.surroundings.network.clone(),
            brokers: self.plan().brokers,
            partitions: u64::try_from(self.plan().partitions).expect("some"),
            scheduler: self.surroundings.scheduler.clone(),
            random: Arc::new(SeededRandom::new(seed)),
            history: self.history.clone(),
        }
    }

    fn start_clients(&mut self) {
        self.history.produce(true);
        for settings in self.plan().producers.clone() {
            self.say(&format!("{settings:?}"));
            let process = self.surroundings.scheduler.process();
            let number = u8::try_from(settings.number).expect("few");
            let producing = clients::produce(self.client(number), settings);
            self.surroundings.scheduler.spawn(process, producing);
        }
        let (members, fixed) = self.plan().members;
        for number in 0..members {
            let process = self.surroundings.scheduler.process();
            self.history.membership(number, None);
            let context = self.client(FIRST_MEMBER + number);
            let being = clients::be_member(context, number, number < fixed);
            self.surroundings.scheduler.spawn(process, being);
        }
        for number in 0..self.plan().consumers {
            let process = self.surroundings.scheduler.process();
            let consuming = clients::consume(self.client(FIRST_CONSUMER + number));
            self.surroundings.scheduler.spawn(process, consuming);
        }
    }

    // ---- time ----

    /// Whether no rule was broken before `end`.
    async fn run_until(&mut self, end: Duration) -> bool {
        loop {
            let due = self.agenda.first_key_value().map(|(&(at, _), _)| at).filter(|at| *at < end);
            let until = due.unwrap_or(end);
            if !self.run_for(until.saturating_sub(self.now())).await {
                return false;
            }
            if due.is_none() {
                return true;
            }
            if let Some((_, deed)) = self.agenda.pop_first() {
                self.perform(deed);
            }
        }
    }

    async fn run_for(&mut self, span: Duration) -> bool {
        let Self { surroundings, nodes, history, oracle, .. } = self;
        let (scheduler, store) = (surroundings.scheduler.clone(), surroundings.store.clone());
        let clock = scheduler.clone();
        let observe = |process: ProcessId| {
            if let Some(node) = nodes.iter_mut().find(|node| node.process() == Some(process)) {
                node.wait_for_disk(&clock);
            }
            oracle.observe(clock.elapsed(), process, nodes, &store, history)
        };
        let ended = scheduler.run(span, observe).await;
        if let Some(violation) = self.oracle.violation() {
            self.say(&format!("BROKEN {}: {}", violation.invariant, violation.what));
        }
        ended == Ended::InTime && self.oracle.violation().is_none()
    }

    /// L1: in the absence of faults everything is whole within a bound.
    async fn becomes_whole(&mut self, what: &'static str, within: Duration) -> bool {
        let deadline = self.now() + within;
        loop {
            let Some(missing) = self.missing() else {
                self.say(&format!("{what}: done"));
                return true;
            };
            if self.now() >= deadline {
                self.oracle
                    .violate("L1: without faults everything heals", format!("{what}: {missing}"));
                self.say(&format!("BROKEN L1: {what}: {missing}"));
                return false;
            }
            if !self.run_until(self.now() + LOOK).await {
                return false;
            }
        }
    }

    /// What is not whole.
    fn missing(&self) -> Option<String> {
        for node in &self.nodes {
            if !node.broker().is_some_and(|broker| broker.is_ready()) {
                return Some(format!("broker {} is not ready", node.id()));
            }
        }
        let partitions = &self.oracle.facts.partitions;
        if partitions.len() != usize::try_from(self.plan().partitions).expect("some") {
            return Some("the topic is not there".to_owned());
        }
        let mut views = BTreeMap::new();
        for node in &self.nodes {
            for (name, view) in node.broker().map(|broker| broker.replicas()).unwrap_or_default() {
                views.insert((name.partition, node.id()), view);
            }
        }
        for (partition, facts) in partitions {
            let Some(state) = &facts.state else {
                return Some(format!("partition {partition} has no state"));
            };
            if state.leader == -1 || state.isr.len() != facts.replicas.len() {
                let whole = views.range((*partition, i32::MIN)..=(*partition, i32::MAX));
                let whole: Vec<_> = whole.map(|((_, id), view)| (id, view)).collect();
                return Some(format!("partition {partition}: {state:?}, replicas {whole:?}"));
            }
            for node in &self.nodes {
                let told = node.broker().and_then(|broker| broker.told(TOPIC, *partition));
                let is_told = told.is_some_and(|(leader, epoch, _)| {
                    leader.is_some_and(|leader| leader.0 == state.leader)
                        && i64::from(epoch.0) == state.leader_epoch
                });
                if !is_told {
                    let id = node.id();
                    return Some(format!(
                        "partition {partition}: {state:?}, and broker {id} tells {told:?}"
                    ));
                }
            }
            let end = self.oracle.facts.committed_end(*partition);
            for replica in &facts.replicas {
                let view = views.get(&(*partition, *replica));
                let log = view.and_then(|view| view.log.as_ref());
                // A leader that nobody needed has not opened its log: it is empty then.
                let is_whole = log.map_or(end == 0, |log| {
                    log.log_end_offset.0 == end && log.high_watermark.0 == end
                });
                if !is_whole {
                    return Some(format!(
                        "partition {partition}, broker {replica}: committed up to {end}, {view:?}"
                    ));
                }
            }
        }
        self.missing_of_the_group()
    }

    /// G4: every partition has an owner, all of one generation.
    fn missing_of_the_group(&self) -> Option<String> {
        for (partition, (replicas, isr)) in &self.oracle.facts.offsets {
            if isr.len() != replicas.len() {
                return Some(format!("offsets of groups, partition {partition}: ISR {isr:?}"));
            }
        }
        let shares = self.history.shares();
        if shares.is_empty() {
            return None;
        }
        let mut owned: Vec<i32> =
            shares.values().flatten().flat_map(|(_, all)| all.clone()).collect();
        owned.sort_unstable();
        let mut generations = shares.values().map(|share| share.as_ref().map(|share| share.0));
        let first = generations.next().flatten();
        let is_whole = first.is_some()
            && generations.all(|other| other == first)
            && owned == (0..self.plan().partitions).collect::<Vec<_>>();
        (!is_whole).then(|| format!("the group's members have {shares:?}"))
    }

    async fn audit(&mut self) {
        let partitions = self.oracle.facts.partitions.keys();
        let ends = partitions.map(|&p| (p, self.oracle.facts.committed_end(p))).collect();
        let is_done = Arc::new(Mutex::new(false));
        let process = self.surroundings.scheduler.process();
        let auditing = clients::audit(self.client(50), ends, Arc::clone(&is_done));
        self.surroundings.scheduler.spawn(process, auditing);
        let deadline = self.now() + AUDIT_WITHIN;
        while !*is_done.lock() {
            if self.now() >= deadline {
                let what = "what is committed cannot be read to its end".to_owned();
                return self.oracle.violate("L1: without faults everything heals", what);
            }
            if !self.run_until(self.now() + LOOK).await {
                return;
            }
        }
        self.oracle.whole();
        self.say("all is whole");
    }

    // ---- faults ----

    fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Fault(at) => self.fault(at),
            Deed::Look => {
                self.look_after_processes();
                self.later(LOOK, Deed::Look);
            }
            Deed::Start(host) => {
                let at = index(host);
                if self.nodes[at].process().is_none() {
                    self.surroundings.network.power_on(host);
                    self.start(at);
                }
            }
            Deed::Resume(host) => {
                let node = &mut self.nodes[index(host)];
                node.resume(&self.surroundings.scheduler);
                self.say(&format!("broker {} goes on", host.0));
            }
            Deed::Mend(from, to) => self.surroundings.network.mend(from, to),
            Deed::UsualDelays => {
                self.surroundings.network.set_delays(self.surroundings.plan.delays);
            }
            Deed::RightClock(host) => self.nodes[index(host)].clock.set_right(),
            Deed::RightDisk(host) => self.nodes[index(host)].mend_disk(),
            Deed::CatchUp(host) => self.surroundings.store.lag(host, Duration::ZERO),
            Deed::Expire(host) => self.surroundings.store.expire(host),
        }
    }

    fn start(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.start(&self.surroundings);
        let (id, process) = (node.id(), node.process());
        self.say(&format!("broker {id} starts as {process:?}"));
    }

    /// A supervisor starts again what has ended.
    fn look_after_processes(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            let Some(why) = node.has_ended() else { continue };
            if why == "stopped" {
                self.oracle.situations.note(Situation::StoppedCleanly);
            }
            node.kill(&self.surroundings);
            let (id, host) = (node.id(), node.host);
            self.say(&format!("broker {id} has ended: {why}"));
            let pause = self.between(100, 5_000);
            self.later(pause, Deed::Start(host));
        }
    }

    fn plan_faults(&mut self) {
        for at in 0..self.plan().faults.len() {
            let due = self.plan().faults[at].at;
            self.later(due, Deed::Fault(at));
        }
    }

    fn fault(&mut self, at: usize) {
        let planned = self.plan().faults[at].clone();
        if self.can_do(&planned.fault) {
            self.faults += 1;
            self.say(&format!("fault {}: {}", planned.number, planned.fault));
            self.do_wrong(planned.fault);
        }
    }

    fn can_do(&self, fault: &Fault) -> bool {
        // An ISR of which one member lost power must not lose the others: whoever is left in it leads, and what was
        // only in its memory is gone (lists of eligible leaders, KIP-966, would keep it).
        if self.oracle.is_anybody_doubtful() && fault.kind().disturbs_isrs() {
            return false;
        }
        match fault {
            Fault::Kill(host, _) => self.node(*host).process().is_some(),
            Fault::Stop(host) | Fault::Pause(host, _) => {
                self.node(*host).process().is_some() && !self.node(*host).is_paused()
            }
            Fault::PowerFailure(host, ..) => {
                self.node(*host).process().is_some()
                    && self.is_undisturbed()
                    && self.oracle.can_lose_power(host.0.into())
            }
            Fault::DiskFull(host, ..)
            | Fault::DiskFails(host, _)
            | Fault::WriteFails(host, _)
            | Fault::SlowDisk(host, ..) => self.node(*host).process().is_some(),
            Fault::Cut(..)
            | Fault::Resets(_)
            | Fault::Expiry(_)
            | Fault::Expiries(..)
            | Fault::LostReplies(..)
            | Fault::StaleStore(..)
            | Fault::SlowNetwork(..)
            | Fault::ClockJump(..) => true,
        }
    }

    fn do_wrong(&mut self, fault: Fault) {
        let Self { surroundings, nodes, .. } = self;
        match fault {
            Fault::Kill(host, pause) => {
                nodes[index(host)].kill(surroundings);
                self.later(pause, Deed::Start(host));
            }
            Fault::Stop(host) => nodes[index(host)].begin_stop(&surroundings.scheduler),
            Fault::PowerFailure(host, pause, seed) => {
                self.oracle.power_lost(host.0.into());
                nodes[index(host)].lose_power(surroundings, seed);
                self.later(pause, Deed::Start(host));
            }
            Fault::Pause(host, pause) => {
                nodes[index(host)].pause(&surroundings.scheduler);
                self.later(pause, Deed::Resume(host));
            }
            Fault::Cut(_, links, pause) => {
                for (from, to) in links {
                    self.surroundings.network.cut(from, to);
                    self.later(pause, Deed::Mend(from, to));
                }
            }
            Fault::Resets(count) => {
                (0..count).for_each(|_| _ = surroundings.network.reset_one());
            }
            Fault::Expiry(host) => surroundings.store.expire(host),
            Fault::Expiries(host, pause, next) => {
                surroundings.store.expire(host);
                self.later(pause, Deed::Expire(next));
            }
            Fault::StaleStore(host, lag, pause) => {
                surroundings.store.lag(host, lag);
                self.later(pause, Deed::CatchUp(host));
            }
            Fault::LostReplies(host, count) => surroundings.store.lose_replies(host, count),
            Fault::SlowNetwork(delays, pause) => {
                surroundings.network.set_delays(delays);
                self.later(pause, Deed::UsualDelays);
            }
            Fault::ClockJump(host, millis, pause) => {
                nodes[index(host)].clock.jump(millis);
                self.later(pause, Deed::RightClock(host));
            }
            Fault::DiskFull(host, room, pause) => {
                nodes[index(host)].fill_disk(room);
                self.later(pause, Deed::RightDisk(host));
            }
            Fault::DiskFails(host, pause) => {
                nodes[index(host)].fail_disk();
                self.later(pause, Deed::RightDisk(host));
            }
            Fault::WriteFails(host, writes) => nodes[index(host)].fail_writes(&writes),
            Fault::SlowDisk(host, most, pause) => {
                nodes[index(host)].slow_disk(Some(most));
                self.later(pause, Deed::RightDisk(host));
            }
        }
    }

    /// Whether all brokers run, and can speak to each other and to the store.
    fn is_undisturbed(&self) -> bool {
        let disturbs = |deed: &Deed| match deed {
            Deed::Start(_)
            | Deed::Resume(_)
            | Deed::Mend(..)
            | Deed::UsualDelays
            | Deed::Expire(_)
            | Deed::RightDisk(_) => true,
            Deed::Fault(_) | Deed::Look | Deed::RightClock(_) | Deed::CatchUp(_) => false,
        };
        let is_ready = |node: &Node| node.broker().is_some_and(|broker| broker.is_ready());
        !self.agenda.values().any(disturbs) && self.nodes.iter().all(is_ready)
    }

    /// Ends all faults.
    fn heal(&mut self) {
        self.say("faults end");
        self.agenda.clear();
        self.later(LOOK, Deed::Look);
        self.surroundings.network.mend_all();
        self.surroundings.network.set_delays(self.surroundings.plan.delays);
        for node in &self.nodes {
            self.surroundings.store.lose_replies(node.host, 0);
            self.surroundings.store.lag(node.host, Duration::ZERO);
        }
        for at in 0..self.nodes.len() {
            self.nodes[at].clock.set_right();
            self.nodes[at].mend_disk();
            self.nodes[at].resume(&self.surroundings.scheduler);
            // As an operator does who has mended a disk.
            if self.nodes[at].needs_restart() {
                self.nodes[at].kill(&self.surroundings);
            }
            if self.nodes[at].process().is_none() {
                self.surroundings.network.power_on(self.nodes[at].host);
                self.start(at);
            }
        }
    }
}

/// Where a broker's machine is among the nodes.
fn index(host: HostId) -> usize {
    usize::from(host.0 - 1)
}
