//! Partitions on a disk in memory that fails when it is told to.

mod cleaning;
mod following;
mod moves;

use super::watch::{Interest, Watcher};
use super::*;
use crate::config::BrokerConfig;
use crate::lease::LeaderLease;
use crate::partitions::Partitions;
use crate::replica_fetcher::FetcherSettings;
use bytes::Bytes;
use controller::RegistrationListener;
use model::{BrokerEpoch, Offset, ProducerEpoch, ProducerId, Sequence};
use platform::Disk;
use platform::clock::ManualClock;
use platform::disk::{MemoryDisk, WriteFault};
use platform::random::SeededRandom;
use protocol::records::validate::{self, Origin};
use protocol::records::{Batches, RecordBatchBuilder};
use replication::IsrRefusal;
use std::collections::BTreeMap;
use storage::{AppendOrigin, LogDirectoriesConfig};

#[derive(Debug, Default)]
struct Proposals(Arc<Mutex<Vec<IsrProposal>>>);

impl IsrProposals for Proposals {
    fn propose(&self, proposal: IsrProposal) {
        self.0.lock().push(proposal);
    }
}

/// Broker 0 with its partitions.
struct World {
    disk: MemoryDisk,
    clock: Arc<ManualClock>,
    partitions: Partitions,
    proposals: Arc<Mutex<Vec<IsrProposal>>>,
    topic_id: Option<TopicId>,
}

impl World {
    fn new() -> Self {
        Self::on(MemoryDisk::new())
    }

