//! How long a leader may be sure that it still leads.
//!
//! A leader that was replaced does not know it before it is told, and it may be cut off from whoever tells.
//! What it acknowledges to `acks=all` is safe all the same: the replicas that could have become leader
//! would have to copy it, and a new leader copies nothing. Reads, `acks=1` and ListOffsets have no such
//! guard, so they are served only while one of these says that nobody else can lead yet:
//!
//! - *the session*: the store keeps it for its whole timeout after it last confirmed it, and with it the
//!   registration that the controller goes by. Two thirds of that count here, from the sending of the
//!   request that was answered. Only for leaderships that the controller announced to this registration: one
//!   that was lost and made anew says nothing of what happened in between.
//! - *the followers*: whoever fetches from this leader leads nothing newer, and none but the in-sync
//!   replicas (all, if elections may be unclean or others may be eligible) can be elected. So a store that is gone
//!   altogether stops nothing while enough are in sync, and a leader that is the only one in sync, and enough, needs
//!   neither. A fetch counts from the arrival of the one before it in its session: that it came after, while it may
//!   have waited here unread.
//!
//! Source: `barnabas.leader.lease.enable`; decisions 9 and 15 in `docs/decisions`.

use controller::{RegistrationListener, SessionReader};
use model::{BrokerEpoch, Instant};
use platform::Clock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What all leaders of a broker go by. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct LeaderLease(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    enabled: bool,
    clock: Arc<dyn Clock>,
    /// There once the broker has joined its cluster; before that nobody made it a leader.
    session: OnceLock<SessionReader>,
    /// Until when the session is known to hold, in nanoseconds of the clock: spares looking.
    holds_until: AtomicU64,
    /// Leaderships that were announced to registrations below this epoch are void for the session.
    void_below: AtomicI64,
    /// When the registration was last lost, in nanoseconds: fetches before that prove nothing.
    lost_at: AtomicU64,
}

impl LeaderLease {
    pub(crate) fn new(enabled: bool, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            enabled,
            clock,
            session: OnceLock::new(),
            holds_until: AtomicU64::new(0),
            void_below: AtomicI64::new(i64::MIN),
            lost_at: AtomicU64::new(0),
        }))
    }

    /// From now on the session is looked at.
    pub(crate) fn set_session(&self, session: SessionReader) {
        assert!(self.0.session.set(session).is_ok(), "a broker joins its cluster once");
    }

    /// Whether the session says that a leadership announced to `registration` still stands.
    pub(crate) fn confirms(&self, registration: BrokerEpoch) -> bool {
        let shared = &*self.0;
        if !shared.enabled {
            return true;
        }
        if registration.0 < shared.void_below.load(Ordering::Acquire) {
            return false;
        }
        let Some(session) = shared.session.get() else { return true };
        let now = nanos(shared.clock.now());
        if now < shared.holds_until.load(Ordering::Acquire) {
            return true;
        }
        let Some(lease) = session.lease() else { return true };
        let until = nanos(lease.confirmed_at + length(lease.timeout));
        shared.holds_until.store(until, Ordering::Release);
        // What was lost meanwhile is not brought back by an older look.
        now < until && registration.0 >= shared.void_below.load(Ordering::Acquire)
    }

    /// Since when every other replica must have fetched, if the session does not confirm a leadership.
    pub(crate) fn evidence_since(&self) -> Instant {
        let shared = &*self.0;
        let now = shared.clock.now();
        let lease = shared.session.get().and_then(SessionReader::lease);
        let length = lease.map_or(Duration::ZERO, |lease| length(lease.timeout));
        let lost_at = Duration::from_nanos(shared.lost_at.load(Ordering::Acquire));
        Instant(now.0.saturating_sub(length).max(lost_at))
    }
}

impl RegistrationListener for LeaderLease {
    fn registration_lost(&self, epoch: BrokerEpoch) {
        let shared = &*self.0;
        shared.lost_at.fetch_max(nanos(shared.clock.now()), Ordering::AcqRel);
        shared.void_below.fetch_max(epoch.0.saturating_add(1), Ordering::AcqRel);
        shared.holds_until.store(0, Ordering::Release);
    }
}

/// How much of a session's timeout counts: the rest is for clocks that run apart, and for what is under way.
fn length(timeout: Duration) -> Duration {
    timeout / 3 * 2
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.0.as_nanos()).unwrap_or(u64::MAX)
}
