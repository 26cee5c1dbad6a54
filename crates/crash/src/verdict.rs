//! Recovers what a crash left and judges it.

use crate::broker::{self, NOW};
use crate::disk::RecordingDisk;
use crate::facts::{Aborted, BatchFact, Facts, LogFacts, Policy, Producers};
use model::{Instant, LeaderEpoch, Offset, Timestamp, TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::{ClosedLog, LogDirectories, PartitionLog, ProducerDescription};

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process was killed: whatever was written is there.
    Killed,
    /// The power failed.
    PowerCut,
}

/// A log as it is after recovery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundLog {
    id: Option<TopicId>,
    start: i64,
    end: i64,
    high_watermark: i64,
    batches: Vec<BatchFact>,
    /// By the offset of the first record of each batch that can be read.
    epochs: Vec<(i64, Option<LeaderEpoch>)>,
    latest_epoch: Option<LeaderEpoch>,
    producers: Vec<ProducerDescription>,
    aborted: BTreeSet<(i64, i64)>,
    /// By timestamp the offset that is found for it.
    times: Vec<(i64, Option<i64>)>,
}

impl FoundLog {
    /// What every recovery must find. Old formats make a log forget its epochs: a second recovery may have
    /// them back from the batches, and each is judged by itself. What batches below the log start told of
    /// producers may be known or not: whether a segment is read from its start depends on more than the batches.
    fn certain(&self, known: &LogFacts) -> Self {
        let start = self.start.max(known.highest_start);
        // What is not there although compaction never came so far was lost, in a gap.
        let is_left = |batch: &&BatchFact| {
            (start..self.end).contains(&batch.last)
                && (batch.last < known.compacted_to || self.batches.contains(batch))
        };
        let told = || known.lineage.iter().map(AsRef::as_ref).filter(is_left);
        let of = |id: i64| {
            told().filter(move |batch: &&BatchFact| batch.stamp.is_some_and(|stamp| stamp.id == id))
        };
        let described = self.producers.iter().filter(|found| of(found.producer_id.0).count() > 0);
        let producers = described.cloned().map(|mut found| {
            let id = found.producer_id.0;
            if !of(id).any(|batch| !batch.is_control()) {
                found.last_sequence = None;
            }
            if !of(id).any(BatchFact::is_control) {
                found.coordinator_epoch = None;
            }
            if found.current_transaction_first_offset.is_some_and(|first| first.0 < start) {
                let is_open = |batch: &&BatchFact| batch.stamp.is_some_and(|s| s.is_transactional);
                let first = of(id).filter(|batch| !batch.is_control()).find(is_open);
                found.current_transaction_first_offset = first.map(|batch| Offset(batch.base));
            }
            found
        });
        let producers = producers.collect();
        // Of a transaction whose records are all below a reader may be told or not.
        let ended = Producers::of(known.lineage.iter().map(AsRef::as_ref)).aborted;
        let is_readable = |one: &Aborted| {
            self.batches.iter().any(|batch| batch.base >= start && one.holds(batch))
        };
        let is_of = |one: &Aborted, told: &(i64, i64)| {
            one.producer == told.0 && (told.1..one.marker).contains(&one.first.max(told.1))
        };
        let matters =
            |told: &&(i64, i64)| ended.iter().any(|one| is_of(one, told) && is_readable(one));
        let aborted = self.aborted.iter().filter(matters).copied().collect();
        Self { epochs: Vec::new(), latest_epoch: None, producers, aborted, ..self.clone() }
    }
}

/// What is there after recovery.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) logs: BTreeMap<TopicPartition, FoundLog>,
    may_lack_records: bool,
    needs_recovery: bool,
    cluster_id: Option<String>,
}

impl Found {
    /// What a later start found otherwise than the `first`. A clean stop is one only for the first.
    pub(crate) fn differs(&self, first: &Self, before: &Facts, after: &Facts) -> Option<String> {
        if !self.logs.keys().eq(first.logs.keys()) {
            return Some(format!("{:?} and {:?}", first.logs.keys(), self.logs.keys()));
        }
        let common = (&self.cluster_id, self.may_lack_records || !first.needs_recovery);
        if common != (&first.cluster_id, first.may_lack_records || !first.needs_recovery) {
            return Some(format!("{common:?}"));
        }
        if !first.needs_recovery {
            return None;
        }
        for (name, log) in &first.logs {
            let known = [before, after].into_iter().filter_map(|facts| facts.logs.get(name));
            let known = known.filter(|known| log.id.is_none_or(|id| known.id == id));
            let Some(known) = known.max_by_key(|known| known.lineage.len()) else {
                return Some(format!("{name} is not known"));
            };
            let (log, again) = (log.certain(known), self.logs[name].certain(known));
            if log != again {
                return Some(format!("{name}: {}", difference(&log, &again)));
            }
        }
        None
    }

