//! Logs on a disk in memory.

mod compaction;
mod crashes;
mod mending;
mod rot;

use super::*;
use crate::append::{AppendOrigin, AppendRecords, AppendRequest, Reserved, Verification};
use crate::log_directories::{LogDirectories, LogDirectoriesConfig, StartError};
use crate::read::{LogRead, ReadRequest};
use crate::{AppendError, CleanupPolicy, PendingAppend, ReadError};
use bytes::Bytes;
use model::{BrokerId, Instant};
use platform::MemoryDisk;
use platform::disk::WriteFault;
use platform::random::SeededRandom;
use protocol::RecordsPart;
use protocol::records::validate::{ValidationRules, validate};
use protocol::records::{Batches, Compression, EndTransaction, RecordBatchBuilder};
use std::path::Path;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

struct Broker {
    directories: LogDirectories,
    closed: Vec<ClosedLog>,
}

impl Broker {
    fn start(disk: &MemoryDisk) -> Self {
        Self::try_start(disk).unwrap()
    }

    fn try_start(disk: &MemoryDisk) -> Result<Self, StartError> {
        Self::with_reserve(disk, 0)
    }

    /// A broker that keeps so many bytes free.
    fn with_reserve(disk: &MemoryDisk, reserve: u64) -> Result<Self, StartError> {
        let config = LogDirectoriesConfig {
            paths: vec!["/data".into()],
            broker_id: BrokerId(1),
            max_open_files: 100,
            tail_cache_bytes: 1 << 20,
            disk_reserve_bytes: Some(reserve),
        };
        let (directories, closed) = LogDirectories::open(
            Arc::new(disk.clone()),
            Arc::new(SeededRandom::new(1)),
            config,
            Instant::default(),
        )?;
        Ok(Self { directories, closed })
    }

    fn create(&self, config: LogConfig) -> PartitionLog {
        let name = TopicPartition::new("t", 0);
        self.directories.create(name, None, Arc::new(config), None, NOW).unwrap()
    }

    fn open(&mut self, config: LogConfig) -> PartitionLog {
        let closed = self.closed.remove(0);
        closed.open(Arc::new(config), NOW).unwrap()
    }
}

fn small() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 100, ..LogConfig::default() }
}

/// One record per value; times count from `NOW`.
fn batch(values: &[&str], producer: Option<(i64, i16, i32)>) -> Bytes {
    batch_at(NOW.0, values, producer)
}

fn batch_at(time: i64, values: &[&str], producer: Option<(i64, i16, i32)>) -> Bytes {
    let mut builder = RecordBatchBuilder::new();
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), Some(Sequence(sequence)));
    }
    fill(builder, time, values)
}

fn fill(mut builder: RecordBatchBuilder, time: i64, values: &[&str]) -> Bytes {
    for (at, value) in (0..).zip(values) {
        builder.append(Some(Timestamp(time + at)), None, Some(value.as_bytes())).unwrap();
    }
    builder.build().unwrap()
}

fn request(bytes: Bytes, origin: AppendOrigin) -> AppendRequest {
    request_in(LeaderEpoch(0), bytes, origin)
}

fn request_in(leader_epoch: LeaderEpoch, bytes: Bytes, origin: AppendOrigin) -> AppendRequest {
    let mut rules = ValidationRules::new(NOW);
    if origin == AppendOrigin::Coordinator {
        rules.origin = protocol::records::validate::Origin::Coordinator;
    }
    let validated = validate(&bytes, &rules).unwrap();
    let records = AppendRecords::Assign {
        validated,
        leader_epoch,
        origin,
        verification: Verification::NotRequired,
    };
    AppendRequest { records, now: NOW }
}

fn reserve(log: &mut PartitionLog, bytes: Bytes) -> PendingAppend {
    match log.reserve(request(bytes, AppendOrigin::Client)).unwrap() {
        Reserved::Pending(pending) => pending,
        other @ (Reserved::Duplicate(_) | Reserved::Empty) => panic!("{other:?}"),
    }
}

fn append(log: &mut PartitionLog, bytes: Bytes) -> Offset {
    try_append(log, bytes).unwrap()
}

fn try_append(log: &mut PartitionLog, bytes: Bytes) -> Result<Offset, String> {
    append_as(log, bytes, AppendOrigin::Client)
}

fn append_as(log: &mut PartitionLog, bytes: Bytes, origin: AppendOrigin) -> Result<Offset, String> {
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch(0));
    let reserved =
        log.reserve(request_in(epoch, bytes, origin)).map_err(|error| format!("{error:?}"))?;
    match reserved {
        Reserved::Pending(pending) => {
            let outcome = pending.write();
            let appended = log.publish(pending, &outcome).map_err(|error| error.to_string())?;
            log.set_high_watermark(log.log_end_offset());
            Ok(appended.first_offset)
        }
        Reserved::Duplicate(duplicate) => Ok(duplicate.first_offset),
        Reserved::Empty => panic!("nothing to append"),
    }
}

fn read(log: &PartitionLog, offset: i64) -> LogRead {
    log.read(ReadRequest {
        offset: Offset(offset),
        max_bytes: 1 << 20,
        min_one_message: true,
        upper_bound: log.log_end_offset(),
        want_aborted: true,
    })
    .unwrap()
}

fn bytes_of(read: &LogRead) -> Vec<u8> {
    let mut all = Vec::new();
    for part in read.records.parts() {
        match part {
            RecordsPart::Bytes(bytes) => all.extend_from_slice(bytes),
            RecordsPart::File(range) => {
                let mut bytes = vec![0; range.length];
                range.file.read_exact_at(&mut bytes, range.position).unwrap();
                all.extend_from_slice(&bytes);
            }
        }
    }
    assert_eq!(all.len(), read.size);
    all
}

/// All records from the log start on, as (offset, value); checks that every batch is right.
fn contents(log: &PartitionLog) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let mut at = log.log_start_offset().0;
    while at < log.log_end_offset().0 {
        let bytes = bytes_of(&read(log, at));
        let before = at;
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.verify());
            for record in &batch.records(1 << 20).unwrap() {
                let record = record.unwrap();
                if record.offset.0 >= at {
                    let value = String::from_utf8_lossy(record.value.unwrap()).into_owned();
                    found.push((record.offset.0, value));
                }
            }
            at = batch.last_offset().0 + 1;
        }
        assert!(at > before, "a read below the log end gets on");
    }
    found
}

fn values(log: &PartitionLog) -> Vec<String> {
    let contents = contents(log);
    let offsets = contents.iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    let start = log.log_start_offset().0;
    assert_eq!(offsets, (start..log.log_end_offset().0).collect::<Vec<_>>(), "no gaps");
    contents.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn what_is_appended_is_read_back_also_after_a_restart() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig::default());
    assert_eq!(append(&mut log, batch(&["a", "b"], None)), Offset(0));
    assert_eq!(append(&mut log, batch(&["c"], None)), Offset(2));
    assert_eq!(values(&log), ["a", "b", "c"]);
    log.close().unwrap();
    broker.directories.close(None);

    let mut broker = Broker::start(&disk);
    let log = broker.open(LogConfig::default());
    assert_eq!(values(&log), ["a", "b", "c"]);
    assert_eq!(log.high_watermark(), Offset(3));
    assert_eq!(log.durable_offset(), Offset(3));
}

