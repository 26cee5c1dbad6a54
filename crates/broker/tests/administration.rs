//! Administration over loopback: a whole server, asked in chosen versions. What is expected is what Apache Kafka 4.3 and 4.4
//! answered to the same requests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use broker::config::BrokerConfig;
use broker::server::{Environment, Server};
use client::{Connection, ConnectionOptions};
use protocol::ErrorCode;
use protocol::messages::alter_configs_request as replace;
use protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::describe_topic_partitions_request::TopicRequest;
use protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use protocol::messages::{
    AlterConfigsRequest, AlterPartitionReassignmentsRequest, ApiVersionsRequest,
    CreateTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest,
    DescribeTopicPartitionsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest,
};
use std::path::Path;
use std::time::Duration;

const BROKER: i8 = 4;
const CLIENT_METRICS: i8 = 16;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

/// Runs a story against a server that is started before it and stopped after it.
fn with_server<T>(directory: &Path, story: impl AsyncFnOnce(&Connection) -> T) -> T {
    let overrides = [
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        ("log.dirs", directory.to_str().unwrap()),
        ("broker.id", "1"),
    ];
    let overrides = overrides.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = BrokerConfig::load(None, &overrides).unwrap().config;
    let environment = Environment::real();
    let server = Server::start(config, environment).unwrap();
    let address = server.listeners()[0].bound.to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = runtime.block_on(async {
        let connection = Connection::connect(&address, ConnectionOptions::default()).await;
        story(&connection.unwrap()).await
    });
    server.stop(Duration::from_secs(5));
    told
}

async fn ask<R: protocol::Request>(
    connection: &Connection,
    request: &R,
    version: i16,
) -> R::Response {
    let (response, used) = connection.send_at_most(request, version).await.unwrap();
    assert_eq!(used, version);
    response
}

async fn alter(connection: &Connection, name: &str, ops: &[(&str, i8, &str)]) -> i16 {
    let configs = ops.iter().map(|(key, op, value)| AlterableConfig {
        name: (*key).into(),
        config_operation: *op,
        value: Some((*value).into()),
    });
    let resource = AlterConfigsResource {
        resource_type: CLIENT_METRICS,
        resource_name: name.into(),
        configs: configs.collect(),
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    ask(connection, &request, 1).await.responses[0].error_code
}

async fn described(
    connection: &Connection,
    kind: i8,
    name: &str,
) -> Vec<(String, String, i8, bool)> {
    let resource = DescribeConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let mut answer = ask(connection, &request, 4).await;
    let configs = answer.results.remove(0).configs.into_iter();
    let mut lines: Vec<_> = configs
        .map(|one| {
            let value = one.value.unwrap_or_default().to_string();
            (one.name.to_string(), value, one.config_source, one.read_only)
        })
        .collect();
    lines.sort();
    lines
}

async fn subscriptions(connection: &Connection, version: i16) -> Vec<String> {
    let resource_types = if version == 0 { Vec::new() } else { vec![CLIENT_METRICS] };
    let request = ListConfigResourcesRequest { resource_types };
    let found = ask(connection, &request, version).await.config_resources;
    found.into_iter().map(|one| one.resource_name.to_string()).collect()
}

#[test]
fn a_subscription_to_metrics_is_kept_described_listed_and_gone_with_its_last_setting() {
    let directory = tempfile::tempdir().unwrap();
    let name = "all of/them";
    let line = |key: &str, value: &str, source| (key.to_owned(), value.to_owned(), source, false);
    let kept = [
        line("interval.ms", "10000", 7),
        line("match", "", 5),
        line("metrics", "org.apache.kafka.producer.", 7),
    ];
    with_server(directory.path(), async |connection| {
        assert_eq!(subscriptions(connection, 1).await, [""; 0]);
        let metrics = ("metrics", SET, "org.apache.kafka.producer.");
        assert_eq!(alter(connection, name, &[metrics, ("interval.ms", SET, "10000")]).await, 0);
        assert_eq!(described(connection, CLIENT_METRICS, name).await, kept);
        let codes = [
            (ErrorCode::InvalidRequest, ("interval.ms", SET, "99")),
            (ErrorCode::InvalidConfig, ("interval.ms", SET, "x")),
            (ErrorCode::InvalidConfig, ("match", SET, "client_id=(")),
            (ErrorCode::InvalidConfig, ("interval.ms", APPEND, "1")),
            (ErrorCode::InvalidConfig, ("metrics", APPEND, "x")),
            (ErrorCode::InvalidRequest, ("no.such", SET, "1")),
        ];
        for (code, op) in codes {
            assert_eq!(alter(connection, name, &[op]).await, code.code(), "{op:?}");
        }
        let nameless = alter(connection, "", &[metrics]).await;
        assert_eq!(nameless, ErrorCode::InvalidRequest.code());
    });
    with_server(directory.path(), async |connection| {
        assert_eq!(described(connection, CLIENT_METRICS, name).await, kept, "after a restart");
        assert_eq!(subscriptions(connection, 0).await, [name]);
        let gone = [("metrics", DELETE, ""), ("interval.ms", DELETE, "")];
        assert_eq!(alter(connection, name, &gone).await, 0);
        assert_eq!(subscriptions(connection, 1).await, [""; 0]);
    });
    with_server(directory.path(), async |connection| {
        assert_eq!(subscriptions(connection, 1).await, [""; 0]);
        assert_eq!(described(connection, CLIENT_METRICS, name).await[0].1, "300000");
    });
}

#[test]
fn the_legacy_alteration_replaces_a_subscription_and_refuses_what_comes_twice() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |connection| {
        let set = |name: &str, key: &str, value: &str| replace::AlterConfigsResource {
            resource_type: CLIENT_METRICS,
            resource_name: name.into(),
            configs: vec![replace::AlterableConfig { name: key.into(), value: Some(value.into()) }],
        };
        let alter = async |resources: Vec<replace::AlterConfigsResource>| {
            let request = AlterConfigsRequest { resources, ..Default::default() };
            let answer = ask(connection, &request, 2).await;
            answer.responses.iter().map(|one| one.error_code).collect::<Vec<_>>()
        };
        let refused = ErrorCode::InvalidRequest.code();
        let (a, b) = (set("a", "metrics", "x"), set("b", "interval.ms", "500"));
        assert_eq!(alter(vec![a.clone(), b.clone(), a.clone()]).await, [refused, 0, refused]);
        assert_eq!(subscriptions(connection, 1).await, ["b"]);
        assert_eq!(alter(vec![set("b", "metrics", "x,y")]).await, [0]);
        let values: Vec<_> = described(connection, CLIENT_METRICS, "b").await;
        let values: Vec<_> = values.iter().map(|line| line.1.as_str()).collect();
        assert_eq!(values, ["300000", "", "x,y"]);
    });
}

