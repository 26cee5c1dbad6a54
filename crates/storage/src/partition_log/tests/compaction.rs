//! Compaction of logs on a disk in memory.

use super::*;
use crate::compaction::{Cleaning, CleaningBuffers, CleaningError, CleaningState, Consequence};
use crate::compaction::{CleaningTotals, Interrupted, Pace};
use std::collections::BTreeMap;

struct Unpaced;

impl Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

/// Interrupts after so many calls.
struct Patience(usize);

impl Pace for Patience {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        self.0 = self.0.checked_sub(1).ok_or(Interrupted)?;
        Ok(())
    }
}

const BUFFERS: CleaningBuffers =
    CleaningBuffers { dedupe_bytes: 1 << 20, dedupe_load_factor: 0.9, io_bytes: 300 };

pub(super) fn config() -> LogConfig {
    LogConfig {
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        segment_ms: Duration::MAX,
        delete_retention_ms: Duration::from_secs(10),
        ..small()
    }
}

fn keyed(builder: RecordBatchBuilder, records: &[(&str, Option<&str>)]) -> Bytes {
    let mut builder = builder;
    for (at, (key, value)) in (0..).zip(records) {
        let time = Timestamp(NOW.0 + at);
        builder.append(Some(time), Some(key.as_bytes()), value.map(str::as_bytes)).unwrap();
    }
    builder.build().unwrap()
}

pub(super) fn put(log: &mut PartitionLog, key: &str, value: &str) -> Offset {
    let padded = format!("{value:60}");
    append(log, keyed(RecordBatchBuilder::new(), &[(key, Some(&padded))]))
}

pub(super) fn remove(log: &mut PartitionLog, key: &str) -> Offset {
    append(log, keyed(RecordBatchBuilder::new(), &[(key, None)]))
}

fn flush(log: &mut PartitionLog) {
    if let Some(work) = log.begin_flush() {
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
    }
}

/// A flushed log of 60 records of seven keys.
fn seven_keys(broker: &Broker) -> PartitionLog {
    let mut log = broker.create(config());
    for n in 0..60 {
        put(&mut log, &format!("k{}", n % 7), &format!("v{n}"));
    }
    flush(&mut log);
    log
}

fn state_at(log: &PartitionLog, now: Timestamp) -> CleaningState {
    log.view().unwrap().state(now).unwrap()
}

fn try_compact(
    log: &mut PartitionLog,
    now: Timestamp,
    buffers: CleaningBuffers,
    pace: &mut dyn Pace,
) -> Result<CleaningTotals, CleaningError> {
    let view = log.view().unwrap();
    let state = view.state(now).unwrap();
    let mut cleaning = Cleaning::begin(view, state, buffers, 1, now, pace)?;
    while let Some(group) = cleaning.clean_next(pace)? {
        let mut swap = log.begin_swap(group).unwrap();
        if let Err(error) = swap.announce() {
            log.end_swap(swap.retreat());
            return Err(CleaningError::Log(error.into()));
        }
        let files = log.swap(&mut swap);
        let outcome = swap.complete(&files);
        let is_complete = outcome.is_ok();
        log.end_swap(outcome);
        if !is_complete {
            return Err(CleaningError::Interrupted);
        }
    }
    assert!(log.end_cleaning(&cleaning));
    log.directory().checkpoint_cleaner_offsets();
    Ok(cleaning.totals())
}

pub(super) fn compact(log: &mut PartitionLog, now: Timestamp) -> CleaningTotals {
    flush(log);
    try_compact(log, now, BUFFERS, &mut Unpaced).unwrap()
}

/// Offset, key and value of every record.
pub(super) type Found = Vec<(i64, String, Option<String>)>;

pub(super) fn records(log: &PartitionLog) -> Found {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let mut found = Vec::new();
    let mut at = log.log_start_offset().0;
    while at < log.log_end_offset().0 {
        let bytes = bytes_of(&read(log, at));
        assert!(!bytes.is_empty(), "a reader at {at} comes to the end");
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.verify());
            for record in &batch.records(1 << 20).unwrap() {
                let record = record.unwrap();
                if record.offset.0 >= at && !batch.is_control() {
                    let key = text(record.key.unwrap());
                    found.push((record.offset.0, key, record.value.map(text)));
                }
            }
            at = batch.last_offset().0 + 1;
        }
    }
    assert!(found.is_sorted_by_key(|record| record.0));
    found
}

