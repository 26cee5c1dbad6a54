//! Directories that Apache Kafka wrote open here and give the right answers; those that a crash left
//! are recovered to the same files as Kafka recovers them to. See `golden/README.md`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod answers;
mod compaction;

use answers::{check, check_producers, number};
use model::{BrokerId, Instant, LeaderEpoch, Offset, Timestamp};
use platform::MemoryDisk;
use platform::random::SeededRandom;
use protocol::records::Batches;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::{
    ClosedLog, LogConfig, LogDirectories, LogDirectoriesConfig, PartitionLog, ReadRequest,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

/// The files in a directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
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
    let (directories, mut closed) = start_with_all(disk);
    (directories, closed.remove(0))
}

fn start_with_all(disk: &MemoryDisk) -> (LogDirectories, Vec<ClosedLog>) {
    let config = LogDirectoriesConfig {
        paths: vec!["/data".into()],
        broker_id: BrokerId(1),
        max_open_files: 3,
        tail_cache_bytes: 0,
        disk_reserve_bytes: Some(0),
    };
    let random = Arc::new(SeededRandom::new(1));
    LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default()).unwrap()
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
    log.read(request).unwrap().records.into_bytes().unwrap().to_vec()
}

/// The directories of `folder` that have an answer, and these answers.
fn with_answers(folder: &str) -> Vec<(String, Value)> {
    let names = files(&golden(folder)).into_iter();
    let answers = names.filter_map(|(file, content)| {
        let name = format!("{folder}/{}", file.strip_suffix(".json")?);
        Some((name, serde_json::from_slice(&content).unwrap()))
    });
    answers.collect()
}

