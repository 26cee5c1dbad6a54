//! G2: a static member whose instance nobody else uses is never taken for a stranger (KIP-345).

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;

pub(super) struct InstancesAreNotFenced;

impl Invariant for InstancesAreNotFenced {
    fn name(&self) -> &'static str {
        "G2: nobody is fenced whose instance is used once"
    }

    fn seen(&mut self, _facts: &Facts, seen: &Seen) -> Verdict {
        let Seen::Fenced { instance } = seen else { return Ok(()) };
        Err(format!("{instance} is fenced"))
    }
}