    fn on(disk: MemoryDisk) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let config = LogDirectoriesConfig {
            paths: vec!["/data".into(), "/other".into()],
            broker_id: BrokerId(0),
            max_open_files: 100,
            tail_cache_bytes: 1 << 20,
            disk_reserve_bytes: Some(0),
        };
        let random = Arc::new(SeededRandom::new(1));
        let (logs, found) = LogDirectories::open(shared, random, config, clock.now()).unwrap();
        let proposals = Arc::default();
        let follower_throttle = Arc::new(ReplicationThrottle::new(11, Duration::from_secs(1)));
        let image = Arc::new(ArcSwap::from_pointee(ClusterImage::new()));
        let environment = Environment {
            broker_id: BrokerId(0),
            lag_max: Duration::from_secs(30),
            unknown_producer_wait: Duration::from_secs(60),
            logs: Arc::new(logs),
            clock: Arc::clone(&clock) as _,
            committer: Committer::default(),
            troubles: crate::log_troubles::LogTroubles::default(),
            lost_offsets: std::sync::atomic::AtomicU64::new(0),
            mover: Mover::default(),
            recovery: Recovery::default(),
            proposals: Box::new(Proposals(Arc::clone(&proposals))),
            fetchers: ReplicaFetchers::new(FetcherSettings {
                broker_id: BrokerId(0),
                broker_epoch: Arc::default(),
                image: Arc::clone(&image),
                listener: "PLAINTEXT".into(),
                replication: BrokerConfig::load(None, &[]).unwrap().config.replication,
                throttle: Arc::clone(&follower_throttle),
                clock: Arc::clone(&clock) as _,
                network: platform::Network::System,
            }),
            lease: LeaderLease::new(true, Arc::clone(&clock) as _),
            leader_throttle: ReplicationThrottle::new(11, Duration::from_secs(1)),
            follower_throttle,
            image,
        };
        // These tests fetch by hand.
        environment.fetchers.stop();
        let partitions = Partitions::new(Arc::new(environment), found);
        Self { disk, clock, partitions, proposals, topic_id: None }
    }

    /// The same disk after `kill -9`.
    fn restarted(&self) -> Self {
        Self::on(self.disk.copy())
    }

    fn lead(&self, replicas: &[i32], isr: &[i32], epoch: i32, settings: &[(&str, &str)]) {
        self.lead_named(1, replicas, isr, epoch, settings);
    }

    /// As [`Self::lead`], by a request that names the partition so often.
    fn lead_named(
        &self,
        times: usize,
        replicas: &[i32],
        isr: &[i32],
        epoch: i32,
        settings: &[(&str, &str)],
    ) {
        let overrides: BTreeMap<_, _> =
            settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let config = BrokerConfig::load(None, &[]).unwrap().config;
        let settings =
            PartitionSettings::new(&config.topic_config(&overrides), config.log.record_validation);
        let ids = |raw: &[i32]| raw.iter().copied().map(BrokerId).collect();
        let assignment = Assignment {
            index: 0,
            leader: Some(BrokerId(0)),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
            replicas: ids(replicas),
            isr: ids(isr),
            is_new: epoch == 0,
            is_lost: false,
            is_recovering: false,
            registration: BrokerEpoch(0),
        };
        let assignments = vec![assignment; times];
        let results = self.partitions.host(&"t".into(), self.topic_id, &settings, assignments);
        assert_eq!(results.len(), times);
        results.into_iter().for_each(|result| result.unwrap());
    }

    fn partition(&self) -> Arc<Partition> {
        self.partitions.find("t", 0).unwrap()
    }

    fn append(&self, batch: &Bytes, acks_all: bool) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder::default());
        let now = self.clock.timestamp();
        let partition = self.partition();
        let rules = partition.topic.settings.load().checks.rules(Origin::Client, now);
        let append = Append {
            validated: validate::validate(batch, &rules).unwrap(),
            origin: AppendOrigin::Client,
            acks_all,
            leader_epoch: None,
            now,
        };
        let waiter = AppendWaiter { listener: Arc::clone(&recorder) as _, slot: 0 };
        if let Err(failure) = partition.enqueue(append, waiter) {
            *recorder.result.lock() = Some(Err(failure));
        }
        recorder
    }

    fn read(&self, offset: i64, isolation: Isolation, replica: Option<i32>) -> PartitionRead {
        self.try_read(offset, isolation, replica).unwrap()
    }

    fn try_read(
        &self,
        offset: i64,
        isolation: Isolation,
        replica: Option<i32>,
    ) -> Result<PartitionRead, ReadFailure> {
        let read = Read {
            offset: Offset(offset),
            max_bytes: 1 << 20,
            min_one_message: true,
            isolation,
            leader_epoch: None,
            last_fetched_epoch: None,
            replica: replica.map(|id| Replica {
                id: BrokerId(id),
                broker_epoch: None,
                log_start_offset: Offset(0),
            }),
            at_follower: false,
            may_defer: false,
        };
        let mut effects = Effects::default();
        let (now, wall) = (self.clock.now(), self.clock.timestamp());
        let answer = self.partition().read(now, wall, &read, None, &mut effects);
        effects.fire();
        answer
    }

    /// Producer and sequence of every batch in the log, in order; the offsets have no gaps.
    fn contents(&self) -> Vec<(i64, i32)> {
        let mut all = Vec::new();
        let mut next = 0;
        loop {
            let bytes = self.read(next, Isolation::LogEnd, None).records.to_bytes().unwrap();
            if bytes.is_empty() {
                return all;
            }
            for batch in Batches::new(&bytes) {
                let batch = batch.unwrap();
                assert!(batch.verify(), "checksums are right");
                let header = batch.header().unwrap();
                assert_eq!(header.base_offset().0, next, "no gaps");
                next = header.next_offset().0;
                all.push((header.producer_id, header.base_sequence));
            }
        }
    }
}

/// What became of one append.
#[derive(Debug, Default)]
struct Recorder {
    result: Mutex<Option<AppendResult>>,
    awaits: Mutex<bool>,
}

impl Recorder {
    fn offset(&self) -> Option<i64> {
        match &*self.result.lock() {
            Some(Ok(appended)) => Some(appended.first_offset.0),
            Some(Err(_)) | None => None,
        }
    }

    fn is_pending(&self) -> bool {
        self.result.lock().is_none()
    }

    fn failure(&self) -> Option<String> {
        match &*self.result.lock() {
            Some(Err(failure)) => Some(format!("{failure:?}")),
            Some(Ok(_)) | None => None,
        }
    }
}

impl AppendListener for Recorder {
    fn appended(self: Arc<Self>, _slot: u32, result: AppendResult) {
        assert!(self.result.lock().replace(result).is_none(), "told once");
    }

    fn awaits_replicas(self: Arc<Self>, _slot: u32, _appended: Appended) {
        *self.awaits.lock() = true;
    }
}

fn batch() -> Bytes {
    idempotent(-1, -1)
}

/// A third of what recovery leaves to threads, and some more.
fn large(producer: i64, sequence: i32) -> Bytes {
    with_value(producer, sequence, &vec![b'v'; 400_000])
}

fn idempotent(producer: i64, sequence: i32) -> Bytes {
    with_value(producer, sequence, &[b'v'; 200])
}

