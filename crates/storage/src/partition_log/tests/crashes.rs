//! What the enumerator of crashes has found (docs/crashes.md).

use super::*;
use platform::Disk;
use std::collections::BTreeSet;

/// A leader's batch at `offset`.
fn placed(offset: i64, values: &[&str], producer: Option<(i64, i16, i32)>) -> Bytes {
    let mut bytes = batch(values, producer).to_vec();
    // The checksum covers neither.
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes[12..16].copy_from_slice(&0i32.to_be_bytes());
    bytes.into()
}

fn replicate(log: &mut PartitionLog, bytes: Bytes) {
    let request = AppendRequest { records: AppendRecords::Replicate(bytes), now: NOW };
    let Reserved::Pending(pending) = log.reserve(request).unwrap() else { panic!("it is new") };
    let outcome = pending.write();
    log.publish(pending, &outcome).unwrap();
}

fn flush(log: &mut PartitionLog) {
    let work = log.begin_flush().unwrap();
    let outcome = work.run();
    log.finish_flush(work, outcome).unwrap();
}

fn offsets(log: &PartitionLog) -> Vec<i64> {
    let (mut found, mut at) = (Vec::new(), log.log_start_offset().0);
    while at < log.log_end_offset().0 {
        let bytes = bytes_of(&read(log, at));
        let last = Batches::new(&bytes).map(|batch| batch.unwrap().last_offset().0).last().unwrap();
        found.push(last);
        at = last + 1;
    }
    found
}

const LARGE: usize = 880;

#[test]
fn a_gap_before_a_segment_is_not_taken_for_lost_records() {
    let large = "x".repeat(LARGE);
    let disk = MemoryDisk::new();
    let mut log = Broker::start(&disk).create(small());
    replicate(&mut log, placed(0, &["a", "b", "c"], None));
    replicate(&mut log, placed(10, &[&large], None));
    replicate(&mut log, placed(20, &[&large], None));
    assert_eq!(log.segments.len(), 3);
    let killed = Broker::start(&disk.copy()).open(small());
    assert_eq!(offsets(&killed), offsets(&log), "the leader's log has gaps");

    for flushed in [false, true] {
        let disk = MemoryDisk::new();
        let broker = Broker::start(&disk);
        let mut log = broker.create(small());
        append(&mut log, batch(&["a", "b", "c"], None));
        append(&mut log, batch(&["d", "e", "f"], None));
        if flushed {
            flush(&mut log);
            broker.directories.write_checkpoints();
        }
        log.truncate_to(Offset(4), NOW).unwrap();
        append(&mut log, batch(&[&large], None));
        assert_eq!(log.segments.len(), 2);
        let killed = Broker::start(&disk.copy()).open(small());
        assert_eq!(offsets(&killed), [2, 4], "a batch was truncated; flushed: {flushed}");
    }
}

#[test]
fn a_log_that_ends_with_a_gap_keeps_its_producers_over_clean_stops() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    append(&mut log, batch(&["a", "b", "c"], Some((7, 0, 0))));
    append(&mut log, batch(&["d", "e", "f"], Some((7, 0, 3))));
    log.truncate_to(Offset(4), NOW).unwrap();
    log.close().unwrap();
    broker.directories.close(None);
    for stop in 0..3 {
        let mut broker = Broker::start(&disk);
        let log = broker.open(small());
        let last = log.producers().first().and_then(|producer| producer.last_sequence);
        assert_eq!(last, Some(Sequence(2)), "after {stop} more");
        log.close().unwrap();
        broker.directories.close(None);
    }
}