// ---- failing writes ----

/// Two idempotent producers write one record per batch, retrying whatever is not acknowledged, while
/// the `k`th write of the disk goes wrong. Afterwards each record is there once, in order.
fn write_through_a_fault(k: u64, fault: WriteFault) {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let config = || LogConfig { segment_index_bytes: 120, ..small() };
    let mut log = broker.create(config());
    disk.fail_write(k, fault);
    let mut next = [0i32; 2];
    let mut clock = NOW;
    while next != [40, 40] {
        // Both are reserved before either is written, as when two connections are served in one turn.
        let mut pending = Vec::new();
        let mut acknowledged = [false; 2];
        for producer in 0..2usize {
            let sequence = next[producer];
            if sequence == 40 {
                continue;
            }
            let value = format!("{producer}:{sequence}");
            let bytes = batch(&[&value], Some((producer as i64, 0, sequence)));
            let mut request = request(bytes, AppendOrigin::Client);
            request.now = clock;
            match log.reserve(request) {
                Ok(Reserved::Pending(reserved)) => pending.push((producer, reserved)),
                Ok(Reserved::Duplicate(duplicate)) => {
                    assert!(duplicate.last_offset < log.log_end_offset(), "it is written");
                    acknowledged[producer] = true;
                }
                Ok(Reserved::Empty) => panic!("a batch was given"),
                Err(AppendError::Offline) => {}
                Err(error) => panic!("k = {k}: {error:?}"),
            }
        }
        let (producers, pending): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
        let outcome = PendingAppend::write_all(&pending);
        for (producer, pending) in producers.into_iter().zip(pending) {
            acknowledged[producer] |= log.publish(pending, &outcome).is_ok();
        }
        log.set_high_watermark(log.log_end_offset());
        for producer in 0..2 {
            next[producer] += i32::from(acknowledged[producer]);
        }
        clock = Timestamp(clock.0 + 1000);
    }
    let check = |log: &PartitionLog| {
        let values = values(log);
        assert_eq!(values.len(), 80, "k = {k}: {values:?}");
        for producer in 0..2 {
            let own = values.iter().filter(|value| value.starts_with(&format!("{producer}:")));
            let wanted = (0..40).map(|sequence| format!("{producer}:{sequence}"));
            assert!(own.cloned().eq(wanted), "k = {k}: {values:?}");
        }
    };
    check(&log);
    let mut killed = Broker::start(&disk.copy());
    check(&killed.open(config()));
    // The fault may hit this too: then the next start recovers.
    drop(log.close());
    broker.directories.close(None);
    drop(broker);
    let mut restarted = Broker::start(&disk);
    let mut log = restarted.open(config());
    check(&log);
    // What a producer may have had in flight is still known.
    for sequence in 35..40 {
        let retry = batch(&[&format!("0:{sequence}")], Some((0, 0, sequence)));
        assert!(try_append(&mut log, retry).unwrap() < Offset(80));
    }
    check(&log);
}

/// Killed under load, a broker answered OUT_OF_ORDER_SEQUENCE_NUMBER to the first of five batches that a
/// producer sent again: a snapshot has only the last batch of each producer.
#[test]
fn all_batches_that_were_in_flight_are_known_after_every_kind_of_restart() {
    let record = |producer: i64, sequence: i32| {
        let value = format!("{producer}:{sequence}");
        batch(&[&value, "x"], Some((producer, 3, 2 * sequence)))
    };
    for count in 1..30 {
        let disk = MemoryDisk::new();
        let broker = Broker::start(&disk);
        broker.directories.set_cluster_id("cluster").unwrap();
        let mut log = broker.create(small());
        let mut offsets = Vec::new();
        for sequence in 0..count {
            for producer in [7, 8] {
                offsets.push(append(&mut log, record(producer, sequence)));
            }
        }
        let wanted = values(&log);
        let killed = disk.copy();
        log.close().unwrap();
        broker.directories.close(None);
        drop(broker);
        for disk in [killed, disk] {
            let mut broker = Broker::start(&disk);
            let mut log = broker.open(small());
            for sequence in (count - 5).max(0)..count {
                for (at, producer) in [7, 8].into_iter().enumerate() {
                    let first = offsets[2 * usize::try_from(sequence).unwrap() + at];
                    assert_eq!(try_append(&mut log, record(producer, sequence)), Ok(first));
                }
            }
            append(&mut log, record(7, count));
            assert_eq!(values(&log)[..wanted.len()], wanted);
        }
    }
}

#[test]
fn appends_leave_the_reserve_free_and_the_rest_of_the_broker_may_use_it() {
    const RESERVE: u64 = 10_000;
    let disk = MemoryDisk::new();
    disk.set_capacity(Some(20_000));
    let broker = Broker::with_reserve(&disk, RESERVE).unwrap();
    let mut log = broker.create(small());
    let mut acknowledged = Vec::new();
    let refusal = loop {
        match try_append(&mut log, batch(&["value"], None)) {
            Ok(_) => acknowledged.push("value"),
            Err(refusal) => break refusal,
        }
    };
    assert!(refusal.contains("NoRoom"), "{refusal}");
    assert!(acknowledged.len() > 10, "there was room for more than {}", acknowledged.len());
    assert!(20_000 - disk.used() >= RESERVE, "{} of 20000 bytes are used", disk.used());
    assert!(!log.is_offline(), "nothing failed");
    assert_eq!(values(&log), acknowledged);
    broker.directories.write_checkpoints();

    drop((log, broker));
    let mut again = Broker::with_reserve(&disk, RESERVE).unwrap();
    let mut log = again.open(small());
    assert_eq!(values(&log), acknowledged);
    try_append(&mut log, batch(&["value"], None)).unwrap_err();
    disk.set_capacity(Some(30_000));
    try_append(&mut log, batch(&["value"], None)).unwrap();
}

#[test]
fn a_retry_after_a_failed_write_is_never_a_duplicate() {
    for k in 0..200 {
        write_through_a_fault(k, WriteFault::Fails);
        write_through_a_fault(k, WriteFault::Short);
    }
}

#[test]
fn an_offline_log_can_be_read_and_refuses_appends_until_the_disk_works() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig::default());
    append(&mut log, batch(&["a"], None));
    disk.set_capacity(Some(disk.used() + 30));
    try_append(&mut log, batch(&["b"], None)).unwrap_err();
    assert!(log.is_offline());
    assert!(!log.directory().is_offline(), "a full disk is not a broken one");
    assert_eq!(values(&log), ["a"]);

    // The first retry rebuilds and fails again; the next ones do not even try.
    assert!(try_append(&mut log, batch(&["b"], None)).unwrap_err().contains("append to"));
    let changes = disk.changes();
    assert_eq!(try_append(&mut log, batch(&["b"], None)).unwrap_err(), "Offline");
    assert_eq!(disk.changes(), changes);
    assert_eq!(values(&log), ["a"]);

    disk.set_capacity(None);
    let mut later = request(batch(&["b"], None), AppendOrigin::Client);
    later.now = Timestamp(NOW.0 + RETRY_INTERVAL_MS);
    let Reserved::Pending(pending) = log.reserve(later).unwrap() else { panic!("it is new") };
    let outcome = pending.write();
    assert_eq!(log.publish(pending, &outcome).unwrap().first_offset, Offset(1));
    assert_eq!(values(&log), ["a", "b"]);
}

