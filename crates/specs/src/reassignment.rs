//! A partition moves from replicas 0 and 1 to 1 and 2 while controllers and brokers die.
//!
//! A controller's steps are single writes and messages; it dies between any two of them, and the next one goes on from what
//! the store says. What replicas hold is counted in records: how logs depart from each other is another model's. The product's code is
//! `controller/src/driver/reassignments.rs` (`advance_reassignment`).
//!
//! Sources: KIP-455; fault F-E3 of the reliability reference.

use crate::members::{BROKERS, Members};
use crate::run::{Run, Wrong};
use stateright::{Model, Property};

const RECORDS: u8 = 2;
const CONTROLLER_CRASHES: u8 = 2;
const KILLS: u8 = 2;
const ISR_CHANGES: u8 = 4;

/// The right rules, or the one that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Right,
    RemovedBeforeInSync,
    StoppedBeforeWritten,
    AssignmentWrittenFirst,
    ForgottenAfterFailover,
    IsrChangedMeanwhile,
}

const WRONG: [(Variant, Wrong); 5] = [
    (
        Variant::RemovedBeforeInSync,
        Wrong {
            ticket: "KIP-455",
            what: "old replicas are removed before the new ones are in the ISR",
        },
    ),
    (
        Variant::StoppedBeforeWritten,
        Wrong {
            ticket: "KIP-455",
            what: "old replicas are deleted before the state without them is written",
        },
    ),
    (
        Variant::AssignmentWrittenFirst,
        Wrong {
            ticket: "KIP-455",
            what: "the assignment says that all is done before the state is written",
        },
    ),
    (
        Variant::ForgottenAfterFailover,
        Wrong { ticket: "F-E3", what: "a new controller does not go on with what it finds begun" },
    ),
    (
        Variant::IsrChangedMeanwhile,
        Wrong {
            ticket: "F-E3",
            what: "an ISR change is decided between the state without the old replicas and the assignment",
        },
    ),
];

/// All runs of this model.
pub(crate) fn runs() -> Vec<Run> {
    let bounds = format!(
        "{BROKERS} brokers, {RECORDS} records, {CONTROLLER_CRASHES} controllers die, {KILLS} kills, {ISR_CHANGES} ISR changes"
    );
    let run = |variant, wrong| Run::new("reassignment", wrong, bounds.clone(), Move { variant });
    let wrong = WRONG.map(|(variant, wrong)| run(variant, Some(wrong)));
    [run(Variant::Right, None)].into_iter().chain(wrong).collect()
}

/// The model.
#[derive(Clone, Copy, Debug)]
struct Move {
    variant: Variant,
}

/// How far the controller has come with the last part, as it remembers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    /// It goes by what the store says.
    Nothing,
    StateWritten,
    Stopped,
    /// It wrote the assignment, and the state is next: only where the order is wrong.
    AssignmentWritten,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    replicas: Members,
    adding: Members,
    removing: Members,
    leader: Option<u8>,
    isr: Members,
    progress: Progress,
    /// Whether this controller knows that a reassignment is under way.
    is_aware: bool,
    has_begun: bool,
    alive: Members,
    /// Who has a replica.
    hosts: Members,
    ends: [u8; BROKERS as usize],
    /// For the properties: how many records are committed.
    committed: u8,
    records: u8,
    controller_crashes: u8,
    kills: u8,
    isr_changes: u8,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Somebody asks for it: the assignment is written with what is added and removed.
    Begin,
    /// The controller tells a replica to start.
    Host(u8),
    /// The controller writes the state without the old replicas, led by this one.
    WriteState(u8),
    Stop,
    WriteAssignment,
    ControllerDies,
    /// The controller elects another leader.
    Elect(u8),
    Append,
    Fetch(u8),
    Join(u8),
    Leave(u8),
    Kill(u8),
    Start(u8),
}

impl World {
    fn targets(&self) -> Members {
        self.replicas.minus(self.removing)
    }

    fn is_moving(&self) -> bool {
        !self.adding.or(self.removing).is_empty()
    }

    fn end(&self, id: u8) -> u8 {
        self.ends[usize::from(id)]
    }

    /// The leader if it can serve.
    fn serving(&self) -> Option<u8> {
        self.leader.filter(|&id| self.alive.contains(id) && self.hosts.contains(id))
    }

    fn commit(&mut self) {
        let least = self.isr.iter().map(|id| self.end(id)).min();
        self.committed = self.committed.max(least.unwrap_or_default());
    }
}

impl Move {
    fn last_steps(&self, world: &World, steps: &mut Vec<Step>) {
        let targets = world.targets();
        let in_sync = targets.and(world.isr);
        let is_complete = in_sync == targets || self.variant == Variant::RemovedBeforeInSync;
        let write_state = |steps: &mut Vec<Step>, from: Members| {
            steps.extend(from.and(world.alive).iter().map(Step::WriteState));
        };
        match world.progress {
            Progress::Nothing if !world.is_moving() || !world.is_aware || !is_complete => {}
            Progress::Nothing => match self.variant {
                Variant::StoppedBeforeWritten => steps.push(Step::Stop),
                Variant::AssignmentWrittenFirst => steps.push(Step::WriteAssignment),
                Variant::RemovedBeforeInSync => write_state(steps, targets),
                Variant::Right | Variant::ForgottenAfterFailover | Variant::IsrChangedMeanwhile => {
                    write_state(steps, in_sync)
                }
            },
            Progress::AssignmentWritten => write_state(steps, in_sync),
            Progress::StateWritten => steps.push(Step::Stop),
            Progress::Stopped if self.variant == Variant::StoppedBeforeWritten => {
                write_state(steps, in_sync);
            }
            Progress::Stopped => steps.push(Step::WriteAssignment),
        }
    }
}

