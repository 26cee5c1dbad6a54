//! OffsetFetch (key 9), v0 to v10: v2 an error of its own and all partitions (null topics), v5 leader epoch (KIP-320), v6
//! flexible, v7 only stable offsets (KIP-447), v8 several groups (KIP-709), v9 KIP-848 members, v10 topic ids.
//!
//! Nothing committed is offset -1 without an error, except in v0: offsets were in ZooKeeper then, and clients of that
//! time are told UNKNOWN_TOPIC_OR_PARTITION. Before v2 an error of the group is repeated for each partition.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Slot, Work, gather};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use group::request::FetchedOffset;
use group::{Error, GroupOffsets};
use metadata::ClusterImage;
use model::TopicId;
use protocol::ErrorCode;
use protocol::messages::OffsetFetchRequest;
use protocol::messages::offset_fetch_request::OffsetFetchRequestTopics;
use protocol::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) const API: Api = api!(OffsetFetchRequest, 0..=10, offset_fetch);

fn offset_fetch(broker: &Arc<Broker>, request: Request<OffsetFetchRequest>) -> Outcome {
    let version = request.context.api_version;
    let image = broker.image.load_full();
    let mut request = request.into_parked();
    let require_stable = version >= 7 && request.body.require_stable;
    let groups: Vec<_> = if version < 8 {
        let by_name = |topics: Vec<_>| topics.into_iter().map(by_name).collect();
        vec![(request.body.group_id.clone(), request.body.topics.take().map(by_name))]
    } else {
        std::mem::take(&mut request.body.groups)
            .into_iter()
            .map(|g| (g.group_id, g.topics))
            .collect()
    };
    let slots = gather(groups.len(), move |groups| request.respond(response(groups, version)));
    for ((group_id, topics), slot) in groups.into_iter().zip(slots) {
        let work = Fetching {
            group_id: group_id.clone(),
            topics: if version >= 10 { topics } else { topics.map(each_once) },
            version,
            require_stable,
            image: Arc::clone(&image),
            slot,
        };
        broker.groups.submit(&group_id, &image, Box::new(work));
    }
    Outcome::Parked
}

fn by_name(
    topic: protocol::messages::offset_fetch_request::OffsetFetchRequestTopic,
) -> OffsetFetchRequestTopics {
    OffsetFetchRequestTopics {
        name: topic.name,
        topic_id: TopicId::ZERO,
        partition_indexes: topic.partition_indexes,
    }
}

/// A partition that is asked for twice is answered once, up to version 9.
fn each_once(topics: Vec<OffsetFetchRequestTopics>) -> Vec<OffsetFetchRequestTopics> {
    let mut places = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut merged = Vec::<OffsetFetchRequestTopics>::with_capacity(topics.len());
    for mut topic in topics {
        let fresh = merged.len();
        let place = *places.entry((topic.name.clone(), topic.topic_id)).or_insert(fresh);
        topic.partition_indexes.retain(|&partition| seen.insert((place, partition)));
        match merged.get_mut(place) {
            Some(known) => known.partition_indexes.append(&mut topic.partition_indexes),
            None => merged.push(topic),
        }
    }
    merged
}

/// What is asked of one group.
struct Fetching {
    group_id: ByteString,
    /// None for all.
    topics: Option<Vec<OffsetFetchRequestTopics>>,
    version: i16,
    require_stable: bool,
    image: Arc<ClusterImage>,
    slot: Slot<OffsetFetchResponseGroup>,
}

impl Work for Fetching {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let offsets = desk.groups.offsets(&self.group_id, self.require_stable);
        let topics = match &self.topics {
            // Kafka 3.9 answers partition by partition, so a topic without any is not heard of again.
            Some(topics) => topics
                .iter()
                .filter(|topic| self.version >= 10 || !topic.partition_indexes.is_empty())
                .map(|topic| self.fetch(topic, &offsets))
                .collect(),
            None => self.fetch_all(&offsets),
        };
        self.slot.fill(OffsetFetchResponseGroup {
            group_id: self.group_id,
            topics,
            ..Default::default()
        });
    }

    fn refuse(self: Box<Self>, error: Error) {
        let error_code = error_codes::group(error).code();
        let topics = match self.topics {
            Some(topics) if self.version < 2 => {
                topics.iter().map(|topic| with_error(topic, error_code)).collect()
            }
            Some(_) | None => Vec::new(),
        };
        self.slot.fill(OffsetFetchResponseGroup { group_id: self.group_id, topics, error_code });
    }
}

