//! Lists of eligible leaders (KIP-966): who is not in the ISR any more and holds all the same everything that was
//! committed. Pure.
//!
//! The high watermark stands still while the ISR is smaller than `min.insync.replicas` (rule R3). So whoever was in the
//! ISR when it became smaller holds all that was committed then, and nothing was since.
//!
//! Non-obvious:
//! - It is the leader's minimum that counts, which the leader may have heard of later than the controller. A list is
//!   made only if the leader has said that it goes by these very settings, and names them; others make it void.
//! - A list goes with one version of the partition's state. Whoever writes that without knowing of lists, a controller or
//!   leader of Apache's, makes it void.
//! - Missing a list is always safe: without one all is as it was before there were any.
//!
//! Source: rule R6 (d), invariants S10 and S14 of the reliability reference; decision 15 in `docs/decisions`.

use crate::context::Partition;
use crate::znodes::StateNode;
use model::BrokerId;

/// The changes that last wrote what decides `min.insync.replicas`: the topic's settings, the leader's, and those of all
/// brokers; 0 for what is not there.
pub(crate) type Stamps = [i64; 3];

/// Those who may lead without loss though they are not in the ISR.
///
/// Invariant: never empty; none of them is in the ISR of the state that it goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eligible {
    /// In the order of the partition's replicas.
    pub(crate) members: Vec<BrokerId>,
    /// Whose minimum keeps the high watermark where it is.
    pub(crate) leader: BrokerId,
    /// What that minimum follows from.
    pub(crate) settings: Stamps,
}

/// What a leader goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaderMinimum {
    /// `min.insync.replicas` of the partition.
    pub(crate) min_insync_replicas: usize,
    /// What it follows from.
    pub(crate) settings: Stamps,
    /// Whether the leader has said that it goes by these.
    pub(crate) is_applied: bool,
}

/// Whether some list may go with `after`: otherwise nobody needs to look at the settings.
pub(crate) fn may_be_needed(
    partition: &Partition,
    after: &StateNode,
    may_lead: impl Fn(BrokerId) -> bool,
) -> bool {
    !members(partition, after, partition.eligible.as_ref(), may_lead).is_empty()
}

/// Whether the leader of `after` was not in the ISR, and may lead by the list.
///
/// # Panics
/// If neither entitles it and the election does not say that it may lose records (invariant S14).
pub(crate) fn is_elected_by_list(partition: &Partition, after: &StateNode) -> bool {
    let (Some(state), Some(leader)) = (&partition.state, after.leader) else { return false };
    let before = &state.node;
    if before.leader == Some(leader) || before.isr.contains(&leader) || after.recovering {
        return false;
    }
    let listed = partition.eligible.as_ref().is_some_and(|list| list.members.contains(&leader));
    assert!(
        listed,
        "{leader} is to lead without loss, and nothing says that it can: {partition:?}"
    );
    true
}

/// The list that goes with `after`, the next state of `partition`.
///
/// `may_lead` is false of who may lack records, or says so; `stands` tells whether the present list's settings are those
/// of the store still; `minimum` is what the leader of `after` goes by, if that is known.
pub(crate) fn eligible_after(
    partition: &Partition,
    after: &StateNode,
    may_lead: impl Fn(BrokerId) -> bool,
    stands: bool,
    minimum: Option<LeaderMinimum>,
) -> Option<Eligible> {
    let before = &partition.state.as_ref()?.node;
    let present = partition.eligible.as_ref().filter(|_| stands);
    let members = members(partition, after, present, may_lead);
    if members.is_empty() {
        return None;
    }
    let Some(leader) = after.leader else {
        // Nothing is committed where nobody leads.
        return present.map(|present| Eligible { members, ..present.clone() });
    };
    let minimum = minimum?;
    let is_unbroken = before.leader == Some(leader)
        && present.is_some_and(|p| p.leader == leader && p.settings == minimum.settings);
    let stays = |id: &&BrokerId| !partition.removing.contains(id);
    // Replicas come and go with a reassignment, and the leader hears of it later.
    let fewest = partition.replicas.iter().filter(stays).count();
    let enough = after.isr.len() >= minimum.min_insync_replicas.min(fewest);
    if enough || !(is_unbroken || minimum.is_applied) {
        return None;
    }
    Some(Eligible { members, leader, settings: minimum.settings })
}

/// Who left the ISR with the step to `after`, or was eligible before it, and holds all that was committed.
fn members(
    partition: &Partition,
    after: &StateNode,
    present: Option<&Eligible>,
    may_lead: impl Fn(BrokerId) -> bool,
) -> Vec<BrokerId> {
    let Some(state) = &partition.state else { return Vec::new() };
    let before = &state.node;
    let listed = |id: &BrokerId| present.is_some_and(|present| present.members.contains(id));
    let is_unclean = after.recovering
        || before.recovering
        || after.leader.is_some_and(|id| !before.isr.contains(&id) && !listed(&id));
    if is_unclean {
        return Vec::new();
    }
    let leaves = |id: &BrokerId| after.leader.is_some() && before.isr.contains(id);
    let is_eligible = |id: &BrokerId| {
        (listed(id) || leaves(id))
            && !after.isr.contains(id)
            && !partition.removing.contains(id)
            && may_lead(*id)
    };
    partition.replicas.iter().copied().filter(is_eligible).collect()
}

#[cfg(test)]
mod tests;
