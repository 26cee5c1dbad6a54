//! One partition of three replicas: leader, followers, ISR by way of a controller, and crashes.
//!
//! A step is one message or one decision. What a broker does with what it hears is one step with the hearing; how late it
//! hears, and what is heard before, is open. A controller's write is one step too: its own crashes are
//! another model's.
//!
//! Sources: rules R1 to R4, R6 and R7 of the reliability reference; decisions 11 and 15.

mod broker;
mod log;
mod store;

use crate::members::{BROKERS, Members};
use crate::run::{Run, Wrong};
use broker::{Broker, fetch};
use log::{Log, Record};
use stateright::{Model, Property};
use store::{Answer, Store};

/// The right rules, or the one that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Right,
    TruncationToHighWatermark,
    OnlyEndsCompared,
    JoinBeforeEpochStart,
    JoinOfOlderIncarnation,
    CommittedIsrOnly,
    CommitBelowMinIsr,
    FetchOfAnotherEpoch,
    IsrWrittenBlindly,
    EpochNotRaised,
    ElectionOutsideIsr,
    PowerFailureUnnoticed,
    EligibleAfterPowerFailure,
    NobodyWaitedFor,
    AcknowledgedUnflushed,
}

/// Who may do what how often.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    records: u8,
    /// The greatest leader epoch; the first is 1.
    epochs: u8,
    isr_changes: u8,
    kills: u8,
    power_failures: u8,
    /// Sessions that end though the broker lives.
    expiries: u8,
    /// Whether nothing counts before it is flushed (`flush.messages=1`).
    flushes: bool,
    isr: &'static [u8],
}

const BASE: Bounds = Bounds {
    records: 1,
    epochs: 2,
    isr_changes: 1,
    kills: 0,
    power_failures: 0,
    expiries: 0,
    flushes: false,
    isr: &[0, 1, 2],
};

/// Processes die and sessions end; nothing that was written is lost.
const PROCESSES: Bounds = Bounds { kills: 1, expiries: 1, epochs: 3, isr: &[0, 1], ..BASE };
/// A process dies while two records are under way.
const TWO_RECORDS: Bounds =
    Bounds { records: 2, epochs: 3, kills: 2, isr_changes: 0, isr: &[0, 1], ..BASE };
/// ISRs shrink and grow while leaders are taken for dead.
const ISR_CHANGES: Bounds = Bounds { expiries: 1, isr_changes: 2, epochs: 2, ..BASE };
/// The unflushed end of a log is lost once.
const POWER: Bounds =
    Bounds { power_failures: 1, kills: 1, epochs: 3, isr_changes: 1, isr: &[0, 1], ..BASE };
/// Power fails everywhere, and everything that counts was flushed.
const FLUSHED: Bounds =
    Bounds { power_failures: 3, epochs: 3, flushes: true, isr: &[0, 1], ..BASE };

impl Variant {
    const WRONG: [Self; 14] = [
        Self::TruncationToHighWatermark,
        Self::OnlyEndsCompared,
        Self::JoinBeforeEpochStart,
        Self::JoinOfOlderIncarnation,
        Self::CommittedIsrOnly,
        Self::CommitBelowMinIsr,
        Self::FetchOfAnotherEpoch,
        Self::IsrWrittenBlindly,
        Self::EpochNotRaised,
        Self::ElectionOutsideIsr,
        Self::PowerFailureUnnoticed,
        Self::EligibleAfterPowerFailure,
        Self::NobodyWaitedFor,
        Self::AcknowledgedUnflushed,
    ];

