//! The faults of a run, each with all its particulars, decided before it begins: any of them can be left out, and the
//! others stay as they were.

use crate::network::{Delays, HostId};
use crate::plan::Plan;
use platform::Random;
use platform::disk::WriteFault;
use platform::random::SeededRandom;
use std::fmt;
use std::time::Duration;

/// Where the store is.
pub const STORE: HostId = HostId(100);

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
    /// The store ends the sessions of two brokers soon after each other.
    Expiries,
    /// A broker asks a server of the store that lags behind.
    StaleStore,
    /// Answers of the store are lost with their connection.
    LostReplies,
    /// Everything is under way for longer.
    SlowNetwork,
    /// A broker's wall clock jumps.
    ClockJump,
    /// A broker's disk is full.
    DiskFull,
    /// A broker's disk does nothing but fail.
    DiskFails,
    /// A broker's disk writes nothing, or the half, a few times.
    WriteFails,
    /// A broker stands still for a while after each write.
    SlowDisk,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Kill,
        Self::Stop,
        Self::PowerFailure,
        Self::Pause,
        Self::OneWay,
        Self::Partition,
        Self::Resets,
        Self::Expiry,
        Self::Expiries,
        Self::LostReplies,
        Self::StaleStore,
        Self::SlowNetwork,
        Self::ClockJump,
        Self::DiskFull,
        Self::DiskFails,
        Self::WriteFails,
        Self::SlowDisk,
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
            | Self::Expiry
            | Self::Expiries
            | Self::LostReplies
            | Self::DiskFull
            | Self::DiskFails
            | Self::WriteFails
            | Self::SlowDisk => true,
            Self::Resets | Self::ClockJump | Self::StaleStore => false,
        }
    }
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed, and started again after so long.
    Kill(HostId, Duration),
    /// A process is told to stop.
    Stop(HostId),
    /// A machine is without power for so long; the number decides what it loses.
    PowerFailure(HostId, Duration, u64),
    /// A process stands still for so long.
    Pause(HostId, Duration),
    /// Nothing comes over these links, from and to, for so long.
    Cut(FaultKind, Vec<(HostId, HostId)>, Duration),
    /// So many connections are reset.
    Resets(usize),
    /// A broker's sessions are ended.
    Expiry(HostId),
    /// A broker's sessions are ended, and so much later another's.
    Expiries(HostId, Duration, HostId),
    /// A broker does not hear what becomes of so many requests to the store.
    LostReplies(HostId, u32),
    /// What a broker is shown of the store is so old, for so long.
    StaleStore(HostId, Duration, Duration),
    /// Everything is under way so long, for so long.
    SlowNetwork(Delays, Duration),
    /// A wall clock jumps by so many milliseconds, for so long.
    ClockJump(HostId, i64, Duration),
    /// A disk has no room for more than so many bytes, for so long.
    DiskFull(HostId, u64, Duration),
    /// Everything that is asked of a disk fails, for so long.
    DiskFails(HostId, Duration),
    /// These of the next writes, counted from 0, go wrong so.
    WriteFails(HostId, Vec<(u64, WriteFault)>),
    /// A process stands still for up to so long whenever its disk has written, for so long.
    SlowDisk(HostId, Duration, Duration),
}

impl Fault {
    /// Of which kind it is.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Kill(..) => FaultKind::Kill,
            Self::Stop(_) => FaultKind::Stop,
            Self::PowerFailure(..) => FaultKind::PowerFailure,
            Self::Pause(..) => FaultKind::Pause,
            Self::Cut(kind, ..) => *kind,
            Self::Resets(_) => FaultKind::Resets,
            Self::Expiry(_) => FaultKind::Expiry,
            Self::Expiries(..) => FaultKind::Expiries,
            Self::LostReplies(..) => FaultKind::LostReplies,
            Self::StaleStore(..) => FaultKind::StaleStore,
            Self::SlowNetwork(..) => FaultKind::SlowNetwork,
            Self::ClockJump(..) => FaultKind::ClockJump,
            Self::DiskFull(..) => FaultKind::DiskFull,
            Self::DiskFails(..) => FaultKind::DiskFails,
            Self::WriteFails(..) => FaultKind::WriteFails,
            Self::SlowDisk(..) => FaultKind::SlowDisk,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(host, pause) => write!(f, "broker {} is killed for {pause:?}", host.0),
            Self::Stop(host) => write!(f, "broker {} is told to stop", host.0),
            Self::PowerFailure(host, pause, _) => {
                write!(f, "broker {} is without power for {pause:?}", host.0)
            }
            Self::Pause(host, pause) => write!(f, "broker {} stands still for {pause:?}", host.0),
            Self::Cut(_, links, pause) => {
                write!(f, "nothing comes for {pause:?} over")?;
                links.iter().try_for_each(|(from, to)| write!(f, " {}->{}", from.0, to.0))
            }
            Self::Resets(count) => write!(f, "{count} connections are reset"),
            Self::Expiry(host) => write!(f, "the session of broker {} expires", host.0),
            Self::Expiries(host, pause, next) => {
                let (host, next) = (host.0, next.0);
                write!(f, "the session of broker {host} expires, that of {next} after {pause:?}")
            }
            Self::LostReplies(host, count) => {
                write!(f, "the store's next {count} answers to broker {} are lost", host.0)
            }
            Self::StaleStore(host, lag, pause) => {
                write!(f, "the store that broker {} asks lags {lag:?} for {pause:?}", host.0)
            }
            Self::SlowNetwork(delays, pause) => {
                write!(f, "the network is slow for {pause:?}: {delays:?}")
            }
            Self::ClockJump(host, millis, pause) => {
                write!(f, "the clock of broker {} jumps by {millis} ms for {pause:?}", host.0)
            }
            Self::DiskFull(host, room, pause) => {
                write!(f, "the disk of broker {} has room for {room} bytes for {pause:?}", host.0)
            }
            Self::DiskFails(host, pause) => {
                write!(f, "the disk of broker {} fails for {pause:?}", host.0)
            }
            Self::WriteFails(host, writes) => {
                write!(f, "writes of broker {} go wrong: {writes:?}", host.0)
            }
            Self::SlowDisk(host, most, pause) => {
                write!(f, "writes of broker {} take up to {most:?} for {pause:?}", host.0)
            }
        }
    }
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Names it among those of its run.
    pub number: usize,
    /// How long after clients began.
    pub at: Duration,
    /// What.
    pub fault: Fault,
}

