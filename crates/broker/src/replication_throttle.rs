//! Limits on the bytes that replicas of throttled topics take or get (KIP-73): a reassignment shall not
//! crowd out what clients do.
//!
//! A rate is measured over `replication.quota.window.num` windows of
//! `replication.quota.window.size.seconds`, the last of which has just begun. Nothing is slowed down byte
//! by byte: while the rate is too high, throttled replicas that are behind simply get nothing. In-sync
//! ones are never held back, but what they take counts.

use model::Instant;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether a topic's replicas on this broker are throttled: `*.replication.throttled.replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// None.
    #[default]
    None,
    /// All: `*`.
    All,
    /// Those of these partitions on these brokers.
    Listed(Vec<(i32, i32)>),
}

impl ThrottledReplicas {
    /// From the setting's items, which were checked.
    pub(crate) fn parse(items: &[String]) -> Self {
        if items.iter().any(|item| item == "*") {
            return Self::All;
        }
        let pair = |item: &String| {
            let (partition, broker) = item.split_once(':')?;
            Some((partition.trim().parse().ok()?, broker.trim().parse().ok()?))
        };
        let pairs: Vec<_> = items.iter().filter_map(pair).collect();
        if pairs.is_empty() { Self::None } else { Self::Listed(pairs) }
    }

    /// Whether the replica of `partition` on `broker` is meant.
    pub(crate) fn contains(&self, partition: i32, broker: i32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Listed(pairs) => pairs.contains(&(partition, broker)),
        }
    }
}

/// One direction's throttle.
#[derive(Debug)]
pub(crate) struct ReplicationThrottle {
    /// Bytes per second; `u64::MAX` means any.
    limit: AtomicU64,
    windows: usize,
    window: Duration,
    measured: Mutex<Measured>,
}

/// Bytes by window, oldest first: the window's number since the clock began, and its bytes.
#[derive(Debug, Default)]
struct Measured {
    windows: VecDeque<(u64, u64)>,
}

impl ReplicationThrottle {
    /// No limit yet.
    pub(crate) fn new(windows: usize, window: Duration) -> Self {
        Self {
            limit: AtomicU64::new(u64::MAX),
            windows: windows.max(1),
            window: window.max(Duration::from_secs(1)),
            measured: Mutex::default(),
        }
    }

    /// From here on `bytes_per_second` are allowed.
    pub(crate) fn set_limit(&self, bytes_per_second: u64) {
        self.limit.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Whether there is a limit at all.
    pub(crate) fn is_limited(&self) -> bool {
        // The default, which is the largest number of its type, means none.
        self.limit.load(Ordering::Relaxed) < i64::MAX.unsigned_abs()
    }

    /// Counts `bytes` of throttled replicas.
    pub(crate) fn record(&self, now: Instant, bytes: u64) {
        if bytes == 0 || !self.is_limited() {
            return;
        }
        let number = self.number_of(now);
        let mut measured = self.measured.lock();
        measured.forget_before(number, self.windows);
        match measured.windows.back_mut() {
            Some((last, sum)) if *last == number => *sum += bytes,
            _ => measured.windows.push_back((number, bytes)),
        }
    }

    /// Whether more was transferred than is allowed.
    pub(crate) fn is_exceeded(&self, now: Instant) -> bool {
        if !self.is_limited() {
            return false;
        }
        let number = self.number_of(now);
        let mut measured = self.measured.lock();
        measured.forget_before(number, self.windows);
        let Some(&(first, _)) = measured.windows.front() else { return false };
        let bytes: u64 = measured.windows.iter().map(|(_, bytes)| bytes).sum();
        // As long as it has been measured, and one window at least.
        let began = self.window.saturating_mul(u32::try_from(first).unwrap_or(u32::MAX));
        let span = now.0.saturating_sub(began).max(self.window);
        let limit = u128::from(self.limit.load(Ordering::Relaxed));
        u128::from(bytes) * 1_000 > limit * span.as_millis()
    }

    fn number_of(&self, now: Instant) -> u64 {
        u64::try_from(now.0.as_nanos() / self.window.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Measured {
    fn forget_before(&mut self, current: u64, kept: usize) {
        while self.windows.front().is_some_and(|(number, _)| number + kept as u64 <= current) {
            self.windows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(Duration::from_millis(millis))
    }

    #[test]
    fn a_burst_is_paid_off_at_the_rate() {
        let throttle = ReplicationThrottle::new(11, Duration::from_secs(1));
        throttle.record(at(500), 1 << 30);
        assert!(!throttle.is_exceeded(at(500)), "no limit");
        throttle.set_limit(1_000);
        throttle.record(at(100_000), 5_000);
        assert!(throttle.is_exceeded(at(100_001)));
        assert!(throttle.is_exceeded(at(104_900)));
        assert!(!throttle.is_exceeded(at(105_000)), "5,000 bytes in 5 seconds");
        throttle.record(at(105_000), 1);
        assert!(throttle.is_exceeded(at(105_000)));
        assert!(!throttle.is_exceeded(at(111_000)), "the burst is out of sight");
    }

    #[test]
    fn the_lists_name_partitions_with_brokers_or_all() {
        let parse = |items: &[&str]| {
            ThrottledReplicas::parse(&items.iter().map(|&i| i.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&[]), ThrottledReplicas::None);
        assert!(parse(&["*"]).contains(7, 3));
        let listed = parse(&["0:1", "1:2"]);
        assert!(listed.contains(1, 2) && !listed.contains(1, 1) && !listed.contains(2, 2));
    }
}
