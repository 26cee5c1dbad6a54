//! S4: who becomes leader holds everything that was committed in earlier epochs.
//!
//! Who hears late that it was elected may lack what leaders of later epochs committed since; it is fenced by then.

use super::{Invariant, Verdict};
use crate::facts::{Facts, ReplicaStep};
use broker::RoleView;

pub(super) struct LeaderIsComplete;

impl Invariant for LeaderIsComplete {
    fn name(&self) -> &'static str {
        "S4: a leader holds all that is committed"
    }

    fn replica(&mut self, facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let RoleView::Leader { .. } = step.after.role else { return Ok(()) };
        let was = |before: &broker::ReplicaView| {
            matches!(before.role, RoleView::Leader { .. })
                && before.leader_epoch == step.after.leader_epoch
        };
        if step.before.is_some_and(was) {
            return Ok(());
        }
        let Some(log) = &step.after.log else { return Ok(()) };
        let who = format!(
            "broker {} leads partition {} in epoch {}",
            step.broker, step.partition, step.after.leader_epoch.0
        );
        let end = facts.committed_before(step.partition, step.after.leader_epoch.0);
        if log.log_end_offset.0 < end {
            return Err(format!("{who}: it ends at {}, committed {end}", log.log_end_offset.0));
        }
        let Some(records) = (step.read)(log.log_start_offset.0, end) else { return Ok(()) };
        for (offset, record) in records {
            let committed = facts.committed(step.partition, offset);
            if committed != Some(&record) {
                return Err(format!("{who}: at {offset} {record:?}, committed {committed:?}"));
            }
        }
        Ok(())
    }
}
