//! Space that stays free on a log directory's volume, so that the broker can always start again, delete, compact
//! and write its checkpoints: `barnabas.disk.reserve.bytes`. What would take of it is refused before it is
//! written, and nothing is half written then.
//!
//! Asking the system costs a call, so it is asked once for [`LOOK_AFTER`] bytes of appends, more often the nearer
//! the reserve is, and with each append while there is too little.

use platform::disk::Space;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tracing::{info, warn};

/// The volume is looked at again after so many bytes: others may write to it too.
const LOOK_AFTER: u64 = 64 << 20;

/// What is kept free if nobody says otherwise: this, or a twentieth of the volume if that is less.
const USUAL_RESERVE: u64 = 1 << 30;

/// The reserve of one log directory.
#[derive(Debug)]
pub(crate) struct Headroom {
    /// `barnabas.disk.reserve.bytes`; `None` for [`USUAL_RESERVE`].
    reserve: Option<u64>,
    /// What may be appended before the volume is looked at again; negative if it must be.
    budget: AtomicI64,
    /// Whether too little was free at the last look.
    is_short: AtomicBool,
}

/// Too little is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// What the broker could use, in bytes.
    pub(crate) usable: u64,
    /// What is to stay free, in bytes.
    pub(crate) kept: u64,
}

impl Headroom {
    pub(crate) fn new(reserve: Option<u64>) -> Self {
        Self { reserve, budget: AtomicI64::new(-1), is_short: AtomicBool::new(false) }
    }

    /// Whether `bytes` may be appended; looks at the volume of `path` if need be. One that cannot be looked at is for
    /// the write to report.
    pub(crate) fn take(
        &self,
        bytes: u64,
        path: &Path,
        look: impl FnOnce() -> io::Result<Space>,
    ) -> Result<(), Shortage> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.budget.fetch_sub(bytes, Ordering::Relaxed) >= bytes {
            return Ok(());
        }
        self.budget.store(-1, Ordering::Relaxed);
        let Ok(space) = look() else { return Ok(()) };
        let kept = self.kept(space);
        let needed = kept.saturating_add(bytes.unsigned_abs());
        let is_short = space.usable < needed;
        if self.is_short.swap(is_short, Ordering::Relaxed) != is_short {
            let (directory, usable) = (path.display(), space.usable);
            match is_short {
                true => warn!(
                    %directory, usable, kept,
                    "appends are refused: only barnabas.disk.reserve.bytes is free on the volume"
                ),
                false => info!(%directory, usable, "there is room for appends again"),
            }
        }
        if is_short {
            return Err(Shortage { usable: space.usable, kept });
        }
        // Indexes, snapshots and others take of it too.
        let budget = ((space.usable - needed) / 2).min(LOOK_AFTER);
        self.budget.store(i64::try_from(budget).unwrap_or(i64::MAX), Ordering::Relaxed);
        Ok(())
    }

    /// Whether there is enough for a log that was without room to be used again, and not for a moment only.
    pub(crate) fn is_ample(&self, space: Space) -> bool {
        let kept = self.kept(space);
        space.usable >= (kept + kept / 4).max(usual(space))
    }

    fn kept(&self, space: Space) -> u64 {
        self.reserve.unwrap_or_else(|| usual(space))
    }
}

fn usual(space: Space) -> u64 {
    USUAL_RESERVE.min(space.total / 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MIB: u64 = 1 << 20;

    fn space(total: u64, usable: u64) -> Space {
        Space { total, usable }
    }

    fn take(headroom: &Headroom, bytes: u64, found: Space) -> Result<(), Shortage> {
        headroom.take(bytes, Path::new("/data"), || Ok(found))
    }

    #[test]
    fn what_would_take_of_the_reserve_is_refused_until_there_is_room_again() {
        let headroom = Headroom::new(None);
        let kept = 50 * MIB;
        assert_eq!(take(&headroom, 1, space(1000 * MIB, kept + 1)), Ok(()), "the last byte");
        let shortage = Shortage { usable: kept + 1, kept };
        assert_eq!(take(&headroom, 2, space(1000 * MIB, kept + 1)), Err(shortage));
        assert_eq!(take(&headroom, 1, space(1000 * MIB, kept + 1)), Ok(()), "looked at each time");
        assert!(!headroom.is_ample(space(1000 * MIB, kept + MIB)), "would be full at once");
        assert!(headroom.is_ample(space(1000 * MIB, kept * 5 / 4)));
    }

    #[test]
    fn a_twentieth_is_kept_of_small_volumes_and_a_gibibyte_of_large_ones() {
        let kept = |total| take(&Headroom::new(None), 1, space(total, 0)).unwrap_err().kept;
        assert_eq!(kept(64 * MIB), 64 * MIB / 20);
        assert_eq!(kept(1 << 44), 1 << 30);
        let own = take(&Headroom::new(Some(7)), 1, space(1 << 44, 7));
        assert_eq!(own, Err(Shortage { usable: 7, kept: 7 }));
        assert_eq!(take(&Headroom::new(Some(0)), 1, space(MIB, 1)), Ok(()), "switched off");
    }

    #[test]
    fn the_volume_is_looked_at_once_for_many_appends() {
        let (headroom, looks) = (Headroom::new(Some(0)), Cell::new(0));
        for _ in 0..128 {
            let look = || {
                looks.set(looks.get() + 1);
                Ok(space(1 << 40, 1 << 40))
            };
            headroom.take(MIB, Path::new("/data"), look).unwrap();
        }
        assert_eq!(looks.get(), 2, "once for {LOOK_AFTER} bytes");
    }

    #[test]
    fn a_volume_that_cannot_be_looked_at_refuses_nothing() {
        let look = || Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(Headroom::new(None).take(1, Path::new("/data"), look), Ok(()));
    }
}