    /// Whether the stop was not a clean one.
    pub(crate) fn needs_recovery(&self) -> bool {
        self.needs_recovery
    }

    /// As the start after an interrupted one finds it.
    pub(crate) fn without_the_stop(self) -> Self {
        Self { needs_recovery: false, ..self }
    }
}

/// A broker that was started on what a crash left, with every log open.
pub(crate) struct Started {
    pub(crate) found: Found,
    pub(crate) logs: BTreeMap<TopicPartition, PartitionLog>,
    /// Copies on their way to another directory.
    copies: Vec<PartitionLog>,
    directories: LogDirectories,
}

/// Starts on the disk and opens every log.
pub(crate) fn recover(
    disk: &RecordingDisk,
    before: &Facts,
    after: &Facts,
) -> Result<Started, String> {
    disk.set_phase("recovery");
    let (directories, closed) = broker::start(disk, 1)?;
    let (copies, closed): (Vec<_>, Vec<_>) = closed.into_iter().partition(ClosedLog::is_future);
    let mut logs = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut needs_recovery = false;
    let open = |log: ClosedLog, config| {
        let name = log.topic_partition().clone();
        let opened = log.open(Arc::new(config), NOW);
        opened.map_err(|(_, error)| format!("{name} cannot be opened: {error}"))
    };
    for log in closed {
        let name = log.topic_partition().clone();
        let known = after.logs.get(&name).or_else(|| before.logs.get(&name));
        let known = known.ok_or_else(|| format!("{name} was deleted and is there"))?;
        needs_recovery |= log.needs_recovery();
        let log = open(log, known.policy.config())?;
        let described = describe(&log).map_err(|error| format!("{name}: {error}"))?;
        found.insert(name.clone(), described);
        logs.insert(name, log);
    }
    let copies = copies.into_iter().map(|copy| {
        let name = copy.topic_partition();
        let known = after.logs.get(name).or_else(|| before.logs.get(name));
        let policy = known.map_or(Policy::Delete, |known| known.policy);
        open(copy, policy.config()).map_err(|error| format!("the copy of {error}"))
    });
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    let found = Found {
        logs: found,
        needs_recovery,
        may_lack_records: directories.may_lack_records(),
        cluster_id: directories.cluster_id().map(str::to_owned),
    };
    Ok(Started { found, logs, copies, directories })
}

