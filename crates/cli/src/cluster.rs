//! `barnabas cluster`: the brokers, the controller, and who leads and holds each partition.

use crate::out_of_sync::{OutOfSync, out_of};
use crate::session::{Failure, Target, ids, run, say, say_json, table};
use clap::Args;
use client::{Client, ClientError};
use protocol::messages::MetadataResponse;
use protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Cursor home, and everything below it cleared: a view is drawn over the one before.
const OVER_THE_LAST: &str = "\x1b[H\x1b[J";

/// Show the brokers, the controller, per partition its leader, replicas and who is in sync, and of replicas that are
/// not, how far behind they are, since when and why.
///
/// What is shown is what the broker that was asked knows.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  barnabas cluster
  barnabas cluster orders --json
  barnabas cluster --watch                      a live view; Ctrl-C ends it")]
pub(crate) struct Cluster {
    #[command(flatten)]
    target: Target,
    /// Only these topics; all if none is given.
    topics: Vec<String>,
    /// Also internal topics.
    #[arg(long)]
    internal: bool,
    /// Go on and show every change.
    #[arg(short, long)]
    watch: bool,
    /// Milliseconds between two looks of --watch.
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(10..))]
    interval: u64,
    /// A text to show below the view of --watch.
    #[arg(long, value_name = "TEXT", requires = "watch", conflicts_with = "json")]
    footer: Option<String>,
    /// Print JSON; with --watch, a line per change.
    #[arg(long)]
    json: bool,
}

impl Cluster {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            if !self.watch {
                let client = self.target.connect().await?;
                let answer = self.look(&client).await?;
                return if self.json { say_json(&answer.as_json()) } else { say(answer.text()) };
            }
            let mut client = None;
            let mut shown = String::new();
            loop {
                let view = match self.next(&mut client).await {
                    Ok(answer) if self.json => answer.as_json().to_string(),
                    Ok(answer) => answer.text(),
                    Err(error) if self.json => json!({ "error": error.to_string() }).to_string(),
                    Err(error) => format!("no broker answers: {error}"),
                };
                if view != shown {
                    self.show(&view)?;
                    shown = view;
                }
                tokio::time::sleep(Duration::from_millis(self.interval)).await;
            }
        })
    }

    /// The state now, from a client that is made anew once nobody answers it.
    async fn next(&self, client: &mut Option<Client>) -> Result<View, ClientError> {
        let asked = match client.take() {
            Some(known) => known,
            None => self.target.try_connect().await?,
        };
        // A connection that has just broken is replaced at the second attempt.
        let answer = match self.look(&asked).await {
            Err(_) => self.look(&asked).await?,
            Ok(answer) => answer,
        };
        *client = Some(asked);
        Ok(answer)
    }

    async fn look(&self, client: &Client) -> Result<View, ClientError> {
        let named: Vec<_> = self.topics.iter().map(String::as_str).collect();
        let mut answer = client.metadata((!named.is_empty()).then_some(&*named), false).await?;
        for topic in answer.topics.iter().filter(|_| !named.is_empty()) {
            ClientError::check(topic.error_code, format!("topic {}", name(topic)), None)?;
        }
        if !self.internal && named.is_empty() {
            answer.topics.retain(|topic| !topic.is_internal);
        }
        answer.topics.sort_by(|a, b| a.name.cmp(&b.name));
        for topic in &mut answer.topics {
            topic.partitions.sort_by_key(|partition| partition.partition_index);
        }
        answer.brokers.sort_by_key(|broker| broker.node_id);
        let live = answer.brokers.iter().map(|broker| broker.node_id).collect();
        let out = OutOfSync::ask(client, &answer.topics, &live, answer.controller_id).await;
        Ok(View { answer, out })
    }

    fn show(&self, view: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let people = !self.json && out.is_terminal();
        writeln!(out, "{}{view}", if people { OVER_THE_LAST } else { "" })?;
        if let Some(footer) = &self.footer {
            writeln!(out, "\n{footer}")?;
        }
        if !self.json && !people {
            writeln!(out)?;
        }
        Ok(out.flush()?)
    }
}

fn name(topic: &MetadataResponseTopic) -> &str {
    topic.name.as_deref().unwrap_or_default()
}

fn partitions(answer: &MetadataResponse) -> impl Iterator<Item = &MetadataResponsePartition> {
    answer.topics.iter().flat_map(|topic| &topic.partitions)
}

/// What is shown.
#[derive(Debug, Default)]
struct View {
    answer: MetadataResponse,
    out: OutOfSync,
}

impl View {
    fn as_json(&self) -> Value {
        as_json(&self.answer, &self.out)
    }

    fn text(&self) -> String {
        let text = text(&self.answer);
        match self.out.text() {
            Some(out) => format!("{text}\n\n{out}"),
            None => text,
        }
    }
}

