//! S8: leader epochs in a log do not decrease, each has one start, and what a replica knows of them is what its
//! log says.

use super::{Invariant, Verdict};
use crate::facts::{Facts, LoggedRecord, ReplicaStep};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct EpochsFollowTheLog {
    last: BTreeMap<i32, i32>,
}

impl Invariant for EpochsFollowTheLog {
    fn name(&self) -> &'static str {
        "S8: leader epochs follow the log"
    }

    fn replica(&mut self, _facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(log) = &step.after.log else { return Ok(()) };
        let before = step.before.and_then(|before| before.log.as_ref());
        let whose = || format!("broker {}, partition {}", step.broker, step.partition);
        if before.is_none_or(|before| before.epochs != log.epochs)
            && !log.epochs.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)
        {
            return Err(format!("{}: {:?}", whose(), log.epochs));
        }
        // All of it after a start and after a truncation, else what is new.
        let from = match before {
            Some(before) if before.log_end_offset <= log.log_end_offset => before.log_end_offset,
            Some(_) | None => log.log_start_offset,
        };
        if from >= log.log_end_offset {
            return Ok(());
        }
        let Some(records) = (step.read)(from.0, log.log_end_offset.0) else { return Ok(()) };
        for (offset, record) in records {
            let known = log.epochs.iter().rev().find(|(_, start)| start.0 <= offset);
            if known.map(|(epoch, _)| epoch.0) != Some(record.epoch) {
                return Err(format!(
                    "{}: {offset} is of epoch {}, and it knows {:?}",
                    whose(),
                    record.epoch,
                    log.epochs
                ));
            }
        }
        Ok(())
    }

    fn committed(
        &mut self,
        _facts: &Facts,
        partition: i32,
        offset: i64,
        record: &LoggedRecord,
    ) -> Verdict {
        let last = self.last.insert(partition, record.epoch);
        match last {
            Some(last) if last > record.epoch => Err(format!(
                "{partition}@{offset} is of epoch {} after one of {last}",
                record.epoch
            )),
            Some(_) | None => Ok(()),
        }
    }
}