fn with_value(producer: i64, sequence: i32, value: &[u8]) -> Bytes {
    let mut builder = RecordBatchBuilder::new();
    if producer >= 0 {
        builder =
            builder.producer(ProducerId(producer), ProducerEpoch(0), Some(Sequence(sequence)));
    }
    builder.append(Some(Timestamp(1_000_000)), Some(b"k"), Some(value)).unwrap();
    builder.build().unwrap()
}

#[test]
fn a_partition_that_a_request_names_twice_is_created_once() {
    let world = World::new();
    world.lead_named(2, &[0], &[0], 0, &[]);
    assert_eq!(world.append(&batch(), false).offset(), Some(0));
    // A second log, in the other directory, would keep the broker from starting again.
    let files = world.disk.files();
    let logs = files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "log"));
    assert_eq!(logs.count(), 1);
}

/// librdkafka was told that its second batch is stored, by a leader that had never seen the first, and took the first for
/// stored too: it was under way to the leader before, which was frozen.
#[test]
fn after_an_election_a_producer_that_is_not_known_begins_at_the_beginning() {
    let refused = |recorder: &Recorder| {
        matches!(*recorder.result.lock(), Some(Err(AppendFailure::BeginningMissing(1))))
    };
    let world = World::new();
    world.lead(&[0, 1], &[0], 1, &[]);
    assert!(refused(&world.append(&idempotent(7, 1), false)));
    assert_eq!(world.append(&idempotent(7, 0), false).offset(), Some(0));
    assert_eq!(world.append(&idempotent(7, 1), false).offset(), Some(1));
    assert!(refused(&world.append(&idempotent(8, 1), false)));
    // Word of the same leadership again: nothing begins anew, and its time passes.
    world.lead(&[0, 1], &[0], 1, &[]);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.append(&idempotent(8, 1), false).offset(), Some(2));
}

#[test]
fn where_nobody_led_before_an_unknown_producer_may_begin_anywhere() {
    for (replicas, epoch) in [(&[0, 1][..], 0), (&[0], 1)] {
        let world = World::new();
        world.lead(replicas, &[0], epoch, &[]);
        assert_eq!(world.append(&idempotent(7, 1), false).offset(), Some(0));
    }
}

/// The retry of a batch that never reached the disk is no duplicate; that of one that did is.
#[test]
fn each_record_is_there_once_whichever_write_fails() {
    const BATCHES: i32 = 52;
    const WRITES: u64 = 200;
    // Small segments, so that rolls fail too.
    let settings = [("segment.bytes", "1000"), ("index.interval.bytes", "300")];
    let undisturbed = World::new();
    undisturbed.lead(&[0], &[0], 0, &settings);
    let before = undisturbed.disk.writes();
    for sequence in 0..BATCHES {
        for producer in [1, 2] {
            undisturbed.append(&idempotent(producer, sequence), true).offset().unwrap();
        }
    }
    let writes = undisturbed.disk.writes() - before;
    assert!(writes >= WRITES, "only {writes} writes: the last would not go wrong");
    for kth in 0..WRITES {
        for fault in [WriteFault::Fails, WriteFault::Short] {
            let mut world = World::new();
            world.lead(&[0], &[0], 0, &settings);
            world.disk.fail_write(kth, fault);
            let mut epoch = 0;
            for sequence in 0..BATCHES {
                for producer in [1, 2] {
                    let mut attempts = 0;
                    while world.append(&idempotent(producer, sequence), true).offset().is_none() {
                        attempts += 1;
                        assert!(attempts < 20, "write {kth} {fault:?}: it never heals");
                        world.clock.advance(Duration::from_secs(6));
                        if attempts % 5 == 0 {
                            world = world.restarted();
                            epoch += 1;
                            world.lead(&[0], &[0], epoch, &settings);
                        }
                    }
                }
            }
            let expected: Vec<_> =
                (0..BATCHES).flat_map(|sequence| [(1, sequence), (2, sequence)]).collect();
            assert_eq!(world.contents(), expected, "write {kth} {fault:?}");
            let restarted = world.restarted();
            restarted.lead(&[0], &[0], epoch + 1, &settings);
            assert_eq!(restarted.contents(), expected, "write {kth} {fault:?}, restarted");
            let again = restarted.append(&idempotent(1, BATCHES - 1), true);
            assert_eq!(again.offset(), Some(i64::from(BATCHES) * 2 - 2), "known after a restart");
        }
    }
}

