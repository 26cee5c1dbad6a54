//! The same random logs, compacted pass by pass by the cleaners of Kafka 3.9.2 and 4.3.1 and by ours, keep the same
//! batches, records, tombstones, markers and aborted transactions, in the same segments with the same indexes.
//!
//! Two things are left out. Compressed batches are as large as each library makes them, so that small
//! segments of those may be joined differently. And where memory ends a pass in the middle of a segment,
//! the next of Kafka's takes an aborted transaction of that segment for one that is still open, and passes
//! over the keys of the next transaction of the same producer: duplicates stay there for good, with ours
//! they do not.
//!
//! Needs Java and fetches Kafka's jars, so it only runs when asked to:
//! `cargo test -p oracle --test compaction -- --ignored`; the seeds are those from `BARNABAS_SEED` (1) on,
//! `BARNABAS_SEEDS` (60) of them.

#![expect(clippy::unwrap_used, reason = "a test says so by panicking")]

mod kafka;

use bytes::Bytes;
use kafka::hex;
use model::TopicPartition;
use model::{BrokerId, Instant, ProducerEpoch, ProducerId, Sequence, Timestamp};
use platform::random::SeededRandom;
use platform::{MemoryDisk, Random};
use protocol::records::{Batches, Compression, EndTransaction, RecordBatchBuilder};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::Reserved;
use storage::{
    AppendRecords, AppendRequest, Cleaning, CleaningBuffers, CleanupPolicy, Interrupted,
};
use storage::{LogConfig, LogDirectories, LogDirectoriesConfig, Pace, PartitionLog, PendingAppend};

const START: i64 = 1_800_000_000_000;
const INFLATE_LIMIT: usize = 1 << 20;
const PASSES: usize = 4;

/// A log and its settings.
struct Case {
    seed: u64,
    segment_bytes: u64,
    index_interval_bytes: u64,
    delete_retention_ms: u64,
    dedupe_bytes: u64,
    io_bytes: usize,
    has_compressed: bool,
    /// What is appended before each pass, and when the pass is.
    passes: Vec<(Vec<Bytes>, i64)>,
}

/// A producer with a transaction or without.
#[derive(Clone, Copy, Default)]
struct Producer {
    epoch: i16,
    next_sequence: i32,
    is_open: bool,
}

struct Dice(SeededRandom);

impl Dice {
    fn between(&self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    fn one_in(&self, n: u64) -> bool {
        self.0.below(n) == 0
    }
}

struct Writer {
    dice: Dice,
    has_compressed: bool,
    /// Transactions are aborted, too.
    aborts: bool,
    offset: i64,
    leader_epoch: i32,
    time: i64,
    keys: u64,
    producers: BTreeMap<i64, Producer>,
}

impl Writer {
    /// A batch where the log ends; offset and leader epoch are not covered by the checksum.
    fn place(&mut self, bytes: &[u8]) -> Bytes {
        let mut bytes = bytes.to_vec();
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.leader_epoch.to_be_bytes());
        self.offset = Batches::new(&bytes).next().unwrap().unwrap().last_offset().0 + 1;
        bytes.into()
    }

    fn key(&self) -> Option<String> {
        // The cleaner drops records without a key.
        (!self.dice.one_in(40)).then(|| format!("key-{}", self.dice.between(1, self.keys)))
    }

    fn data(&mut self) -> Bytes {
        const CODECS: [Compression; 6] = [
            Compression::None,
            Compression::None,
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ];
        let last = if self.has_compressed { 5 } else { 0 };
        let codec = CODECS[usize::try_from(self.dice.between(0, last)).unwrap()];
        let mut builder = RecordBatchBuilder::new().compression(codec);
        let records = self.dice.between(1, 6);
        if self.dice.one_in(2) {
            let id = i64::try_from(self.dice.between(1, 5)).unwrap();
            let producer = self.producers.entry(id).or_default();
            let sequence = Sequence(producer.next_sequence);
            builder =
                builder.producer(ProducerId(id), ProducerEpoch(producer.epoch), Some(sequence));
            producer.next_sequence += i32::try_from(records).unwrap();
            // The last three work in transactions only.
            if id > 2 {
                builder = builder.transactional();
                producer.is_open = true;
            }
        }
        for _ in 0..records {
            self.time += i64::try_from(self.dice.between(0, 3)).unwrap();
            let (key, size) = (self.key(), usize::try_from(self.dice.between(0, 60)).unwrap());
            let value = (!self.dice.one_in(6)).then(|| vec![b'v'; size]);
            let key = key.as_deref().map(str::as_bytes);
            builder.append(Some(Timestamp(self.time)), key, value.as_deref()).unwrap();
        }
        self.place(&builder.build().unwrap())
    }