#[test]
fn a_truncated_segment_gets_its_last_index_entry_again() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let config = LogConfig { index_interval_bytes: 10_000, ..small() };
    let mut log = broker.create(config.clone());
    for n in 0..30 {
        append(&mut log, batch_at(NOW.0 + n, &[&format!("{n:080}")], None));
    }
    let second = log.segments[1].base;
    log.truncate_to(Offset(second.0 - 1), NOW).unwrap();
    let largest = log.offset_of_max_timestamp().unwrap();
    log.close().unwrap();
    broker.directories.close(None);
    let file = format!("/data/t-0/{:020}.timeindex", 0);
    let file = disk.files().into_iter().find(|(path, _)| path == Path::new(&file)).unwrap().1;
    let last = i64::from_be_bytes(*file[file.len() - 12..].first_chunk().unwrap());
    assert_eq!(last, NOW.0 + second.0 - 2, "the last that is left");
    let log = Broker::start(&disk).open(config);
    assert_eq!(log.offset_of_max_timestamp().unwrap(), largest);
}

#[test]
fn what_stays_is_not_lost_behind_what_comes_back_of_what_was_removed() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig { segment_ms: Duration::MAX, ..small() });
    for n in 0..40 {
        append(&mut log, batch(&[&format!("{n:0100}")], None));
    }
    // Flushed, and no checkpoint says so.
    flush(&mut log);
    let end = log.log_end_offset();
    log.set_high_watermark(end);
    log.delete_records_before(log.segments[3].base).unwrap();
    assert_eq!(log.apply_retention(NOW).unwrap(), 3);

    let after = disk.copy();
    for extension in ["log", "index", "timeindex"] {
        let name = format!("/data/t-0/{:020}.{extension}", 0);
        let deleted = format!("{name}.deleted");
        after.rename(Path::new(&deleted), Path::new(&name)).unwrap();
    }
    assert_eq!(Broker::start(&after).open(small()).log_end_offset(), end);
}

#[test]
fn the_removal_of_segments_flushes_nothing() {
    let disk = MemoryDisk::new();
    let mut log = Broker::start(&disk).create(LogConfig { segment_ms: Duration::MAX, ..small() });
    for n in 0..40 {
        append(&mut log, batch(&[&format!("{n:0100}")], None));
    }
    log.set_high_watermark(log.log_end_offset());
    log.delete_records_before(log.segments[3].base).unwrap();
    assert_eq!(log.apply_retention(NOW).unwrap(), 3);
    assert_eq!(log.durable_offset(), Offset(0));
}

#[test]
fn a_durable_snapshot_tells_of_producers_whose_batches_compaction_removed() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let config =
        LogConfig { cleanup_policy: CleanupPolicy { delete: false, compact: true }, ..small() };
    let mut log = broker.create(config.clone());
    append(&mut log, batch(&[&"x".repeat(LARGE)], Some((3, 0, 0))));
    append(&mut log, batch(&[&"x".repeat(LARGE)], None));
    let second = log.segments[1].base;
    flush(&mut log);
    broker.directories.write_checkpoints();
    let after = disk.copy();
    // As if all of it had newer records, in a segment that is gone.
    for base in [Offset(0), second] {
        for extension in ["log", "index", "timeindex"] {
            after.put(&Path::new("/data/t-0").join(format!("{:020}.{extension}", base.0)), b"");
        }
    }
    for start in 0..3 {
        let log = Broker::start(&after).open(config.clone());
        assert_eq!(log.producers().len(), 1, "start {start}");
        assert_eq!(log.producers()[0].producer_id, ProducerId(3), "start {start}");
    }
}

/// Eight segments with rising timestamps; transactions abort in some. Flushed, and a checkpoint says so.
fn flushed_log(disk: &MemoryDisk) -> (Broker, PartitionLog) {
    let broker = Broker::start(disk);
    let mut log = broker.create(small());
    for n in 0..40 {
        append(&mut log, batch_at(NOW.0 + n, &[&format!("{n:0100}")], None));
        if n % 10 == 1 {
            let producer = (n, 0);
            append(&mut log, transactional((n, 0, 0), &["aborted"]));
            end(&mut log, producer, false).unwrap();
        }
    }
    log.set_high_watermark(log.log_end_offset());
    flush(&mut log);
    broker.directories.write_checkpoints();
    (broker, log)
}

