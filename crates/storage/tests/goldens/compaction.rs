//! What Kafka's cleaner made of a log, and what ours makes of it.

use crate::{disk_with, files, golden, open, partition_files, start};
use model::Timestamp;
use platform::MemoryDisk;
use protocol::records::{Batch, Batches};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::{
    Cleaning, CleaningBuffers, CleanupPolicy, Interrupted, LogConfig, Pace, PartitionLog,
};

struct Unpaced;

impl Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

fn flush(log: &mut PartitionLog) {
    if let Some(work) = log.begin_flush() {
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
    }
}

fn compact(log: &mut PartitionLog, now: Timestamp) {
    flush(log);
    let view = log.view().unwrap();
    let state = view.state(now).unwrap();
    assert!(state.is_due(0.01), "{state:?}");
    let buffers =
        CleaningBuffers { dedupe_bytes: 1 << 20, dedupe_load_factor: 0.9, io_bytes: 1 << 16 };
    let mut cleaning = Cleaning::begin(view, state, buffers, 1, now, &mut Unpaced).unwrap();
    while let Some(group) = cleaning.clean_next(&mut Unpaced).unwrap() {
        let mut swap = log.begin_swap(group).unwrap();
        swap.announce().unwrap();
        let files = log.swap(&mut swap);
        log.end_swap(swap.complete(&files));
    }
    assert!(log.end_cleaning(&cleaning));
    log.directory().checkpoint_cleaner_offsets();
}

/// The first round of Kafka's cleaner, and ours on the same log at the same time, byte for byte: keys
/// with and without values, tombstones, empty segments and batches, producers' last batches, committed and
/// aborted transactions, their markers and their index.
#[test]
fn compaction_writes_what_kafka_writes() {
    // When Kafka began: it is in the delete horizons.
    for (name, segment_bytes, horizon) in
        [("rcz", 400, 1_795_971_654_041), ("rcztxn", 500, 1_795_971_653_610)]
    {
        let disk = disk_with(&format!("compacted/{name}-round0"), &[]);
        let (directories, closed) = start(&disk);
        let mut log = open(closed, segment_bytes, 4096);
        let mut config = LogConfig::clone(log.config());
        config.cleanup_policy = CleanupPolicy { delete: false, compact: true };
        config.delete_retention_ms = Duration::from_millis(3000);
        log.set_config(Arc::new(config));
        log.set_high_watermark(log.log_end_offset());
        let end = log.log_end_offset();
        compact(&mut log, Timestamp(horizon - 3000));
        assert_eq!(log.log_end_offset(), end);

        let kafka = files(&golden(&format!("compacted/{name}-round1")));
        let active = kafka.keys().rfind(|name| name.ends_with(".log")).unwrap().clone();
        let is_segment = |name: &str| {
            let kinds = [".log", ".index", ".timeindex", ".txnindex"];
            name < &active[..20] && kinds.iter().any(|kind| name.ends_with(kind))
        };
        let ours = partition_files(&disk);
        let segments = |files: &BTreeMap<String, Vec<u8>>| {
            let mut files = files.clone();
            files.retain(|name, _| is_segment(name));
            files
        };
        assert_eq!(
            segments(&ours).into_keys().collect::<Vec<_>>(),
            segments(&kafka).into_keys().collect::<Vec<_>>()
        );
        for (file, content) in segments(&kafka) {
            assert_eq!(ours[&file], content, "{name}: {file}");
        }
        // It opens again, with the same producers.
        let producers = log.producers();
        log.close().unwrap();
        directories.close(None);
        let (_, closed) = start(&disk);
        let log = open(closed, segment_bytes, 4096);
        assert_eq!((log.log_end_offset(), log.producers()), (end, producers));
    }
}

/// What Kafka's cleaner made of any log, and ours: `COMPACTION_BEFORE` and `COMPACTION_AFTER` are the
/// directory of a partition before and after one round, `COMPACTION_CONFIG` is `segment.bytes,
/// index.interval.bytes,delete.retention.ms,first dirty offset`. Batches are compared with everything in
/// them; compressed ones but for how they are compressed.
#[test]
#[ignore = "needs directories that a real Kafka left"]
fn compaction_keeps_what_a_real_kafka_keeps() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let config = variable("COMPACTION_CONFIG");
    let config = config.split(',').map(|n| n.parse().unwrap()).collect::<Vec<i64>>();
    let [segment_bytes, interval, retention, first_dirty] = config[..] else { panic!("4 numbers") };
    let disk = MemoryDisk::new();
    for (name, content) in files(Path::new(&variable("COMPACTION_BEFORE"))) {
        disk.put(&Path::new("/data/t-0").join(name), &content);
    }
    let checkpoint = format!("0\n1\nt 0 {first_dirty}\n");
    disk.put(Path::new("/data/cleaner-offset-checkpoint"), checkpoint.as_bytes());
    let (_directories, closed) = start(&disk);
    let positive = |n: i64| u64::try_from(n).unwrap();
    let mut log = open(closed, positive(segment_bytes), positive(interval));
    let mut config = LogConfig::clone(log.config());
    config.cleanup_policy = CleanupPolicy { delete: false, compact: true };
    config.delete_retention_ms = Duration::from_millis(positive(retention));
    log.set_config(Arc::new(config));
    log.set_high_watermark(log.log_end_offset());

    let kafka = files(Path::new(&variable("COMPACTION_AFTER")));
    // When Kafka began: in the newest delete horizon.
    let horizons = kafka.iter().filter(|file| file.0.ends_with(".log")).flat_map(|file| {
        let batches = Batches::new(file.1).map(Result::unwrap);
        batches.filter_map(|batch| batch.header()?.delete_horizon()).collect::<Vec<_>>()
    });
    let now = Timestamp(horizons.max().unwrap().0 - retention);
    compact(&mut log, now);
    let ours = partition_files(&disk);
    let logs = |files: &BTreeMap<String, Vec<u8>>| {
        let mut files = files.clone();
        files.retain(|name, _| name.ends_with(".log") || name.ends_with(".txnindex"));
        files
    };
    let (ours, kafka) = (logs(&ours), logs(&kafka));
    let mut count = 0;
    for (name, theirs) in &kafka {
        let mine = ours.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        if name.ends_with(".txnindex") {
            assert_eq!(mine, theirs, "{name}");
            continue;
        }
        let seen = |bytes: &[u8]| {
            Batches::new(bytes).map(|batch| describe_batch(&batch.unwrap())).collect::<Vec<_>>()
        };
        let (mine, theirs) = (seen(mine), seen(theirs));
        count += theirs.len();
        assert_eq!(mine, theirs, "{name}");
    }
    let without_index = |files: &BTreeMap<String, Vec<u8>>| {
        files.keys().filter(|name| name.ends_with(".log")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(without_index(&ours), without_index(&kafka));
    println!("{} segments and {count} batches are equal", without_index(&ours).len());
}

/// A batch with everything that does not depend on the compressor.
fn describe_batch(batch: &Batch<'_>) -> String {
    assert!(batch.verify());
    let mut header = batch.header().unwrap().clone();
    if header.attributes.compression().unwrap() != protocol::records::Compression::None {
        (header.crc, header.batch_length) = (0, 0);
    }
    let records = batch.records(1 << 20).unwrap();
    let records = records.iter().map(Result::unwrap).map(|record| format!("{record:?}"));
    format!("{header:?} {:?}", records.collect::<Vec<_>>())
}