    /// Ends some producer's transaction, or none, as coordinators do where they are not sure.
    fn marker(&mut self) -> Bytes {
        let id = i64::try_from(self.dice.between(3, 5)).unwrap();
        let committed = self.dice.one_in(2) || !self.aborts;
        let producer = self.producers.entry(id).or_default();
        producer.is_open = false;
        if self.dice.one_in(8) {
            *producer = Producer { epoch: producer.epoch + 1, ..Producer::default() };
        }
        let marker = EndTransaction { committed, coordinator_epoch: 0 };
        let (id, epoch) = (ProducerId(id), ProducerEpoch(producer.epoch));
        let bytes = marker.batch(id, epoch, Timestamp(self.time));
        self.place(&bytes)
    }

    fn next(&mut self) -> Bytes {
        if self.dice.one_in(25) {
            self.leader_epoch += 1;
        }
        // What is open holds compaction up.
        let open = self.producers.values().filter(|producer| producer.is_open).count();
        if self.dice.one_in(if open > 0 { 4 } else { 30 }) { self.marker() } else { self.data() }
    }
}

impl Case {
    fn new(seed: u64) -> Self {
        let dice = Dice(SeededRandom::new(seed));
        let keys = dice.between(3, 60);
        let fits = !dice.one_in(3);
        let has_compressed = dice.one_in(2);
        let case = Self {
            seed,
            segment_bytes: dice.between(600, 2500),
            index_interval_bytes: dice.between(1, 600),
            delete_retention_ms: dice.between(0, 3) * 1000,
            // 24 bytes a key, of which a tenth stays free.
            dedupe_bytes: if fits { 1 << 20 } else { 24 * dice.between(2, 30) },
            io_bytes: usize::try_from(dice.between(200, 3000)).unwrap(),
            has_compressed,
            passes: Vec::new(),
        };
        let mut writer = Writer {
            dice,
            has_compressed,
            aborts: fits,
            offset: 0,
            leader_epoch: 0,
            time: START,
            keys,
            producers: BTreeMap::new(),
        };
        let passes = (0..PASSES).map(|_| {
            let count = writer.dice.between(5, 60);
            let batches = (0..count).map(|_| writer.next()).collect();
            writer.time += i64::try_from(writer.dice.between(0, 2500)).unwrap();
            (batches, writer.time)
        });
        Self { passes: passes.collect(), ..case }
    }

    /// What to ask Kafka's program.
    fn script(&self, folder: &Path) -> String {
        let Self { segment_bytes, index_interval_bytes, delete_retention_ms, .. } = self;
        let folder = folder.join(self.seed.to_string());
        let mut script = format!(
            "log {} {segment_bytes} {index_interval_bytes} {delete_retention_ms} {} {} {START}\n",
            folder.display(),
            self.dedupe_bytes,
            self.io_bytes
        );
        for (batches, now) in &self.passes {
            batches.iter().for_each(|batch| script += &format!("append {}\n", hex(batch)));
            script += &format!("clean {now}\n");
        }
        script
    }
}

struct Unpaced;

