//! S9: controller epochs strictly grow, and no state is written in one that has passed.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState};

pub(super) struct OneControllerPerEpoch;

impl Invariant for OneControllerPerEpoch {
    fn name(&self) -> &'static str {
        "S9: one controller per epoch"
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        match state.controller_epoch == facts.controller_epoch {
            true => Ok(()),
            false => Err(format!(
                "partition {partition} is written by controller epoch {} in {}",
                state.controller_epoch, facts.controller_epoch
            )),
        }
    }

    fn controller_epoch_written(&mut self, facts: &Facts, epoch: i64) -> Verdict {
        match epoch > facts.controller_epoch {
            true => Ok(()),
            false => Err(format!("{epoch} after {}", facts.controller_epoch)),
        }
    }
}
