//! D1: what a log counted as durable is there after whatever befell its machine, and is what was there before.

use super::{Invariant, Verdict};
use crate::facts::{Facts, LoggedRecord, ReplicaStep};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct DurableSurvives {
    /// By partition and broker: the durable end, and the last record below it.
    durable: BTreeMap<(i32, i32), (i64, Option<LoggedRecord>)>,
}

impl Invariant for DurableSurvives {
    fn name(&self) -> &'static str {
        "D1: what is durable survives"
    }

    fn replica(&mut self, _facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(log) = &step.after.log else { return Ok(()) };
        let key = (step.partition, step.broker);
        let last_below = |end: i64| {
            let records = (step.read)((end - 1).max(log.log_start_offset.0), end)?;
            records.last().map(|(_, record)| *record)
        };
        let is_opened = step.before.is_none_or(|before| before.log.is_none());
        if is_opened && let Some((end, last)) = self.durable.get(&key) {
            if log.log_end_offset.0 < *end {
                return Err(format!(
                    "broker {}, partition {}: durable up to {end}, and there up to {}",
                    step.broker, step.partition, log.log_end_offset.0
                ));
            }
            let found = last_below(*end);
            if last.is_some() && found.is_some() && found != *last {
                return Err(format!(
                    "broker {}, partition {}: {last:?} was durable before {end}, there is {found:?}",
                    step.broker, step.partition
                ));
            }
        }
        let end = log.durable_offset.0.min(log.log_end_offset.0);
        if self.durable.get(&key).is_none_or(|known| known.0 != end) || is_opened {
            self.durable.insert(key, (end, last_below(end)));
        }
        Ok(())
    }
}
