//! Who is not in sync, how far behind, since when and why: put together of what the brokers concerned tell.
//!
//! Leaders tell how far behind their followers are, the controller since when and why; of one that neither leader nor
//! controller tells all of, its own broker is asked, in Kafka's words (DescribeLogDirs) where it is Apache's.
//! Whoever does not answer soon is left out: one that lags may be frozen.

use crate::session::{ids, table};
use client::{Client, ClientError};
use platform::Clock;
use platform::clock::SystemClock;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use protocol::messages::{DescribeConfigsRequest, DescribeLogDirsRequest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;

/// By this key brokers tell what they know; no listing of settings shows it.
const KEY: &str = "barnabas.out.of.sync";
/// What a topic is to `DescribeConfigs`.
const TOPIC_RESOURCE: i8 = 2;
/// How long a broker may take to tell.
const PATIENCE: Duration = Duration::from_secs(2);

/// Topic, partition, replica.
type Place = (String, i32, i32);

/// What is known of replicas that are not in sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutOfSync {
    replicas: BTreeMap<Place, Replica>,
}

#[derive(Clone, Debug, Default)]
struct Replica {
    behind: Option<i64>,
    caught_up_ms: Option<i64>,
    left_ms: Option<i64>,
    cause: Option<String>,
    trouble: Option<String>,
    /// Whether the controller says that it may lead without loss.
    is_eligible: bool,
    /// Whether its broker is registered, and says that it has the replica.
    is_up: bool,
    is_offline: bool,
}

impl OutOfSync {
    /// Asks about all replicas of `topics` that are not in sync; `brokers` are those that live, `controller` is one
    /// of them or nobody.
    pub(crate) async fn ask(
        client: &Client,
        topics: &[MetadataResponseTopic],
        brokers: &BTreeSet<i32>,
        controller: i32,
    ) -> Self {
        let mut all = Self::default();
        let mut asked: BTreeMap<i32, BTreeSet<String>> = BTreeMap::new();
        for (topic, partition) in
            topics.iter().flat_map(|t| t.partitions.iter().map(move |p| (t, p)))
        {
            let name = topic.name.as_deref().unwrap_or_default();
            for id in out_of(partition) {
                let replica = Replica {
                    is_up: brokers.contains(&id),
                    is_offline: partition.offline_replicas.contains(&id),
                    ..Replica::default()
                };
                all.replicas.insert((name.to_owned(), partition.partition_index, id), replica);
                for teller in [partition.leader_id, controller] {
                    asked.entry(teller).or_default().insert(name.to_owned());
                }
            }
        }
        asked.retain(|id, _| brokers.contains(id));
        let mut answers = JoinSet::new();
        for (id, topics) in asked {
            answers.spawn(tokio::time::timeout(PATIENCE, told(client.clone(), id, topics)));
        }
        while let Some(answer) = answers.join_next().await {
            let facts = answer.ok().and_then(Result::ok).and_then(Result::ok).unwrap_or_default();
            facts.into_iter().for_each(|(place, what, value)| all.note(&place, &what, value));
        }
        all.ask_the_replicas(client).await;
        all
    }

    /// Asks the brokers of replicas about which the others told too little.
    async fn ask_the_replicas(&mut self, client: &Client) {
        let mut asked: BTreeMap<i32, Vec<Place>> = BTreeMap::new();
        for (place, replica) in &self.replicas {
            let may_be_broken =
                replica.is_offline || replica.cause.as_deref() == Some("log-failed");
            if replica.is_up && (replica.behind.is_none() || may_be_broken) {
                asked.entry(place.2).or_default().push(place.clone());
            }
        }
        let mut answers = JoinSet::new();
        for (id, places) in asked {
            let client = client.clone();
            answers.spawn(tokio::time::timeout(PATIENCE, async move {
                let topics = places.iter().map(|place| place.0.clone()).collect();
                let mut facts = told(client.clone(), id, topics).await.unwrap_or_default();
                // What it is behind by its own account, which is all that Apache's brokers tell.
                facts.extend(lags(client, id, places).await.unwrap_or_default());
                facts
            }));
        }
        while let Some(answer) = answers.join_next().await {
            let facts = answer.ok().and_then(Result::ok).unwrap_or_default();
            for (place, what, value) in facts {
                let is_known = self.replicas.get(&place).is_some_and(|r| r.behind.is_some());
                if what != "behind" || !is_known {
                    self.note(&place, &what, value);
                }
            }
        }
    }

