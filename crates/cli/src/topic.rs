//! `barnabas topic`: lists, describes, creates, alters, trims and deletes topics.

use crate::cluster::{leader, leader_text};
use crate::out_of_sync::OutOfSync;
use crate::session::{Failure, Target, all_done, ids, key_value, run, say, say_json, say_table};
use bytestring::ByteString;
use clap::{Args, Subcommand};
use client::{Client, ClientError, EARLIEST, Isolation, LATEST, list_offsets};
use model::{TopicId, TopicPartition};
use protocol::ErrorCode;
use protocol::messages::create_partitions_request::CreatePartitionsTopic;
use protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use protocol::messages::metadata_response::MetadataResponseTopic;
use protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// What a topic is to `DescribeConfigs` and its kin.
const TOPIC_RESOURCE: i8 = 2;
/// A setting that was made for this topic.
const SOURCE_TOPIC: i8 = 1;
const REQUEST_TIMEOUT_MS: i32 = 30_000;

/// List, describe, create, alter, trim and delete topics.
#[derive(Args, Debug)]
pub(crate) struct Topic {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List topics.
    List {
        /// Also internal ones.
        #[arg(long)]
        internal: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the partitions, offsets and settings of topics.
    Describe {
        /// The topics.
        #[arg(required = true)]
        topics: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Create a topic.
    #[command(after_help = "Examples:
  barnabas topic create orders
  barnabas topic create orders --partitions 12 --config retention.ms=3600000
  barnabas topic create state --config cleanup.policy=compact --if-not-exists")]
    Create {
        /// Its name.
        topic: String,
        /// How many partitions; the broker's default if not given.
        #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// On how many brokers each; the broker's default if not given.
        #[arg(short, long, value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// A setting of the topic. May be repeated.
        #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
        configs: Vec<(String, String)>,
        /// Succeed if it exists already.
        #[arg(long)]
        if_not_exists: bool,
        /// Only ask whether it could be created.
        #[arg(long)]
        dry_run: bool,
    },
    /// Add partitions to a topic, set and unset its settings.
    #[command(after_help = "Examples:
  barnabas topic alter orders --partitions 24
  barnabas topic alter orders --set retention.ms=60000 --unset segment.bytes")]
    Alter {
        /// The topic.
        topic: String,
        /// How many partitions it is to have; more than now.
        #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// A setting. May be repeated.
        #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
        set: Vec<(String, String)>,
        /// Back to the broker's default. May be repeated.
        #[arg(long, value_name = "KEY")]
        unset: Vec<String>,
        /// Only ask whether it could be done.
        #[arg(long)]
        dry_run: bool,
    },
    /// Delete the records of a partition before an offset.
    Trim {
        /// The topic.
        topic: String,
        /// The partition.
        #[arg(short, long)]
        partition: i32,
        /// The first offset to keep; -1 keeps none.
        #[arg(long, allow_negative_numbers = true)]
        before: i64,
    },
    /// Delete topics and all that is in them.
    Delete {
        /// The topics.
        #[arg(required = true)]
        topics: Vec<String>,
        /// Succeed if one does not exist.
        #[arg(long)]
        if_exists: bool,
    },
}

impl Topic {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            let client = self.target.connect().await?;
            match self.command {
                Command::List { internal, json } => list(&client, internal, json).await,
                Command::Describe { topics, json } => describe(&client, &topics, json).await,
                Command::Create {
                    topic,
                    partitions,
                    replication_factor,
                    configs,
                    if_not_exists,
                    dry_run,
                } => {
                    let wanted = CreatableTopic {
                        name: topic.into(),
                        num_partitions: partitions.unwrap_or(-1),
                        replication_factor: replication_factor.unwrap_or(-1),
                        configs: configs.into_iter().map(creatable).collect(),
                        ..CreatableTopic::default()
                    };
                    create(&client, wanted, if_not_exists, dry_run).await
                }
                Command::Alter { topic, partitions, set, unset, dry_run } => {
                    if partitions.is_none() && set.is_empty() && unset.is_empty() {
                        let text = "nothing to alter: give --partitions, --set or --unset";
                        return Err(Failure::Usage(text.into()));
                    }
                    if let Some(count) = partitions {
                        add_partitions(&client, &topic, count, dry_run).await?;
                    }
                    if !set.is_empty() || !unset.is_empty() {
                        alter_configs(&client, &topic, set, unset, dry_run).await?;
                    }
                    Ok(())
                }
                Command::Trim { topic, partition, before } => {
                    trim(&client, &topic, partition, before).await
                }
                Command::Delete { topics, if_exists } => delete(&client, &topics, if_exists).await,
            }
        })
    }
}

fn creatable((name, value): (String, String)) -> CreatableTopicConfig {
    CreatableTopicConfig { name: name.into(), value: Some(value.into()) }
}

