//! What a live Apache Kafka 3.9.2 controller sent in a situation, we send in it too, field for field.

use super::*;
use crate::context::{LiveBroker, Partition, Topic};
use crate::placement::Placement;
use crate::znodes::StateNode;
use bytes::Bytes;
use metadata::{BrokerImage, Endpoint, SecurityProtocol};
use model::{BrokerEpoch, PartitionEpoch};
use protocol::{Message, Reader, RequestHeader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn golden<M: Message>(name: &str) -> M {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/tests/golden");
    let text = std::fs::read_to_string(directory.join(name).with_extension("hex")).unwrap();
    let hex = text.lines().find_map(|line| line.strip_prefix("request ")).unwrap();
    let pairs = hex.trim().as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let frame: Bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader).unwrap();
    M::decode(&mut reader, header.api_version).unwrap()
}

fn ids(raw: &[i32]) -> Vec<BrokerId> {
    raw.iter().copied().map(BrokerId).collect()
}

fn settings(controller: i32) -> ControllerSettings {
    ControllerSettings {
        broker: BrokerImage { id: BrokerId(controller), rack: None, endpoints: Vec::new() },
        inter_broker_listener: "PLAINTEXT".into(),
        num_partitions: 1,
        default_replication_factor: 1,
        placement: Placement::Kafka,
        unclean_leader_election: false,
        min_insync_replicas: 1,
        delete_topics: true,
        auto_leader_rebalance: false,
        leader_imbalance_percentage: 10,
        leader_imbalance_interval: Duration::from_secs(300),
        fast_failure_detection: true,
        log_doubt: None,
        unclean_restart_wait: Duration::from_secs(300),
        reconcile_interval: None,
    }
}

fn live(context: &mut Context, id: i32, endpoints: Vec<Endpoint>, rack: Option<&str>) {
    let image = BrokerImage { id: BrokerId(id), rack: rack.map(str::to_owned), endpoints };
    let epoch = BrokerEpoch(-1);
    let broker = LiveBroker { image: Arc::new(image), epoch, version: 1, incarnation: None };
    context.brokers.insert(BrokerId(id), broker);
}

fn endpoint(listener: &str, host: &str, port: i32, id: i16) -> Endpoint {
    let security_protocol = SecurityProtocol::from_id(id).unwrap();
    Endpoint { listener: listener.into(), host: host.into(), port, security_protocol }
}

/// The cluster as the golden's own fields describe it.
fn of_leader_and_isr(golden: &LeaderAndIsrRequest) -> Context {
    let mut context = Context::default();
    for topic in &golden.topic_states {
        let partitions = topic.partition_states.iter().map(|state| {
            let node = StateNode {
                leader: Some(BrokerId(state.leader)).filter(|id| id.0 >= 0),
                leader_epoch: LeaderEpoch(state.leader_epoch),
                isr: ids(&state.isr),
                controller_epoch: ControllerEpoch(state.controller_epoch),
                recovering: state.leader_recovery_state == 1,
            };
            let partition_epoch = PartitionEpoch(state.partition_epoch);
            let partition = Partition {
                adding: ids(&state.adding_replicas),
                removing: ids(&state.removing_replicas),
                state: Some(State { node, partition_epoch }),
                ..Partition::assigned(ids(&state.replicas))
            };
            (state.partition_index, partition)
        });
        let topic = (
            TopicName::from(&*topic.topic_name),
            Topic {
                id: topic.topic_id,
                partitions: partitions.collect(),
                has_partitions_node: true,
            },
        );
        context.insert(topic.0, topic.1);
    }
    for leader in &golden.live_leaders {
        let endpoint = endpoint("PLAINTEXT", &leader.host_name, leader.port, 0);
        live(&mut context, leader.broker_id, vec![endpoint], None);
    }
    context
}

#[test]
fn leader_and_isr_is_as_apaches() {
    for name in [
        "leader-and-isr-v7-new-topic",
        "leader-and-isr-v7-no-leader",
        "leader-and-isr-v7-unclean",
        "leader-and-isr-v7-reassigning",
        "leader-and-isr-v7-reassigning-repeat",
        "leader-and-isr-v7-returning-broker-is-last-isr",
        "leader-and-isr-v7-log-dir-failed",
    ] {
        let mut golden: LeaderAndIsrRequest = golden(name);
        let mut context = of_leader_and_isr(&golden);
        // To a broker that leads nothing of it.
        let receiver = BrokerId(99);
        live(&mut context, receiver.0, Vec::new(), None);
        let mut outbox = Outbox::default();
        for topic in &golden.topic_states {
            for state in &topic.partition_states {
                let at = TopicPartition::new(&*topic.topic_name, state.partition_index);
                outbox.lead(&at, [receiver], state.is_new);
            }
        }
        let epoch = ControllerEpoch(golden.controller_epoch);
        let sent = outbox.requests(&context, &settings(golden.controller_id), epoch);
        let sent = sent.into_iter().find_map(|(to, request)| match request {
            ControlRequest::LeaderAndIsr(request) => (to == receiver).then_some(request),
            ControlRequest::UpdateMetadata(_)
            | ControlRequest::StopReplica(_)
            | ControlRequest::LogEnds(_) => None,
        });
        let mut sent = sent.unwrap();
        // Order means nothing here: Java's is that of its hash maps.
        sort_leader_and_isr(&mut sent);
        sort_leader_and_isr(&mut golden);
        golden.broker_epoch = -1;
        assert_eq!(sent, golden, "{name}");
    }
}

