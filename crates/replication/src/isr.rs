//! The in-sync replicas of a partition: what the controller committed, and the change under way.

use model::{BrokerId, Bug};

/// The in-sync replicas as their leader sees them. At most one change is under way (KIP-497).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isr {
    committed: Vec<BrokerId>,
    pending: Option<Pending>,
}

/// A proposal that the controller has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    Expand(BrokerId),
    Shrink(Vec<BrokerId>),
}

impl Isr {
    /// The state that the controller committed, nothing under way.
    #[must_use]
    pub fn committed_as(members: Vec<BrokerId>) -> Self {
        Self { committed: members, pending: None }
    }

    /// The members that the controller knows of; decides whether `acks=all` is accepted.
    #[must_use]
    pub fn committed(&self) -> &[BrokerId] {
        &self.committed
    }

    /// Whether `broker` is in the committed ISR or is being added. One being removed still counts.
    #[must_use]
    pub fn maximal_contains(&self, broker: BrokerId) -> bool {
        let is_coming = self.pending == Some(Pending::Expand(broker));
        self.committed.contains(&broker) || is_coming && !Bug::Kip497.is_planted()
    }

    /// How many members the largest ISR has that may be in force.
    #[must_use]
    pub fn maximal_len(&self) -> usize {
        self.committed.len() + usize::from(matches!(self.pending, Some(Pending::Expand(_))))
    }

    /// Whether the controller has yet to answer a proposal.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    /// Begins to add `broker`; returns the proposed members.
    pub(crate) fn expand(&mut self, broker: BrokerId) -> Vec<BrokerId> {
        assert!(!self.is_changing() && !self.committed.contains(&broker), "{self:?} + {broker}");
        self.pending = Some(Pending::Expand(broker));
        self.proposed()
    }

    /// Begins to remove `lagging`; returns the proposed members.
    pub(crate) fn shrink(&mut self, lagging: Vec<BrokerId>) -> Vec<BrokerId> {
        assert!(!self.is_changing(), "{self:?} - {lagging:?}");
        self.pending = Some(Pending::Shrink(lagging));
        self.proposed()
    }

    /// The members asked for by the proposal under way; the committed ones if there is none.
    pub(crate) fn proposed(&self) -> Vec<BrokerId> {
        match &self.pending {
            None => self.committed.clone(),
            Some(Pending::Expand(new)) => self.committed.iter().copied().chain([*new]).collect(),
            Some(Pending::Shrink(out)) => {
                self.committed.iter().copied().filter(|member| !out.contains(member)).collect()
            }
        }
    }

    /// The controller committed `members`.
    pub(crate) fn commit(&mut self, members: Vec<BrokerId>) {
        *self = Self::committed_as(members);
    }

    /// The proposal will not be carried out.
    pub(crate) fn abandon(&mut self) {
        self.pending = None;
    }
}

#[test]
fn the_maximal_isr_has_members_coming_and_going() {
    let ids = |raw: &[i32]| raw.iter().copied().map(BrokerId).collect::<Vec<_>>();
    let mut isr = Isr::committed_as(ids(&[1, 2]));
    assert_eq!(isr.expand(BrokerId(3)), ids(&[1, 2, 3]));
    assert!(isr.maximal_contains(BrokerId(3)));
    assert_eq!((isr.committed().len(), isr.maximal_len()), (2, 3));
    isr.commit(ids(&[1, 2, 3]));
    assert_eq!(isr.shrink(ids(&[2, 3])), ids(&[1]));
    assert!(isr.maximal_contains(BrokerId(2)));
    assert_eq!(isr.maximal_len(), 3);
    isr.abandon();
    assert_eq!(isr, Isr::committed_as(ids(&[1, 2, 3])));
}