#[test]
fn listeners_are_described_as_they_are_read_only() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |connection| {
        let lines = described(connection, BROKER, "1").await;
        let is_read_only = |key: &str| lines.iter().find(|line| line.0 == key).unwrap().3;
        assert!(is_read_only("advertised.listeners") && is_read_only("ssl.keystore.location"));
        assert!(!is_read_only("log.retention.ms"));
    });
}

#[test]
fn a_client_that_is_at_the_wrong_broker_is_told_to_start_anew() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |connection| {
        let cluster = ask(connection, &DescribeClusterRequest::default(), 1).await.cluster_id;
        let hello = async |cluster_id: Option<&str>, node_id| {
            let request = ApiVersionsRequest {
                client_software_name: "c".into(),
                client_software_version: "1".into(),
                cluster_id: cluster_id.map(Into::into),
                node_id,
            };
            ask(connection, &request, 5).await.error_code
        };
        let (wrong, invalid) = (ErrorCode::RebootstrapRequired, ErrorCode::InvalidRequest);
        assert_eq!(hello(Some(&cluster), 1).await, 0);
        assert_eq!(hello(None, -1).await, 0);
        assert_eq!(hello(Some(&cluster), 2).await, wrong.code());
        assert_eq!(hello(Some("x"), 1).await, wrong.code());
        assert_eq!(hello(Some(&cluster), -1).await, invalid.code());
        assert_eq!(hello(None, 1).await, invalid.code());
    });
}

#[test]
fn newer_versions_answer_as_kafka_4_does() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |connection| {
        let topic = CreatableTopic {
            name: "b".into(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        };
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
        assert_eq!(ask(connection, &request, 7).await.topics[0].error_code, 0);

        // A page ends before a topic, whether it exists or not.
        let names = ["b", "c"].map(|name| TopicRequest { name: name.into() });
        let request = DescribeTopicPartitionsRequest {
            topics: names.into(),
            response_partition_limit: 2,
            ..Default::default()
        };
        let page = ask(connection, &request, 0).await;
        assert_eq!(page.topics.len(), 1);
        assert_eq!(&*page.next_cursor.unwrap().topic_name, "c");

        // What does not exist comes before what is wrong with the target; topics are answered as asked.
        let partition = |partition_index, replicas: &[i32]| ReassignablePartition {
            partition_index,
            replicas: Some(replicas.to_vec()),
        };
        let partitions = vec![partition(9, &[7, 7]), partition(0, &[7])];
        let topics = [("b", partitions), ("c", Vec::new())];
        let request = async |version| {
            let topics = topics.iter().map(|(name, partitions)| ReassignableTopic {
                name: (*name).into(),
                partitions: partitions.clone(),
            });
            let request = AlterPartitionReassignmentsRequest {
                topics: topics.collect(),
                ..Default::default()
            };
            let answer = ask(connection, &request, version).await;
            let codes = answer.responses[0].partitions.iter().map(|one| one.error_code);
            (answer.responses.len(), codes.collect::<Vec<_>>(), answer.error_message.is_none())
        };
        let refused = ErrorCode::InvalidReplicaAssignment.code();
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        assert_eq!(request(0).await, (1, vec![refused, refused], false));
        assert_eq!(request(1).await, (2, vec![unknown, refused], true));
    });
}
