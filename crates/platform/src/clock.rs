//! Time: the only module that reads the system's clocks.

use model::{Instant, Timestamp};
use std::fmt::Debug;

/// A source of time.
pub trait Clock: Debug + Send + Sync {
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Instant;

    /// Wall-clock time; may jump either way.
    fn timestamp(&self) -> Timestamp;
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the door to the clock")]
    pub fn new() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant(self.start.elapsed())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door to the clock")]
    fn timestamp(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the system clock is after 1970");
        Timestamp(
            i64::try_from(since_epoch.as_millis())
                .expect("the system clock is before the year 292 million"),
        )
    }
}

/// A clock that stands still until it is moved; for tests and simulation.
#[derive(Debug, Default)]
pub struct ManualClock {
    times: std::sync::Mutex<(Instant, Timestamp)>,
}

impl ManualClock {
    /// A clock at monotonic zero that shows `timestamp`.
    #[must_use]
    pub fn at(timestamp: Timestamp) -> Self {
        Self { times: std::sync::Mutex::new((Instant::default(), timestamp)) }
    }

    /// Lets `span` pass on both clocks.
    pub fn advance(&self, span: std::time::Duration) {
        let mut times = self.times.lock().expect("no holder panics");
        times.0 = times.0 + span;
        times.1.0 += i64::try_from(span.as_millis()).expect("a test's span is short");
    }

    /// Makes the wall clock jump to `timestamp`; monotonic time is not affected.
    pub fn jump_to(&self, timestamp: Timestamp) {
        self.times.lock().expect("no holder panics").1 = timestamp;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.times.lock().expect("no holder panics").0
    }

    fn timestamp(&self) -> Timestamp {
        self.times.lock().expect("no holder panics").1
    }
}