    fn told(self) -> Option<(Wrong, Bounds)> {
        let (ticket, what, bounds) = match self {
            Self::Right => return None,
            Self::TruncationToHighWatermark => {
                ("KIP-101", "a follower cuts its log to its own high watermark", TWO_RECORDS)
            }
            Self::OnlyEndsCompared => (
                "KAFKA-6361",
                "a leader compares where an epoch ends, and not which epoch that was",
                TWO_RECORDS,
            ),
            Self::JoinBeforeEpochStart => (
                "KAFKA-7128",
                "a follower joins the ISR before it has reached the start of the leader's epoch",
                PROCESSES,
            ),
            Self::JoinOfOlderIncarnation => (
                "KAFKA-14617",
                "a replica joins the ISR on what it had fetched before its broker started again",
                POWER,
            ),
            Self::CommittedIsrOnly => (
                "KIP-497",
                "a high watermark does not wait for a replica that is on its way into the ISR",
                ISR_CHANGES,
            ),
            Self::CommitBelowMinIsr => (
                "KAFKA-15583",
                "a high watermark moves while the ISR is smaller than min.insync.replicas",
                ISR_CHANGES,
            ),
            Self::FetchOfAnotherEpoch => (
                "KAFKA-6880",
                "a leader counts fetches of other leader epochs than its own",
                PROCESSES,
            ),
            Self::IsrWrittenBlindly => {
                ("KIP-497", "an ISR that a leader of the past asked for is written", ISR_CHANGES)
            }
            Self::EpochNotRaised => {
                ("KIP-101", "an election leaves the leader epoch as it is", PROCESSES)
            }
            Self::ElectionOutsideIsr => {
                ("S14", "somebody outside of the ISR is elected", PROCESSES)
            }
            Self::PowerFailureUnnoticed => {
                ("decision 11", "who lost power counts as before when it returns", POWER)
            }
            Self::EligibleAfterPowerFailure => {
                ("decision 15", "who lost power stays on the list of eligible leaders", POWER)
            }
            Self::NobodyWaitedFor => (
                "decision 11",
                "who lost power leads though others of the ISR may still return",
                POWER,
            ),
            Self::AcknowledgedUnflushed => (
                "flush.messages=1",
                "a leader counts its own records before they are flushed",
                FLUSHED,
            ),
        };
        Some((Wrong { ticket, what }, bounds))
    }
}

/// All runs of this model.
pub(crate) fn runs() -> Vec<Run> {
    let right = [PROCESSES, TWO_RECORDS, ISR_CHANGES, POWER, FLUSHED];
    let right = right.map(|bounds| Partition { variant: Variant::Right, bounds }.run(None));
    let wrong = Variant::WRONG.into_iter().filter_map(|variant| {
        let (wrong, bounds) = variant.told()?;
        Some(Partition { variant, bounds }.run(Some(wrong)))
    });
    right.into_iter().chain(wrong).collect()
}

/// The model.
#[derive(Clone, Copy, Debug)]
struct Partition {
    variant: Variant,
    bounds: Bounds,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    store: Store,
    brokers: [Broker; BROKERS as usize],
    seen: History,
    used: Used,
}

/// What has happened, for the properties only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct History {
    /// All that was committed: acknowledged with `acks=all`, and readable.
    committed: Log,
    /// Two leaders committed something else at one offset.
    is_forked: bool,
    /// Who committed in each epoch.
    committers: [Option<u8>; 6],
    two_in_one_epoch: bool,
    /// A committed record had no holder left that counts: no rule could have kept it.
    is_excused: bool,
    elected_by_list: bool,
}

/// What of the bounds is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Used {
    records: u8,
    isr_changes: u8,
    kills: u8,
    power_failures: u8,
    expiries: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The broker, if it believes that it leads, appends a record.
    Append(u8),
    Flush(u8),
    Fetch {
        follower: u8,
        leader: u8,
    },
    /// The leader hears a fetch, and its answer is lost.
    FetchUnanswered {
        follower: u8,
        leader: u8,
    },
    ProposeJoin {
        leader: u8,
        follower: u8,
    },
    ProposeLeave {
        leader: u8,
        follower: u8,
    },
    /// The controller hears what this leader proposed.
    Decide(u8),
    /// The broker hears what the store says.
    Learn(u8),
    /// The controller acts on who is there; the n-th of its choices.
    Repair(usize),
    Expire(u8),
    Register(u8),
    Kill(u8),
    LosePower {
        broker: u8,
        keeps: u8,
    },
    Start(u8),
}

impl Partition {
    fn run(self, wrong: Option<Wrong>) -> Run {
        let Bounds { records, epochs, isr_changes, kills, power_failures, expiries, .. } =
            self.bounds;
        let bounds = format!(
            "{BROKERS} replicas, ISR of {}, min ISR {}, {records} records, {epochs} leader epochs, {isr_changes} ISR \
             changes, {kills} kills, {power_failures} power failures, {expiries} sessions ended, {}",
            self.bounds.isr.len(),
            store::MIN_ISR,
            if self.bounds.flushes { "flushed first" } else { "page cache" },
        );
        Run::new("replication", wrong, bounds, self)
    }

    fn ends(world: &World) -> [Option<Log>; BROKERS as usize] {
        world.brokers.map(|broker| broker.is_alive.then_some(broker.log))
    }

