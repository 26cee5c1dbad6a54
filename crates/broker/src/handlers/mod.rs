//! One file per API; each declares the versions that it completes.

pub(crate) mod api_versions;
mod delete_groups;
mod delete_records;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
pub(crate) mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leader_hint;
mod leave_group;
mod list_groups;
pub(crate) mod list_offsets;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
pub(crate) mod produce;
mod sync_group;

use crate::Broker;
use crate::dispatch::Api;
use crate::partition::Partition;
use protocol::ErrorCode;
use std::sync::Arc;

/// Every API that we serve.
pub(crate) static APIS: &[Api] = &[
    api_versions::API,
    delete_groups::API,
    delete_records::API,
    describe_groups::API,
    describe_log_dirs::API,
    describe_producers::API,
    fetch::API,
    find_coordinator::API,
    heartbeat::API,
    init_producer_id::API,
    join_group::API,
    leave_group::API,
    list_groups::API,
    list_offsets::API,
    offset_commit::API,
    offset_delete::API,
    offset_fetch::API,
    offset_for_leader_epoch::API,
    produce::API,
    sync_group::API,
];

/// Partition `index` of the topic called `topic`.
///
/// # Errors
/// `UNKNOWN_TOPIC_OR_PARTITION` if the cluster has none, `NOT_LEADER_OR_FOLLOWER` if it is elsewhere.
pub(crate) fn find_partition(
    broker: &Broker,
    topic: &str,
    index: i32,
) -> Result<Arc<Partition>, ErrorCode> {
    broker.partitions.find(topic, index).ok_or_else(|| {
        match broker.image.load().partition(topic, index) {
            None => ErrorCode::UnknownTopicOrPartition,
            Some(_) => ErrorCode::NotLeaderOrFollower,
        }
    })
}

#[cfg(test)]
mod tests;