/// B33.
#[test]
fn a_full_disk_loses_nothing_and_what_is_there_can_be_read() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    let mut acknowledged = 0;
    world.disk.set_capacity(Some(world.disk.used() + 2000));
    let mut failures = 0;
    for _ in 0..20 {
        match world.append(&batch(), true).offset() {
            Some(_) => acknowledged += 1,
            None => failures += 1,
        }
    }
    assert!(acknowledged > 3 && failures > 3);
    assert_eq!(world.contents().len(), acknowledged, "reads go on");
    let restarted = world.restarted();
    restarted.disk.set_capacity(Some(restarted.disk.used()));
    restarted.lead(&[0], &[0], 1, &[]);
    assert_eq!(restarted.contents().len(), acknowledged, "it starts though the disk is full");
    world.disk.set_capacity(None);
    world.clock.advance(Duration::from_secs(6));
    assert_eq!(world.append(&batch(), true).offset(), i64::try_from(acknowledged).ok());
}

#[test]
fn threads_share_the_writes_and_every_append_is_answered_once() {
    let world = Arc::new(World::new());
    world.lead(&[0], &[0], 0, &[]);
    let threads: Vec<_> = (0..4)
        .map(|producer| {
            let world = Arc::clone(&world);
            std::thread::spawn(move || {
                (0..250)
                    .map(|sequence| world.append(&idempotent(producer, sequence), true))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut offsets = Vec::new();
    for recorders in all {
        let own: Vec<_> = recorders.iter().map(|recorder| recorder.offset().unwrap()).collect();
        assert!(own.is_sorted(), "one producer's batches stay in order");
        offsets.extend(own);
    }
    offsets.sort_unstable();
    assert_eq!(offsets, (0..1000).collect::<Vec<_>>());
    assert_eq!(world.contents().len(), 1000);
}

/// Whether a producer and a consumer are served.
fn serves(world: &World) -> bool {
    let refused = world.append(&batch(), false).failure();
    let lookup = OffsetLookup {
        query: OffsetQuery::Latest,
        isolation: Isolation::HighWatermark,
        leader_epoch: None,
        any_replica: false,
    };
    let found = world.partition().offset_for(world.clock.timestamp(), lookup);
    let is_refused = matches!(found, Err(OffsetFailure::Refused(Refusal::NotLeader)));
    assert_eq!(refused, is_refused.then(|| "Refused(NotLeader)".to_owned()));
    !is_refused
}

/// Replica 1 follows in a fetch session.
fn followed(world: &World) -> Arc<Watcher> {
    followed_from(&world.partition(), BrokerId(1), Offset(0))
}

/// A replica follows in a fetch session, and stands at `from`.
fn followed_from(partition: &Arc<Partition>, replica: BrokerId, from: Offset) -> Arc<Watcher> {
    let watcher = Arc::new(Watcher::default());
    let interest = Interest {
        from,
        isolation: Isolation::LogEnd,
        max_bytes: 1 << 20,
        counts_bytes: false,
        replica: Some(replica),
    };
    partition.subscribe(&watcher, 0, interest);
    watcher
}

#[test]
fn a_leader_whose_broker_lost_its_registration_serves_once_it_is_known_that_it_still_leads() {
    let world = World::new();
    world.lead(&[0, 1, 2], &[0, 1], 0, &[]);
    assert!(serves(&world));
    world.partitions.environment().lease.registration_lost(BrokerEpoch(0));
    assert!(!serves(&world), "another may lead");
    let follower = followed(&world);
    world.clock.advance(Duration::from_millis(1));
    follower.note_fetch(world.clock.now());
    assert!(!serves(&world), "it may have sent that before");
    follower.note_fetch(world.clock.now());
    assert!(serves(&world), "it had an answer: all others in the ISR follow");
    world.clock.advance(Duration::from_millis(1));
    assert!(!serves(&world), "did follow");
    follower.note_fetch(world.clock.now());
    assert!(!serves(&world), "this one has its answer from before");
    world.partition().affirm(BrokerEpoch(0));
    assert!(!serves(&world), "that is what it was told before");
    world.partition().affirm(BrokerEpoch(7));
    assert!(serves(&world));
}

#[test]
fn the_only_one_in_sync_serves_unless_elections_may_be_unclean() {
    let unregistered = |replicas: &[i32], settings: &[(&str, &str)]| {
        let world = World::new();
        world.lead(replicas, &[0], 0, settings);
        world.partitions.environment().lease.registration_lost(BrokerEpoch(0));
        world
    };
    let unclean = &[("unclean.leader.election.enable", "true")];
    assert!(serves(&unregistered(&[0, 1], &[])), "nobody else can lead");
    let world = unregistered(&[0, 1], unclean);
    let follower = followed(&world);
    assert!(!serves(&world));
    world.clock.advance(Duration::from_millis(1));
    (0..2).for_each(|_| follower.note_fetch(world.clock.now()));
    assert!(serves(&world));
    assert!(serves(&unregistered(&[0], unclean)), "there is nobody else");
}

#[test]
fn acks_all_waits_for_the_isr() {
    let world = World::new();
    world.lead(&[0, 1], &[0, 1], 0, &[]);
    let (all, one) = (world.append(&batch(), true), world.append(&batch(), false));
    assert_eq!(one.offset(), Some(1), "acks=1 does not wait");
    assert!(all.is_pending() && *all.awaits.lock());
    assert_eq!(world.read(0, Isolation::HighWatermark, None).size, 0, "not committed");
    world.read(0, Isolation::LogEnd, Some(1));
    assert!(all.is_pending(), "the follower has nothing yet");
    world.read(1, Isolation::LogEnd, Some(1));
    assert_eq!(all.offset(), Some(0));
    assert!(world.read(0, Isolation::HighWatermark, None).size > 0);
}

#[test]
fn too_few_replicas_in_sync_take_no_acks_all() {
    let world = World::new();
    world.lead(&[0, 1], &[0], 0, &[("min.insync.replicas", "2")]);
    assert_eq!(world.append(&batch(), true).failure().unwrap(), "NotEnoughReplicas");
    assert_eq!(world.append(&batch(), false).offset(), Some(0), "nothing was written before");
    assert_eq!(world.read(0, Isolation::HighWatermark, None).high_watermark, Offset(0));
}

#[test]
fn a_follower_that_caught_up_is_proposed_and_counts() {
    let world = World::new();
    world.lead(&[0, 1], &[0], 0, &[]);
    world.append(&batch(), false);
    world.read(1, Isolation::LogEnd, Some(1));
    let proposal = world.proposals.lock().pop().unwrap();
    assert_eq!(proposal.isr, [(BrokerId(0), None), (BrokerId(1), None)]);
    let waiting = world.append(&batch(), true);
    assert!(waiting.is_pending(), "the maximal ISR counts");
    world.partition().isr_answered(&proposal, Err(IsrRefusal::Refused));
    world.clock.advance(Duration::from_secs(31));
    world.partition().tick();
    assert_eq!(waiting.offset(), Some(1), "the follower is neither in sync nor about to be");
}

#[test]
fn who_waits_hears_that_the_leadership_is_lost() {
    let world = World::new();
    world.lead(&[0, 1], &[0, 1], 0, &[]);
    let waiting = world.append(&batch(), true);
    let partition = world.partition();
    partition
        .assign(Assignment {
            index: 0,
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(1),
            replicas: vec![BrokerId(0), BrokerId(1)],
            isr: vec![BrokerId(1)],
            is_new: false,
            is_lost: false,
            is_recovering: false,
            registration: BrokerEpoch(0),
        })
        .unwrap();
    assert_eq!(waiting.failure().unwrap(), "LeadershipLost");
    assert!(world.append(&batch(), true).failure().unwrap().contains("NotLeader"));
    assert_eq!(partition.leadership(), Some((Some(BrokerId(1)), LeaderEpoch(1))));
    world.lead(&[0, 1], &[0, 1], 0, &[]);
    assert!(!partition.state.lock().role.is_leader(), "old news");
}

#[test]
fn a_stopped_partition_is_gone_and_a_deleted_one_begins_anew() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    world.append(&batch(), true);
    let held = world.partition();
    world.partitions.stop("t", 0, None).unwrap();
    assert!(world.partitions.find("t", 0).is_none());
    assert!(held.producers(Timestamp(0)).is_err(), "whoever still holds it");
    world.lead(&[0], &[0], 1, &[]);
    assert_eq!(world.contents().len(), 1, "the log stayed");
    world.partitions.stop("t", 0, Some(Duration::ZERO)).unwrap();
    world.lead(&[0], &[0], 0, &[]);
    assert_eq!(world.contents().len(), 0);
}

#[test]
fn coordinators_append_and_read_as_leaders_of_one_epoch() {
    let world = World::new();
    world.lead(&[0], &[0], 3, &[]);
    let (partition, told) = (world.partition(), Arc::new(Mutex::new(Vec::new())));
    for epoch in [3, 2, 4] {
        let told = Arc::clone(&told);
        partition.append_as_coordinator(LeaderEpoch(epoch), &batch(), move |result| {
            told.lock().push(result.map(|committed| committed.last_offset.0).ok());
        });
    }
    assert_eq!(*told.lock(), [Some(0), None, None]);
    let read = partition.read_as_coordinator(LeaderEpoch(3), Offset(0), 10).unwrap();
    assert!(read.batches.len() > 200, "one batch at least");
    assert!(
        partition.read_as_coordinator(LeaderEpoch(3), Offset(1), 10).unwrap().batches.is_empty()
    );
    assert!(partition.read_as_coordinator(LeaderEpoch(2), Offset(0), 10).is_err());
}

#[test]
fn flush_messages_holds_the_answer_until_the_flush() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "1")]);
    let recorder = world.append(&batch(), true);
    assert!(recorder.is_pending());
    world.partitions.environment().committer.run_once();
    assert_eq!(recorder.offset(), Some(0));
    // The power fails: everything that was not synced may be gone.
    for seed in 0..20 {
        let after = World::on(world.disk.crash(seed));
        after.lead(&[0], &[0], 1, &[]);
        assert_eq!(after.contents().len(), 1);
    }
}

