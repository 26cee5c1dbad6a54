//! Directories that Apache Kafka wrote open here and give the right answers; those that a crash left
//! are recovered to the same files as Kafka recovers them to. See `golden/README.md`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use model::{BrokerId, Instant, LeaderEpoch, Offset, ProducerId, Timestamp};
use platform::MemoryDisk;
use platform::random::SeededRandom;
use protocol::RecordsPart;
use protocol::records::{Batch, Batches};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::{Cleaning, CleaningBuffers, CleanupPolicy, Interrupted, Pace};
use storage::{
    ClosedLog, LogConfig, LogDirectories, LogDirectoriesConfig, PartitionLog, ReadRequest,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

/// The files of a partition directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect()
}

/// A disk with the directory as partition `t-0`.
fn disk_with(directory: &str, top: &[(&str, &str)]) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (name, content) in files(&golden(directory)) {
        disk.put(&Path::new("/data/t-0").join(name), &content);
    }
    for (name, content) in top {
        disk.put(&Path::new("/data").join(name), content.as_bytes());
    }
    disk
}

fn partition_files(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    let in_partition = |path: &Path| path.strip_prefix("/data/t-0").ok().map(Path::to_owned);
    disk.files()
        .into_iter()
        .filter_map(|(path, content)| {
            in_partition(&path).map(|name| (name.to_str().unwrap().to_owned(), content))
        })
        .collect()
}

fn start(disk: &MemoryDisk) -> (LogDirectories, ClosedLog) {
    let config = LogDirectoriesConfig {
        paths: vec!["/data".into()],
        broker_id: BrokerId(1),
        max_open_files: 3,
        tail_cache_bytes: 0,
        disk_reserve_bytes: Some(0),
    };
    let random = Arc::new(SeededRandom::new(1));
    let (directories, mut closed) =
        LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default()).unwrap();
    (directories, closed.remove(0))
}

fn open(closed: ClosedLog, segment_bytes: u64, index_interval_bytes: u64) -> PartitionLog {
    let config = LogConfig {
        segment_bytes,
        index_interval_bytes,
        producer_id_expiration_ms: Duration::MAX,
        ..LogConfig::default()
    };
    closed.open(Arc::new(config), NOW).unwrap()
}