/// What was seen: a full disk while the wall clock was ahead, and after it was set right the log was not tried again for
/// as long as it had been ahead.
#[test]
fn a_wall_clock_that_is_set_back_does_not_keep_a_log_offline() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig::default());
    append(&mut log, batch(&["a"], None));
    disk.set_capacity(Some(disk.used() + 30));
    try_append(&mut log, batch(&["b"], None)).unwrap_err();
    let ahead = Timestamp(NOW.0 + 3_600_000);
    log.rebuild(ahead).unwrap();
    try_append(&mut log, batch(&["b"], None)).unwrap_err();
    disk.set_capacity(None);
    log.rebuild(Timestamp(ahead.0 + 1)).unwrap_err();
    log.rebuild(NOW).unwrap();
    append(&mut log, batch(&["b"], None));
    assert_eq!(values(&log), ["a", "b"]);
}

#[test]
fn a_broker_starts_and_serves_with_its_disk_still_full() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    broker.directories.set_cluster_id("cluster").unwrap();
    let mut log = broker.create(small());
    for n in 0..40 {
        append(&mut log, batch(&[&format!("{n}")], Some((1, 0, n))));
    }
    let wanted = values(&log);
    // After kill -9, and after a stop that could not write anything.
    let killed = disk.copy();
    disk.set_capacity(Some(disk.used()));
    log.close().unwrap_err();
    broker.directories.close(None);
    for disk in [killed, disk.copy()] {
        disk.set_capacity(Some(disk.used()));
        let mut broker = Broker::start(&disk);
        broker.directories.set_cluster_id("cluster").unwrap();
        let mut log = broker.open(small());
        assert_eq!(values(&log), wanted);
        try_append(&mut log, batch(&["x"], Some((1, 0, 40)))).unwrap_err();
        assert_eq!(values(&log), wanted);
        broker.directories.write_checkpoints();
        disk.set_capacity(None);
        let mut later = request(batch(&["40"], Some((1, 0, 40))), AppendOrigin::Client);
        later.now = Timestamp(NOW.0 + RETRY_INTERVAL_MS);
        let Reserved::Pending(pending) = log.reserve(later).unwrap() else { panic!("it is new") };
        let outcome = pending.write();
        log.publish(pending, &outcome).unwrap();
        assert_eq!(values(&log).len(), 41);
        log.close().unwrap();
        broker.directories.close(None);
        let mut broker = Broker::start(&disk);
        let log = broker.open(small());
        assert_eq!(log.log_start_offset(), Offset(0));
        assert_eq!(values(&log).len(), 41);
    }
}

#[test]
fn a_failed_sync_takes_the_directory_offline_for_good() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { flush_messages: Some(1), ..LogConfig::default() });
    append(&mut log, batch(&["a"], None));
    assert!(log.flush_is_due(NOW));
    let work = log.begin_flush().unwrap();
    disk.set_failing("/data", true);
    let outcome = work.run();
    log.finish_flush(work, outcome).unwrap_err();
    disk.set_failing("/data", false);
    assert!(log.directory().is_offline());
    assert_eq!(log.durable_offset(), Offset(0));
    let later = Timestamp(NOW.0 + 10 * RETRY_INTERVAL_MS);
    log.rebuild(later).unwrap_err();
    assert_eq!(try_append(&mut log, batch(&["b"], None)).unwrap_err(), "Offline");
    assert_eq!(values(&log), ["a"]);
    log.close().unwrap_err();
    broker.directories.close(None);
    assert!(!disk.files().iter().any(|file| file.0.ends_with(".kafka_cleanshutdown")));
}

/// What was seen: the second try of a truncation or of a recovery found nothing left to cut, so it synced nothing.
#[test]
fn a_sync_that_fails_while_a_log_is_cut_or_recovered_is_never_tried_again() {
    let mut tried = 0;
    for nth in 0.. {
        let disk = MemoryDisk::new();
        let broker = Broker::start(&disk);
        let mut log = broker.create(LogConfig { segment_bytes: 200, ..LogConfig::default() });
        for value in ["a", "b", "c", "d"] {
            append(&mut log, batch(&[value], None));
        }
        disk.fail_sync(nth);
        match log.truncate_to(Offset(1), NOW) {
            Ok(()) => break,
            Err(_) => assert!(log.directory().is_offline(), "sync {nth}"),
        }
        tried += 1;
    }
    assert!(tried > 2, "{tried}");

    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    append(&mut broker.create(LogConfig::default()), batch(&["a"], None));
    let (path, mut bytes) = disk
        .files()
        .into_iter()
        .find(|file| file.0.extension().is_some_and(|e| e == "log"))
        .unwrap();
    bytes.extend_from_slice(&[0; 30]);
    let disk = disk.copy();
    disk.put(&path, &bytes);
    let mut again = Broker::start(&disk);
    disk.fail_sync(0);
    let closed = again.closed.remove(0);
    let (closed, _) = closed.open(Arc::new(LogConfig::default()), NOW).unwrap_err();
    assert!(closed.directory().is_offline(), "the torn batch was cut off, and may come back");
}

// ---- crashes ----

/// A log's life on a disk whose power is cut after so many changes: what was flushed is there after
/// any crash, in order and without gaps, and recovering twice changes nothing.
#[test]
fn what_was_flushed_survives_every_crash() {
    let live = |disk: &MemoryDisk, cut: Option<u64>| -> (usize, u64) {
        let mut flushed = 0;
        if let Some(cut) = cut {
            disk.cut_power_after(cut);
        }
        let run = |flushed: &mut usize| -> Option<()> {
            let config = LogDirectoriesConfig {
                paths: vec!["/data".into()],
                broker_id: BrokerId(1),
                max_open_files: 4,
                tail_cache_bytes: 0,
                disk_reserve_bytes: Some(0),
            };
            let random = Arc::new(SeededRandom::new(1));
            let (directories, _) =
                LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default())
                    .ok()?;
            let name = TopicPartition::new("t", 0);
            let id = Some(TopicId([3; 16]));
            let mut log = directories.create(name, id, Arc::new(small()), None, NOW).ok()?;
            for n in 0..40 {
                if n == 13 {
                    log.assign_epoch(LeaderEpoch(2), log.log_end_offset()).ok()?;
                }
                let value = format!("{n:060}");
                try_append(&mut log, batch(&[&value], Some((1, 0, n)))).ok()?;
                if n % 5 == 4 {
                    let work = log.begin_flush()?;
                    let outcome = work.run();
                    log.finish_flush(work, outcome).ok()?;
                    *flushed = usize::try_from(n).unwrap() + 1;
                }
                if n % 9 == 8 {
                    directories.write_checkpoints();
                }
            }
            log.close().ok()?;
            directories.close(None);
            Some(())
        };
        let done = run(&mut flushed);
        assert!(done.is_some() || cut.is_some());
        (flushed, disk.changes())
    };
    let (_, changes) = live(&MemoryDisk::new(), None);
    assert!(changes > 150, "{changes}");
    for cut in 0..changes {
        let disk = MemoryDisk::new();
        let (flushed, _) = live(&disk, Some(cut));
        for seed in 0..3 {
            let after = disk.crash(seed);
            let mut broker = Broker::start(&after);
            if broker.closed.is_empty() {
                assert_eq!(flushed, 0, "cut {cut}, seed {seed}");
                continue;
            }
            let log = broker.open(small());
            let found = values(&log);
            assert!(found.len() >= flushed, "cut {cut}, seed {seed}: {} < {flushed}", found.len());
            for (n, value) in found.iter().enumerate() {
                assert_eq!(*value, format!("{n:060}"), "cut {cut}, seed {seed}");
            }
            for offset in 0..flushed {
                let epoch = LeaderEpoch(if offset < 13 { 0 } else { 2 });
                let offset = Offset(i64::try_from(offset).unwrap());
                assert_eq!(log.epoch_for_offset(offset), Some(epoch), "cut {cut}, seed {seed}");
            }
            drop(log);
            drop(broker);
            let files = after.files();
            let mut again = Broker::start(&after);
            if again.closed.is_empty() {
                continue;
            }
            let log = again.open(small());
            assert_eq!(values(&log), found);
            drop(log);
            let partition = |files: Vec<(std::path::PathBuf, Vec<u8>)>| {
                files.into_iter().filter(|f| f.0.starts_with("/data/t-0")).collect::<Vec<_>>()
            };
            assert_eq!(partition(after.files()), partition(files), "cut {cut}, seed {seed}");
        }
    }
}