#[test]
fn a_partition_has_no_leader_until_its_log_is_recovered() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    for sequence in 0..3 {
        assert!(world.append(&large(1, sequence), true).offset().is_some());
    }
    let again = world.restarted();
    let recovery = again.partitions.environment().recovery.clone();
    recovery.expect();
    again.lead(&[0], &[0], 1, &[]);
    let partition = again.partition();
    let refused = |recorder: Arc<Recorder>| {
        assert_eq!(recorder.failure().as_deref(), Some("Refused(Recovering)"));
        let failure = AppendFailure::Refused(Refusal::Recovering);
        let code = crate::error_codes::append_failure(&failure);
        assert_eq!(code, protocol::ErrorCode::NotLeaderOrFollower, "clients come back");
    };
    refused(again.append(&idempotent(1, 3), true));
    assert!(partition.end_of_epoch(Timestamp(0), None, LeaderEpoch(0)).is_err());
    partition.apply_retention(again.clock.timestamp());
    // While a thread is at it.
    let log = {
        let mut state = partition.state.lock();
        let Log::Closed(log) = &state.log else { panic!("{:?}", state.log) };
        let directory = Arc::clone(log.directory());
        std::mem::replace(&mut state.log, Log::Recovering(directory))
    };
    refused(again.append(&idempotent(1, 3), true));
    assert!(partition.log_directory().is_some(), "it is known where it is");
    partition.state.lock().log = log;
    // The others are not there yet, and it is.
    partition.recover();
    assert!(recovery.is_under_way());
    assert_eq!(again.append(&large(1, 0), true).offset(), Some(0), "a retry is known");
    assert_eq!(again.append(&idempotent(1, 3), true).offset(), Some(3));
}