fn read(log: &PartitionLog, offset: Offset, max_bytes: usize) -> Vec<u8> {
    let request = ReadRequest {
        offset,
        max_bytes,
        min_one_message: true,
        upper_bound: log.log_end_offset(),
        want_aborted: false,
    };
    let mut bytes = Vec::new();
    for part in log.read(request).unwrap().records.parts() {
        let RecordsPart::Bytes(part) = part else { panic!("small reads come in memory") };
        bytes.extend_from_slice(part);
    }
    bytes
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// (offset, timestamp, leader epoch) of every record, control records too.
type Seen = Vec<(i64, i64, i32)>;

fn check_batches(log: &PartitionLog, expected: &Value) -> Seen {
    let mut at = log.log_start_offset();
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    while at < log.log_end_offset() {
        let bytes = read(log, at, 1 << 14);
        if bytes.is_empty() {
            break; // compaction left a gap at the end
        }
        for batch in Batches::new(&bytes) {
            let batch: Batch<'_> = batch.unwrap();
            assert!(batch.verify());
            at = batch.last_offset() + 1;
            let header = batch.header();
            found.push((
                header.map(|header| header.base_offset),
                batch.last_offset().0,
                batch.bytes().len(),
                header.map(|header| i64::from(header.crc)),
            ));
            for record in &batch.records(1 << 20).unwrap() {
                let record = record.unwrap();
                let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
                let epoch = header.map_or(-1, |header| header.partition_leader_epoch);
                seen.push((record.offset.0, timestamp, epoch));
            }
        }
    }
    let wanted = expected["batches"].as_array().unwrap().iter().map(|batch| {
        (
            batch.get("base").map(number),
            number(&batch["last"]),
            usize::try_from(number(&batch["bytes"])).unwrap(),
            batch.get("crc").map(number),
        )
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
    // Every offset is found in the first batch that reaches it.
    for offset in log.log_start_offset().0..log.log_end_offset().0 {
        let bytes = read(log, Offset(offset), 1);
        let first = Batches::new(&bytes).next().map(|batch| batch.unwrap().last_offset().0);
        let wanted = found.iter().map(|batch| batch.1).find(|&last| last >= offset);
        assert_eq!(first, wanted, "offset {offset}");
    }
    seen
}

fn check_timestamps(log: &PartitionLog, seen: &Seen) {
    let readable = || seen.iter().filter(|record| record.0 >= log.log_start_offset().0);
    let mut asked = readable().map(|record| record.1).filter(|&time| time >= 0).collect::<Vec<_>>();
    asked.extend(asked.clone().iter().flat_map(|time| [time - 1, time + 1]));
    for time in asked {
        let found = log.offset_for_timestamp(Timestamp(time)).unwrap().map(|found| {
            (found.offset.0, found.timestamp.0, found.leader_epoch.map_or(-1, |epoch| epoch.0))
        });
        assert_eq!(found, readable().find(|record| record.1 >= time).copied(), "time {time}");
    }
    let largest = seen.iter().map(|record| record.1).max().filter(|&largest| largest >= 0);
    let found =
        log.offset_of_max_timestamp().unwrap().map(|found| (found.timestamp.0, found.offset.0));
    let wanted = largest.map(|largest| {
        (largest, seen.iter().find(|record| record.1 == largest).expect("it is one of them").0)
    });
    assert_eq!(found, wanted);
}

fn check_epochs(log: &PartitionLog, expected: &Value) {
    let end = log.log_end_offset().0;
    let epochs = expected["leader_epochs"].as_array().cloned().unwrap_or_default();
    let epochs = epochs.iter().map(|entry| (number(&entry[0]), number(&entry[1])));
    // One that starts at the log end has no records, and is dropped when a log is opened.
    let epochs = epochs.filter(|entry| entry.1 < end).collect::<Vec<_>>();
    for offset in log.log_start_offset().0..end {
        let wanted = epochs.iter().rfind(|entry| entry.1 <= offset).map(|entry| entry.0);
        let found = log.epoch_for_offset(Offset(offset)).map(|epoch| i64::from(epoch.0));
        assert_eq!(found, wanted, "offset {offset}");
    }
    for (at, (epoch, _)) in epochs.iter().enumerate() {
        let wanted = epochs.get(at + 1).map_or(end, |next| next.1);
        let epoch = LeaderEpoch(i32::try_from(*epoch).unwrap());
        assert_eq!(log.end_offset_for_epoch(epoch).unwrap().end_offset, Offset(wanted));
    }
}

fn check_producers(log: &PartitionLog, expected: &Value) {
    let snapshots = expected["snapshots"].as_object().cloned().unwrap_or_default();
    let newest = snapshots.iter().max_by_key(|entry| entry.0.parse::<i64>().unwrap());
    let wanted = newest.map_or(Vec::new(), |entry| entry.1.as_array().unwrap().clone());
    let some = |value: &Value| Some(number(value)).filter(|&value| value >= 0);
    let mut wanted = wanted
        .iter()
        .map(|p| {
            (
                number(&p["producer_id"]),
                number(&p["epoch"]),
                some(&p["last_sequence"]),
                number(&p["timestamp"]),
                some(&p["coordinator_epoch"]),
                some(&p["current_txn_first_offset"]),
            )
        })
        .collect::<Vec<_>>();
    wanted.sort_unstable();
    let found = log.producers().into_iter().map(|p| {
        (
            p.producer_id.0,
            i64::from(p.epoch.0),
            p.last_sequence.map(|sequence| i64::from(sequence.0)),
            p.last_timestamp.0,
            p.coordinator_epoch.map(i64::from),
            p.current_transaction_first_offset.map(|offset| offset.0),
        )
    });
    assert_eq!(found.collect::<Vec<_>>(), wanted);
}

/// What a `read_committed` consumer makes of one large fetch.
fn check_read_committed(log: &PartitionLog, expected: &Value) {
    let Some(wanted) = expected["read_committed_offsets"].as_array() else { return };
    let mut at = log.log_start_offset();
    let mut delivered = Vec::new();
    let mut aborting = BTreeMap::<ProducerId, Offset>::new();
    while at < log.last_stable_offset() {
        let request = ReadRequest {
            offset: at,
            max_bytes: 300,
            min_one_message: true,
            upper_bound: log.last_stable_offset(),
            want_aborted: true,
        };
        let read = log.read(request).unwrap();
        let mut aborted = read.aborted_transactions.unwrap();
        aborted.sort_by_key(|aborted| aborted.first_offset);
        let bytes = read.records.parts().iter().fold(Vec::new(), |mut all, part| {
            let RecordsPart::Bytes(part) = part else { panic!("small reads come in memory") };
            all.extend_from_slice(part);
            all
        });
        let before = at;
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            at = batch.last_offset() + 1;
            let id = ProducerId(batch.header().map_or(-1, |header| header.producer_id));
            while aborted.first().is_some_and(|first| first.first_offset <= batch.last_offset()) {
                let first = aborted.remove(0);
                aborting.insert(first.producer_id, first.first_offset);
            }
            if batch.is_control() {
                aborting.remove(&id);
            } else if !(batch.is_transactional() && aborting.contains_key(&id)) {
                for record in &batch.records(1 << 20).unwrap() {
                    let offset = record.unwrap().offset;
                    if offset >= before.max(log.log_start_offset()) {
                        delivered.push(offset.0);
                    }
                }
            }
        }
        if at == before {
            break;
        }
    }
    assert_eq!(delivered, wanted.iter().map(number).collect::<Vec<_>>());
}

#[test]
fn clean_directories_give_the_right_answers_and_stay_as_they_are() {
    let mut count = 0;
    for entry in fs::read_dir(golden("clean")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        println!("{name}");
        let expected = fs::read_to_string(golden(&format!("clean/{name}.json"))).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let log_end = number(&expected["log_end_offset"]);
        let log_start = number(&expected["log_start_offset"]);
        let disk = disk_with(
            &format!("clean/{name}"),
            &[
                (".kafka_cleanshutdown", "{\"version\":0,\"brokerEpoch\":-1}"),
                ("log-start-offset-checkpoint", &format!("0\n1\nt 0 {log_start}\n")),
                ("recovery-point-offset-checkpoint", &format!("0\n1\nt 0 {log_end}\n")),
                ("replication-offset-checkpoint", &format!("0\n1\nt 0 {log_end}\n")),
            ],
        );
        let before = partition_files(&disk);
        let (directories, closed) = start(&disk);
        assert!(!closed.needs_recovery());
        let log = open(closed, 1 << 30, 4096);
        assert_eq!(log.log_end_offset(), Offset(log_end));
        assert_eq!(log.log_start_offset(), Offset(log_start));
        assert_eq!(log.durable_offset(), Offset(log_end));
        if let Some(id) = expected["topic_id"].as_str() {
            assert_eq!(log.topic_id().unwrap().to_string(), id);
        }
        if let Some(last_stable) = expected["last_stable_offset"].as_i64() {
            assert_eq!(log.last_stable_offset(), Offset(last_stable));
        }
        let seen = check_batches(&log, &expected);
        check_timestamps(&log, &seen);
        check_epochs(&log, &expected);
        check_producers(&log, &expected);
        check_read_committed(&log, &expected);
        log.close().unwrap();
        directories.close(None);
        let mut before = before;
        let after = partition_files(&disk);
        // Snapshots of no segment go at every start, but for the newest.
        let newest = before.keys().rfind(|file| file.ends_with(".snapshot")).cloned();
        before.retain(|file, _| {
            let base = file.strip_suffix(".snapshot");
            base.is_none_or(|base| after.contains_key(&format!("{base}.log")))
                || Some(file) == newest.as_ref()
        });
        assert!(after == before, "{name}: nothing changed, nothing is written");
        count += 1;
    }
    assert_eq!(count, 15);
}

/// Recovery ends with the files that Kafka's ends with.
#[test]
fn crashed_directories_are_recovered_as_kafka_recovers_them() {
    // Where recovery starts, and the settings of the topic.
    let cases = [
        ("qnoidx", 14, 1000, 100),
        ("qopen", 13, 700, 300),
        ("qpre", 19, 2000, 4096),
        ("qtorn", 7, 1000, 100),
        ("qzero", 7, 1000, 100),
    ];
    for (name, recovery_point, segment_bytes, interval) in cases {
        println!("{name}");
        for stray in ["", "recovery-point-offset-checkpoint", "leader-epoch-checkpoint"] {
            let points = format!("0\n1\nt 0 {recovery_point}\n");
            let points = ("recovery-point-offset-checkpoint", points.as_str());
            let disk = disk_with(&format!("crashed/{name}"), &[points]);
            // B31: history is not lost with a file that holds it.
            match stray {
                "" => {}
                "leader-epoch-checkpoint" => {
                    disk.put(Path::new("/data/t-0/leader-epoch-checkpoint"), b"")
                }
                other => disk.put(&Path::new("/data").join(other), b"scrambled"),
            }
            let (directories, closed) = start(&disk);
            assert!(closed.needs_recovery());
            let log = open(closed, segment_bytes, interval);
            assert_eq!(log.epoch_for_offset(log.log_start_offset()), Some(LeaderEpoch(0)));
            log.close().unwrap();
            directories.close(None);
            let mut found = partition_files(&disk);
            // Files of ours, which Kafka leaves alone.
            found.retain(|name, _| !name.ends_with(".checksums"));
            let mut wanted = files(&golden(&format!("recovered/{name}")));
            if name == "qnoidx" {
                // Kafka leaves a lost time index empty, so that the segment is as old as its file.
                let lost = "00000000000000000007.timeindex";
                assert_eq!(wanted.remove(lost), Some(Vec::new()));
                assert_eq!(found.remove(lost).map(|index| index.len()), Some(72));
            }
            let names =
                |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&found), names(&wanted), "{name} {stray}");
            for (file, content) in &wanted {
                assert_eq!(&found[file], content, "{name} {stray} {file}");
            }

            // And a clean start finds it all again.
            let (_, closed) = start(&disk);
            assert!(!closed.needs_recovery());
            let newest =
                names(&wanted).into_iter().rfind(|name| name.ends_with(".snapshot")).unwrap();
            let ends = newest[..20].parse::<i64>();
            assert_eq!(
                open(closed, segment_bytes, interval).log_end_offset(),
                Offset(ends.unwrap())
            );
        }
    }
}

