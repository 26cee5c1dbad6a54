//! Consumes as a member of a classic consumer group (the protocol before KIP-848, with the eager range
//! assignor, which every client and broker speaks).

use crate::{Client, ClientError, Connection, Consumer, ConsumerOptions, Fetched, OffsetReset};
use crate::{EARLIEST, LATEST, list_offsets};
use bytes::Bytes;
use bytestring::ByteString;
use model::TopicPartition;
use protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use protocol::messages::join_group_request::JoinGroupRequestProtocol;
use protocol::messages::leave_group_request::MemberIdentity;
use protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest,
    SyncGroupRequest,
};
use protocol::{DecodeError, ErrorCode, decode_newest, encode_versioned};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// From version 10 on topics go by id.
const OFFSETS_BY_NAME: i16 = 9;
const ASSIGNOR: &str = "range";
const PROTOCOL: &str = "consumer";

/// How to be a member.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// `session.timeout.ms`: unheard for longer, the member is out.
    pub session_timeout: Duration,
    /// `max.poll.interval.ms`: how long a rebalance waits for a member.
    pub rebalance_timeout: Duration,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `group.instance.id`, of a static member (KIP-345).
    pub instance_id: Option<ByteString>,
    /// For fetching; `reset` says where to start without a committed offset.
    pub consumer: ConsumerOptions,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(45),
            rebalance_timeout: Duration::from_secs(300),
            heartbeat_interval: Duration::from_secs(3),
            instance_id: None,
            consumer: ConsumerOptions::default(),
        }
    }
}

/// A position in a partition, to commit or as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOffset {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: i64,
    /// What the member said about it.
    pub metadata: String,
}

/// A member of a group, and its share of the partitions.
pub struct GroupConsumer {
    client: Client,
    group: ByteString,
    topics: Vec<String>,
    options: GroupOptions,
    consumer: Consumer,
    member_id: ByteString,
    generation: i32,
    assignment: BTreeSet<TopicPartition>,
    /// What the caller has seen and not yet committed.
    uncommitted: BTreeMap<TopicPartition, i64>,
    heartbeat: Option<Heartbeat>,
}

struct Heartbeat {
    task: JoinHandle<()>,
    /// Says with which error the membership ended.
    ended: oneshot::Receiver<ClientError>,
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for GroupConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupConsumer")
            .field("group", &self.group)
            .field("member_id", &self.member_id)
            .field("generation", &self.generation)
            .field("assignment", &self.assignment)
            .finish_non_exhaustive()
    }
}

impl GroupConsumer {
    /// A member to be; it joins with the first [`Self::poll`].
    #[must_use]
    pub fn new(client: Client, group: &str, topics: Vec<String>, options: GroupOptions) -> Self {
        Self {
            consumer: Consumer::new(client.clone(), options.consumer.clone()),
            client,
            group: group.into(),
            topics,
            options,
            member_id: ByteString::new(),
            generation: -1,
            assignment: BTreeSet::new(),
            uncommitted: BTreeMap::new(),
            heartbeat: None,
        }
    }

    /// The partitions of this member.
    #[must_use]
    pub const fn assignment(&self) -> &BTreeSet<TopicPartition> {
        &self.assignment
    }