#[test]
fn a_log_with_little_to_read_is_recovered_by_whoever_needs_it() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    world.append(&idempotent(1, 0), true);
    let again = world.restarted();
    again.partitions.environment().recovery.expect();
    again.lead(&[0], &[0], 1, &[]);
    assert!(again.partition().unrecovered().is_none(), "not worth a thread");
    assert_eq!(again.append(&idempotent(1, 1), true).offset(), Some(1));
}

/// What was seen: the log was offline, so there was nothing to flush, and that counted as flushed.
#[test]
fn nothing_is_acknowledged_as_flushed_after_its_directory_failed() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "1")]);
    let committer = world.partitions.environment().committer.clone();
    let flushed = world.append(&batch(), false);
    committer.run_once();
    assert_eq!(flushed.offset(), Some(0));
    let waiting = world.append(&batch(), false);
    assert!(waiting.is_pending());
    // The sync of another log in the directory fails.
    let partition = world.partition();
    let work = partition.state.lock().log.opened_mut().unwrap().begin_flush().unwrap();
    drop(work.failed(std::io::Error::other("EIO")));
    committer.run_once();
    assert!(!waiting.is_pending() && waiting.offset().is_none(), "{waiting:?}");
    assert!(world.append(&batch(), false).offset().is_none(), "the directory is offline");
}

