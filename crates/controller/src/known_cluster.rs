//! What the store of an Apache cluster tells of its topics: read, and nothing else.

use crate::{ControllerError, znodes};
use coordination::{Read, ReadResult, SessionHandle, StoreError};
use metadata::ConfigEntity;
use model::{BrokerId, LeaderEpoch, TopicId, TopicName};
use std::collections::{BTreeMap, BTreeSet};

/// So many nodes are read at once.
const BATCH: usize = 200;

/// A cluster, as far as somebody who takes over a broker's data wants to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCluster {
    /// Its id; none before Kafka 0.10.1.
    pub id: Option<String>,
    /// The brokers that are registered.
    pub brokers: BTreeSet<BrokerId>,
    /// Its topics.
    pub topics: BTreeMap<TopicName, KnownTopic>,
}

/// A topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTopic {
    /// Its id; none before Kafka 2.8.
    pub id: Option<TopicId>,
    /// Its own settings.
    pub settings: BTreeMap<String, String>,
    /// Its partitions.
    pub partitions: BTreeMap<i32, KnownPartition>,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPartition {
    /// Who has a replica.
    pub replicas: Vec<BrokerId>,
    /// Who is in sync, and the leader's epoch; absent if no leader was ever elected.
    pub state: Option<(Vec<BrokerId>, LeaderEpoch)>,
}

impl KnownCluster {
    /// Reads the cluster from its store. Brokers may be running.
    ///
    /// # Errors
    /// The store's, or [`ControllerError::Malformed`].
    pub async fn read(session: &SessionHandle) -> Result<Self, ControllerError> {
        let id = match session.get(znodes::CLUSTER_ID, false).await {
            Ok((data, _)) => data.as_deref().and_then(znodes::parse_cluster_id),
            Err(StoreError::NoNode(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let names = session.children(znodes::TOPICS, false).await?;
        let brokers = match session.children(znodes::BROKER_IDS, false).await {
            Ok(brokers) => znodes::broker_ids(&brokers).collect(),
            Err(StoreError::NoNode(_)) => BTreeSet::new(),
            Err(error) => return Err(error.into()),
        };
        let names: Vec<TopicName> = names.iter().map(|name| name.as_str().into()).collect();
        let mut topics = BTreeMap::new();
        for names in names.chunks(BATCH) {
            let nodes = names.iter().map(|name| znodes::topic_path(name)).collect();
            let configs = names.iter().map(|name| ConfigEntity::Topic(name.clone()));
            let configs = configs.map(|entity| znodes::config_path(&entity)).collect();
            let (nodes, configs) = (data(session, nodes).await?, data(session, configs).await?);
            for ((name, node), config) in names.iter().zip(nodes).zip(configs) {
                // Deleted meanwhile.
                let Some(node) = node else { continue };
                let node = znodes::parse_topic(&node);
                let node = node.ok_or(ControllerError::Malformed(znodes::TOPICS))?;
                let settings = znodes::parse_config(config.as_deref());
                let settings = settings.ok_or(ControllerError::Malformed(znodes::TOPIC_CONFIGS))?;
                let partition = |replicas| KnownPartition { replicas, state: None };
                let partitions = node
                    .partitions
                    .into_iter()
                    .map(|(index, replicas)| (index, partition(replicas)));
                let partitions = partitions.collect();
                topics.insert(name.clone(), KnownTopic { id: node.id, settings, partitions });
            }
        }
        let mut known = Self { id, brokers, topics };
        known.read_states(session).await?;
        Ok(known)
    }

    async fn read_states(&mut self, session: &SessionHandle) -> Result<(), ControllerError> {
        let mut all: Vec<(String, &mut KnownPartition)> = Vec::new();
        for (name, topic) in &mut self.topics {
            for (index, partition) in &mut topic.partitions {
                all.push((znodes::state_path(name, *index), partition));
            }
        }
        for some in all.chunks_mut(BATCH) {
            let paths = some.iter().map(|(path, _)| path.clone()).collect();
            for ((_, partition), state) in some.iter_mut().zip(data(session, paths).await?) {
                let state = state.as_deref().and_then(znodes::parse_state);
                partition.state = state.map(|state| (state.isr, state.leader_epoch));
            }
        }
        Ok(())
    }
}

/// What each of `paths` holds, in order; none for a node that is missing. Null counts as empty.
async fn data(
    session: &SessionHandle,
    paths: Vec<String>,
) -> Result<Vec<Option<bytes::Bytes>>, StoreError> {
    let reads = paths.into_iter().map(Read::data).collect();
    let found = session.read_all(reads).await?.into_iter().map(|found| match found {
        Ok(ReadResult::Data(data, _)) => Ok(Some(data.unwrap_or_default())),
        Ok(ReadResult::Exists(_) | ReadResult::Children(..)) | Err(StoreError::NoNode(_)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImportedTopic, Membership};
    use coordination::Store;
    use coordination::local::LocalStore;
    use platform::MemoryDisk;
    use platform::clock::ManualClock;
    use std::path::Path;
    use std::sync::Arc;

    #[tokio::test]
    async fn topics_are_told_with_their_settings_and_states() {
        let clock = Arc::new(ManualClock::at(model::Timestamp(5)));
        let store = LocalStore::open_inline(Arc::new(MemoryDisk::new()), Path::new("/d"), clock);
        let store: Arc<dyn Store> = Arc::new(store.unwrap());
        let member = Membership::join(store, "abc").await.unwrap();
        let topic = ImportedTopic {
            name: "t".into(),
            id: Some(TopicId([7; 16])),
            partitions: [(0, LeaderEpoch(3)), (1, LeaderEpoch(0))].into(),
            settings: [("retention.ms".to_owned(), "5".to_owned())].into(),
            settings_are_given: true,
        };
        member.import(BrokerId(4), &[topic], None).await.unwrap();
        let session = &member.session;
        let state = znodes::state_path("t", 1);
        session.delete(&state, None).await.unwrap();
        session.delete(&znodes::config_path(&ConfigEntity::Topic("t".into())), None).await.unwrap();
        session.create_parents("/brokers/ids/9").await.unwrap();
        let known = KnownCluster::read(session).await.unwrap();
        assert_eq!((known.id.as_deref(), known.brokers), (Some("abc"), [BrokerId(9)].into()));
        let topic = &known.topics["t"];
        assert_eq!((topic.id, topic.settings.len()), (Some(TopicId([7; 16])), 0));
        let partition = |state| KnownPartition { replicas: vec![BrokerId(4)], state };
        assert_eq!(topic.partitions[&0], partition(Some((vec![BrokerId(4)], LeaderEpoch(3)))));
        assert_eq!(topic.partitions[&1], partition(None), "no leader was ever elected");
        session.set("/brokers/topics/t", "garbage", None).await.unwrap();
        let error = KnownCluster::read(session).await.unwrap_err();
        assert!(matches!(error, ControllerError::Malformed("/brokers/topics")), "{error}");
    }
}
