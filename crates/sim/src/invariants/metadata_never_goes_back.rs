//! S11, row F-C12: what a broker tells clients of who leads does not go back.

use super::{Invariant, Verdict};
use crate::facts::{Facts, Told};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct MetadataNeverGoesBack {
    told: BTreeMap<(i32, i32), Told>,
}

impl Invariant for MetadataNeverGoesBack {
    fn name(&self) -> &'static str {
        "S11: metadata never goes back"
    }

    fn told(&mut self, _facts: &Facts, told: &Told) -> Verdict {
        let before = self.told.insert((told.broker, told.partition), *told);
        let epochs = |told: &Told| (told.leader_epoch, told.partition_epoch);
        match before.filter(|before| before.process == told.process) {
            Some(before) if epochs(&before) > epochs(told) => {
                Err(format!("{told:?} after {before:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
