//! A broker's life by a seed, and what is known of its logs after each step.

use crate::broker::{self, Entry, NOW};
use crate::dice::Dice;
use crate::disk::{Label, RecordingDisk};
use crate::facts::{Facts, LogFacts, Policy, ProducerFacts, Producers};
use crate::image::Tracker;
use crate::tree::{Operation, Tree};
use crate::verdict;
use bytes::Bytes;
use model::{Instant, LeaderEpoch, Offset, Timestamp, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::{AppendOrigin, AppendRequest, Cleaning, CleaningBuffers, ClosedLog, Interrupted};
use storage::{LogDirectories, Pace, PartitionLog, PendingAppend, Reserved};

/// What was done to a disk from one start of the machine to its end, and what was known meanwhile.
#[derive(Debug)]
pub struct Life {
    /// What was on the disk before; all of it durable.
    pub base: Tree,
    /// What was done to it.
    pub operations: Vec<Operation>,
    /// The run of the operating system.
    pub boot: u64,
    pub(crate) history: Vec<Facts>,
    /// Why the workload ended early: what the running broker itself did wrong.
    pub failure: Option<String>,
    /// The kinds of operations.
    pub labels: Vec<Label>,
    /// Power cuts, by operations and seed, that left nothing a next life can go on with: what they left is not
    /// known to be right.
    pub(crate) suspects: Vec<(usize, u64)>,
}

impl Life {
    /// What was known before and after the step in which `count` operations were done.
    pub(crate) fn around(&self, count: usize) -> (&Facts, &Facts) {
        let at = self.history.partition_point(|facts| facts.operations <= count);
        let before = &self.history[at.saturating_sub(1)];
        match self.history.get(at) {
            Some(after) if before.operations < count => (before, after),
            _ => (before, before),
        }
    }
}

/// How long and how varied a workload is.
const STEPS: usize = 70;

struct Unpaced;

impl Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

/// What a next life would begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reborn {
    Known,
    /// A compacted log has gaps: what is done to it later is not judged.
    WithHoles,
    /// It cannot be told what it is.
    Unknown,
}

#[derive(Debug)]
enum Slot {
    Open(Box<PartitionLog>),
    Closed(ClosedLog),
}

#[derive(Debug)]
struct MovingCopy {
    log: Slot,
    /// It was not compared with its original since that was cut, or since the start.
    is_left: bool,
}

/// A broker under way.
struct World {
    dice: Dice,
    disk: RecordingDisk,
    directories: Option<LogDirectories>,
    logs: BTreeMap<TopicPartition, Slot>,
    /// Of logs that move to the other directory.
    copies: BTreeMap<TopicPartition, MovingCopy>,
    facts: BTreeMap<TopicPartition, Arc<LogFacts>>,
    history: Vec<Facts>,
    is_closed: bool,
    is_claimed: bool,
    /// Counts records, so that each is another and times rise.
    count: i64,
    topics: u64,
    clock: Duration,
    /// The epoch that the broker leads in or follows.
    epoch: i32,
}

/// Lives `generations` lives one after the other, each but the first on what a power cut left of the one
/// before.
#[must_use]
pub fn live(seed: u64, generations: usize, left_out: Option<Label>) -> Vec<Life> {
    let mut lives = Vec::<Life>::new();
    let mut world = World::new(Dice::new(seed), RecordingDisk::new(Tree::default(), 0));
    for generation in 0..generations {
        world.disk.leave_out(left_out);
        let base = world.disk.tree();
        let failure = world.run().err();
        let (operations, boot) = (world.disk.operations(), world.disk.boot());
        let history = std::mem::take(&mut world.history);
        let labels = world.disk.labels();
        let suspects = Vec::new();
        let mut life = Life { base, operations, boot, history, failure, labels, suspects };
        let mut is_over = life.failure.is_some() || generation + 1 == generations;
        if !is_over {
            let mut tracker = Tracker::new(&life.base);
            let count = world.dice.below(life.operations.len() / 2 + 1) + life.operations.len() / 2;
            life.operations[..count].iter().for_each(|operation| tracker.apply(operation));
            // A compacted log with gaps is judged as what a crash left; what is done to it later is not.
            let seeds = std::iter::repeat_with(|| world.dice.seed() >> 32).take(20);
            let seeds = seeds.collect::<Vec<_>>();
            is_over = true;
            for seed in seeds {
                match world.reborn(&life, count, tracker.power_cut(seed)) {
                    Reborn::Known => {
                        is_over = false;
                        break;
                    }
                    Reborn::WithHoles => {}
                    Reborn::Unknown => life.suspects.push((count, seed)),
                }
            }
        }
        lives.push(life);
        if is_over {
            break;
        }
    }
    lives
}

