//! S3: below its high watermark every replica holds what is committed, and nothing else.

use super::{Invariant, Verdict};
use crate::facts::{Facts, ReplicaStep};
use std::collections::BTreeMap;

/// How far each replica was compared.
#[derive(Default)]
pub(super) struct LogsMatch {
    compared: BTreeMap<(i32, i32), i64>,
}

impl Invariant for LogsMatch {
    fn name(&self) -> &'static str {
        "S3: logs match below the high watermark"
    }

    fn replica(&mut self, facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(log) = &step.after.log else { return Ok(()) };
        let compared = self.compared.entry((step.broker, step.partition)).or_default();
        // After a start everything is compared anew, after a truncation what may be other records.
        if step.before.is_none_or(|before| before.log.is_none()) {
            *compared = log.log_start_offset.0;
        }
        *compared = (*compared).min(log.log_end_offset.0);
        let (end, committed) = (log.high_watermark.0, facts.committed_end(step.partition));
        if end > committed {
            return Err(format!(
                "broker {} takes partition {} for committed up to {end}; it is up to {committed}",
                step.broker, step.partition
            ));
        }
        if end <= *compared {
            return Ok(());
        }
        let Some(records) = (step.read)(*compared, end) else { return Ok(()) };
        let mut next = *compared;
        for (offset, record) in records {
            let committed = facts.committed(step.partition, offset);
            if offset != next || committed != Some(&record) {
                return Err(format!(
                    "broker {}, partition {}: at {offset} (expected {next}) {record:?}, committed {committed:?}",
                    step.broker, step.partition
                ));
            }
            next = offset + 1;
        }
        if next != end {
            return Err(format!(
                "broker {}, partition {}: its records end at {next}, its high watermark is {end}",
                step.broker, step.partition
            ));
        }
        *compared = end;
        Ok(())
    }
}
