//! `barnabas group`: lists, describes and deletes groups, moves their offsets.

use crate::session::{Failure, Target, all_done, run, say, say_json, say_table};
use bytestring::ByteString;
use clap::{Args, Subcommand};
use client::{
    Client, ClientError, EARLIEST, Isolation, LATEST, PartitionOffset, commit_offsets,
    committed_offsets, list_offsets,
};
use model::TopicPartition;
use protocol::messages::describe_groups_response::DescribedGroup;
use protocol::messages::list_groups_response::ListedGroup;
use protocol::messages::{
    ConsumerProtocolAssignment, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest,
};
use protocol::{ErrorCode, decode_newest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// List, describe and delete groups; move their offsets.
#[derive(Args, Debug)]
pub(crate) struct Group {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List groups.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the members, offsets and lag of groups.
    Describe {
        /// The groups.
        #[arg(required = true)]
        groups: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete groups without members, with their offsets.
    Delete {
        /// The groups.
        #[arg(required = true)]
        groups: Vec<String>,
    },
    /// Move the offsets of a group without members.
    #[command(after_help = "Examples:
  barnabas group reset-offsets billing --topic orders --to-earliest
  barnabas group reset-offsets billing --topic orders --partition 3 --to-offset 1200
  barnabas group reset-offsets billing --all-topics --to-time 1700000000000 --dry-run")]
    ResetOffsets(Reset),
}

#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("where").required(true)))]
#[command(group(clap::ArgGroup::new("what").required(true)))]
struct Reset {
    /// The group.
    group: String,
    /// A topic. May be repeated.
    #[arg(short, long = "topic", group = "what")]
    topics: Vec<String>,
    /// All topics that the group has offsets in.
    #[arg(long, group = "what")]
    all_topics: bool,
    /// Only this partition.
    #[arg(short, long)]
    partition: Option<i32>,
    /// To the first record.
    #[arg(long, group = "where")]
    to_earliest: bool,
    /// To the end.
    #[arg(long, group = "where")]
    to_latest: bool,
    /// To this offset, or the nearest that exists.
    #[arg(long, group = "where", value_name = "OFFSET")]
    to_offset: Option<i64>,
    /// To the first record at or after a time, in ms since 1970.
    #[arg(long, group = "where", value_name = "MS")]
    to_time: Option<i64>,
    /// By so many records, back if negative, from where the group is.
    #[arg(long, group = "where", value_name = "COUNT", allow_negative_numbers = true)]
    by: Option<i64>,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Group {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            let client = self.target.connect().await?;
            match self.command {
                Command::List { json } => list(&client, json).await,
                Command::Describe { groups, json } => describe(&client, &groups, json).await,
                Command::Delete { groups } => delete(&client, &groups).await,
                Command::ResetOffsets(reset) => reset.run(&client).await,
            }
        })
    }
}

/// The groups of all brokers: each knows those that it coordinates.
async fn listed(client: &Client) -> Result<BTreeMap<String, ListedGroup>, Failure> {
    let brokers = client.metadata(Some(&[]), false).await?.brokers;
    let mut groups = BTreeMap::new();
    for broker in brokers {
        let connection = client.broker(broker.node_id).await?;
        let answer = connection.send(&ListGroupsRequest::default()).await?;
        ClientError::check(
            answer.error_code,
            format!("groups of broker {}", broker.node_id),
            None,
        )?;
        groups.extend(answer.groups.into_iter().map(|group| (group.group_id.to_string(), group)));
    }
    Ok(groups)
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let groups = listed(client).await?;
    if json {
        let row = |group: &ListedGroup| {
            json!({
                "group": &*group.group_id,
                "state": &*group.group_state,
                "type": &*group.group_type,
                "protocol_type": &*group.protocol_type,
            })
        };
        return say_json(&groups.values().map(row).collect());
    }
    if groups.is_empty() {
        eprintln!("no groups");
        return Ok(());
    }
    let row = |group: &ListedGroup| {
        [&group.group_id, &group.group_state, &group.group_type, &group.protocol_type]
            .map(ToString::to_string)
            .to_vec()
    };
    say_table(&["GROUP", "STATE", "TYPE", "PROTOCOL"], groups.values().map(row))
}

/// A member's partitions, as far as its protocol is the consumers'.
fn assignment(group: &DescribedGroup, bytes: &bytes::Bytes) -> Vec<TopicPartition> {
    if &*group.protocol_type != "consumer" || bytes.is_empty() {
        return Vec::new();
    }
    let Ok((_, assignment)) = decode_newest::<ConsumerProtocolAssignment>(bytes.clone()) else {
        return Vec::new();
    };
    let topics = assignment.assigned_partitions.into_iter();
    topics
        .flat_map(|topic| {
            let name = topic.topic.clone();
            topic.partitions.into_iter().map(move |at| TopicPartition::new(&*name, at))
        })
        .collect()
}

