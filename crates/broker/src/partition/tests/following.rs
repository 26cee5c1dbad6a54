//! A follower's log beside its leader's, without the network between them.

use super::*;
use replication::truncation::EpochEnd;
use storage::AppendError;

const LEADER: i32 = 0;
const FOLLOWER: i32 = 1;

/// Two brokers that both call themselves 0: what the follower is told names its leader 1.
struct Pair {
    leader: World,
    follower: World,
    epoch: i32,
}

impl Pair {
    fn new(settings: &[(&str, &str)]) -> Self {
        let pair = Self { leader: World::new(), follower: World::new(), epoch: 0 };
        pair.leader.lead(&[LEADER, FOLLOWER], &[LEADER, FOLLOWER], 0, settings);
        pair.follower.follow(0, settings);
        pair
    }

    /// The two change places.
    fn fail_over(&mut self) {
        std::mem::swap(&mut self.leader, &mut self.follower);
        self.epoch += 1;
        self.leader.lead(&[LEADER, FOLLOWER], &[LEADER, FOLLOWER], self.epoch, &[]);
        self.follower.follow(self.epoch, &[]);
    }

    fn position(&self) -> FollowerPosition {
        self.follower.partition().follower_position(LeaderEpoch(self.epoch)).unwrap()
    }

    /// One fetch; whether it changed the follower's log.
    fn fetch(&self) -> bool {
        let (epoch, position) = (LeaderEpoch(self.epoch), self.position());
        let read = Read {
            offset: position.offset,
            max_bytes: 1 << 20,
            min_one_message: true,
            isolation: Isolation::LogEnd,
            leader_epoch: Some(epoch),
            last_fetched_epoch: position.last_fetched_epoch,
            replica: Some(Replica {
                id: BrokerId(FOLLOWER),
                broker_epoch: Some(BrokerEpoch(5)),
                log_start_offset: position.log_start_offset,
            }),
            at_follower: false,
            may_defer: false,
        };
        let (now, wall) = (self.leader.clock.now(), self.leader.clock.timestamp());
        let mut effects = Effects::default();
        let answer = self.leader.partition().read(now, wall, &read, None, &mut effects).unwrap();
        effects.fire();
        let partition = self.follower.partition();
        let next = match answer.diverging_epoch {
            Some(end) => {
                let end = EpochEnd { epoch: end.leader_epoch, end_offset: end.end_offset };
                partition.truncate_as_follower(epoch, position.offset, end).unwrap()
            }
            None => {
                let fetched = Fetched {
                    from: position.offset,
                    records: answer.records.to_bytes().unwrap(),
                    high_watermark: answer.high_watermark,
                    log_start_offset: answer.log_start_offset,
                };
                partition.append_as_follower(epoch, &fetched).unwrap()
            }
        };
        next != position
    }

    fn catch_up(&self) {
        while self.fetch() {}
    }

    fn assert_equal(&self) {
        assert_eq!(self.leader.raw(), self.follower.raw());
    }
}

impl World {
    fn follow(&self, epoch: i32, settings: &[(&str, &str)]) {
        let overrides: BTreeMap<_, _> =
            settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let config = BrokerConfig::load(None, &[]).unwrap().config;
        let settings =
            PartitionSettings::new(&config.topic_config(&overrides), config.log.record_validation);
        let assignment = Assignment {
            index: 0,
            leader: Some(BrokerId(FOLLOWER)),
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
            replicas: vec![BrokerId(0), BrokerId(1)],
            isr: vec![BrokerId(0), BrokerId(1)],
            is_new: epoch == 0,
            is_lost: false,
            is_recovering: false,
            registration: BrokerEpoch(0),
        };
        let results = self.partitions.host(&"t".into(), None, &settings, vec![assignment]);
        results.into_iter().for_each(|result| result.unwrap());
    }

    /// The bytes of the whole log.
    fn raw(&self) -> Vec<u8> {
        let partition = self.partition();
        let state = partition.state.lock();
        let log = state.log.opened().unwrap();
        let (mut bytes, mut next) = (Vec::new(), log.log_start_offset());
        while next < log.log_end_offset() {
            let read = storage::ReadRequest {
                offset: next,
                max_bytes: 1 << 20,
                min_one_message: true,
                upper_bound: log.log_end_offset(),
                want_aborted: false,
            };
            let piece = log.read(read).unwrap().records.to_bytes().unwrap();
            for batch in Batches::new(&piece) {
                let batch = batch.unwrap();
                assert!(batch.verify());
                next = Offset(batch.last_offset().0 + 1);
                bytes.extend_from_slice(batch.bytes());
            }
        }
        bytes
    }
}

