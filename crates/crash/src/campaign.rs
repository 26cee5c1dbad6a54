//! Many workloads, many crashes of each.

use crate::dice::Dice;
use crate::disk::{Label, RecordingDisk};
use crate::image::Tracker;
use crate::tree::Tree;
use crate::verdict::{self, End};
use crate::workload::{Life, live};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

/// So many times the power fails in each workload, but for the last time that ends it.
const GENERATIONS: usize = 3;

/// One crash: which workload, which of its lives, after how many operations, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The workload's seed.
    pub workload: u64,
    /// The life, counted from 0.
    pub life: usize,
    /// The operations that were done by then.
    pub operations: usize,
    /// The seed of what the power cut left; `None` if the process was killed.
    pub power_cut: Option<u64>,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:", self.workload, self.life, self.operations)?;
        match self.power_cut {
            Some(seed) => write!(f, "{seed}"),
            None => f.write_str("killed"),
        }
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not WORKLOAD:LIFE:OPERATIONS:SEED or ...:killed");
        let fields = text.split(':').collect::<Vec<_>>();
        let [workload, life, operations, how] = fields[..] else { return Err(wrong()) };
        let power_cut = match how {
            "killed" => None,
            seed => Some(seed.parse().map_err(|_| wrong())?),
        };
        Ok(Self {
            workload: workload.parse().map_err(|_| wrong())?,
            life: life.parse().map_err(|_| wrong())?,
            operations: operations.parse().map_err(|_| wrong())?,
            power_cut,
        })
    }
}

/// A crash that lost what it must not, or that the log did not recover from.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub crash: Crash,
    /// The step of the workload, and what is wrong.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (cargo xtask crash --replay {})", self.crash, self.reason, self.crash)
    }
}

/// What was tried.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Workloads.
    pub workloads: u64,
    /// Their operations.
    pub operations: u64,
    /// Images of crashes, each recovered twice, and once more after a crash during recovery.
    pub images: u64,
    /// Recoveries.
    pub recoveries: u64,
    /// Images by the step of the workload that the crash came in.
    pub by_step: BTreeMap<String, u64>,
}

/// What a campaign is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The first workload's seed.
    pub seed: u64,
    /// How many images.
    pub images: u64,
    /// At most so many of one workload; chosen at random if it has more.
    pub of_each: usize,
    /// An operation that is not done.
    pub left_out: Option<Label>,
    /// Whether to stop at the first failure.
    pub stops: bool,
}

/// Tries as many images as are asked for; `tell` is called after each workload.
pub fn run(options: Options, mut tell: impl FnMut(&Totals)) -> (Totals, Vec<Failure>) {
    let (mut totals, mut failures) = (Totals::default(), Vec::new());
    let mut workload = options.seed;
    while totals.images < options.images {
        let lives = live_safely(workload, options.left_out);
        let lives = match lives {
            Ok(lives) => lives,
            Err(reason) => {
                let crash = Crash { workload, life: 0, operations: 0, power_cut: None };
                failures.push(Failure { crash, reason });
                totals.images += 1;
                workload += 1;
                if options.stops {
                    return (totals, failures);
                }
                continue;
            }
        };
        totals.workloads += 1;
        let dice = Dice::new(workload ^ 0x5eed);
        for (number, life) in lives.iter().enumerate() {
            totals.operations += life.operations.len() as u64;
            let left = usize::try_from(options.images - totals.images).unwrap_or(usize::MAX);
            let most = (options.of_each / lives.len()).min(left);
            let mut crashes = crashes_of(life, number, workload, most, &dice);
            for &(operations, seed) in &life.suspects {
                let power_cut = Some(seed);
                crashes.push(Crash { workload, life: number, operations, power_cut });
            }
            crashes.sort_by_key(|crash| crash.operations);
            let found = try_all(life, &crashes, &mut totals, options);
            if let Some(reason) = &life.failure {
                let operations = life.operations.len();
                let crash = Crash { workload, life: number, operations, power_cut: None };
                failures.push(Failure { crash, reason: reason.clone() });
            }
            failures.extend(found);
            if options.stops && !failures.is_empty() {
                return (totals, failures);
            }
        }
        tell(&totals);
        workload += 1;
    }
    (totals, failures)
}