fn sort_leader_and_isr(request: &mut LeaderAndIsrRequest) {
    request.topic_states.sort_by_key(|topic| topic.topic_name.to_string());
    request.topic_states.iter_mut().for_each(|topic| {
        topic.partition_states.sort_by_key(|state| state.partition_index);
    });
    request.live_leaders.sort_by_key(|leader| leader.broker_id);
}

#[test]
fn update_metadata_is_as_apaches() {
    for name in [
        "update-metadata-v8-new-topic",
        "update-metadata-v8-deleted",
        "update-metadata-v8-new-controller",
        "update-metadata-v8-offline",
    ] {
        let mut golden: UpdateMetadataRequest = golden(name);
        let mut context = Context::default();
        let mut outbox = Outbox::default();
        outbox.describe_brokers();
        for broker in &golden.live_brokers {
            let endpoints = broker
                .endpoints
                .iter()
                .map(|e| endpoint(&e.listener, &e.host, e.port, e.security_protocol));
            live(&mut context, broker.id, endpoints.collect(), broker.rack.as_deref());
        }
        for topic in &golden.topic_states {
            let topic_name = TopicName::from(&*topic.topic_name);
            let mut partitions = BTreeMap::new();
            let mut deleted = Vec::new();
            for state in &topic.partition_states {
                let at = TopicPartition::new(topic_name.clone(), state.partition_index);
                for &id in state
                    .offline_replicas
                    .iter()
                    .filter(|&&id| context.brokers.contains_key(&BrokerId(id)))
                {
                    context.offline.insert((BrokerId(id), at.clone()));
                }
                let node = StateNode {
                    leader: Some(BrokerId(state.leader)).filter(|id| id.0 >= 0),
                    leader_epoch: LeaderEpoch(state.leader_epoch),
                    isr: ids(&state.isr),
                    controller_epoch: ControllerEpoch(state.controller_epoch),
                    recovering: false,
                };
                let partition_epoch = PartitionEpoch(state.zk_version);
                let state_of = State { node, partition_epoch };
                let partition = Partition {
                    state: Some(state_of),
                    ..Partition::assigned(ids(&state.replicas))
                };
                partitions.insert(state.partition_index, partition);
                match state.leader {
                    DELETED => deleted.push(state.partition_index),
                    _ => outbox.describe(&at),
                }
            }
            if !deleted.is_empty() {
                outbox.hide(topic_name.clone(), topic.topic_id, deleted);
            }
            let topic = Topic { id: topic.topic_id, partitions, has_partitions_node: true };
            context.insert(topic_name, topic);
        }
        let epoch = ControllerEpoch(golden.controller_epoch);
        let sent = outbox.requests(&context, &settings(golden.controller_id), epoch);
        let Some((_, ControlRequest::UpdateMetadata(mut sent))) = sent.into_iter().next() else {
            panic!("{name}: nothing is sent")
        };
        sort_update_metadata(&mut sent);
        sort_update_metadata(&mut golden);
        golden.broker_epoch = -1;
        assert_eq!(sent, golden, "{name}");
    }
}

fn sort_update_metadata(request: &mut UpdateMetadataRequest) {
    request.topic_states.sort_by_key(|topic| topic.topic_name.to_string());
    request.topic_states.iter_mut().for_each(|topic| {
        topic.partition_states.sort_by_key(|state| state.partition_index);
    });
    request.live_brokers.sort_by_key(|broker| broker.id);
}

#[test]
fn stop_replica_is_as_apaches() {
    for name in [
        "stop-replica-v4-topic-deletion-1",
        "stop-replica-v4-topic-deletion-2",
        "stop-replica-v4-reassignment-done",
        "stop-replica-v4-controlled-shutdown",
    ] {
        let mut golden: StopReplicaRequest = golden(name);
        let mut context = Context::default();
        let receiver = BrokerId(99);
        live(&mut context, receiver.0, Vec::new(), None);
        let mut outbox = Outbox::default();
        for topic in &golden.topic_states {
            for state in &topic.partition_states {
                let at = TopicPartition::new(&*topic.topic_name, state.partition_index);
                match state.leader_epoch {
                    DELETED => outbox.delete(&at, receiver, state.delete_partition),
                    epoch => {
                        outbox.stop(&at, receiver, LeaderEpoch(epoch), state.delete_partition);
                    }
                }
            }
        }
        let epoch = ControllerEpoch(golden.controller_epoch);
        let sent = outbox.requests(&context, &settings(golden.controller_id), epoch);
        let Some((_, ControlRequest::StopReplica(mut sent))) = sent.into_iter().next() else {
            panic!("{name}: nothing is sent")
        };
        golden.broker_epoch = -1;
        for request in [&mut sent, &mut golden] {
            request.topic_states.sort_by_key(|topic| topic.topic_name.to_string());
            request.topic_states.iter_mut().for_each(|topic| {
                topic.partition_states.sort_by_key(|state| state.partition_index);
            });
        }
        assert_eq!(sent, golden, "{name}");
    }
}