#[test]
fn a_follower_has_the_leaders_bytes_and_its_watermark_one_fetch_later() {
    let pair = Pair::new(&[]);
    let waiting = pair.leader.append(&idempotent(1, 0), true);
    pair.leader.append(&idempotent(1, 1), false);
    assert!(pair.fetch());
    assert!(waiting.is_pending(), "the leader has not heard that the follower has it");
    assert!(!pair.fetch(), "nothing new");
    assert_eq!(waiting.offset(), Some(0));
    pair.fetch();
    pair.assert_equal();
    let read = pair.follower.read_at_follower(0);
    assert_eq!((read.high_watermark, read.size > 0), (Offset(2), true));
}

impl World {
    /// As a consumer of a version that may read from followers.
    fn read_at_follower(&self, offset: i64) -> PartitionRead {
        let read = Read {
            offset: Offset(offset),
            max_bytes: 1 << 20,
            min_one_message: true,
            isolation: Isolation::HighWatermark,
            leader_epoch: None,
            last_fetched_epoch: None,
            replica: None,
            at_follower: true,
            may_defer: false,
        };
        let (now, wall) = (self.clock.now(), self.clock.timestamp());
        self.partition().read(now, wall, &read, None, &mut Effects::default()).unwrap()
    }
}

#[test]
fn consumers_see_no_more_at_a_follower_than_it_knows_to_be_committed() {
    let pair = Pair::new(&[]);
    pair.leader.append(&batch(), true);
    pair.fetch();
    let read = pair.follower.read_at_follower(0);
    assert_eq!((read.high_watermark, read.size), (Offset(0), 0), "it is there and not committed");
}

#[test]
fn after_a_failover_the_old_leader_gives_up_what_nobody_else_has() {
    let mut pair = Pair::new(&[]);
    pair.leader.append(&idempotent(1, 0), true);
    pair.catch_up();
    let lost = pair.leader.append(&idempotent(1, 1), true);
    pair.fail_over();
    assert_eq!(lost.failure().unwrap(), "LeadershipLost");
    let retried = pair.leader.append(&idempotent(1, 1), true);
    assert!(retried.is_pending(), "the follower has something else there");
    pair.catch_up();
    assert_eq!(retried.offset(), Some(1));
    pair.assert_equal();
    // Also when nobody wrote in between, and several times over.
    for sequence in 2..8 {
        pair.leader.append(&idempotent(1, sequence), true);
        if sequence % 2 == 0 {
            pair.catch_up();
        }
        pair.fail_over();
        if sequence % 3 == 0 {
            pair.leader.append(&idempotent(2, sequence), false);
        }
        pair.catch_up();
        pair.assert_equal();
    }
}

#[test]
fn what_an_unclean_leader_lacks_is_counted_by_whoever_had_it() {
    let mut pair = Pair::new(&[]);
    pair.leader.append(&idempotent(1, 0), true);
    pair.catch_up();
    pair.epoch = 1;
    pair.leader.lead(&[LEADER, FOLLOWER], &[LEADER], 1, &[]);
    for sequence in 1..4 {
        let alone = pair.leader.append(&idempotent(1, sequence), true);
        assert_eq!(alone.offset(), Some(sequence.into()), "nobody else is waited for");
    }
    let lost = |world: &World| {
        world.partitions.environment().lost_offsets.load(std::sync::atomic::Ordering::Relaxed)
    };
    pair.fail_over();
    pair.leader.append(&idempotent(2, 0), true);
    pair.catch_up();
    pair.assert_equal();
    assert_eq!((lost(&pair.leader), lost(&pair.follower)), (0, 3));
    // What was never committed is nobody's loss.
    pair.leader.append(&idempotent(2, 1), true);
    pair.fail_over();
    pair.leader.append(&idempotent(2, 2), true);
    pair.catch_up();
    assert_eq!((lost(&pair.leader), lost(&pair.follower)), (3, 0));
}