/// The faults of `plan`, by its seed.
#[must_use]
pub fn of(plan: &Plan) -> Vec<Planned> {
    let draw = Draw { random: SeededRandom::new(plan.seed ^ 0x6661_756c), brokers: plan.brokers };
    let gap = u64::try_from(plan.fault_gap.as_millis()).unwrap_or(u64::MAX);
    let (mut faults, mut at) = (Vec::new(), Duration::ZERO);
    loop {
        at += draw.millis(1, 2 * gap);
        if at >= plan.fault_span {
            return faults;
        }
        let kind = plan.kinds[draw.below(plan.kinds.len())];
        faults.push(Planned { number: faults.len(), at, fault: draw.fault(kind) });
    }
}

struct Draw {
    random: SeededRandom,
    brokers: u8,
}

impl Draw {
    fn below(&self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).expect("an index")
    }

    fn millis(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.random.below(most - least + 1))
    }

    /// Machines between which links are cut, without one.
    fn others(&self, than: HostId) -> Vec<HostId> {
        let machines = (1..=self.brokers).map(HostId).chain([STORE]);
        machines.filter(|other| *other != than).collect()
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        let host = HostId(1 + u8::try_from(self.below(self.brokers.into())).expect("few"));
        match kind {
            FaultKind::Kill => Fault::Kill(host, self.millis(50, 15_000)),
            FaultKind::Stop => Fault::Stop(host),
            FaultKind::PowerFailure => {
                Fault::PowerFailure(host, self.millis(500, 15_000), self.random.next_u64())
            }
            FaultKind::Pause => Fault::Pause(host, self.millis(100, 15_000)),
            FaultKind::OneWay => {
                let others = self.others(host);
                let other = others[self.below(others.len())];
                let link = if self.below(2) == 0 { (host, other) } else { (other, host) };
                Fault::Cut(kind, vec![link], self.millis(100, 15_000))
            }
            FaultKind::Partition => {
                let mut others = self.others(host);
                if self.below(2) == 0 {
                    others = vec![others[self.below(others.len())]];
                }
                let links = others.iter().flat_map(|&other| [(host, other), (other, host)]);
                Fault::Cut(kind, links.collect(), self.millis(100, 20_000))
            }
            FaultKind::Resets => Fault::Resets(1 + self.below(10)),
            FaultKind::Expiry => Fault::Expiry(host),
            FaultKind::Expiries => {
                let others = self.others(host);
                // The last of them is the store.
                let next = others[self.below(others.len() - 1)];
                Fault::Expiries(host, self.millis(0, 4_000), next)
            }
            FaultKind::StaleStore => {
                Fault::StaleStore(host, self.millis(100, 5_000), self.millis(1_000, 20_000))
            }
            FaultKind::LostReplies => {
                Fault::LostReplies(host, 1 + u32::try_from(self.below(3)).expect("few"))
            }
            FaultKind::SlowNetwork => {
                let delays = Delays {
                    least: self.millis(1, 20),
                    most: self.millis(20, 200),
                    late_of_1000: self.random.below(200),
                    latest: self.millis(200, 2_000),
                };
                Fault::SlowNetwork(delays, self.millis(500, 10_000))
            }
            FaultKind::ClockJump => {
                let millis = i64::try_from(self.random.below(7_200_000)).expect("two hours");
                Fault::ClockJump(host, millis - 3_600_000, self.millis(1_000, 30_000))
            }
            FaultKind::DiskFull => {
                Fault::DiskFull(host, self.random.below(4_000), self.millis(500, 15_000))
            }
            FaultKind::DiskFails => Fault::DiskFails(host, self.millis(100, 10_000)),
            FaultKind::WriteFails => {
                let count = 1 + self.below(3);
                let how = |half| if half == 0 { WriteFault::Short } else { WriteFault::Fails };
                let writes = (0..count).map(|_| (self.random.below(30), how(self.below(2))));
                Fault::WriteFails(host, writes.collect())
            }
            FaultKind::SlowDisk => {
                Fault::SlowDisk(host, self.millis(1, 300), self.millis(500, 15_000))
            }
        }
    }
}
