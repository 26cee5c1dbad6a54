//! OffsetForLeaderEpoch (key 23), v0 to v4: v1 the epoch that ends there (KIP-279), v2 the reader's
//! leader epoch (KIP-320), v3 replica id, v4 flexible. Where a leader epoch ends in the leader's log;
//! -1/-1 without an error if the log cannot tell, a future epoch included.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::request::{Outcome, Request};
use model::{LeaderEpoch, Timestamp};
use protocol::ErrorCode;
use protocol::messages::OffsetForLeaderEpochRequest;
use protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use std::sync::Arc;
use storage::EpochEnd;

pub(crate) const API: Api = api!(OffsetForLeaderEpochRequest, 0..=4, offset_for_leader_epoch);

fn offset_for_leader_epoch(
    broker: &Arc<Broker>,
    request: Request<OffsetForLeaderEpochRequest>,
) -> Outcome {
    let wall = broker.clock.timestamp();
    let topics = request.body.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| {
                let answer =
                    EpochEndOffset { partition: asked.partition, ..EpochEndOffset::default() };
                match end_of_epoch(broker, wall, &topic.topic, asked) {
                    Ok(Some(end)) => EpochEndOffset {
                        leader_epoch: end.leader_epoch.0,
                        end_offset: end.end_offset.0,
                        ..answer
                    },
                    Ok(None) => answer,
                    Err(code) => EpochEndOffset { error_code: code.code(), ..answer },
                }
            })
            .collect(),
    });
    let topics = topics.collect();
    request.respond(OffsetForLeaderEpochResponse { topics, ..Default::default() })
}

fn end_of_epoch(
    broker: &Broker,
    wall: Timestamp,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<EpochEnd>, ErrorCode> {
    let partition = find_partition(broker, topic, asked.partition)?;
    // Only -1 means none: lower ones are compared, as before all epochs.
    let epoch = |epoch: i32| (epoch != -1).then_some(LeaderEpoch(epoch));
    let expected = epoch(asked.current_leader_epoch);
    match epoch(asked.leader_epoch) {
        Some(epoch) => partition.end_of_epoch(wall, expected, epoch).map_err(error_codes::refusal),
        // Asked for no epoch; whether this is the leader counts all the same.
        None => partition
            .end_of_epoch(wall, expected, LeaderEpoch(0))
            .map(|_| None)
            .map_err(error_codes::refusal),
    }
}