/// Seen: a leader that was elected and wrote nothing asked its successor for ever about an epoch that only
/// itself knew of; with acks=all nothing was acknowledged until it had left the ISR.
#[test]
fn a_leader_that_wrote_nothing_follows_the_next_one() {
    let mut pair = Pair::new(&[]);
    pair.leader.append(&batch(), true);
    pair.catch_up();
    for _ in 0..4 {
        pair.fail_over();
        pair.catch_up();
        assert_eq!(pair.position().last_fetched_epoch, Some(LeaderEpoch(0)));
    }
    let acknowledged = pair.leader.append(&batch(), true);
    pair.catch_up();
    assert_eq!(acknowledged.offset(), Some(1));
    pair.assert_equal();
}

#[test]
fn a_late_answer_of_the_leader_before_is_not_taken() {
    let pair = Pair::new(&[]);
    pair.leader.append(&batch(), false);
    let records = pair.leader.read(0, Isolation::LogEnd, None).records.to_bytes().unwrap();
    pair.follower.follow(1, &[]);
    let late = Fetched {
        from: Offset(0),
        records,
        high_watermark: Offset(0),
        log_start_offset: Offset(0),
    };
    let partition = pair.follower.partition();
    let failure = partition.append_as_follower(LeaderEpoch(0), &late).unwrap_err();
    assert!(matches!(failure, FollowFailure::Ended), "{failure:?}");
    let elsewhere = Fetched { from: Offset(7), ..late };
    let failure = partition.append_as_follower(LeaderEpoch(1), &elsewhere).unwrap_err();
    assert!(matches!(failure, FollowFailure::Moved), "{failure:?}");
}

#[test]
fn damaged_records_are_refused_whole() {
    let pair = Pair::new(&[]);
    pair.leader.append(&batch(), false);
    let records = pair.leader.read(0, Isolation::LogEnd, None).records.to_bytes().unwrap();
    let mut damaged = records.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let fetched = Fetched {
        from: Offset(0),
        records: damaged.into(),
        high_watermark: Offset(1),
        log_start_offset: Offset(0),
    };
    let partition = pair.follower.partition();
    let failure = partition.append_as_follower(LeaderEpoch(0), &fetched).unwrap_err();
    assert!(matches!(failure, FollowFailure::Refused(AppendError::Corrupt(_))), "{failure:?}");
    assert_eq!(pair.position().offset, Offset(0));
}

#[test]
fn what_is_larger_than_a_segment_here_is_taken_in_pieces() {
    let pair = Pair::new(&[]);
    for sequence in 0..9 {
        pair.leader.append(&idempotent(1, sequence), false);
    }
    let small = World::new();
    small.follow(0, &[("segment.bytes", "600")]);
    let pair = Pair { leader: pair.leader, follower: small, epoch: 0 };
    pair.catch_up();
    pair.assert_equal();
    let tiny = World::new();
    tiny.follow(0, &[("segment.bytes", "100")]);
    let pair = Pair { leader: pair.leader, follower: tiny, epoch: 0 };
    pair.catch_up();
    pair.assert_equal();
}

#[test]
fn a_follower_below_its_leaders_start_begins_there() {
    let pair = Pair::new(&[]);
    for sequence in 0..4 {
        pair.leader.append(&idempotent(1, sequence), false);
    }
    pair.catch_up();
    pair.leader.append(&idempotent(1, 4), false);
    pair.fetch();
    pair.fetch();
    let wall = pair.leader.clock.timestamp();
    pair.leader.partition().delete_before(wall, Some(Offset(3))).unwrap();
    pair.fetch();
    assert_eq!(pair.position().log_start_offset, Offset(3), "the start comes with an answer");
    let late = World::new();
    late.follow(0, &[]);
    let partition = late.partition();
    let ends = (Offset(3), Offset(5));
    let next = partition.return_into_range(LeaderEpoch(0), Offset(0), ends.0, ends.1).unwrap();
    assert_eq!((next.offset, next.log_start_offset), (Offset(3), Offset(3)));
    let pair = Pair { leader: pair.leader, follower: late, epoch: 0 };
    pair.catch_up();
    assert_eq!(pair.position().offset, Offset(5));
    let next =
        partition.return_into_range(LeaderEpoch(0), Offset(5), Offset(3), Offset(4)).unwrap();
    assert_eq!(next.offset, Offset(4), "the leader's log is shorter");
}