/// What a reader of the whole log has in the end.
fn table(found: &Found) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for (_, key, value) in found {
        match value {
            Some(value) => drop(table.insert(key.clone(), value.clone())),
            None => drop(table.remove(key)),
        }
    }
    table
}

pub(super) fn leftovers(disk: &MemoryDisk) -> Vec<String> {
    let names = disk.files().into_iter().map(|file| file.0.to_str().unwrap().to_owned());
    names.filter(|name| name.ends_with(".cleaned") || name.ends_with(".swap")).collect()
}

fn cleaner_checkpoint(disk: &MemoryDisk) -> String {
    let path = Path::new("/data/cleaner-offset-checkpoint");
    let found = disk.files().into_iter().find(|file| file.0 == path);
    String::from_utf8(found.map_or_else(Vec::new, |file| file.1)).unwrap()
}

#[test]
fn only_the_newest_record_of_each_key_stays() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(config());
    for n in 0..60 {
        put(&mut log, &format!("k{}", n % 7), &format!("v{n}"));
        put(&mut log, &format!("once{n}"), "x");
    }
    let active = log.segments.last().unwrap().base;
    let before = records(&log);
    let (end, segments, size) = (log.log_end_offset(), log.segments.len(), log.size_bytes());
    let totals = compact(&mut log, NOW);
    assert_eq!(totals.bytes_before - totals.bytes_after, size - log.size_bytes());
    assert_eq!(log.log_end_offset(), end);
    let newest = |found: &Found| {
        let mut newest = BTreeMap::new();
        for record in found {
            newest.insert(record.1.clone(), record.0);
        }
        newest
    };
    // Of what lies below the active segment; the newest may lie in there.
    let below = before.iter().filter(|record| record.0 < active.0).cloned().collect();
    let newest = newest(&below);
    let mut expected = before.clone();
    expected.retain(|record| record.0 >= active.0 || newest[&record.1] == record.0);
    assert_eq!(records(&log), expected);
    assert_eq!(log.segments.len(), segments, "none was small before");
    assert!(leftovers(&disk).is_empty());
    assert_eq!(cleaner_checkpoint(&disk), format!("0\n1\nt 0 {active}\n"));
    assert_eq!(log.entry.size(), Some(log.size_bytes()));

    // Whatever offset is asked for, the next record is found.
    for offset in 0..end.0 {
        let bytes = bytes_of(&read(&log, offset));
        let first = Batches::new(&bytes).next().unwrap().unwrap();
        let next = expected.iter().find(|record| record.0 >= offset).unwrap().0;
        assert_eq!(first.last_offset().0, next);
    }
    let found = log.offset_for_timestamp(NOW).unwrap().unwrap();
    assert_eq!(found.offset.0, expected[0].0);
    let state = state_at(&log, NOW);
    assert_eq!((state.first_dirty, state.cleanable_bytes), (active, 0));
    assert!(!state.is_due(0.0));

    // Another round sees the clean part too, and so does a broker that starts anew.
    for n in 0..60 {
        put(&mut log, &format!("once{n}"), "y");
    }
    let segments = log.segments.len();
    compact(&mut log, NOW);
    assert!(log.segments.len() < segments, "small segments are joined");
    let wanted = records(&log);
    assert_eq!(table(&wanted).len(), 67);
    log.close().unwrap();
    broker.directories.close(None);
    let mut broker = Broker::start(&disk);
    let log = broker.open(config());
    assert_eq!((records(&log), log.log_end_offset()), (wanted, Offset(end.0 + 60)));
    let base = log.segments.last().unwrap().base;
    assert_eq!(state_at(&log, NOW).first_dirty, base, "it goes on where it was");
}

#[test]
fn tombstones_stay_until_their_horizon() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(config());
    put(&mut log, "gone", "1");
    remove(&mut log, "gone");
    let fill = |log: &mut PartitionLog| {
        for n in 0..12 {
            put(log, &format!("f{n}"), "x");
        }
    };
    fill(&mut log);
    compact(&mut log, NOW);
    let tombstone = (1, "gone".to_owned(), None);
    assert_eq!(records(&log)[0], tombstone);
    fill(&mut log);
    compact(&mut log, Timestamp(NOW.0 + 9_999));
    assert_eq!(records(&log)[0], tombstone, "its horizon counts from the first round");
    fill(&mut log);
    compact(&mut log, Timestamp(NOW.0 + 10_000));
    assert_ne!(records(&log)[0], tombstone);
}

