//! Bits that flip on the disk, in segments and in what is kept beside them.

use super::*;
use crate::compaction::{Cleaning, CleaningBuffers, Interrupted, Pace};
use platform::Disk;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a bit comes to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flip {
    /// The disk rots: the file looks as if nobody had touched it.
    Rot,
    /// Somebody writes to the file.
    Write,
}

/// What the broker did meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meanwhile {
    Stopped,
    Killed,
    Running,
}

fn flip(disk: &MemoryDisk, path: &Path, position: usize, mask: u8, how: Flip) {
    match how {
        Flip::Rot => disk.rot(path, position, mask),
        Flip::Write => {
            let file = disk.open(path, OpenOptions { write: true, ..Default::default() }).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, position as u64).unwrap();
            byte[0] ^= mask;
            file.write_all_at(&[io::IoSlice::new(&byte)], position as u64).unwrap();
        }
    }
}

pub(super) fn path_of(base: i64, extension: &str) -> PathBuf {
    PathBuf::from(format!("/data/t-0/{base:020}.{extension}"))
}

pub(super) fn file(disk: &MemoryDisk, path: &Path) -> Vec<u8> {
    let files = disk.files();
    files.into_iter().find(|(known, _)| known == path).map(|(_, bytes)| bytes).unwrap_or_default()
}

/// A log of several complete segments, flushed, with records of a thousand bytes at most per segment.
pub(super) fn several_segments(disk: &MemoryDisk) -> (Broker, PartitionLog) {
    let broker = Broker::start(disk);
    let mut log = broker.create(small());
    for n in 0..24 {
        let epoch = LeaderEpoch(n / 7);
        let bytes = batch(&[&format!("{n:0100}"), "x"], None);
        log.assign_epoch(epoch, log.log_end_offset()).unwrap();
        append_as(&mut log, bytes, AppendOrigin::Client).unwrap();
    }
    flush(&mut log);
    broker.directories.write_checkpoints();
    (broker, log)
}

pub(super) fn flush(log: &mut PartitionLog) {
    if let Some(work) = log.begin_flush() {
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
    }
}

/// Every batch's bytes by first offset.
pub(super) fn batches(log: &PartitionLog) -> BTreeMap<i64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut at = 0;
    while at < log.log_end_offset().0 {
        let bytes = bytes_of(&read(log, at));
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            at = batch.last_offset().0 + 1;
            found.insert(batch.base_offset().unwrap().0, batch.bytes().to_vec());
        }
    }
    found
}

/// Reads at every offset. What is read must be what was written; returns the offsets that cannot be read.
pub(super) fn unreadable(
    log: &PartitionLog,
    written: &BTreeMap<i64, Vec<u8>>,
    what: &str,
) -> Vec<i64> {
    let end = log.log_end_offset();
    let mut refused = Vec::new();
    for offset in 0..end.0 {
        let request = ReadRequest {
            offset: Offset(offset),
            max_bytes: 30_000,
            min_one_message: true,
            upper_bound: end,
            want_aborted: false,
        };
        let read = match log.read(request) {
            Ok(read) => bytes_of(&read),
            Err(ReadError::Corrupt { offset: named, .. }) => {
                assert_eq!(named.0, offset);
                refused.push(offset);
                continue;
            }
            Err(error) => panic!("{what}: {offset}: {error}"),
        };
        let (&first, _) = written.range(..=offset).next_back().unwrap();
        let expected = written.range(first..).flat_map(|(_, bytes)| bytes.iter().copied());
        let expected = expected.take(read.len()).collect::<Vec<_>>();
        assert!(!read.is_empty() && read == expected, "{what}: other bytes at {offset}");
    }
    refused
}

/// Opens the log of a disk as it was left.
pub(super) fn reopen(disk: &MemoryDisk, meanwhile: Meanwhile) -> (Broker, PartitionLog) {
    let mut broker = Broker::start(disk);
    assert_eq!(broker.closed[0].needs_recovery(), meanwhile == Meanwhile::Killed);
    let log = broker.open(small());
    (broker, log)
}

pub(super) fn stop(broker: Broker, log: PartitionLog) {
    log.close().unwrap();
    broker.directories.close(None);
}

