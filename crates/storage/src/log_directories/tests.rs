//! Several directories, on a disk in memory and on a real one.

mod moves;

use super::*;
use crate::append::{AppendOrigin, AppendRecords, AppendRequest, Reserved, Verification};
use crate::read::ReadRequest;
use model::LeaderEpoch;
use platform::random::SeededRandom;
use platform::{MemoryDisk, RealDisk};
use protocol::records::RecordBatchBuilder;
use protocol::records::validate::{ValidationRules, validate};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn try_start(
    disk: &Arc<dyn Disk>,
    paths: &[&str],
    broker_id: i32,
) -> Result<(LogDirectories, Vec<ClosedLog>), StartError> {
    let config = LogDirectoriesConfig {
        paths: paths.iter().map(PathBuf::from).collect(),
        broker_id: BrokerId(broker_id),
        max_open_files: 100,
        tail_cache_bytes: 1 << 20,
        disk_reserve_bytes: Some(0),
    };
    LogDirectories::open(
        Arc::clone(disk),
        Arc::new(SeededRandom::new(1)),
        config,
        Instant::default(),
    )
}

fn start(disk: &MemoryDisk, paths: &[&str]) -> (LogDirectories, Vec<ClosedLog>) {
    try_start(&(Arc::new(disk.clone()) as Arc<dyn Disk>), paths, 1).unwrap()
}

fn create(directories: &LogDirectories, topic: &str, partition: i32) -> PartitionLog {
    let name = TopicPartition::new(topic, partition);
    directories.create(name, Some(TopicId([7; 16])), Arc::default(), None, NOW).unwrap()
}

fn append(log: &mut PartitionLog, value: &[u8]) -> Result<Offset, String> {
    append_in(LeaderEpoch(0), log, value)
}

fn append_in(
    leader_epoch: LeaderEpoch,
    log: &mut PartitionLog,
    value: &[u8],
) -> Result<Offset, String> {
    let mut builder = RecordBatchBuilder::new();
    builder.append(Some(NOW), None, Some(value)).unwrap();
    let validated = validate(&builder.build().unwrap(), &ValidationRules::new(NOW)).unwrap();
    let records = AppendRecords::Assign {
        validated,
        leader_epoch,
        origin: AppendOrigin::Client,
        verification: Verification::NotRequired,
    };
    let reserved = log.reserve(AppendRequest { records, now: NOW });
    let Reserved::Pending(pending) = reserved.map_err(|error| error.to_string())? else {
        panic!("it is new")
    };
    let outcome = pending.write();
    let appended = log.publish(pending, &outcome).map_err(|error| error.to_string())?;
    log.set_high_watermark(log.log_end_offset());
    Ok(appended.first_offset)
}

fn text(disk: &MemoryDisk, path: &str) -> Option<String> {
    let file = disk.files().into_iter().find(|file| file.0 == Path::new(path))?;
    Some(String::from_utf8(file.1).unwrap())
}