#[test]
fn what_is_open_or_young_or_active_is_not_compacted() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(config());
    for n in 0..20 {
        put(&mut log, "k", &format!("{n}"));
    }
    let bases = log.segments.iter().map(|segment| segment.base).collect::<Vec<_>>();
    let last = *bases.last().unwrap();
    assert_eq!(state_at(&log, NOW).first_uncleanable, Offset(0), "nothing is durable yet");
    assert!(log.view().unwrap().awaits_flush());
    flush(&mut log);
    assert!(!log.view().unwrap().awaits_flush());
    assert_eq!(state_at(&log, NOW).first_uncleanable, last);
    assert!((state_at(&log, NOW).dirty_ratio() - 1.0).abs() < 1e-9);

    log.set_high_watermark(bases[2] + 1);
    assert_eq!(state_at(&log, NOW).first_uncleanable, bases[2], "down to where a segment starts");
    log.set_high_watermark(log.log_end_offset());

    let with = |change: &dyn Fn(&mut LogConfig)| {
        let mut config = config();
        change(&mut config);
        Arc::new(config)
    };
    log.set_config(with(&|config| config.min_compaction_lag_ms = Duration::from_secs(1)));
    assert_eq!(state_at(&log, NOW).first_uncleanable, Offset(0));
    assert_eq!(state_at(&log, Timestamp(NOW.0 + 1_000)).first_uncleanable, last);
    log.set_config(with(&|config| {
        config.min_compaction_lag_ms = Duration::ZERO;
        config.max_compaction_lag_ms = Some(Duration::from_secs(1));
    }));
    assert!(!state_at(&log, Timestamp(NOW.0 + 1_000)).is_overdue);
    let overdue = state_at(&log, Timestamp(NOW.0 + 1_001));
    assert!(overdue.is_overdue && overdue.is_due(1.0));

    let transaction = RecordBatchBuilder::new().transactional();
    let transaction = transaction.producer(ProducerId(5), ProducerEpoch(0), Some(Sequence(0)));
    let first = append(&mut log, keyed(transaction, &[("t", Some("1"))]));
    for n in 0..20 {
        put(&mut log, "k", &format!("{n}"));
    }
    flush(&mut log);
    let bound = state_at(&log, NOW).first_uncleanable;
    assert!(bound <= first && bound.0 >= last.0, "the last stable offset bounds it");
}

#[test]
fn aborted_records_go_and_producers_keep_their_sequences() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(config());
    let transaction = |id: i64, sequence: i32| {
        let builder = RecordBatchBuilder::new().transactional();
        builder.producer(ProducerId(id), ProducerEpoch(0), Some(Sequence(sequence)))
    };
    let end = |log: &mut PartitionLog, id: i64, committed: bool| {
        let marker = EndTransaction { committed, coordinator_epoch: 0 };
        let batch = marker.batch(ProducerId(id), ProducerEpoch(0), NOW);
        append_as(log, batch, AppendOrigin::Coordinator).unwrap()
    };
    put(&mut log, "a", "before");
    append(&mut log, keyed(transaction(1, 0), &[("a", Some("aborted"))]));
    append(&mut log, keyed(transaction(2, 0), &[("b", Some("committed"))]));
    let abort = end(&mut log, 1, false);
    let commit = end(&mut log, 2, true);
    append(
        &mut log,
        keyed(
            RecordBatchBuilder::new().producer(ProducerId(3), ProducerEpoch(0), Some(Sequence(0))),
            &[("c", Some("1"))],
        ),
    );
    let fill = |log: &mut PartitionLog| {
        for _ in 0..12 {
            put(log, "c", "2");
        }
    };
    fill(&mut log);
    let aborted = |log: &PartitionLog| read(log, 0).aborted_transactions.unwrap().len();
    let markers = |log: &PartitionLog| {
        let bytes = bytes_of(&read(log, 0));
        Batches::new(&bytes)
            .map(Result::unwrap)
            .filter(Batch::is_control)
            .map(|batch| batch.last_offset())
            .collect::<Vec<_>>()
    };
    assert_eq!(aborted(&log), 1);
    let producers = log.producers();
    compact(&mut log, NOW);
    let found = table(&records(&log));
    assert_eq!((found["a"].as_str(), found["b"].as_str()), ("before", "committed"));
    assert!(!records(&log).iter().any(|record| record.2.as_deref() == Some("aborted")));
    assert_eq!(log.producers(), producers);
    assert_eq!(markers(&log), [abort, commit], "the round that removes the records keeps markers");
    assert_eq!(aborted(&log), 1, "an empty batch of it is left");

    // Killed: the state comes from what is left.
    let mut killed = Broker::start(&disk.copy());
    let recovered = killed.open(config());
    assert_eq!(recovered.producers().len(), 3);
    let sequences = |log: &PartitionLog| {
        log.producers().iter().map(|producer| producer.last_sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(&recovered), sequences(&log));

    // Once the producers are gone so is what stood for them, after the markers' horizon.
    log.expire_producers(Timestamp(NOW.0 + (48 << 30)));
    assert_eq!(log.producers().len(), 0);
    for (round, (wanted, index)) in
        [(vec![abort, commit], 1), (vec![abort, commit], 0), (vec![commit], 0)]
            .into_iter()
            .enumerate()
    {
        fill(&mut log);
        compact(&mut log, Timestamp(NOW.0 + 20_000 * i64::try_from(round).unwrap()));
        assert_eq!((markers(&log), aborted(&log)), (wanted, index), "round {round}");
    }
    assert!(records(&log).iter().any(|record| record.1 == "b"));
}

