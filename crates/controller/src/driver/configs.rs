//! Dynamic settings: altering them (any broker may) and hearing of alterations.

use super::*;
use crate::membership::{read_configs, try_read_configs};
use crate::{ConfigAlteration, ConfigEdit, ProducerIdBlock, config_edits};
use coordination::CreateMode;
use metadata::{ConfigChange, ConfigEntity};
use protocol::messages::AllocateProducerIdsRequest;

/// How long change notifications are kept.
const KEEP_CHANGES_MS: i64 = 15 * 60 * 1000;
/// Kafka's block of producer ids.
const PRODUCER_IDS: i64 = 1000;
const PRODUCER_ID_TRIES: usize = 20;
/// How often an alteration starts again because the settings changed meanwhile.
const CONFIG_TRIES: usize = 5;
const UNCLEAN: &str = "unclean.leader.election.enable";

impl Driver {
    /// Tells this broker its own settings and those of all topics, before it starts.
    pub(super) async fn load_configs(&mut self) -> Result<(), StoreError> {
        let own = ConfigEntity::Broker(self.settings.broker.id);
        for entity in [ConfigEntity::AllBrokers, own] {
            self.apply_config(entity).await?;
        }
        let subscriptions = match self.session.children(znodes::CLIENT_METRICS_CONFIGS, false).await
        {
            Ok(names) => names,
            Err(StoreError::NoNode(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        for name in subscriptions {
            if let Some(entity) = znodes::parse_client_metrics(&name) {
                self.apply_config(entity).await?;
            }
        }
        let topics = self.session.children(znodes::TOPIC_CONFIGS, false).await?;
        self.announce_topics(topics.into_iter().map(TopicName::from)).await
    }

    /// Tells this broker the settings of topics that are new to it, before it is to host them.
    pub(super) async fn announce_topics(
        &mut self,
        topics: impl IntoIterator<Item = TopicName>,
    ) -> Result<(), StoreError> {
        let entities: Vec<_> = topics.into_iter().map(ConfigEntity::Topic).collect();
        let configs = read_configs(&self.session, &entities).await?;
        for (entity, configs) in entities.into_iter().zip(configs) {
            self.announce_topic(entity, configs);
        }
        Ok(())
    }

    /// A topic without settings of its own needs no announcement.
    pub(super) fn announce_topic(
        &mut self,
        entity: ConfigEntity,
        configs: BTreeMap<String, String>,
    ) {
        if !configs.is_empty() {
            self.announce(ConfigChange { entity, configs });
        }
    }

    /// Reads an entity's settings and goes by them. What cannot be read changes nothing.
    async fn apply_config(&mut self, entity: ConfigEntity) -> Result<(), StoreError> {
        let configs = try_read_configs(&self.session, std::slice::from_ref(&entity)).await?;
        if let Some(configs) = configs.into_iter().next().flatten() {
            self.announce(ConfigChange { entity, configs });
        }
        Ok(())
    }

    /// Tells this broker, and notes whose partitions may now have a leader that is not in sync.
    fn announce(&mut self, change: ConfigChange) {
        let slot = match &change.entity {
            ConfigEntity::Broker(id) if *id == self.settings.broker.id => Some(0),
            ConfigEntity::AllBrokers => Some(1),
            ConfigEntity::Broker(_) | ConfigEntity::Topic(_) | ConfigEntity::ClientMetrics(_) => {
                None
            }
        };
        let unclean = change.configs.get(UNCLEAN).map(|value| value == "true");
        if let Some(slot) = slot {
            self.dynamic_unclean[slot] = unclean;
        }
        if unclean == Some(true) && self.active.is_some() {
            if let ConfigEntity::Topic(topic) = &change.entity {
                self.newly_unclean.insert(Some(topic.clone()));
            } else if slot.is_some() {
                self.newly_unclean.insert(None);
            }
        }
        self.surroundings.configs.config_changed(change);
    }

    /// Partitions that are offline get a leader, where that is allowed now.
    pub(super) async fn elect_newly_unclean(&mut self) {
        for topic in std::mem::take(&mut self.newly_unclean) {
            self.unclean_allowed(topic).await;
        }
    }

    /// Which of `topics` may have a leader that is not in sync.
    pub(super) async fn unclean_topics(
        &mut self,
        topics: BTreeSet<TopicName>,
    ) -> Result<BTreeSet<TopicName>, Stopped> {
        let [own, all] = self.dynamic_unclean;
        let default = own.or(all).unwrap_or(self.settings.unclean_leader_election);
        let entities: Vec<_> = topics.iter().cloned().map(ConfigEntity::Topic).collect();
        let configs = read_configs(&self.session, &entities).await.map_err(Stopped::of)?;
        let unclean = |configs: &BTreeMap<String, String>| {
            configs.get(UNCLEAN).map_or(default, |value| value == "true")
        };
        Ok(topics.into_iter().zip(configs).filter(|(_, c)| unclean(c)).map(|(t, _)| t).collect())
    }

    pub(super) async fn alter_configs(
        &mut self,
        alterations: Vec<ConfigAlteration>,
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        let mut results = Vec::with_capacity(alterations.len());
        for alteration in alterations {
            results.push(self.alter(alteration, validate_only).await);
        }
        self.elect_newly_unclean().await;
        results
    }

    async fn alter(
        &mut self,
        alteration: ConfigAlteration,
        validate_only: bool,
    ) -> Result<(), ApiError> {
        let ConfigAlteration { entity, edit } = alteration;
        if let ConfigEntity::Topic(name) = &entity {
            let found = self.session.exists(&znodes::topic_path(name), false).await;
            if found.map_err(|error| store_error(&error))?.is_none() {
                return Err(ApiError::new(
                    ErrorCode::UnknownTopicOrPartition,
                    format!("The topic '{name}' does not exist."),
                ));
            }
        }
        // Another broker may be changing the same settings, or the controller may change meanwhile.
        let mut failure = StoreError::MayHaveBeenApplied;
        for _ in 0..CONFIG_TRIES {
            match self.try_alter(&entity, &edit, validate_only).await? {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(store_error(&failure))
    }

    /// The inner error is one after which it is to be tried again, from the settings as they are then.
    async fn try_alter(
        &mut self,
        entity: &ConfigEntity,
        edit: &ConfigEdit,
        validate_only: bool,
    ) -> Result<Result<(), StoreError>, ApiError> {
        let path = znodes::config_path(entity);
        let (before, version) = match self.session.get(&path, false).await {
            Ok((data, stat)) => match znodes::parse_config(data.as_deref()) {
                Some(configs) => (configs, Some(stat.version)),
                // What else was set would be lost.
                None => {
                    let message =
                        format!("The store's node {path} cannot be read; mend or delete it there.");
                    return Err(ApiError::new(ErrorCode::UnknownServerError, message));
                }
            },
            Err(StoreError::NoNode(_)) => (BTreeMap::new(), None),
            Err(error) => return Err(store_error(&error)),
        };
        let after = config_edits::apply(&*self.surroundings.rules, entity, &before, edit)?;
        if validate_only {
            return Ok(Ok(()));
        }
        let (controller, stat) = match self.session.get(znodes::CONTROLLER, false).await {
            Ok(found) => found,
            Err(StoreError::NoNode(_)) => return Err(not_controller()),
            Err(error) => return Err(store_error(&error)),
        };
        if znodes::is_kraft_controller(&controller.unwrap_or_default()) {
            return Err(ApiError::of(ErrorCode::StaleControllerEpoch));
        }
        let data = znodes::config(&after);
        let is_subscription = matches!(entity, ConfigEntity::ClientMetrics(_));
        let write = match (version, is_subscription && after.is_empty()) {
            (None, true) => return Ok(Ok(())),
            (version @ Some(_), true) => Op::Delete { path, version },
            (Some(version), false) => Op::set_if(path, data, version),
            (None, false) => Op::create(path, data),
        };
        let mut ops = vec![Op::check(znodes::CONTROLLER, stat.version)];
        if is_subscription && version.is_none() {
            let parent = self.session.exists(znodes::CLIENT_METRICS_CONFIGS, false).await;
            if parent.map_err(|error| store_error(&error))?.is_none() {
                ops.push(Op::create(znodes::CLIENT_METRICS_CONFIGS, Vec::new()));
            }
        }
        let change = Op::Create {
            path: format!("{}/{}", znodes::CONFIG_CHANGES, znodes::CONFIG_CHANGE_PREFIX),
            data: Some(znodes::config_change(entity).into()),
            mode: CreateMode::PersistentSequential,
        };
        ops.extend([write, change]);
        match self.session.multi(ops).await {
            Ok(_) => {}
            Err(
                error @ (StoreError::BadVersion(_)
                | StoreError::NodeExists(_)
                | StoreError::NoNode(_)
                | StoreError::MayHaveBeenApplied),
            ) => return Ok(Err(error)),
            Err(error) => return Err(store_error(&error)),
        }
        self.announce(ConfigChange { entity: entity.clone(), configs: after });
        Ok(Ok(()))
    }

    /// Goes by every change that was announced since the last time, then removes old announcements.
    pub(super) async fn handle_config_changes(&mut self) {
        if let Err(error) = self.read_config_changes().await {
            tracing::warn!(%error, "changed settings cannot be read");
        }
        self.elect_newly_unclean().await;
    }

    async fn read_config_changes(&mut self) -> Result<(), StoreError> {
        let announced = self.announced_changes().await?;
        let found = self.read_children(znodes::CONFIG_CHANGES, true).await?;
        let mut entities: Vec<ConfigEntity> = Vec::new();
        let mut old = Vec::new();
        let now = self.surroundings.clock.timestamp();
        let mut last = self.last_config_change;
        for (path, found) in found {
            let Some((data, stat)) = found else { continue };
            let name = path.rsplit('/').next().unwrap_or_default();
            let Some(number) = znodes::config_change_number(name) else { continue };
            if self.last_config_change.is_none_or(|last| number > last) {
                let entity = znodes::parse_config_change(&data.unwrap_or_default());
                entities.extend(entity.filter(|entity| !entities.contains(entity)));
                last = last.max(Some(number));
            }
            if now.0.saturating_sub(stat.ctime.0) > KEEP_CHANGES_MS {
                old.push(path);
            }
        }
        self.last_config_change = last;
        for entity in entities {
            self.apply_config(entity).await?;
        }
        self.note_applied_changes(announced).await?;
        for path in old {
            // Every broker tries; one of them succeeds.
            match self.session.delete(&path, None).await {
                Ok(()) | Err(StoreError::NoNode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the next block of producer ids for the broker that asks.
    pub(super) async fn allocate_producer_ids(
        &mut self,
        request: AllocateProducerIdsRequest,
    ) -> Result<ProducerIdBlock, ApiError> {
        let Some(active) = &self.active else { return Err(not_controller()) };
        let asker = BrokerId(request.broker_id);
        match active.context.brokers.get(&asker) {
            None => return Err(ApiError::of(ErrorCode::BrokerIdNotRegistered)),
            Some(known) if known.epoch.0 != request.broker_epoch => {
                return Err(ApiError::of(ErrorCode::StaleBrokerEpoch));
            }
            Some(_) => {}
        }
        for _ in 0..PRODUCER_ID_TRIES {
            let (data, stat) = self
                .session
                .get(znodes::PRODUCER_IDS, false)
                .await
                .map_err(|_| ApiError::of(ErrorCode::CoordinatorLoadInProgress))?;
            let last = match data.as_deref() {
                None | Some([]) => Some(-1),
                Some(data) => znodes::parse_last_producer_id(data),
            };
            let range = last.and_then(|last| Some((last + 1, last.checked_add(PRODUCER_IDS)?)));
            let Some((first, last)) = range else {
                return Err(ApiError::new(
                    ErrorCode::UnknownServerError,
                    "The latest block of producer ids cannot be read, or there are no more ids.",
                ));
            };
            let node = znodes::producer_ids(asker, first, last);
            match self.session.set(znodes::PRODUCER_IDS, node, Some(stat.version)).await {
                Ok(_) => {
                    let count = i32::try_from(PRODUCER_IDS).expect("a small constant");
                    return Ok(ProducerIdBlock { first, count });
                }
                // Somebody else took it; or we did, and the reply was lost: a block is wasted then.
                Err(StoreError::BadVersion(_) | StoreError::MayHaveBeenApplied) => {}
                Err(_) => break,
            }
        }
        Err(ApiError::of(ErrorCode::CoordinatorLoadInProgress))
    }

    pub(super) async fn announce_log_dir_failure(&mut self) {
        let path = format!("{}/log_dir_event_", znodes::LOG_DIR_EVENTS);
        let data = Some(znodes::log_dir_event(self.settings.broker.id).into());
        let created = self.session.create(&path, data, CreateMode::PersistentSequential).await;
        self.is_log_dir_unannounced = created.is_err();
        if let Err(error) = created {
            tracing::warn!(%error, "the failure of a log directory cannot be announced yet");
        }
    }
}
