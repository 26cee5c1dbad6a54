//! What a seed decides before anything runs: topology, configuration, workload, and which faults there are.

use crate::network::Delays;
use platform::Random;
use platform::random::SeededRandom;
use std::fmt;
use std::time::Duration;

/// The topic that clients use.
pub const TOPIC: &str = "orders";

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A broker's process is killed; what it wrote stays.
    Kill,
    /// A broker is stopped as by SIGTERM.
    Stop,
    /// A broker's machine loses power; of what was not synced a part is lost.
    PowerFailure,
    /// A broker stands still.
    Pause,
    /// Nothing comes from one machine to another.
    OneWay,
    /// A machine is cut off from some others, or from all.
    Partition,
    /// Connections are reset.
    Resets,
    /// The store ends a broker's session.
    Expiry,
    /// Everything is under way for longer.
    SlowNetwork,
    /// A broker's wall clock jumps.
    ClockJump,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Kill,
        Self::Stop,
        Self::PowerFailure,
        Self::Pause,
        Self::OneWay,
        Self::Partition,
        Self::Resets,
        Self::Expiry,
        Self::SlowNetwork,
        Self::ClockJump,
    ];

    /// Whether somebody may leave an ISR for it.
    #[must_use]
    pub fn disturbs_isrs(self) -> bool {
        match self {
            Self::Kill
            | Self::Stop
            | Self::PowerFailure
            | Self::Pause
            | Self::OneWay
            | Self::Partition
            | Self::SlowNetwork
            | Self::Expiry => true,
            Self::Resets | Self::ClockJump => false,
        }
    }
}

/// What one run is like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// How many brokers: 1 to this.
    pub brokers: u8,
    /// How many producers.
    pub producers: u8,
    /// How many consumers.
    pub consumers: u8,
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
    /// Which faults there are.
    pub faults: Vec<FaultKind>,
    /// Between two faults, on average.
    pub fault_gap: Duration,
    /// How long there are faults.
    pub fault_span: Duration,
}

impl Plan {
    /// What `seed` decides, with faults for `fault_span`.
    #[must_use]
    pub fn of(seed: u64, fault_span: Duration) -> Self {
        let random = SeededRandom::new(seed ^ 0x706c_616e);
        let between = |least: u64, most: u64| least + random.below(most - least + 1);
        let millis = |least, most| Duration::from_millis(between(least, most));
        let is = |of: u64| random.below(of) == 0;
        let brokers = u8::try_from(between(3, 5)).expect("few");
        let replicas = if is(5) { 2 } else { 3 };
        let mut faults: Vec<_> = FaultKind::ALL.into_iter().filter(|_| is(2)).collect();
        if faults.is_empty() {
            faults.push(FaultKind::Kill);
        }
        Self {
            seed,
            brokers,
            producers: u8::try_from(between(2, 4)).expect("few"),
            consumers: u8::try_from(between(1, 2)).expect("few"),
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
            faults,
            fault_gap: millis(500, 6_000),
            fault_span,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} brokers, {} producers, {} consumers, {} partitions x {}, min.insync {}, session {:?}, \
             lag {:?}, segments {} B, flush {}, fast detection {}, delays {:?}..{:?}, faults {:?} every {:?}",
            self.brokers,
            self.producers,
            self.consumers,
            self.partitions,
            self.replicas,
            self.min_insync,
            self.session_timeout,
            self.lag_max,
            self.segment_bytes,
            self.flushes,
            self.fast_detection,
            self.delays.least,
            self.delays.most,
            self.faults,
            self.fault_gap,
        )
    }
}