use protocol::records::Batch;

#[test]
fn keys_that_do_not_fit_are_for_the_next_round() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(config());
    for n in 0..40 {
        put(&mut log, &format!("k{}", n % 20), &format!("{n}"));
    }
    flush(&mut log);
    let wanted = table(&records(&log));
    let buffers = CleaningBuffers { dedupe_bytes: 24 * 12, ..BUFFERS };
    let mut rounds = 0;
    while state_at(&log, NOW).is_due(0.0) {
        let before = state_at(&log, NOW).first_dirty;
        try_compact(&mut log, NOW, buffers, &mut Unpaced).unwrap();
        assert!(state_at(&log, NOW).first_dirty > before);
        rounds += 1;
    }
    assert!(rounds > 2, "{rounds}");
    assert_eq!(table(&records(&log)), wanted);
    let active = log.segments.last().unwrap().base.0;
    let below = records(&log).into_iter().filter(|record| record.0 < active);
    assert_eq!(below.count(), 20);

    let mut log = broker.directories.create(
        TopicPartition::new("many", 0),
        None,
        Arc::new(LogConfig { segment_bytes: 400, ..config() }),
        None,
        NOW,
    );
    let log = log.as_mut().unwrap();
    let keys = (0..11).map(|n| format!("k{n}")).collect::<Vec<_>>();
    let batch = keys.iter().map(|key| (key.as_str(), Some("v"))).collect::<Vec<_>>();
    append(log, keyed(RecordBatchBuilder::new(), &batch));
    for _ in 0..4 {
        put(log, "k", "v");
    }
    flush(log);
    // It ends in the middle of the batch, of which all is there for the next round.
    try_compact(log, NOW, buffers, &mut Unpaced).unwrap();
    assert_eq!(state_at(log, NOW).first_dirty, Offset(10));
    let wanted = table(&records(log));
    while state_at(log, NOW).is_due(0.0) {
        try_compact(log, NOW, buffers, &mut Unpaced).unwrap();
    }
    assert_eq!(table(&records(log)), wanted);
    assert_eq!(wanted.len(), 12);

    append(log, keyed(RecordBatchBuilder::new(), &[("k0", Some("w"))]));
    for _ in 0..4 {
        put(log, "k", "v");
    }
    flush(log);
    let none = CleaningBuffers { dedupe_bytes: 24, ..BUFFERS };
    let error = try_compact(log, NOW, none, &mut Unpaced).unwrap_err();
    assert!(matches!(error, CleaningError::NoRoomForKeys));
    assert_eq!(error.consequence(), Consequence::Uncleanable);
}