/// Flips a bit in each byte of a batch in the middle of a cold segment: headers and a part of the records.
fn flips_in_a_cold_segment(how: Flip, meanwhile: Meanwhile) {
    let original = MemoryDisk::new();
    let (broker, log) = several_segments(&original);
    let written = batches(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    assert!(bases.len() > 4, "{bases:?}");
    if meanwhile == Meanwhile::Killed {
        drop((broker, log));
    } else {
        stop(broker, log);
    }
    let base = bases[2];
    let path = path_of(base, "log");
    let bytes = file(&original, &path);
    let sizes = written.range(base..bases[3]).map(|(_, bytes)| bytes.len()).collect::<Vec<_>>();
    assert_eq!(sizes.iter().sum::<usize>(), bytes.len());
    for position in (0..70).map(|at| sizes[0] + at).chain([0, bytes.len() - 1]) {
        let disk = original.copy();
        let what = format!("{how:?}, {meanwhile:?}, position {position}");
        let mask = 1 << (position % 8);
        let (_broker, log) = match meanwhile {
            Meanwhile::Stopped | Meanwhile::Killed => {
                flip(&disk, &path, position, mask, how);
                reopen(&disk, meanwhile)
            }
            Meanwhile::Running => {
                let running = reopen(&disk, Meanwhile::Stopped);
                // What was right once is looked at again when it comes from the disk again, or was written to.
                assert_eq!(unreadable(&running.1, &written, &what), [0i64; 0]);
                flip(&disk, &path, position, mask, how);
                running
            }
        };
        assert_eq!(log.log_end_offset(), Offset(48), "{what}");
        let refused = unreadable(&log, &written, &what);
        assert_eq!(refused, (base..bases[3]).collect::<Vec<_>>(), "{what}");
        let timestamp = log.offset_for_timestamp(Timestamp(NOW.0 + 1));
        assert!(timestamp.is_ok(), "{what}: segments before it are not touched");
    }
}

#[test]
fn a_flipped_bit_is_never_served_by_a_broker_that_was_stopped() {
    flips_in_a_cold_segment(Flip::Rot, Meanwhile::Stopped);
    flips_in_a_cold_segment(Flip::Write, Meanwhile::Stopped);
}

#[test]
fn a_flipped_bit_is_never_served_by_a_broker_that_was_killed() {
    flips_in_a_cold_segment(Flip::Rot, Meanwhile::Killed);
}

#[test]
fn a_flipped_bit_is_never_served_by_a_broker_that_runs() {
    flips_in_a_cold_segment(Flip::Rot, Meanwhile::Running);
    flips_in_a_cold_segment(Flip::Write, Meanwhile::Running);
}

#[test]
fn the_checksums_of_the_active_segment_go_on_where_a_clean_stop_left_them() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(LogConfig::default());
    append(&mut log, batch(&["a"], None));
    stop(broker, log);
    let (broker, mut log) = reopen(&disk, Meanwhile::Stopped);
    append(&mut log, batch(&["b"], None));
    let written = batches(&log);
    assert_eq!(unreadable(&log, &written, "nothing is wrong"), [0i64; 0]);
    stop(broker, log);
    for (position, offset) in [(15, 0), (14, 0), (15 + written[&0].len(), 1)] {
        let disk = disk.copy();
        // The leader epoch: no checksum of Kafka's covers it.
        disk.rot(&path_of(0, "log"), position, 1);
        let (_broker, log) = reopen(&disk, Meanwhile::Stopped);
        assert_eq!(unreadable(&log, &written, "rot"), [0, 1], "{position}, {offset}");
    }
}

// ---- large segments ----

fn large() -> LogConfig {
    LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() }
}

/// Segments of a megabyte with batches of 10 kB and one of 300 kB.
fn large_segments(disk: &MemoryDisk) -> BTreeMap<i64, Vec<u8>> {
    let broker = Broker::start(disk);
    let mut log = broker.create(large());
    for n in 0..250 {
        let size = if n == 30 { 300_000 } else { 10_000 };
        let value = format!("{n:05}").repeat(size / 5);
        append(&mut log, batch(&[&value], None));
    }
    let written = batches(&log);
    stop(broker, log);
    written
}