#[test]
fn checkpoints_and_marker_are_kafkas() {
    let disk = MemoryDisk::new();
    let (directories, none) = start(&disk, &["/a"]);
    assert!(none.is_empty());
    assert_eq!(directories.cluster_id(), None);
    directories.set_cluster_id("VPnZSAiRRKSwqvpvzhyI6g").unwrap();
    let mut log = create(&directories, "my-topic", 3);
    for _ in 0..5 {
        append(&mut log, b"x").unwrap();
    }
    log.delete_records_before(Offset(2)).unwrap();
    directories.write_high_watermarks();
    let recovery_points = || text(&disk, "/a/recovery-point-offset-checkpoint");
    let high_watermarks = || text(&disk, "/a/replication-offset-checkpoint");
    let log_starts = || text(&disk, "/a/log-start-offset-checkpoint");
    assert_eq!(high_watermarks().unwrap(), "0\n1\nmy-topic 3 5\n");
    assert_eq!(recovery_points(), None);
    directories.write_checkpoints();
    assert_eq!(recovery_points().unwrap(), "0\n1\nmy-topic 3 0\n");
    assert_eq!(log_starts().unwrap(), "0\n1\nmy-topic 3 2\n");
    let changes = disk.changes();
    directories.write_checkpoints();
    assert_eq!(disk.changes(), changes, "what did not change is not written");

    log.close().unwrap();
    directories.close(Some(17));
    assert_eq!(recovery_points().unwrap(), "0\n1\nmy-topic 3 5\n");
    let marker = text(&disk, "/a/.kafka_cleanshutdown");
    assert_eq!(marker.unwrap(), "{\"version\":0,\"brokerEpoch\":17,\"writtenBy\":\"barnabas\"}");
    let meta = text(&disk, "/a/meta.properties").unwrap();
    assert_eq!(meta, "#\nbroker.id=1\ncluster.id=VPnZSAiRRKSwqvpvzhyI6g\nversion=0\n");
    drop(directories);

    let (directories, mut logs) = start(&disk, &["/a"]);
    assert_eq!(text(&disk, "/a/.kafka_cleanshutdown"), None, "from now on a stop is unclean");
    assert_eq!(directories.previous_broker_epoch(), Some(17));
    assert_eq!(directories.cluster_id(), Some("VPnZSAiRRKSwqvpvzhyI6g"));
    let log = logs.remove(0);
    assert_eq!(log.topic_partition(), &TopicPartition::new("my-topic", 3));
    assert!(!log.needs_recovery());
    // A log that was never opened keeps its lines, and its clean state.
    directories.write_checkpoints();
    directories.close(None);
    assert_eq!(log_starts().unwrap(), "0\n1\nmy-topic 3 2\n");
    assert!(text(&disk, "/a/.kafka_cleanshutdown").is_some());
    drop(directories);
    let (_, mut logs) = start(&disk, &["/a"]);
    let log = logs.remove(0).open(Arc::default(), NOW).unwrap();
    assert_eq!((log.log_start_offset(), log.high_watermark()), (Offset(2), Offset(5)));
    assert_eq!(log.topic_id(), Some(TopicId([7; 16])));
}

#[test]
fn a_stop_is_clean_only_where_every_log_was_closed() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a", "/b"]);
    let first = create(&directories, "t", 0);
    let second = create(&directories, "t", 1);
    assert_ne!(
        first.directory().path(),
        second.directory().path(),
        "the emptier directory is taken"
    );
    let (closed, left_open) = (first.directory().path().to_owned(), second);
    first.close().unwrap();
    directories.close(None);
    let marker = |path: &Path| text(&disk, path.join(CLEAN_MARKER).to_str().unwrap());
    assert!(marker(&closed).is_some());
    assert!(marker(left_open.directory().path()).is_none());
    drop((directories, left_open));
    let (directories, logs) = start(&disk, &["/a", "/b"]);
    assert_eq!(directories.previous_broker_epoch(), None);
    assert_eq!(logs.iter().filter(|log| log.needs_recovery()).count(), 1);
}

#[test]
fn a_directory_that_is_not_ours_is_refused() {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (first, _) = start(&disk, &["/a"]);
    let refused = try_start(&shared, &["/b", "/a"], 1).unwrap_err();
    assert!(matches!(&refused, StartError::Locked { path } if path == Path::new("/a")));
    first.set_cluster_id("one").unwrap();
    drop(first);
    let refused = try_start(&shared, &["/a"], 2).unwrap_err().to_string();
    assert!(
        refused.contains("belongs to broker 1") && refused.contains("broker.id=1"),
        "{refused}"
    );
    let (first, _) = start(&disk, &["/a"]);
    let refused = first.set_cluster_id("two").unwrap_err().to_string();
    assert!(refused.contains("cluster one") && refused.contains("cluster two"), "{refused}");
    drop(first);
    disk.put(Path::new("/b/meta.properties"), b"broker.id=1\nversion=0\ncluster.id=two\n");
    assert!(matches!(try_start(&shared, &["/a", "/b"], 1), Err(StartError::WrongIdentity { .. })));
    disk.put(Path::new("/b/meta.properties"), b"node.id=1\nversion=1\ncluster.id=one\n");
    drop(try_start(&shared, &["/a", "/b"], 1).unwrap());
}