impl World {
    fn new(dice: Dice, disk: RecordingDisk) -> Self {
        Self {
            dice,
            disk,
            directories: None,
            logs: BTreeMap::new(),
            copies: BTreeMap::new(),
            facts: BTreeMap::new(),
            history: Vec::new(),
            is_closed: false,
            is_claimed: false,
            count: 0,
            topics: 0,
            clock: Duration::ZERO,
            epoch: 0,
        }
    }

    /// Goes on with what a crash left. What is there is judged when images are; here it only has to be
    /// known.
    fn reborn(&mut self, life: &Life, count: usize, tree: Tree) -> Reborn {
        self.directories = None;
        self.logs.clear();
        self.copies.clear();
        let (before, after) = life.around(count);
        let probe = RecordingDisk::new(tree.clone(), life.boot + 1);
        let mut facts = BTreeMap::new();
        let Ok(started) = verdict::recover(&probe, before, after) else {
            return Reborn::Unknown;
        };
        for (name, log) in started.found.logs {
            if verdict::has_holes(&name, &log, before, after) {
                return Reborn::WithHoles;
            }
            match verdict::lineage_of(&name, &log, before, after) {
                Some(known) => drop(facts.insert(name, Arc::new(known))),
                None => return Reborn::Unknown,
            }
        }
        self.is_claimed = before.is_claimed;
        self.facts = facts;
        self.disk = RecordingDisk::new(tree, life.boot + 1);
        Reborn::Known
    }

    fn directories(&self) -> &LogDirectories {
        self.directories.as_ref().expect("it is running")
    }

    fn now(&self) -> Instant {
        Instant(self.clock)
    }

    fn note(&mut self, step: &str) {
        self.history.push(Facts {
            operations: self.disk.count(),
            step: step.to_owned(),
            logs: self.facts.clone(),
            is_closed: self.is_closed,
            is_claimed: self.is_claimed,
        });
    }