/// Where timestamps are found, and what is aborted.
fn looked_up(log: &PartitionLog) -> (Vec<Option<Offset>>, BTreeSet<i64>) {
    let find =
        |n| log.offset_for_timestamp(Timestamp(NOW.0 + n)).unwrap().map(|found| found.offset);
    let told = log.segments.iter().flat_map(|segment| {
        let request = ReadRequest {
            offset: segment.base,
            max_bytes: 1 << 20,
            min_one_message: true,
            upper_bound: log.log_end_offset(),
            want_aborted: true,
        };
        log.read(request).unwrap().aborted_transactions.unwrap()
    });
    ((0..40).map(find).collect(), told.map(|aborted| aborted.first_offset.0).collect())
}

/// Opens the log and ends while files are made anew, after each change of the disk; every next start must find
/// what `check` wants.
fn end_while_opening(disk: &MemoryDisk, check: impl Fn(&PartitionLog, &str)) {
    for changes in 0.. {
        let dying = disk.copy();
        let opened = Broker::try_start(&dying).is_ok_and(|mut broker| {
            // What comes before the log is opened is another test's.
            dying.cut_power_after(changes);
            let opened = broker.closed.remove(0).open(Arc::new(small()), NOW);
            opened.is_ok_and(|log| log.close().is_ok())
        });
        let at = format!("after {changes} changes");
        check(&Broker::start(&dying.copy()).open(small()), &format!("killed {at}"));
        for seed in 0..5 {
            let left = dying.crash(seed);
            check(&Broker::start(&left).open(small()), &format!("power cut {seed} {at}"));
        }
        if opened {
            return;
        }
    }
}

/// What was seen: the time index of a segment below the recovery point was gone; recovery was killed between making
/// a new one and writing to it, and look-ups by time passed the segment over from then on.
#[test]
fn indexes_of_a_flushed_segment_are_made_anew_whole_or_not_at_all() {
    let disk = MemoryDisk::new();
    let (_, log) = flushed_log(&disk);
    let wanted = looked_up(&log);
    assert_eq!(wanted.1.len(), 4);
    let first = log.segments[0].base;
    for lost in [&["timeindex"][..], &["index"], &["timeindex", "txnindex"], &["index", "txnindex"]]
    {
        let disk = disk.copy();
        for extension in lost {
            let path = Path::new("/data/t-0").join(format!("{:020}.{extension}", first.0));
            disk.remove_file(&path).unwrap();
        }
        disk.sync_directory(Path::new("/data/t-0")).unwrap();
        end_while_opening(&disk, |log, at| {
            assert_eq!(looked_up(log), wanted, "{lost:?} were gone; {at}");
        });
    }
}

/// A log whose indexes did not fit into the `room` on the disk when it was recovered, and that was flushed since.
fn recovered_on_a_full_disk(disk: &MemoryDisk, room: u64) -> (Broker, PartitionLog) {
    disk.set_capacity(Some(disk.used() + room));
    let mut broker = Broker::start(disk);
    let mut log = broker.open(small());
    disk.set_capacity(None);
    append(&mut log, batch_at(NOW.0 + 39, &["one more"], None));
    flush(&mut log);
    broker.directories.write_checkpoints();
    (broker, log)
}

