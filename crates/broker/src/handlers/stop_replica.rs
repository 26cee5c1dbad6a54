//! StopReplica (key 5), v0 to v4: v1 broker epochs (KIP-380), v2 flexible, v3 leader epochs and a
//! deletion flag for each partition (KIP-570), v4 KRaft controllers. From the controller to brokers:
//! stop following, or delete, these partitions.

use crate::Broker;
use crate::control;
use crate::dispatch::{Api, api};
use crate::request::{CloseReason, Outcome, Request};
use controller::{ControlRequest, ControlResponse};
use protocol::messages::StopReplicaRequest;
use protocol::messages::stop_replica_request::{
    StopReplicaPartitionState, StopReplicaTopicState, StopReplicaTopicV1,
};
use std::sync::Arc;

pub(crate) const API: Api = api!(StopReplicaRequest, 0..=4, stop_replica);

fn stop_replica(broker: &Arc<Broker>, request: Request<StopReplicaRequest>) -> Outcome {
    let mut request = request.into_parked();
    let body = in_newest(std::mem::take(&mut request.body));
    let broker = Arc::clone(broker);
    broker.control.clone().spawn(async move {
        match control::carry_out(&broker, ControlRequest::StopReplica(body)).await {
            Ok(ControlResponse::StopReplica(response)) => request.respond(response),
            Ok(_) | Err(_) => {
                request.responder.close(CloseReason::Other("a control request was not done"))
            }
        }
    });
    Outcome::Parked
}

/// What an old version says, as the newest would say it: leader epochs are not known then.
fn in_newest(mut request: StopReplicaRequest) -> StopReplicaRequest {
    let delete = request.delete_partitions;
    let single = std::mem::take(&mut request.ungrouped_partitions).into_iter().map(|partition| {
        StopReplicaTopicV1 {
            name: partition.topic_name,
            partition_indexes: vec![partition.partition_index],
        }
    });
    let topics: Vec<_> = single.chain(std::mem::take(&mut request.topics)).collect();
    request.topic_states.extend(topics.into_iter().map(|topic| {
        StopReplicaTopicState {
            topic_name: topic.name,
            partition_states: topic
                .partition_indexes
                .into_iter()
                .map(|partition_index| StopReplicaPartitionState {
                    partition_index,
                    leader_epoch: control::UNKNOWN_EPOCH,
                    delete_partition: delete,
                })
                .collect(),
        }
    }));
    request
}
