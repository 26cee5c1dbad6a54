//! A set of brokers.

/// The replicas: enough for an ISR above its minimum, and for one that is outside.
pub(crate) const BROKERS: u8 = 3;

/// Of brokers 0 to 2.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Members(u8);

impl Members {
    pub(crate) fn of(members: &[u8]) -> Self {
        members.iter().fold(Self::default(), |set, &id| set.with(id))
    }

    pub(crate) fn contains(self, id: u8) -> bool {
        self.0 & (1 << id) != 0
    }

    pub(crate) fn with(self, id: u8) -> Self {
        Self(self.0 | 1 << id)
    }

    pub(crate) fn without(self, id: u8) -> Self {
        Self(self.0 & !(1 << id))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (0..BROKERS).filter(move |&id| self.contains(id))
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
