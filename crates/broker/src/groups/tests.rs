//! Shards on a runtime, over a log in memory and over logs that Kafka wrote.

#![expect(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test")]
#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "small numbers made here"
)]

use super::*;
use crate::groups::log::Written;
use ::group::WriteError;
use ::group::request::{Answer, Commit, FetchedOffset, OffsetToCommit, Speaker};
use bytes::{Bytes, BytesMut};
use model::{Offset, Timestamp};
use protocol::records::{BatchHeader, HEADER_BYTES, RecordBatchBuilder};
use std::sync::mpsc::{Receiver, channel};

/// Batches one after the other, as on disk.
#[derive(Debug, Default)]
struct MemoryLog(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    bytes: BytesMut,
    end: i64,
    broken: bool,
    unreadable: bool,
    /// Appended, not committed: told by `commit`.
    held: Option<Vec<(Written, (Offset, Offset))>>,
    /// Somebody else may lead.
    unsure: bool,
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl MemoryLog {
    fn push(&self, batch: &Bytes) -> (Offset, Offset) {
        let mut contents = self.0.lock();
        let mut header = BatchHeader::parse(batch).unwrap();
        header.base_offset = contents.end;
        let placed = (header.base_offset(), header.last_offset());
        contents.bytes.extend_from_slice(&header.encode());
        contents.bytes.extend_from_slice(&batch[HEADER_BYTES..]);
        contents.end = placed.1.0 + 1;
        placed
    }

    fn hold(&self) {
        self.0.lock().held = Some(Vec::new());
    }

    fn commit(&self) {
        for (done, placed) in self.0.lock().held.take().unwrap() {
            done(Ok(placed));
        }
    }
}

impl OffsetsLog for Arc<MemoryLog> {
    fn start(&self, _: LeaderEpoch) -> Result<Offset, String> {
        if self.0.lock().unreadable { Err("unreadable".to_owned()) } else { Ok(Offset(0)) }
    }

    fn read(&self, _: LeaderEpoch, offset: Offset, max_bytes: usize) -> Result<Bytes, String> {
        let contents = self.0.lock();
        let batches = protocol::records::Batches::new(&contents.bytes).map(Result::unwrap);
        let from = batches.filter(|b| b.last_offset() < offset).map(|b| b.bytes().len()).sum();
        let rest = &contents.bytes[from..];
        Ok(Bytes::copy_from_slice(&rest[..rest.len().min(max_bytes)]))
    }

    fn is_surely_led(&self) -> bool {
        !self.0.lock().unsure
    }

    fn append(&self, _: LeaderEpoch, batch: &Bytes, done: Written) {
        if self.0.lock().broken {
            return done(Err(WriteError::Storage));
        }
        let placed = self.push(batch);
        match &mut self.0.lock().held {
            Some(held) => held.push((done, placed)),
            None => done(Ok(placed)),
        }
    }
}

/// Work made of two closures.
struct Ask<R, F>(R, F);

impl<R, F> Work for Ask<R, F>
where
    R: FnOnce(&mut Desk<'_>) + Send,
    F: FnOnce(Error) + Send,
{
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        self.0(desk);
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.1(error);
    }
}

struct Coordinator {
    groups: Groups,
    image: ClusterImage,
    runtime: tokio::runtime::Runtime,
}

impl Coordinator {
    fn new() -> Self {
        let overrides = [("offsets.topic.num.partitions".to_owned(), "1".to_owned())];
        let config = BrokerConfig::load(None, &overrides).unwrap().config;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(platform::clock::SystemClock::new());
        let random = Arc::new(platform::random::SystemRandom);
        let groups =
            Groups::new(&config, clock, random, platform::Tasks::Tokio(runtime.handle().clone()));
        Self { groups, image: ClusterImage::new(), runtime }
    }

    fn leading(log: &Arc<MemoryLog>) -> Self {
        let coordinator = Self::new();
        coordinator.lead(1, log);
        coordinator.settle();
        coordinator
    }

    fn lead(&self, epoch: i32, log: &Arc<MemoryLog>) {
        self.groups.elected(0, LeaderEpoch(epoch), Arc::new(Arc::clone(log)));
    }

    /// Lets the tasks run until they have nothing to do.
    fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        });
    }

    fn commit(&self, offset: i64) -> Receiver<Option<Error>> {
        let (sender, receiver) = channel();
        let refused = sender.clone();
        let run = move |desk: &mut Desk<'_>| {
            let ticket = desk.wait(move |answer| match answer {
                Answer::Commit(results) => sender.send(results[0]).unwrap(),
                other => panic!("{other:?}"),
            });
            let offsets = vec![OffsetToCommit {
                topic: "t".into(),
                partition: 0,
                topic_id: None,
                offset,
                leader_epoch: None,
                metadata: "".into(),
                commit_timestamp: None,
            }];
            let speaker = Speaker { generation: -1, ..Speaker::default() };
            let commit = Commit { group: "g", speaker, retention: None, offsets };
            desk.groups.commit(desk.now, ticket, commit, desk.actions);
        };
        let work = Ask(run, move |error| refused.send(Some(error)).unwrap());
        self.groups.submit("g", &self.image, Box::new(work));
        receiver
    }

    fn fetch(&self, topic: &'static str) -> Result<Option<i64>, Error> {
        let (sender, receiver) = channel();
        let refused = sender.clone();
        let run = move |desk: &mut Desk<'_>| {
            let fetched = desk.groups.offsets("g", false).get(topic, 0, None);
            let offset = match fetched {
                FetchedOffset::Committed(value) => Some(value.offset),
                FetchedOffset::None | FetchedOffset::Unstable => None,
            };
            sender.send(Ok(offset)).unwrap();
        };
        let work = Ask(run, move |error| refused.send(Err(error)).unwrap());
        self.groups.submit("g", &self.image, Box::new(work));
        self.settle();
        receiver.try_recv().unwrap()
    }
}