#[test]
fn an_index_that_did_not_fit_on_the_disk_is_not_believed_to_be_empty() {
    let disk = MemoryDisk::new();
    let (broker, log) = flushed_log(&disk);
    let wanted = looked_up(&log);
    // Everything is read again, and nothing of what is derived is there.
    drop((broker, log));
    for (path, _) in disk.files() {
        let is_hint = path.extension().is_some_and(|e| e == "index" || e == "timeindex");
        if is_hint || path.ends_with("recovery-point-offset-checkpoint") {
            disk.remove_file(&path).unwrap();
        }
    }
    for room in (0..600).step_by(13) {
        let full = disk.copy();
        let (broker, log) = recovered_on_a_full_disk(&full, room);
        assert_eq!(looked_up(&log), wanted);
        for (at, left) in [full.copy(), full.crash(1), full.crash(2)].iter().enumerate() {
            let found = looked_up(&Broker::start(left).open(small()));
            assert_eq!(found, wanted, "room for {room} bytes, crash {at}");
        }
        log.close().unwrap();
        broker.directories.close(None);
        let found = looked_up(&Broker::start(&full).open(small()));
        assert_eq!(found, wanted, "room for {room} bytes, closed");
    }
    // The same, ended while the log is closed and gets its indexes.
    for changes in 0.. {
        let full = disk.copy();
        let (_broker, log) = recovered_on_a_full_disk(&full, 40);
        full.cut_power_after(changes);
        let is_closed = log.close().is_ok();
        for left in [full.copy(), full.crash(changes)] {
            let found = looked_up(&Broker::start(&left).open(small()));
            assert_eq!(found, wanted, "ended after {changes} changes");
        }
        if is_closed {
            return;
        }
    }
}

/// What was seen: retention had removed two segments, but of the snapshot between them the old name was left. A
/// transaction that had ended in the second was open for ever.
#[test]
fn a_snapshot_without_the_segments_after_it_is_not_believed() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    let large = "x".repeat(LARGE);
    append(&mut log, transactional((7, 0, 0), &["begun"]));
    append(&mut log, batch(&[&large], None));
    end(&mut log, (7, 0), false).unwrap();
    let ended_in = log.segments.last().unwrap().base;
    append(&mut log, batch(&[&large], None));
    let end = log.log_end_offset();
    log.set_high_watermark(end);
    flush(&mut log);
    broker.directories.write_checkpoints();
    broker.directories.write_high_watermarks();
    let last = log.segments.last().unwrap().base;
    for (path, _) in disk.files() {
        let name = path.file_stem().and_then(|name| name.to_str()?.parse::<i64>().ok());
        let is_snapshot = path.extension().is_some_and(|extension| extension == "snapshot");
        let is_left = name == Some(if is_snapshot { ended_in.0 } else { last.0 });
        if name.is_some() && !is_left {
            disk.remove_file(&path).unwrap();
        }
    }
    let log = Broker::start(&disk.copy()).open(small());
    assert_eq!(log.log_start_offset(), last);
    assert!(!log.has_open_transaction(ProducerId(7)));
    assert_eq!(log.last_stable_offset(), end);
}

/// What was seen: the log start was raised, and a crash took that back. A segment from below it had lost an index and was
/// read; its epoch was taken for that of everything up to where the log had started.
#[test]
fn an_epoch_does_not_spread_over_segments_that_were_below_the_log_start() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(small());
    let large = "x".repeat(LARGE);
    for epoch in [0, 0, 1, 1, 2, 2] {
        let request = request_in(LeaderEpoch(epoch), batch(&[&large], None), AppendOrigin::Client);
        let Reserved::Pending(pending) = log.reserve(request).unwrap() else { panic!("it is new") };
        let outcome = pending.write();
        log.publish(pending, &outcome).unwrap();
    }
    log.set_high_watermark(log.log_end_offset());
    log.delete_records_before(Offset(4)).unwrap();
    flush(&mut log);
    broker.directories.write_checkpoints();
    let first = log.segments[0].base;
    disk.remove_file(&Path::new("/data/t-0").join(format!("{:020}.index", first.0))).unwrap();
    disk.remove_file(Path::new("/data/log-start-offset-checkpoint")).unwrap();
    let log = Broker::start(&disk.copy()).open(small());
    assert_eq!(log.log_start_offset(), Offset(0));
    let epochs = (0..6).map(|offset| log.epoch_for_offset(Offset(offset)).map(|epoch| epoch.0));
    assert_eq!(epochs.collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2].map(Some));
}