#[test]
fn offsets_far_apart_stay_in_segments_of_their_own() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig { segment_bytes: 1 << 20, ..config() });
    let replicate = |log: &mut PartitionLog, offset: i64, key: &str| {
        let builder = RecordBatchBuilder::new().base_offset(Offset(offset));
        let records = AppendRecords::Replicate(keyed(builder, &[(key, Some("v"))]));
        let reserved = log.reserve(AppendRequest { records, now: NOW }).unwrap();
        let Reserved::Pending(pending) = reserved else { panic!("{reserved:?}") };
        let outcome = pending.write();
        log.publish(pending, &outcome).unwrap();
        log.set_high_watermark(log.log_end_offset());
    };
    let far = i64::from(i32::MAX);
    for offset in [0, 10, far - 1, far, far + 1, 2 * far, 4 * far, 4 * far + 1, 9 * far] {
        replicate(&mut log, offset, &format!("{}", offset % 10));
        // Each in a segment of its own, as if they were rolled by time.
        let segment_ms = Duration::ZERO;
        log.set_config(Arc::new(LogConfig { segment_ms, segment_bytes: 60, ..config() }));
        log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..config() }));
    }
    let wanted = table(&records(&log));
    compact(&mut log, NOW);
    assert_eq!(table(&records(&log)), wanted);
    for (at, segment) in log.segments.iter().enumerate() {
        let last = Offset(log.segment_end(at).0 - 1);
        let found = segment.find(segment.base, segment.size).unwrap();
        assert!(found.is_some() || segment.size == 0);
        if at + 1 < log.segments.len() {
            assert!(segment.relative(last).is_some() || segment.size < 200, "{segment:?}");
        }
    }
}

#[test]
fn a_damaged_log_is_left_alone() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(config());
    for n in 0..20 {
        put(&mut log, "k", &format!("{n}"));
    }
    flush(&mut log);
    let path = log.segments[1].files.path(crate::files::Kind::Log);
    log.segments[1].files.close();
    let content = disk.files().into_iter().find(|file| file.0 == path).unwrap().1;
    let mut damaged = content.clone();
    *damaged.last_mut().unwrap() ^= 1;
    disk.put(&path, &damaged);
    let before = log.segments.len();
    let error = try_compact(&mut log, NOW, BUFFERS, &mut Unpaced).unwrap_err();
    assert!(matches!(&error, CleaningError::Log(LogError::Damaged { .. })), "{error}");
    assert_eq!(error.consequence(), Consequence::Uncleanable);
    log.cleaning_failed(error);
    assert!(!log.is_offline());
    assert_eq!(log.segments.len(), before);
    assert!(leftovers(&disk).is_empty());
    log.segments[1].files.close();
    disk.put(&path, &content);
    compact(&mut log, NOW);
}

#[test]
fn a_batch_larger_than_the_buffer_is_compacted() {
    let broker = Broker::start(&MemoryDisk::new());
    let mut log = broker.create(LogConfig { segment_bytes: 40_000, ..config() });
    let large = "x".repeat(20_000);
    for _ in 0..4 {
        append(
            &mut log,
            keyed(RecordBatchBuilder::new(), &[("k", Some(&large)), ("l", Some("1"))]),
        );
    }
    compact(&mut log, NOW);
    let active = log.segments.last().unwrap().base.0;
    let below = records(&log).into_iter().filter(|record| record.0 < active);
    assert_eq!(below.count(), 2);
}

#[test]
fn a_full_disk_postpones_compaction() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = broker.create(config());
    for n in 0..40 {
        put(&mut log, &format!("{n}"), "v");
    }
    flush(&mut log);
    log.directory().write_recovery_points().unwrap();
    let before = records(&log);
    disk.set_capacity(Some(disk.used() + 700));
    let error = try_compact(&mut log, NOW, BUFFERS, &mut Unpaced).unwrap_err();
    assert_eq!(error.consequence(), Consequence::Postponed, "{error}");
    log.cleaning_failed(error);
    assert!(leftovers(&disk).is_empty() && !log.is_offline());
    assert_eq!(records(&log), before);
    disk.set_capacity(None);
    compact(&mut log, NOW);
    assert_eq!(records(&log), before);
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = seven_keys(&broker);
    let wanted = table(&records(&log));
    for patience in 0.. {
        match try_compact(&mut log, NOW, BUFFERS, &mut Patience(patience)) {
            Err(CleaningError::Interrupted) => {
                assert!(leftovers(&disk).is_empty(), "{patience}");
                assert_eq!(table(&records(&log)), wanted);
                assert_eq!(cleaner_checkpoint(&disk), "");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => {
                assert!(patience > 20, "{patience}");
                break;
            }
        }
    }
    assert_eq!(table(&records(&log)), wanted);
}