/// Tries one crash again, and says on standard error what is known of the logs, what the crash left, and which
/// `context` operations came last.
///
/// # Errors
/// What is wrong.
pub fn replay(crash: Crash, context: usize) -> Result<(), Failure> {
    let fail = |reason| Failure { crash, reason };
    let lives = live_safely(crash.workload, None).map_err(fail)?;
    let life = lives.get(crash.life).ok_or_else(|| fail("there is no such life".to_owned()))?;
    let count = crash.operations.min(life.operations.len());
    let (before, after) = life.around(count);
    for facts in [before, after] {
        eprintln!("after step {:?}:", facts.step);
        for (name, log) in &facts.logs {
            let batches = log.lineage.iter().map(|batch| {
                let stamp = batch.stamp.map(|stamp| (stamp.id, stamp.first, stamp.last));
                format!("{}-{} {:?} {stamp:?}", batch.base, batch.last, batch.epoch)
            });
            let (start, end, durable) = (log.start, log.end, log.durable);
            let batches = batches.collect::<Vec<_>>();
            eprintln!("{name}: {start}..{end}, durable below {durable}: {batches:?}");
        }
    }
    let mut tracker = Tracker::new(&life.base);
    life.operations[..count].iter().for_each(|operation| tracker.apply(operation));
    let image = crash.power_cut.map_or_else(|| tracker.killed(), |seed| tracker.power_cut(seed));
    for (path, bytes) in image.files() {
        let text = path.contains("checkpoint").then(|| String::from_utf8_lossy(&bytes));
        eprintln!("{path} {} {:?}", bytes.len(), text.unwrap_or_default());
    }
    let done = life.labels.iter().zip(&life.operations).enumerate().take(count);
    for (at, (label, operation)) in done.skip(count.saturating_sub(context)) {
        eprintln!("{at}: {label}: {:.110}", format!("{operation:?}"));
    }
    let options = Options { seed: 0, images: 1, of_each: 1, left_out: None, stops: true };
    match try_all(life, &[crash], &mut Totals::default(), options).pop() {
        Some(failure) => Err(failure),
        None => match &life.failure {
            Some(reason) if count == life.operations.len() => Err(fail(reason.clone())),
            _ => Ok(()),
        },
    }
}

fn safely<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("it panics: {}", text.unwrap_or("without a word"))
    })
}

fn live_safely(workload: u64, left_out: Option<Label>) -> Result<Vec<Life>, String> {
    safely(|| live(workload, GENERATIONS, left_out))
}

/// The crashes to try: after every operation the process is killed and the power cut, or a random
/// selection of those.
fn crashes_of(life: &Life, number: usize, workload: u64, most: usize, dice: &Dice) -> Vec<Crash> {
    let counts = 0..=life.operations.len();
    let mut crashes = counts
        .flat_map(|operations| {
            let crash = |power_cut| Crash { workload, life: number, operations, power_cut };
            [crash(None), crash(Some(dice.seed() >> 32)), crash(Some(dice.seed() >> 32))]
        })
        .collect::<Vec<_>>();
    while crashes.len() > most {
        crashes.swap_remove(dice.below(crashes.len()));
    }
    crashes
}