/// Flushed when it ended where the recovery point is, and completed afterwards: its indexes were not synced.
#[test]
fn a_segment_that_ends_at_the_recovery_point_has_its_indexes_made_anew() {
    for seed in 0..40 {
        let disk = MemoryDisk::new();
        let broker = Broker::start(&disk);
        let mut log = broker.create(small());
        let mut time = NOW.0;
        let mut append_one = |log: &mut PartitionLog| {
            time += 1;
            append(log, batch_at(time, &[&format!("{:080}", time)], None));
        };
        while disk
            .files()
            .iter()
            .filter(|file| file.0.ends_with("00000000000000000000.log"))
            .any(|file| file.1.len() + 200 < 1000)
        {
            append_one(&mut log);
        }
        let work = log.begin_flush().unwrap();
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
        let end = log.log_end_offset();
        broker.directories.write_checkpoints();
        (0..3).for_each(|_| append_one(&mut log));

        let mut after = Broker::start(&disk.crash(seed));
        let log = after.open(small());
        assert!(log.log_end_offset() >= end);
        for offset in 0..end.0 {
            let found = log.offset_for_timestamp(Timestamp(NOW.0 + 1 + offset)).unwrap().unwrap();
            assert_eq!(found.offset, Offset(offset), "seed {seed}");
        }
    }
}

/// A crash came between the deletion of a topic and the checkpoints that forget it.
#[test]
fn a_new_log_does_not_start_where_a_deleted_one_of_its_name_did() {
    let disk = MemoryDisk::new();
    for name in ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint"] {
        disk.put(&Path::new("/data").join(name), b"0\n1\nt 0 500\n");
    }
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    let values = (0..30).map(|n| format!("{n:060}")).collect::<Vec<_>>();
    for value in &values {
        append(&mut log, batch(&[value], None));
    }
    let mut after = Broker::start(&disk.copy());
    assert_eq!(after.closed[0].entry.recovery_point(), Offset(0));
    assert_eq!(self::values(&after.open(small())), values);
}

/// It might be taken for the log of a later topic of its name.
#[test]
fn no_record_is_there_without_the_id_of_its_topic() {
    for seed in 0..100 {
        let disk = MemoryDisk::new();
        let broker = Broker::start(&disk);
        let (name, id) = (TopicPartition::new("t", 0), TopicId([3; 16]));
        let created = broker.directories.create(name, Some(id), Arc::new(small()), None, NOW);
        let mut log = created.unwrap();
        append(&mut log, batch(&["a"], None));
        let mut after = Broker::start(&disk.crash(seed));
        assert_eq!(after.open(small()).topic_id(), Some(id), "seed {seed}");
    }
}

// ---- appending ----

#[test]
fn appends_that_were_reserved_together_are_written_together() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    let pending = (0..30)
        .map(|n| reserve(&mut log, batch(&[&format!("{n:040}")], Some((7, 0, n)))))
        .collect::<Vec<_>>();
    assert_eq!(log.log_end_offset(), Offset(0), "nothing is visible yet");
    assert_eq!(read(&log, 0).size, 0);
    let writes = disk.writes();
    let outcome = PendingAppend::write_all(&pending);
    // Four segments; each but the last gets its indexes, its checksums and the next one's snapshot.
    assert!(disk.writes() - writes < 19, "{}", disk.writes() - writes);
    for pending in pending {
        log.publish(pending, &outcome).unwrap();
    }
    assert_eq!(values(&log), (0..30).map(|n| format!("{n:040}")).collect::<Vec<_>>());
    assert_eq!(log.segments.len(), 4);
    let mut killed = Broker::start(&disk.copy());
    assert_eq!(values(&killed.open(small())), values(&log));
}

#[test]
fn what_was_reserved_after_a_failed_write_is_void() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig::default());
    let first = reserve(&mut log, batch(&["a"], Some((1, 0, 0))));
    let second = reserve(&mut log, batch(&["b"], Some((1, 0, 1))));
    log.publish(first, &Err(io::ErrorKind::Other.into())).unwrap_err();
    second.write().unwrap();
    assert!(matches!(log.publish(second, &Ok(())), Err(LogError::Offline)));
    log.rebuild(NOW).unwrap();
    assert_eq!(append(&mut log, batch(&["a"], Some((1, 0, 0)))), Offset(0));
    assert_eq!(values(&log), ["a"]);
}

#[test]
fn a_repeated_batch_is_answered_with_its_old_offsets() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig::default());
    append(&mut log, batch(&["x"], None));
    for n in 0..6 {
        append(&mut log, batch(&["a", "b"], Some((1, 0, 2 * n))));
    }
    let retry = request(batch(&["a", "b"], Some((1, 0, 4))), AppendOrigin::Client);
    let Reserved::Duplicate(duplicate) = log.reserve(retry).unwrap() else { panic!("a retry") };
    assert_eq!((duplicate.first_offset, duplicate.last_offset), (Offset(5), Offset(6)));
    assert_eq!(duplicate.timestamp, Timestamp(NOW.0 + 1));
    let refused = |log: &mut PartitionLog, producer| {
        try_append(log, batch(&["a", "b"], Some(producer))).unwrap_err()
    };
    assert!(refused(&mut log, (1, 0, 0)).starts_with("OutOfOrder"), "forgotten after five batches");
    assert!(refused(&mut log, (1, 0, 13)).starts_with("OutOfOrder"), "a gap");
    assert!(refused(&mut log, (1, 1, 12)).starts_with("OutOfOrder"), "a new epoch starts at 0");
    append(&mut log, batch(&["a"], Some((1, 1, 0))));
    assert!(refused(&mut log, (1, 0, 12)).starts_with("InvalidProducerEpoch"));
    append(&mut log, batch(&["a"], Some((2, 3, 77)))); // an unknown producer may start anywhere
    append(&mut log, batch(&["a"], Some((3, 0, i32::MAX))));
    append(&mut log, batch(&["a"], Some((3, 0, 0)))); // sequences wrap
    assert_eq!(log.log_end_offset(), Offset(17));
    assert_eq!(log.producers().len(), 3);
    log.expire_producers(Timestamp(NOW.0 + 24 * 60 * 60 * 1000 - 1));
    assert_eq!(log.producers().len(), 3);
    log.expire_producers(Timestamp(NOW.0 + 24 * 60 * 60 * 1000));
    assert_eq!(log.producers(), []);
}

