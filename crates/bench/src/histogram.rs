//! Latencies by logarithmic buckets: constant memory, 1.6 % resolution.

use std::time::Duration;

const STEPS_PER_DOUBLING: u32 = 64;

/// Counts of durations.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * STEPS_PER_DOUBLING as usize], total: 0 }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.total += other.total;
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Microseconds that `share` (0 to 1) of the recorded durations do not exceed; 0 if there are none.
    pub(crate) fn quantile_us(&self, share: f64) -> f64 {
        let wanted = share * self.total as f64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if count > 0 && seen as f64 >= wanted {
                return upper_bound(bucket) / 1000.0;
            }
        }
        0.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }
}

fn bucket(nanoseconds: u64) -> usize {
    let doubling = nanoseconds.ilog2();
    let within = (u128::from(nanoseconds) * u128::from(STEPS_PER_DOUBLING)) >> doubling;
    (doubling * STEPS_PER_DOUBLING) as usize + (within as usize - STEPS_PER_DOUBLING as usize)
}

fn upper_bound(bucket: usize) -> f64 {
    let steps = STEPS_PER_DOUBLING as usize;
    let within = (bucket % steps + 1) as f64 / f64::from(STEPS_PER_DOUBLING);
    2f64.powf((bucket / steps) as f64) * (1.0 + within)
}

#[test]
fn quantiles_are_within_two_percent() {
    let mut histogram = Histogram::default();
    (1..=10_000).for_each(|us| histogram.record(Duration::from_micros(us)));
    for (share, expected) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.999, 9_990.0)] {
        let found = histogram.quantile_us(share);
        assert!((found / expected - 1.0).abs() < 0.02, "{share}: {found}");
    }
}
