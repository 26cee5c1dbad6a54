//! ListOffsets (key 2), v0 to v11: v0 a list of segment starts by file time, v1 one offset by record
//! time, v2 isolation (KIP-98), v4 leader epochs (KIP-320), v6 flexible, v7 max timestamp (KIP-734),
//! v8 local start (KIP-405), v9 end of tiered storage (KIP-1005), v10 timeout (KIP-1075), v11 start
//! of what is to be tiered (KIP-1023).

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::partition::{Found, Isolation, OffsetFailure, OffsetLookup, OffsetQuery};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use model::{LeaderEpoch, Timestamp};
use protocol::ErrorCode;
use protocol::messages::ListOffsetsRequest;
use protocol::messages::list_offsets_request::ListOffsetsPartition;
use protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) const API: Api = api!(ListOffsetsRequest, 0..=11, list_offsets);

/// `ReplicaId` of a consumer, and of a tool that looks at any replica.
const CONSUMER: i32 = -1;
const DEBUGGING: i32 = -2;
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;
/// The epoch of a client that knows none; any other is compared, below 0 too.
const NO_EPOCH: i32 = -1;

fn list_offsets(broker: &Arc<Broker>, request: Request<ListOffsetsRequest>) -> Outcome {
    let response = answer(broker, &request.body, request.context.api_version);
    request.respond(response)
}

/// The answer in this version.
pub(crate) fn answer(
    broker: &Broker,
    body: &ListOffsetsRequest,
    version: i16,
) -> ListOffsetsResponse {
    // Until version 9 all but consumers see what replicas see; from 10 on, Kafka 4's, replicas only.
    let is_replica = body.replica_id >= 0 || (version < 10 && body.replica_id != CONSUMER);
    let isolation = match body.isolation_level {
        _ if is_replica => Isolation::LogEnd,
        READ_COMMITTED => Isolation::LastStableOffset,
        _ => Isolation::HighWatermark,
    };
    let any_replica = body.replica_id == DEBUGGING;
    let wall = broker.clock.timestamp();
    let lookup = Lookup { broker, version, isolation, any_replica, wall };
    // Version 0 has no rule against asking for several times.
    let duplicates = if version == 0 { HashSet::new() } else { duplicates(body) };
    // An isolation level that does not exist is an error that Kafka did not expect of a consumer.
    let is_isolation =
        is_replica || (READ_UNCOMMITTED..=READ_COMMITTED).contains(&body.isolation_level);
    // Kafka 4 names no topic without partitions, and a partition that is refused for coming twice once.
    let is_newer = version >= 10;
    let mut refused = HashSet::new();
    let mut is_named = |topic: &ByteString, partition: i32| {
        let key = (topic.clone(), partition);
        !is_newer || !duplicates.contains(&key) || refused.insert(key)
    };
    let topics = body
        .topics
        .iter()
        .filter(|topic| !is_newer || !topic.partitions.is_empty())
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .filter(|partition| is_named(&topic.name, partition.partition_index))
                .map(|partition| {
                    let key = (topic.name.clone(), partition.partition_index);
                    if duplicates.contains(&key) {
                        failed(partition, ErrorCode::InvalidRequest)
                    } else if !is_isolation && query(partition.timestamp, version).is_ok() {
                        failed(partition, ErrorCode::UnknownServerError)
                    } else {
                        lookup.answer(&topic.name, partition)
                    }
                })
                .collect(),
        })
        .collect();
    ListOffsetsResponse { topics, ..Default::default() }
}

fn duplicates(body: &ListOffsetsRequest) -> HashSet<(ByteString, i32)> {
    let mut seen = HashSet::new();
    let mut twice = HashSet::new();
    for topic in &body.topics {
        for partition in &topic.partitions {
            let key = (topic.name.clone(), partition.partition_index);
            if !seen.insert(key.clone()) {
                twice.insert(key);
            }
        }
    }
    twice
}

struct Lookup<'a> {
    broker: &'a Broker,
    version: i16,
    isolation: Isolation,
    /// Whether a replica that does not lead answers for its own log.
    any_replica: bool,
    wall: Timestamp,
}

impl Lookup<'_> {
    fn answer(&self, topic: &str, asked: &ListOffsetsPartition) -> ListOffsetsPartitionResponse {
        let result = match self.version {
            0 => self.old_style(topic, asked),
            _ => self.by_timestamp(topic, asked),
        };
        result.unwrap_or_else(|code| failed(asked, code))
    }

    fn old_style(
        &self,
        topic: &str,
        asked: &ListOffsetsPartition,
    ) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
        query(asked.timestamp, self.version)?;
        let partition = find_partition(self.broker, topic, asked.partition_index)?;
        let max =
            usize::try_from(asked.max_num_offsets).map_err(|_| ErrorCode::UnknownServerError)?;
        let offsets = partition
            .offsets_before(
                self.wall,
                self.isolation,
                self.any_replica,
                Timestamp(asked.timestamp),
                max,
            )
            .map_err(|failure| self.code(&failure))?;
        Ok(ListOffsetsPartitionResponse {
            partition_index: asked.partition_index,
            old_style_offsets: offsets.into_iter().map(|offset| offset.0).collect(),
            ..Default::default()
        })
    }

    fn by_timestamp(
        &self,
        topic: &str,
        asked: &ListOffsetsPartition,
    ) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
        let query = query(asked.timestamp, self.version)?;
        let partition = find_partition(self.broker, topic, asked.partition_index)?;
        let lookup = OffsetLookup {
            query,
            isolation: self.isolation,
            leader_epoch: (asked.current_leader_epoch != NO_EPOCH)
                .then_some(LeaderEpoch(asked.current_leader_epoch)),
            any_replica: self.any_replica,
        };
        let found = partition.offset_for(self.wall, lookup);
        let found = found.map_err(|failure| self.code(&failure))?;
        let answer = ListOffsetsPartitionResponse {
            partition_index: asked.partition_index,
            ..Default::default()
        };
        Ok(match found {
            None => answer,
            Some(Found { offset, timestamp, leader_epoch }) => ListOffsetsPartitionResponse {
                offset: offset.0,
                timestamp: timestamp.map_or(-1, |timestamp| timestamp.0),
                leader_epoch: leader_epoch
                    .filter(|_| self.version >= 4)
                    .map_or(-1, |epoch| epoch.0),
                ..answer
            },
        })
    }

    fn code(&self, failure: &OffsetFailure) -> ErrorCode {
        let code = error_codes::offset_failure(failure);
        // Version 5 is how clients say that they know OFFSET_NOT_AVAILABLE.
        let is_unknown = code == ErrorCode::OffsetNotAvailable && self.version < 5;
        if is_unknown { ErrorCode::LeaderNotAvailable } else { code }
    }
}

/// What a timestamp asks for, if the version may ask it.
fn query(timestamp: i64, version: i16) -> Result<OffsetQuery, ErrorCode> {
    match timestamp {
        0.. => Ok(OffsetQuery::At(Timestamp(timestamp))),
        -1 => Ok(OffsetQuery::Latest),
        -2 => Ok(OffsetQuery::Earliest),
        -3 if version >= 7 => Ok(OffsetQuery::MaxTimestamp),
        -4 if version >= 8 => Ok(OffsetQuery::Earliest),
        -5 if version >= 9 => Ok(OffsetQuery::LatestTiered),
        -6 if version >= 11 => Ok(OffsetQuery::LatestTiered),
        _ => Err(ErrorCode::UnsupportedVersion),
    }
}

fn failed(asked: &ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: code.code(),
        ..Default::default()
    }
}