#[test]
fn a_log_that_changes_meanwhile_is_not_swapped() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = seven_keys(&broker);
    let begin = |log: &PartitionLog| {
        let view = log.view().unwrap();
        let state = view.state(NOW).unwrap();
        Cleaning::begin(view, state, BUFFERS, 1, NOW, &mut Unpaced).unwrap()
    };
    let mut cleaning = begin(&log);
    let group = cleaning.clean_next(&mut Unpaced).unwrap().unwrap();
    log.truncate_to(Offset(50), NOW).unwrap();
    put(&mut log, "new", "after the truncation");
    let wanted = records(&log);
    log.begin_swap(group).unwrap_err().discard();
    assert!(!log.end_cleaning(&cleaning));
    assert!(leftovers(&disk).is_empty());
    assert_eq!(records(&log), wanted);

    flush(&mut log);
    let mut cleaning = begin(&log);
    let group = cleaning.clean_next(&mut Unpaced).unwrap().unwrap();
    let second = log.segments[1].base;
    log.delete_records_before(second).unwrap();
    assert_eq!(log.apply_retention(NOW).unwrap(), 1);
    log.begin_swap(group).unwrap_err().discard();

    // What was compacted and is gone has never been compacted.
    compact(&mut log, NOW);
    let clean = log.entry.cleaner_offset().unwrap();
    log.truncate_to(Offset(clean.0 - 3), NOW).unwrap();
    let at = clean.0 - 3;
    assert_eq!(cleaner_checkpoint(&disk), format!("0\n1\nt 0 {at}\n"));
    log.truncate_fully_and_start_at(Offset(5), NOW).unwrap();
    assert_eq!(cleaner_checkpoint(&disk), "0\n1\nt 0 5\n");
    log.truncate_fully_and_start_at(Offset(500), NOW).unwrap();
    let state = state_at(&log, NOW);
    assert!(state.was_reset && state.first_dirty == Offset(500));
    // Nor does a new log of the same name inherit it.
    broker.directories.delete(log, Duration::ZERO, Instant::default()).unwrap();
    assert_eq!(cleaner_checkpoint(&disk), "0\n0\n");
}

/// Reads that were decided before a swap get the old segments, others the new ones, at every moment.
#[test]
fn readers_see_the_old_or_the_new() {
    let disk = MemoryDisk::new();
    let broker = Broker::start(&disk);
    let mut log = seven_keys(&broker);
    log.tail.clear();
    let plan = |log: &PartitionLog, offset: i64| {
        let request = ReadRequest {
            offset: Offset(offset),
            max_bytes: 1 << 20,
            min_one_message: true,
            upper_bound: log.log_end_offset(),
            want_aborted: true,
        };
        log.plan_read(request).unwrap()
    };
    let last = log.segments.last().unwrap().base.0;
    let whole = (0..last).map(|offset| bytes_of(&read(&log, offset))).collect::<Vec<_>>();
    let wanted = table(&records(&log));
    let view = log.view().unwrap();
    let state = view.state(NOW).unwrap();
    let mut cleaning = Cleaning::begin(view, state, BUFFERS, 1, NOW, &mut Unpaced).unwrap();
    while let Some(group) = cleaning.clean_next(&mut Unpaced).unwrap() {
        log.segments.iter().for_each(|segment| segment.files.close());
        let first = usize::try_from(group.old[0].base.0).unwrap();
        let plans = |log: &PartitionLog| {
            let from = i64::try_from(first).unwrap();
            (from..from + 3).map(|offset| plan(log, offset)).collect::<Vec<_>>()
        };
        let check_old = |plans: Vec<ReadPlan>| {
            for (at, plan) in plans.into_iter().enumerate() {
                assert_eq!(bytes_of(&plan.run().unwrap()), whole[first + at]);
            }
        };
        let (early, late, latest) = (plans(&log), plans(&log), plans(&log));
        let mut swap = log.begin_swap(group).unwrap();
        check_old(early);
        swap.announce().unwrap();
        check_old(plans(&log));
        let files = log.swap(&mut swap);
        check_old(late);
        assert_eq!(table(&records(&log)), wanted);
        let new = plans(&log);
        log.end_swap(swap.complete(&files));
        assert_eq!(table(&records(&log)), wanted);
        check_old(latest);
        for plan in new {
            plan.run().unwrap();
        }
    }
}

