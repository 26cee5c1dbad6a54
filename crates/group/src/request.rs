//! What clients ask of a group, checked for form and freed of wire sentinels, and what they are told.

use crate::Error;
use crate::offsets::CommittedOffset;
use bytes::Bytes;
use model::{TopicId, TopicName};
use std::sync::Arc;
use std::time::Duration;

/// Names a request that waits for its answer. Whoever sends requests in makes tickets up, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// An assignment protocol of a member, with what the member has to say under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Such as `range`.
    pub name: Arc<str>,
    /// The subscription, for consumers.
    pub metadata: Bytes,
}

/// JoinGroup.
#[derive(Clone, Debug)]
pub struct Join {
    /// The group; not empty.
    pub group: Arc<str>,
    /// None for a member that has no id yet.
    pub member: Option<Arc<str>>,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance: Option<Arc<str>>,
    /// From the request's header.
    pub client_id: Arc<str>,
    /// The peer's address, as Java prints one: `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// Milliseconds, as sent.
    pub session_timeout: i32,
    /// Milliseconds, as sent; the session timeout if the request has none (v0).
    pub rebalance_timeout: i32,
    /// Such as `consumer`.
    pub protocol_type: Arc<str>,
    /// In the member's order of preference.
    pub protocols: Vec<Protocol>,
    /// v4 and newer: a member without id is first told one (KIP-394).
    pub needs_known_member_id: bool,
    /// v9 and newer: a static leader that comes back can be told not to assign (KIP-814).
    pub can_skip_assignment: bool,
    /// A random UUID, for the member's id if it needs one.
    pub uuid: u128,
    /// What the client says about it, for the log (KIP-800).
    pub reason: Option<Arc<str>>,
}

/// A successful JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The member.
    pub member: Arc<str>,
    /// The group's generation.
    pub generation: i32,
    /// Such as `consumer`.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol: Option<Arc<str>>,
    /// Who assigns.
    pub leader: Arc<str>,
    /// The leader must not assign this time.
    pub skip_assignment: bool,
    /// Everyone, for the leader; empty for the others.
    pub members: Vec<JoinedMember>,
}

/// A member, as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub id: Arc<str>,
    /// Its instance id.
    pub instance: Option<Arc<str>>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// A refused JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefused {
    /// Why.
    pub error: Error,
    /// The id to go on with; empty for none.
    pub member: Arc<str>,
}

/// SyncGroup.
#[derive(Clone, Debug)]
pub struct Sync<'a> {
    /// The group; not empty.
    pub group: &'a str,
    /// As sent.
    pub generation: i32,
    /// The member.
    pub member: &'a str,
    /// Its instance id.
    pub instance: Option<&'a str>,
    /// Must be the group's, if given (v5).
    pub protocol_type: Option<&'a str>,
    /// Must be the chosen one, if given (v5).
    pub protocol: Option<&'a str>,
    /// Member ids and assignments, from the leader.
    pub assignments: Vec<(&'a str, Bytes)>,
}

/// A successful SyncGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Such as `consumer`.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol: Option<Arc<str>>,
    /// The member's share.
    pub assignment: Bytes,
}

/// Who speaks, in a Heartbeat or an OffsetCommit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speaker<'a> {
    /// The member's id; empty for none.
    pub member: &'a str,
    /// The instance id.
    pub instance: Option<&'a str>,
    /// As sent; below 0 for none.
    pub generation: i32,
}

/// One member to remove, from LeaveGroup.
#[derive(Clone, Copy, Debug)]
pub struct Leaver<'a> {
    /// Empty to remove whoever has the instance id.
    pub member: &'a str,
    /// The instance id.
    pub instance: Option<&'a str>,
    /// What the client says about it, for the log.
    pub reason: Option<&'a str>,
}

/// One offset to commit.
#[derive(Clone, Debug)]
pub struct OffsetToCommit {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: i32,
    /// The topic's id, if the request named it by id (v10).
    pub topic_id: Option<TopicId>,
    /// The offset.
    pub offset: i64,
    /// The epoch of the last record read.
    pub leader_epoch: Option<i32>,
    /// A note; empty for none.
    pub metadata: Arc<str>,
    /// Wall clock in milliseconds, if the client set it (v1).
    pub commit_timestamp: Option<i64>,
}