fn as_json(answer: &MetadataResponse, out: &OutOfSync) -> Value {
    let broker = |broker: &MetadataResponseBroker| {
        json!({
            "id": broker.node_id,
            "host": &*broker.host,
            "port": broker.port,
            "rack": broker.rack.as_deref(),
        })
    };
    let partition = |topic: &MetadataResponseTopic, partition: &MetadataResponsePartition| {
        json!({
            "topic": name(topic),
            "partition": partition.partition_index,
            "leader": leader(partition),
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replica_nodes,
            "isr": partition.isr_nodes,
            "offline": partition.offline_replicas,
            "out_of_sync": out.as_json(name(topic), partition.partition_index),
        })
    };
    json!({
        "cluster_id": answer.cluster_id.as_deref(),
        "controller": (answer.controller_id >= 0).then_some(answer.controller_id),
        "brokers": answer.brokers.iter().map(broker).collect::<Vec<_>>(),
        "partitions": answer
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |one| partition(topic, one)))
            .collect::<Vec<_>>(),
    })
}

/// The leader, if there is one.
pub(crate) fn leader(partition: &MetadataResponsePartition) -> Option<i32> {
    (partition.leader_id >= 0).then_some(partition.leader_id)
}

/// The leader for people.
pub(crate) fn leader_text(partition: &MetadataResponsePartition) -> String {
    leader(partition).map_or_else(|| "none".into(), |id| id.to_string())
}

fn text(answer: &MetadataResponse) -> String {
    let mut known: BTreeSet<i32> = answer.brokers.iter().map(|broker| broker.node_id).collect();
    known.extend(partitions(answer).flat_map(|partition| &partition.replica_nodes));
    let row = |id: i32| {
        let broker = answer.brokers.iter().find(|broker| broker.node_id == id);
        let state = match broker {
            None => "down",
            Some(_) if id == answer.controller_id => "controller",
            Some(_) => "up",
        };
        let count = |wanted: &dyn Fn(&MetadataResponsePartition) -> bool| {
            partitions(answer).filter(|partition| wanted(partition)).count().to_string()
        };
        vec![
            id.to_string(),
            broker.map_or_else(|| "-".into(), |b| model::host_and_port(&b.host, b.port)),
            broker.and_then(|b| b.rack.as_deref()).unwrap_or("-").to_owned(),
            state.into(),
            count(&|partition| partition.leader_id == id),
            count(&|partition| partition.replica_nodes.contains(&id)),
            count(&|partition| out_of(partition).contains(&id)),
        ]
    };
    let header = ["BROKER", "ADDRESS", "RACK", "STATE", "LEADS", "REPLICAS", "OUT OF SYNC"];
    let brokers = table(&header, known.into_iter().map(row));
    let header = ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE"];
    let row = |topic: &MetadataResponseTopic, partition: &MetadataResponsePartition| {
        let offline = match partition.offline_replicas.is_empty() {
            true => "-".into(),
            false => ids(&partition.offline_replicas),
        };
        vec![
            name(topic).to_owned(),
            partition.partition_index.to_string(),
            leader_text(partition),
            partition.leader_epoch.to_string(),
            ids(&partition.replica_nodes),
            ids(&partition.isr_nodes),
            offline,
        ]
    };
    let rows =
        answer.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| row(topic, p)));
    let rows: Vec<_> = rows.collect();
    match rows.is_empty() {
        true => format!("{brokers}\n\nno topics; make one: barnabas topic create NAME"),
        false => format!("{brokers}\n\n{}", table(&header, rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_brokers_of_which_one_is_down() -> MetadataResponse {
        let broker = |node_id| MetadataResponseBroker {
            node_id,
            host: "h".into(),
            port: 9000 + node_id,
            ..MetadataResponseBroker::default()
        };
        let partition = |partition_index, leader_id, isr: &[i32]| MetadataResponsePartition {
            partition_index,
            leader_id,
            leader_epoch: 4,
            replica_nodes: vec![3, 1],
            isr_nodes: isr.to_vec(),
            offline_replicas: vec![3],
            ..MetadataResponsePartition::default()
        };
        MetadataResponse {
            brokers: vec![broker(1), broker(2)],
            controller_id: 2,
            topics: vec![MetadataResponseTopic {
                name: Some("t".into()),
                partitions: vec![partition(0, 1, &[1]), partition(1, -1, &[3])],
                ..MetadataResponseTopic::default()
            }],
            ..MetadataResponse::default()
        }
    }

    #[test]
    fn people_see_who_is_down_who_leads_and_what_nobody_leads() {
        let text = text(&three_brokers_of_which_one_is_down());
        let rows: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["1", "h:9001", "-", "up", "1", "2", "1"]);
        assert_eq!(rows[2], ["2", "h:9002", "-", "controller", "0", "0", "0"]);
        assert_eq!(rows[3], ["3", "-", "-", "down", "0", "2", "1"]);
        assert_eq!(rows[6], ["t", "0", "1", "4", "3,1", "1", "3"]);
        assert_eq!(rows[7], ["t", "1", "none", "4", "3,1", "3", "3"]);
    }

    #[test]
    fn programs_see_null_where_nobody_leads() {
        let value = as_json(&three_brokers_of_which_one_is_down(), &OutOfSync::default());
        assert_eq!(value["controller"], 2);
        assert_eq!(value["partitions"][0]["leader"], 1);
        assert_eq!(value["partitions"][1]["leader"], Value::Null);
        assert_eq!(value["partitions"][1]["isr"], json!([3]));
    }
}