/// Where a group is in a partition.
struct Place {
    partition: TopicPartition,
    committed: i64,
    end: Option<i64>,
    member: Option<String>,
}

impl Place {
    fn lag(&self) -> Option<i64> {
        self.end.map(|end| end.saturating_sub(self.committed).max(0))
    }
}

async fn places(client: &Client, group: &DescribedGroup) -> Result<Vec<Place>, Failure> {
    let mut owners = BTreeMap::new();
    for member in &group.members {
        for partition in assignment(group, &member.member_assignment) {
            owners.insert(partition, member.member_id.to_string());
        }
    }
    let committed = committed_offsets(client, &group.group_id, None).await?;
    let mut places = Vec::new();
    for PartitionOffset { partition, offset, .. } in committed {
        let wanted = [(partition.clone(), LATEST)];
        // The topic may be gone: the offset is there all the same.
        let end = list_offsets(client, &wanted, Isolation::ReadUncommitted)
            .await
            .ok()
            .and_then(|found| found.get(&partition).copied());
        let member = owners.get(&partition).cloned();
        places.push(Place { partition, committed: offset, end, member });
    }
    Ok(places)
}

async fn described(client: &Client, name: &str) -> Result<DescribedGroup, Failure> {
    let request = DescribeGroupsRequest { groups: vec![name.into()], ..Default::default() };
    let mut answer = client.group_coordinator(name).await?.send(&request).await?;
    let what = format!("group {name}");
    let missing = || ClientError::broker(ErrorCode::GroupIdNotFound.code(), what.clone(), None);
    let group = answer.groups.pop().ok_or_else(missing)?;
    ClientError::check(group.error_code, &what, group.error_message.as_deref())?;
    if &*group.group_state == "Dead" {
        return Err(missing().into());
    }
    Ok(group)
}

async fn describe(client: &Client, groups: &[String], json: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (at, name) in groups.iter().enumerate() {
        let group = described(client, name).await?;
        let places = places(client, &group).await?;
        if json {
            all.push(group_json(&group, &places));
            continue;
        }
        if at > 0 {
            say("")?;
        }
        say(format_args!("group    {name}"))?;
        say(format_args!("state    {}", group.group_state))?;
        if !group.protocol_data.is_empty() {
            say(format_args!("assignor {}", group.protocol_data))?;
        }
        if !group.members.is_empty() {
            say("")?;
            let rows = group.members.iter().map(|member| {
                let partitions = assignment(&group, &member.member_assignment);
                vec![
                    member.member_id.to_string(),
                    member.client_id.to_string(),
                    member.client_host.to_string(),
                    partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                ]
            });
            say_table(&["MEMBER", "CLIENT", "HOST", "PARTITIONS"], rows)?;
        }
        if !places.is_empty() {
            say("")?;
            let show = |offset: Option<i64>| offset.map_or("-".into(), |offset| offset.to_string());
            let rows = places.iter().map(|place| {
                vec![
                    place.partition.topic.to_string(),
                    place.partition.partition.to_string(),
                    place.committed.to_string(),
                    show(place.end),
                    show(place.lag()),
                    place.member.clone().unwrap_or_else(|| "-".into()),
                ]
            });
            let header = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"];
            say_table(&header, rows)?;
        }
    }
    if json { say_json(&all.into()) } else { Ok(()) }
}

fn group_json(group: &DescribedGroup, places: &[Place]) -> Value {
    let partition = |at: &TopicPartition| json!({ "topic": &*at.topic, "partition": at.partition });
    let members: Vec<_> = group
        .members
        .iter()
        .map(|member| {
            let partitions = assignment(group, &member.member_assignment);
            json!({
                "member": &*member.member_id,
                "instance": member.group_instance_id.as_deref(),
                "client": &*member.client_id,
                "host": &*member.client_host,
                "partitions": partitions.iter().map(partition).collect::<Vec<_>>(),
            })
        })
        .collect();
    let offsets: Vec<_> = places
        .iter()
        .map(|place| {
            json!({
                "topic": &*place.partition.topic,
                "partition": place.partition.partition,
                "committed": place.committed,
                "end": place.end,
                "lag": place.lag(),
                "member": place.member,
            })
        })
        .collect();
    json!({
        "group": &*group.group_id,
        "state": &*group.group_state,
        "protocol_type": &*group.protocol_type,
        "assignor": &*group.protocol_data,
        "members": members,
        "offsets": offsets,
    })
}

