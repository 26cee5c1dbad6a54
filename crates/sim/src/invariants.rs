//! What must always hold: one file each, named after what it says. Numbers are those of the reliability
//! reference, section 2.2.
//!
//! They are told of each replica after each step of its broker, of each record as it becomes committed, of
//! what clients see, of what is written to the store, and of the end, when everything must be whole.

mod acked_is_durable;
mod acked_offset_is_true;
mod acks_all_needs_min_insync;
mod commits_never_go_back;
mod durable_survives;
mod epochs_follow_the_log;
mod epochs_only_grow;
mod high_watermark_needs_the_isr;
mod high_watermark_never_goes_back;
mod idempotent_records_appear_once;
mod instances_are_not_fenced;
mod isr_is_within_replicas;
mod leader_is_complete;
mod leaders_come_from_the_isr;
mod logs_match;
mod metadata_never_goes_back;
mod one_controller_per_epoch;
mod one_owner_per_generation;
mod producers_follow_the_log;
mod reads_are_committed;
mod retries_are_in_order;

use crate::facts::{Facts, LoggedRecord, PartitionState, ReplicaStep, Told};
use crate::history::Seen;

/// Whether it holds; if not, why not.
pub type Verdict = Result<(), String>;

/// A rule. It is told of what concerns it, in the order in which it happens.
pub trait Invariant: Send {
    /// What it says.
    fn name(&self) -> &'static str;

    /// A broker made a step: this is one of its replicas.
    fn replica(&mut self, _facts: &Facts, _step: &ReplicaStep<'_>) -> Verdict {
        Ok(())
    }

    /// A broker tells clients something else of a partition.
    fn told(&mut self, _facts: &Facts, _told: &Told) -> Verdict {
        Ok(())
    }

    /// A record is committed now that was not before.
    fn committed(
        &mut self,
        _facts: &Facts,
        _partition: i32,
        _offset: i64,
        _record: &LoggedRecord,
    ) -> Verdict {
        Ok(())
    }

    /// A client saw something.
    fn seen(&mut self, _facts: &Facts, _seen: &Seen) -> Verdict {
        Ok(())
    }

    /// A partition's state was written: `facts` has the one before.
    fn state_written(
        &mut self,
        _facts: &Facts,
        _partition: i32,
        _state: &PartitionState,
    ) -> Verdict {
        Ok(())
    }

    /// `/controller_epoch` was written: `facts` has the one before.
    fn controller_epoch_written(&mut self, _facts: &Facts, _epoch: i64) -> Verdict {
        Ok(())
    }

    /// Everything is whole again, and was read to its end by a client that was not there before.
    fn whole(&mut self, _facts: &Facts) -> Verdict {
        Ok(())
    }
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<acked_is_durable::AckedIsDurable>::default(),
        Box::new(acked_offset_is_true::AckedOffsetIsTrue),
        Box::<logs_match::LogsMatch>::default(),
        Box::new(leader_is_complete::LeaderIsComplete),
        Box::<high_watermark_never_goes_back::HighWatermarkNeverGoesBack>::default(),
        Box::<high_watermark_needs_the_isr::HighWatermarkNeedsTheIsr>::default(),
        Box::new(reads_are_committed::ReadsAreCommitted),
        Box::<epochs_follow_the_log::EpochsFollowTheLog>::default(),
        Box::new(one_controller_per_epoch::OneControllerPerEpoch),
        Box::<metadata_never_goes_back::MetadataNeverGoesBack>::default(),
        Box::new(isr_is_within_replicas::IsrIsWithinReplicas),
        Box::<epochs_only_grow::EpochsOnlyGrow>::default(),
        Box::<acks_all_needs_min_insync::AcksAllNeedsMinInsync>::default(),
        Box::new(leaders_come_from_the_isr::LeadersComeFromTheIsr),
        Box::<idempotent_records_appear_once::IdempotentRecordsAppearOnce>::default(),
        Box::<retries_are_in_order::RetriesAreInOrder>::default(),
        Box::<commits_never_go_back::CommitsNeverGoBack>::default(),
        Box::<one_owner_per_generation::OneOwnerPerGeneration>::default(),
        Box::new(instances_are_not_fenced::InstancesAreNotFenced),
        Box::<durable_survives::DurableSurvives>::default(),
        Box::new(producers_follow_the_log::ProducersFollowTheLog),
    ]
}

#[cfg(test)]
mod tests;