#[test]
fn directories_are_recognised_by_name() {
    let disk = MemoryDisk::new();
    for name in [
        "lost+found/x",
        "__cluster_metadata-0/00000000000000000000.log",
        "remote-log-index-cache/x",
        ".hidden/x",
        "t-1.0123456789abcdef0123456789abcdef-stray/00000000000000000000.log",
        "t-2.0123456789abcdef0123456789abcdef-delete/00000000000000000000.log",
        "t-3/00000000000000000000.log",
        "a-plain-file",
    ] {
        disk.put(&Path::new("/a").join(name), b"");
    }
    let (directories, logs) = start(&disk, &["/a"]);
    let names = logs.iter().map(|log| log.topic_partition().to_string()).collect::<Vec<_>>();
    assert_eq!(names, ["t-3"]);
    while directories.delete_step(Instant::default()).is_some() {}
    let left = disk.list(Path::new("/a")).unwrap();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with("-delete")));
    assert!(left.iter().any(|name| name.to_string_lossy().ends_with("-stray")));
    drop((directories, logs));

    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.put(Path::new("/a/photos/x"), b"");
    let refused = try_start(&shared, &["/a"], 1).unwrap_err().to_string();
    assert!(refused.contains("/a/photos") && refused.contains("move it out"), "{refused}");
    // A start that was refused must not have spoiled what the checkpoints say.
    disk.put(Path::new("/b/t-3/00000000000000000000.log"), b"");
    let refused = try_start(&shared, &["/b", "/a"], 1);
    assert!(matches!(refused, Err(StartError::UnexpectedDirectory { .. })));
}

#[test]
fn a_partition_is_in_one_directory_only() {
    let disk = MemoryDisk::new();
    disk.put(Path::new("/a/t-0/00000000000000000000.log"), b"");
    disk.put(Path::new("/b/t-0/00000000000000000000.log"), b"");
    disk.put(Path::new("/a/log-start-offset-checkpoint"), b"0\n1\nt 0 5\n");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let refused = try_start(&shared, &["/a", "/b"], 1).unwrap_err().to_string();
    assert!(refused.contains("/a/t-0") && refused.contains("/b/t-0"), "{refused}");
    let future = "/b/t-0.0123456789abcdef0123456789abcdef-future/00000000000000000000.log";
    disk.remove_file(Path::new("/b/t-0/00000000000000000000.log")).unwrap();
    disk.remove_directory(Path::new("/b/t-0")).unwrap();
    disk.put(Path::new(future), b"");
    let (_, logs) = try_start(&shared, &["/a", "/b"], 1).unwrap();
    assert_eq!(logs.iter().map(ClosedLog::is_future).collect::<Vec<_>>(), [false, true]);
    assert_eq!(text(&disk, "/a/log-start-offset-checkpoint").unwrap(), "0\n1\nt 0 5\n");
}

#[test]
fn one_directory_fails_and_the_others_go_on() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a", "/b"]);
    let mut first = create(&directories, "t", 0);
    let mut second = create(&directories, "t", 1);
    append(&mut first, b"x").unwrap();
    append(&mut second, b"x").unwrap();
    let broken = first.directory().path().to_owned();
    disk.set_failing(&broken, true);
    append(&mut first, b"y").unwrap_err();
    assert!(append(&mut first, b"y").unwrap_err().contains("offline"));
    assert!(first.directory().is_offline(), "it cannot even be looked at");
    append(&mut second, b"y").unwrap();
    assert!(!second.directory().is_offline());
    let third = create(&directories, "t", 2);
    assert_eq!(third.directory().path(), second.directory().path());
    second.close().unwrap();
    third.close().unwrap();
    first.close().unwrap_err();
    directories.close(None);
    drop(directories);

    // The next start: the directory is still broken, then works again.
    let (directories, logs) = start(&disk, &["/a", "/b"]);
    assert_eq!(logs.len(), 2);
    assert_eq!(directories.directories().iter().filter(|d| d.is_offline()).count(), 1);
    drop((directories, logs));
    disk.set_failing(&broken, false);
    let (_, logs) = start(&disk, &["/a", "/b"]);
    let found =
        logs.into_iter().find(|log| log.needs_recovery() && log.directory().path() == broken);
    let log = found.unwrap().open(Arc::default(), NOW).unwrap();
    assert_eq!(log.log_end_offset(), Offset(1), "what was acknowledged is there");

    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.set_failing("/c", true);
    assert!(matches!(try_start(&shared, &["/c"], 1), Err(StartError::NoneUsable(_))));
}

