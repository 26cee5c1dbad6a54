//! Topics that come with their data: what a log directory of another broker tells the store.

use crate::znodes::{self, StateNode, TopicNode};
use crate::{ControllerError, Membership};
use coordination::{Op, StoreError};
use metadata::ConfigEntity;
use model::{BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicName};
use std::collections::BTreeMap;

/// Kafka gives producer ids away in blocks of so many.
const PRODUCER_ID_BLOCK: i64 = 1000;

/// What comes with its data may go back to the broker that it is from, which counts producer ids on from its own, from
/// 0 at first. A producer with an id that somebody had here would be taken for that one, and its records for sent
/// again: acknowledged, and not stored. So ids begin where Apache's never come.
const FIRST_PRODUCER_ID: i64 = 1 << 40;

/// A topic of which this broker has every partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id; a topic of before 2.8 gets one when it is served.
    pub id: Option<TopicId>,
    /// Its partitions, with the newest leader epoch in each log.
    pub partitions: BTreeMap<i32, LeaderEpoch>,
    /// The settings of a topic that the store does not know yet.
    pub settings: BTreeMap<String, String>,
    /// Whether they replace those of a topic that it knows.
    pub settings_are_given: bool,
}

/// What became of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The store knows it now.
    Added,
    /// The store knew it; its settings are new.
    SettingsReplaced,
    /// The store knew it.
    Unchanged,
}

/// Why a topic cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store does not do what was asked of it.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// No other producer could be given an id after this one.
    #[error(
        "the logs name producer id {0}: none is left to give away after it, so a producer's state there is damaged"
    )]
    ProducerId(i64),
    /// The store knows another topic of this name.
    #[error("topic {topic}: the store knows another one of this name: {reason}")]
    Differs {
        /// Its name.
        topic: TopicName,
        /// In what they differ.
        reason: String,
    },
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Controller(error.into())
    }
}

impl Membership {
    /// Makes the store know `topics`, all of them on broker `broker` alone, and never give away a producer
    /// id up to `last_producer_id`, or one that Apache's brokers may give. Each topic is one transaction; what is there already stays.
    ///
    /// # Errors
    /// [`ImportError`]; topics before the one that it names are there then.
    pub async fn import(
        &self,
        broker: BrokerId,
        topics: &[ImportedTopic],
        last_producer_id: Option<i64>,
    ) -> Result<Vec<Imported>, ImportError> {
        let last = last_producer_id.unwrap_or_default().max(FIRST_PRODUCER_ID - 1);
        self.pass_producer_ids(broker, last).await?;
        let mut outcomes = Vec::with_capacity(topics.len());
        for topic in topics {
            outcomes.push(self.import_one(broker, topic).await?);
        }
        Ok(outcomes)
    }

    /// Two producers of one id would be taken for one another.
    async fn pass_producer_ids(&self, broker: BrokerId, last: i64) -> Result<(), ImportError> {
        let (data, stat) = self.session.get(znodes::PRODUCER_IDS, false).await?;
        let given = data.as_deref().filter(|data| !data.is_empty());
        let given = match given.map(znodes::parse_last_producer_id) {
            None => None,
            Some(None) => return Err(ControllerError::Malformed(znodes::PRODUCER_IDS).into()),
            Some(given) => given,
        };
        if given.is_some_and(|given| given >= last) {
            return Ok(());
        }
        let first = last - last.rem_euclid(PRODUCER_ID_BLOCK);
        let end = first.checked_add(PRODUCER_ID_BLOCK - 1).filter(|_| last >= 0);
        let block = znodes::producer_ids(broker, first, end.ok_or(ImportError::ProducerId(last))?);
        self.session.set(znodes::PRODUCER_IDS, block, Some(stat.version)).await?;
        Ok(())
    }