/// OffsetCommit.
#[derive(Clone, Debug)]
pub struct Commit<'a> {
    /// The group; may be empty.
    pub group: &'a str,
    /// Who commits.
    pub speaker: Speaker<'a>,
    /// How long the offsets are to be kept, in milliseconds, if the client said so (v2 to v4).
    pub retention: Option<i64>,
    /// What to commit.
    pub offsets: Vec<OffsetToCommit>,
}

/// An OffsetCommit's answer for each of its offsets, in order: None if committed.
pub type CommitResults = Vec<Option<Error>>;

/// An offset as OffsetFetch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchedOffset {
    /// What is committed.
    Committed(CommittedOffset),
    /// Nothing is committed.
    None,
    /// A commit is under way, and the client asked to be told.
    Unstable,
}

/// OffsetDelete's answer for each partition, in order: None if removed or not there.
pub type DeleteResults = Vec<Option<Error>>;

/// A group, for ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The group.
    pub group: Arc<str>,
    /// Such as `consumer`; empty for a group that only stores offsets.
    pub protocol_type: Arc<str>,
    /// Kafka's name of the state.
    pub state: &'static str,
}

/// A group, for DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Kafka's name of the state.
    pub state: &'static str,
    /// Such as `consumer`.
    pub protocol_type: Arc<str>,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol: Arc<str>,
    /// Everyone.
    pub members: Vec<MemberDescription>,
}

/// A member, for DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub id: Arc<str>,
    /// Its instance id.
    pub instance: Option<Arc<str>>,
    /// Its client id.
    pub client_id: Arc<str>,
    /// Its address.
    pub client_host: Arc<str>,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// What it was assigned; empty unless the group is stable.
    pub assignment: Bytes,
}

/// The answer to a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a [`Join`].
    Join(Result<Joined, JoinRefused>),
    /// To a [`Sync`].
    Sync(Result<Synced, Error>),
    /// To a [`Commit`].
    Commit(CommitResults),
    /// To an OffsetDelete.
    OffsetDelete(Result<DeleteResults, Error>),
    /// To a DeleteGroups, for each group in order: None if deleted.
    DeleteGroups(Vec<Option<Error>>),
}

/// What has to be done, in order, after something was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer this request.
    Answer(Ticket, Answer),
    /// Log this.
    Log(Event),
}

/// Something about a group that an operator wants to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A rebalance began.
    Rebalancing {
        /// The group.
        group: Arc<str>,
        /// The generation that ends.
        generation: i32,
        /// Why.
        reason: String,
    },
    /// A generation was formed.
    Formed {
        /// The group.
        group: Arc<str>,
        /// The generation.
        generation: i32,
        /// How many members it has.
        members: usize,
    },
    /// The assignment is stored.
    Stable {
        /// The group.
        group: Arc<str>,
        /// The generation.
        generation: i32,
    },
    /// A member was not heard from in time.
    MemberFailed {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
        /// What it failed to do.
        why: &'static str,
    },
    /// Nobody joined a rebalance within its time; it goes on.
    NobodyRejoined {
        /// The group.
        group: Arc<str>,
    },
    /// A record of the group could not be written.
    WriteFailed {
        /// The group.
        group: Arc<str>,
        /// What its members are told.
        error: Error,
    },
}

/// The broker's settings for groups.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay: Duration,
    /// `group.max.size`.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`, which Kafka counts in UTF-16 units.
    pub offset_metadata_max: usize,
    /// `offsets.retention.minutes`.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Duration,
    /// `offsets.commit.timeout.ms`.
    pub offsets_commit_timeout: Duration,
    /// The most bytes of records to put into one batch; below `max.message.bytes` of the topic.
    pub max_batch_bytes: usize,
}

impl Default for GroupConfig {
    /// Kafka 3.9's defaults.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay: Duration::from_secs(3),
            max_size: i32::MAX as usize,
            offset_metadata_max: 4096,
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            offsets_retention_check_interval: Duration::from_secs(10 * 60),
            offsets_commit_timeout: Duration::from_secs(5),
            max_batch_bytes: 512 * 1024,
        }
    }
}