impl Pace for Unpaced {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

fn append(log: &mut PartitionLog, bytes: &Bytes, now: i64) {
    let records = AppendRecords::Replicate(bytes.clone());
    let reserved = log.reserve(AppendRequest { records, now: Timestamp(now) }).unwrap();
    let Reserved::Pending(pending) = reserved else { panic!("nothing is appended") };
    let outcome = PendingAppend::write_all(std::slice::from_ref(&pending));
    log.publish(pending, &outcome).unwrap();
    log.set_high_watermark(log.log_end_offset());
}

/// Compacts it if there is something to, and says so.
fn clean(log: &mut PartitionLog, case: &Case, now: Timestamp) -> bool {
    if let Some(work) = log.begin_flush() {
        let outcome = work.run();
        log.finish_flush(work, outcome).unwrap();
    }
    let view = log.view().unwrap();
    let state = view.state(now).unwrap();
    if state.first_uncleanable <= state.first_dirty || state.cleanable_bytes == 0 {
        return false;
    }
    let buffers = CleaningBuffers {
        dedupe_bytes: case.dedupe_bytes,
        dedupe_load_factor: 0.9,
        io_bytes: case.io_bytes,
    };
    let mut cleaning = Cleaning::begin(view, state, buffers, 1, now, &mut Unpaced).unwrap();
    while let Some(group) = cleaning.clean_next(&mut Unpaced).unwrap() {
        let mut swap = log.begin_swap(group).unwrap();
        swap.announce().unwrap();
        let files = log.swap(&mut swap);
        let outcome = swap.complete(&files);
        assert!(outcome.is_ok());
        log.end_swap(outcome);
    }
    assert!(log.end_cleaning(&cleaning));
    true
}

/// The files of a segment.
#[derive(Default)]
struct Files {
    log: Vec<u8>,
    aborted: Vec<u8>,
    /// Offset index and time index.
    indexes: [Vec<u8>; 2],
}

/// Files by base offset.
type Segments = BTreeMap<i64, Files>;

/// Our answers to the script.
fn ours(case: &Case) -> Vec<(String, Segments)> {
    let disk = MemoryDisk::new();
    let config = LogDirectoriesConfig {
        paths: vec!["/data".into()],
        broker_id: BrokerId(1),
        max_open_files: 100,
        tail_cache_bytes: 0,
        disk_reserve_bytes: Some(0),
    };
    let random = Arc::new(SeededRandom::new(1));
    let (directories, _) =
        LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default()).unwrap();
    let config = LogConfig {
        segment_bytes: case.segment_bytes,
        index_interval_bytes: case.index_interval_bytes,
        segment_ms: Duration::MAX,
        cleanup_policy: CleanupPolicy { delete: false, compact: true },
        delete_retention_ms: Duration::from_millis(case.delete_retention_ms),
        producer_id_expiration_ms: Duration::MAX,
        ..LogConfig::default()
    };
    let name = TopicPartition::new("t", 0);
    let mut log = directories.create(name, None, Arc::new(config), None, Timestamp(START)).unwrap();
    let mut answers = Vec::new();
    let mut now = START;
    for (batches, next) in &case.passes {
        batches.iter().for_each(|batch| append(&mut log, batch, now));
        now = *next;
        let something = clean(&mut log, case, Timestamp(now));
        let mut segments = Segments::new();
        for (path, content) in disk.files() {
            let Some(name) = path.strip_prefix("/data/t-0").ok().and_then(Path::to_str) else {
                continue;
            };
            let Some((base, kind)) = name.split_once('.') else { continue };
            let Ok(base) = base.parse::<i64>() else { continue };
            match kind {
                "log" => segments.entry(base).or_default().log = content,
                "txnindex" => segments.entry(base).or_default().aborted = content,
                "index" => segments.entry(base).or_default().indexes[0] = content,
                "timeindex" => segments.entry(base).or_default().indexes[1] = content,
                _ => {}
            }
        }
        let dirty = log.view().unwrap().state(Timestamp(now)).unwrap().first_dirty;
        let word = if something { "cleaned" } else { "nothing" };
        answers.push((format!("{word} {dirty}"), segments));
    }
    answers
}

/// Kafka's answers, of one case after the other.
fn theirs(lines: Vec<String>) -> Vec<(String, Segments)> {
    let unhex = |text: &str| -> Vec<u8> {
        let digits = text.strip_suffix('.').unwrap();
        let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let (mut answers, mut segments) = (Vec::new(), Segments::new());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["segment", base, log, aborted, offsets, times] => {
                let indexes = [unhex(offsets), unhex(times)];
                let files = Files { log: unhex(log), aborted: unhex(aborted), indexes };
                segments.insert(base.parse().unwrap(), files);
            }
            ["cleaned" | "nothing", _] => answers.push((line, std::mem::take(&mut segments))),
            _ => panic!("{line}"),
        }
    }
    answers
}

/// Every batch and record of a segment, for people. Compressed bytes are each library's own.
fn shown(log: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in Batches::new(log) {
        let batch = batch.unwrap();
        assert!(batch.verify());
        let mut header = batch.header().unwrap().clone();
        if batch.compression().unwrap() != Compression::None {
            (header.crc, header.batch_length) = (0, 0);
        }
        lines.push(format!("{header:?}"));
        for record in &batch.records(INFLATE_LIMIT).unwrap() {
            lines.push(format!("  {:?}", record.unwrap()));
        }
    }
    lines
}

