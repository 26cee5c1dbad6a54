//! The thread that looks at everything on the disks from time to time, so that what rots is found while there
//! are other replicas to mend it from.
//!
//! It goes through all partitions, looks at the segments that nobody has looked at for
//! `barnabas.log.scrub.interval.ms`, at most `barnabas.log.scrub.max.bytes.per.second`, and sleeps. When a segment
//! was looked at is when its `.checksums` file was modified, so that a restart does not begin anew.

use crate::Broker;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{Interrupted, Pace, ScrubError, Scrubbed};
use tracing::{info, warn};

/// It looks for what is due at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

/// A segment counts as so many bytes at least: to open it and to know it costs as much as to read it, and thousands of
/// small ones are not looked at in one go.
const LEAST_BYTES: u64 = 1 << 20;

/// The scrubber of one broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopping: Mutex<bool>,
    news: Condvar,
    bytes: AtomicU64,
    damaged: AtomicU64,
}

struct Paced<'a> {
    scrubber: &'a Scrubber,
    bytes_per_second: u64,
}

impl Pace for Paced<'_> {
    fn moved(&mut self, bytes: u64) -> Result<(), Interrupted> {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_second.max(1));
        let span = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        if self.scrubber.sleep(span) { Err(Interrupted) } else { Ok(()) }
    }
}

impl Scrubber {
    /// Works until [`Scrubber::stop`]; the thread's main function.
    pub(crate) fn run(&self, broker: &Broker) {
        if self.sleep(broker.config.load().log.initial_task_delay) {
            return;
        }
        loop {
            let settings = broker.config.load().log.scrub;
            let Some(interval) = settings.interval else {
                if self.sleep(LONGEST_SLEEP) {
                    return;
                }
                continue;
            };
            let mut pace = Paced { scrubber: self, bytes_per_second: settings.bytes_per_second };
            if self.look_at_all(broker, interval, &mut pace).is_err()
                || self.sleep((interval / 8).min(LONGEST_SLEEP))
            {
                return;
            }
        }
    }

    /// Looks at everything that is due.
    fn look_at_all(
        &self,
        broker: &Broker,
        interval: Duration,
        pace: &mut dyn Pace,
    ) -> Result<(), Interrupted> {
        let mut total = Scrubbed::default();
        let mut count = 0_u64;
        for partition in broker.partitions.all() {
            let due = broker.clock.timestamp() - interval;
            let seen = partition.scrub(due, &mut |segment| {
                let outcome = segment.run(broker.clock.timestamp(), pace);
                if let Ok(scrubbed) = &outcome {
                    count += 1;
                    total.bytes += scrubbed.bytes;
                    total.damaged += scrubbed.damaged;
                    self.shared.bytes.fetch_add(scrubbed.bytes, Ordering::Relaxed);
                    self.shared.damaged.fetch_add(scrubbed.damaged, Ordering::Relaxed);
                    let rest = LEAST_BYTES.saturating_sub(scrubbed.bytes);
                    pace.moved(rest).map_err(|_| ScrubError::Interrupted)?;
                }
                outcome
            });
            match seen {
                Ok(()) => {}
                Err(ScrubError::Interrupted) => return Err(Interrupted),
                Err(ScrubError::Disk(error)) => {
                    warn!(%partition, error = &error as &dyn std::error::Error, "its log cannot be looked at");
                }
            }
        }
        if count > 0 {
            info!(
                segments = count,
                bytes = total.bytes,
                damaged = total.damaged,
                bytes_since_start = self.shared.bytes.load(Ordering::Relaxed),
                damaged_since_start = self.shared.damaged.load(Ordering::Relaxed),
                "looked at segments on the disks"
            );
        }
        Ok(())
    }

    /// Sleeps; whether to stop.
    fn sleep(&self, span: Duration) -> bool {
        let mut is_stopping = self.shared.is_stopping.lock();
        if !*is_stopping && !span.is_zero() {
            self.shared.news.wait_for(&mut is_stopping, span);
        }
        *is_stopping
    }

    /// Interrupts what is going on and lets the thread return.
    pub(crate) fn stop(&self) {
        *self.shared.is_stopping.lock() = true;
        self.shared.news.notify_all();
    }
}