#[test]
fn what_is_committed_is_there_for_the_next_leader() {
    let log = Arc::new(MemoryLog::default());
    let first = Coordinator::leading(&log);
    let committed = (0..10).map(|offset| first.commit(offset)).collect::<Vec<_>>();
    first.settle();
    assert!(committed.iter().all(|c| c.try_recv() == Ok(None)));
    assert_eq!(first.fetch("t"), Ok(Some(9)));
    let batches = protocol::records::Batches::new(&log.0.lock().bytes).count();
    assert!(batches < 10, "what comes together is written together, not in {batches} batches");
    let second = Coordinator::leading(&log);
    assert_eq!(second.fetch("t"), Ok(Some(9)));
}

/// A coordinator that was frozen, or cut off, must not hand out offsets that its successor has passed.
#[test]
fn who_cannot_be_sure_to_lead_coordinates_nothing() {
    let log = Arc::new(MemoryLog::default());
    let coordinator = Coordinator::leading(&log);
    let committed = coordinator.commit(1);
    coordinator.settle();
    assert_eq!(committed.try_recv(), Ok(None));
    log.0.lock().unsure = true;
    assert_eq!(coordinator.fetch("t"), Err(Error::NotCoordinator));
    log.0.lock().unsure = false;
    assert_eq!(coordinator.fetch("t"), Ok(Some(1)), "nobody else came to lead");
}

#[test]
fn an_answer_waits_until_it_is_committed_and_tells_of_failure() {
    let log = Arc::new(MemoryLog::default());
    let coordinator = Coordinator::leading(&log);
    log.hold();
    let waiting = coordinator.commit(1);
    coordinator.settle();
    assert!(waiting.try_recv().is_err());
    assert_eq!(coordinator.fetch("t"), Ok(None));
    log.commit();
    coordinator.settle();
    assert_eq!(waiting.try_recv(), Ok(None));
    log.0.lock().broken = true;
    let failing = coordinator.commit(2);
    coordinator.settle();
    assert_eq!(failing.try_recv(), Ok(Some(Error::NotCoordinator)));
    assert_eq!(coordinator.fetch("t"), Ok(Some(1)));
}