impl Model for Move {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let replicas = Members::of(&[0, 1]);
        vec![World {
            replicas,
            adding: Members::default(),
            removing: Members::default(),
            leader: Some(0),
            isr: replicas,
            progress: Progress::Nothing,
            is_aware: false,
            has_begun: false,
            alive: Members::of(&[0, 1, 2]),
            hosts: replicas,
            ends: [0; BROKERS as usize],
            committed: 0,
            records: 0,
            controller_crashes: 0,
            kills: 0,
            isr_changes: 0,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if !world.has_begun {
            steps.push(Step::Begin);
        }
        let to_start = world.adding.minus(world.hosts).and(world.alive);
        steps.extend(to_start.iter().filter(|_| world.is_aware).map(Step::Host));
        self.last_steps(world, steps);
        if world.controller_crashes < CONTROLLER_CRASHES {
            steps.push(Step::ControllerDies);
        }
        if world.serving().is_none() {
            steps.extend(world.isr.and(world.alive).and(world.hosts).iter().map(Step::Elect));
        }
        if world.kills < KILLS {
            steps.extend(world.alive.iter().map(Step::Kill));
        }
        steps.extend((0..BROKERS).filter(|&id| !world.alive.contains(id)).map(Step::Start));
        let Some(leader) = world.serving() else { return };
        if world.records < RECORDS {
            steps.push(Step::Append);
        }
        let end = world.end(leader);
        // The controller does one thing after the other: what it is asked meanwhile waits.
        let is_heard =
            world.progress == Progress::Nothing || self.variant == Variant::IsrChangedMeanwhile;
        for id in world.hosts.and(world.replicas).and(world.alive).without(leader).iter() {
            if world.end(id) != end {
                steps.push(Step::Fetch(id));
            } else if is_heard && !world.isr.contains(id) {
                steps.push(Step::Join(id));
            }
        }
        for id in world.isr.without(leader).iter() {
            let lags = world.end(id) < end || !world.alive.contains(id);
            if lags && is_heard && world.isr_changes < ISR_CHANGES {
                steps.push(Step::Leave(id));
            }
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = *before;
        match step {
            Step::Begin => {
                (world.has_begun, world.is_aware) = (true, true);
                (world.adding, world.removing) = (Members::of(&[2]), Members::of(&[0]));
                world.replicas = world.replicas.or(world.adding);
            }
            Step::Host(id) => world.hosts = world.hosts.with(id),
            Step::WriteState(leader) => {
                let targets = Members::of(&[1, 2]);
                world.leader = Some(leader);
                world.isr = world.isr.and(targets).with(leader);
                world.progress = match self.variant {
                    Variant::StoppedBeforeWritten => Progress::Stopped,
                    Variant::AssignmentWrittenFirst => Progress::Nothing,
                    Variant::Right
                    | Variant::RemovedBeforeInSync
                    | Variant::ForgottenAfterFailover
                    | Variant::IsrChangedMeanwhile => Progress::StateWritten,
                };
            }
            Step::Stop => {
                // Who is away is not told, and keeps a replica that nobody asks for.
                let gone = world.removing.and(world.alive);
                world.hosts = world.hosts.minus(gone);
                gone.iter().for_each(|id| world.ends[usize::from(id)] = 0);
                world.progress = Progress::Stopped;
            }
            Step::WriteAssignment => {
                world.replicas = world.targets();
                (world.adding, world.removing) = (Members::default(), Members::default());
                let is_first = self.variant == Variant::AssignmentWrittenFirst;
                world.progress =
                    if is_first { Progress::AssignmentWritten } else { Progress::Nothing };
            }
            Step::ControllerDies => {
                world.controller_crashes += 1;
                world.progress = Progress::Nothing;
                world.is_aware =
                    world.is_moving() && self.variant != Variant::ForgottenAfterFailover;
            }
            Step::Elect(id) => world.leader = Some(id),
            Step::Append => {
                let leader = world.serving()?;
                world.records += 1;
                world.ends[usize::from(leader)] += 1;
                world.commit();
            }
            Step::Fetch(id) => {
                let end = world.end(world.serving()?);
                let own = &mut world.ends[usize::from(id)];
                // Cuts its log to the leader's, or has the next record.
                *own = if *own > end { end } else { *own + 1 };
                world.commit();
            }
            Step::Join(id) => world.isr = world.isr.with(id),
            Step::Leave(id) => {
                world.isr_changes += 1;
                world.isr = world.isr.without(id);
                world.commit();
            }
            Step::Kill(id) => {
                world.kills += 1;
                world.alive = world.alive.without(id);
            }
            Step::Start(id) => world.alive = world.alive.with(id),
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("leader and ISR have all that is committed", |_, world: &World| {
                world.isr.iter().chain(world.leader).all(|id| world.end(id) >= world.committed)
            }),
            Property::always("the ISR has replicas only", |model, world: &World| {
                // Where the order is wrong, as soon as nobody is left who would go on.
                let goes_on = model.variant == Variant::AssignmentWrittenFirst
                    && world.progress == Progress::AssignmentWritten;
                goes_on || world.isr.minus(world.replicas).is_empty()
            }),
            Property::always("it ends, and with the new replicas", |model, world: &World| {
                let mut steps = Vec::new();
                model.actions(world, &mut steps);
                let is_done = !world.is_moving() && world.isr == Members::of(&[1, 2]);
                !steps.is_empty() || is_done
            }),
            Property::sometimes("a controller dies before the last write", |_, world: &World| {
                world.is_moving() && world.controller_crashes > 0 && !world.isr.contains(0)
            }),
            Property::sometimes("it is done", |_, world: &World| {
                world.has_begun && !world.is_moving()
            }),
        ]
    }
}