use crate::read_plan::ReadPlan;

fn prepared(disk: &MemoryDisk) -> (Broker, PartitionLog) {
    let broker = Broker::start(disk);
    let mut log = broker.create(config());
    let producer = |sequence: i32| {
        RecordBatchBuilder::new().producer(
            ProducerId(9),
            ProducerEpoch(0),
            Some(Sequence(sequence)),
        )
    };
    for n in 0..24 {
        let (key, value) = (format!("k{}", n % 7), format!("v{n:50}"));
        append(&mut log, keyed(producer(n), &[(&key, Some(&value))]));
    }
    remove(&mut log, "k3");
    let transaction = RecordBatchBuilder::new().transactional();
    let transaction = transaction.producer(ProducerId(5), ProducerEpoch(0), Some(Sequence(0)));
    append(&mut log, keyed(transaction, &[("k1", Some("aborted"))]));
    let marker = EndTransaction { committed: false, coordinator_epoch: 0 };
    let batch = marker.batch(ProducerId(5), ProducerEpoch(0), NOW);
    append_as(&mut log, batch, AppendOrigin::Coordinator).unwrap();
    for n in 0..12 {
        put(&mut log, &format!("once{n}"), "x");
    }
    flush(&mut log);
    (broker, log)
}

/// The power is cut, or the process killed, after every single change of the disk; and again during
/// recovery.
#[test]
fn a_crash_at_any_step_loses_nothing() {
    let (_broker, log) = prepared(&MemoryDisk::new());
    let committed = |log: &PartitionLog| {
        let mut found = records(log);
        found.retain(|record| record.2.as_deref() != Some("aborted"));
        table(&found)
    };
    let wanted = committed(&log);
    let (end, producers) = (log.log_end_offset(), log.producers());
    let mut finished = None;
    for cut in 0.. {
        let disk = MemoryDisk::new();
        let (_broker, mut log) = prepared(&disk);
        let before = disk.changes();
        disk.cut_power_after(cut);
        let is_done = try_compact(&mut log, NOW, BUFFERS, &mut Unpaced).is_ok();
        let used = disk.changes() - before;
        for seed in 0..3 {
            let crashed = if seed == 0 { disk.copy() } else { disk.crash(seed) };
            // Recovery is cut short as well.
            let again = crashed.copy();
            again.cut_power_after(cut % 11);
            if let Ok(mut broker) = Broker::try_start(&again) {
                drop(broker.closed.remove(0).open(Arc::new(config()), NOW));
            }
            for crashed in [again.copy(), again.crash(seed), crashed] {
                let mut broker = Broker::start(&crashed);
                // Though the topic is not compacted any more: gaps are no losses.
                let policy = CleanupPolicy { delete: true, compact: false };
                let config = LogConfig { cleanup_policy: policy, ..config() };
                let mut log = broker.open(config);
                log.set_high_watermark(log.log_end_offset());
                assert_eq!(log.log_end_offset(), end, "cut {cut}, seed {seed}");
                assert_eq!(committed(&log), wanted, "cut {cut}, seed {seed}");
                assert_eq!(log.producers(), producers, "cut {cut}, seed {seed}");
                assert!(leftovers(&crashed).is_empty());
                flush(&mut log);
                if state_at(&log, NOW).is_due(0.0) {
                    compact(&mut log, NOW);
                }
                let found = records(&log);
                let is_aborted =
                    |record: &(i64, String, Option<String>)| record.2.as_deref() == Some("aborted");
                assert!(!found.iter().any(is_aborted), "cut {cut}, seed {seed}");
                assert_eq!(table(&found), wanted, "cut {cut}, seed {seed}");
                let finished = finished.get_or_insert_with(|| found.clone());
                if is_done {
                    assert_eq!(&found, finished);
                }
            }
        }
        if used < cut {
            assert!(is_done && cut > 40, "{cut}");
            break;
        }
    }
}

