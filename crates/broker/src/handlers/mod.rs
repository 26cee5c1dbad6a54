//! One file per API; each declares the versions that it completes.

mod admin;
mod allocate_producer_ids;
mod alter_configs;
mod alter_partition;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
pub(crate) mod api_versions;
mod controlled_shutdown;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod elect_leaders;
pub(crate) mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_and_isr;
mod leader_hint;
mod leave_group;
mod list_config_resources;
mod list_groups;
pub(crate) mod list_offsets;
mod list_partition_reassignments;
pub(crate) mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod out_of_sync;
pub(crate) mod produce;
mod stop_replica;
mod sync_group;
mod update_metadata;

use crate::Broker;
use crate::dispatch::Api;
use crate::partition::Partition;
use protocol::ErrorCode;
use std::sync::Arc;

/// Every API that we serve.
pub(crate) static APIS: &[Api] = &[
    allocate_producer_ids::API,
    alter_configs::API,
    alter_partition::API,
    alter_partition_reassignments::API,
    alter_replica_log_dirs::API,
    api_versions::API,
    controlled_shutdown::API,
    create_partitions::API,
    create_topics::API,
    delete_groups::API,
    delete_records::API,
    delete_topics::API,
    describe_cluster::API,
    describe_configs::API,
    describe_groups::API,
    describe_log_dirs::API,
    describe_producers::API,
    describe_topic_partitions::API,
    elect_leaders::API,
    fetch::API,
    find_coordinator::API,
    heartbeat::API,
    incremental_alter_configs::API,
    init_producer_id::API,
    join_group::API,
    leader_and_isr::API,
    leave_group::API,
    list_config_resources::API,
    list_groups::API,
    list_offsets::API,
    list_partition_reassignments::API,
    metadata::API,
    offset_commit::API,
    offset_delete::API,
    offset_fetch::API,
    offset_for_leader_epoch::API,
    produce::API,
    stop_replica::API,
    sync_group::API,
    update_metadata::API,
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
