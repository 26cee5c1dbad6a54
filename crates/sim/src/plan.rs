//! What a seed decides before anything runs: topology, configuration, workload, and every fault.
//!
//! Each part is decided by itself: what is left out of one of them leaves the others as they were.

use crate::clients::ProducerSettings;
use crate::faults::{self, FaultKind, Planned};
use crate::network::Delays;
use platform::Random;
use platform::random::SeededRandom;
use std::fmt;
use std::time::Duration;

/// The topic that clients use.
pub const TOPIC: &str = "orders";

/// What one run is like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// How many brokers: 1 to this.
    pub brokers: u8,
    /// The producers.
    pub producers: Vec<ProducerSettings>,
    /// How many consumers.
    pub consumers: u8,
    /// How many members the consumer group has, and how many of them are static.
    pub members: (u8, u8),
    /// `offsets.topic.num.partitions`
    pub offsets_partitions: i32,
    /// `leader.imbalance.check.interval.seconds`, if preferred leaders get their partitions back.
    pub rebalance_every: Option<u64>,
    /// `offsets.load.buffer.size`
    pub load_bytes: u64,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Replicas of each.
    pub replicas: i16,
    /// `min.insync.replicas`
    pub min_insync: i32,
    /// How long the store keeps sessions.
    pub session_timeout: Duration,
    /// `replica.lag.time.max.ms`
    pub lag_max: Duration,
    /// `log.segment.bytes`
    pub segment_bytes: u64,
    /// `log.flush.interval.messages=1`
    pub flushes: bool,
    /// `barnabas.fast.failure.detection`
    pub fast_detection: bool,
    /// How long bytes are under way when nothing is wrong.
    pub delays: Delays,
    /// Which kinds of faults there are.
    pub kinds: Vec<FaultKind>,
    /// Between two faults, on average.
    pub fault_gap: Duration,
    /// How long there are faults.
    pub fault_span: Duration,
    /// The faults, in order.
    pub faults: Vec<Planned>,
}

impl Plan {
    /// What `seed` decides, with faults for `fault_span`.
    #[must_use]
    pub fn of(seed: u64, fault_span: Duration) -> Self {
        let random = SeededRandom::new(seed ^ 0x706c_616e);
        let between = |least: u64, most: u64| least + random.below(most - least + 1);
        let millis = |least, most| Duration::from_millis(between(least, most));
        let is = |of: u64| random.below(of) == 0;
        let few = |number: u64| u8::try_from(number).expect("few");
        let brokers = few(between(3, 5));
        let replicas = if is(5) { 2 } else { 3 };
        let mut kinds: Vec<_> = FaultKind::ALL.into_iter().filter(|_| is(2)).collect();
        if kinds.is_empty() {
            kinds.push(FaultKind::Kill);
        }
        let producers = between(2, 4);
        let mut plan = Self {
            seed,
            brokers,
            producers: (1..=producers).map(|number| producer(seed, number)).collect(),
            consumers: few(between(1, 2)),
            partitions: i32::try_from(between(1, 4)).expect("few"),
            replicas,
            min_insync: i32::try_from(between(1, 2)).expect("few"),
            session_timeout: millis(2_000, 9_000),
            lag_max: millis(1_500, 6_000),
            segment_bytes: 1 << between(10, 16),
            flushes: is(4),
            fast_detection: !is(4),
            delays: Delays {
                least: Duration::ZERO,
                most: millis(0, 5),
                late_of_1000: between(0, 20),
                latest: millis(10, 200),
            },
            kinds,
            fault_gap: millis(500, 6_000),
            fault_span,
            faults: Vec::new(),
            members: (0, 0),
            offsets_partitions: 1,
            load_bytes: 0,
            rebalance_every: None,
        };
        let members = between(0, 3);
        plan.members = (few(members), few(random.below(members + 1)));
        plan.load_bytes = 1 << between(9, 14);
        plan.rebalance_every = (random.below(2) == 0).then(|| between(2, 12));
        plan.offsets_partitions = i32::try_from(between(1, 2)).expect("few");
        plan.faults = faults::of(&plan);
        plan
    }
}

fn producer(seed: u64, number: u64) -> ProducerSettings {
    let random = SeededRandom::new(seed ^ 0x7072_6f64 ^ (number << 40));
    let is_idempotent = random.below(2) == 0;
    let acks = match (is_idempotent, random.below(4)) {
        (true, _) | (false, 0 | 1) => -1,
        (false, 2) => 1,
        (false, _) => 0,
    };
    let pause = Duration::from_millis(20 + random.below(380));
    let number = u32::try_from(number).expect("few");
    ProducerSettings { number, acks, is_idempotent, pause }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} brokers, {} producers, {} consumers, members {:?}, {} partitions x {}, min.insync {}, session {:?}, \
             lag {:?}, segments {} B, flush {}, fast detection {}, rebalance {:?}, delays {:?}..{:?}, faults {:?} every {:?}",
            self.brokers,
            self.producers.len(),
            self.consumers,
            self.members,
            self.partitions,
            self.replicas,
            self.min_insync,
            self.session_timeout,
            self.lag_max,
            self.segment_bytes,
            self.flushes,
            self.fast_detection,
            self.rebalance_every,
            self.delays.least,
            self.delays.most,
            self.kinds,
            self.fault_gap,
        )
    }
}
