//! The storage layer as a broker uses it, on a disk that records.

use crate::disk::RecordingDisk;
use crate::facts::{BatchFact, parse};
use bytes::Bytes;
use model::{BrokerId, Instant, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};
use model::{Timestamp, TopicId, TopicPartition};
use platform::random::SeededRandom;
use protocol::records::validate::{Origin, ValidationRules, validate};
use protocol::records::{EndTransaction, RecordBatchBuilder};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use storage::{AppendError, AppendOrigin, AppendRecords, AppendRequest, ClosedLog, LogDirectories};
use storage::{LogDirectoriesConfig, LogRead, PartitionLog, ReadRequest, Reserved, Verification};

/// The wall clock stands still: nothing is to expire but by the workload's will.
pub(crate) const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Starts as a broker does: names and checkpoints are read, no log is opened.
pub(crate) fn start(
    disk: &RecordingDisk,
    seed: u64,
) -> Result<(LogDirectories, Vec<ClosedLog>), String> {
    let config = LogDirectoriesConfig {
        paths: vec![PathBuf::from("/data"), PathBuf::from("/more")],
        broker_id: BrokerId(1),
        max_open_files: 6,
        tail_cache_bytes: 1000,
        disk_reserve_bytes: Some(0),
    };
    let random = Arc::new(SeededRandom::new(seed));
    LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default())
        .map_err(|error| format!("it does not start: {error}"))
}

/// The batches from `from` on, up to the log's end.
pub(crate) fn read_from(log: &PartitionLog, from: i64) -> Result<Vec<BatchFact>, String> {
    Ok(read_with_aborted(log, from)?.0)
}

/// Batches, and the transactions that are said to be aborted, as producer and first offset.
pub(crate) type Found = (Vec<BatchFact>, BTreeSet<(i64, i64)>);

/// The batches from `from` on, and the aborted transactions that a reader is told of.
pub(crate) fn read_with_aborted(log: &PartitionLog, from: i64) -> Result<Found, String> {
    let (mut found, mut aborted) = (Vec::new(), BTreeSet::new());
    let (mut at, end) = (from, log.log_end_offset().0);
    while at < end {
        let request = ReadRequest {
            offset: Offset(at),
            max_bytes: 700,
            min_one_message: true,
            upper_bound: Offset(end),
            want_aborted: true,
        };
        let read = log.read(request).map_err(|error| format!("cannot be read at {at}: {error}"))?;
        for transaction in read.aborted_transactions.iter().flatten() {
            aborted.insert((transaction.producer_id.0, transaction.first_offset.0));
        }
        let bytes = bytes_of(&read)?;
        let before = at;
        for batch in parse(&bytes)? {
            if batch.last < at {
                continue;
            }
            at = batch.last + 1;
            found.push(batch);
        }
        if at == before {
            // Compaction may leave nothing up to the end, which an empty segment keeps.
            if read.size > 0 {
                return Err(format!("a read at {at} gets no whole batch"));
            }
            break;
        }
    }
    Ok((found, aborted))
}

/// A record to append: key, value.
pub(crate) type Entry = (Option<String>, Option<String>);

/// A batch as a client sends it; record times rise from `time` on.
pub(crate) fn data(
    entries: &[Entry],
    time: i64,
    producer: Option<(i64, i16, i32)>,
    is_transactional: bool,
) -> Bytes {
    let mut builder = RecordBatchBuilder::new();
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), Some(Sequence(sequence)));
    }
    if is_transactional {
        builder = builder.transactional();
    }
    for (at, (key, value)) in (0..).zip(entries) {
        let key = key.as_ref().map(String::as_bytes);
        let value = value.as_ref().map(String::as_bytes);
        builder.append(Some(Timestamp(time + at)), key, value).expect("a small record");
    }
    builder.build().expect("a small batch")
}

pub(crate) fn marker(producer: i64, epoch: i16, committed: bool, time: i64) -> Bytes {
    let marker = EndTransaction { committed, coordinator_epoch: 0 };
    marker.batch(ProducerId(producer), ProducerEpoch(epoch), Timestamp(time))
}

/// A message of magic 0 or 1 at `offset`.
pub(crate) fn legacy(magic: u8, offset: i64, time: i64, value: &str) -> Bytes {
    let mut covered = vec![magic, 0];
    if magic == 1 {
        covered.extend_from_slice(&time.to_be_bytes());
    }
    covered.extend_from_slice(&(-1i32).to_be_bytes());
    let length = i32::try_from(value.len()).expect("a small value");
    covered.extend_from_slice(&length.to_be_bytes());
    covered.extend_from_slice(value.as_bytes());
    let mut bytes = offset.to_be_bytes().to_vec();
    let size = i32::try_from(covered.len() + 4).expect("a small message");
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&covered).to_be_bytes());
    bytes.extend_from_slice(&covered);
    Bytes::from(bytes)
}

fn rules(origin: AppendOrigin) -> ValidationRules {
    let mut rules = ValidationRules::new(NOW);
    if origin == AppendOrigin::Coordinator {
        rules.origin = Origin::Coordinator;
    }
    rules
}