impl Started {
    /// Goes on with the moves that the crash interrupted, to their end: in the other directory the logs are judged
    /// again.
    pub(crate) fn finish_moves(
        self,
        before: &Facts,
        after: &Facts,
        end: End,
    ) -> Result<(), String> {
        let Self { found, mut logs, copies, directories } = self;
        for mut copy in copies {
            let name = copy.topic_partition().clone();
            let Some(log) = logs.remove(&name) else { continue };
            if log.topic_id() != copy.topic_id() {
                continue;
            }
            let failed = |error: String| format!("{name}, moved: {error}");
            copy.agree_with(&log, NOW).map_err(|error| failed(error.to_string()))?;
            let mut last = None;
            while !broker::copy_step(&log, &mut copy).map_err(failed)?
                && last != Some(copy.log_end_offset())
            {
                last = Some(copy.log_end_offset());
            }
            if copy.log_end_offset() < log.log_end_offset() {
                // It ends with a gap.
                continue;
            }
            let moved = broker::take_place(&directories, log, copy, Instant::default());
            let moved = describe(&moved.map_err(failed)?).map_err(failed)?;
            let was = &found.logs[&name];
            if moved.end != was.end {
                return Err(failed(format!("it ends at {}, not at {}", moved.end, was.end)));
            }
            if !has_holes(&name, was, before, after) {
                judge_log(&name, &moved, before, after, end).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Where the descriptions of two logs begin to differ.
fn difference(a: &FoundLog, b: &FoundLog) -> String {
    let (a, b) = (format!("{a:?}"), format!("{b:?}"));
    let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        let range = at.saturating_sub(60)..text.len().min(at + 60);
        String::from_utf8_lossy(&text.as_bytes()[range]).into_owned()
    };
    format!("{:?} and {:?}", part(&a), part(&b))
}

fn describe(log: &PartitionLog) -> Result<FoundLog, String> {
    let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
    let (batches, aborted) = broker::read_with_aborted(log, start)?;
    // By way of the index, not one after the other.
    for batch in batches.iter().rev().step_by(3).filter(|batch| batch.last < end) {
        let first = broker::first_at(log, batch.last)?;
        if first.as_ref() != Some(batch) {
            return Err(format!("offset {} is not found where it is", batch.last));
        }
    }
    let epoch_at = |batch: &BatchFact| {
        let at = batch.base.max(start);
        (at, log.epoch_for_offset(Offset(at)))
    };
    let times = batches.iter().step_by(4).flat_map(|batch| batch.records.first());
    let times = times.map(|record| {
        let found = log.offset_for_timestamp(Timestamp(record.timestamp));
        let found = found.map_err(|error| format!("a timestamp is not looked up: {error}"))?;
        Ok((record.timestamp, found.map(|found| found.offset.0)))
    });
    Ok(FoundLog {
        id: log.topic_id(),
        start,
        end,
        high_watermark: log.high_watermark().0,
        epochs: batches.iter().map(epoch_at).collect(),
        latest_epoch: log.latest_epoch(),
        producers: log.producers(),
        aborted,
        times: times.collect::<Result<_, String>>()?,
        batches,
    })
}

/// Whether what was found is what may be left of what was known.
pub(crate) fn judge(found: &Found, before: &Facts, after: &Facts, end: End) -> Result<(), String> {
    if before.is_closed && after.is_closed && found.needs_recovery {
        return Err("logs are to be recovered after a clean stop".to_owned());
    }
    let mut lacks = false;
    for (name, log) in &found.logs {
        judge_log(name, log, before, after, end).map_err(|error| format!("{name}: {error}"))?;
        lacks |= lacks_batches(name, log, before, after);
    }
    for (name, was) in &before.logs {
        let is_there = found.logs.contains_key(name);
        let stays = after.logs.get(name).is_some_and(|is| is.id == was.id);
        let is_durable = end == End::Killed || was.is_durable;
        if stays && is_durable && !is_there {
            return Err(format!("{name} is gone"));
        }
        lacks |= stays && !is_there && was.end > 0;
    }
    if end == End::PowerCut && lacks && !found.may_lack_records {
        return Err("records are missing, and the broker does not know it".to_owned());
    }
    if before.is_claimed && found.cluster_id.as_deref() != Some("cluster") {
        return Err(format!("the directory belongs to cluster {:?}", found.cluster_id));
    }
    Ok(())
}

/// Whether batches are missing at the end that were there before the step and after it.
fn lacks_batches(name: &TopicPartition, log: &FoundLog, before: &Facts, after: &Facts) -> bool {
    let (Some(was), Some(is)) = (before.logs.get(name), after.logs.get(name)) else { return false };
    let same = was.lineage.iter().zip(&is.lineage).take_while(|(was, is)| was == is);
    same.map(|(was, _)| was.last).last().is_some_and(|last| last >= log.end)
}

fn judge_log(
    name: &TopicPartition,
    log: &FoundLog,
    before: &Facts,
    after: &Facts,
    end: End,
) -> Result<(), String> {
    let (was, is) = (before.logs.get(name), after.logs.get(name));
    let known = [is, was].into_iter().flatten().collect::<Vec<_>>();
    match log.id {
        Some(id) if !known.iter().any(|known| known.id == id) => {
            return Err(format!("it is of topic {id}, which was deleted"));
        }
        None if known.iter().all(|known| known.has_id)
            && (known.iter().all(|known| known.is_durable)
                || end == End::Killed && known.len() == 2
                || !log.batches.is_empty()) =>
        {
            return Err(format!("it ends at {} and has lost the topic's id", log.end));
        }
        _ => {}
    }
    let known = known.into_iter().filter(|known| log.id.is_none_or(|id| known.id == id));
    let known = known.collect::<Vec<_>>();
    let is_new = known.len() < 2;
    let least = |value: &dyn Fn(&LogFacts) -> i64| match is_new {
        true => 0,
        false => known.iter().map(|known| value(known)).min().unwrap_or(0),
    };
    // What the step cuts off need not be there.
    let common = match (was, is) {
        (Some(was), Some(is)) => {
            let same =
                was.lineage.iter().zip(&is.lineage).take_while(|(was, is)| was == is).count();
            was.lineage.get(same).map_or(i64::MAX, |first| first.base)
        }
        _ => 0,
    };
    let bound = Bounds {
        power_cut: end == End::PowerCut,
        kept: common.min(least(&|known| match end {
            End::Killed => known.end,
            End::PowerCut => known.durable,
        })),
        contiguous_from: known.iter().map(|known| known.highest_start).max().unwrap_or(0),
        compacted_to: known.iter().map(|known| known.compacted_to).max().unwrap_or(0),
    };
    let (lowest, highest) =
        (least(&|known| known.durable_start), known.iter().map(|known| known.start).max());
    // A log that is to start anew may have lost everything by now.
    let is_emptied = known.iter().any(|known| known.lineage.is_empty());
    if (log.start < lowest && !is_emptied) || Some(log.start) > highest {
        return Err(format!("it starts at {}, not in {lowest}..={highest:?}", log.start));
    }
    let high_watermark = least(&|known| known.durable_high_watermark).min(log.end);
    if log.high_watermark < high_watermark || log.high_watermark > log.end {
        return Err(format!(
            "the high watermark is {}, not in {high_watermark}..={}",
            log.high_watermark, log.end
        ));
    }
    let outcomes = known.into_iter().map(|known| fits(log, known, bound)).collect::<Vec<_>>();
    if outcomes.iter().any(Result::is_ok) {
        return Ok(());
    }
    let mut reasons = outcomes.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    reasons.dedup();
    Err(reasons.join("; or, before the step: "))
}

/// What must be there whichever of the two states it is.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    power_cut: bool,
    /// Batches below are not lost.
    kept: i64,
    /// No batch may be missing between this and the end.
    contiguous_from: i64,
    /// Compaction may have changed what is below.
    compacted_to: i64,
}

/// What is known of a log after a crash, if it can be told which of the two states it is in.
pub(crate) fn lineage_of(
    name: &TopicPartition,
    log: &FoundLog,
    before: &Facts,
    after: &Facts,
) -> Option<LogFacts> {
    let known = [after, before].into_iter().filter_map(|facts| facts.logs.get(name));
    let mut known = known.filter(|known| log.id.is_none_or(|id| known.id == id));
    let most = [before, after].into_iter().filter_map(|facts| facts.logs.get(name));
    let (from, to) = most.fold((0, 0), |(from, to), known| {
        (known.highest_start.max(from), known.compacted_to.max(to))
    });
    let bound = Bounds { power_cut: true, kept: 0, contiguous_from: from, compacted_to: to };
    let known = known.find(|known| fits(log, known, bound).is_ok())?;
    let mut known = LogFacts::clone(known);
    known.lineage.retain(|batch| batch.last < log.end);
    known.highest_start = from;
    known.compacted_to = to;
    known.end = log.end;
    known.has_id = log.id.is_some();
    known.set_start(log.start);
    known.durable = known.durable.min(log.end);
    known.durable_start = known.durable_start.min(log.start);
    known.durable_high_watermark = known.durable_high_watermark.min(log.high_watermark);
    Some(known)
}

/// Whether it is a compacted log that a power cut left with gaps.
pub(crate) fn has_holes(
    name: &TopicPartition,
    log: &FoundLog,
    before: &Facts,
    after: &Facts,
) -> bool {
    let Some(known) = lineage_of(name, log, before, after) else { return false };
    let bound = Bounds {
        power_cut: true,
        kept: 0,
        contiguous_from: known.highest_start,
        compacted_to: known.compacted_to,
    };
    known.policy.is_compact() && fits_compacted(log, &known, bound) == Ok(Holes::Some)
}

/// Whether the log is what remains of `known`: a prefix of what was written, and everything derived from
/// it right.
fn fits(log: &FoundLog, known: &LogFacts, bound: Bounds) -> Result<(), String> {
    if log.end > known.end.max(log.start) {
        return Err(format!("it ends at {}, and nothing was written above {}", log.end, known.end));
    }
    if known.policy.is_compact() {
        if fits_compacted(log, known, bound)? == Holes::Some {
            return judge_epochs(log, i64::MAX);
        }
    } else {
        fits_whole(log, known, bound.contiguous_from.max(log.start), bound.kept)?;
        judge_times(log)?;
    }
    judge_epochs(log, known.epochs_from.max(bound.contiguous_from))?;
    let lineage = known.lineage.iter().filter(|batch| batch.last < log.end);
    let producers = Producers::of(lineage.map(AsRef::as_ref));
    // Below, batches may be missing.
    let from = bound.contiguous_from.max(log.start);
    judge_producers(log, known, &producers, from)?;
    judge_aborted(log, known, &producers, from)
}

/// Every record of an aborted transaction that can be read is said to be of one, and no other is. Where a
/// transaction began is not known any more once the log start has passed it, or compaction removed what it
/// began with.
fn judge_aborted(
    log: &FoundLog,
    known: &LogFacts,
    producers: &Producers,
    from: i64,
) -> Result<(), String> {
    for &(producer, first) in &log.aborted {
        let mut aborted = producers.aborted.iter().filter(|one| one.producer == producer);
        let begins_one = |one: &Aborted| {
            known.lineage.iter().any(|batch| batch.base == first && one.holds(batch))
        };
        if !aborted.any(begins_one) {
            return Err(format!(
                "no transaction of producer {producer} from {first} on was aborted"
            ));
        }
    }
    for one in &producers.aborted {
        let readable = log.batches.iter().filter(|batch| batch.base >= from && one.holds(batch));
        for batch in readable {
            let range = (one.producer, one.first)..=(one.producer, batch.base);
            if log.aborted.range(range).next().is_none() {
                let said = &log.aborted;
                return Err(format!("{one:?} is not told of batch {}, only {said:?}", batch.base));
            }
        }
    }
    Ok(())
}

fn fits_whole(log: &FoundLog, known: &LogFacts, from: i64, kept: i64) -> Result<(), String> {
    let is_compacted = known.policy.is_compact();
    for batch in log.batches.iter().filter(|batch| batch.last < from && !is_compacted) {
        if !known.lineage.iter().any(|known| known.as_ref() == batch) {
            return Err(format!("the batch at {} is none that was written", batch.base));
        }
    }
    let mut durable = known.lineage.iter().filter(|batch| batch.last < kept);
    if let Some(batch) = durable.find(|batch| batch.last >= log.end) {
        return Err(format!(
            "it ends at {} and the batch at {} is lost: everything below {kept} is durable",
            log.end, batch.base
        ));
    }
    let mut found = log.batches.iter().filter(|batch| batch.last >= from);
    let expected = known.lineage.iter().filter(|batch| batch.last >= from);
    for batch in expected {
        if batch.last >= log.end {
            continue;
        }
        match found.next() {
            Some(found) if found == batch.as_ref() => {}
            Some(found) => {
                return Err(format!(
                    "the batch at {} ({:?}) is not what was written at {} ({:?})",
                    found.base, found.epoch, batch.base, batch.epoch
                ));
            }
            None => return Err(format!("the batch at {} is missing", batch.base)),
        }
    }
    match found.next() {
        Some(batch) => Err(format!("the batch at {} was cut off or never written", batch.base)),
        None => Ok(()),
    }
}

/// Keys and their last values, by committed records from `from` on, up to `to`.
fn table<'a>(
    batches: impl Iterator<Item = &'a BatchFact>,
    aborted: &BTreeSet<i64>,
    from: i64,
    to: i64,
) -> BTreeMap<&'a [u8], &'a [u8]> {
    let mut table = BTreeMap::new();
    let records = batches.filter(|batch| !batch.is_control()).flat_map(|batch| &batch.records);
    let records = records.filter(|record| record.offset >= from && record.offset < to);
    for record in records.filter(|record| !aborted.contains(&record.offset)) {
        let Some(key) = record.key.as_deref() else { continue };
        match record.value.as_deref() {
            Some(value) => drop(table.insert(key, value)),
            None => drop(table.remove(key)),
        }
    }
    table
}

/// Whether a power cut left gaps in a compacted log, among what was not durable: recovery cannot tell them
/// from those of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holes {
    None,
    Some,
}

