//! S12, rule R3: a leader's high watermark moves only while enough replicas are in sync for its own view of the ISR, and
//! only to where every member of the ISR holds the log; of the ISR that the store has, which others elect from.
//! Who comes into an ISR holds all that is committed.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState, ReplicaStep};
use broker::RoleView;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct HighWatermarkNeedsTheIsr {
    /// Where each replica's log ended last, by partition and broker.
    ends: BTreeMap<(i32, i32), i64>,
}

impl Invariant for HighWatermarkNeedsTheIsr {
    fn name(&self) -> &'static str {
        "S12: the high watermark needs the ISR"
    }

    fn replica(&mut self, facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(log) = &step.after.log else { return Ok(()) };
        self.ends.insert((step.partition, step.broker), log.log_end_offset.0);
        let RoleView::Leader { .. } = step.after.role else { return Ok(()) };
        let Some(before) = step.before else { return Ok(()) };
        let Some(known) = &before.log else { return Ok(()) };
        let end = log.high_watermark.0;
        if end <= known.high_watermark.0 || before.leader_epoch != step.after.leader_epoch {
            return Ok(());
        }
        let Some(partition) = facts.partitions.get(&step.partition) else { return Ok(()) };
        let wanted = facts.min_insync.min(partition.replicas.len());
        let who = format!(
            "broker {} moves the high watermark of partition {} to {end} in epoch {}",
            step.broker, step.partition, step.after.leader_epoch.0
        );
        let is_enough = |isr: &[model::BrokerId]| isr.len() >= wanted;
        if !is_enough(&before.isr) && !is_enough(&step.after.isr) {
            return Err(format!("{who} with an ISR of {:?}", step.after.isr));
        }
        let state = partition.state.as_ref().filter(|state| {
            state.leader == step.broker
                && state.leader_epoch == i64::from(step.after.leader_epoch.0)
        });
        let isr = state.map_or(&[][..], |state| &state.isr);
        let lacks = |id: &&i32| {
            !facts.doubtful.contains(&(step.partition, **id))
                && self.ends.get(&(step.partition, **id)).is_some_and(|own| *own < end)
        };
        match isr.iter().find(lacks) {
            None => Ok(()),
            Some(id) => Err(format!("{who}: {id} is in the ISR and ends before: {:?}", self.ends)),
        }
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let known = facts.partitions.get(&partition).and_then(|facts| facts.state.as_ref());
        let Some(known) = known else { return Ok(()) };
        let end = facts.committed_end(partition);
        let lacks = |id: &&i32| {
            !known.isr.contains(*id)
                && self.ends.get(&(partition, **id)).is_some_and(|own| *own < end)
        };
        match state.isr.iter().find(lacks) {
            None => Ok(()),
            Some(id) => Err(format!(
                "partition {partition}: {id} comes into {state:?}, and up to {end} is committed: {:?}",
                self.ends
            )),
        }
    }
}