    /// The partitions and the offsets that are fetched next.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, i64)> {
        self.consumer.positions()
    }

    /// The next records; `None` after the group has rebalanced, when [`Self::assignment`] may be
    /// another. What was returned before counts as done with and is committed before a rebalance.
    ///
    /// # Errors
    /// [`ClientError`] that no retry helps against.
    pub async fn poll(&mut self) -> Result<Option<Fetched>, ClientError> {
        let Some(heartbeat) = &mut self.heartbeat else {
            self.join().await?;
            return Ok(None);
        };
        let fetched = tokio::select! {
            fetched = self.consumer.poll() => fetched?,
            ended = &mut heartbeat.ended => {
                self.heartbeat = None;
                match ended {
                    Ok(error) if !rejoins(&error) => return Err(error),
                    _ => return Ok(None),
                }
            }
        };
        self.uncommitted.insert(fetched.partition.clone(), fetched.next_offset);
        Ok(Some(fetched))
    }

    /// Says that of what [`Self::poll`] returned only the records before `offset` are done with.
    pub fn stop_at(&mut self, partition: &TopicPartition, offset: i64) {
        if let Some(uncommitted) = self.uncommitted.get_mut(partition) {
            *uncommitted = offset.min(*uncommitted);
        }
    }

    /// Commits the positions after everything that [`Self::poll`] returned.
    ///
    /// # Errors
    /// [`ClientError`]; `REBALANCE_IN_PROGRESS` and its kin mean that the partitions may be others' now.
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        if self.uncommitted.is_empty() {
            return Ok(());
        }
        let offsets: Vec<_> = self
            .uncommitted
            .iter()
            .map(|(partition, offset)| PartitionOffset {
                partition: partition.clone(),
                offset: *offset,
                metadata: String::new(),
            })
            .collect();
        let member = (self.generation, self.member_id.clone(), self.options.instance_id.clone());
        commit(&self.client, &self.group, member, &offsets).await?;
        self.uncommitted.clear();
        Ok(())
    }

    /// Commits and leaves the group (a static member stays in it).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn leave(mut self) -> Result<(), ClientError> {
        let committed = self.commit().await;
        self.heartbeat = None;
        if self.options.instance_id.is_none() && !self.member_id.is_empty() {
            let connection = self.client.group_coordinator(&self.group).await?;
            let mut request =
                LeaveGroupRequest { group_id: self.group.clone(), ..LeaveGroupRequest::default() };
            let listed = connection
                .version_at_most::<LeaveGroupRequest>(i16::MAX)
                .is_some_and(|version| version >= 3);
            if listed {
                request.members = vec![MemberIdentity {
                    member_id: self.member_id.clone(),
                    ..MemberIdentity::default()
                }];
            } else {
                request.member_id = self.member_id.clone();
            }
            connection.send(&request).await?;
        }
        committed
    }

    async fn join(&mut self) -> Result<(), ClientError> {
        if self.generation >= 0 {
            // Best effort: if the group has moved on the records come again, at the new owner.
            self.commit().await.ok();
        }
        self.uncommitted.clear();
        // A group that rebalances asks its members for ever; so does what keeps its coordinator away.
        let mut retry = self.client.retry_for(None);
        loop {
            match self.try_join().await {
                Ok(()) => return Ok(()),
                Err(error)
                    if (rejoins(&error) || error.is_retriable()) && retry.wait(&error).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_join(&mut self) -> Result<(), ClientError> {
        // Waits for the whole group: on a connection of its own, so that nothing waits behind it.
        let shared = self.client.group_coordinator(&self.group).await?;
        let mut options = self.client.options().connection.clone();
        options.request_timeout = self.options.rebalance_timeout + Duration::from_secs(5);
        let connection = Connection::connect(shared.address(), options).await?;
        let joined = self.send_join(&connection).await?;
        self.member_id = joined.member_id.clone();
        self.generation = joined.generation_id;
        let assignments = match joined.leader == joined.member_id {
            true => self.assign(&joined).await?,
            false => Vec::new(),
        };
        let request = SyncGroupRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.options.instance_id.clone(),
            protocol_type: Some(PROTOCOL.into()),
            protocol_name: joined.protocol_name.clone().or_else(|| Some(ASSIGNOR.into())),
            assignments,
        };
        let synced = connection.send(&request).await?;
        self.check(synced.error_code, "sync")?;
        self.assignment = parse_assignment(synced.assignment)?;
        self.start_fetching().await?;
        self.heartbeat = Some(self.start_heartbeat(connection));
        Ok(())
    }

    async fn send_join(
        &mut self,
        connection: &Connection,
    ) -> Result<JoinGroupResponse, ClientError> {
        let subscription = ConsumerProtocolSubscription {
            topics: self.topics.iter().map(|topic| topic.as_str().into()).collect(),
            ..ConsumerProtocolSubscription::default()
        };
        let metadata = encode_versioned(&subscription, 1)
            .map_err(|source| ClientError::Encode { api: "ConsumerProtocol", source })?;
        loop {
            let request = JoinGroupRequest {
                group_id: self.group.clone(),
                session_timeout_ms: millis(self.options.session_timeout),
                rebalance_timeout_ms: millis(self.options.rebalance_timeout),
                member_id: self.member_id.clone(),
                group_instance_id: self.options.instance_id.clone(),
                protocol_type: PROTOCOL.into(),
                protocols: vec![JoinGroupRequestProtocol {
                    name: ASSIGNOR.into(),
                    metadata: metadata.clone(),
                }],
                ..JoinGroupRequest::default()
            };
            let joined = connection.send(&request).await?;
            // The id is given first and used second (KIP-394).
            if joined.error_code == ErrorCode::MemberIdRequired.code() {
                self.member_id = joined.member_id;
                continue;
            }
            self.check(joined.error_code, "join")?;
            return Ok(joined);
        }
    }

    /// Forgets who we are where the coordinator has.
    fn check(&mut self, code: i16, what: &str) -> Result<(), ClientError> {
        if code == ErrorCode::UnknownMemberId.code() {
            self.member_id = ByteString::new();
        }
        ClientError::check(code, format!("{what} group {}", self.group), None)
    }

    /// As the leader: everyone's share.
    async fn assign(
        &self,
        joined: &JoinGroupResponse,
    ) -> Result<Vec<SyncGroupRequestAssignment>, ClientError> {
        let mut members = BTreeMap::new();
        for member in &joined.members {
            let (_, subscription) =
                decode_newest::<ConsumerProtocolSubscription>(member.metadata.clone())
                    .map_err(unreadable)?;
            let topics: BTreeSet<_> = subscription.topics.iter().map(ToString::to_string).collect();
            members.insert(member.member_id.to_string(), topics);
        }
        let topics: BTreeSet<_> = members.values().flatten().cloned().collect();
        let mut counts = BTreeMap::new();
        for topic in topics {
            match self.client.leaders(&topic, true).await {
                Ok(info) => {
                    counts.insert(topic, info.leaders.len());
                }
                // One member's unknown topic is no reason to stop the others.
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let shares = assign_range(&members, &counts);
        shares
            .into_iter()
            .map(|(member, share)| {
                let assignment = ConsumerProtocolAssignment {
                    assigned_partitions: by_topic(&share)
                        .into_iter()
                        .map(|(topic, partitions)| Assigned { topic, partitions })
                        .collect(),
                    ..ConsumerProtocolAssignment::default()
                };
                let assignment = encode_versioned(&assignment, 1)
                    .map_err(|source| ClientError::Encode { api: "ConsumerProtocol", source })?;
                Ok(SyncGroupRequestAssignment { member_id: member.into(), assignment })
            })
            .collect()
    }

    /// Goes on where the group has committed, else where `reset` says.
    async fn start_fetching(&mut self) -> Result<(), ClientError> {
        let wanted: Vec<_> = self.assignment.iter().cloned().collect();
        let mut positions: BTreeMap<_, _> = BTreeMap::new();
        if !wanted.is_empty() {
            for found in committed_offsets(&self.client, &self.group, Some(&wanted)).await? {
                positions.insert(found.partition, found.offset);
            }
        }
        let missing: Vec<_> =
            wanted.into_iter().filter(|partition| !positions.contains_key(partition)).collect();
        let timestamp = match self.options.consumer.reset {
            OffsetReset::Earliest => EARLIEST,
            OffsetReset::Latest => LATEST,
            OffsetReset::Fail => match missing.first() {
                Some(partition) => {
                    let what = format!("group {} has no offset for {partition}", self.group);
                    let code = ErrorCode::OffsetOutOfRange.code();
                    return Err(ClientError::broker(code, what, Some("and may not choose one")));
                }
                None => EARLIEST,
            },
        };
        let missing: Vec<_> = missing.into_iter().map(|partition| (partition, timestamp)).collect();
        if !missing.is_empty() {
            let isolation = self.options.consumer.isolation;
            positions.extend(list_offsets(&self.client, &missing, isolation).await?);
        }
        self.consumer.assign(positions);
        Ok(())
    }

    fn start_heartbeat(&self, connection: Connection) -> Heartbeat {
        let request = HeartbeatRequest {
            group_id: self.group.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.options.instance_id.clone(),
        };
        let (interval, what) = (self.options.heartbeat_interval, format!("group {}", self.group));
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            loop {
                sleep(interval).await;
                let answer = connection.send(&request).await;
                let checked =
                    answer.and_then(|answer| ClientError::check(answer.error_code, &what, None));
                if let Err(error) = checked {
                    // Nobody listens only if the member is gone.
                    end.send(error).ok();
                    return;
                }
            }
        });
        Heartbeat { task, ended }
    }
}

/// Whether the answer to `error` is to join again.
fn rejoins(error: &ClientError) -> bool {
    match error.code() {
        Some(code) => {
            matches!(
                code,
                ErrorCode::RebalanceInProgress
                    | ErrorCode::IllegalGeneration
                    | ErrorCode::UnknownMemberId
                    | ErrorCode::NotCoordinator
                    | ErrorCode::CoordinatorNotAvailable
                    | ErrorCode::CoordinatorLoadInProgress
            )
        }
        None => error.is_retriable(),
    }
}

fn millis(span: Duration) -> i32 {
    i32::try_from(span.as_millis()).unwrap_or(i32::MAX)
}

fn unreadable(source: DecodeError) -> ClientError {
    ClientError::Decode { api: "ConsumerProtocol", source }
}

fn parse_assignment(bytes: Bytes) -> Result<BTreeSet<TopicPartition>, ClientError> {
    if bytes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let (_, assignment) = decode_newest::<ConsumerProtocolAssignment>(bytes).map_err(unreadable)?;
    let of_topic = |topic: Assigned| {
        let name = topic.topic;
        topic.partitions.into_iter().map(move |at| TopicPartition::new(&*name, at))
    };
    Ok(assignment.assigned_partitions.into_iter().flat_map(of_topic).collect())
}

fn by_topic<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> BTreeMap<ByteString, Vec<i32>> {
    let mut topics = BTreeMap::<ByteString, Vec<i32>>::new();
    for at in partitions {
        topics.entry((&*at.topic).into()).or_default().push(at.partition);
    }
    topics
}

/// Kafka's range assignor: of each topic, every member that wants it gets a run of partitions; the
/// first ones, by member id, get one more if it does not divide.
#[must_use]
pub fn assign_range(
    members: &BTreeMap<String, BTreeSet<String>>,
    partition_counts: &BTreeMap<String, usize>,
) -> BTreeMap<String, BTreeSet<TopicPartition>> {
    let mut shares: BTreeMap<_, BTreeSet<_>> =
        members.keys().map(|member| (member.clone(), BTreeSet::new())).collect();
    for (topic, &count) in partition_counts {
        let wanting: Vec<_> = members.iter().filter(|(_, topics)| topics.contains(topic)).collect();
        let (each, more) = (count / wanting.len().max(1), count % wanting.len().max(1));
        let mut partitions = 0i32..;
        for (at, (member, _)) in wanting.into_iter().enumerate() {
            let share = partitions.by_ref().take(each + usize::from(at < more));
            let share = share.map(|partition| TopicPartition::new(topic.as_str(), partition));
            shares.entry(member.clone()).or_default().extend(share);
        }
    }
    shares
}

/// What `group` has committed: for `partitions`, or for all if `None`. Partitions without an offset are
/// left out.
///
/// # Errors
/// [`ClientError`], after retries.
pub async fn committed_offsets(
    client: &Client,
    group: &str,
    partitions: Option<&[TopicPartition]>,
) -> Result<Vec<PartitionOffset>, ClientError> {
    let mut retry = client.retry();
    loop {
        match committed_offsets_once(client, group, partitions).await {
            Err(error) if retry.again(&error).await => {}
            done => return done,
        }
    }
}

async fn committed_offsets_once(
    client: &Client,
    group: &str,
    partitions: Option<&[TopicPartition]>,
) -> Result<Vec<PartitionOffset>, ClientError> {
    let connection = client.group_coordinator(group).await?;
    let version = connection.version_at_most::<OffsetFetchRequest>(OFFSETS_BY_NAME);
    let topics = partitions.map(by_topic);
    let mut request = OffsetFetchRequest::default();
    if version.is_some_and(|version| version >= 8) {
        request.groups = vec![OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: topics.map(|topics| {
                let topic = |(name, partition_indexes)| OffsetFetchRequestTopics {
                    name,
                    partition_indexes,
                    ..OffsetFetchRequestTopics::default()
                };
                topics.into_iter().map(topic).collect()
            }),
            ..OffsetFetchRequestGroup::default()
        }];
    } else {
        request.group_id = group.into();
        request.topics = topics.map(|topics| {
            let topic =
                |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes };
            topics.into_iter().map(topic).collect()
        });
    }
    let (answer, _) = connection.send_at_most(&request, OFFSETS_BY_NAME).await?;
    let what = format!("offsets of group {group}");
    ClientError::check(answer.error_code, &what, None)?;
    let mut found = Vec::new();
    let mut add = |topic: &str, partition, code, offset, metadata: Option<ByteString>| {
        let partition = TopicPartition::new(topic, partition);
        ClientError::check(code, format!("{what}, {partition}"), None)?;
        let metadata = metadata.map_or_else(String::new, |text| text.to_string());
        if offset >= 0 {
            found.push(PartitionOffset { partition, offset, metadata });
        }
        Ok::<(), ClientError>(())
    };
    for of_group in answer.groups {
        ClientError::check(of_group.error_code, &what, None)?;
        for topic in of_group.topics {
            for at in topic.partitions {
                let (code, offset) = (at.error_code, at.committed_offset);
                add(&topic.name, at.partition_index, code, offset, at.metadata)?;
            }
        }
    }
    for topic in answer.topics {
        for at in topic.partitions {
            let (code, offset) = (at.error_code, at.committed_offset);
            add(&topic.name, at.partition_index, code, offset, at.metadata)?;
        }
    }
    found.sort_by(|a, b| a.partition.cmp(&b.partition));
    Ok(found)
}