async fn list(client: &Client, internal: bool, json: bool) -> Result<(), Failure> {
    let answer = client.metadata(None, false).await?;
    let mut topics: Vec<_> =
        answer.topics.into_iter().filter(|topic| internal || !topic.is_internal).collect();
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let name = |topic: &MetadataResponseTopic| topic.name.clone().unwrap_or_default().to_string();
    let replicas = |topic: &MetadataResponseTopic| {
        topic.partitions.iter().map(|partition| partition.replica_nodes.len()).max().unwrap_or(0)
    };
    if json {
        let row = |topic: &MetadataResponseTopic| {
            json!({
                "topic": name(topic),
                "partitions": topic.partitions.len(),
                "replication_factor": replicas(topic),
                "internal": topic.is_internal,
            })
        };
        return say_json(&topics.iter().map(row).collect());
    }
    if topics.is_empty() {
        eprintln!("no topics; make one: barnabas topic create NAME");
        return Ok(());
    }
    let row = |topic: &MetadataResponseTopic| {
        vec![name(topic), topic.partitions.len().to_string(), replicas(topic).to_string()]
    };
    say_table(&["TOPIC", "PARTITIONS", "REPLICAS"], topics.iter().map(row))
}

async fn describe(client: &Client, topics: &[String], json: bool) -> Result<(), Failure> {
    let mut described = Vec::new();
    let cluster = client.metadata(Some(&[]), false).await?;
    let live = cluster.brokers.iter().map(|broker| broker.node_id).collect();
    for (at, name) in topics.iter().enumerate() {
        let mut topic = client.topic(name, false).await?;
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        let ask = |timestamp| {
            // Nobody knows the offsets of a partition that has no leader.
            let partitions =
                topic.partitions.iter().filter(|partition| leader(partition).is_some());
            let one = |index| (TopicPartition::new(name.as_str(), index), timestamp);
            partitions.map(|partition| one(partition.partition_index)).collect::<Vec<_>>()
        };
        let starts = list_offsets(client, &ask(EARLIEST), Isolation::ReadUncommitted).await?;
        let ends = list_offsets(client, &ask(LATEST), Isolation::ReadUncommitted).await?;
        let configs = topic_configs(client, name).await?;
        let asked = std::slice::from_ref(&topic);
        let out = OutOfSync::ask(client, asked, &live, cluster.controller_id).await;
        let offset = |offsets: &BTreeMap<TopicPartition, i64>, index| {
            offsets.get(&TopicPartition::new(name.as_str(), index)).copied()
        };
        if json {
            let partitions: Vec<_> = topic
                .partitions
                .iter()
                .map(|partition| {
                    json!({
                        "partition": partition.partition_index,
                        "leader": leader(partition),
                        "leader_epoch": partition.leader_epoch,
                        "replicas": partition.replica_nodes,
                        "isr": partition.isr_nodes,
                        "offline": partition.offline_replicas,
                        "out_of_sync": out.as_json(name, partition.partition_index),
                        "log_start_offset": offset(&starts, partition.partition_index),
                        "end_offset": offset(&ends, partition.partition_index),
                    })
                })
                .collect();
            described.push(json!({
                "topic": name,
                "id": topic.topic_id.to_string(),
                "internal": topic.is_internal,
                "partitions": partitions,
                "configs": configs,
            }));
            continue;
        }
        if at > 0 {
            say("")?;
        }
        say(format_args!("topic    {name}"))?;
        if topic.topic_id != TopicId::ZERO {
            say(format_args!("id       {}", topic.topic_id))?;
        }
        for (key, value) in &configs {
            say(format_args!("set      {key}={value}"))?;
        }
        let header = ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"];
        let show = |offset: Option<i64>| offset.map_or("-".into(), |offset| offset.to_string());
        let row = |partition: &protocol::messages::metadata_response::MetadataResponsePartition| {
            let index = partition.partition_index;
            vec![
                index.to_string(),
                leader_text(partition),
                ids(&partition.replica_nodes),
                ids(&partition.isr_nodes),
                show(offset(&starts, index)),
                show(offset(&ends, index)),
            ]
        };
        say_table(&header, topic.partitions.iter().map(row))?;
        if let Some(out) = out.text() {
            say(format_args!("\n{out}"))?;
        }
    }
    if json { say_json(&described.into()) } else { Ok(()) }
}

/// What was set for this topic.
async fn topic_configs(client: &Client, name: &str) -> Result<BTreeMap<String, String>, Failure> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: name.into(),
            configuration_keys: None,
        }],
        ..DescribeConfigsRequest::default()
    };
    let answer = client.any().await?.send(&request).await?;
    let mut set = BTreeMap::new();
    for result in answer.results {
        let what = format!("settings of {name}");
        ClientError::check(result.error_code, what, result.error_message.as_deref())?;
        for config in result.configs {
            if config.config_source == SOURCE_TOPIC {
                let value = config.value.unwrap_or_else(|| "(hidden)".into());
                set.insert(config.name.to_string(), value.to_string());
            }
        }
    }
    Ok(set)
}

