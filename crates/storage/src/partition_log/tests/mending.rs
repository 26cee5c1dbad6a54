//! Damaged segments that are made anew of a leader's batches.

use super::rot::{
    Meanwhile, batches, file, flush, path_of, reopen, several_segments, stop, unreadable,
};
use super::*;
use crate::{CleanedGroup, Mending, MendingError};
use std::collections::BTreeMap;

/// What a leader has, with each batch's last offset.
type Leader = Vec<(i64, Vec<u8>)>;

fn leader_of(written: &BTreeMap<i64, Vec<u8>>) -> Leader {
    let last = |bytes: &[u8]| Batches::new(bytes).next().unwrap().unwrap().last_offset().0;
    written.values().map(|bytes| (last(bytes), bytes.clone())).collect()
}

/// What a fetch gets: three batches at a time, the last of them cut off.
fn answer(leader: &Leader, from: Offset) -> Bytes {
    let at = leader.iter().position(|(last, _)| *last >= from.0).unwrap_or(leader.len());
    let found: Vec<_> = leader[at..].iter().take(3).flat_map(|(_, bytes)| bytes.clone()).collect();
    let cut = if leader[at..].len() > 2 { found.len() - 5 } else { found.len() };
    Bytes::from(found).slice(..cut)
}

fn feed(mending: &mut Mending, leader: &Leader, now: Timestamp) -> Result<(), MendingError> {
    while !mending.take(&answer(leader, mending.wanted()), now)? {}
    Ok(())
}

fn replace(log: &mut PartitionLog, group: CleanedGroup) {
    let mut swap = log.begin_swap(group).unwrap();
    swap.announce().unwrap();
    let files = log.swap(&mut swap);
    log.end_swap(swap.complete(&files));
}

/// Mends until nothing is known to be damaged; how often something was.
fn mend(log: &mut PartitionLog, leader: &Leader) -> usize {
    let mut count = 0;
    flush(log);
    while let Some(mut mending) = log.begin_mending(NOW).unwrap() {
        feed(&mut mending, leader, NOW).unwrap();
        log.compact_anew_from(mending.offsets().start).unwrap();
        let group = mending.finish(NOW).unwrap();
        replace(log, group);
        count += 1;
    }
    assert!(!log.is_damaged());
    count
}