    fn repairs(&self, world: &World) -> Vec<Store> {
        if world.store.leader_epoch >= self.bounds.epochs || world.store.version >= 12 {
            return Vec::new();
        }
        world.store.repairs(&Self::ends(world), self.variant)
    }

    /// Notes what `leader` committed.
    fn note_commits(world: &mut World, leader: u8) {
        let broker = &world.brokers[usize::from(leader)];
        if broker.leading.is_none() {
            return;
        }
        let visible = broker.log.prefix(broker.high_watermark);
        let seen = &mut world.seen;
        if visible.end() > seen.committed.end() {
            let epoch = usize::from(broker.leader_epoch);
            seen.is_forked |= !visible.starts_with(&seen.committed);
            seen.two_in_one_epoch |= seen.committers[epoch].is_some_and(|other| other != leader);
            seen.committers[epoch] = Some(leader);
            seen.committed = visible;
        } else {
            seen.is_forked |= !seen.committed.starts_with(&visible);
        }
    }

    /// Forgives what no member of ISR or list has that did not lose power. With `flush.messages=1` nothing is forgiven.
    fn forgive(&self, world: &mut World) {
        if self.bounds.flushes {
            return;
        }
        let committed = world.seen.committed;
        let holders = electable(world).iter();
        let kept = holders.map(|id| world.brokers[usize::from(id)].log.common(&committed)).max();
        let kept = kept.unwrap_or_default();
        if kept < committed.end() {
            world.seen.committed = committed.prefix(kept);
            world.seen.is_excused = true;
        }
    }
}

/// Who may be elected without loss as far as anybody can know.
fn electable(world: &World) -> Members {
    let members = world.store.isr.or(world.store.eligible).minus(world.store.doubts);
    Members::of(
        &members
            .iter()
            .filter(|&id| !world.brokers[usize::from(id)].lost_power)
            .collect::<Vec<_>>(),
    )
}