/// Commits for a group without members, as administrators do.
///
/// # Errors
/// [`ClientError`]; `UNKNOWN_MEMBER_ID` if the group has members.
pub async fn commit_offsets(
    client: &Client,
    group: &str,
    offsets: &[PartitionOffset],
) -> Result<(), ClientError> {
    commit(client, group, (-1, ByteString::new(), None), offsets).await
}

async fn commit(
    client: &Client,
    group: &str,
    (generation, member_id, instance_id): (i32, ByteString, Option<ByteString>),
    offsets: &[PartitionOffset],
) -> Result<(), ClientError> {
    let mut topics = BTreeMap::<ByteString, Vec<OffsetCommitRequestPartition>>::new();
    for offset in offsets {
        let partition = OffsetCommitRequestPartition {
            partition_index: offset.partition.partition,
            committed_offset: offset.offset,
            committed_metadata: Some(offset.metadata.as_str().into()),
            ..OffsetCommitRequestPartition::default()
        };
        topics.entry((&*offset.partition.topic).into()).or_default().push(partition);
    }
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: generation,
        member_id,
        group_instance_id: instance_id,
        topics: topics
            .into_iter()
            .map(|(name, partitions)| OffsetCommitRequestTopic {
                name,
                partitions,
                ..OffsetCommitRequestTopic::default()
            })
            .collect(),
        ..OffsetCommitRequest::default()
    };
    let mut retry = client.retry();
    loop {
        match commit_once(client, group, &request).await {
            Err(error) if retry.again(&error).await => {}
            done => return done,
        }
    }
}