#[test]
fn a_failed_write_costs_a_follower_nothing_that_it_does_not_fetch_again() {
    for kth in 0..12 {
        let mut pair = Pair::new(&[("segment.bytes", "1000")]);
        pair.follower.disk.fail_write(kth, WriteFault::Short);
        for sequence in 0..20 {
            pair.leader.append(&idempotent(1, sequence), false);
            let epoch = LeaderEpoch(0);
            let partition = pair.follower.partition();
            let mut attempts = 0;
            while partition.follower_position(epoch).map(|at| at.offset.0).unwrap_or(-1)
                <= i64::from(sequence)
            {
                attempts += 1;
                assert!(attempts < 20, "write {kth}: it never heals");
                let Ok(position) = partition.follower_position(epoch) else {
                    pair.follower.clock.advance(Duration::from_secs(6));
                    continue;
                };
                let read = pair.leader.read(position.offset.0, Isolation::LogEnd, None);
                let fetched = Fetched {
                    from: position.offset,
                    records: read.records.to_bytes().unwrap(),
                    high_watermark: Offset(0),
                    log_start_offset: Offset(0),
                };
                if partition.append_as_follower(epoch, &fetched).is_err() {
                    pair.follower.clock.advance(Duration::from_secs(6));
                }
            }
        }
        pair.assert_equal();
        pair.follower = pair.follower.restarted();
        pair.follower.follow(0, &[]);
        pair.position();
        pair.assert_equal();
    }
}

#[test]
fn an_answer_waits_for_the_leaders_own_flush_too() {
    let pair = Pair::new(&[("flush.messages", "1")]);
    let waiting = pair.leader.append(&batch(), true);
    pair.fetch();
    pair.fetch();
    assert!(waiting.is_pending(), "committed, and the leader's disk is slow");
    pair.leader.partitions.environment().committer.run_once();
    assert_eq!(waiting.offset(), Some(0));
}

#[test]
fn a_follower_that_lacks_a_flush_knows_it() {
    let pair = Pair::new(&[("flush.messages", "1")]);
    pair.leader.append(&batch(), true);
    pair.fetch();
    let partition = pair.follower.partition();
    assert!(partition.awaits_flush(), "its copy may be lost yet");
    assert_eq!(partition.flush(), Some(Offset(1)));
    assert!(!partition.awaits_flush());
    // What it appended before it was killed was never synced.
    pair.leader.append(&batch(), true);
    pair.fetch();
    let again = pair.follower.restarted();
    again.follow(0, &[("flush.messages", "1")]);
    assert_eq!(again.partition().follower_position(LeaderEpoch(0)).unwrap().offset, Offset(2));
    assert!(again.partition().awaits_flush());
}

/// A session's fetches name only partitions with news, so an idle partition hears of its followers only
/// through their sessions: the first append after a long silence must not find them all lagging.
#[test]
fn an_idle_partition_keeps_its_isr_when_it_is_written_to_again() {
    for session_goes_on in [true, false] {
        let pair = Pair::new(&[]);
        pair.leader.append(&batch(), true);
        pair.catch_up();
        let partition = pair.leader.partition();
        let watcher = followed_from(&partition, BrokerId(FOLLOWER), Offset(1));
        pair.leader.clock.advance(Duration::from_secs(600));
        if session_goes_on {
            watcher.note_fetch(pair.leader.clock.now());
        }
        pair.leader.clock.advance(Duration::from_secs(1));
        pair.leader.append(&batch(), false);
        partition.tick();
        let proposed = pair.leader.proposals.lock().len();
        assert_eq!(proposed, usize::from(!session_goes_on), "goes on: {session_goes_on}");
    }
}

/// A follower's fetch in a session; whether its next one is to look at the partition again.
fn fetch_in_session(world: &World, watcher: &Arc<Watcher>, from: Offset) -> bool {
    let interest = Interest {
        from,
        isolation: Isolation::LogEnd,
        max_bytes: 1 << 20,
        counts_bytes: false,
        replica: Some(BrokerId(FOLLOWER)),
    };
    let read = Read {
        offset: from,
        max_bytes: 1 << 20,
        min_one_message: true,
        isolation: Isolation::LogEnd,
        leader_epoch: Some(LeaderEpoch(0)),
        last_fetched_epoch: None,
        replica: Some(Replica {
            id: BrokerId(FOLLOWER),
            broker_epoch: Some(BrokerEpoch(5)),
            log_start_offset: Offset(0),
        }),
        at_follower: false,
        may_defer: false,
    };
    watcher.take_ready(&mut Vec::new());
    let mut effects = Effects::default();
    let (now, wall) = (world.clock.now(), world.clock.timestamp());
    let subscription = Some((watcher, 0, interest));
    world.partition().read(now, wall, &read, subscription, &mut effects).unwrap();
    effects.fire();
    let mut ready = Vec::new();
    watcher.take_ready(&mut ready);
    !ready.is_empty()
}

