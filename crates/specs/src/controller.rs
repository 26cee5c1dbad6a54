//! Who controls: election by an ephemeral node, and the epoch that fences whoever controlled before.
//!
//! Two brokers stand for controller and listen to whoever says that it is. A controller reads the partition's state,
//! writes a new leader in the next leader epoch, and tells the brokers. Sessions end though their broker lives, the node is
//! deleted by who takes the controller for dead, writes arrive late, replies are lost, announcements arrive late or never.
//! The product's code is `controller/src/driver/failover.rs` (`elect`, `take_over`) and `Driver::commit`.
//!
//! Sources: rule R5 of the reliability reference; decisions 9 and 14.

use crate::run::{Run, Wrong};
use stateright::{Model, Property};

const BROKERS: usize = 2;
/// The greatest controller epoch; 0 is before the first election.
const ELECTIONS: u8 = 3;
/// The greatest leader epoch; the first is 1.
const LEADER_EPOCHS: u8 = 3;
const EXPIRIES: u8 = 2;
const VACATIONS: u8 = 1;

/// The right rules, or the one that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Right,
    WriteWithoutEpochCheck,
    LateWakeUp,
    EpochNotRaised,
    EpochWrittenApart,
    LostReplyBelieved,
    ToldBeforeWritten,
}

const WRONG: [(Variant, Wrong); 6] = [
    (
        Variant::WriteWithoutEpochCheck,
        Wrong {
            ticket: "KAFKA-6082",
            what: "a controller writes without checking that nobody was elected after it",
        },
    ),
    (
        Variant::LateWakeUp,
        Wrong {
            ticket: "R5",
            what: "a controller that slept through the end of its session goes on and overwrites what is there",
        },
    ),
    (
        Variant::EpochNotRaised,
        Wrong { ticket: "R5", what: "an election leaves the controller epoch as it is" },
    ),
    (
        Variant::EpochWrittenApart,
        Wrong {
            ticket: "KAFKA-6082",
            what: "an election writes node and epoch one after the other",
        },
    ),
    (
        Variant::LostReplyBelieved,
        Wrong { ticket: "R5", what: "a write whose reply is lost counts as carried out" },
    ),
    (
        Variant::ToldBeforeWritten,
        Wrong { ticket: "R5", what: "brokers are told of a leader before that is written" },
    ),
];

/// All runs of this model.
pub(crate) fn runs() -> Vec<Run> {
    let bounds = format!(
        "{BROKERS} brokers, {ELECTIONS} controller epochs, {LEADER_EPOCHS} leader epochs, {EXPIRIES} sessions ended, \
         {VACATIONS} node deleted by others"
    );
    let run =
        |variant, wrong| Run::new("controller", wrong, bounds.clone(), Controllers { variant });
    let wrong = WRONG.map(|(variant, wrong)| run(variant, Some(wrong)));
    [run(Variant::Right, None)].into_iter().chain(wrong).collect()
}

/// The model.
#[derive(Clone, Copy, Debug)]
struct Controllers {
    variant: Variant,
}

/// The partition's state node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StateNode {
    leader: usize,
    leader_epoch: u8,
    version: u8,
}

/// What a broker was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Told {
    controller_epoch: u8,
    leader_epoch: u8,
    leader: usize,
}

/// A transaction on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Write {
    session: u8,
    controller_epoch: u8,
    after: StateNode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Process {
    session: u8,
    /// The epoch as it was before it stood for controller.
    looked: Option<u8>,
    /// It has made the node, and is yet to write the epoch: only where that is done apart.
    is_half_elected: bool,
    /// The epoch in which it believes that it controls.
    active: Option<u8>,
    known: Option<StateNode>,
    sent: Option<Write>,
    tells: Option<Told>,
    heard: Told,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    /// The session that made `/controller`.
    controller: Option<u8>,
    controller_epoch: u8,
    state: StateNode,
    /// The session of each broker that the store knows.
    sessions: [u8; BROKERS],
    processes: [Process; BROKERS],
    expiries: u8,
    vacations: u8,
    seen: History,
}