#[test]
fn a_shard_answers_only_while_it_leads_and_has_loaded() {
    let log = Arc::new(MemoryLog::default());
    let coordinator = Coordinator::new();
    assert_eq!(coordinator.fetch("t"), Err(Error::NotCoordinator));
    coordinator.lead(3, &log);
    let early = coordinator.commit(1);
    assert_eq!(
        early.try_recv(),
        Ok(Some(Error::CoordinatorLoadInProgress)),
        "it has not even begun"
    );
    coordinator.settle();
    assert_eq!(coordinator.fetch("t"), Ok(None));

    coordinator.groups.resigned(0, Some(LeaderEpoch(2)));
    coordinator.lead(2, &log);
    assert_eq!(coordinator.fetch("t"), Ok(None), "old news");
    coordinator.lead(4, &log);
    assert_eq!(
        coordinator.fetch("t"),
        Ok(None),
        "a new epoch of the same leader interrupts nothing"
    );
    log.hold();
    let waiting = coordinator.commit(1);
    coordinator.settle();
    let queued = coordinator.commit(2);
    coordinator.groups.resigned(0, Some(LeaderEpoch(5)));
    coordinator.settle();
    assert_eq!(
        waiting.try_recv(),
        Ok(Some(Error::NotCoordinator)),
        "it was appended, not committed"
    );
    assert_eq!(queued.try_recv(), Ok(Some(Error::NotCoordinator)));
    assert_eq!(coordinator.fetch("t"), Err(Error::NotCoordinator));

    coordinator.lead(6, &log);
    coordinator.settle();
    assert_eq!(coordinator.fetch("t"), Ok(Some(1)), "as the log has it");
    coordinator.groups.stop();
    assert_eq!(coordinator.fetch("t"), Err(Error::CoordinatorNotAvailable));
}