fn fits_compacted(log: &FoundLog, known: &LogFacts, bound: Bounds) -> Result<Holes, String> {
    let from = bound.contiguous_from.max(log.start);
    let mut at = log.start - 1;
    for batch in &log.batches {
        if batch.last <= at {
            return Err(format!("the batch at {} comes after offset {at}", batch.base));
        }
        at = batch.last;
        for record in batch.records.iter().filter(|_| !batch.is_control()) {
            let mut written = known.lineage.iter().flat_map(|batch| &batch.records);
            if !written.any(|written| written == record) {
                return Err(format!("the record at {} was never written", record.offset));
            }
        }
    }
    let mut holes = Holes::None;
    let whole_from = from.max(bound.compacted_to);
    if log.end >= bound.compacted_to
        && let Err(error) = fits_whole(log, known, whole_from, bound.kept)
    {
        let missing =
            known.lineage.iter().filter(|batch| batch.base < log.end && batch.last >= whole_from);
        let mut missing = missing.filter(|batch| !log.batches.contains(batch));
        if !bound.power_cut || missing.any(|batch| batch.last < bound.kept) {
            return Err(error);
        }
        holes = Holes::Some;
    }
    let producers = Producers::of(known.lineage.iter().map(AsRef::as_ref));
    let mut aborted = BTreeSet::new();
    for one in &producers.aborted {
        let inside = known.lineage.iter().filter(|batch| one.holds(batch));
        aborted.extend(inside.flat_map(|batch| &batch.records).map(|record| record.offset));
    }
    let to = if holes == Holes::Some { bound.kept } else { log.end.max(bound.kept) };
    let expected = table(known.lineage.iter().map(AsRef::as_ref), &aborted, from, to);
    let found = table(log.batches.iter(), &aborted, from, to);
    if expected != found {
        let differs = expected.iter().find(|(key, value)| found.get(*key) != Some(value));
        let differs =
            differs.or_else(|| found.iter().find(|(key, _)| !expected.contains_key(*key)));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_start_matches('0').to_owned();
        let key = differs.map(|(key, _)| *key).unwrap_or_default();
        return Err(format!(
            "the last value of {} below {to} is {:?} and it has {:?}",
            text(key),
            expected.get(key).map(|value| text(value)),
            found.get(key).map(|value| text(value)),
        ));
    }
    Ok(holes)
}