#[test]
fn a_segment_is_rolled_by_size_time_and_full_index() {
    let broker = Broker::start(&MemoryDisk::new());
    let size = batch(&["a"], None).len() as u64;
    let mut log = broker.create(LogConfig { segment_bytes: 3 * size, ..LogConfig::default() });
    let bases = |log: &PartitionLog| log.segments.iter().map(|s| s.base.0).collect::<Vec<_>>();
    for _ in 0..4 {
        append(&mut log, batch(&["a"], None));
    }
    assert_eq!(bases(&log), [0, 3]);
    let large = batch(&["a"; 100], None);
    assert!(try_append(&mut log, large).unwrap_err().starts_with("RecordListTooLarge"));

    let second = Duration::from_secs(1);
    log.set_config(Arc::new(LogConfig { segment_ms: second, ..LogConfig::default() }));
    append(&mut log, batch_at(NOW.0 + 1000, &["a"], None));
    assert_eq!(bases(&log), [0, 3]);
    append(&mut log, batch_at(NOW.0 + 1001, &["a"], None));
    assert_eq!(bases(&log), [0, 3, 5], "record times decide, not the clock");
    append(&mut log, batch_at(NOW.0 - 5000, &["a"], None));
    assert_eq!(bases(&log), [0, 3, 5]);

    // Room for 7 offset and 5 time entries, of which the last is kept for the end.
    let config =
        LogConfig { segment_index_bytes: 60, index_interval_bytes: 0, ..LogConfig::default() };
    log.set_config(Arc::new(config));
    let before = log.log_end_offset().0;
    for n in 0..20 {
        append(&mut log, batch_at(NOW.0 + 2000 + n, &["a"], None));
    }
    let rolled = bases(&log).into_iter().filter(|&base| base > before).collect::<Vec<_>>();
    assert_eq!(rolled.len(), 4, "{rolled:?}");
    assert!(rolled.windows(2).all(|pair| pair[1] - pair[0] == 5), "{rolled:?}");
    values(&log);
}

#[test]
fn a_follower_keeps_what_its_leader_sent() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    let build = |base: i64, epoch: i32, values: &[&str]| {
        let builder = RecordBatchBuilder::new().base_offset(Offset(base));
        fill(builder.leader_epoch(LeaderEpoch(epoch)), NOW.0, values)
    };
    let replicate = |log: &mut PartitionLog, bytes: &[Bytes]| {
        let records = AppendRecords::Replicate(bytes.concat().into());
        match log.reserve(AppendRequest { records, now: NOW })? {
            Reserved::Pending(pending) => {
                let outcome = pending.write();
                log.publish(pending, &outcome).expect("nothing fails");
                Ok(())
            }
            other @ (Reserved::Duplicate(_) | Reserved::Empty) => panic!("{other:?}"),
        }
    };
    let two = [build(0, 3, &["a", "b"]), build(2, 4, &["c"])];
    replicate(&mut log, &two).unwrap();
    assert_eq!(bytes_of(&read(&log, 0)), two.concat());
    assert_eq!(log.epoch_for_offset(Offset(1)), Some(LeaderEpoch(3)));
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch(4)));
    let gap = build(7, 4, &["d", "e"]);
    let mut cut = [gap.clone(), build(9, 4, &["f"]).slice(..30)];
    replicate(&mut log, &cut).unwrap();
    assert_eq!(log.log_end_offset(), Offset(9), "what is cut off is fetched again");
    assert_eq!(bytes_of(&read(&log, 4)), gap);
    let again = replicate(&mut log, &cut[..1]).unwrap_err();
    assert!(matches!(again, AppendError::UnexpectedOffset { first: Offset(7), .. }), "{again:?}");
    let mut damaged = build(9, 4, &["f"]).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    cut[0] = damaged.into();
    let refused = replicate(&mut log, &cut[..1]).unwrap_err();
    assert!(matches!(refused, AppendError::Corrupt(_)), "{refused:?}");
    let mut killed = Broker::start(&disk.copy());
    assert_eq!(killed.open(small()).log_end_offset(), Offset(9));
}

// ---- transactions ----

fn transactional(producer: (i64, i16, i32), values: &[&str]) -> Bytes {
    let (id, epoch, sequence) = producer;
    let builder = RecordBatchBuilder::new().transactional();
    let sequence = Some(Sequence(sequence));
    fill(builder.producer(ProducerId(id), ProducerEpoch(epoch), sequence), NOW.0, values)
}

fn end(log: &mut PartitionLog, producer: (i64, i16), committed: bool) -> Result<Offset, String> {
    let marker = EndTransaction { committed, coordinator_epoch: 5 };
    let bytes = marker.batch(ProducerId(producer.0), ProducerEpoch(producer.1), NOW);
    append_as(log, bytes, AppendOrigin::Coordinator)
}

fn aborted(log: &PartitionLog, from: i64, max_bytes: usize) -> Vec<(i64, i64)> {
    let read = log.read(ReadRequest {
        offset: Offset(from),
        max_bytes,
        min_one_message: true,
        upper_bound: log.last_stable_offset(),
        want_aborted: true,
    });
    let aborted = read.unwrap().aborted_transactions.unwrap();
    aborted.iter().map(|entry| (entry.producer_id.0, entry.first_offset.0)).collect()
}