/// All segments as one.
fn joined(segments: &Segments) -> Segments {
    let log = segments.values().flat_map(|segment| &segment.log).copied().collect();
    let aborted = segments.values().flat_map(|segment| &segment.aborted).copied().collect();
    Segments::from([(0, Files { log, aborted, ..Files::default() })])
}

/// The first thing in which two answers differ.
fn difference(
    (word, ours): &(String, Segments),
    (their_word, theirs): &(String, Segments),
) -> Option<String> {
    let bases = |segments: &Segments| segments.keys().copied().collect::<Vec<_>>();
    let (mine, other) = (bases(ours), bases(theirs));
    if word != their_word || mine != other {
        return Some(format!("ours   {word}, {mine:?}\n  theirs {their_word}, {other:?}"));
    }
    for ((base, mine), their) in ours.iter().zip(theirs.values()) {
        let (my_lines, their_lines) = (shown(&mine.log), shown(&their.log));
        if my_lines != their_lines {
            let both = my_lines.iter().zip(&their_lines);
            let at = both.take_while(|(mine, other)| mine == other).count();
            let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let (mine, other) = (line(&my_lines), line(&their_lines));
            return Some(format!("segment {base}\n  ours   {mine}\n  theirs {other}"));
        }
        let mut pairs = vec![("aborted", &mine.aborted, &their.aborted)];
        // Those of the last segment are not complete before it is rolled.
        if ours.keys().next_back() != Some(base) {
            pairs.push(("offset index", &mine.indexes[0], &their.indexes[0]));
            pairs.push(("time index", &mine.indexes[1], &their.indexes[1]));
        }
        if let Some((what, mine, other)) = pairs.into_iter().find(|pair| pair.1 != pair.2) {
            let (mine, other) = (hex(mine), hex(other));
            return Some(format!("{what} of {base}\n  ours   {mine}\n  theirs {other}"));
        }
    }
    None
}

#[test]
#[ignore = "needs Java and Kafka's jars"]
fn the_cleaner_of_kafka_3_9_and_ours_keep_the_same() {
    compare("3.9.2", "CompactedLog-3.9.java");
}

#[test]
#[ignore = "needs Java and Kafka's jars"]
fn the_cleaner_of_kafka_4_3_and_ours_keep_the_same() {
    compare("4.3.1", "CompactedLog-4.3.java");
}

fn compare(release: &str, their_log: &str) {
    let number =
        |name, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let first = number("BARNABAS_SEED", 1);
    let cases: Vec<_> = (first..first + number("BARNABAS_SEEDS", 60)).map(Case::new).collect();
    let folder = tempfile::tempdir().unwrap();
    let script = cases.iter().map(|case| case.script(folder.path())).collect();
    let theirs = theirs(kafka::answers(release, &["Compaction.java", their_log], script));
    assert_eq!(theirs.len(), cases.len() * PASSES);
    let (mut wrong, mut cleaned, mut dropped) = (Vec::new(), 0, 0);
    for (case, theirs) in cases.iter().zip(theirs.chunks(PASSES)) {
        let ours = ours(case);
        for (pass, (ours, theirs)) in (1..).zip(ours.iter().zip(theirs)) {
            cleaned += usize::from(theirs.0.starts_with("cleaned"));
            let found = if case.has_compressed {
                let joined =
                    |(word, segments): &(String, Segments)| (word.clone(), joined(segments));
                difference(&joined(ours), &joined(theirs))
            } else {
                difference(ours, theirs)
            };
            if let Some(difference) = found {
                wrong.push(format!("seed {}, pass {pass}: {difference}", case.seed));
                break;
            }
        }
        let sent: usize = case.passes.iter().flat_map(|pass| &pass.0).map(Bytes::len).sum();
        let left: usize = ours[PASSES - 1].1.values().map(|segment| segment.log.len()).sum();
        dropped += sent.saturating_sub(left);
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} of {}:\n{}", cases.len(), wrong[..count.min(5)].join("\n"));
    println!("{} logs, {cleaned} passes cleaned something, {dropped} bytes gone", cases.len());
    assert!(cleaned > cases.len() && dropped > cases.len() * 1000, "too little happens here");
}