fn try_all(life: &Life, crashes: &[Crash], totals: &mut Totals, options: Options) -> Vec<Failure> {
    let mut tracker = Tracker::new(&life.base);
    let mut failures = Vec::new();
    let mut done = 0;
    for crash in crashes {
        let upto = crash.operations.min(life.operations.len());
        life.operations[done..upto].iter().for_each(|operation| tracker.apply(operation));
        done = upto;
        let (before, after) = life.around(done);
        let step = if before.operations < done { &after.step } else { &before.step };
        totals.images += 1;
        *totals.by_step.entry(step.clone()).or_default() += 1;
        let outcome =
            safely(|| try_one(life, *crash, &tracker, &mut totals.recoveries, options.left_out));
        if let Err(reason) = outcome.and_then(|outcome| outcome) {
            failures.push(Failure { crash: *crash, reason: format!("{step}: {reason}") });
            if options.stops {
                break;
            }
        }
    }
    failures
}

fn try_one(
    life: &Life,
    crash: Crash,
    tracker: &Tracker,
    recoveries: &mut u64,
    left_out: Option<Label>,
) -> Result<(), String> {
    let (before, after) = life.around(crash.operations);
    let (image, boot, end) = match crash.power_cut {
        None => (tracker.killed(), life.boot, End::Killed),
        Some(seed) => (tracker.power_cut(seed), life.boot + 1, End::PowerCut),
    };
    let recover = |tree: Tree, boot: u64| {
        let disk = RecordingDisk::new(tree, boot);
        disk.leave_out(left_out);
        verdict::recover(&disk, before, after).map(|started| (started, disk))
    };
    *recoveries += 3;
    let (first, disk) = recover(image.clone(), boot)?;
    let found = first.found.clone();
    verdict::judge(&found, before, after, end)?;

    let at = |what: &'static str| move |error: String| format!("{what}: {error}");
    let (recovered, operations) = (disk.tree(), disk.operations());
    first.finish_moves(before, after, end)?;
    let (again, second) = recover(recovered.clone(), boot).map_err(at("the second time"))?;
    let (again, logs) = (again.found, again.logs);
    // A clean stop is one only once.
    if let Some(difference) = again.differs(&found, before, after) {
        return Err(format!("recovered twice it differs: {difference}"));
    }
    let (files, files_again) = (recovered.files(), second.tree().files());
    if files != files_again && found.needs_recovery() {
        // The log may end below its recovery point, which is lowered then: the second time indexes and snapshots
        // of one segment more are made anew. That is the end of it.
        *recoveries += 1;
        let (third, disk) = recover(second.tree(), boot).map_err(at("the third time"))?;
        let at_last = disk.tree().files();
        if let Some(difference) = third.found.differs(&again, before, after) {
            return Err(format!("recovered three times it differs: {difference}"));
        }
        for path in files.keys().chain(files_again.keys()).chain(at_last.keys()) {
            let versions = [&files, &files_again, &at_last].map(|files| files.get(path));
            let is_hint = [".index", ".timeindex", ".snapshot", ".checksums"]
                .iter()
                .any(|e| path.ends_with(e));
            if versions[0] != versions[1] && !is_hint || versions[1] != versions[2] {
                let lengths = versions.map(|bytes| bytes.map(Vec::len));
                return Err(format!("recovered three times {path} has {lengths:?} bytes"));
            }
        }
    }
    verdict::judge_retries(logs, &found, before, after)?;

    // A crash during recovery.
    let dice = Dice::new(crash.power_cut.unwrap_or(crash.operations as u64) ^ 0xacc1d);
    let mut tracker = Tracker::new(&image);
    let count = dice.below(operations.len() + 1);
    operations[..count].iter().for_each(|operation| tracker.apply(operation));
    let (again, _) = recover(tracker.killed(), boot).map_err(at("killed during recovery"))?;
    if let Some(difference) = again.found.differs(&found, before, after) {
        return Err(format!("killed during recovery: {difference}"));
    }
    if end == End::PowerCut {
        *recoveries += 1;
        let image = tracker.power_cut(dice.seed());
        let (again, _) = recover(image, boot + 1).map_err(at("power cut during recovery"))?;
        verdict::judge(&again.found.without_the_stop(), before, after, end)
            .map_err(at("power cut during recovery"))?;
    }
    Ok(())
}