#[test]
fn a_log_that_cannot_be_read_now_is_tried_again() {
    let log = Arc::new(MemoryLog::default());
    log.0.lock().unreadable = true;
    let coordinator = Coordinator::leading(&log);
    assert_eq!(coordinator.fetch("t"), Err(Error::CoordinatorLoadInProgress));
    log.0.lock().unreadable = false;
    let loaded = async {
        while !coordinator.groups.shards.load()[&0].is_loaded.load(Ordering::Acquire) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    coordinator.runtime.block_on(loaded);
    assert_eq!(coordinator.fetch("t"), Ok(None));
}

#[test]
fn a_full_mailbox_turns_work_away() {
    let log = Arc::new(MemoryLog::default());
    let coordinator = Coordinator::leading(&log);
    let commits =
        (0..MAILBOX as i64 + 1).map(|offset| coordinator.commit(offset)).collect::<Vec<_>>();
    let last = commits.last().unwrap();
    assert_eq!(last.try_recv(), Ok(Some(Error::CoordinatorLoadInProgress)));
    coordinator.settle();
    assert!(commits[..MAILBOX].iter().all(|c| c.try_recv() == Ok(None)));
}

#[test]
fn offsets_of_a_deleted_topic_go_with_it() {
    let log = Arc::new(MemoryLog::default());
    let coordinator = Coordinator::leading(&log);
    let committed = coordinator.commit(1000);
    coordinator.settle();
    assert_eq!(committed.try_recv(), Ok(None));
    coordinator.groups.topics_deleted(&["t".into()]);
    coordinator.settle();
    assert_eq!(coordinator.fetch("t"), Ok(None));
    assert_eq!(Coordinator::leading(&log).fetch("t"), Ok(None));
}

/// One line per group and per offset.
fn picture(log: &[u8]) -> Vec<String> {
    let mut shard = ::group::GroupShard::new(GroupConfig::default());
    let mut loaded = load::Loaded::default();
    let end = load::load_batches(&mut shard, log, Offset(0), &mut loaded);
    assert!(end.is_some());
    assert_eq!(loaded.skipped, 0);
    shard.loaded(::group::Now { instant: Default::default(), wall: Timestamp(0) }, &mut Vec::new());
    let mut lines = Vec::new();
    for group in shard.list().collect::<Vec<_>>() {
        lines.push(format!("{} {} {}", group.group, group.protocol_type, group.state));
        let offsets = shard.offsets(&group.group, true);
        for (topic, partition) in offsets.all() {
            if let FetchedOffset::Committed(offset) = offsets.get(topic, partition, None) {
                let metadata = offset.metadata.as_deref().unwrap_or_default();
                lines.push(format!("  {topic}-{partition} {} {metadata}", offset.offset));
            }
        }
    }
    lines
}

#[test]
fn groups_that_kafka_3_9_wrote_are_found_again() {
    let expected = "\
classic-a consumer Empty
  gdata-0 3 meta-héllo
  gdata-1 5 
  gdata-2 5 
classic-static consumer Empty
  gdata-0 5 
  gdata-1 5 
  gdata-2 5 
grp-txn  Empty
  codecs-0 7 meta-c
simple-g  Empty
  gdata-1 4 simple-meta";
    assert_eq!(picture(include_bytes!("golden/kafka-3.9.2.log")).join("\n"), expected);
}

/// Groups of the newer kinds show as simple ones, as they do on 3.9.
#[test]
fn groups_that_kafka_4_3_wrote_are_found_again() {
    let expected = "\
classic-a consumer Empty
  gdata-0 3 meta-héllo
  gdata-1 5 
  gdata-2 5 
classic-static consumer Empty
  gdata-0 5 
  gdata-1 5 
  gdata-2 5 
grp-tv2  Empty
  gdata-0 2 m2
grp-txn  Empty
  codecs-0 7 meta-c
mixed consumer Stable
  gdata-0 5 
  gdata-1 5 
  gdata-2 5 
new-a  Empty
  gdata-0 4 from848
  gdata-1 5 
  gdata-2 5 
new-static  Empty
  gdata-0 5 
  gdata-1 5 
  gdata-2 5 
simple-g  Empty
  gdata-1 4 simple-meta";
    assert_eq!(picture(include_bytes!("golden/kafka-4.3.1.log")).join("\n"), expected);
}

/// Run by hand, in release: `cargo test --release -p broker loading_speed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn loading_speed() {
    let (commits, mut log) = (1_000_000, Vec::new());
    for first in (0..commits).step_by(50) {
        let mut builder = RecordBatchBuilder::new().base_offset(Offset(first));
        for i in first..first + 50 {
            let record = ::group::record::Record::Offset {
                group: format!("consumer-group-{}", i % 200).into(),
                topic: format!("some-topic-{}", i / 200 % 20).into(),
                partition: i32::try_from(i / 4000 % 50).unwrap(),
                value: Some(::group::CommittedOffset {
                    offset: i,
                    leader_epoch: Some(0),
                    metadata: None,
                    commit_timestamp: Timestamp(i),
                    expire_timestamp: None,
                    topic_id: None,
                    appended_at: Offset(0),
                }),
            };
            let (key, value) = (record.encode_key(), record.encode_value());
            builder.append(Some(Timestamp(1)), Some(&key), value.as_deref()).unwrap();
        }
        log.extend_from_slice(&builder.build().unwrap());
    }
    let clock = platform::clock::SystemClock::new();
    let mut shard = ::group::GroupShard::new(GroupConfig::default());
    let begin = clock.now();
    let mut loaded = load::Loaded::default();
    load::load_batches(&mut shard, &log, Offset(0), &mut loaded);
    let elapsed = clock.now().since(begin);
    println!(
        "{} records in {elapsed:?}: {:.0}/s",
        loaded.records,
        loaded.records as f64 / elapsed.as_secs_f64()
    );
}