#[test]
fn a_deleted_log_leaves_nothing_to_its_successor() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a"]);
    let mut log = create(&directories, "t", 0);
    for _ in 0..5 {
        append(&mut log, b"x").unwrap();
    }
    log.delete_records_before(Offset(4)).unwrap();
    let log = log.close().unwrap();
    directories.write_checkpoints();
    assert_eq!(log.size_bytes().unwrap() % 5, 0);
    let delay = Duration::from_secs(60);
    directories.delete_closed(log, delay, Instant::default()).unwrap();
    let mut log = create(&directories, "t", 0);
    append(&mut log, b"new").unwrap();
    let killed = disk.copy();
    let (_, mut logs) = start(&killed, &["/a"]);
    let after = logs.remove(0).open(Arc::default(), NOW).unwrap();
    assert_eq!((after.log_start_offset(), after.log_end_offset()), (Offset(0), Offset(1)));

    assert_eq!(directories.delete_step(Instant::default()), Some(Instant(delay)));
    while directories.delete_step(Instant(delay)).is_some() {}
    let left = disk.list(Path::new("/a")).unwrap();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with("-delete")), "{left:?}");
    directories.delete(log, delay, Instant::default()).unwrap();
    assert_eq!(directories.directories()[0].log_count(), 0);
}

#[test]
fn a_future_log_takes_the_place_of_the_live_one() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a", "/b"]);
    let mut live = create(&directories, "t", 0);
    append(&mut live, b"x").unwrap();
    let other = directories.directories().iter().find(|d| d.path() != live.directory().path());
    let name = live.topic_partition().clone();
    let mut future = directories
        .create_future(name, live.topic_id(), Arc::default(), other.unwrap(), NOW)
        .unwrap();
    let everything = ReadRequest {
        offset: Offset(0),
        max_bytes: 1 << 20,
        min_one_message: true,
        upper_bound: Offset(1),
        want_aborted: false,
    };
    let read = live.read(everything).unwrap();
    let [protocol::RecordsPart::Bytes(bytes)] = read.records.parts() else { panic!("it is small") };
    let records = AppendRecords::Replicate(bytes.clone());
    let Ok(Reserved::Pending(pending)) = future.reserve(AppendRequest { records, now: NOW }) else {
        panic!("it is new")
    };
    let outcome = pending.write();
    future.publish(pending, &outcome).unwrap();
    let mut log = directories.promote(live, future, Duration::ZERO, Instant::default()).unwrap();
    assert!(!log.is_future());
    assert_eq!(log.high_watermark(), Offset(1));
    append(&mut log, b"y").unwrap();
    log.close().unwrap();
    directories.close(None);
    drop(directories);
    let (_, mut logs) = start(&disk, &["/a", "/b"]);
    assert_eq!(logs.len(), 1);
    assert!(!logs[0].is_future() && !logs[0].needs_recovery());
    let log = logs.remove(0).open(Arc::default(), NOW).unwrap();
    assert_eq!(log.log_end_offset(), Offset(2));
}