/// The cache of leader epochs is a projection of the log.
fn judge_epochs(log: &FoundLog, known_from: i64) -> Result<(), String> {
    let after_legacy = log.batches.iter().rposition(|batch| batch.is_legacy).map_or(0, |at| at + 1);
    let with_epochs = log.batches.iter().zip(&log.epochs).skip(after_legacy);
    let mut last = None;
    for (batch, (at, found)) in with_epochs {
        if batch.epoch.is_some() {
            let found = found.map(|epoch| epoch.0);
            if batch.epoch != found && (found.is_some() || *at >= known_from) {
                return Err(format!("offset {at} is of epoch {:?}, not {found:?}", batch.epoch));
            }
            if batch.epoch < last {
                return Err(format!("the epoch falls from {last:?} at offset {at}"));
            }
            last = batch.epoch;
        }
    }
    let latest = log.latest_epoch.map(|epoch| epoch.0);
    if latest < last && (latest.is_some() || log.end > known_from) {
        return Err(format!("the latest epoch is {latest:?}, and records are of {last:?}"));
    }
    Ok(())
}

fn judge_producers(
    log: &FoundLog,
    known: &LogFacts,
    producers: &Producers,
    from: i64,
) -> Result<(), String> {
    let found = log.producers.iter().map(|found| (found.producer_id.0, found));
    let found = found.collect::<BTreeMap<_, _>>();
    for (id, expected) in &producers.known {
        let Some(found) = found.get(id) else {
            // Nothing is known of producers whose records are all gone.
            if expected.told_at >= from {
                return Err(format!("producer {id} is not known"));
            }
            continue;
        };
        let says = (
            found.epoch.0,
            found.last_sequence.map(|sequence| sequence.0),
            found.current_transaction_first_offset.map(|offset| offset.0),
        );
        let open = expected.open_since;
        let wanted = (expected.epoch, expected.last_sequence, open);
        // Of a transaction that began below the log start only a snapshot tells.
        let is_cut = open.is_some_and(|first| first < from);
        // And of a sequence that only such a record has.
        let is_forgotten = expected.sequence_at < from && says.1.is_none();
        let is_right = expected.told_at < from
            || says.0 == wanted.0
                && (says.1 == wanted.1 || is_forgotten)
                && (says.2 == wanted.2 || is_cut);
        if !is_right {
            return Err(format!("producer {id} is at {says:?}, not {wanted:?}"));
        }
        let coordinator_epoch = expected.coordinator_epoch;
        if !known.policy.is_compact()
            && expected.told_at >= from
            && found.coordinator_epoch.is_some()
            && found.coordinator_epoch != coordinator_epoch
        {
            return Err(format!("producer {id}'s coordinator is not {coordinator_epoch:?}"));
        }
    }
    match found.keys().find(|id| !producers.known.contains_key(id)) {
        Some(id) => Err(format!("producer {id} never wrote")),
        None => Ok(()),
    }
}