#[test]
fn a_follower_in_sync_is_told_of_news_only() {
    let world = World::new();
    world.lead(&[LEADER, FOLLOWER], &[LEADER, FOLLOWER], 0, &[]);
    let watcher = followed_from(&world.partition(), BrokerId(FOLLOWER), Offset(0));
    fetch_in_session(&world, &watcher, Offset(0));
    assert!(!fetch_in_session(&world, &watcher, Offset(0)), "nothing happened");
    world.append(&batch(), false);
    assert!(fetch_in_session(&world, &watcher, Offset(1)), "it does not know what it committed");
    assert!(!fetch_in_session(&world, &watcher, Offset(1)), "now it does");
}

/// What kept it out (its broker not known to live, a refusal) may be gone by its next fetch.
#[test]
fn a_follower_that_is_to_join_is_looked_at_with_each_fetch() {
    let world = World::new();
    world.lead(&[LEADER, FOLLOWER], &[LEADER], 0, &[]);
    let watcher = followed_from(&world.partition(), BrokerId(FOLLOWER), Offset(0));
    for _ in 0..3 {
        assert!(fetch_in_session(&world, &watcher, Offset(0)));
    }
    assert_eq!(world.proposals.lock().len(), 1, "and it is proposed");
}

/// A leader's broker that answers nothing sensible costs its follower neither memory nor life.
#[test]
fn a_fetcher_survives_whatever_a_leader_sends() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = World::new();
    world.follow(0, &[]);
    let endpoint = metadata::Endpoint {
        listener: "PLAINTEXT".into(),
        host: "127.0.0.1".into(),
        port: i32::from(port),
        security_protocol: metadata::SecurityProtocol::Plaintext,
    };
    let leader =
        metadata::BrokerImage { id: BrokerId(FOLLOWER), rack: None, endpoints: vec![endpoint] };
    let delta = metadata::MetadataDelta { brokers: vec![leader], ..Default::default() };
    let image = ClusterImage::new().apply(delta).image;
    let settings = [("replica.fetch.backoff.ms", "20"), ("replica.socket.timeout.ms", "600")];
    let settings: Vec<_> = settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let fetchers = ReplicaFetchers::new(FetcherSettings {
        broker_id: BrokerId(0),
        broker_epoch: Arc::default(),
        image: Arc::new(ArcSwap::from_pointee(image)),
        listener: "PLAINTEXT".into(),
        replication: BrokerConfig::load(None, &settings).unwrap().config.replication,
        throttle: Arc::new(ReplicationThrottle::new(11, Duration::from_secs(1))),
        clock: Arc::new(platform::clock::SystemClock::new()),
        network: platform::Network::System,
    });
    fetchers.follow(&world.partition(), BrokerId(FOLLOWER), LeaderEpoch(0));
    let accept = || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut request).unwrap();
        (stream, request)
    };
    // Closed, half a length, a negative one, 2 GiB that never come, another's answer, nonsense.
    let answers: &[&[u8]] = &[
        b"",
        &[0, 0],
        &[0xff, 0xff, 0xff, 0xff, 0],
        &[0x7f, 0xff, 0xff, 0xff, 1, 2, 3],
        &[0, 0, 0, 8, 9, 9, 9, 9, 0, 0, 0, 0],
    ];
    for answer in answers {
        let (mut stream, request) = accept();
        assert_eq!(request[..4], [0, 1, 0, 12], "a fetch by name: the topic has no id");
        stream.write_all(answer).unwrap();
    }
    let (mut stream, request) = accept();
    let mut nonsense = vec![0, 0, 1, 0];
    nonsense.extend_from_slice(&request[4..8]);
    nonsense.extend_from_slice(&[0xff; 252]);
    stream.write_all(&nonsense).unwrap();
    // It asks again, and again when nothing comes; and stops while it waits.
    let (_silent, _) = accept();
    let (_silent, _) = accept();
    fetchers.stop();
    assert_eq!(world.partition().follower_position(LeaderEpoch(0)).unwrap().offset, Offset(0));
}