impl Fetching {
    fn fetch(
        &self,
        topic: &OffsetFetchRequestTopics,
        offsets: &GroupOffsets<'_>,
    ) -> OffsetFetchResponseTopics {
        let by_id = self.version >= 10;
        let name = if by_id {
            match self.image.topic_by_id(topic.topic_id) {
                Some(found) => found.name().clone(),
                None => return with_error(topic, ErrorCode::UnknownTopicId.code()),
            }
        } else {
            (&*topic.name).into()
        };
        let fetch = |&partition: &i32| {
            let fetched = offsets.get(&name, partition, by_id.then_some(topic.topic_id));
            let is_known = self.version > 0 || self.image.partition(&name, partition).is_some();
            self.answer(partition, if is_known { fetched } else { FetchedOffset::None })
        };
        OffsetFetchResponseTopics {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partition_indexes.iter().map(fetch).collect(),
        }
    }

    /// From v10 on, topics that do not exist have no id to be named by.
    fn fetch_all(&self, offsets: &GroupOffsets<'_>) -> Vec<OffsetFetchResponseTopics> {
        let by_id = self.version >= 10;
        let mut topics = Vec::<OffsetFetchResponseTopics>::new();
        let mut last = None;
        for (name, partition) in offsets.all() {
            let topic_id = if by_id {
                match self.image.topic(name).and_then(|t| t.id()) {
                    Some(id) => id,
                    None => continue,
                }
            } else {
                TopicId::ZERO
            };
            let fetched = offsets.get(name, partition, by_id.then_some(topic_id));
            if by_id && fetched == FetchedOffset::None {
                continue;
            }
            if last != Some(name) {
                last = Some(name);
                let shown = if by_id { ByteString::new() } else { (&**name).into() };
                topics.push(OffsetFetchResponseTopics {
                    name: shown,
                    topic_id,
                    partitions: Vec::new(),
                });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(self.answer(partition, fetched));
            }
        }
        topics
    }

    fn answer(
        &self,
        partition_index: i32,
        fetched: FetchedOffset,
    ) -> OffsetFetchResponsePartitions {
        match fetched {
            FetchedOffset::Committed(offset) => OffsetFetchResponsePartitions {
                partition_index,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
                // ZooKeeper kept only the number.
                metadata: Some(
                    offset
                        .metadata
                        .as_deref()
                        .filter(|_| self.version > 0)
                        .unwrap_or_default()
                        .into(),
                ),
                error_code: 0,
            },
            FetchedOffset::Unstable => {
                none(partition_index, ErrorCode::UnstableOffsetCommit.code())
            }
            FetchedOffset::None if self.version == 0 => {
                none(partition_index, ErrorCode::UnknownTopicOrPartition.code())
            }
            FetchedOffset::None => none(partition_index, 0),
        }
    }
}

fn with_error(topic: &OffsetFetchRequestTopics, error_code: i16) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partition_indexes.iter().map(|&p| none(p, error_code)).collect(),
    }
}

fn none(partition_index: i32, error_code: i16) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(ByteString::new()),
        error_code,
    }
}

fn response(mut groups: Vec<OffsetFetchResponseGroup>, version: i16) -> OffsetFetchResponse {
    if version >= 8 {
        return OffsetFetchResponse { groups, ..Default::default() };
    }
    let Some(group) = groups.pop() else { return OffsetFetchResponse::default() };
    let partition = |p: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: p.partition_index,
        committed_offset: p.committed_offset,
        committed_leader_epoch: p.committed_leader_epoch,
        metadata: p.metadata,
        error_code: p.error_code,
    };
    let topic = |t: OffsetFetchResponseTopics| OffsetFetchResponseTopic {
        name: t.name,
        partitions: t.partitions.into_iter().map(partition).collect(),
    };
    OffsetFetchResponse {
        topics: group.topics.into_iter().map(topic).collect(),
        error_code: if version < 2 { 0 } else { group.error_code },
        ..Default::default()
    }
}