#[test]
fn clean_directories_give_the_right_answers_and_stay_as_they_are() {
    let mut count = 0;
    for (name, expected) in with_answers("clean").into_iter().chain(with_answers("recovered")) {
        println!("{name}");
        let log_end = number(&expected["log_end_offset"]);
        let log_start = number(&expected["log_start_offset"]);
        let disk = disk_with(
            &name,
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
        let has_lost_index = name == "recovered/qnoidx";
        let log = open(closed, 1 << 30, if has_lost_index { 100 } else { 4096 });
        assert_eq!(log.durable_offset(), Offset(log_end));
        check(&log, &expected);
        check_producers(&log, &expected);
        log.close().unwrap();
        directories.close(None);
        let (mut before, mut after) = (before, partition_files(&disk));
        // Snapshots of no segment go at every start, but for the newest.
        let newest = before.keys().rfind(|file| file.ends_with(".snapshot")).cloned();
        before.retain(|file, _| {
            let base = file.strip_suffix(".snapshot");
            base.is_none_or(|base| after.contains_key(&format!("{base}.log")))
                || Some(file) == newest.as_ref()
        });
        // As in Kafka, an epoch without records goes when a log is opened.
        let last_epoch = expected["leader_epochs"].as_array().and_then(|epochs| epochs.last());
        let is_empty = last_epoch.is_some_and(|last| number(&last[1]) == log_end);
        before.retain(|file, _| !is_empty || file != "leader-epoch-checkpoint");
        after.retain(|file, _| !is_empty || file != "leader-epoch-checkpoint");
        let differs = |file: &&String| before.get(*file) != after.get(*file);
        let changed = before.keys().chain(after.keys());
        let mut changed = changed.filter(differs).cloned().collect::<BTreeSet<_>>();
        if has_lost_index {
            // Kafka left a time index empty that had been lost; it is made anew.
            for file in ["00000000000000000007.timeindex", "00000000000000000007.checksums"] {
                assert!(changed.remove(file), "{file}");
            }
            assert_eq!(after["00000000000000000007.timeindex"].len(), 72);
        }
        assert!(changed.is_empty(), "{name}: nothing changed, and {changed:?} are written");
        count += 1;
    }
    assert_eq!(count, 55);
}

/// What a broker that has not stopped had on its disk: recovery loses nothing of it, and what it was about to
/// delete goes.
#[test]
fn directories_of_running_brokers_are_recovered_to_the_right_answers() {
    let mut count = 0;
    let folders = ["live", "compacted", "crashed"];
    for (name, expected) in folders.into_iter().flat_map(with_answers) {
        println!("{name}");
        let log_start = number(&expected["log_start_offset"]);
        let start_offsets = format!("0\n1\nt 0 {log_start}\n");
        let mut top = vec![("log-start-offset-checkpoint", start_offsets.as_str())];
        // Where its last segment begins.
        let active = files(&golden(&name)).into_keys().rfind(|file| file.ends_with(".log"));
        let active = active.unwrap()[..20].parse::<i64>().unwrap();
        let recovery_point = format!("0\n1\nt 0 {active}\n");
        if name.starts_with("compacted/") {
            top.push(("recovery-point-offset-checkpoint", &recovery_point));
            // Without it, a gap would be where records were lost.
            top.push(("cleaner-offset-checkpoint", "0\n1\nt 0 1\n"));
        }
        let disk = disk_with(&name, &top);
        let logs = |disk: &MemoryDisk| {
            let mut files = partition_files(disk);
            files.retain(|file, _| file.ends_with(".log"));
            files
        };
        let before = logs(&disk);
        for needs_recovery in [true, false] {
            let (directories, closed) = start(&disk);
            assert_eq!(closed.needs_recovery(), needs_recovery, "{name}");
            let mut log = open(closed, 1 << 30, 4096);
            log.set_high_watermark(log.log_end_offset());
            check(&log, &expected);
            assert!(logs(&disk) == before, "{name}: recovery changed the records");
            log.close().unwrap();
            directories.close(None);
            let deleted =
                partition_files(&disk).into_keys().find(|file| file.ends_with(".deleted"));
            assert_eq!(deleted, None, "{name}");
        }
        count += 1;
    }
    assert_eq!(count, 12);
}

/// Both log directories of a broker, with checkpoints of many partitions, stopped cleanly.
#[test]
fn whole_log_directories_give_the_right_answers() {
    for (version, partitions) in [("3.9.2", 20), ("4.3.1", 20)] {
        let disk = MemoryDisk::new();
        for directory in ["dir-a", "dir-b"] {
            let path = golden("directories").join(version).join(directory);
            for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
                let to = Path::new("/").join(directory).join(entry.file_name());
                if entry.path().is_file() {
                    disk.put(&to, &fs::read(entry.path()).unwrap());
                    continue;
                }
                for (name, content) in files(&entry.path()) {
                    disk.put(&to.join(name), &content);
                }
            }
            // Where the recovery points say that the partitions are.
            let points = fs::read_to_string(path.join("recovery-point-offset-checkpoint")).unwrap();
            for line in points.lines().skip(2) {
                let words = line.split(' ').collect::<Vec<_>>();
                let name = format!("{}-{}", words[0], words[1]);
                let from = golden("clean").join(format!("{version}-{name}"));
                if from.exists() {
                    let to = Path::new("/").join(directory).join(name);
                    files(&from).into_iter().for_each(|(file, content)| {
                        disk.put(&to.join(file), &content);
                    });
                }
            }
        }
        let config = LogDirectoriesConfig {
            paths: vec!["/dir-a".into(), "/dir-b".into()],
            broker_id: BrokerId(1),
            max_open_files: 100,
            tail_cache_bytes: 0,
            disk_reserve_bytes: Some(0),
        };
        let random = Arc::new(SeededRandom::new(1));
        let disk_of = Arc::new(disk.clone());
        let (directories, closed) =
            LogDirectories::open(disk_of, random, config, Instant::default()).unwrap();
        assert_eq!(closed.len(), partitions, "{version}");
        for closed in closed {
            assert!(!closed.needs_recovery());
            let name = closed.topic_partition().to_string();
            let log = open(closed, 1 << 30, 4096);
            println!("{version} {name}");
            let expected = fs::read(golden(&format!("clean/{version}-{name}.json"))).unwrap();
            let expected: Value = serde_json::from_slice(&expected).unwrap();
            check(&log, &expected);
            check_producers(&log, &expected);
            log.close().unwrap();
        }
        directories.close(None);
        // What is no partition of ours is left as it is.
        for file in ["bootstrap.checkpoint", "__cluster_metadata-0/quorum-state"] {
            let kept = fs::read(golden("directories").join(version).join("dir-a").join(file)).ok();
            let path = Path::new("/dir-a").join(file);
            let found = disk.files().into_iter().find(|found| found.0 == path);
            assert_eq!(found.map(|found| found.1), kept, "{version} {file}");
        }
    }
}

/// What Kafka was about to delete goes, what it did not know stays: neither is a log.
#[test]
fn directories_of_deleted_and_of_unknown_topics_are_no_logs() {
    let disk = MemoryDisk::new();
    let expected = with_answers("names").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    for name in &expected {
        let name = name.strip_prefix("names/").unwrap();
        for (file, content) in files(&golden("names").join(name)) {
            disk.put(&Path::new("/data").join(name).join(file), &content);
        }
    }
    let before = disk.files();
    let (directories, closed) = start_with_all(&disk);
    assert!(closed.is_empty());
    let mut now = Instant::default();
    while let Some(next) = directories.delete_step(now) {
        now = next;
    }
    directories.close(None);
    let count = |word: &str| {
        let after = disk.files();
        let has = |path: &PathBuf| path.to_str().unwrap().contains(word);
        let of = |files: &[(PathBuf, Vec<u8>)]| files.iter().filter(|file| has(&file.0)).count();
        (of(&before), of(&after))
    };
    assert_eq!((count("-delete/"), count("-stray/")), ((5, 0), (6, 6)));
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
        ("4.3.1-qopen", 13, 700, 300),
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
            if name == "4.3.1-qopen" {
                // With KRaft it came to lead once more.
                let epochs = "leader-epoch-checkpoint";
                assert_eq!(wanted[epochs], b"0\n2\n0 0\n2 19\n");
                wanted.insert(epochs.to_owned(), b"0\n1\n0 0\n".to_vec());
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
