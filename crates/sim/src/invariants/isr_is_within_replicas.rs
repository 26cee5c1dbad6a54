//! S10: who is in sync is a replica, and the leader is in sync; who comes into an ISR under its leader is registered; and
//! nobody is eligible (KIP-966) besides who is in sync, nor where enough are.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState};

pub(super) struct IsrIsWithinReplicas;

impl Invariant for IsrIsWithinReplicas {
    fn name(&self) -> &'static str {
        "S10: the leader is in the ISR, the ISR within the replicas"
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let Some(known) = facts.partitions.get(&partition) else { return Ok(()) };
        let is_within = state.isr.iter().all(|id| known.replicas.contains(id));
        let leads = state.leader == -1 || state.isr.contains(&state.leader);
        if !is_within || !leads || state.isr.is_empty() {
            return Err(format!("partition {partition} of {:?}: {state:?}", known.replicas));
        }
        // The list was written in the same transaction, before the state.
        let goes_with = known.eligible_with == (state.leader_epoch, state.isr.clone());
        let is_both = known.eligible.iter().any(|id| state.isr.contains(id));
        let is_enough = state.isr.len() >= facts.min_insync.min(known.replicas.len());
        if goes_with && (is_both || !known.eligible.is_empty() && state.leader != -1 && is_enough) {
            return Err(format!("partition {partition}: {state:?}, eligible {:?}", known.eligible));
        }
        let Some(before) = known.state.as_ref().filter(|before| before.leader == state.leader)
        else {
            return Ok(());
        };
        let mut joins = state.isr.iter().filter(|id| !before.isr.contains(id));
        match joins.find(|id| !facts.registered.contains_key(id)) {
            None => Ok(()),
            Some(id) => Err(format!("partition {partition}: {id} is not registered: {state:?}")),
        }
    }
}