#[test]
fn open_transactions_hold_the_last_stable_offset() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    append(&mut log, batch(&["plain"], None)); // 0
    append(&mut log, transactional((1, 0, 0), &["a", "b"])); // 1, 2
    append(&mut log, transactional((2, 0, 0), &["c"])); // 3
    assert_eq!(log.last_stable_offset(), Offset(1));
    let outside = try_append(&mut log, batch(&["x"], Some((1, 0, 2)))).unwrap_err();
    assert!(outside.starts_with("InvalidTransactionState"), "{outside}");
    assert!(log.has_open_transaction(ProducerId(1)));
    end(&mut log, (1, 0), false).unwrap(); // 4
    assert_eq!(log.last_stable_offset(), Offset(3));
    assert_eq!(aborted(&log, 0, 1 << 20), [(1, 1)]);
    for n in 0..20 {
        append(&mut log, batch(&[&format!("{n:050}")], None)); // 5 to 24
    }
    end(&mut log, (2, 0), true).unwrap(); // 25
    assert_eq!(log.last_stable_offset(), Offset(26));
    append(&mut log, transactional((1, 0, 2), &["d"])); // 26
    end(&mut log, (1, 0), false).unwrap(); // 27
    assert_eq!(aborted(&log, 0, 1), [(1, 1)], "only what the range read can contain");
    assert_eq!(aborted(&log, 5, 1 << 20), []);
    assert_eq!(aborted(&log, 26, 1 << 20), [(1, 26)]);
    // A marker is not decided before it is committed.
    append(&mut log, transactional((1, 0, 3), &["e"])); // 28
    let marker = EndTransaction { committed: true, coordinator_epoch: 6 };
    let marker = marker.batch(ProducerId(1), ProducerEpoch(0), NOW);
    let marker = request(marker, AppendOrigin::Coordinator);
    let Reserved::Pending(pending) = log.reserve(marker).unwrap() else { panic!("a marker") };
    let outcome = pending.write();
    log.publish(pending, &outcome).unwrap();
    assert_eq!(log.last_stable_offset(), Offset(28));
    log.set_high_watermark(Offset(30));
    assert_eq!(log.last_stable_offset(), Offset(30));
    assert!(end(&mut log, (1, 0), true).unwrap_err().starts_with("TransactionCoordinatorFenced"));

    let mut killed = Broker::start(&disk.copy());
    let after = killed.open(small());
    assert_eq!(aborted(&after, 26, 1 << 20), []);
    drop((after, killed));
    broker.directories.write_high_watermarks();
    let mut killed = Broker::start(&disk.copy());
    let after = killed.open(small());
    assert_eq!(after.last_stable_offset(), Offset(30));
    assert_eq!(aborted(&after, 0, 1), [(1, 1)]);
    assert_eq!(aborted(&after, 26, 1 << 20), [(1, 26)]);
}

#[test]
fn a_transaction_is_opened_only_with_the_guard_of_its_verification() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig::default());
    let attempt = |log: &mut PartitionLog, guard, sequence| {
        let mut request = request(transactional((1, 0, sequence), &["a"]), AppendOrigin::Client);
        let AppendRecords::Assign { verification, .. } = &mut request.records else { panic!() };
        *verification = Verification::Required(guard);
        let reserved = log.reserve(request).map_err(|error| format!("{error:?}"))?;
        let Reserved::Pending(pending) = reserved else { panic!("it is new") };
        let outcome = pending.write();
        log.publish(pending, &outcome).map_err(|error| error.to_string())
    };
    let producer = (ProducerId(1), ProducerEpoch(0), Sequence(0));
    assert!(attempt(&mut log, None, 0).unwrap_err().starts_with("InvalidTransactionState"));
    let guard = log.begin_verification(producer.0, producer.1, producer.2, false, NOW);
    assert!(attempt(&mut log, None, 0).is_err());
    assert!(attempt(&mut log, guard, 1).unwrap_err().starts_with("OutOfOrder"));
    attempt(&mut log, guard, 0).unwrap();
    attempt(&mut log, None, 1).expect("the transaction is open");
    assert_eq!(log.begin_verification(producer.0, producer.1, Sequence(2), false, NOW), None);
    end(&mut log, (1, 0), true).unwrap();
    assert!(attempt(&mut log, guard, 2).is_err(), "a guard serves once");
}

// ---- reading and searching ----

#[test]
fn a_read_stops_at_its_bound_and_its_size() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig::default());
    let batches = (0..6).map(|n| batch(&[&format!("{n:04000}")], None)).collect::<Vec<_>>();
    for batch in &batches {
        append(&mut log, batch.clone());
    }
    let size = batches[0].len();
    let plan = |log: &PartitionLog, offset, max_bytes, min_one_message, upper_bound| {
        let read = log.read(ReadRequest {
            offset: Offset(offset),
            max_bytes,
            min_one_message,
            upper_bound: Offset(upper_bound),
            want_aborted: false,
        });
        let read = read.unwrap();
        (bytes_of(&read).len(), read.first_batch_incomplete)
    };
    for is_cached in [true, false] {
        if !is_cached {
            log.release_idle();
        }
        assert_eq!(plan(&log, 0, 1 << 20, true, 6), (6 * size, false));
        assert_eq!(plan(&log, 0, 1 << 20, true, 99), (6 * size, false));
        assert_eq!(plan(&log, 2, 1 << 20, true, 4), (2 * size, false));
        assert_eq!(plan(&log, 4, 1 << 20, true, 4), (0, false));
        assert_eq!(plan(&log, 5, 1 << 20, true, 4), (0, false));
        assert_eq!(plan(&log, 6, 1 << 20, true, 6), (0, false));
        assert_eq!(plan(&log, 2, 10, true, 6), (size, false));
        assert_eq!(plan(&log, 2, 10, false, 6), (10, true));
        let (read, incomplete) = plan(&log, 2, size + 10, false, 6);
        assert!((size..=size + 10).contains(&read) && !incomplete);
        let out = ReadRequest {
            offset: Offset(7),
            max_bytes: 1,
            min_one_message: true,
            upper_bound: Offset(9),
            want_aborted: false,
        };
        assert!(matches!(log.read(out), Err(ReadError::OutOfRange { .. })));
        let size = size as u64;
        assert_eq!(log.available_bytes(Offset(0), Offset(6)).unwrap(), 6 * size);
        assert_eq!(log.available_bytes(Offset(2), Offset(3)).unwrap(), size);
        assert_eq!(log.available_bytes(Offset(5), Offset(99)).unwrap(), size);
        assert_eq!(log.available_bytes(Offset(6), Offset(6)).unwrap(), 0);
    }
}

#[test]
fn available_bytes_are_counted_over_segments() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(small());
    let size = batch(&[&"x".repeat(100)], None).len() as u64;
    for _ in 0..200 {
        append(&mut log, batch(&[&"x".repeat(100)], None));
    }
    assert!(log.segments.len() > 20);
    for (from, to) in [(0, 200), (3, 150), (150, 199), (199, 200)] {
        let wanted = (to - from) * size;
        let (from, to) = (i64::try_from(from).unwrap(), i64::try_from(to).unwrap());
        assert_eq!(log.available_bytes(Offset(from), Offset(to)).unwrap(), wanted, "{from}..{to}");
    }
}

#[test]
fn records_are_found_by_time_inside_of_batches() {
    for codec in [Compression::None, Compression::Zstd] {
        let broker = Broker::start(&MemoryDisk::new());
        let mut log = broker.create(LogConfig { segment_ms: Duration::MAX, ..small() });
        // B13: three records in three batches, then more in one batch.
        for time in [100, 200, 300] {
            append(&mut log, batch_at(time, &["a"], None));
        }
        let mut builder = RecordBatchBuilder::new().compression(codec);
        for time in [450, 400, 500, 500] {
            builder.append(Some(Timestamp(time)), None, Some(b"b")).unwrap();
        }
        append(&mut log, builder.build().unwrap());
        let find = |log: &PartitionLog, time| {
            let found = log.offset_for_timestamp(Timestamp(time)).unwrap();
            found.map(|found| (found.offset.0, found.timestamp.0))
        };
        assert_eq!(find(&log, 0), Some((0, 100)));
        assert_eq!(find(&log, 150), Some((1, 200)));
        assert_eq!(find(&log, 200), Some((1, 200)));
        assert_eq!(find(&log, 301), Some((3, 450)));
        assert_eq!(find(&log, 451), Some((5, 500)));
        assert_eq!(find(&log, 501), None);
        let max = log.offset_of_max_timestamp().unwrap().unwrap();
        assert_eq!((max.offset, max.timestamp), (Offset(5), Timestamp(500)));
        assert_eq!(max.leader_epoch, Some(LeaderEpoch(0)));
        // Many batches, so that indexes and several segments take part.
        for time in 0..300 {
            append(&mut log, batch_at(1000 + 10 * time, &["c"], None));
        }
        for time in 0..300 {
            assert_eq!(find(&log, 1000 + 10 * time - 5), Some((7 + time, 1000 + 10 * time)));
        }
        log.delete_records_before(Offset(100)).unwrap();
        assert_eq!(find(&log, 0), Some((100, 1000 + 930)));
        log.apply_retention(Timestamp(0)).unwrap();
        assert_eq!(find(&log, 0), Some((100, 1000 + 930)));
    }
    let broker = Broker::start(&MemoryDisk::new());
    let log = broker.create(LogConfig::default());
    assert_eq!(log.offset_for_timestamp(Timestamp(0)).unwrap(), None);
    assert_eq!(log.offset_of_max_timestamp().unwrap(), None);
}