async fn commit_once(
    client: &Client,
    group: &str,
    request: &OffsetCommitRequest,
) -> Result<(), ClientError> {
    let connection = client.group_coordinator(group).await?;
    let (answer, _) = connection.send_at_most(request, OFFSETS_BY_NAME).await?;
    for topic in &answer.topics {
        for at in &topic.partitions {
            let what = format!("commit of {}-{} in group {group}", topic.name, at.partition_index);
            ClientError::check(at.error_code, what, None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Message;

    #[test]
    fn ranges_divide_each_topic_and_the_first_members_get_the_rest() {
        let set = |topics: &[&str]| topics.iter().map(ToString::to_string).collect();
        let members = BTreeMap::from([
            ("a".to_owned(), set(&["x", "y"])),
            ("b".to_owned(), set(&["x"])),
            ("c".to_owned(), set(&["x", "y"])),
        ]);
        let counts = BTreeMap::from([("x".to_owned(), 4), ("y".to_owned(), 3)]);
        let shares = assign_range(&members, &counts);
        let share = |member: &str| {
            shares[member].iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(share("a"), "x-0 x-1 y-0 y-1");
        assert_eq!(share("b"), "x-2");
        assert_eq!(share("c"), "x-3 y-2");
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: vec![Assigned { topic: "t".into(), partitions: vec![0, 2] }],
            ..ConsumerProtocolAssignment::default()
        };
        for version in ConsumerProtocolAssignment::VERSIONS {
            let bytes = encode_versioned(&assignment, version).unwrap();
            let expected = [0, 2].map(|at| TopicPartition::new("t", at));
            assert_eq!(parse_assignment(bytes).unwrap(), BTreeSet::from(expected));
        }
        assert_eq!(parse_assignment(Bytes::new()).unwrap(), BTreeSet::new());
    }
}