    async fn import_one(
        &self,
        broker: BrokerId,
        topic: &ImportedTopic,
    ) -> Result<Imported, ImportError> {
        let path = znodes::topic_path(&topic.name);
        let config_path = znodes::config_path(&ConfigEntity::Topic(topic.name.clone()));
        let settings = znodes::config(&topic.settings);
        let has_config = self.session.exists(&config_path, false).await?.is_some();
        let set_config = match has_config {
            true => Op::set(&config_path, settings),
            false => Op::create(&config_path, settings),
        };
        match self.session.get(&path, false).await {
            Ok((data, _)) => {
                let node = znodes::parse_topic(&data.unwrap_or_default())
                    .ok_or(ControllerError::Malformed(znodes::TOPICS))?;
                check_same(topic, &node)?;
                if !topic.settings_are_given {
                    return Ok(Imported::Unchanged);
                }
                let known = match self.session.get(&config_path, false).await {
                    Ok((data, _)) => znodes::parse_config(data.as_deref()).unwrap_or_default(),
                    Err(StoreError::NoNode(_)) => BTreeMap::new(),
                    Err(error) => return Err(error.into()),
                };
                if known == topic.settings {
                    return Ok(Imported::Unchanged);
                }
                self.session.multi(vec![set_config]).await?;
                return Ok(Imported::SettingsReplaced);
            }
            Err(StoreError::NoNode(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let node = TopicNode {
            id: topic.id,
            partitions: topic.partitions.keys().map(|&index| (index, vec![broker])).collect(),
            ..Default::default()
        };
        let mut ops = vec![
            set_config,
            Op::create(&path, znodes::topic(&node)),
            Op::create_null(znodes::partitions_path(&topic.name)),
        ];
        for (&index, &leader_epoch) in &topic.partitions {
            let state = StateNode {
                leader: Some(broker),
                leader_epoch,
                isr: vec![broker],
                controller_epoch: ControllerEpoch(0),
                recovering: false,
            };
            ops.push(Op::create_null(znodes::partition_path(&topic.name, index)));
            ops.push(Op::create(znodes::state_path(&topic.name, index), znodes::state(&state)));
        }
        self.session.multi(ops).await?;
        Ok(Imported::Added)
    }

    /// Ends the session of a membership that was not started.
    ///
    /// # Errors
    /// The store's.
    pub async fn leave(self) -> Result<(), ControllerError> {
        Ok(self.session.close().await?)
    }
}

fn check_same(topic: &ImportedTopic, node: &TopicNode) -> Result<(), ImportError> {
    let differs = |reason| Err(ImportError::Differs { topic: topic.name.clone(), reason });
    if let (Some(here), Some(there)) = (topic.id, node.id)
        && here != there
    {
        return differs(format!("its id is {there}, the directories' {here}"));
    }
    if let Some(index) = topic.partitions.keys().find(|index| !node.partitions.contains_key(index))
    {
        return differs(format!("it has no partition {index}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordination::Store;
    use coordination::local::LocalStore;
    use platform::MemoryDisk;
    use platform::clock::ManualClock;
    use std::path::Path;
    use std::sync::Arc;

    fn topic(settings: &[(&str, &str)]) -> ImportedTopic {
        ImportedTopic {
            name: "t".into(),
            id: Some(TopicId([7; 16])),
            partitions: [(0, LeaderEpoch(3)), (1, LeaderEpoch(0))].into(),
            settings: settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
            settings_are_given: false,
        }
    }

    async fn member() -> Membership {
        let clock = Arc::new(ManualClock::at(model::Timestamp(5)));
        let store = LocalStore::open_inline(Arc::new(MemoryDisk::new()), Path::new("/d"), clock);
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        Membership::join(store, "cluster").await.unwrap()
    }

    async fn text(member: &Membership, path: &str) -> String {
        let (data, _) = member.session.get(path, false).await.unwrap();
        String::from_utf8(data.unwrap_or_default().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_topic_is_there_as_a_controller_of_kafkas_leaves_it() {
        let member = member().await;
        let found = Some(FIRST_PRODUCER_ID + 2500);
        let outcome = member.import(BrokerId(1), &[topic(&[])], found).await.unwrap();
        assert_eq!(outcome, [Imported::Added]);
        let id = TopicId([7; 16]);
        assert_eq!(
            text(&member, "/brokers/topics/t").await,
            format!(
                r#"{{"partitions":{{"0":[1],"1":[1]}},"topic_id":"{id}","adding_replicas":{{}},"removing_replicas":{{}},"version":3}}"#
            )
        );
        assert_eq!(
            text(&member, "/brokers/topics/t/partitions/0/state").await,
            r#"{"controller_epoch":0,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}"#
        );
        assert_eq!(
            text(&member, "/latest_producer_id_block").await,
            r#"{"version":1,"broker":1,"block_start":"1099511630000","block_end":"1099511630999"}"#
        );
    }

    /// Seen with Apache Kafka 4.3.1, which got its directory back: it gave an id again that a producer had had here.
    #[tokio::test]
    async fn a_producer_id_is_never_one_that_apache_gives() {
        for found in [None, Some(0), Some(2500)] {
            let member = member().await;
            member.import(BrokerId(1), &[topic(&[])], found).await.unwrap();
            let block = text(&member, "/latest_producer_id_block").await;
            assert!(block.contains(r#""block_end":"1099511627999""#), "the next is above: {block}");
        }
    }

    #[tokio::test]
    async fn what_is_there_stays_unless_settings_are_given() {
        let member = member().await;
        let held = topic(&[("retention.ms", "-1")]);
        let found = Some(FIRST_PRODUCER_ID + 2500);
        member.import(BrokerId(1), std::slice::from_ref(&held), found).await.unwrap();
        let mut other = topic(&[("retention.ms", "5")]);
        let again = member.import(BrokerId(1), &[other.clone()], Some(1)).await.unwrap();
        assert_eq!(again, [Imported::Unchanged]);
        assert!(text(&member, "/config/topics/t").await.contains("-1"));
        assert!(text(&member, "/latest_producer_id_block").await.contains("1099511630999"));
        other.settings_are_given = true;
        for expected in [Imported::SettingsReplaced, Imported::Unchanged] {
            assert_eq!(
                member.import(BrokerId(1), &[other.clone()], None).await.unwrap(),
                [expected]
            );
        }
        assert!(text(&member, "/config/topics/t").await.contains("\"5\""));
        other.id = Some(TopicId([8; 16]));
        let error = member.import(BrokerId(1), &[other.clone()], None).await.unwrap_err();
        assert!(error.to_string().contains("its id is"), "{error}");
        other.id = None;
        other.partitions.insert(2, LeaderEpoch(0));
        let error = member.import(BrokerId(1), &[other], None).await.unwrap_err();
        assert!(error.to_string().contains("no partition 2"), "{error}");
    }
}
