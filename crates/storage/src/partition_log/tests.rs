//! Logs on a disk in memory.

use super::*;
use crate::append::{AppendOrigin, AppendRecords, AppendRequest, Reserved, Verification};
use crate::log_directories::{LogDirectories, LogDirectoriesConfig};
use crate::read::{LogRead, ReadRequest};
use crate::{AppendError, CleanupPolicy, PendingAppend};
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
    disk: MemoryDisk,
    directories: LogDirectories,
    closed: Vec<ClosedLog>,
}

impl Broker {
    fn start(disk: &MemoryDisk) -> Self {
        let config = LogDirectoriesConfig {
            paths: vec!["/data".into()],
            broker_id: BrokerId(1),
            max_open_files: 100,
            tail_cache_bytes: 1 << 20,
        };
        let (directories, closed) = LogDirectories::open(
            Arc::new(disk.clone()),
            Arc::new(SeededRandom::new(1)),
            config,
            Instant::default(),
        )
        .unwrap();
        Self { disk: disk.clone(), directories, closed }
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

/// One record per value; times count from 1000.
fn batch(values: &[&str], producer: Option<(i64, i16, i32)>) -> Bytes {
    batch_at(1000, values, producer)
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
    let mut rules = ValidationRules::new(NOW);
    if origin == AppendOrigin::Coordinator {
        rules.origin = protocol::records::validate::Origin::Coordinator;
    }
    let batches = validate(&bytes, &rules).unwrap();
    let records = AppendRecords::Assign {
        batches,
        leader_epoch: LeaderEpoch(0),
        origin,
        verification: Verification::NotRequired,
    };
    AppendRequest { records, now: NOW }
}

fn reserve(log: &mut PartitionLog, bytes: Bytes) -> PendingAppend {
    match log.reserve(request(bytes, AppendOrigin::Client)).unwrap() {
        Reserved::Pending(pending) => pending,
        other => panic!("{other:?}"),
    }
}

fn append(log: &mut PartitionLog, bytes: Bytes) -> Offset {
    try_append(log, bytes).unwrap()
}

fn try_append(log: &mut PartitionLog, bytes: Bytes) -> Result<Offset, String> {
    append_as(log, bytes, AppendOrigin::Client)
}

fn append_as(log: &mut PartitionLog, bytes: Bytes, origin: AppendOrigin) -> Result<Offset, String> {
    let reserved = log.reserve(request(bytes, origin)).map_err(|error| format!("{error:?}"))?;
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