#[test]
fn version_0_of_list_offsets_gets_segment_bases() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(small());
    for _ in 0..20 {
        append(&mut log, batch(&[&"x".repeat(100)], None));
    }
    let bases = log.segments.iter().rev().map(|segment| segment.base).collect::<Vec<_>>();
    let newest = log.segment_offsets_before(Timestamp(-1), NOW, 100).unwrap();
    assert_eq!(newest, [&[Offset(20)], bases.as_slice()].concat());
    assert_eq!(log.segment_offsets_before(Timestamp(-1), NOW, 1).unwrap(), [Offset(20)]);
    assert_eq!(log.segment_offsets_before(Timestamp(-2), NOW, 5).unwrap(), [Offset(0)]);
    let later = Timestamp(NOW.0 + 1);
    assert_eq!(log.segment_offsets_before(NOW, later, 2).unwrap(), bases[..2]);
    assert_eq!(log.segment_offsets_before(later, later, 2).unwrap(), newest[..2]);
    assert_eq!(log.segment_offsets_before(Timestamp(-9), NOW, 2).unwrap(), []);
}

// ---- shortening ----

#[test]
fn truncation_leaves_what_is_below_and_nothing_else() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    for n in 0..60 {
        if n % 20 == 0 {
            log.assign_epoch(LeaderEpoch(n / 20), log.log_end_offset()).unwrap();
        }
        append(&mut log, batch(&[&format!("{n:050}")], Some((1, 0, n))));
    }
    let work = log.begin_flush().unwrap();
    let outcome = work.run();
    log.finish_flush(work, outcome).unwrap();
    // A leader that wrote nothing leaves no epoch behind.
    log.assign_epoch(LeaderEpoch(3), log.log_end_offset()).unwrap();
    for to in [61, 60, 59, 45, 40, 21, 1] {
        log.truncate_to(Offset(to), NOW).unwrap();
        let to = to.min(60);
        assert_eq!(values(&log).len(), usize::try_from(to).unwrap());
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch((i32::try_from(to).unwrap() - 1) / 20)));
        assert!(log.durable_offset() <= Offset(to) && log.high_watermark() <= Offset(to));
        let last = log.producers()[0].last_sequence.unwrap().0;
        assert_eq!(i64::from(last), to - 1, "the producer may go on from there");
        let mut killed = Broker::start(&disk.copy());
        let after = killed.open(small());
        assert_eq!(values(&after), values(&log));
        assert_eq!(after.latest_epoch(), log.latest_epoch());
        assert_eq!(
            after.offset_of_max_timestamp().unwrap(),
            log.offset_of_max_timestamp().unwrap()
        );
    }
    append(&mut log, batch(&["new"], Some((1, 0, 1))));
    assert_eq!(values(&log)[1], "new");

    log.truncate_fully_and_start_at(Offset(100), NOW).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(100)));
    assert_eq!((log.latest_epoch(), log.producers().len()), (None, 0));
    append(&mut log, batch(&["anew"], None));
    log.close().unwrap();
    broker.directories.close(None);
    let mut broker = Broker::start(&disk);
    let log = broker.open(small());
    assert_eq!(log.log_start_offset(), Offset(100));
    assert_eq!(values(&log), ["anew"]);
}

#[test]
fn a_batch_is_truncated_whole() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig::default());
    append(&mut log, batch(&["a", "b", "c"], None));
    append(&mut log, batch(&["d", "e", "f"], None));
    log.truncate_to(Offset(4), NOW).unwrap();
    assert_eq!(log.log_end_offset(), Offset(4), "the end is where it was asked to be");
    assert_eq!(contents(&log.close().unwrap().open(Arc::default(), NOW).unwrap()).len(), 3);
}

#[test]
fn old_segments_go_by_size_by_time_and_by_log_start() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { segment_ms: Duration::MAX, ..small() });
    let value = "x".repeat(100);
    for n in 0..40 {
        append(&mut log, batch_at(NOW.0 + n, &[&value], None));
    }
    let count = log.segments.len();
    let per_segment = log.segments[1].base.0;
    let size = log.segments[0].published;
    assert_eq!(log.apply_retention(NOW).unwrap(), 0);

    let with = |change: &dyn Fn(&mut LogConfig)| {
        let mut config = LogConfig { segment_ms: Duration::MAX, retention_ms: None, ..small() };
        change(&mut config);
        Arc::new(config)
    };
    let total = log.size_bytes();
    log.set_config(with(&|config| config.retention_bytes = Some(total - 2 * size)));
    log.set_high_watermark(Offset(0));
    log.high_watermark = Offset(per_segment);
    assert_eq!(log.apply_retention(NOW).unwrap(), 1, "nothing above the high watermark");
    log.set_high_watermark(Offset(40));
    assert_eq!(log.apply_retention(NOW).unwrap(), 1, "never below the limit");
    assert_eq!(log.log_start_offset(), Offset(2 * per_segment));

    log.set_config(with(&|config| config.retention_ms = Some(Duration::from_millis(10))));
    let now = Timestamp(NOW.0 + 10 + 3 * per_segment);
    assert_eq!(log.apply_retention(now).unwrap(), 1, "its newest record is 11 ms old");

    log.set_config(with(&|_| {}));
    log.delete_records_before(Offset(4 * per_segment + 1)).unwrap();
    assert_eq!(log.epoch_for_offset(Offset(4 * per_segment)), None);
    assert!(log.delete_records_before(Offset(41)).is_err());
    let compacted = CleanupPolicy { delete: false, compact: true };
    log.set_config(with(&|config| {
        config.cleanup_policy = compacted;
        config.retention_ms = Some(Duration::ZERO);
    }));
    assert_eq!(log.apply_retention(NOW).unwrap(), 1, "what lies below the log start goes always");
    assert_eq!(log.log_start_offset(), Offset(4 * per_segment + 1));
    broker.directories.write_checkpoints();
    let mut killed = Broker::start(&disk.copy());
    assert_eq!(killed.open(small()).log_start_offset(), Offset(4 * per_segment + 1));

    log.set_config(with(&|config| config.retention_ms = Some(Duration::ZERO)));
    let late = Timestamp(NOW.0 + 1000);
    assert_eq!(log.apply_retention(late).unwrap(), count - 4);
    assert_eq!((log.log_start_offset(), log.size_bytes()), (Offset(40), 0));
    assert_eq!(log.apply_retention(late).unwrap(), 0, "an empty segment stays");
    append(&mut log, batch(&["next"], None));
    assert_eq!(contents(&log), [(40, "next".to_owned())]);

    let names = |disk: &MemoryDisk| disk.files().into_iter().map(|file| file.0).collect::<Vec<_>>();
    let doomed = |name: &std::path::PathBuf| name.to_str().unwrap().ends_with(".deleted");
    assert!(names(&disk).iter().any(doomed));
    let start = Instant::default();
    let due = broker.directories.delete_step(start).unwrap();
    assert_eq!(due, start + Duration::from_secs(60));
    while broker.directories.delete_step(due).is_some() {}
    assert!(!names(&disk).iter().any(doomed));
}