#[test]
fn a_sync_that_fails_takes_its_directory_offline_though_the_log_is_gone() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "1")]);
    let waiting = world.append(&batch(), false);
    let partition = world.partition();
    let directory = partition.log_directory().unwrap();
    let work = partition.state.lock().log.opened_mut().unwrap().begin_flush().unwrap();
    world.disk.set_failing("/data", true);
    world.disk.set_failing("/other", true);
    let outcome = work.run();
    drop(work.failed(outcome.unwrap_err()));
    assert!(directory.is_offline());
    drop(waiting);
}

/// Seen by the simulator: it was forgotten, taken for new and created again.
#[test]
fn a_partition_whose_log_failed_is_known_after_it_was_stopped() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    assert_eq!(world.append(&batch(), false).offset(), Some(0));
    let directory = world.partition().log_directory().unwrap();
    world.disk.set_failing(directory.path(), true);
    assert!(world.append(&batch(), false).offset().is_none());
    world.partitions.stop("t", 0, None).unwrap_err();
    for new_leader in 0..2 {
        world.lead(&[0], &[0], new_leader, &[]);
        assert!(world.append(&batch(), false).offset().is_none(), "the directory is offline");
        assert_eq!(world.partition().log_directory().unwrap().path(), directory.path());
    }
    let logs = world
        .disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.ends_with("t-0/00000000000000000000.log"));
    assert_eq!(logs.count(), 1);
}

/// What was seen: they were never answered, nor whatever came after them on their connection.
#[test]
fn appends_that_wait_for_a_flush_are_answered_when_the_partition_is_stopped() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "1")]);
    let waiting = world.append(&batch(), false);
    assert!(waiting.is_pending());
    world.partitions.stop("t", 0, None).unwrap();
    assert!(!waiting.is_pending() && waiting.offset().is_none());
    world.partitions.environment().committer.run_once();
}

#[test]
fn many_appends_share_one_flush_and_a_partition_is_on_the_list_once() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "1")]);
    let committer = world.partitions.environment().committer.clone();
    world.append(&batch(), true);
    committer.run_once();
    let waiting: Vec<_> = (0..20).map(|_| world.append(&batch(), true)).collect();
    assert!(waiting.iter().all(|recorder| recorder.is_pending()));
    let before = world.disk.changes();
    committer.run_once();
    assert_eq!(world.disk.changes() - before, 1, "one sync of one file");
    assert!(waiting.iter().zip(1..).all(|(recorder, n)| recorder.offset() == Some(n)));
}

#[test]
fn consumers_see_only_what_is_flushed_where_flush_messages_asks_for_it() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("flush.messages", "2")]);
    let committer = world.partitions.environment().committer.clone();
    let ends = |world: &World| {
        let read = world.read(0, Isolation::HighWatermark, None);
        (read.high_watermark.0, read.records.to_bytes().unwrap().len())
    };
    assert_eq!(world.append(&batch(), true).offset(), Some(0), "one is not two");
    let (_, one) = ends(&world);
    assert!(one > 0);
    let waiting = [world.append(&batch(), true), world.append(&batch(), false)];
    assert!(waiting.iter().all(|recorder| recorder.is_pending()));
    assert_eq!(ends(&world), (1, one));
    committer.run_once();
    assert_eq!(waiting.map(|recorder| recorder.offset()), [Some(1), Some(2)]);
    assert_eq!(ends(&world), (3, 3 * one));
}

#[test]
fn leading_a_partition_opens_no_log_until_somebody_needs_it() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    world.append(&batch(), true);
    let restarted = world.restarted();
    restarted.lead(&[0], &[0], 1, &[]);
    let partition = restarted.partition();
    assert!(matches!(partition.state.lock().log, Log::Closed(_)));
    let end = partition.end_of_epoch(Timestamp(0), None, LeaderEpoch(0)).unwrap().unwrap();
    assert_eq!(end.end_offset, Offset(1), "the new epoch began where the old one ended");
    assert_eq!(restarted.append(&batch(), true).offset(), Some(1));
    let end = partition.end_of_epoch(Timestamp(0), None, LeaderEpoch(1)).unwrap().unwrap();
    assert_eq!((end.leader_epoch, end.end_offset), (LeaderEpoch(1), Offset(2)));
    let end = partition.end_of_epoch(Timestamp(0), None, LeaderEpoch(-2)).unwrap().unwrap();
    assert_eq!((end.leader_epoch, end.end_offset), (LeaderEpoch(-2), Offset(0)), "before all");
}

