//! What the enumerator of crashes has found (docs/crashes.md).

use super::*;
use platform::Disk;

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