#[test]
fn a_read_outlives_the_segment_that_it_reads() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig::default());
    for _ in 0..3 {
        append(&mut log, batch(&[&"x".repeat(9000)], None));
    }
    let request = ReadRequest {
        offset: Offset(0),
        max_bytes: 1 << 20,
        min_one_message: true,
        upper_bound: Offset(3),
        want_aborted: false,
    };
    let read = log.read(request).unwrap();
    assert!(matches!(read.records.parts(), [RecordsPart::File(_)]));
    log.truncate_fully_and_start_at(Offset(9), NOW).unwrap();
    let later = Instant(Duration::from_secs(1000));
    while broker.directories.delete_step(later).is_some_and(|next| next <= later) {}
    assert_eq!(Batches::new(&bytes_of(&read)).count(), 3);
}

// ---- opening ----

/// B31: files that are missing or damaged after a clean stop are made anew.
#[test]
fn damaged_indexes_are_rebuilt() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { segment_ms: Duration::MAX, ..small() });
    for n in 0..40 {
        append(
            &mut log,
            batch_at(NOW.0 + n, &[&format!("{n:050}")], Some((1, 0, i32::try_from(n).unwrap()))),
        );
    }
    log.close().unwrap();
    broker.directories.close(None);
    let before = disk.files();
    let partition = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        let mut files = files.to_vec();
        files.retain(|file| file.0.starts_with("/data/t-0"));
        files
    };
    for (path, content) in partition(&before) {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        if path.ends_with("partition.metadata") || extension == "log" {
            continue;
        }
        for damage in 0..3 {
            let disk = disk.copy();
            match (damage, extension) {
                (0, _) => platform::Disk::remove_file(&disk, &path).unwrap(),
                (1, "index" | "timeindex") => {
                    disk.put(&path, &content[..content.len().saturating_sub(5)])
                }
                (1, _) => disk.put(&path, &content[..content.len() / 2]),
                (_, "index" | "timeindex") => continue, // content is trusted, as Kafka does
                (_, _) => disk.put(&path, b"\xff\xff garbage"),
            }
            let mut broker = Broker::start(&disk);
            let log = broker.open(LogConfig { segment_ms: Duration::MAX, ..small() });
            assert_eq!(values(&log).len(), 40, "{}", path.display());
            assert_eq!(log.epoch_for_offset(Offset(0)), Some(LeaderEpoch(0)));
            for n in [0, 20, 39] {
                let found = log.offset_for_timestamp(Timestamp(NOW.0 + n)).unwrap().unwrap();
                assert_eq!(found.offset, Offset(n), "{}", path.display());
            }
            if extension != "snapshot" {
                assert_eq!(log.producers()[0].last_sequence, Some(Sequence(39)));
            }
        }
    }
}

#[test]
fn an_index_that_does_not_fit_its_segment_is_not_believed() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { index_interval_bytes: 100, ..LogConfig::default() });
    for n in 0..40 {
        append(&mut log, batch(&[&format!("{n:050}")], None));
    }
    log.close().unwrap();
    broker.directories.close(None);
    let path = Path::new("/data/t-0/00000000000000000000.index");
    let index = disk.files().into_iter().find(|file| file.0 == path).unwrap().1;
    for at in [index.len() - 8, index.len() - 2] {
        let disk = disk.copy();
        let mut wrong = index.clone();
        wrong[at] = 0x7f;
        disk.put(path, &wrong);
        let mut broker = Broker::start(&disk);
        assert_eq!(values(&broker.open(LogConfig::default())).len(), 40);
    }
}

#[test]
fn an_interrupted_swap_of_segments_is_finished_or_undone() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    for n in 0..40 {
        append(&mut log, batch(&[&format!("{n:050}")], None));
    }
    let second = log.segments[1].base;
    let wanted = values(&log);
    log.close().unwrap();
    broker.directories.close(None);
    let name = |suffix: &str| format!("/data/t-0/{:020}.{suffix}", second.0);
    let take = |disk: &MemoryDisk, suffix: &str| {
        let path = name(suffix);
        disk.files().into_iter().find(|file| file.0 == Path::new(&path)).unwrap().1
    };
    // The swap file holds what the segment held: as if compaction had changed nothing.
    let finished = disk.copy();
    for suffix in ["log", "index", "timeindex"] {
        finished.put(Path::new(&name(&format!("{suffix}.swap"))), &take(&disk, suffix));
    }
    platform::Disk::remove_file(&finished, Path::new(&name("log"))).unwrap();
    // Not all cleaned segments were renamed: the old ones are still valid.
    let undone = disk.copy();
    undone.put(Path::new(&name("log.cleaned")), b"unfinished");
    undone.put(Path::new("/data/t-0/00000000000000000030.log.swap"), b"unfinished");
    undone.put(Path::new("/data/t-0/00000000000000000001.log.deleted"), b"old");
    let half_announced = disk.copy();
    half_announced.put(Path::new(&name("log.swap")), b"unfinished");
    half_announced.put(Path::new("/data/t-0/00000000000000000030.log.cleaned"), b"unfinished");
    // It was taken back, but for a part.
    let taken_back = disk.copy();
    taken_back.put(Path::new(&name("index.swap")), &[0, 0, 0, 1, 0, 0, 0, 1]);
    for disk in [finished, undone, half_announced, taken_back] {
        let mut broker = Broker::start(&disk);
        assert_eq!(values(&broker.open(small())), wanted);
        let left = disk.files().into_iter().map(|file| file.0);
        let left = left.filter(|path| {
            let name = path.to_str().unwrap();
            ["swap", "cleaned", "deleted"].iter().any(|suffix| name.ends_with(suffix))
        });
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn files_are_closed_when_there_are_too_many() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { segment_bytes: 200, ..LogConfig::default() });
    for n in 0..200 {
        append(&mut log, batch(&[&format!("{n:050}")], None));
    }
    assert!(log.segments.len() > 50);
    assert_eq!(values(&log).len(), 200);
    let cache = Arc::clone(&log.directory().shared().files);
    assert!(cache.len() <= 100, "{}", cache.len());
    log.release_idle();
    assert_eq!(cache.len(), 0);
    assert_eq!(values(&log).len(), 200);
    drop(log);
    assert_eq!(cache.len(), 0);
}
