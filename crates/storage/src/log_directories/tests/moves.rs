//! Logs that move from one directory to another.

use super::*;

/// A broker with three records in `/a`, all but the last deleted, and a complete copy of them in `/b`.
struct Moving {
    directories: LogDirectories,
    live: PartitionLog,
    future: PartitionLog,
}

fn flush(log: &mut PartitionLog) {
    let work = log.begin_flush().unwrap();
    let outcome = work.run();
    log.finish_flush(work, outcome).unwrap();
}

/// What `log` has from offset `from` on, as a follower appends it.
fn copy(log: &PartitionLog, from: i64, to: &mut PartitionLog) {
    let request = ReadRequest {
        offset: Offset(from),
        max_bytes: 1 << 20,
        min_one_message: true,
        upper_bound: log.log_end_offset(),
        want_aborted: false,
    };
    let records = AppendRecords::Replicate(log.read(request).unwrap().records.to_bytes().unwrap());
    let Ok(Reserved::Pending(pending)) = to.reserve(AppendRequest { records, now: NOW }) else {
        panic!("it is new")
    };
    let outcome = pending.write();
    to.publish(pending, &outcome).unwrap();
}

impl Moving {
    fn begin(disk: &MemoryDisk) -> Self {
        let (directories, _) = start(disk, &["/a", "/b"]);
        directories.set_cluster_id("cluster").unwrap();
        let [a, b] = directories.directories() else { panic!("two") };
        let name = TopicPartition::new("t", 0);
        let id = Some(TopicId([7; 16]));
        let live = directories.create(name.clone(), id, Arc::default(), Some(a), NOW);
        let mut live = live.unwrap();
        for value in ["x", "y", "z"] {
            append(&mut live, value.as_bytes()).unwrap();
        }
        let mut future = directories.create_future(name, id, Arc::default(), b, NOW).unwrap();
        copy(&live, 0, &mut future);
        flush(&mut future);
        live.delete_records_before(Offset(2)).unwrap();
        flush(&mut live);
        directories.write_checkpoints();
        directories.write_high_watermarks();
        Self { directories, live, future }
    }

    fn promote(self) -> Result<(LogDirectories, PartitionLog), LogError> {
        let Self { directories, live, future } = self;
        let log = directories.promote(live, future, Duration::ZERO, Instant::default())?;
        Ok((directories, log))
    }
}

/// The one log that a start finds: where it is, its start, high watermark and end.
fn found(disk: &MemoryDisk, paths: &[&str]) -> (PathBuf, [i64; 3]) {
    let (_, logs) = start(disk, paths);
    let live: Vec<_> = logs.into_iter().filter(|log| !log.is_future()).collect();
    let [log] = <[ClosedLog; 1]>::try_from(live).expect("one log");
    let path = log.directory().path().to_owned();
    let log = log.open(Arc::default(), NOW).unwrap();
    let offsets = [log.log_start_offset(), log.high_watermark(), log.log_end_offset()];
    (path, offsets.map(|offset| offset.0))
}

/// What was seen: a crash after the original had lost its name and before the copy had it left none.
#[test]
fn a_crash_while_a_copy_takes_the_place_of_its_original_leaves_one_log() {
    let mut places = std::collections::BTreeSet::new();
    for changes in 0.. {
        let disk = MemoryDisk::new();
        let moving = Moving::begin(&disk);
        disk.cut_power_after(changes);
        let is_done = moving.promote().is_ok() && disk.changes() < changes;
        let crashes = (0..8).map(|seed| disk.crash(seed)).chain([disk.copy()]);
        for (crash, left) in crashes.enumerate() {
            let (path, offsets) = found(&left, &["/a", "/b"]);
            assert_eq!(offsets, [2, 3, 3], "after {changes} changes, crash {crash}");
            let twice = (path, offsets);
            assert_eq!(found(&left, &["/b", "/a"]), twice, "started once more");
            places.insert(twice.0);
        }
        if is_done || changes > 200 {
            break;
        }
    }
    assert_eq!(places.len(), 2, "before it the original, after it the copy");
}

/// A disk that a crash left with the log in both directories, each noted by the other.
fn in_both() -> MemoryDisk {
    for changes in 0.. {
        let disk = MemoryDisk::new();
        let moving = Moving::begin(&disk);
        disk.cut_power_after(changes);
        let outcome = moving.promote();
        assert!(outcome.is_err(), "the original goes after the copy has its name");
        let left = disk.copy();
        let has = |path: &str| left.metadata(Path::new(path)).is_ok();
        if has("/a/t-0") && has("/b/t-0") {
            return left;
        }
    }
    unreachable!()
}

