//! A member of a consumer group: joins, reads its share of the partitions from where the group stands, commits how
//! far it has come, and now and then leaves, vanishes, or is silent for so long that the others go on without it.
//!
//! Each member commits what it has read, from where the group stood: commits only grow.

use super::ClientContext;
use super::cluster::{Cluster, OFFSETS_BY_NAME};
use super::consumer::fetch;
use crate::history::Seen;
use crate::plan::TOPIC;
use bytes::Bytes;
use bytestring::ByteString;
use platform::Random;
use protocol::ErrorCode;
use protocol::messages::join_group_request::JoinGroupRequestProtocol;
use protocol::messages::leave_group_request::MemberIdentity;
use protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The group.
const GROUP: &str = "readers";
/// The name of its protocol, of which brokers know nothing.
const PROTOCOL: &str = "shares";
/// `session.timeout.ms`
const SESSION: Duration = Duration::from_secs(3);
/// `max.poll.interval.ms`
const REBALANCE: Duration = Duration::from_secs(4);

/// A request may be carried out so long after nobody waits for it any more.
const LATE_REQUESTS: Duration = Duration::from_secs(60);

/// What a member does until it has to join again.
enum Goes {
    On,
    Back,
}

struct Member {
    cluster: Cluster,
    /// Which of the members.
    number: u8,
    coordinator: Option<i32>,
    /// Empty: none was given.
    id: ByteString,
    /// Of a static member (KIP-345).
    instance: Option<ByteString>,
    generation: i32,
    /// The id with which it was last given a share: one that has only joined is forgotten with its coordinator.
    stored_id: Option<ByteString>,
    /// When a request to join was last not answered: it may be carried out late, and have its place given to another id.
    unanswered_at: Option<Duration>,
    /// Its share, and where it reads on.
    positions: BTreeMap<i32, i64>,
}

/// Is the member `number` of the group for ever; a static one keeps its place while it is away.
pub async fn be_member(context: ClientContext, number: u8, is_static: bool) {
    let mut member = Member {
        cluster: Cluster::new(context.clone()),
        number,
        coordinator: None,
        id: ByteString::new(),
        instance: is_static.then(|| format!("instance-{number}").into()),
        generation: -1,
        stored_id: None,
        unanswered_at: None,
        positions: BTreeMap::new(),
    };
    loop {
        member.cluster.pause(Duration::from_millis(500)).await;
        if member.join().await.is_some() {
            member.work().await;
            context.history.membership(number, None);
        }
    }
}

impl Member {
    async fn coordinator(&mut self) -> Option<i32> {
        if self.coordinator.is_none() {
            let random = &self.cluster.context.random;
            let broker = 1 + random.below(self.cluster.context.brokers.into());
            let request = FindCoordinatorRequest {
                coordinator_keys: vec![GROUP.into()],
                ..Default::default()
            };
            let asked = i32::try_from(broker).expect("few");
            let answer = self.cluster.ask(asked, &request).await?.coordinators.pop()?;
            self.coordinator = Some(answer.node_id).filter(|_| answer.error_code == 0);
        }
        self.coordinator
    }

    /// Takes an answer's error in; whether there is none.
    fn check(&mut self, code: i16) -> Option<()> {
        self.cluster.context.history.refused(code);
        if code == ErrorCode::FencedInstanceId.code()
            && let Some(instance) = &self.instance
            && self.stored_id.as_ref() == Some(&self.id)
            && self
                .unanswered_at
                .is_none_or(|at| self.cluster.context.scheduler.elapsed() > at + LATE_REQUESTS)
        {
            let instance = instance.to_string();
            self.cluster.context.history.push(Seen::Fenced { instance });
        }
        match ErrorCode::from_code(code) {
            Some(ErrorCode::None) => return Some(()),
            Some(ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId) => {
                self.id = ByteString::new();
            }
            Some(ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration) => {}
            Some(_) | None => self.coordinator = None,
        }
        None
    }