async fn create(
    client: &Client,
    topic: CreatableTopic,
    if_not_exists: bool,
    dry_run: bool,
) -> Result<(), Failure> {
    let name = topic.name.to_string();
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: REQUEST_TIMEOUT_MS,
        validate_only: dry_run,
    };
    let answer = client.controller().await?.send(&request).await?;
    for result in &answer.topics {
        if if_not_exists && result.error_code == ErrorCode::TopicAlreadyExists.code() {
            return say(format_args!("{name} exists"));
        }
        let what = format!("create topic {name}");
        ClientError::check(result.error_code, what, result.error_message.as_deref())?;
    }
    say(format_args!("{} {name}", if dry_run { "could create" } else { "created" }))
}

async fn add_partitions(
    client: &Client,
    topic: &str,
    count: i32,
    dry_run: bool,
) -> Result<(), Failure> {
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic { name: topic.into(), count, assignments: None }],
        timeout_ms: REQUEST_TIMEOUT_MS,
        validate_only: dry_run,
    };
    let answer = client.controller().await?.send(&request).await?;
    for result in &answer.results {
        let what = format!("partitions of {topic}");
        ClientError::check(result.error_code, what, result.error_message.as_deref())?;
    }
    say(format_args!("{topic} {} {count} partitions", if dry_run { "could have" } else { "has" }))
}

async fn alter_configs(
    client: &Client,
    topic: &str,
    set: Vec<(String, String)>,
    unset: Vec<String>,
    dry_run: bool,
) -> Result<(), Failure> {
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    let change = |name: String, config_operation, value: Option<ByteString>| AlterableConfig {
        name: name.into(),
        config_operation,
        value,
    };
    let changes = set
        .into_iter()
        .map(|(name, value)| change(name, SET, Some(value.into())))
        .chain(unset.into_iter().map(|name| change(name, DELETE, None)));
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: topic.into(),
            configs: changes.collect(),
        }],
        validate_only: dry_run,
    };
    let answer = client.controller().await?.send(&request).await?;
    for result in &answer.responses {
        let what = format!("settings of {topic}");
        ClientError::check(result.error_code, what, result.error_message.as_deref())?;
    }
    say(format_args!("{} {topic}", if dry_run { "could alter" } else { "altered" }))
}

async fn trim(client: &Client, topic: &str, partition: i32, before: i64) -> Result<(), Failure> {
    let info = client.leaders(topic, false).await?;
    let at = usize::try_from(partition).unwrap_or(usize::MAX);
    let leader = info.leaders.get(at).copied().flatten().ok_or_else(|| {
        Failure::from(ClientError::NoPartition { topic: topic.to_owned(), partition })
    })?;
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: topic.into(),
            partitions: vec![DeleteRecordsPartition { partition_index: partition, offset: before }],
        }],
        timeout_ms: REQUEST_TIMEOUT_MS,
    };
    let answer = client.broker(leader).await?.send(&request).await?;
    for result in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        ClientError::check(result.error_code, format!("trim {topic}-{partition}"), None)?;
        say(format_args!("{topic}-{partition} starts at {}", result.low_watermark))?;
    }
    Ok(())
}

async fn delete(client: &Client, topics: &[String], if_exists: bool) -> Result<(), Failure> {
    let connection = client.controller().await?;
    let named = connection
        .version_at_most::<DeleteTopicsRequest>(i16::MAX)
        .is_some_and(|version| version >= 6);
    let mut request =
        DeleteTopicsRequest { timeout_ms: REQUEST_TIMEOUT_MS, ..DeleteTopicsRequest::default() };
    for topic in topics {
        let name = ByteString::from(topic.as_str());
        match named {
            true => request
                .topics
                .push(DeleteTopicState { name: Some(name), ..DeleteTopicState::default() }),
            false => request.topic_names.push(name),
        }
    }
    let answer = connection.send(&request).await?;
    let mut failures = Vec::new();
    for result in answer.responses {
        let name = result.name.unwrap_or_default();
        if if_exists && result.error_code == ErrorCode::UnknownTopicOrPartition.code() {
            say(format_args!("{name} does not exist"))?;
            continue;
        }
        let what = format!("delete topic {name}");
        match ClientError::check(result.error_code, what, result.error_message.as_deref()) {
            Ok(()) => say(format_args!("deleted {name}"))?,
            Err(error) => failures.push(error.to_string()),
        }
    }
    all_done(failures)
}