#[test]
fn what_lies_around_a_damaged_part_can_be_read() {
    let original = MemoryDisk::new();
    let written = large_segments(&original);
    let position =
        |offset: i64| -> usize { written.range(..offset).map(|(_, bytes)| bytes.len()).sum() };
    // The batch's first byte, length, epoch, magic, checksum, attributes, record; in the large batch too.
    for offset in [20, 30, 31] {
        for at in [7, 11, 15, 16, 19, 22, 200] {
            let disk = original.copy();
            disk.rot(&path_of(0, "log"), position(offset) + at, 4);
            let mut broker = Broker::start(&disk);
            let log = broker.open(large());
            let what = format!("offset {offset}, byte {at}");
            let refused = unreadable(&log, &written, &what);
            assert!(refused.contains(&offset), "{what}: {refused:?}");
            assert!(refused.len() <= 7, "{what}: {refused:?}");
            assert!(refused.iter().all(|&refused| refused.abs_diff(offset) < 7), "{what}");
        }
    }
}

#[test]
fn a_length_that_lies_takes_no_memory_and_is_found() {
    let disk = MemoryDisk::new();
    let written = large_segments(&disk);
    let size = written[&0].len();
    disk.rot(&path_of(0, "log"), 10 * size + 9, 0b1000); // half a megabyte more
    let mut broker = Broker::start(&disk);
    let log = broker.open(large());
    let refused = unreadable(&log, &written, "a length");
    assert!(refused.contains(&10) && refused.len() < 8, "{refused:?}");
}

// ---- hints ----

#[test]
fn indexes_and_checksums_may_be_scrambled_or_gone() {
    let original = MemoryDisk::new();
    let (broker, log) = several_segments(&original);
    let written = batches(&log);
    let base = log.segments[2].base.0;
    let other = log.segments[1].base.0;
    stop(broker, log);
    for extension in ["index", "checksums"] {
        let path = path_of(base, extension);
        let bytes = file(&original, &path);
        assert!(!bytes.is_empty(), "{extension}");
        let check = |disk: &MemoryDisk, what: &str| {
            let (_broker, log) = reopen(disk, Meanwhile::Stopped);
            let what = format!("{extension}: {what}");
            assert_eq!(unreadable(&log, &written, &what), [0i64; 0], "{what}");
        };
        for position in 0..bytes.len() {
            let disk = original.copy();
            disk.rot(&path, position, 1 << (position % 7));
            check(&disk, &format!("byte {position}"));
        }
        for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let disk = original.copy();
            disk.put(&path, &bytes[..len]);
            check(&disk, &format!("cut to {len}"));
        }
        let disk = original.copy();
        disk.remove_file(&path).unwrap();
        check(&disk, "gone");
        let disk = original.copy();
        disk.put(&path, &file(&original, &path_of(other, extension)));
        check(&disk, "of another segment");
    }
}