    /// The answer of the coordinator, which is looked for anew if there is none.
    fn heard<T>(&mut self, answer: Option<T>) -> Option<T> {
        if answer.is_none() {
            self.coordinator = None;
        }
        answer
    }

    /// Becomes a member of a generation, with a share and positions.
    async fn join(&mut self) -> Option<()> {
        let coordinator = self.coordinator().await?;
        let joined = self.send_join(coordinator).await?;
        self.generation = joined.generation_id;
        let assignments = match joined.leader == joined.member_id && !joined.skip_assignment {
            true => self.assign(&joined),
            false => Vec::new(),
        };
        let request = SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            protocol_type: Some(PROTOCOL.into()),
            protocol_name: Some(PROTOCOL.into()),
            assignments,
        };
        let answer = self.cluster.ask(coordinator, &request).await;
        let synced = self.heard(answer)?;
        self.check(synced.error_code)?;
        self.stored_id = Some(self.id.clone());
        let partitions: Vec<i32> = synced.assignment.iter().map(|&byte| byte.into()).collect();
        let member = self.instance.clone().unwrap_or_else(|| self.id.clone()).to_string();
        self.cluster.context.history.push(Seen::Assigned {
            generation: self.generation,
            member,
            partitions: partitions.clone(),
        });
        self.positions = self.committed(coordinator, &partitions).await?;
        let share = Some((self.generation, partitions));
        self.cluster.context.history.membership(self.number, share);
        Some(())
    }

    async fn send_join(&mut self, coordinator: i32) -> Option<JoinGroupResponse> {
        loop {
            let request = JoinGroupRequest {
                group_id: GROUP.into(),
                session_timeout_ms: millis(SESSION),
                rebalance_timeout_ms: millis(REBALANCE),
                member_id: self.id.clone(),
                group_instance_id: self.instance.clone(),
                protocol_type: PROTOCOL.into(),
                protocols: vec![JoinGroupRequestProtocol {
                    name: PROTOCOL.into(),
                    metadata: Bytes::new(),
                }],
                ..Default::default()
            };
            let answer = self.cluster.ask(coordinator, &request).await;
            if answer.is_none() {
                self.unanswered_at = Some(self.cluster.context.scheduler.elapsed());
            }
            let joined = self.heard(answer)?;
            // The id is given first and used second (KIP-394).
            if joined.error_code == ErrorCode::MemberIdRequired.code() {
                self.id = joined.member_id;
                continue;
            }
            self.check(joined.error_code)?;
            self.id = joined.member_id.clone();
            return Some(joined);
        }
    }

    /// As the leader: the partitions go round. One byte each.
    fn assign(&self, joined: &JoinGroupResponse) -> Vec<SyncGroupRequestAssignment> {
        let mut shares = vec![Vec::new(); joined.members.len()];
        for partition in 0..self.cluster.context.partitions {
            let count = shares.len().max(1);
            let at = usize::try_from(partition).expect("few") % count;
            shares[at].push(u8::try_from(partition).expect("few"));
        }
        let members = joined.members.iter().zip(shares);
        let share = |(member, share): (&_, Vec<u8>)| {
            let member: &protocol::messages::join_group_response::JoinGroupResponseMember = member;
            SyncGroupRequestAssignment {
                member_id: member.member_id.clone(),
                assignment: share.into(),
            }
        };
        members.map(share).collect()
    }

    /// Where the group stands; 0 where it has committed nothing.
    async fn committed(
        &mut self,
        coordinator: i32,
        partitions: &[i32],
    ) -> Option<BTreeMap<i32, i64>> {
        if partitions.is_empty() {
            return Some(BTreeMap::new());
        }
        let topic = OffsetFetchRequestTopics {
            name: TOPIC.into(),
            partition_indexes: partitions.to_vec(),
            ..Default::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: GROUP.into(),
            topics: Some(vec![topic]),
            ..Default::default()
        };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        let asked_at = self.cluster.context.scheduler.elapsed();
        let answer = self.cluster.ask_at_most(coordinator, &request, OFFSETS_BY_NAME).await;
        let group = self.heard(answer)?.groups.pop()?;
        self.check(group.error_code)?;
        let mut positions = BTreeMap::new();
        for found in group.topics.into_iter().flat_map(|topic| topic.partitions) {
            self.check(found.error_code)?;
            let (partition, offset) = (found.partition_index, found.committed_offset);
            self.cluster.context.history.push(Seen::GroupStands { partition, offset, asked_at });
            positions.insert(partition, offset.max(0));
        }
        Some(positions)
    }

    /// Reads and commits until it must join again.
    async fn work(&mut self) {
        loop {
            self.cluster.pause(Duration::from_millis(600)).await;
            if self.cluster.context.history.is_producing()
                && let Goes::Back = self.be_unreliable().await
            {
                return;
            }
            if self.heartbeat().await.is_none() && self.must_rejoin() {
                return;
            }
            let count = self.positions.len() as u64;
            if count == 0 {
                continue;
            }
            let nth = usize::try_from(self.cluster.context.random.below(count)).expect("few");
            let Some((&partition, &position)) = self.positions.iter().nth(nth) else { continue };
            if let Some(next) = self.read(partition, position).await {
                self.positions.insert(partition, next);
            }
            if self.commit(partition).await.is_none() && self.must_rejoin() {
                return;
            }
        }
    }

    /// Whether the answer was that this member is none of this generation any more; else another coordinator may say that it is.
    fn must_rejoin(&self) -> bool {
        self.coordinator.is_some()
    }

    /// Members leave, vanish, or are silent for too long.
    async fn be_unreliable(&mut self) -> Goes {
        match self.cluster.context.random.below(100) {
            0 => {
                self.leave().await;
                Goes::Back
            }
            1 => {
                self.id = ByteString::new();
                Goes::Back
            }
            // Then it goes on as if nothing had been.
            2 => {
                self.cluster.pause(SESSION * 4).await;
                Goes::On
            }
            _ => Goes::On,
        }
    }

    async fn leave(&mut self) {
        if self.instance.is_none()
            && let Some(coordinator) = self.coordinator
        {
            let member = MemberIdentity { member_id: self.id.clone(), ..MemberIdentity::default() };
            let request = LeaveGroupRequest {
                group_id: GROUP.into(),
                members: vec![member],
                ..Default::default()
            };
            drop(self.cluster.ask(coordinator, &request).await);
        }
        self.id = ByteString::new();
    }

    async fn heartbeat(&mut self) -> Option<()> {
        let coordinator = self.coordinator().await?;
        let request = HeartbeatRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
        };
        let answer = self.cluster.ask(coordinator, &request).await;
        let answer = self.heard(answer)?;
        self.check(answer.error_code)
    }

    async fn read(&mut self, partition: i32, position: i64) -> Option<i64> {
        let leader = self.cluster.leader(partition).await?;
        let read = fetch(&mut self.cluster, leader, partition, position).await;
        if read.is_none() {
            self.cluster.forget_leader(partition);
        }
        read.map(|(next, _)| next)
    }

    async fn commit(&mut self, partition: i32) -> Option<()> {
        let coordinator = self.coordinator().await?;
        let offset = *self.positions.get(&partition)?;
        let committed = OffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            committed_metadata: Some(ByteString::new()),
            ..Default::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: TOPIC.into(),
            partitions: vec![committed],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: GROUP.into(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.id.clone(),
            group_instance_id: self.instance.clone(),
            topics: vec![topic],
            ..Default::default()
        };
        let history = self.cluster.context.history.clone();
        history.push(Seen::Committing { partition, offset });
        let sent_at = self.cluster.context.scheduler.elapsed();
        let answer = self.cluster.ask_at_most(coordinator, &request, OFFSETS_BY_NAME).await;
        let answer = self.heard(answer)?;
        let code = answer.topics.first()?.partitions.first()?.error_code;
        self.check(code)?;
        let generation = self.generation;
        history.push(Seen::Committed { generation, partition, offset, sent_at });
        Some(())
    }
}

fn millis(span: Duration) -> i32 {
    i32::try_from(span.as_millis()).expect("seconds")
}
