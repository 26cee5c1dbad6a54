//! S5: a leader's high watermark does not go back in its epoch, nor does the end that clients are told.

use super::{Invariant, Verdict};
use crate::facts::{Facts, ReplicaStep};
use crate::history::Seen;
use broker::RoleView;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub(super) struct HighWatermarkNeverGoesBack {
    /// The ends that clients were told, and when they knew; both ascending.
    told: BTreeMap<i32, Vec<(Duration, i64)>>,
}

impl Invariant for HighWatermarkNeverGoesBack {
    fn name(&self) -> &'static str {
        "S5: the high watermark never goes back"
    }

    fn replica(&mut self, _facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(before) = step.before else { return Ok(()) };
        let leads = |role| matches!(role, RoleView::Leader { .. });
        let same = leads(before.role)
            && leads(step.after.role)
            && before.leader_epoch == step.after.leader_epoch;
        let (Some(old), Some(new)) = (&before.log, &step.after.log) else { return Ok(()) };
        if new.high_watermark > new.log_end_offset || new.log_start_offset > new.high_watermark {
            return Err(format!("broker {}, partition {}: {new:?}", step.broker, step.partition));
        }
        match same && new.high_watermark < old.high_watermark {
            false => Ok(()),
            true => Err(format!(
                "broker {} leads partition {} in epoch {}: {} after {}",
                step.broker,
                step.partition,
                step.after.leader_epoch.0,
                new.high_watermark.0,
                old.high_watermark.0
            )),
        }
    }

    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        let Seen::Latest { partition, offset, asked_at } = seen else { return Ok(()) };
        let told = self.told.entry(*partition).or_default();
        let before = told.partition_point(|(known_at, _)| known_at < asked_at);
        if let Some((known_at, known)) = before.checked_sub(1).and_then(|at| told.get(at))
            && known > offset
        {
            return Err(format!(
                "partition {partition} ended at {known} at {known_at:?}; asked at {asked_at:?} it ends at {offset}"
            ));
        }
        let highest = told.last().map_or(*offset, |(_, known)| *known.max(offset));
        told.push((facts.now, highest));
        Ok(())
    }
}
