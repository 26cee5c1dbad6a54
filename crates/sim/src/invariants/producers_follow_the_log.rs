//! I1, seen from inside: what a log knows of its producers is what it holds, whenever it was opened or cut.

use super::{Invariant, Verdict};
use crate::facts::{Facts, ReplicaStep};
use std::collections::BTreeMap;

pub(super) struct ProducersFollowTheLog;

impl Invariant for ProducersFollowTheLog {
    fn name(&self) -> &'static str {
        "I1: what a log knows of producers is what it holds"
    }

    fn replica(&mut self, _facts: &Facts, step: &ReplicaStep<'_>) -> Verdict {
        let Some(log) = &step.after.log else { return Ok(()) };
        let before = step.before.and_then(|before| before.log.as_ref());
        if before.is_some_and(|before| before.log_end_offset <= log.log_end_offset) {
            return Ok(());
        }
        let (Some(known), Some(records)) =
            ((step.producers)(), (step.read)(log.log_start_offset.0, log.log_end_offset.0))
        else {
            return Ok(());
        };
        let mut held = BTreeMap::new();
        for (_, record) in records {
            if let Some((id, epoch, sequence)) = record.producer {
                held.insert(id, (epoch, sequence));
            }
        }
        let known: BTreeMap<_, _> =
            known.into_iter().map(|(id, epoch, sequence)| (id, (epoch, sequence))).collect();
        match known == held {
            true => Ok(()),
            false => Err(format!(
                "broker {}, partition {}, up to {}: it holds {held:?} and knows {known:?}",
                step.broker, step.partition, log.log_end_offset.0
            )),
        }
    }
}