/// An append by a leader.
pub(crate) fn as_leader(
    bytes: &Bytes,
    epoch: i32,
    origin: AppendOrigin,
) -> Result<AppendRequest, String> {
    let validated =
        validate(bytes, &rules(origin)).map_err(|error| format!("invalid batch: {error:?}"))?;
    let records = AppendRecords::Assign {
        validated,
        leader_epoch: LeaderEpoch(epoch),
        origin,
        verification: Verification::NotRequired,
    };
    Ok(AppendRequest { records, now: NOW })
}

/// The bytes of a batch as a leader of `epoch` would have it at `offset`.
pub(crate) fn placed(bytes: &Bytes, offset: i64, epoch: i32, origin: AppendOrigin) -> Bytes {
    let validated = validate(bytes, &rules(origin)).expect("a valid batch");
    let mut batch = validated.batch.into_iter().next().expect("one batch");
    let header = batch.assign(Offset(offset), LeaderEpoch(epoch));
    [&header[..], &batch.payload].concat().into()
}

/// An append by a follower.
pub(crate) fn as_follower(bytes: Bytes) -> AppendRequest {
    AppendRequest { records: AppendRecords::Replicate(bytes), now: NOW }
}

/// Copies the next piece of a log that moves to another directory, as the broker's mover does; whether the copy has
/// caught up.
pub(crate) fn copy_step(log: &PartitionLog, copy: &mut PartitionLog) -> Result<bool, String> {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let cut = match copy.log_end_offset() {
        at if at < start => copy.truncate_fully_and_start_at(start, NOW),
        at if at > end => copy.truncate_to(end, NOW),
        _ => Ok(()),
    };
    cut.map_err(|error| error.to_string())?;
    if copy.log_end_offset() == end {
        return Ok(true);
    }
    let request = ReadRequest {
        offset: copy.log_end_offset(),
        max_bytes: 1000,
        min_one_message: true,
        upper_bound: end,
        want_aborted: false,
    };
    let read = log.read(request).map_err(|error| format!("cannot be copied: {error}"))?;
    let records = bytes_of(&read)?;
    let appended = match copy.reserve(as_follower(records.clone())) {
        // The log begins within a batch.
        Err(AppendError::UnexpectedOffset { first, last, log_end_offset })
            if copy.log_start_offset() == log_end_offset
                && (first..=last).contains(&log_end_offset) =>
        {
            copy.truncate_fully_and_start_at(first, NOW).map_err(|error| error.to_string())?;
            copy.reserve(as_follower(records))
        }
        other => other,
    };
    if let Reserved::Pending(append) = appended.map_err(|error| error.to_string())? {
        let outcome = append.write();
        copy.publish(append, &outcome).map_err(|error| error.to_string())?;
    }
    Ok(false)
}

/// Lets a copy that has caught up take the place of its log.
pub(crate) fn take_place(
    directories: &LogDirectories,
    log: PartitionLog,
    mut copy: PartitionLog,
    now: Instant,
) -> Result<PartitionLog, String> {
    flush(&mut copy)?;
    let (delay, epoch, end) = (Duration::from_millis(20), log.latest_epoch(), log.log_end_offset());
    let moved = directories.promote(log, copy, delay, now);
    let mut moved = moved.map_err(|error| error.to_string())?;
    if let Some(epoch) = epoch.filter(|&epoch| moved.latest_epoch() < Some(epoch)) {
        moved.assign_epoch(epoch, end).map_err(|error| error.to_string())?;
    }
    Ok(moved)
}

pub(crate) fn flush(log: &mut PartitionLog) -> Result<(), String> {
    let Some(work) = log.begin_flush() else { return Ok(()) };
    let outcome = work.run();
    log.finish_flush(work, outcome).map_err(|error| error.to_string())
}

/// Sends a stored batch again, as its producer would; nothing is written. What the log takes it for.
pub(crate) fn resend(log: &mut PartitionLog, batch: &BatchFact) -> Result<Option<i64>, String> {
    let mut bytes = batch.bytes.to_vec();
    // Offset and leader epoch are the broker's, and not covered by the checksum.
    bytes[..8].copy_from_slice(&0i64.to_be_bytes());
    bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
    let epoch = log.latest_epoch().map_or(0, |epoch| epoch.0);
    let request = as_leader(&Bytes::from(bytes), epoch, AppendOrigin::Client)?;
    match log.reserve(request).map_err(|error| error.to_string())? {
        Reserved::Duplicate(duplicate) => Ok(Some(duplicate.first_offset.0)),
        Reserved::Pending(_) => Ok(None),
        Reserved::Empty => Err("nothing was sent".to_owned()),
    }
}

pub(crate) fn topic(number: usize) -> TopicPartition {
    TopicPartition::new(["a", "b-c", "d"][number], 0)
}

pub(crate) fn topic_id(count: u64) -> TopicId {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&count.to_be_bytes());
    TopicId(id)
}

/// The first batch that a reader at `offset` gets.
pub(crate) fn first_at(log: &PartitionLog, offset: i64) -> Result<Option<BatchFact>, String> {
    let request = ReadRequest {
        offset: Offset(offset),
        max_bytes: 1,
        min_one_message: true,
        upper_bound: log.log_end_offset(),
        want_aborted: false,
    };
    let read = log.read(request).map_err(|error| format!("cannot be read at {offset}: {error}"))?;
    Ok(parse(&bytes_of(&read)?)?.into_iter().next())
}

fn bytes_of(read: &LogRead) -> Result<Bytes, String> {
    read.records.to_bytes().map_err(|error| format!("a range cannot be read: {error}"))
}