fn judge_times(log: &FoundLog) -> Result<(), String> {
    let records = || log.batches.iter().flat_map(|batch| &batch.records);
    // Records without a timestamp are not found by one, and those behind them not always.
    if records().any(|record| record.timestamp < 0) {
        return Ok(());
    }
    for (time, found) in &log.times {
        let mut at_least = records()
            .filter(|record| record.timestamp >= *time && record.offset >= log.start)
            .map(|record| record.offset);
        if at_least.next() != *found {
            return Err(format!("for timestamp {time} it finds {found:?}"));
        }
    }
    Ok(())
}

/// The retry of a batch that is there is recognised, that of one that was lost is taken.
pub(crate) fn judge_retries(
    logs: BTreeMap<TopicPartition, PartitionLog>,
    found: &Found,
    before: &Facts,
    after: &Facts,
) -> Result<(), String> {
    for (name, mut log) in logs {
        let is = &found.logs[&name];
        if has_holes(&name, is, before, after) {
            continue;
        }
        let known = lineage_of(&name, is, before, after);
        let known = known.ok_or_else(|| format!("{name} is not known"))?;
        let failed = |error: String| format!("{name}: {error}");
        let is_plain = |batch: &&BatchFact| {
            !batch.is_control() && batch.stamp.is_some_and(|stamp| !stamp.is_transactional)
        };
        let mut newest = BTreeMap::<i64, Vec<&BatchFact>>::new();
        let stored = known.lineage.iter().map(AsRef::as_ref).filter(is_plain);
        for batch in stored.filter(|batch| batch.base >= known.highest_start.max(is.start)) {
            let stamp = batch.stamp.expect("a producer's");
            let batches = newest.entry(stamp.id).or_default();
            if batches.last().is_some_and(|last| last.stamp.map(|s| s.epoch) != Some(stamp.epoch)) {
                batches.clear();
            }
            batches.push(batch);
        }
        for batches in newest.values() {
            // Of a compacted log, only the last is certain to be remembered.
            let count = if known.policy.is_compact() { 1 } else { 5 };
            for batch in batches.iter().rev().take(count) {
                let taken_for = broker::resend(&mut log, batch).map_err(failed)?;
                if taken_for != Some(batch.base) {
                    return Err(failed(format!(
                        "the retry of the batch at {} is taken for {taken_for:?}",
                        batch.base
                    )));
                }
            }
        }
        // What came after the end, in whichever state the log was, was lost.
        let lost = [after, before].into_iter().filter_map(|facts| facts.logs.get(&name));
        let Some(lost) = lost.max_by_key(|known| known.end) else { continue };
        let is_same = known.lineage.iter().zip(&lost.lineage).all(|(a, b)| a == b);
        let mut seen = BTreeSet::new();
        let lost = lost.lineage.iter().map(AsRef::as_ref).filter(|_| is_same);
        for batch in lost.filter(|batch| batch.base >= is.end).filter(is_plain) {
            if !seen.insert(batch.stamp.map(|stamp| stamp.id)) {
                continue;
            }
            let taken_for = match broker::resend(&mut log, batch) {
                // What is below the log start may have been lost, and with it where the producer was.
                Err(_) if known.highest_start > is.start => None,
                outcome => outcome.map_err(failed)?,
            };
            if let Some(taken_for) = taken_for {
                return Err(failed(format!(
                    "the lost batch at {} is taken for one at {taken_for}",
                    batch.base
                )));
            }
        }
    }
    Ok(())
}
