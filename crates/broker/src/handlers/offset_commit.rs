//! OffsetCommit (key 8), v0 to v10: v1 generation and member, with a commit time; v2 to v4 a retention time instead; v6
//! leader epoch (KIP-320), v7 static members (KIP-345), v8 flexible, v9 KIP-848 members, v10 topic ids. Answered once the
//! offsets are committed.
//!
//! v0 once went to ZooKeeper. Here its offsets are like any other version's, without a generation: Kafka 3.9 with
//! ZooKeeper keeps the two apart.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work};
use crate::request::{Outcome, Parked, Request};
use group::Error;
use group::request::{Answer, Commit, OffsetToCommit, Speaker};
use metadata::ClusterImage;
use model::{TopicId, TopicName};
use protocol::ErrorCode;
use protocol::messages::OffsetCommitRequest;
use protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use protocol::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

pub(crate) const API: Api = api!(OffsetCommitRequest, 0..=10, offset_commit);

fn offset_commit(broker: &Arc<Broker>, request: Request<OffsetCommitRequest>) -> Outcome {
    let image = broker.image.load();
    let (response, offsets) = sort(&request.body, request.context.api_version, &image);
    if offsets.is_empty() {
        return request.respond(response);
    }
    let group_id = request.body.group_id.clone();
    let work = Committing { request: request.into_parked(), response, offsets };
    broker.groups.submit(&group_id, &image, Box::new(work));
    Outcome::Parked
}

struct Committing {
    request: Parked<OffsetCommitRequest>,
    /// With what is refused already.
    response: OffsetCommitResponse,
    offsets: Vec<OffsetToCommit>,
}

/// Partitions that do not exist are answered here; the others are to be committed. As in Kafka's answer, the refused
/// ones come first, and of a partition that comes twice the last offset counts.
fn sort(
    request: &OffsetCommitRequest,
    version: i16,
    image: &ClusterImage,
) -> (OffsetCommitResponse, Vec<OffsetToCommit>) {
    let mut response = OffsetCommitResponse::default();
    let mut offsets = Vec::<OffsetToCommit>::new();
    // The coordinator of 4.x answers a partition as often as it is named.
    let answers_each = version >= 10;
    let mut places = BTreeMap::new();
    for topic in &request.topics {
        let by_id = version >= 10;
        let found =
            if by_id { image.topic_by_id(topic.topic_id) } else { image.topic(&topic.name) };
        let unknown =
            if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        let mut refused = Vec::new();
        for partition in &topic.partitions {
            let index = partition.partition_index;
            match found {
                Some(found) if found.partition(index).is_some() => {
                    let id = by_id.then_some(topic.topic_id);
                    let offset = offset(found.name().clone(), id, partition, version);
                    if answers_each {
                        offsets.push(offset);
                        continue;
                    }
                    match places.entry((found.name().clone(), index)) {
                        Entry::Vacant(place) => {
                            place.insert(offsets.len());
                            offsets.push(offset);
                        }
                        Entry::Occupied(place) => offsets[*place.get()] = offset,
                    }
                }
                Some(_) => refused.push(answered(index, ErrorCode::UnknownTopicOrPartition.code())),
                None => refused.push(answered(index, unknown.code())),
            }
        }
        // Of a topic that exists without partitions nothing is said; an unknown one is named.
        if !refused.is_empty() || found.is_none() {
            let name = if by_id { Default::default() } else { topic.name.clone() };
            let partitions = refused;
            response.topics.push(OffsetCommitResponseTopic {
                name,
                topic_id: topic.topic_id,
                partitions,
            });
        }
    }
    (response, offsets)
}

fn offset(
    topic: TopicName,
    topic_id: Option<TopicId>,
    sent: &OffsetCommitRequestPartition,
    version: i16,
) -> OffsetToCommit {
    OffsetToCommit {
        topic,
        partition: sent.partition_index,
        topic_id,
        offset: sent.committed_offset,
        leader_epoch: Some(sent.committed_leader_epoch).filter(|&epoch| epoch >= 0),
        metadata: sent.committed_metadata.as_deref().unwrap_or_default().into(),
        commit_timestamp: Some(sent.commit_timestamp).filter(|&at| version == 1 && at != -1),
    }
}

impl Work for Committing {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let Self { request: Parked { body, context, responder }, mut response, offsets } = *self;
        let places: Vec<_> = offsets.iter().map(place).collect();
        // Until version 9 a group that does not exist has no such generation.
        let is_missing =
            context.api_version >= 10 && desk.groups.describe(&body.group_id).is_none();
        let ticket = desk.wait(move |answer| {
            if let Answer::Commit(results) = answer {
                for (place, error) in places.iter().zip(results) {
                    let code = match error {
                        Some(Error::IllegalGeneration) if is_missing => {
                            ErrorCode::GroupIdNotFound.code()
                        }
                        error => error_codes::of_group(error),
                    };
                    add(&mut response, place, code);
                }
                responder.respond(&response);
            }
        });
        let version = context.api_version;
        let speaker = Speaker {
            member: &body.member_id,
            instance: body.group_instance_id.as_deref(),
            generation: if version == 0 { -1 } else { body.generation_id_or_member_epoch },
        };
        let retention =
            Some(body.retention_time_ms).filter(|&ms| (2..=4).contains(&version) && ms != -1);
        let commit = Commit { group: &body.group_id, speaker, retention, offsets };
        desk.groups.commit(desk.now, ticket, commit, desk.actions);
    }

    fn refuse(mut self: Box<Self>, error: Error) {
        for offset in &self.offsets {
            add(&mut self.response, &place(offset), error_codes::group(error).code());
        }
        self.request.respond(self.response);
    }
}

/// Where an offset's answer belongs.
struct Place {
    topic: TopicName,
    topic_id: Option<TopicId>,
    partition: i32,
}

fn place(offset: &OffsetToCommit) -> Place {
    Place { topic: offset.topic.clone(), topic_id: offset.topic_id, partition: offset.partition }
}

fn add(response: &mut OffsetCommitResponse, place: &Place, error_code: i16) {
    let same = |t: &OffsetCommitResponseTopic| match place.topic_id {
        Some(id) => t.topic_id == id,
        None => *t.name == *place.topic,
    };
    // Offsets come topic by topic, so it is the last topic nearly always.
    let found = response.topics.iter().rposition(same);
    let at = found.unwrap_or_else(|| {
        let name =
            if place.topic_id.is_some() { Default::default() } else { (&*place.topic).into() };
        let topic_id = place.topic_id.unwrap_or(TopicId::ZERO);
        response.topics.push(OffsetCommitResponseTopic { name, topic_id, partitions: Vec::new() });
        response.topics.len() - 1
    });
    response.topics[at].partitions.push(answered(place.partition, error_code));
}

fn answered(partition_index: i32, error_code: i16) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition { partition_index, error_code }
}
