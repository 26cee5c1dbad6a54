//! The control path of a cluster: several whole brokers over one store, told by one of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::{CreateTopicsRequest, MetadataRequest, MetadataResponse};
use support::Cluster;

fn metadata(cluster: &Cluster, id: i32) -> MetadataResponse {
    cluster.ask(id, &MetadataRequest { topics: None, ..Default::default() })
}

fn create(cluster: &Cluster, name: &str, partitions: i32, factor: i16) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: factor,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() };
    let response = cluster.ask(cluster.controller().unwrap(), &request);
    assert_eq!(response.topics[0].error_code, 0, "{response:?}");
}

/// What every broker says of a partition: leader, leader epoch, in-sync replicas.
fn seen(cluster: &Cluster, id: i32, topic: &str, partition: i32) -> Option<(i32, i32, Vec<i32>)> {
    let response = metadata(cluster, id);
    let topic = response.topics.iter().find(|t| t.name.as_deref() == Some(topic))?;
    let found = topic.partitions.iter().find(|p| p.partition_index == partition)?;
    Some((found.leader_id, found.leader_epoch, found.isr_nodes.clone()))
}

#[test]
fn every_broker_is_told_of_every_broker_and_every_topic() {
    let cluster = Cluster::start(3, &[]);
    assert_eq!(cluster.controller(), Some(1));
    create(&cluster, "t", 3, 3);
    for id in 1..=3 {
        cluster.until("all brokers and the topic are known", || {
            let response = metadata(&cluster, id);
            let brokers: Vec<_> = response.brokers.iter().map(|b| b.node_id).collect();
            let led = seen(&cluster, id, "t", 2).is_some_and(|(leader, ..)| leader > 0);
            brokers == [1, 2, 3] && response.controller_id == 1 && led
        });
    }
}

#[test]
fn the_leader_and_the_controller_die_in_one_and_are_replaced() {
    let mut cluster = Cluster::start(3, &[]);
    create(&cluster, "t", 3, 3);
    let led_by_1 = (0..3).find(|&p| seen(&cluster, 1, "t", p).unwrap().0 == 1).unwrap();
    cluster.kill_broker(1);
    cluster.until("another controller", || cluster.controller().is_some_and(|id| id != 1));
    for id in [2, 3] {
        cluster.until("another leader, known to all", || {
            seen(&cluster, id, "t", led_by_1).is_some_and(|(leader, epoch, isr)| {
                leader != 1 && epoch == 1 && isr.len() == 2 && !isr.contains(&1)
            })
        });
    }
    assert_eq!(cluster.text("/controller_epoch").as_deref(), Some("2"));
    cluster.start_broker(1);
    cluster.until("it knows its topics", || seen(&cluster, 1, "t", led_by_1).is_some());
}