/// Though its recovery point was lost and it is not compacted any more: what is missing was compacted.
#[test]
fn holes_of_compaction_are_not_taken_for_losses() {
    let disk = MemoryDisk::new();
    let (broker, mut log) = prepared(&disk);
    for _ in 0..12 {
        put(&mut log, "k1", "later");
    }
    compact(&mut log, NOW);
    let wanted = records(&log);
    broker.directories.write_checkpoints();
    let crashed = disk.copy();
    let path = Path::new("/data/recovery-point-offset-checkpoint");
    platform::Disk::remove_file(&crashed, path).unwrap();
    let policy = CleanupPolicy { delete: true, compact: false };
    let mut broker = Broker::start(&crashed);
    let log = broker.open(LogConfig { cleanup_policy: policy, ..config() });
    assert_eq!(records(&log), wanted);
}

/// A swap that cannot begin is taken back; one that cannot be completed takes the directory offline.
#[test]
fn a_disk_that_fails_in_a_swap_never_shows_half_of_it() {
    let disk = MemoryDisk::new();
    let (_broker, mut log) = prepared(&disk);
    let wanted = table(&records(&log));
    let view = log.view().unwrap();
    let state = view.state(NOW).unwrap();
    let mut cleaning = Cleaning::begin(view, state, BUFFERS, 1, NOW, &mut Unpaced).unwrap();
    let group = cleaning.clean_next(&mut Unpaced).unwrap().unwrap();
    let swap = log.begin_swap(group).unwrap();
    disk.set_failing("/data", true);
    swap.announce().unwrap_err();
    disk.set_failing("/data", false);
    log.end_swap(swap.retreat());
    assert!(!log.is_offline() && leftovers(&disk).is_empty());
    assert_eq!(table(&records(&log)), wanted);

    let group = cleaning.clean_next(&mut Unpaced).unwrap().unwrap();
    let mut swap = log.begin_swap(group).unwrap();
    swap.announce().unwrap();
    let files = log.swap(&mut swap);
    disk.set_failing("/data", true);
    log.end_swap(swap.complete(&files));
    disk.set_failing("/data", false);
    assert!(log.is_offline());
    assert_eq!(table(&records(&log)), wanted);
    let mut broker = Broker::start(&disk.copy());
    assert_eq!(table(&records(&broker.open(config()))), wanted);
}

#[test]
fn tombstones_of_old_formats_stay_while_their_file_is_young() {
    let message = |offset: i64, key: &str, value: Option<&str>| {
        let field = |field: Option<&str>| match field {
            None => (-1i32).to_be_bytes().to_vec(),
            Some(text) => {
                let mut bytes = i32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
                bytes.extend_from_slice(text.as_bytes());
                bytes
            }
        };
        let mut body = vec![1, 0];
        body.extend_from_slice(&NOW.0.to_be_bytes());
        body.extend(field(Some(key)));
        body.extend(field(value));
        let mut bytes = offset.to_be_bytes().to_vec();
        bytes.extend_from_slice(&i32::try_from(4 + body.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(&crc32(&body).to_be_bytes());
        bytes.extend(body);
        bytes
    };
    let put = |disk: &MemoryDisk, base: i64, key: &str, value: Option<&str>| {
        let path = format!("/data/t-0/{base:020}.log");
        disk.put(Path::new(&path), &message(base, key, value));
    };
    for (age, wanted) in [(9_999, vec![0, 1, 2, 3]), (10_000, vec![1, 2, 3])] {
        let disk = MemoryDisk::new();
        put(&disk, 0, "a", None);
        put(&disk, 1, "b", Some("1"));
        put(&disk, 2, "c", Some("1"));
        put(&disk, 3, "d", Some("1"));
        disk.put(Path::new("/data/cleaner-offset-checkpoint"), b"0\n1\nt 0 2\n");
        let mut broker = Broker::start(&disk);
        let mut log = broker.open(config());
        log.set_high_watermark(log.log_end_offset());
        for (at, modified) in [(0, NOW.0), (1, NOW.0 + age)] {
            let file = log.segments[at].files.get(crate::files::Kind::Log).unwrap();
            file.set_modified(Timestamp(modified)).unwrap();
        }
        flush(&mut log);
        compact(&mut log, NOW);
        let offsets = records(&log).iter().map(|record| record.0).collect::<Vec<_>>();
        assert_eq!(offsets, wanted, "the newest compacted segment is {age} ms younger");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes)).unwrap()
}
