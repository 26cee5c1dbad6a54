//! Trying again: how long, how often, and who is told why.

use crate::ClientError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest pause between two attempts (`retry.backoff.max.ms`, KIP-580).
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// Is told of every attempt that failed and is made again: why, and for how long the operation has been
/// failing by then. Does nothing unless given something to do.
#[derive(Clone, Default)]
pub struct OnRetry(Option<Arc<Tell>>);

type Tell = dyn Fn(&ClientError, Duration) + Send + Sync;

impl OnRetry {
    /// Calls `tell`, from whichever task tries.
    #[must_use]
    pub fn new(tell: impl Fn(&ClientError, Duration) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    fn tell(&self, error: &ClientError, failing_for: Duration) {
        if let Some(tell) = &self.0 {
            tell(error, failing_for);
        }
    }
}

impl fmt::Debug for OnRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnRetry").field(&self.0.is_some()).finish()
    }
}

/// The attempts of one operation: pauses between them that double up to a second, until its time is up.
#[derive(Debug)]
pub struct Retry {
    first_backoff: Duration,
    backoff: Duration,
    /// When the operation failed first.
    failing_since: Option<Instant>,
    /// How long to go on from then; for ever if none.
    time: Option<Duration>,
    on_retry: OnRetry,
}

impl Retry {
    pub(crate) fn new(backoff: Duration, time: Option<Duration>, on_retry: OnRetry) -> Self {
        let first_backoff = backoff.clamp(Duration::from_millis(1), LONGEST_BACKOFF);
        Self { first_backoff, backoff: first_backoff, failing_since: None, time, on_retry }
    }

    /// Waits, if another attempt can help against `error` and there is time for one; else false.
    pub async fn again(&mut self, error: &ClientError) -> bool {
        error.is_retriable() && self.wait(error).await
    }

    /// Waits before another attempt, whatever the error; false if there is no time for one.
    pub async fn wait(&mut self, error: &ClientError) -> bool {
        let Some(pause) = self.failed(error) else { return false };
        sleep(pause).await;
        true
    }

    /// How long to wait before another attempt; none if there is no time for one.
    pub fn failed(&mut self, error: &ClientError) -> Option<Duration> {
        let now = Instant::now();
        let failing_for = now - *self.failing_since.get_or_insert(now);
        let left = match self.time {
            Some(time) => time.checked_sub(failing_for).filter(|left| !left.is_zero())?,
            None => Duration::MAX,
        };
        self.on_retry.tell(error, failing_for);
        let pause = self.backoff.min(left);
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        Some(pause)
    }

    /// The operation has succeeded: what fails next fails anew.
    pub fn succeeded(&mut self) {
        self.failing_since = None;
        self.backoff = self.first_backoff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ErrorCode;
    use std::sync::Mutex;

    fn error(code: ErrorCode) -> ClientError {
        ClientError::broker(code.code(), "test", None)
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_come_rarer_until_the_time_is_up_and_each_is_told() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        let on_retry =
            OnRetry::new(move |_, failing_for| to.lock().unwrap().push(failing_for.as_millis()));
        let time = Some(Duration::from_secs(4));
        let mut retry = Retry::new(Duration::from_millis(100), time, on_retry);
        let began = Instant::now();
        while retry.again(&error(ErrorCode::KafkaStorageError)).await {}
        assert_eq!(began.elapsed(), Duration::from_secs(4));
        assert_eq!(*told.lock().unwrap(), [0, 100, 300, 700, 1500, 2500, 3500]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_retry_helps_against_is_not_retried() {
        let mut retry = Retry::new(Duration::from_millis(100), None, OnRetry::default());
        assert!(!retry.again(&error(ErrorCode::InvalidConfig)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_success_everything_begins_anew() {
        let time = Some(Duration::from_secs(1));
        let mut retry = Retry::new(Duration::from_millis(100), time, OnRetry::default());
        while retry.again(&error(ErrorCode::KafkaStorageError)).await {}
        retry.succeeded();
        let began = Instant::now();
        assert!(retry.again(&error(ErrorCode::KafkaStorageError)).await);
        assert_eq!(began.elapsed(), Duration::from_millis(100));
    }
}