/// The bar is 512 bytes with the map's entry and what `storage` keeps of a closed log.
#[test]
fn an_idle_partition_is_small() {
    // Strong and weak count of the `Arc`; the term, its two lists of one broker each.
    let term = size_of::<replication::LeaderTerm>() + 2 * 16;
    let own = size_of::<Partition>() + 16 + term;
    assert!(own <= 288, "{own} bytes");
}

#[test]
fn old_segments_go_and_readers_are_told() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("segment.bytes", "600"), ("retention.ms", "60000")]);
    for _ in 0..6 {
        world.append(&batch(), true);
    }
    let partition = world.partition();
    partition.apply_retention(world.clock.timestamp());
    assert_eq!(partition.log_start_offset(), 0, "too new");
    world.clock.advance(Duration::from_secs(61));
    partition.apply_retention(world.clock.timestamp());
    assert!(partition.log_start_offset() >= 4);
}

#[test]
fn a_log_moves_to_another_directory_with_everything_in_it() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[("segment.bytes", "2000")]);
    for sequence in 0..20 {
        world.append(&idempotent(1, sequence), true);
    }
    world.lead(&[0], &[0], 4, &[("segment.bytes", "2000")]);
    let partition = world.partition();
    partition.delete_before(Timestamp(0), Some(Offset(3))).unwrap();
    let environment = Arc::clone(world.partitions.environment());
    let (from, to) = {
        let own = partition.replica_size().unwrap().directory;
        let mut all = environment.logs.directories().to_vec();
        all.sort_by_key(|directory| directory.path() != own);
        (Arc::clone(&all[0]), Arc::clone(&all[1]))
    };
    assert!(partition.move_to(&from).unwrap().is_none(), "it is there");
    environment.mover.ask(partition.move_to(&to).unwrap().unwrap());
    assert!(partition.move_to(&to).unwrap().is_none(), "it is on its way");
    assert_eq!(partition.move_progress().unwrap().directory, to.path());
    world.append(&idempotent(1, 20), true);
    environment.mover.run_once();
    assert_eq!(partition.replica_size().unwrap().directory, to.path());
    assert!(partition.move_progress().is_none());
    assert_eq!(partition.log_start_offset(), 3);
    assert_eq!(world.append(&idempotent(1, 20), true).offset(), Some(20), "a duplicate still");
    assert_eq!(world.append(&idempotent(1, 21), true).offset(), Some(21));
    let end = partition.end_of_epoch(Timestamp(0), None, LeaderEpoch(0)).unwrap().unwrap();
    assert_eq!(end.end_offset, Offset(20), "epoch 4 began there");
    let restarted = world.restarted();
    restarted.lead(&[0], &[0], 5, &[]);
    assert_eq!(restarted.partition().replica_size().unwrap().directory, to.path());
    assert_eq!(restarted.append(&idempotent(1, 22), true).offset(), Some(22));
}

#[test]
fn a_move_can_be_called_off_and_goes_on_after_a_restart() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    world.append(&batch(), true);
    let partition = world.partition();
    let environment = Arc::clone(world.partitions.environment());
    let own = partition.replica_size().unwrap().directory;
    let find = |is_own: bool| {
        let directories = environment.logs.directories();
        let found = directories.iter().find(|directory| (directory.path() == own) == is_own);
        Arc::clone(found.unwrap())
    };
    let (from, to) = (find(true), find(false));
    environment.mover.ask(partition.move_to(&to).unwrap().unwrap());
    assert!(partition.move_to(&from).unwrap().is_none());
    environment.mover.run_once();
    assert_eq!(partition.replica_size().unwrap().directory, own);
    assert!(partition.move_progress().is_none());

    let interrupted = partition.move_to(&to).unwrap().unwrap();
    assert!(matches!(interrupted.run(|| true), Ended::Interrupted));
    let restarted = world.restarted();
    restarted.lead(&[0], &[0], 1, &[]);
    assert!(restarted.partition().move_progress().is_some());
    restarted.partitions.environment().mover.run_once();
    assert_eq!(restarted.partition().replica_size().unwrap().directory, to.path());
    assert_eq!(restarted.contents().len(), 1);
}