    fn run(&mut self) -> Result<(), String> {
        self.is_closed = false;
        self.note("nothing");
        self.start()?;
        for _ in 0..STEPS {
            self.clock += Duration::from_millis(3);
            let step = self.step();
            step.map_err(|error| {
                let last = self.history.last().map_or("", |facts| facts.step.as_str());
                format!("after step {last:?}: {error}")
            })?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        self.disk.set_phase("start");
        let was_closed = std::mem::take(&mut self.is_closed);
        let (directories, closed) = broker::start(&self.disk, self.dice.seed())?;
        if was_closed && let Some(log) = closed.iter().find(|log| log.needs_recovery()) {
            return Err(format!("{} is to be recovered after a clean stop", log.topic_partition()));
        }
        self.directories = Some(directories);
        self.logs.clear();
        self.copies.clear();
        for log in closed {
            let name = log.topic_partition().clone();
            match log.is_future() {
                true => {
                    let copy = MovingCopy { log: Slot::Closed(log), is_left: true };
                    self.copies.insert(name, copy);
                }
                false => drop(self.logs.insert(name, Slot::Closed(log))),
            }
        }
        self.note("start");
        let claimed = self.directories().set_cluster_id("cluster");
        claimed.map_err(|error| error.to_string())?;
        self.is_claimed = true;
        self.note("claim");
        self.directories().registered(7);
        self.note("register");
        let names = self.logs.keys().cloned().collect::<Vec<_>>();
        for name in names {
            if self.dice.chance(3, 4) {
                self.open(&name)?;
            }
        }
        Ok(())
    }

    /// The open log of a partition.
    fn open(&mut self, name: &TopicPartition) -> Result<&mut PartitionLog, String> {
        self.disk.set_phase("recovery");
        if let Some(Slot::Closed(_)) = self.logs.get(name) {
            let Some(Slot::Closed(closed)) = self.logs.remove(name) else { unreachable!() };
            let known = &self.facts[name];
            let config = Arc::new(known.policy.config());
            let mut log = closed
                .open(config, NOW)
                .map_err(|(_, error)| format!("{name} does not open: {error}"))?;
            if log.topic_id().is_none() {
                log.set_topic_id(known.id).map_err(|error| error.to_string())?;
            }
            let mut known = LogFacts::clone(known);
            // What a leader noted of an epoch that had no record yet is gone, the end may be lower after a
            // gap, and the log start where the first segment starts.
            known.end = log.log_end_offset().0;
            known.set_start(log.log_start_offset().0);
            known.durable_high_watermark = known.durable_high_watermark.min(known.end);
            known.durable = known.durable.min(known.end);
            known.has_id = true;
            self.facts.insert(name.clone(), Arc::new(known));
            self.logs.insert(name.clone(), Slot::Open(Box::new(log)));
            self.note("open");
            self.compare_copy(name)?;
        }
        match self.logs.get_mut(name) {
            Some(Slot::Open(log)) => Ok(log),
            Some(Slot::Closed(_)) | None => Err(format!("{name} is not there")),
        }
    }

    fn change(&mut self, name: &TopicPartition, change: impl FnOnce(&mut LogFacts)) {
        let mut known = LogFacts::clone(&self.facts[name]);
        change(&mut known);
        self.facts.insert(name.clone(), Arc::new(known));
    }

    fn step(&mut self) -> Result<(), String> {
        let names = self.logs.keys().cloned().collect::<Vec<_>>();
        let draw = self.dice.below(100);
        if names.is_empty() || (draw < 4 && names.len() < 3) {
            return self.create();
        }
        let name = self.dice.pick(&names).clone();
        match draw {
            0..=5 => self.delete(&name),
            6..=8 => self.stop_and_start(),
            9..=10 => self.close_one(&name),
            11..=22 => self.flush(&name),
            23..=27 => self.checkpoint(),
            28..=32 => self.delete_records(&name),
            33..=36 => self.retain(&name),
            37..=41 => self.remove_step(),
            42..=47 => self.truncate(&name),
            48 => self.start_anew(&name),
            49..=55 => self.compact(&name),
            56..=58 => self.lead(&name),
            59 => {
                self.disk.set_phase("release");
                self.open(&name)?.release_idle();
                self.note("release");
                Ok(())
            }
            60..=67 => self.replicate(&name),
            68..=70 => self.replicate_legacy(&name),
            71..=78 => self.transact(&name),
            79..=85 => self.relocate(&name),
            _ => self.produce(&name),
        }
    }

    // ---- moves to the other directory ----

    /// What an earlier start left of a copy must agree with its log before that changes.
    fn compare_copy(&mut self, name: &TopicPartition) -> Result<(), String> {
        let Some(copy) = self.copies.get(name).filter(|copy| copy.is_left) else { return Ok(()) };
        let is_closed = matches!(copy.log, Slot::Closed(_));
        let phase = self.disk.set_phase("move");
        if is_closed {
            let Some(MovingCopy { log: Slot::Closed(closed), .. }) = self.copies.remove(name)
            else {
                unreachable!("just seen")
            };
            let config = Arc::new(self.facts[name].policy.config());
            let opened = closed.open(config, NOW);
            let copy = opened.map_err(|(_, error)| format!("the copy of {name}: {error}"))?;
            let copy = MovingCopy { log: Slot::Open(Box::new(copy)), is_left: true };
            self.copies.insert(name.clone(), copy);
        }
        let (Some(MovingCopy { log: Slot::Open(copy), is_left }), Some(Slot::Open(log))) =
            (self.copies.get_mut(name), self.logs.get(name))
        else {
            return Ok(());
        };
        if copy.topic_id() == log.topic_id() {
            copy.agree_with(log, NOW).map_err(|error| error.to_string())?;
            if copy.log_end_offset() > log.log_end_offset() {
                let end = log.log_end_offset();
                copy.truncate_to(end, NOW).map_err(|error| error.to_string())?;
            }
            *is_left = false;
        } else {
            self.delete_copy(name)?;
        }
        self.disk.set_phase(phase);
        self.note("compare");
        Ok(())
    }

    fn delete_copy(&mut self, name: &TopicPartition) -> Result<(), String> {
        let Some(copy) = self.copies.remove(name) else { return Ok(()) };
        let now = self.now();
        let outcome = match copy.log {
            Slot::Open(log) => self.directories().delete(*log, Duration::ZERO, now),
            Slot::Closed(log) => self.directories().delete_closed(log, Duration::ZERO, now),
        };
        outcome.map_err(|error| error.to_string())
    }

    /// Begins to move a log to the other directory, goes on with it, or ends it.
    fn relocate(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.compare_copy(name)?;
        self.disk.set_phase("move");
        if !self.copies.contains_key(name) {
            let here = Arc::clone(self.open_log(name).directory());
            let (id, config) = (self.facts[name].id, Arc::new(self.facts[name].policy.config()));
            let mut all = self.directories().directories().iter();
            let other = all.find(|other| !Arc::ptr_eq(other, &here)).expect("two directories");
            let copy = self.directories().create_future(name.clone(), Some(id), config, other, NOW);
            let copy = Slot::Open(Box::new(copy.map_err(|error| error.to_string())?));
            self.copies.insert(name.clone(), MovingCopy { log: copy, is_left: false });
            self.note("move");
            return Ok(());
        }
        let steps = 1 + self.dice.below(5);
        let (Some(MovingCopy { log: Slot::Open(copy), .. }), Some(Slot::Open(log))) =
            (self.copies.get_mut(name), self.logs.get(name))
        else {
            unreachable!("both are open")
        };
        let mut has_caught_up = false;
        for _ in 0..steps {
            has_caught_up = broker::copy_step(log, copy)?;
        }
        self.note("move");
        if !has_caught_up {
            return Ok(());
        }
        let (Some(MovingCopy { log: Slot::Open(copy), .. }), Some(Slot::Open(log))) =
            (self.copies.remove(name), self.logs.remove(name))
        else {
            unreachable!("both are open")
        };
        let moved = broker::take_place(self.directories(), *log, *copy, self.now())?;
        let durable = moved.durable_offset().0;
        self.logs.insert(name.clone(), Slot::Open(Box::new(moved)));
        self.change(name, |known| {
            known.durable = durable;
            known.is_durable = true;
        });
        self.note("promotion");
        Ok(())
    }

    fn create(&mut self) -> Result<(), String> {
        self.disk.set_phase("create");
        let unused = (0..3).map(broker::topic).find(|name| !self.logs.contains_key(name));
        let Some(name) = unused else { return Ok(()) };
        self.topics += 1;
        let id = broker::topic_id(self.topics);
        let policies = [Policy::Delete, Policy::Delete, Policy::Compact, Policy::CompactAndDelete];
        let policy = *self.dice.pick(&policies);
        let known = LogFacts::new(id, policy);
        let config = Arc::new(policy.config());
        let created = self.directories().create(name.clone(), Some(id), config, None, NOW);
        let log = created.map_err(|error| error.to_string())?;
        self.logs.insert(name.clone(), Slot::Open(Box::new(log)));
        self.facts.insert(name, Arc::new(known));
        self.note("create");
        Ok(())
    }

    fn delete(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.disk.set_phase("delete");
        let (delay, now) = (Duration::from_millis(20), self.now());
        let outcome = match self.logs.remove(name) {
            Some(Slot::Open(log)) => self.directories().delete(*log, delay, now),
            Some(Slot::Closed(log)) => self.directories().delete_closed(log, delay, now),
            None => return Ok(()),
        };
        outcome.map_err(|error| error.to_string())?;
        self.facts.remove(name);
        self.note("delete");
        self.delete_copy(name)?;
        self.note("delete");
        Ok(())
    }

    fn close_one(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.disk.set_phase("close");
        let Some(Slot::Open(_)) = self.logs.get(name) else { return Ok(()) };
        let Some(Slot::Open(log)) = self.logs.remove(name) else { unreachable!() };
        let closed = log.close().map_err(|(_, error)| error.to_string())?;
        self.logs.insert(name.clone(), Slot::Closed(closed));
        if let Some(copy) = self.copies.get_mut(name) {
            // Its end may be lower when it is opened again, after a gap.
            copy.is_left = true;
        }
        self.note("close");
        Ok(())
    }

    fn stop_and_start(&mut self) -> Result<(), String> {
        let names = self.logs.keys().cloned().collect::<Vec<_>>();
        for name in &names {
            self.open(name)?;
        }
        for name in &names {
            self.close_one(name)?;
        }
        self.disk.set_phase("stop");
        for copy in std::mem::take(&mut self.copies).into_values() {
            match copy.log {
                Slot::Open(log) => drop(log.close().map_err(|(_, error)| error.to_string())?),
                // Nobody has used it since the start.
                Slot::Closed(log) => {
                    let policy = self.facts.get(log.topic_partition()).map(|known| known.policy);
                    let config = policy.unwrap_or(Policy::Delete).config();
                    let (_, outcome) = log.recover(Arc::new(config), NOW);
                    outcome.map_err(|error| error.to_string())?;
                }
            }
        }
        self.directories().close(Some(3));
        for name in &names {
            self.change(name, |known| {
                // An empty log is not synced: it is made anew.
                if known.end > 0 {
                    known.durable = known.end;
                    known.is_durable = true;
                    known.durable_start = known.durable_start.max(known.start);
                }
            });
        }
        self.is_closed = true;
        self.note("stop");
        self.directories = None;
        self.start()
    }

    fn flush(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("flush");
        let log = self.open_log(name);
        if let Some(work) = log.begin_flush() {
            let outcome = work.run();
            log.finish_flush(work, outcome).map_err(|error| error.to_string())?;
            let durable = log.durable_offset().0;
            self.change(name, |known| {
                known.durable = durable;
                known.is_durable = true;
            });
        }
        self.note("flush");
        Ok(())
    }

    fn open_log(&mut self, name: &TopicPartition) -> &mut PartitionLog {
        match self.logs.get_mut(name) {
            Some(Slot::Open(log)) => log,
            other @ (Some(Slot::Closed(_)) | None) => panic!("{name} is open: {other:?}"),
        }
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        self.disk.set_phase("checkpoint");
        self.directories().write_checkpoints();
        self.directories().write_high_watermarks();
        let files = self.disk.tree().files();
        for (name, slot) in &self.logs {
            let Slot::Open(log) = slot else { continue };
            let mut known = LogFacts::clone(&self.facts[name]);
            // Where the first segment starts is not written.
            let path = log.directory().path().join("log-start-offset-checkpoint");
            let written = files.get(path.to_str().unwrap_or_default());
            let written = String::from_utf8_lossy(written.map_or(&[][..], Vec::as_slice));
            let (TopicPartition { topic, partition }, start) = (name, log.log_start_offset());
            if written.lines().any(|line| line == format!("{topic} {partition} {start}")) {
                known.durable_start = start.0;
            }
            known.durable_high_watermark = log.high_watermark().0;
            self.facts.insert(name.clone(), Arc::new(known));
        }
        self.note("checkpoint");
        Ok(())
    }

    fn delete_records(&mut self, name: &TopicPartition) -> Result<(), String> {
        let start = self.open(name)?.log_start_offset().0;
        self.disk.set_phase("delete records");
        let high_watermark = self.open_log(name).high_watermark().0;
        let up_to = self.dice.between(start, (start + 12).min(high_watermark));
        let log = self.open_log(name);
        log.delete_records_before(Offset(up_to)).map_err(|error| error.to_string())?;
        let start = log.log_start_offset().0;
        self.change(name, |known| known.set_start(start));
        self.note("delete records");
        Ok(())
    }

    fn retain(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("retention");
        let log = self.open_log(name);
        log.apply_retention(NOW).map_err(|error| error.to_string())?;
        let start = log.log_start_offset().0;
        self.change(name, |known| known.set_start(start));
        self.note("retention");
        Ok(())
    }

    fn remove_step(&mut self) -> Result<(), String> {
        self.disk.set_phase("removal");
        self.clock += Duration::from_millis(self.dice.below(30) as u64);
        for _ in 0..=self.dice.below(6) {
            self.directories().delete_step(self.now());
        }
        self.note("removal");
        Ok(())
    }

    /// As a follower whose leader's log departs from its own.
    fn truncate(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("truncate");
        let known = Arc::clone(&self.facts[name]);
        let log = self.open_log(name);
        // Below the high watermark only after unclean elections; what was compacted is not cut.
        let high_watermark = log.high_watermark().0;
        let lowest = match known.policy {
            Policy::Delete => (high_watermark - 3).max(known.start),
            Policy::Compact | Policy::CompactAndDelete => high_watermark.max(known.compacted_to),
        };
        if lowest > known.end {
            return Ok(());
        }
        let offset = self.dice.between(lowest, known.end);
        let log = self.open_log(name);
        log.truncate_to(Offset(offset), NOW).map_err(|error| error.to_string())?;
        let end = log.log_end_offset().0;
        if end < known.end {
            self.change(name, |known| known.cut(end));
        }
        self.note("truncate");
        // What comes instead of what a copy has is of another epoch: the leader's.
        let Some(copy) = self.copies.get_mut(name) else { return Ok(()) };
        copy.is_left = true;
        self.lead(name)
    }

    fn start_anew(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("start anew");
        let end = self.facts[name].end;
        let offset = self.dice.between(end, end + 20);
        let log = self.open_log(name);
        let outcome = log.truncate_fully_and_start_at(Offset(offset), NOW);
        outcome.map_err(|error| error.to_string())?;
        self.change(name, |known| {
            known.lineage.clear();
            known.set_start(offset);
            known.end = offset;
            known.durable = known.durable.min(offset);
            known.compacted_to = 0;
        });
        if let Some(copy) = self.copies.get_mut(name) {
            copy.is_left = true;
        }
        self.note("start anew");
        Ok(())
    }

    fn compact(&mut self, name: &TopicPartition) -> Result<(), String> {
        // Nothing is compacted while it moves.
        if !self.facts[name].policy.is_compact() || self.copies.contains_key(name) {
            return Ok(());
        }
        self.flush(name)?;
        self.disk.set_phase("compaction");
        let now = Timestamp(NOW.0 + self.count);
        let log = self.open_log(name);
        let Some(view) = log.view() else { return Ok(()) };
        let state = view.state(now).map_err(|error| error.to_string())?;
        if state.first_uncleanable <= state.first_dirty {
            return Ok(());
        }
        let buffers =
            CleaningBuffers { dedupe_bytes: 1 << 16, dedupe_load_factor: 0.9, io_bytes: 400 };
        let begun = Cleaning::begin(view, state, buffers, 1, now, &mut Unpaced);
        let mut cleaning = begun.map_err(|error| error.to_string())?;
        loop {
            let group = cleaning.clean_next(&mut Unpaced).map_err(|error| error.to_string())?;
            let Some(group) = group else { break };
            let log = self.open_log(name);
            let mut swap = log.begin_swap(group).map_err(|_| "nothing changed meanwhile")?;
            swap.announce().map_err(|error| error.to_string())?;
            let files = log.swap(&mut swap);
            let outcome = swap.complete(&files);
            log.end_swap(outcome);
        }
        let log = self.open_log(name);
        assert!(log.end_cleaning(&cleaning), "nothing changed meanwhile");
        log.directory().checkpoint_cleaner_offsets();
        let end = cleaning.end_offset().0;
        self.change(name, |known| known.compacted_to = known.compacted_to.max(end));
        self.note("compaction");
        Ok(())
    }

    fn lead(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.epoch += 1;
        let epoch = self.epoch;
        let log = self.open(name)?;
        let end = log.log_end_offset();
        self.disk.set_phase("lead");
        let log = self.open_log(name);
        log.assign_epoch(LeaderEpoch(epoch), end).map_err(|error| error.to_string())?;
        self.note("lead");
        Ok(())
    }

    /// The epoch that a leader of this log has now.
    fn epoch_of(&mut self, name: &TopicPartition) -> i32 {
        self.open_log(name).latest_epoch().map_or(self.epoch, |epoch| epoch.0)
    }

    // ---- appending ----

    fn entries(&mut self, policy: Policy) -> Vec<Entry> {
        let count = 1 + self.dice.below(3);
        // Many batches have the same size: remains of one may then follow another as if they belonged.
        let length = *self.dice.pick(&[20, 20, 20, 50, 120, 400]);
        let entries = (0..count).map(|_| {
            self.count += 1;
            let value = format!("{:0length$}", self.count);
            let key = policy.is_compact().then(|| format!("k{}", self.dice.below(7)));
            let is_tombstone = key.is_some() && self.dice.chance(1, 6);
            (key, (!is_tombstone).then_some(value))
        });
        entries.collect()
    }

    /// A batch of new records, maybe with a producer that goes on where the log has it.
    fn batch(&mut self, name: &TopicPartition) -> Bytes {
        let known = Arc::clone(&self.facts[name]);
        let time = NOW.0 + self.count;
        let entries = self.entries(known.policy);
        let producer = self.dice.chance(2, 3).then(|| {
            let id = self.dice.between(1, 3);
            let epoch_bump = self.dice.chance(1, 15);
            let producers = Producers::of(known.lineage.iter().map(AsRef::as_ref));
            match producers.known.get(&id) {
                Some(known) if epoch_bump => (id, known.epoch + 1, 0),
                _ => self.goes_on(name, id, producers.known.get(&id)),
            }
        });
        broker::data(&entries, time, producer, false)
    }

    /// The producer's id, and with which epoch and sequence it goes on. The log may have forgotten its last
    /// sequence, if that is below the log start and a later marker kept its epoch: it is told so, as by Kafka,
    /// and takes a new epoch.
    fn goes_on(
        &self,
        name: &TopicPartition,
        id: i64,
        known: Option<&ProducerFacts>,
    ) -> (i64, i16, i32) {
        let Some(known) = known else { return (id, 0, 0) };
        let Some(Slot::Open(log)) = self.logs.get(name) else { panic!("{name} is open") };
        let mut described = log.producers().into_iter();
        let described = described.find(|described| described.producer_id.0 == id);
        let is_forgotten = known.sequence_at < self.facts[name].highest_start
            && described.is_some_and(|described| described.last_sequence.is_none());
        match known.last_sequence {
            Some(_) if is_forgotten => (id, known.epoch + 1, 0),
            last => (id, known.epoch, last.map_or(0, |last| last + 1)),
        }
    }

    fn produce(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("append");
        for _ in 0..=self.dice.below(3) {
            let batch = self.batch(name);
            let epoch = self.epoch_of(name);
            let request = broker::as_leader(&batch, epoch, AppendOrigin::Client)?;
            self.append(name, vec![request])?;
        }
        Ok(())
    }

    /// A leader's batches, several in one append.
    fn replicate(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("replicate");
        // A new leader's records may be of an epoch below the latest that was seen here and cut off.
        let lowest = self.facts[name].lineage.iter().rev().find_map(|batch| batch.epoch);
        let latest = self.open_log(name).latest_epoch().map_or(0, |epoch| epoch.0);
        let lowest = lowest.unwrap_or(0).max(latest).min(self.epoch);
        let epoch = i32::try_from(self.dice.between(lowest.into(), self.epoch.into()));
        let epoch = epoch.expect("an epoch");
        let mut requests = Vec::<Bytes>::new();
        let mut offset = self.facts[name].end;
        for _ in 0..=self.dice.below(2) {
            let time = NOW.0 + self.count;
            let entries = self.entries(self.facts[name].policy);
            let batch = broker::data(&entries, time, None, false);
            let batch = broker::placed(&batch, offset, epoch, AppendOrigin::Client);
            if requests.concat().len() + batch.len() > 1400 {
                break;
            }
            requests.push(batch);
            offset += i64::try_from(entries.len()).expect("few");
        }
        self.append(name, vec![broker::as_follower(requests.concat().into())])
    }

    fn replicate_legacy(&mut self, name: &TopicPartition) -> Result<(), String> {
        if self.facts[name].policy.is_compact() {
            return Ok(());
        }
        self.open(name)?;
        self.disk.set_phase("replicate");
        self.count += 1;
        let (offset, time) = (self.facts[name].end, NOW.0 + self.count);
        let magic = *self.dice.pick(&[0, 1, 1]);
        let message = broker::legacy(magic, offset, time, &format!("{:020}", self.count));
        self.change(name, |known| known.epochs_from = offset + 1);
        self.append(name, vec![broker::as_follower(message)])
    }

    fn transact(&mut self, name: &TopicPartition) -> Result<(), String> {
        self.open(name)?;
        self.disk.set_phase("append");
        let known = Arc::clone(&self.facts[name]);
        let id = self.dice.between(11, 12);
        let producers = Producers::of(known.lineage.iter().map(AsRef::as_ref));
        let producer = producers.known.get(&id).cloned().unwrap_or_default();
        let epoch = self.epoch_of(name);
        if producer.open_since.is_some() && self.dice.chance(2, 3) {
            self.count += 1;
            let committed = self.dice.chance(1, 2);
            let marker = broker::marker(id, producer.epoch, committed, NOW.0 + self.count);
            let request = broker::as_leader(&marker, epoch, AppendOrigin::Coordinator)?;
            return self.append(name, vec![request]);
        }
        let stamp = self.goes_on(name, id, producers.known.get(&id));
        let time = NOW.0 + self.count;
        let entries = self.entries(known.policy);
        let batch = broker::data(&entries, time, Some(stamp), true);
        let request = broker::as_leader(&batch, epoch, AppendOrigin::Client)?;
        self.append(name, vec![request])
    }

    fn append(
        &mut self,
        name: &TopicPartition,
        requests: Vec<AppendRequest>,
    ) -> Result<(), String> {
        let end = self.facts[name].end;
        let log = self.open_log(name);
        let mut pending = Vec::<PendingAppend>::new();
        for request in requests {
            match log.reserve(request).map_err(|error| format!("{name}: {error}"))? {
                Reserved::Pending(append) => pending.push(append),
                other @ (Reserved::Duplicate(_) | Reserved::Empty) => {
                    return Err(format!("{name}: a new batch is taken for {other:?}"));
                }
            }
        }
        let outcome = PendingAppend::write_all(&pending);
        for append in pending {
            log.publish(append, &outcome).map_err(|error| error.to_string())?;
        }
        let found = broker::read_from(log, end)?;
        let new_end = log.log_end_offset();
        let moves = self.dice.chance(5, 6);
        let log = self.open_log(name);
        if moves {
            log.set_high_watermark(new_end);
        }
        self.change(name, |known| {
            known.lineage.extend(found.into_iter().map(Arc::new));
            known.end = new_end.0;
        });
        self.note("append");
        Ok(())
    }
}