#[test]
fn open_transactions_survive_a_crash() {
    let disk =
        disk_with("crashed/qopen", &[("recovery-point-offset-checkpoint", "0\n1\nt 0 13\n")]);
    let (_, closed) = start(&disk);
    let mut log = open(closed, 700, 300);
    log.set_high_watermark(log.log_end_offset());
    assert_eq!((log.log_end_offset(), log.last_stable_offset()), (Offset(19), Offset(6)));
    let open = log.producers();
    let open = open.iter().filter(|p| p.current_transaction_first_offset.is_some());
    assert_eq!(open.count(), 2);
}

/// The index of this directory's active segment holds entries of batches that had been truncated.
#[test]
fn stale_index_entries_of_a_crashed_directory_are_not_used() {
    let disk = disk_with("crashed/diverged", &[]);
    let (_, closed) = start(&disk);
    let log = open(closed, 1 << 20, 4096);
    assert_eq!(log.log_end_offset(), Offset(9));
    let bytes = (0..9).map(|at| read(&log, Offset(at), 1)).collect::<Vec<_>>();
    for (at, bytes) in (0..).zip(bytes) {
        let batch = Batches::new(&bytes).next().unwrap().unwrap();
        assert!(batch.base_offset().unwrap().0 <= at && at <= batch.last_offset().0);
    }
}

// ---- compaction ----

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