/// A log that was stopped and then rotted in its third segment; what was written, and where segments begin.
fn rotten() -> (MemoryDisk, BTreeMap<i64, Vec<u8>>, Vec<i64>) {
    let disk = MemoryDisk::new();
    let (broker, log) = several_segments(&disk);
    let written = batches(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    stop(broker, log);
    disk.rot(&path_of(bases[2], "log"), 18, 1);
    (disk, written, bases)
}

#[test]
fn a_damaged_segment_is_made_anew_of_the_leaders_batches() {
    let original = MemoryDisk::new();
    let (broker, log) = several_segments(&original);
    let written = batches(&log);
    let leader = leader_of(&written);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    stop(broker, log);
    for &base in &bases {
        let bytes = file(&original, &path_of(base, "log"));
        for position in [0, 9, 14, 16, 18, 22, 100, bytes.len() - 1] {
            let disk = original.copy();
            let what = format!("segment {base}, byte {position}");
            disk.rot(&path_of(base, "log"), position, 1);
            let (broker, mut log) = reopen(&disk, Meanwhile::Stopped);
            log.set_high_watermark(log.log_end_offset());
            assert!(!unreadable(&log, &written, &what).is_empty(), "{what}");
            assert!(log.is_damaged(), "{what}");
            assert_eq!(mend(&mut log, &leader), 1, "{what}");
            assert_eq!(unreadable(&log, &written, &what), [0i64; 0], "{what}");
            for extension in ["log", "index", "timeindex"] {
                let path = path_of(base, extension);
                // The active segment's indexes may lie behind.
                if base != bases[bases.len() - 1] {
                    assert!(file(&disk, &path) == file(&original, &path), "{what}: {extension}");
                }
            }
            stop(broker, log);
            let (_broker, log) = reopen(&disk, Meanwhile::Stopped);
            assert_eq!(unreadable(&log, &written, &what), [0i64; 0], "{what}");
            assert!(super::compaction::leftovers(&disk).is_empty(), "{what}");
        }
    }
}

#[test]
fn nothing_above_the_high_watermark_is_made_anew() {
    let (disk, written, bases) = rotten();
    let (_broker, mut log) = reopen(&disk, Meanwhile::Stopped);
    unreadable(&log, &written, "rot");
    assert!(log.is_damaged());
    log.set_high_watermark(Offset(bases[3] - 1));
    assert!(log.begin_mending(NOW).unwrap().is_none());
    log.set_high_watermark(Offset(bases[3]));
    assert!(log.begin_mending(NOW).unwrap().is_some());
}

#[test]
fn a_leader_that_lacks_records_mends_nobody() {
    let (disk, written, bases) = rotten();
    let files = disk.files();
    let in_it: Vec<_> = written.range(bases[2]..bases[3]).map(|(&first, _)| first).collect();
    for lacking in &in_it {
        let (_broker, mut log) = reopen(&disk.copy(), Meanwhile::Stopped);
        log.set_high_watermark(log.log_end_offset());
        unreadable(&log, &written, "rot");
        let mut others = written.clone();
        others.remove(lacking);
        let mut mending = log.begin_mending(NOW).unwrap().unwrap();
        let refused = feed(&mut mending, &leader_of(&others), NOW).unwrap_err();
        assert!(refused.to_string().contains("it has nothing from"), "{refused}");
        mending.discard();
        // Damaged batches of the leader's are none.
        let mut damaged = written.clone();
        damaged.get_mut(lacking).unwrap()[30] ^= 1;
        let mut mending = log.begin_mending(NOW).unwrap().unwrap();
        let refused = feed(&mut mending, &leader_of(&damaged), NOW).unwrap_err();
        assert!(refused.to_string().contains("checksum"), "{refused}");
        mending.discard();
    }
    assert_eq!(disk.files(), files);
}

#[test]
fn a_log_that_was_cut_meanwhile_is_not_mended() {
    let (disk, written, bases) = rotten();
    let (_broker, mut log) = reopen(&disk, Meanwhile::Stopped);
    log.set_high_watermark(log.log_end_offset());
    unreadable(&log, &written, "rot");
    let mut mending = log.begin_mending(NOW).unwrap().unwrap();
    feed(&mut mending, &leader_of(&written), NOW).unwrap();
    log.truncate_to(Offset(bases[4]), NOW).unwrap();
    log.begin_swap(mending.finish(NOW).unwrap()).unwrap_err().discard();
    assert!(super::compaction::leftovers(&disk).is_empty());
}

/// At every step of the replacement, with all that was not synced, without it, and with parts of it.
#[test]
fn a_crash_leaves_what_was_damaged_or_what_is_mended() {
    let original = MemoryDisk::new();
    let (broker, log) = several_segments(&original);
    let written = batches(&log);
    let leader = leader_of(&written);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    stop(broker, log);
    original.rot(&path_of(bases[2], "log"), 18, 1);
    let mut mended = 0;
    let mut judge = |disk: &MemoryDisk, what: &str| {
        for seed in 0..12 {
            let crashed = if seed == 0 { disk.copy() } else { disk.crash(seed) };
            let mut broker = Broker::start(&crashed);
            let log = broker.open(small());
            let what = format!("{what}, seed {seed}");
            assert_eq!(log.log_end_offset(), Offset(48), "{what}");
            let refused = unreadable(&log, &written, &what);
            mended += usize::from(refused.is_empty());
            let damaged = (bases[2]..bases[3]).collect::<Vec<_>>();
            assert!(refused.is_empty() || refused == damaged, "{what}: {refused:?}");
            assert!(super::compaction::leftovers(&crashed).is_empty(), "{what}");
        }
    };
    let disk = original.copy();
    let (_broker, mut log) = reopen(&disk, Meanwhile::Stopped);
    log.set_high_watermark(log.log_end_offset());
    unreadable(&log, &written, "rot");
    let mut mending = log.begin_mending(NOW).unwrap().unwrap();
    judge(&disk, "begun");
    let mut is_complete = false;
    while !is_complete {
        is_complete = mending.take(&answer(&leader, mending.wanted()), NOW).unwrap();
        judge(&disk, "fed");
    }
    let group = mending.finish(NOW).unwrap();
    judge(&disk, "finished");
    let mut swap = log.begin_swap(group).unwrap();
    swap.announce().unwrap();
    judge(&disk, "announced");
    let files = log.swap(&mut swap);
    log.end_swap(swap.complete(&files));
    judge(&disk, "replaced");
    assert!(mended >= 24, "from the announcement on it is mended: {mended}");
}

#[test]
fn the_index_of_aborted_transactions_is_made_anew_too() {
    let original = MemoryDisk::new();
    let broker = Broker::start(&original);
    let mut log = broker.create(small());
    for n in 0..12 {
        append(&mut log, transactional((1, 0, 2 * n), &[&format!("{n:060}"), "x"]));
        append(&mut log, batch(&[&format!("{n:060}")], None));
        end(&mut log, (1, 0), n % 3 == 0).unwrap();
    }
    flush(&mut log);
    let written = batches(&log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    let indexes = |disk: &MemoryDisk| {
        bases.iter().map(|base| file(disk, &path_of(*base, "txnindex"))).collect::<Vec<_>>()
    };
    stop(broker, log);
    assert_eq!(indexes(&original).concat().len(), 8 * 34);
    for &base in &bases[..bases.len() - 1] {
        for has_snapshots in [true, false] {
            let disk = original.copy();
            disk.rot(&path_of(base, "log"), 18, 1);
            if !has_snapshots {
                for &base in &bases {
                    let _ = platform::Disk::remove_file(&disk, &path_of(base, "snapshot"));
                }
            }
            let (_broker, mut log) = reopen(&disk, Meanwhile::Stopped);
            log.set_high_watermark(log.log_end_offset());
            unreadable(&log, &written, "rot");
            mend(&mut log, &leader_of(&written));
            assert_eq!(indexes(&disk), indexes(&original), "segment {base}");
        }
    }
}

/// The leader has dropped a tombstone; the record that it hid must not be left here.
#[test]
fn of_a_compacted_log_everything_up_to_the_damaged_segment_is_as_the_leader_has_it() {
    use super::compaction::{compact, config, put, records, remove};
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(config());
    put(&mut log, "gone", "v");
    for n in 0..10 {
        put(&mut log, "other", &format!("v{n}"));
    }
    remove(&mut log, "gone");
    for n in 0..30 {
        put(&mut log, &format!("k{}", n % 4), &format!("v{n}"));
    }
    flush(&mut log);
    let bases = log.segments.iter().map(|segment| segment.base.0).collect::<Vec<_>>();
    let tombstone = bases.iter().rposition(|&base| base <= 11).unwrap();
    assert!(tombstone > 0);
    let leaders = disk.copy();
    stop(broker, log);
    disk.rot(&path_of(bases[tombstone], "log"), 18, 1);

    // The tombstone outlives its horizon with the leader.
    let mut leader_broker = Broker::start(&leaders);
    let mut leader = leader_broker.open(config());
    leader.set_high_watermark(leader.log_end_offset());
    compact(&mut leader, NOW);
    put(&mut leader, "more", "v");
    let horizon = Timestamp(NOW.0 + 60_000);
    for n in 0..12 {
        put(&mut leader, "k0", &format!("w{n}"));
    }
    compact(&mut leader, horizon);
    let of_gone = |found: super::compaction::Found| found.iter().any(|(_, key, _)| key == "gone");
    assert!(!of_gone(records(&leader)));

    let mut broker = Broker::start(&disk);
    let mut log = broker.open(config());
    log.set_high_watermark(log.log_end_offset());
    log.scrub().iter().for_each(|segment| drop(segment.run(NOW, &mut Unpaced)));
    let sent = leader_of(&batches(&leader));
    let mut mending = log.begin_mending(NOW).unwrap().unwrap();
    assert_eq!(mending.offsets().start, Offset(0), "from the first segment on");
    let end = mending.offsets().end.0;
    feed(&mut mending, &sent, NOW).unwrap();
    // What took too long may be of two ages.
    let late = Timestamp(NOW.0 + 10_000);
    assert!(feed(&mut mending, &sent, late).unwrap_err().to_string().contains("tombstones"));
    mending.discard();
    assert_eq!(mend(&mut log, &sent), 1);
    let found = records(&log);
    assert!(!of_gone(found.clone()));
    let below = |found: super::compaction::Found| -> Vec<_> {
        found.into_iter().filter(|record| record.0 < end).collect()
    };
    assert_eq!(below(found), below(records(&leader)));
    let before = records(&log).len();
    compact(&mut log, NOW);
    assert!(records(&log).len() < before, "it is compacted anew");
}

struct Unpaced;

impl crate::Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), crate::Interrupted> {
        Ok(())
    }
}