    fn note(&mut self, place: &Place, what: &str, value: String) {
        // Back in sync since the metadata were asked for, or never mentioned there.
        let Some(replica) = self.replicas.get_mut(place) else { return };
        match what {
            "behind" => replica.behind = value.parse().ok(),
            "caught.up.ms" => replica.caught_up_ms = value.parse().ok(),
            "left.ms" => replica.left_ms = value.parse().ok(),
            "cause" => replica.cause = Some(value),
            "trouble" => replica.trouble = Some(value),
            "eligible" => replica.is_eligible = value == "true",
            // What a later version tells.
            _ => {}
        }
    }

    /// The replicas of a partition that are not in sync, for programs; what is not known is null.
    pub(crate) fn as_json(&self, topic: &str, partition: i32) -> Value {
        let all = self.replicas.iter();
        let mine = all.filter(|((name, index, _), _)| name == topic && *index == partition);
        let one = |((_, _, id), replica): (&Place, &Replica)| {
            json!({
                "replica": id,
                "broker": if replica.is_up { "up" } else { "down" },
                "offline": replica.is_offline,
                "behind": replica.behind,
                "caught_up_ms": replica.caught_up_ms,
                "left_ms": replica.left_ms,
                "cause": replica.cause,
                "trouble": replica.trouble,
                "eligible": replica.is_eligible,
            })
        };
        mine.map(one).collect()
    }

    /// A table for people; `None` if all are in sync.
    pub(crate) fn text(&self) -> Option<String> {
        self.text_at(SystemClock::new().timestamp().0)
    }

    fn text_at(&self, now_ms: i64) -> Option<String> {
        if self.replicas.is_empty() {
            return None;
        }
        let header = ["OUT OF SYNC", "PARTITION", "REPLICA", "BEHIND", "CAUGHT UP", "LEFT", "WHY"];
        let rows = self.replicas.iter().map(|((topic, partition, id), replica)| {
            let left = replica.left_ms.map(|at| ago(now_ms, at));
            // Of what happened under an earlier controller, only the latest time is known that it can have been.
            let at_least =
                if replica.cause.as_deref() == Some("unknown") { "at least " } else { "" };
            vec![
                topic.clone(),
                partition.to_string(),
                ids(&[*id]),
                replica.behind.map_or_else(|| "-".into(), |count| count.to_string()),
                replica.caught_up_ms.map_or_else(|| "-".into(), |at| ago(now_ms, at)),
                left.map_or_else(|| "-".into(), |left| format!("{at_least}{left}")),
                why(replica),
            ]
        });
        Some(table(&header, rows))
    }
}

/// The replicas of a partition that are not in sync.
pub(crate) fn out_of(partition: &MetadataResponsePartition) -> Vec<i32> {
    let kept = |id: &&i32| !partition.isr_nodes.contains(id);
    partition.replica_nodes.iter().filter(kept).copied().collect()
}

fn why(replica: &Replica) -> String {
    let cause = match replica.cause.as_deref() {
        Some("lagged") => "did not catch up within replica.lag.time.max.ms",
        Some("process-ended") => "its process ended",
        Some("session-ended") => "its session with the store ended",
        Some("shut-down") => "its broker shut down",
        Some("log-failed") => "its log could not be used",
        Some("may-lack-records") => "its log may lack records since the power failed",
        Some("never-joined") => "has not joined yet",
        Some("unknown") => "left before this controller was elected",
        Some(other) => other,
        None => "not known",
    };
    let now = match (replica.is_up, replica.is_offline) {
        (false, _) => "; its broker is down",
        (true, true) => "; offline",
        (true, false) => "",
    };
    let trouble = replica.trouble.as_ref().map_or_else(String::new, |text| format!(": {text}"));
    let eligible = if replica.is_eligible { "; eligible to lead" } else { "" };
    format!("{cause}{now}{eligible}{trouble}")
}