impl Model for Partition {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let store = Store::begin(Members::of(self.bounds.isr));
        let mut brokers = [Broker::begin(); BROKERS as usize];
        for (id, broker) in (0..).zip(&mut brokers) {
            broker.learn(id, &store, self.variant);
        }
        vec![World { store, brokers, seen: History::default(), used: Used::default() }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let (used, bounds) = (&world.used, &self.bounds);
        for id in 0..BROKERS {
            let broker = &world.brokers[usize::from(id)];
            if broker.sent.is_some() {
                steps.push(Step::Decide(id));
            }
            if !broker.is_alive {
                steps.push(Step::Start(id));
                if world.store.registration(id) != 0 {
                    steps.push(Step::Expire(id));
                }
                continue;
            }
            if broker.has_news(id, &world.store) {
                steps.push(Step::Learn(id));
            }
            if world.store.registration(id) == 0 {
                steps.push(Step::Register(id));
            } else if used.expiries < bounds.expiries {
                steps.push(Step::Expire(id));
            }
            if used.kills < bounds.kills {
                steps.push(Step::Kill(id));
            }
            if used.power_failures < bounds.power_failures {
                let kept = broker.durable..=broker.log.end();
                steps.extend(kept.map(|keeps| Step::LosePower { broker: id, keeps }));
            }
            if broker.durable < broker.log.end() && bounds.flushes {
                steps.push(Step::Flush(id));
            }
            if broker.leading.is_none() {
                continue;
            }
            if used.records < bounds.records {
                steps.push(Step::Append(id));
            }
            for other in (0..BROKERS).filter(|&other| other != id) {
                let follower = &world.brokers[usize::from(other)];
                let same_epoch = follower.leader_epoch == broker.leader_epoch
                    || self.variant == Variant::FetchOfAnotherEpoch;
                let follows = follower.is_alive && follower.leading.is_none();
                if follows && follower.leader == Some(id) && same_epoch {
                    steps.push(Step::Fetch { follower: other, leader: id });
                    steps.push(Step::FetchUnanswered { follower: other, leader: id });
                }
                if used.isr_changes < bounds.isr_changes {
                    if broker.may_join(other, self.variant) {
                        steps.push(Step::ProposeJoin { leader: id, follower: other });
                    }
                    if broker.may_leave(other) {
                        steps.push(Step::ProposeLeave { leader: id, follower: other });
                    }
                }
            }
        }
        steps.extend((0..self.repairs(world).len()).map(Step::Repair));
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = *before;
        let (flushes, variant) = (self.bounds.flushes, self.variant);
        match step {
            Step::Append(id) => {
                world.used.records += 1;
                let broker = &mut world.brokers[usize::from(id)];
                broker.log.push(Record { epoch: broker.leader_epoch, id: world.used.records });
                broker.advance(id, flushes, variant);
                Self::note_commits(&mut world, id);
            }
            Step::Flush(id) => {
                let broker = &mut world.brokers[usize::from(id)];
                broker.flush();
                broker.advance(id, flushes, variant);
                Self::note_commits(&mut world, id);
            }
            Step::Fetch { follower, leader } => {
                let pair = [usize::from(follower), usize::from(leader)];
                let [f, l] = world.brokers.get_disjoint_mut(pair).ok()?;
                fetch((follower, f), (leader, l), flushes, variant);
                Self::note_commits(&mut world, leader);
            }
            Step::FetchUnanswered { follower, leader } => {
                let mut unchanged = world.brokers[usize::from(follower)];
                let l = &mut world.brokers[usize::from(leader)];
                fetch((follower, &mut unchanged), (leader, l), flushes, variant);
                Self::note_commits(&mut world, leader);
            }
            Step::ProposeJoin { leader, follower } => {
                world.used.isr_changes += 1;
                world.brokers[usize::from(leader)].propose(Some(follower), None);
            }
            Step::ProposeLeave { leader, follower } => {
                world.used.isr_changes += 1;
                world.brokers[usize::from(leader)].propose(None, Some(follower));
            }
            Step::Decide(id) => {
                let broker = &mut world.brokers[usize::from(id)];
                let proposal = broker.sent.take()?;
                let answer = world.store.decide(proposal, variant);
                if answer == Answer::Ineligible && broker.leader_epoch == proposal.leader_epoch {
                    broker.abandon();
                }
            }
            Step::Learn(id) => {
                let broker = &mut world.brokers[usize::from(id)];
                broker.learn(id, &world.store, variant);
                broker.advance(id, flushes, variant);
                Self::note_commits(&mut world, id);
            }
            Step::Repair(choice) => {
                let after = self.repairs(&world).into_iter().nth(choice)?;
                let by_list = |id| world.store.eligible.contains(id);
                world.seen.elected_by_list |= after.leader.is_some_and(by_list);
                world.store = after;
            }
            Step::Expire(id) => {
                let is_alive = world.brokers[usize::from(id)].is_alive;
                world.used.expiries += u8::from(is_alive);
                world.store.registered[usize::from(id)] = 0;
            }
            Step::Register(id) | Step::Start(id) => {
                let broker = &mut world.brokers[usize::from(id)];
                broker.is_alive = true;
                broker.incarnation += 1;
                world.store.register(id, broker.incarnation, broker.lost_power, variant);
                broker.lost_power = false;
            }
            Step::Kill(id) => {
                world.used.kills += 1;
                world.brokers[usize::from(id)].stop();
            }
            Step::LosePower { broker: id, keeps } => {
                world.used.power_failures += 1;
                let broker = &mut world.brokers[usize::from(id)];
                broker.truncate(keeps);
                broker.stop();
                broker.lost_power = true;
                self.forgive(&mut world);
            }
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the leader has all that is committed", |_, world: &World| {
                world.brokers.iter().all(|broker| {
                    let leads =
                        broker.leading.is_some() && broker.leader_epoch == world.store.leader_epoch;
                    !leads || broker.log.starts_with(&world.seen.committed)
                })
            }),
            Property::always("who may be elected has all that is committed", |_, world: &World| {
                electable(world)
                    .iter()
                    .all(|id| world.brokers[usize::from(id)].log.starts_with(&world.seen.committed))
            }),
            Property::always("logs agree below their high watermarks", |_, world: &World| {
                let visible = world.brokers.map(|b| b.log.prefix(b.high_watermark));
                world.seen.is_excused
                    || visible
                        .iter()
                        .all(|a| visible.iter().all(|b| a.starts_with(b) || b.starts_with(a)))
            }),
            Property::always("what was committed stays what it is", |_, world: &World| {
                world.seen.is_excused || !world.seen.is_forked
            }),
            Property::always("one leader commits in an epoch", |_, world: &World| {
                !world.seen.two_in_one_epoch
            }),
            Property::sometimes(
                "all is committed, the last of it by the second leader",
                |model, world: &World| {
                    world.seen.committers[2].is_some()
                        && world.seen.committed.end() == model.bounds.records
                },
            ),
            Property::sometimes("the list of eligible leaders decides", |model, world: &World| {
                world.seen.elected_by_list || model.bounds.isr_changes == 0
            }),
        ]
    }
}
