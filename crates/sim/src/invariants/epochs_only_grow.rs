//! S11: leader epochs only grow, in the store and as brokers know them; no two brokers lead in the same.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState, ReplicaStep};
use broker::RoleView;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct EpochsOnlyGrow {
    leaders: BTreeMap<(i32, i32), i32>,
}

impl Invariant for EpochsOnlyGrow {
    fn name(&self) -> &'static str {
        "S11: leader epochs only grow"
    }

    fn replica(&mut self, _facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let (after, partition) = (step.after, step.partition);
        if let Some(before) = step.before
            && (before.leader_epoch, before.partition_epoch)
                > (after.leader_epoch, after.partition_epoch)
        {
            return Err(format!(
                "broker {} goes back from epochs {:?} to {:?} of partition {partition}",
                step.broker,
                (before.leader_epoch.0, before.partition_epoch.0),
                (after.leader_epoch.0, after.partition_epoch.0)
            ));
        }
        match after.role {
            RoleView::Leader { .. } | RoleView::Appointed => {
                let key = (partition, after.leader_epoch.0);
                let known = *self.leaders.entry(key).or_insert(step.broker);
                match known == step.broker {
                    true => Ok(()),
                    false => Err(format!(
                        "brokers {known} and {} both lead partition {partition} in epoch {}",
                        step.broker, after.leader_epoch.0
                    )),
                }
            }
            RoleView::Follower(_) | RoleView::Unassigned => Ok(()),
        }
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let known = facts.partitions.get(&partition).and_then(|facts| facts.state.as_ref());
        match known {
            Some(known) if known.leader_epoch > state.leader_epoch => {
                Err(format!("partition {partition}: {known:?}, then {state:?}"))
            }
            Some(known)
                if known.leader != state.leader && known.leader_epoch == state.leader_epoch =>
            {
                Err(format!("partition {partition}: a new leader in the same epoch: {state:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