/// What has happened, for the properties only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct History {
    owners: [Option<usize>; ELECTIONS as usize + 1],
    two_in_one_epoch: bool,
    wrote_in_the_past: bool,
    leaders: [Option<usize>; LEADER_EPOCHS as usize + 1],
    two_leaders: bool,
    fenced: bool,
}

/// A step, of the broker that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Look(usize),
    Stand(usize),
    WriteEpoch(usize),
    Read(usize),
    Send(usize),
    Arrive {
        broker: usize,
        reply_is_lost: bool,
    },
    Tell {
        by: usize,
        to: usize,
    },
    Expire(usize),
    /// It notices that its session has ended, or that the node is not its own.
    Notice(usize),
    /// Somebody takes the controller for dead, and deletes its node.
    Vacate,
}

impl Controllers {
    fn is_checked(&self) -> bool {
        !matches!(self.variant, Variant::WriteWithoutEpochCheck | Variant::LateWakeUp)
    }

    fn take_over(world: &mut World, id: usize, epoch: u8) {
        let seen = &mut world.seen;
        let owner = &mut seen.owners[usize::from(epoch)];
        seen.two_in_one_epoch |= owner.is_some_and(|other| other != id);
        *owner = Some(id);
        let process = &mut world.processes[id];
        (process.active, process.known, process.is_half_elected) = (Some(epoch), None, false);
    }

    fn announce(process: &mut Process, written: StateNode, controller_epoch: u8) {
        let StateNode { leader, leader_epoch, .. } = written;
        process.tells = Some(Told { controller_epoch, leader_epoch, leader });
    }

    /// The store carries `write` out if it may; whether it did.
    fn carry_out(&self, world: &mut World, id: usize, write: Write) -> bool {
        let is_alive = world.sessions[id] == write.session;
        let is_fenced = self.is_checked() && write.controller_epoch != world.controller_epoch;
        let is_current =
            write.after.version == world.state.version + 1 || self.variant == Variant::LateWakeUp;
        world.seen.fenced |= is_alive && is_fenced && is_current;
        if !is_alive || is_fenced || !is_current {
            return false;
        }
        world.seen.wrote_in_the_past |= write.controller_epoch < world.controller_epoch;
        world.state = StateNode { version: world.state.version + 1, ..write.after };
        true
    }

    fn hear(world: &mut World, told: Told, to: usize) {
        let heard = &mut world.processes[to].heard;
        let is_old = told.controller_epoch < heard.controller_epoch;
        if is_old || told.leader_epoch < heard.leader_epoch {
            return;
        }
        let seen = &mut world.seen;
        *heard = told;
        let leader = &mut seen.leaders[usize::from(told.leader_epoch)];
        seen.two_leaders |= leader.is_some_and(|other| other != told.leader);
        *leader = Some(told.leader);
    }
}