/// Look-ups by time find what they found, and retention does not take a segment for older than it is.
#[test]
fn time_indexes_may_be_scrambled_or_gone() {
    let original = MemoryDisk::new();
    let broker = Broker::start(&original);
    let mut log = broker.create(small());
    for n in 0..30 {
        // Not in order: the largest is not always the last.
        let time = NOW.0 + 10 * n - 35 * (n % 3);
        append(&mut log, batch_at(time, &[&format!("{n:0100}"), "x"], None));
    }
    flush(&mut log);
    let times = || (NOW.0 - 80..NOW.0 + 320).step_by(5).map(Timestamp);
    let look = |log: &PartitionLog| {
        let found = times().map(|time| log.offset_for_timestamp(time).unwrap());
        let largest = log.segments.iter().map(|segment| segment.largest_timestamp().unwrap());
        (
            found.collect::<Vec<_>>(),
            log.offset_of_max_timestamp().unwrap(),
            largest.collect::<Vec<_>>(),
        )
    };
    let expected = look(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    assert!(bases.len() > 4, "{bases:?}");
    stop(broker, log);
    for &base in &[bases[2], bases[bases.len() - 1]] {
        let path = path_of(base, "timeindex");
        let bytes = file(&original, &path);
        assert!(bytes.len() >= 24);
        let check = |disk: &MemoryDisk, what: &str| {
            let (_broker, log) = reopen(disk, Meanwhile::Stopped);
            let found = look(&log);
            assert!(found == expected, "segment {base}, {what}: {found:?} instead of {expected:?}");
        };
        check(&original.copy(), "nothing");
        for position in 0..bytes.len() {
            for bit in [0, 3, 7] {
                let disk = original.copy();
                disk.rot(&path, position, 1 << bit);
                check(&disk, &format!("byte {position}, bit {bit}"));
            }
        }
        for len in [0, 1, 12, bytes.len() - 12, bytes.len() - 1] {
            let disk = original.copy();
            disk.put(&path, &bytes[..len]);
            check(&disk, &format!("cut to {len}"));
        }
        let disk = original.copy();
        disk.remove_file(&path).unwrap();
        check(&disk, "gone");
        let disk = original.copy();
        disk.put(&path, &file(&original, &path_of(bases[1], "timeindex")));
        check(&disk, "of another segment");
    }
}

#[test]
fn checksums_that_another_broker_made_outdated_are_not_believed() {
    let original = MemoryDisk::new();
    let written = large_segments(&original);
    // It leaves its own marker, and has cut a segment and written other batches to it, of a later epoch.
    original.put(Path::new("/data/.kafka_cleanshutdown"), b"{\"version\":0,\"brokerEpoch\":3}");
    let mut bytes = file(&original, &path_of(0, "log"));
    let kept: usize = written.range(..40).map(|(_, bytes)| bytes.len()).sum();
    let mut rewritten = written.clone();
    let files = original.files();
    let is_base = |offset: &i64| files.iter().any(|(path, _)| *path == path_of(*offset, "log"));
    let next = (1..250).find(is_base).unwrap();
    let mut at = kept;
    for (_, batch) in rewritten.range_mut(40..next) {
        batch[15] = 9;
        bytes[at..at + batch.len()].copy_from_slice(batch);
        at += batch.len();
    }
    assert_eq!(at, bytes.len());
    let log_path = path_of(0, "log");
    let rewrite = original.open(&log_path, OpenOptions { write: true, ..Default::default() });
    rewrite.unwrap().write_all_at(&[io::IoSlice::new(&bytes[kept..])], kept as u64).unwrap();

    let disk = original.copy();
    let mut broker = Broker::start(&disk);
    let log = broker.open(large());
    assert_eq!(unreadable(&log, &rewritten, "rewritten"), [0i64; 0]);
    assert!(file(&disk, &path_of(0, "checksums")).is_empty(), "they are of no use any more");
    drop((broker, log));

    // What has rotted since it wrote is found by Kafka's checksums; what had before, also by ours.
    for (offset, at) in [(50, 22), (20, 15)] {
        let disk = original.copy();
        let position: usize = rewritten.range(..offset).map(|(_, bytes)| bytes.len()).sum();
        disk.rot(&log_path, position + at, 1);
        let mut broker = Broker::start(&disk);
        let log = broker.open(large());
        let refused = unreadable(&log, &rewritten, "rotten");
        assert!(refused.contains(&offset) && refused.len() < 8, "{refused:?}");
    }
}

#[test]
fn what_is_cut_off_leaves_no_checksums_behind() {
    let disk = MemoryDisk::new();
    let (broker, mut log) = several_segments(&disk);
    log.truncate_to(Offset(22), NOW).unwrap();
    for n in 0..12 {
        append(&mut log, batch(&[&format!("{n:0150}"), "y"], None));
    }
    flush(&mut log);
    let written = batches(&log);
    assert_eq!(unreadable(&log, &written, "running"), [0i64; 0]);
    let killed = disk.copy();
    let (_broker, recovered) = reopen(&killed, Meanwhile::Killed);
    assert_eq!(unreadable(&recovered, &written, "killed"), [0i64; 0]);
    stop(broker, log);
    let (_broker, log) = reopen(&disk, Meanwhile::Stopped);
    assert_eq!(unreadable(&log, &written, "stopped"), [0i64; 0]);
}

struct Unpaced;

impl Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

#[test]
fn compaction_leaves_a_damaged_log_alone() {
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let base = log.segments[2].base.0;
    stop(broker, log);
    disk.rot(&path_of(base, "log"), 15, 1);
    let mut broker = Broker::start(&disk);
    let compacted = CleanupPolicy { delete: false, compact: true };
    let log = broker.open(LogConfig { cleanup_policy: compacted, ..small() });
    let view = log.view().unwrap();
    let state = view.state(NOW).unwrap();
    let buffers = CleaningBuffers { dedupe_bytes: 1 << 20, dedupe_load_factor: 0.9, io_bytes: 300 };
    let error = Cleaning::begin(view, state, buffers, 1, NOW, &mut Unpaced).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn an_inspection_tells_where_heads_are_not_what_was_written() {
    use crate::inspect::{Item, Options, inspect};
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let base = log.segments[2].base.0;
    stop(broker, log);
    let path = path_of(base, "log");
    let options = Options { verify: true, records: false, limit: 1 << 20 };
    let problems = |disk: &MemoryDisk| {
        let mut found = Vec::new();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        inspect(&shared, &path, options, |item| {
            if let Item::Problem(text) = item {
                found.push(text);
            }
            Ok::<_, ()>(())
        })
        .unwrap();
        found
    };
    assert_eq!(problems(&disk), [""; 0]);
    let rotten = disk.copy();
    rotten.rot(&path, 14, 1);
    let problem = problems(&rotten).pop().unwrap();
    assert!(problem.starts_with("position 0 to 65536: ") && problem.ends_with("written"));
    let rewritten = disk.copy();
    flip(&rewritten, &path, 14, 1, Flip::Write);
    let problem = problems(&rewritten).pop().unwrap();
    assert!(problem.ends_with("another broker wrote to the segment since"), "{problem}");
}

// ---- looking at everything ----

fn scrub(segments: &[crate::ScrubSegment], now: Timestamp) -> Vec<u64> {
    let look = |segment: &crate::ScrubSegment| segment.run(now, &mut Unpaced).unwrap().damaged;
    segments.iter().map(look).collect()
}

#[test]
fn a_scrub_finds_what_nobody_reads() {
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    let clean = vec![0; bases.len()];
    assert_eq!(scrub(&log.scrub(), NOW), clean);
    stop(broker, log);
    for position in [0, 9, 14, 16, 18, 22, 100] {
        let disk = disk.copy();
        disk.rot(&path_of(bases[3], "log"), position, 1);
        let mut damaged = clean.clone();
        damaged[3] = 1;
        let mut broker = Broker::start(&disk);
        let closed = broker.closed[0].scrub().unwrap();
        assert_eq!(scrub(&closed, NOW), damaged, "closed, byte {position}");
        let log = broker.open(small());
        assert_eq!(scrub(&log.scrub(), NOW), damaged, "open, byte {position}");
        let error = log.read(ReadRequest {
            offset: Offset(bases[3]),
            max_bytes: 1000,
            min_one_message: true,
            upper_bound: log.log_end_offset(),
            want_aborted: false,
        });
        assert!(matches!(error, Err(ReadError::Corrupt { .. })));
    }
}

/// It was right when it was first read; the scrub had it read from the disk again, and whoever read it then got it from memory.
#[test]
fn what_a_scrub_has_found_damaged_is_not_served_any_more() {
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let written = batches(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    stop(broker, log);
    let (_broker, log) = reopen(&disk, Meanwhile::Stopped);
    assert_eq!(unreadable(&log, &written, "nothing is wrong"), [0i64; 0]);
    disk.rot(&path_of(bases[3], "log"), 100, 1);
    assert_eq!(scrub(&log.scrub(), NOW).iter().sum::<u64>(), 1);
    assert_eq!(unreadable(&log, &written, "found"), (bases[3]..bases[4]).collect::<Vec<_>>());
}

#[test]
fn a_scrub_makes_checksums_where_there_are_none() {
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let written = batches(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    stop(broker, log);
    for base in &bases {
        disk.remove_file(&path_of(*base, "checksums")).unwrap();
    }
    let mut broker = Broker::start(&disk);
    let log = broker.open(small());
    let later = |seconds: i64| Timestamp(NOW.0 + 1000 * seconds);
    assert!(log.scrub().iter().all(|segment| segment.is_due(NOW)), "nobody ever has");
    scrub(&log.scrub(), later(0));
    assert!(!log.scrub().iter().any(|segment| segment.is_due(later(0))));
    assert!(log.scrub().iter().all(|segment| segment.is_due(later(1))));
    stop(broker, log);
    let broker = Broker::start(&disk);
    let closed = broker.closed[0].scrub().unwrap();
    let due = closed.iter().filter(|segment| segment.is_due(later(0))).count();
    assert_eq!(due, 1, "when it was is known after a restart, but of the active segment");
    drop(broker);
    disk.rot(&path_of(bases[1], "log"), 15, 1);
    let (_broker, log) = reopen(&disk, Meanwhile::Killed);
    let refused = unreadable(&log, &written, "made by a scrub");
    assert_eq!(refused, (bases[1]..bases[2]).collect::<Vec<_>>());
}
