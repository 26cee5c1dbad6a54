//! Situations that a set of seeds must have led to: a simulator that never gets there proves nothing of them.

use std::collections::BTreeMap;

/// Something that must happen in some run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    /// A partition got another leader.
    LeaderElected,
    /// A partition had no leader.
    PartitionWithoutLeader,
    /// A follower cut its log.
    FollowerTruncated,
    /// A replica left an ISR.
    IsrShrank,
    /// A replica came back into an ISR.
    IsrGrew,
    /// Another controller was elected.
    ControllerElected,
    /// The store ended a session for its silence.
    SessionExpired,
    /// A producer was refused for want of replicas in sync.
    NotEnoughReplicas,
    /// A producer asked somebody who did not lead, or could not be sure to.
    NotLeader,
    /// A producer did not hear what became of its records.
    AnswerLost,
    /// A batch was acknowledged that had been sent before.
    SentAgain,
    /// A machine lost power.
    PowerLost,
    /// A log was shorter after a power failure.
    RecordsLostByPowerFailure,
    /// A log had several segments.
    LeadersOfManyEpochs,
    /// A broker was stopped and handed over.
    StoppedCleanly,
    /// Who was not in the ISR led without loss (KIP-966).
    LedByList,
    /// An ISR was smaller than `min.insync.replicas`.
    IsrBelowMinimum,
    /// A producer was refused because a disk was full or failed.
    StorageFailed,
    /// The store showed a broker what was.
    StaleRead,
    /// A member of the group was told that its generation has passed, or that it is no member.
    MemberOusted,
    /// A member committed.
    GroupCommitted,
    /// A coordinator did not hold a group any more, or not yet.
    CoordinatorMoved,
    /// A broker did not hear whether what it wrote to the store was written.
    WriteUnanswered,
}

impl Situation {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::LeaderElected,
        Self::PartitionWithoutLeader,
        Self::FollowerTruncated,
        Self::IsrShrank,
        Self::IsrGrew,
        Self::ControllerElected,
        Self::SessionExpired,
        Self::NotEnoughReplicas,
        Self::NotLeader,
        Self::AnswerLost,
        Self::SentAgain,
        Self::PowerLost,
        Self::RecordsLostByPowerFailure,
        Self::LeadersOfManyEpochs,
        Self::StoppedCleanly,
        Self::LedByList,
        Self::IsrBelowMinimum,
        Self::StorageFailed,
        Self::StaleRead,
        Self::MemberOusted,
        Self::GroupCommitted,
        Self::CoordinatorMoved,
        Self::WriteUnanswered,
    ];

    /// Whether it takes hundreds of seeds to be sure of it.
    #[must_use]
    pub fn is_rare(self) -> bool {
        matches!(self, Self::LedByList | Self::WriteUnanswered | Self::StaleRead)
    }
}

/// How often each came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situations(BTreeMap<Situation, u64>);

impl Situations {
    /// It came about.
    pub fn note(&mut self, situation: Situation) {
        self.add(situation, 1);
    }

    /// It came about so many times.
    pub fn add(&mut self, situation: Situation, times: u64) {
        if times > 0 {
            *self.0.entry(situation).or_default() += times;
        }
    }

    /// Adds what another run led to.
    pub fn merge(&mut self, other: &Self) {
        for (&situation, &times) in &other.0 {
            self.add(situation, times);
        }
    }

    /// How often it came about.
    #[must_use]
    pub fn count(&self, situation: Situation) -> u64 {
        self.0.get(&situation).copied().unwrap_or_default()
    }

    /// Those that never did.
    #[must_use]
    pub fn missing(&self) -> Vec<Situation> {
        Situation::ALL.into_iter().filter(|&situation| self.count(situation) == 0).collect()
    }
}
