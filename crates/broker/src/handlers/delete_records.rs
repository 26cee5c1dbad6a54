//! DeleteRecords (key 21), v0 to v2 (KIP-107): v2 flexible. Raises the start of a partition's log; an
//! offset of -1 means the high watermark. Answers the low watermark: the least start of all replicas.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::handlers::produce::is_internal;
use crate::request::{Outcome, Request};
use model::{Offset, Timestamp};
use protocol::ErrorCode;
use protocol::messages::DeleteRecordsRequest;
use protocol::messages::delete_records_request::DeleteRecordsPartition;
use protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use std::sync::Arc;
use tracing::info;

pub(crate) const API: Api = api!(DeleteRecordsRequest, 0..=2, delete_records);

/// The offset that stands for the high watermark.
const TO_HIGH_WATERMARK: i64 = -1;

fn delete_records(broker: &Arc<Broker>, request: Request<DeleteRecordsRequest>) -> Outcome {
    let wall = broker.clock.timestamp();
    let asked = request.body.topics.iter().filter(|topic| !topic.partitions.is_empty());
    let topics = asked.map(|topic| DeleteRecordsTopicResult {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|asked| {
                let partition_index = asked.partition_index;
                match delete_before(broker, wall, &topic.name, asked) {
                    Ok(low) => DeleteRecordsPartitionResult {
                        partition_index,
                        low_watermark: low.0,
                        error_code: 0,
                    },
                    Err(code) => DeleteRecordsPartitionResult {
                        partition_index,
                        low_watermark: -1,
                        error_code: code.code(),
                    },
                }
            })
            .collect(),
    });
    let topics = topics.collect();
    request.respond(DeleteRecordsResponse { topics, ..Default::default() })
}

fn delete_before(
    broker: &Broker,
    wall: Timestamp,
    topic: &str,
    asked: &DeleteRecordsPartition,
) -> Result<Offset, ErrorCode> {
    let partition = find_partition(broker, topic, asked.partition_index)?;
    if is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let offset = (asked.offset != TO_HIGH_WATERMARK).then_some(Offset(asked.offset));
    let low_watermark = partition
        .delete_before(wall, offset)
        .map_err(|failure| error_codes::delete_failure(&failure))?;
    info!(%partition, offset = asked.offset, low_watermark = low_watermark.0, "records deleted");
    Ok(low_watermark)
}