#[test]
fn a_real_disk_does_the_same() {
    let root = std::env::temp_dir().join(format!("storage-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&root));
    let path = root.to_str().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (directories, _) = try_start(&disk, &[path], 1).unwrap();
    let config =
        Arc::new(LogConfig { segment_bytes: 1 << 20, preallocate: true, ..LogConfig::default() });
    let name = TopicPartition::new("t", 0);
    let mut log = directories.create(name, None, Arc::clone(&config), None, NOW).unwrap();
    let value = vec![b'x'; 10_000];
    for _ in 0..300 {
        append(&mut log, &value).unwrap();
    }
    let work = log.begin_flush().unwrap();
    let outcome = work.run();
    log.finish_flush(work, outcome).unwrap();
    assert_eq!(log.durable_offset(), Offset(300));
    assert!(matches!(try_start(&disk, &[path], 1), Err(StartError::Locked { .. })));
    log.close().unwrap();
    directories.close(None);
    let (directories, mut logs) = try_start(&disk, &[path], 1).unwrap();
    let log = logs.remove(0).open(config, NOW).unwrap();
    assert_eq!(log.log_end_offset(), Offset(300));
    let read = log
        .read(ReadRequest {
            offset: Offset(150),
            max_bytes: 1 << 20,
            min_one_message: true,
            upper_bound: Offset(300),
            want_aborted: false,
        })
        .unwrap();
    let [protocol::RecordsPart::File(range)] = read.records.parts() else { panic!("it is large") };
    assert!(range.file.descriptor().is_some());
    assert_eq!(
        protocol::records::Batches::new(&{
            let mut bytes = vec![0; range.length];
            range.file.read_exact_at(&mut bytes, range.position).unwrap();
            bytes
        })
        .next()
        .unwrap()
        .unwrap()
        .base_offset(),
        Some(Offset(150))
    );
    drop((log, directories));
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_log_that_vanished_is_told_from_one_that_never_was() {
    let disk = MemoryDisk::new();
    let at = |topic: &str| TopicPartition::new(topic, 0);
    let (directories, _) = start(&disk, &["/a", "/b"]);
    directories.set_cluster_id("cluster").unwrap();
    directories.registered(10);
    let mut log = create(&directories, "kept", 0);
    append(&mut log, b"one").unwrap();
    directories.write_high_watermarks();
    assert!(!directories.may_have_lost(&at("never"), Some(11)), "younger than the directories");
    assert!(directories.may_have_lost(&at("never"), Some(9)), "whose was it before?");
    assert!(!directories.may_have_lost(&at("never"), None));
    directories.abandon();
    drop((log, directories));
    // Somebody removes it.
    let path = Path::new("/a/kept-0");
    for name in disk.list(path).unwrap() {
        disk.remove_file(&path.join(name)).unwrap();
    }
    disk.remove_directory(path).unwrap();
    for _ in 0..2 {
        let (directories, found) = start(&disk, &["/a", "/b"]);
        assert!(found.is_empty());
        directories.set_cluster_id("cluster").unwrap();
        directories.registered(20);
        assert!(directories.may_have_lost(&at("kept"), Some(11)), "its high watermark is known");
        assert!(!directories.may_have_lost(&at("never"), Some(11)), "nothing else is in doubt");
        directories.write_high_watermarks();
        directories.abandon();
    }
    let (directories, _) = start(&disk, &["/a"]);
    directories.set_cluster_id("cluster").unwrap();
    assert!(directories.may_have_lost(&at("never"), Some(11)), "/b is missing");
    directories.registered(30);
    assert!(directories.may_have_lost(&at("never"), Some(11)));
    assert!(!directories.may_have_lost(&at("never"), Some(31)));
    let log = create(&directories, "kept", 0);
    assert!(!directories.may_have_lost(&at("kept"), Some(31)), "it has a log again");
    directories.delete(log, Duration::ZERO, Instant::default()).unwrap();
    directories.abandon();
    let (directories, _) = start(&disk, &["/a"]);
    assert!(!directories.may_have_lost(&at("kept"), Some(31)), "deleted is not lost");
    assert!(directories.may_have_lost(&at("never"), Some(30)), "and that stays so");
}

#[test]
fn a_power_failure_is_told_from_the_end_of_a_process() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/d"]);
    assert!(!directories.may_lack_records() && directories.may_lack_logs(), "it is new");
    directories.set_cluster_id("c").unwrap();
    directories.registered(7);
    let mut log = create(&directories, "t", 0);
    append(&mut log, b"x").unwrap();
    let killed = disk.copy();
    let (again, _) = start(&killed, &["/d"]);
    assert!(!again.may_lack_records() && !again.may_lack_logs(), "the page cache is there");
    // Whoever dies before it registered has told nobody.
    let mut failed = disk.crash(1);
    for _ in 0..2 {
        let (again, logs) = start(&failed, &["/d"]);
        assert_eq!((logs.len(), again.may_lack_records()), (1, true));
        failed = failed.copy();
    }
    let (again, _) = start(&failed, &["/d"]);
    again.registered(8);
    assert!(!start(&failed.copy(), &["/d"]).0.may_lack_records(), "that is known by now");
    // Whatever was closed is synced.
    log.close().unwrap();
    directories.close(None);
    assert!(!start(&disk.crash(2), &["/d"]).0.may_lack_records());
}

#[test]
fn a_directory_that_lost_logs_or_cannot_be_used_says_so_at_once() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a", "/b"]);
    directories.set_cluster_id("c").unwrap();
    directories.registered(7);
    let log = create(&directories, "t", 0);
    directories.write_high_watermarks();
    let gone = log.directory().path().join("t-0");
    drop(log);
    assert!(!start(&disk.copy(), &["/a", "/b"]).0.may_lack_logs());
    assert!(start(&disk.copy(), &["/a"]).0.may_lack_logs(), "one is not named any more");
    let broken = disk.copy();
    broken.set_failing("/b", true);
    assert!(start(&broken, &["/a", "/b"]).0.may_lack_logs());
    disk.rename(&gone, Path::new("/elsewhere")).unwrap();
    assert!(start(&disk.copy(), &["/a", "/b"]).0.may_lack_logs());
}

/// What was seen in Kafka (KAFKA-15375 and its like): logs that are not loaded yet vanish from a checkpoint that is
/// written meanwhile, or lose what it said of them.
#[test]
fn a_checkpoint_that_is_written_during_recovery_says_what_it_said() {
    const FILES: [&str; 3] = [
        "/a/recovery-point-offset-checkpoint",
        "/a/log-start-offset-checkpoint",
        "/a/replication-offset-checkpoint",
    ];
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a"]);
    directories.set_cluster_id("c").unwrap();
    for topic in ["read", "unread"] {
        let mut log = create(&directories, topic, 0);
        for _ in 0..5 {
            append(&mut log, b"x").unwrap();
        }
        let work = log.begin_flush().unwrap();
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
        log.delete_records_before(Offset(2)).unwrap();
        append(&mut log, b"y").unwrap();
    }
    directories.write_checkpoints();
    directories.write_high_watermarks();
    let mut killed = disk.copy();
    let said = FILES.map(|file| text(&killed, file).unwrap());
    assert!(said.iter().all(|text| text.contains("unread 0 ")), "{said:?}");
    // Each start recovers one log only, writes everything, and is killed.
    for _ in 0..3 {
        let (again, logs) = start(&killed, &["/a"]);
        let log = logs.into_iter().find(|log| &*log.topic_partition().topic == "read").unwrap();
        assert!(log.unrecovered_bytes().unwrap() > 0);
        let (log, outcome) = log.recover(Arc::default(), NOW);
        outcome.unwrap();
        assert!(!log.needs_recovery());
        again.write_checkpoints();
        again.write_high_watermarks();
        assert_eq!(FILES.map(|file| text(&killed, file).unwrap()), said);
        killed = killed.copy();
    }
    // What a clean stop says of a log that was never recovered is that there is none.
    let (again, logs) = start(&killed, &["/a"]);
    drop(logs);
    again.close(None);
    assert_eq!(text(&killed, "/a/.kafka_cleanshutdown"), None);
}

#[test]
fn a_recovered_log_is_what_a_clean_stop_leaves_once_it_is_synced() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/a"]);
    directories.set_cluster_id("c").unwrap();
    let mut log = create(&directories, "t", 0);
    for _ in 0..3 {
        append(&mut log, b"x").unwrap();
    }
    let killed = disk.copy();
    let (again, mut logs) = start(&killed, &["/a"]);
    let (log, outcome) = logs.remove(0).recover(Arc::default(), NOW);
    outcome.unwrap();
    // It is opened without being read again, and is not taken for durable.
    let log = log.open(Arc::default(), NOW).unwrap();
    assert_eq!((log.log_end_offset(), log.durable_offset()), (Offset(3), Offset(0)));
    log.close().unwrap();
    again.close(None);
    let (_, logs) = start(&killed.crash(1), &["/a"]);
    assert!(!logs[0].needs_recovery(), "everything was synced");
    let log = logs.into_iter().next().unwrap().open(Arc::default(), NOW).unwrap();
    assert_eq!((log.log_end_offset(), log.durable_offset()), (Offset(3), Offset(3)));
}