async fn delete(client: &Client, groups: &[String]) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for name in groups {
        let request = DeleteGroupsRequest { groups_names: vec![ByteString::from(name.as_str())] };
        let answer = client.group_coordinator(name).await?.send(&request).await?;
        for result in answer.results {
            let what = format!("delete group {name}");
            match ClientError::check(result.error_code, what, result.error_message.as_deref()) {
                Ok(()) => say(format_args!("deleted {name}"))?,
                Err(error) => failures.push(error.to_string()),
            }
        }
    }
    all_done(failures)
}

impl Reset {
    async fn run(self, client: &Client) -> Result<(), Failure> {
        let committed: BTreeMap<_, _> = committed_offsets(client, &self.group, None)
            .await?
            .into_iter()
            .map(|found| (found.partition, found.offset))
            .collect();
        let partitions = self.partitions(client, &committed).await?;
        let moves = self.moves(client, &committed, partitions).await?;
        if moves.is_empty() {
            let text = format!("group {} has no offsets to move", self.group);
            return Err(Failure::Failed(text));
        }
        if !self.dry_run {
            commit_offsets(client, &self.group, &moves).await.map_err(|error| {
                match error.code() {
                    Some(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                        let group = &self.group;
                        let text = format!("group {group} has members; stop its consumers first");
                        Failure::Failed(text)
                    }
                    _ => error.into(),
                }
            })?;
        }
        if self.json {
            let row = |to: &PartitionOffset| {
                json!({
                    "topic": &*to.partition.topic,
                    "partition": to.partition.partition,
                    "from": committed.get(&to.partition),
                    "to": to.offset,
                })
            };
            return say_json(&moves.iter().map(row).collect());
        }
        let rows = moves.iter().map(|to| {
            let from = committed.get(&to.partition);
            vec![
                to.partition.topic.to_string(),
                to.partition.partition.to_string(),
                from.map_or("-".into(), ToString::to_string),
                to.offset.to_string(),
            ]
        });
        say_table(&["TOPIC", "PARTITION", "FROM", "TO"], rows)?;
        if self.dry_run {
            eprintln!("nothing was changed: --dry-run");
        }
        Ok(())
    }

    async fn partitions(
        &self,
        client: &Client,
        committed: &BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeSet<TopicPartition>, Failure> {
        let mut partitions: BTreeSet<_> = match self.all_topics {
            true => committed.keys().cloned().collect(),
            false => BTreeSet::new(),
        };
        for topic in &self.topics {
            let count = client.leaders(topic, false).await?.leaders.len();
            partitions.extend((0..).take(count).map(|at| TopicPartition::new(topic.as_str(), at)));
        }
        if let Some(partition) = self.partition {
            partitions.retain(|at| at.partition == partition);
            if partitions.is_empty() {
                return Err(Failure::Failed(format!("there is no partition {partition}")));
            }
        }
        Ok(partitions)
    }

    /// Where each partition goes, within what its log holds.
    async fn moves(
        &self,
        client: &Client,
        committed: &BTreeMap<TopicPartition, i64>,
        partitions: BTreeSet<TopicPartition>,
    ) -> Result<Vec<PartitionOffset>, Failure> {
        let ask = async |timestamp: i64| {
            let wanted: Vec<_> = partitions.iter().map(|at| (at.clone(), timestamp)).collect();
            list_offsets(client, &wanted, Isolation::ReadUncommitted).await
        };
        let starts = ask(EARLIEST).await?;
        let ends = ask(LATEST).await?;
        let times = match self.to_time {
            Some(time) => ask(time).await?,
            None => BTreeMap::new(),
        };
        let mut moves = Vec::new();
        for partition in partitions {
            let find = |offsets: &BTreeMap<TopicPartition, i64>| {
                offsets.get(&partition).copied().filter(|offset| *offset >= 0)
            };
            let (Some(start), Some(end)) = (find(&starts), find(&ends)) else { continue };
            let wanted = if self.to_earliest {
                start
            } else if self.to_latest {
                end
            } else if let Some(offset) = self.to_offset {
                offset
            } else if self.to_time.is_some() {
                find(&times).unwrap_or(end)
            } else {
                // Where the group has not been there is nothing to count from.
                let Some(at) = find(committed) else { continue };
                at.saturating_add(self.by.unwrap_or_default())
            };
            let offset = wanted.clamp(start, end.max(start));
            moves.push(PartitionOffset { partition, offset, metadata: String::new() });
        }
        Ok(moves)
    }
}