#[test]
fn the_directory_that_went_on_without_the_other_has_the_right_log() {
    assert_eq!(found(&in_both(), &["/a", "/b"]).0, Path::new("/b"), "the copy was flushed");
    for (alone, away) in [("/a", "/b"), ("/b", "/a")] {
        let disk = in_both();
        disk.set_failing(away, true);
        let (directories, logs) = start(&disk, &["/a", "/b"]);
        let mut logs = logs.into_iter().filter(|log| !log.is_future());
        let mut log = logs.next().unwrap().open(Arc::default(), NOW).unwrap();
        append(&mut log, b"alone").unwrap();
        flush(&mut log);
        drop((log, directories));
        disk.set_failing(away, false);
        for left in [disk.copy(), disk.crash(1), disk.crash(2)] {
            let (path, offsets) = found(&left, &["/a", "/b"]);
            assert_eq!((path.as_path(), offsets[2]), (Path::new(alone), 4));
        }
    }
    // Both went on without the other: nobody knows.
    let disk = in_both();
    for away in ["/a", "/b"] {
        disk.set_failing(away, true);
        drop(start(&disk, &["/a", "/b"]));
        disk.set_failing(away, false);
    }
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let refused = try_start(&shared, &["/a", "/b"], 1);
    assert!(matches!(refused, Err(StartError::UnexpectedDirectory { .. })));
}

#[test]
fn a_copy_that_was_left_keeps_what_its_original_has_too() {
    let disk = MemoryDisk::new();
    let Moving { mut live, mut future, .. } = Moving::begin(&disk);
    // Epoch 0 has three records in the copy, and two in the log.
    live.truncate_to(Offset(2), NOW).unwrap();
    for _ in 0..3 {
        append_in(LeaderEpoch(2), &mut live, b"other").unwrap();
    }
    future.agree_with(&live, NOW).unwrap();
    assert_eq!(future.log_end_offset(), Offset(2));
    copy(&live, 2, &mut future);
    future.agree_with(&live, NOW).unwrap();
    assert_eq!(future.log_end_offset(), live.log_end_offset(), "all of it is right");
    // A log that has none of the copy's epochs.
    live.truncate_fully_and_start_at(Offset(40), NOW).unwrap();
    append_in(LeaderEpoch(3), &mut live, b"new").unwrap();
    future.agree_with(&live, NOW).unwrap();
    assert_eq!(future.log_end_offset(), Offset(40));
}

#[test]
fn a_directory_that_the_broker_makes_does_not_get_lost_with_its_name() {
    let disk = MemoryDisk::new();
    let (directories, _) = start(&disk, &["/above/a"]);
    directories.set_cluster_id("cluster").unwrap();
    let mut log = create(&directories, "t", 0);
    append(&mut log, b"x").unwrap();
    flush(&mut log);
    for seed in 0..8 {
        assert_eq!(found(&disk.crash(seed), &["/above/a"]).1[2], 1);
    }
}

/// What was seen: a power failure left a copy of a compacted log with a gap, and it took the place of the whole log.
#[test]
fn of_the_copy_of_a_compacted_log_only_what_was_flushed_is_kept() {
    let disk = MemoryDisk::new();
    let Moving { directories, live, future } = Moving::begin(&disk);
    directories.delete(future, Duration::ZERO, Instant::default()).unwrap();
    let mut config = LogConfig::default();
    config.cleanup_policy.compact = true;
    let (name, id) = (live.topic_partition().clone(), live.topic_id());
    let [_, b] = directories.directories() else { panic!("two") };
    let mut future = directories.create_future(name, id, Arc::new(config), b, NOW).unwrap();
    future.truncate_fully_and_start_at(Offset(2), NOW).unwrap();
    copy(&live, 2, &mut future);
    future.agree_with(&live, NOW).unwrap();
    assert_eq!(future.log_end_offset(), Offset(2));
    copy(&live, 2, &mut future);
    flush(&mut future);
    future.agree_with(&live, NOW).unwrap();
    assert_eq!(future.log_end_offset(), live.log_end_offset());
}

/// What was seen: a log was deleted while it was flushed, and its log directory went offline for that.
#[test]
fn a_log_that_is_deleted_while_it_is_flushed_has_not_failed() {
    for is_removed in [false, true] {
        let disk = MemoryDisk::new();
        let (directories, _) = start(&disk, &["/a"]);
        let mut log = create(&directories, "t", 0);
        append(&mut log, b"x").unwrap();
        let work = log.begin_flush().unwrap();
        directories.delete(log, Duration::ZERO, Instant::default()).unwrap();
        if is_removed {
            while directories.delete_step(Instant::default()).is_some() {}
        }
        work.run().unwrap();
    }
}