/// How long ago `at_ms` was, in the largest unit that says enough.
fn ago(now_ms: i64, at_ms: i64) -> String {
    let seconds = now_ms.saturating_sub(at_ms).max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// What is told of a replica: where, what, and the value.
type Fact = (Place, String, String);

/// What broker `id` knows of the replicas of `topics`.
async fn told(client: Client, id: i32, topics: BTreeSet<String>) -> Result<Vec<Fact>, ClientError> {
    let resource = |topic: &String| DescribeConfigsResource {
        resource_type: TOPIC_RESOURCE,
        resource_name: topic.as_str().into(),
        configuration_keys: Some(vec![KEY.into()]),
    };
    let resources = topics.iter().map(resource).collect();
    let request = DescribeConfigsRequest { resources, ..DescribeConfigsRequest::default() };
    let answer = client.dedicated(id).await?.send(&request).await?;
    let mut facts = Vec::new();
    for result in answer.results {
        for config in result.configs {
            let Some(rest) = config.name.strip_prefix(KEY).and_then(|r| r.strip_prefix('.')) else {
                continue;
            };
            let mut parts = rest.splitn(3, '.');
            let mut number = || parts.next()?.parse::<i32>().ok();
            let (Some(partition), Some(replica)) = (number(), number()) else { continue };
            let (Some(what), Some(value)) = (parts.next(), config.value) else { continue };
            let place = (result.resource_name.to_string(), partition, replica);
            facts.push((place, what.to_owned(), value.to_string()));
        }
    }
    Ok(facts)
}

/// How far broker `id` says that its replicas at `places` are behind.
async fn lags(client: Client, id: i32, places: Vec<Place>) -> Result<Vec<Fact>, ClientError> {
    let topic = |(topic, partition, _): &Place| DescribableLogDirTopic {
        topic: topic.as_str().into(),
        partitions: vec![*partition],
    };
    let request = DescribeLogDirsRequest { topics: Some(places.iter().map(topic).collect()) };
    let answer = client.dedicated(id).await?.send(&request).await?;
    let logs = answer.results.into_iter().flat_map(|directory| directory.topics);
    let facts = logs.flat_map(|topic| {
        let logs = topic.partitions.into_iter().filter(|log| !log.is_future_key);
        logs.map(move |log| {
            let place = (topic.name.to_string(), log.partition_index, id);
            (place, "behind".to_owned(), log.offset_lag.to_string())
        })
    });
    Ok(facts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(facts: &[(&str, &str)], is_up: bool) -> OutOfSync {
        let place = ("t".to_owned(), 0, 3);
        let replica = Replica { is_up, is_offline: !is_up, ..Replica::default() };
        let mut all = OutOfSync { replicas: [(place.clone(), replica)].into() };
        for (what, value) in facts {
            all.note(&place, what, (*value).to_owned());
            all.note(&("other".to_owned(), 0, 3), what, (*value).to_owned());
        }
        all
    }

    #[test]
    fn people_see_how_far_since_when_and_why() {
        let facts =
            [("behind", "42"), ("caught.up.ms", "1000"), ("left.ms", "31000"), ("cause", "lagged")];
        let text = told(&facts, true).text_at(601_000).unwrap();
        let row = text.lines().nth(1).unwrap();
        let words: Vec<_> = row.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
        let why = "did not catch up within replica.lag.time.max.ms";
        assert_eq!(words, ["t", "0", "3", "42", "10 min ago", "9 min ago", why]);
        assert_eq!(text.lines().count(), 2, "what was not asked for is not shown");
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let all = told(&[], false);
        let text = all.text_at(0).unwrap();
        assert!(text.ends_with("not known; its broker is down"), "{text}");
        let json = all.as_json("t", 0);
        assert_eq!((&json[0]["behind"], &json[0]["cause"]), (&Value::Null, &Value::Null));
        assert_eq!((&json[0]["replica"], &json[0]["broker"]), (&json!(3), &json!("down")));
        assert_eq!(all.as_json("t", 1), json!([]));
        let all = told(&[("cause", "unknown"), ("left.ms", "1000")], true);
        assert!(all.text_at(61_000).unwrap().contains("at least 60 s ago"));
    }

    #[test]
    fn nothing_is_shown_where_all_are_in_sync() {
        assert_eq!(OutOfSync::default().text(), None);
    }
}