impl Model for Controllers {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let mut processes = [Process::default(); BROKERS];
        let mut session = 0;
        for process in &mut processes {
            session += 1;
            process.session = session;
        }
        vec![World {
            controller: None,
            controller_epoch: 0,
            state: StateNode { leader: 0, leader_epoch: 1, version: 0 },
            sessions: processes.map(|process| process.session),
            processes,
            expiries: 0,
            vacations: 0,
            seen: History::default(),
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (id, process) in world.processes.iter().enumerate() {
            let is_idle = process.active.is_none() && !process.is_half_elected;
            if is_idle && process.looked != Some(world.controller_epoch) {
                steps.push(Step::Look(id));
            }
            if is_idle && process.looked.is_some_and(|epoch| epoch < ELECTIONS) {
                steps.push(Step::Stand(id));
            }
            if process.is_half_elected {
                steps.push(Step::WriteEpoch(id));
            }
            if process.active.is_some() && process.sent.is_none() {
                if process.known != Some(world.state) {
                    steps.push(Step::Read(id));
                }
                if process.known.is_some_and(|known| known.leader_epoch < LEADER_EPOCHS) {
                    steps.push(Step::Send(id));
                }
            }
            if process.sent.is_some() {
                steps.push(Step::Arrive { broker: id, reply_is_lost: false });
                steps.push(Step::Arrive { broker: id, reply_is_lost: true });
            }
            if process.tells.is_some() {
                steps.extend((0..BROKERS).map(|to| Step::Tell { by: id, to }));
            }
            if world.expiries < EXPIRIES && world.sessions[id] == process.session {
                steps.push(Step::Expire(id));
            }
            let is_gone = world.sessions[id] != process.session;
            let is_deposed = process.active.is_some() && world.controller != Some(process.session);
            if is_gone || is_deposed {
                steps.push(Step::Notice(id));
            }
        }
        if world.controller.is_some() && world.vacations < VACATIONS {
            steps.push(Step::Vacate);
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = *before;
        match step {
            Step::Look(id) => world.processes[id].looked = Some(world.controller_epoch),
            Step::Stand(id) => {
                let process = &mut world.processes[id];
                let looked = process.looked.take()?;
                let is_free = world.controller.is_none() && world.sessions[id] == process.session;
                if self.variant == Variant::EpochWrittenApart {
                    process.looked = Some(looked);
                    process.is_half_elected = is_free;
                    if is_free {
                        world.controller = Some(process.session);
                    }
                } else if is_free && looked == world.controller_epoch {
                    world.controller = Some(process.session);
                    let is_raised = self.variant != Variant::EpochNotRaised || looked == 0;
                    world.controller_epoch += u8::from(is_raised);
                    let epoch = world.controller_epoch;
                    Self::take_over(&mut world, id, epoch);
                }
            }
            Step::WriteEpoch(id) => {
                let epoch = world.processes[id].looked.take()? + 1;
                world.controller_epoch = epoch;
                Self::take_over(&mut world, id, epoch);
            }
            Step::Read(id) => world.processes[id].known = Some(world.state),
            Step::Send(id) => {
                let process = &mut world.processes[id];
                let (controller_epoch, known) = (process.active?, process.known?);
                let after = StateNode {
                    leader: id,
                    leader_epoch: known.leader_epoch + 1,
                    version: known.version + 1,
                };
                process.sent = Some(Write { session: process.session, controller_epoch, after });
                if self.variant == Variant::ToldBeforeWritten {
                    Self::announce(process, after, controller_epoch);
                }
            }
            Step::Arrive { broker: id, reply_is_lost } => {
                let write = world.processes[id].sent.take()?;
                let is_done = self.carry_out(&mut world, id, write);
                let is_believed = reply_is_lost && self.variant == Variant::LostReplyBelieved;
                let process = &mut world.processes[id];
                process.known = None;
                if is_done && !reply_is_lost || is_believed {
                    process.known = Some(write.after);
                    Self::announce(process, write.after, write.controller_epoch);
                }
            }
            Step::Tell { by, to } => {
                let told = world.processes[by].tells?;
                Self::hear(&mut world, told, to);
            }
            Step::Expire(id) => {
                world.expiries += 1;
                let session = std::mem::take(&mut world.sessions[id]);
                world.controller = world.controller.filter(|owner| *owner != session);
            }
            Step::Notice(id) => {
                let next = BROKERS.to_le_bytes()[0] + world.expiries;
                let process = &mut world.processes[id];
                if world.sessions[id] == 0 {
                    // Numbers of sessions are never used again.
                    process.session = next + 1 + id.to_le_bytes()[0] * (EXPIRIES + 1);
                    world.sessions[id] = process.session;
                }
                if self.variant == Variant::LateWakeUp {
                    if let Some(write) = &mut process.sent {
                        write.session = process.session;
                    }
                } else {
                    (process.active, process.known, process.looked) = (None, None, None);
                    process.is_half_elected = false;
                }
            }
            Step::Vacate => {
                world.vacations += 1;
                world.controller = None;
            }
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one controller in an epoch", |_, world: &World| {
                !world.seen.two_in_one_epoch
            }),
            Property::always("a controller of the past writes nothing", |_, world: &World| {
                !world.seen.wrote_in_the_past
            }),
            Property::always("one leader in a leader epoch", |_, world: &World| {
                !world.seen.two_leaders
            }),
            Property::sometimes(
                "a write fails for its controller epoch alone",
                |_, world: &World| world.seen.fenced,
            ),
            Property::sometimes("the third controller is heard", |_, world: &World| {
                world.processes.iter().any(|process| process.heard.controller_epoch == ELECTIONS)
            }),
        ]
    }
}
