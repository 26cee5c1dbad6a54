//! DeleteRecords (key 21), v0 to v2 (KIP-107): v2 flexible. Raises the start of a partition's log; an
//! offset of -1 means the high watermark. Answers the low watermark, the least start of all live
//! replicas, once it is there or the time is up: then the records are gone everywhere.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::produce::is_internal;
use crate::handlers::{admin, find_partition};
use crate::partition::{Deletion, Partition};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use model::{Offset, Timestamp};
use protocol::ErrorCode;
use protocol::messages::DeleteRecordsRequest;
use protocol::messages::delete_records_request::DeleteRecordsPartition;
use protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use std::sync::Arc;
use std::time::Duration;
use tracing::info;

pub(crate) const API: Api = api!(DeleteRecordsRequest, 0..=2, delete_records);

/// The offset that stands for the high watermark.
const TO_HIGH_WATERMARK: i64 = -1;

/// How often it is looked whether followers have told of their new start. They do at once: deletion wakes
/// the fetches that wait here.
const LOOK: Duration = Duration::from_millis(5);

fn delete_records(broker: &Arc<Broker>, request: Request<DeleteRecordsRequest>) -> Outcome {
    let wall = broker.clock.timestamp();
    let asked = request.body.topics.iter().filter(|topic| !topic.partitions.is_empty());
    let mut deletions: Vec<(ByteString, Vec<PartitionDeletion>)> = asked
        .map(|topic| {
            let partitions = topic.partitions.iter();
            let delete = |asked| PartitionDeletion::start(broker, wall, &topic.name, asked);
            (topic.name.clone(), partitions.map(delete).collect())
        })
        .collect();
    if !is_pending(&deletions) {
        return request.respond(response(deletions));
    }
    let timeout = admin::timeout(request.body.timeout_ms);
    let request = request.into_parked();
    let clock = Arc::clone(&broker.clock);
    broker.control.spawn(async move {
        let deadline = tokio::time::Instant::now() + timeout;
        while is_pending(&deletions) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
            let wall = clock.timestamp();
            deletions.iter_mut().flat_map(|(_, all)| all).for_each(|one| one.look(wall));
        }
        request.respond(response(deletions));
    });
    Outcome::Parked
}

fn is_pending(deletions: &[(ByteString, Vec<PartitionDeletion>)]) -> bool {
    deletions.iter().flat_map(|(_, all)| all).any(|one| one.pending.is_some())
}

fn response(deletions: Vec<(ByteString, Vec<PartitionDeletion>)>) -> DeleteRecordsResponse {
    let topics = deletions.into_iter().map(|(name, partitions)| DeleteRecordsTopicResult {
        name,
        partitions: partitions.into_iter().map(|one| one.result).collect(),
    });
    DeleteRecordsResponse { topics: topics.collect(), ..Default::default() }
}

/// The records of one partition.
struct PartitionDeletion {
    /// What is answered if nothing changes: while it is pending, that the time is up.
    result: DeleteRecordsPartitionResult,
    /// Set until every live replica's log starts there.
    pending: Option<(Arc<Partition>, Offset)>,
}

impl PartitionDeletion {
    fn start(
        broker: &Broker,
        wall: Timestamp,
        topic: &str,
        asked: &DeleteRecordsPartition,
    ) -> Self {
        let partition_index = asked.partition_index;
        let (low_watermark, code, pending) = match delete_before(broker, wall, topic, asked) {
            Ok((partition, Deletion { before, low_watermark })) if low_watermark < before => {
                (low_watermark.0, ErrorCode::RequestTimedOut, Some((partition, before)))
            }
            Ok((_, deletion)) => (deletion.low_watermark.0, ErrorCode::None, None),
            Err(code) => (-1, code, None),
        };
        let error_code = code.code();
        let result = DeleteRecordsPartitionResult { partition_index, low_watermark, error_code };
        Self { result, pending }
    }

    fn look(&mut self, wall: Timestamp) {
        let Some((partition, before)) = &self.pending else { return };
        let (low_watermark, code) = match partition.low_watermark(wall) {
            Ok(low) if low < *before => return,
            Ok(low) => (low.0, ErrorCode::None),
            Err(refused) => (-1, error_codes::refusal(refused)),
        };
        (self.result.low_watermark, self.result.error_code) = (low_watermark, code.code());
        self.pending = None;
    }
}

fn delete_before(
    broker: &Broker,
    wall: Timestamp,
    topic: &str,
    asked: &DeleteRecordsPartition,
) -> Result<(Arc<Partition>, Deletion), ErrorCode> {
    let partition = find_partition(broker, topic, asked.partition_index)?;
    if is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let offset = (asked.offset != TO_HIGH_WATERMARK).then_some(Offset(asked.offset));
    let deletion = partition
        .delete_before(wall, offset)
        .map_err(|failure| error_codes::delete_failure(&failure))?;
    info!(%partition, offset = asked.offset, low_watermark = deletion.low_watermark.0, "records deleted");
    Ok((partition, deletion))
}
