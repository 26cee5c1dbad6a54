//! The highest controller epoch that a broker's data directory remembers.

use model::ControllerEpoch;
use std::fmt::Debug;

/// Remembers the highest controller epoch that this broker has acted in, across restarts.
///
/// Epochs only grow. A store whose `/controller_epoch` is lower was restored from an old copy: nobody may lead or
/// follow by what it says. Source: fault F-D7 and invariant S11; decision 14 in `docs/decisions`.
pub trait EpochRecord: Debug + Send + Sync {
    /// The highest epoch that was recorded for this cluster; zero if there is none or it cannot be read.
    fn highest(&self) -> ControllerEpoch;

    /// Records `epoch`, durably, if it is higher than what is recorded; costs nothing if it is not. A record that
    /// cannot be written is reported here: it costs no more than the protection after the next restart.
    fn raise(&self, epoch: ControllerEpoch);
}

/// For a store that lies in the same directory, and cannot be older than the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEpochRecord;

impl EpochRecord for NoEpochRecord {
    fn highest(&self) -> ControllerEpoch {
        ControllerEpoch(0)
    }

    fn raise(&self, _: ControllerEpoch) {}
}
