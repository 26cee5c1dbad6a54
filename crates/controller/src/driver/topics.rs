//! Topics come, grow and go.

use super::failover::random_id;
use super::*;
use crate::context::{Partition, Standing, Topic};
use crate::handle::ReplyTo;
use crate::placement::{self, Candidate, Start};
use crate::topic_rules::{self, collide, may_collide};
use crate::{CreatedTopic, NewPartitions, NewTopic, PerTopic};
use metadata::ConfigEntity;
use model::TopicId;
use protocol::messages::StopReplicaResponse;

/// A topic that may be created.
struct Plan {
    name: TopicName,
    topic: Topic,
    configs: BTreeMap<String, String>,
}

impl Driver {
    pub(super) async fn create_topics(
        &mut self,
        topics: Vec<NewTopic>,
        timeout: Duration,
        validate_only: bool,
        reply: ReplyTo<PerTopic<CreatedTopic>>,
    ) {
        let mut results: PerTopic<CreatedTopic> = Vec::with_capacity(topics.len());
        let mut plans: Vec<Plan> = Vec::new();
        for topic in topics {
            let planned = match &self.active {
                Some(active) => self.plan(&active.context, &topic, &plans),
                None => Err(not_controller()),
            };
            results.push((
                topic.name.as_str().into(),
                planned.map(|plan| {
                    let created = describe(&plan, validate_only);
                    plans.push(plan);
                    created
                }),
            ));
        }
        if validate_only || plans.is_empty() {
            let _ = reply.send(results);
            return;
        }
        let failed = self.create(plans).await;
        for (name, result) in &mut results {
            if let Some(error) = failed.get(name)
                && result.is_ok()
            {
                *result = Err(error.clone());
            }
        }
        let not_ready = |topic: CreatedTopic| Ok(CreatedTopic { is_ready: false, ..topic });
        answer_later(self, results, Wants::Leaders, timeout, not_ready, reply);
    }

    /// Any broker creates topics that its clients asked about, as in Kafka: the controller takes them
    /// from the store.
    pub(super) async fn auto_create_topics(&mut self, topics: Vec<NewTopic>) {
        let elsewhere = match &self.active {
            Some(_) => None,
            None => match self.glance().await {
                Ok(context) => Some(context),
                Err(error) => {
                    tracing::warn!(%error, "topics that are asked about cannot be created");
                    return;
                }
            },
        };
        let mut plans = Vec::new();
        for topic in topics {
            let own = self.active.as_ref().map(|active| &active.context);
            let Some(context) = elsewhere.as_ref().or(own) else { return };
            match self.plan(context, &topic, &plans) {
                Ok(plan) => plans.push(plan),
                Err(error) if error.code == ErrorCode::TopicAlreadyExists => {}
                Err(error) => {
                    tracing::info!(topic = topic.name, %error, "not created though asked about");
                }
            }
        }
        let mut failed = match elsewhere {
            None => self.create(plans).await,
            Some(_) => self.leave_to_the_controller(plans).await,
        };
        // Another broker, whose clients asked too, may be first.
        failed.retain(|_, error| error.code != ErrorCode::TopicAlreadyExists);
        for (topic, error) in failed {
            tracing::warn!(%topic, %error, "not created though asked about");
        }
    }

    /// What a broker that is not controller needs to know to create topics. Leaves no watch.
    async fn glance(&mut self) -> Result<Context, StoreError> {
        let mut context = Context::default();
        for (id, image, stat) in self.glance_at_brokers().await? {
            let broker = LiveBroker {
                image: Arc::new(image),
                epoch: BrokerEpoch(stat.czxid.0),
                version: stat.version,
                incarnation: None,
            };
            context.brokers.insert(id, broker);
        }
        let id = TopicId::ZERO;
        for name in self.session.children(znodes::TOPICS, false).await? {
            let partitions = BTreeMap::new();
            let topic = Topic { id, partitions, has_partitions_node: false };
            context.topics.insert(name.into(), topic);
        }
        for name in self.session.children(znodes::DELETE_TOPICS, false).await? {
            context.deleting.insert(name.into(), BTreeSet::new());
        }
        Ok(context)
    }

    /// Writes topics and their settings, but not who leads: the controller hears of them from the store.
    async fn leave_to_the_controller(&mut self, plans: Vec<Plan>) -> BTreeMap<TopicName, ApiError> {
        let mut failed = BTreeMap::new();
        for plan in plans {
            if let Err(error) = self.write_new_topic(&plan).await
                && !matches!(error, StoreError::NodeExists(_))
            {
                failed.insert(plan.name, store_error(&error));
            }
        }
        failed
    }

    async fn write_new_topic(&mut self, plan: &Plan) -> Result<(), StoreError> {
        let path = znodes::config_path(&ConfigEntity::Topic(plan.name.clone()));
        let configs = znodes::config(&plan.configs);
        let settings = match self.session.exists(&path, false).await? {
            Some(_) => Op::set(path, configs),
            None => Op::create(path, configs),
        };
        let topic = Op::create(znodes::topic_path(&plan.name), znodes::topic(&plan.topic.node()));
        self.session.multi(vec![settings, topic]).await.map(drop)
    }

    /// Decides what a new topic is to be, given those that are about to be created with it.
    fn plan(&self, context: &Context, new: &NewTopic, others: &[Plan]) -> Result<Plan, ApiError> {
        let exists = || {
            ApiError::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{}' already exists.", new.name),
            )
        };
        if context.deleting.contains_key(new.name.as_str()) {
            return Err(ApiError::new(
                ErrorCode::TopicAlreadyExists,
                format!("Topic '{}' is marked for deletion.", new.name),
            ));
        }
        if context.topics.contains_key(new.name.as_str())
            || others.iter().any(|other| *other.name == new.name)
        {
            return Err(exists());
        }
        let null: Vec<_> = new
            .configs
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(n, _)| n.as_str())
            .collect();
        if !null.is_empty() {
            return Err(ApiError::new(
                ErrorCode::InvalidConfig,
                format!("Null value not supported for topic configs: {}", null.join(",")),
            ));
        }
        if (new.partitions != -1 || new.replication_factor != -1) && !new.assignments.is_empty() {
            return Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both \
                 cannot be used at the same time.",
            ));
        }
        let assignment = self.assignment(context, new)?;
        let planned = others.iter().map(|other| other.topic.partitions.len()).sum();
        placement::check_room(assignment.len(), planned)?;
        topic_rules::validate_topic_name(&new.name)?;
        if may_collide(&new.name) {
            let names = context.topics.keys().chain(others.iter().map(|other| &other.name));
            let colliding: Vec<_> = names.filter(|name| collide(name, &new.name)).collect();
            if !colliding.is_empty() {
                return Err(ApiError::new(
                    ErrorCode::InvalidTopicException,
                    format!(
                        "Topic '{}' collides with existing topics: {}",
                        new.name,
                        topic_rules::join(colliding)
                    ),
                ));
            }
        }
        topic_rules::check_new_assignment(&assignment)?;
        let name = TopicName::from(new.name.as_str());
        let configs: BTreeMap<String, String> = new
            .configs
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
            .collect();
        self.surroundings.rules.validate_new_topic(&name, &configs)?;
        let partitions =
            assignment.into_iter().map(|(index, replicas)| (index, Partition::assigned(replicas)));
        let topic = Topic {
            id: random_id(&*self.surroundings.random),
            partitions: partitions.collect(),
            has_partitions_node: false,
        };
        Ok(Plan { name, topic, configs })
    }

    fn assignment(
        &self,
        context: &Context,
        new: &NewTopic,
    ) -> Result<BTreeMap<i32, Vec<BrokerId>>, ApiError> {
        if !new.assignments.is_empty() {
            let chosen = |(index, ids): &(i32, Vec<i32>)| {
                (*index, ids.iter().copied().map(BrokerId).collect())
            };
            return Ok(new.assignments.iter().map(chosen).collect());
        }
        let default = |given, default| if given == -1 { default } else { given };
        let count = default(new.partitions, self.settings.num_partitions);
        let factor = if new.replication_factor == -1 {
            self.settings.default_replication_factor
        } else {
            new.replication_factor
        };
        let brokers = candidates(context);
        let random = |bound: usize| {
            let drawn = self.surroundings.random.below(bound as u64);
            usize::try_from(drawn).expect("below a usize")
        };
        let start =
            Start { index: random(brokers.len()), shift: random(brokers.len()), partition: 0 };
        let placed = placement::place(self.settings.placement, &brokers, count, factor, start)?;
        Ok((0..).zip(placed).collect())
    }

    /// Writes topics with their settings and first leaders, and tells the brokers. Returns those that
    /// were not created.
    async fn create(&mut self, plans: Vec<Plan>) -> BTreeMap<TopicName, ApiError> {
        let mut failed = BTreeMap::new();
        if plans.is_empty() {
            return failed;
        }
        let names: Vec<TopicName> = plans.iter().map(|plan| plan.name.clone()).collect();
        match self.try_create(plans, &mut failed).await {
            Ok(()) => {}
            Err(stopped) => {
                let error = match &stopped {
                    Stopped::Moved => not_controller(),
                    Stopped::Refused(error) => store_error(error),
                };
                for name in names {
                    failed.entry(name).or_insert_with(|| error.clone());
                }
                self.stop(stopped, "create topics").await;
            }
        }
        failed
    }

    async fn try_create(
        &mut self,
        plans: Vec<Plan>,
        failed: &mut BTreeMap<TopicName, ApiError>,
    ) -> Result<(), Stopped> {
        // A topic that was deleted half-way leaves its settings behind.
        let config_path =
            |plan: &Plan| znodes::config_path(&ConfigEntity::Topic(plan.name.clone()));
        let reads = plans.iter().map(|plan| Read::exists(config_path(plan))).collect();
        let left_over = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let mut transactions = Vec::new();
        let mut sizes = Vec::new();
        let mut states = Vec::new();
        for (plan, left_over) in plans.iter().zip(left_over) {
            let configs = znodes::config(&plan.configs);
            let mut first = vec![match left_over {
                Ok(ReadResult::Exists(Some(_))) => Op::set(config_path(plan), configs),
                _ => Op::create(config_path(plan), configs),
            }];
            first.push(Op::create(
                znodes::topic_path(&plan.name),
                znodes::topic(&plan.topic.node()),
            ));
            first.push(Op::create_null(znodes::partitions_path(&plan.name)));
            let context = self.context();
            let mut groups = vec![first];
            let mut plan_states = Vec::new();
            for (&index, partition) in &plan.topic.partitions {
                let live = |id| match context.is_live(id) {
                    true => Standing::Online,
                    false => Standing::Away,
                };
                let new = crate::context::repaired(partition, live, |_, _| None, false, epoch);
                let Some(node) = new else {
                    continue;
                };
                groups.push(vec![
                    Op::create_null(znodes::partition_path(&plan.name, index)),
                    Op::create(znodes::state_path(&plan.name, index), znodes::state(&node)),
                ]);
                plan_states.push((TopicPartition::new(plan.name.clone(), index), node, None));
            }
            let chunks = chunks(groups);
            sizes.push(chunks.len());
            transactions.extend(chunks);
            states.push(plan_states);
        }
        let mut results = self.commit(transactions).await?.into_iter();
        let mut outbox = Outbox::default();
        for ((plan, count), states) in plans.into_iter().zip(sizes).zip(states) {
            let results: Vec<_> = results.by_ref().take(count).collect();
            let error = results.iter().find_map(|result| result.as_ref().err());
            if let Some(error) = error {
                let error = if matches!(error, StoreError::NodeExists(_)) {
                    ApiError::new(
                        ErrorCode::TopicAlreadyExists,
                        format!("Topic '{}' already exists.", plan.name),
                    )
                } else {
                    store_error(error)
                };
                failed.insert(plan.name.clone(), error);
                // What is there of it is read back like a topic that somebody else made.
                self.dirty.topic_list = true;
                continue;
            }
            tracing::info!(topic = %plan.name, topic_id = %plan.topic.id, partitions = plan.topic.partitions.len(), "created");
            self.announce_topic(ConfigEntity::Topic(plan.name.clone()), plan.configs);
            // It is read once more, to be watched: tools of before 3.0 add partitions in its node.
            self.dirty.topics.insert(plan.name.clone());
            let topic = Topic { has_partitions_node: true, ..plan.topic };
            self.context_mut().insert(plan.name, topic);
            for write in states {
                let at = write.0.clone();
                let isr = write.1.isr.clone();
                self.note_state(write, 0);
                outbox.lead(&at, isr, true);
            }
        }
        self.send(&outbox);
        Ok(())
    }

    pub(super) async fn create_partitions(
        &mut self,
        topics: Vec<NewPartitions>,
        timeout: Duration,
        validate_only: bool,
        reply: ReplyTo<PerTopic<()>>,
    ) {
        let mut results: PerTopic<()> = Vec::with_capacity(topics.len());
        let mut grown = Vec::new();
        for new in topics {
            let name = TopicName::from(new.topic.as_str());
            let planned =
                self.plan_growth(&new).map(|replicas| grown.push((name.clone(), replicas)));
            results.push((name, planned));
        }
        if validate_only || grown.is_empty() {
            let _ = reply.send(results);
            return;
        }
        for (name, replicas) in grown {
            if let Err(stopped) = self.grow(&name, replicas).await {
                let error = match &stopped {
                    Stopped::Moved => not_controller(),
                    Stopped::Refused(error) => store_error(error),
                };
                if let Some((_, result)) = results.iter_mut().find(|(n, r)| *n == name && r.is_ok())
                {
                    *result = Err(error);
                }
                self.stop(stopped, "create partitions").await;
            }
        }
        answer_later(self, results, Wants::Leaders, timeout, timed_out, reply);
    }

    /// The replicas of each partition that is to be added.
    fn plan_growth(&self, new: &NewPartitions) -> Result<Vec<Vec<BrokerId>>, ApiError> {
        let Some(active) = &self.active else { return Err(not_controller()) };
        let context = &active.context;
        if context.deleting.contains_key(new.topic.as_str()) {
            return Err(ApiError::new(
                ErrorCode::InvalidTopicException,
                "The topic is queued for deletion.",
            ));
        }
        let Some(topic) = context.topics.get(new.topic.as_str()) else {
            return Err(ApiError::new(
                ErrorCode::UnknownTopicOrPartition,
                format!("The topic '{}' does not exist.", new.topic),
            ));
        };
        if topic.partitions.values().any(Partition::is_moving) {
            return Err(ApiError::new(
                ErrorCode::ReassignmentInProgress,
                format!("A partition reassignment is in progress for the topic '{}'.", new.topic),
            ));
        }
        let existing = topic.partitions.len();
        let total = usize::try_from(new.total).unwrap_or(0);
        let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidPartitions, message));
        if total < existing {
            return refuse(format!(
                "Topic currently has {existing} partitions, which is higher than the requested {}.",
                new.total
            ));
        }
        if total == existing {
            return refuse(format!("Topic already has {existing} partitions."));
        }
        let first = topic.partitions.get(&0).map(|p| p.replicas.as_slice()).unwrap_or_default();
        if let Some(chosen) = &new.assignments {
            let chosen: Vec<Vec<BrokerId>> =
                chosen.iter().map(|ids| ids.iter().copied().map(BrokerId).collect()).collect();
            let live = context.brokers.keys().copied().collect();
            topic_rules::check_added_assignment(
                &chosen,
                existing,
                total - existing,
                first.len(),
                &live,
            )?;
            return Ok(chosen);
        }
        let brokers = candidates(context);
        let start = placement::expansion_start(&brokers, first.first().copied(), existing);
        let count = i32::try_from(total - existing).expect("total came from an i32");
        let factor = i16::try_from(first.len()).unwrap_or(i16::MAX);
        placement::place(self.settings.placement, &brokers, count, factor, start)
    }

    async fn grow(&mut self, name: &TopicName, added: Vec<Vec<BrokerId>>) -> Result<(), Stopped> {
        let topic = self.context().topics.get(name).ok_or(Stopped::Moved)?;
        let first = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let mut grown = topic.clone();
        let indexes: Vec<i32> = (first..).take(added.len()).collect();
        grown
            .partitions
            .extend(indexes.iter().copied().zip(added.into_iter().map(Partition::assigned)));
        let write = self.topic_write(name, &grown).await?;
        self.commit_one(vec![write]).await?;
        self.context_mut().insert(name.clone(), grown);
        let partitions =
            indexes.into_iter().map(|i| TopicPartition::new(name.clone(), i)).collect();
        let outbox = self.repair(partitions).await?;
        self.send(&outbox);
        Ok(())
    }

    /// Sets a topic's node, if what is there can be read: whatever else it is was not written by Kafka.
    pub(super) async fn topic_write(
        &mut self,
        name: &TopicName,
        topic: &Topic,
    ) -> Result<Op, Stopped> {
        let path = znodes::topic_path(name);
        let (data, stat) = self.session.get(&path, false).await.map_err(Stopped::of)?;
        if znodes::parse_topic(&data.unwrap_or_default()).is_none() {
            self.note_unreadable(name);
            let why = format!("{path} cannot be read; mend it in the store");
            return Err(Stopped::Refused(StoreError::Denied(why)));
        }
        Ok(Op::set_if(path, znodes::topic(&topic.node()), stat.version))
    }

    pub(super) fn note_unreadable(&mut self, name: &TopicName) {
        if self.active.as_mut().is_some_and(|active| active.unreadable.insert(name.clone())) {
            let node = znodes::topic_path(name);
            tracing::warn!(node, "cannot be read: the topic is left alone");
        }
    }

    pub(super) async fn delete_topics(
        &mut self,
        topics: Vec<TopicName>,
        timeout: Duration,
        reply: ReplyTo<PerTopic<()>>,
    ) {
        let check = |driver: &Self, name: &TopicName| match &driver.active {
            None => Err(not_controller()),
            Some(active) if active.context.topics.contains_key(name) => Ok(()),
            Some(_) => Err(ApiError::new(
                ErrorCode::UnknownTopicOrPartition,
                format!("Topic `{name}` to delete does not exist"),
            )),
        };
        let mut results: PerTopic<()> =
            topics.into_iter().map(|name| (name.clone(), check(self, &name))).collect();
        let doomed: Vec<TopicName> =
            results.iter().filter(|(_, result)| result.is_ok()).map(|(n, _)| n.clone()).collect();
        if doomed.is_empty() {
            let _ = reply.send(results);
            return;
        }
        if let Err(stopped) = self.mark_for_deletion(doomed).await {
            let error = match &stopped {
                Stopped::Moved => not_controller(),
                Stopped::Refused(error) => store_error(error),
            };
            for (_, result) in results.iter_mut().filter(|(_, result)| result.is_ok()) {
                *result = Err(error.clone());
            }
            self.stop(stopped, "delete topics").await;
        }
        answer_later(self, results, Wants::Gone, timeout, timed_out, reply);
    }

    async fn mark_for_deletion(&mut self, names: Vec<TopicName>) -> Result<(), Stopped> {
        let new: Vec<TopicName> =
            names.into_iter().filter(|name| !self.context().deleting.contains_key(name)).collect();
        let marks = new.iter().map(|name| vec![Op::create_null(znodes::delete_topic_path(name))]);
        for result in self.commit(marks.collect()).await? {
            match result {
                Ok(_) | Err(StoreError::NodeExists(_)) => {}
                Err(error) => return Err(Stopped::Refused(error)),
            }
        }
        self.start_deletion(new);
        Ok(())
    }

    /// Hides topics and has their replicas stopped, then deleted; those with a replica whose broker is away
    /// or on the move wait. A broker whose disk failed says so itself.
    fn start_deletion(&mut self, names: Vec<TopicName>) {
        let (mut first, mut second) = (Outbox::default(), Outbox::default());
        for name in names {
            let context = self.context_mut();
            let Some(topic) = context.topics.get(&name) else { continue };
            let partitions: Vec<i32> = topic.partitions.keys().copied().collect();
            let replicas = replicas_of(&name, topic);
            let id = topic.id;
            let is_moving = topic.partitions.values().any(Partition::is_moving);
            let is_whole = replicas.iter().all(|(_, broker)| context.is_live(*broker));
            let holders = replicas.iter().map(|(_, broker)| *broker).collect();
            context.deleting.insert(name.clone(), holders);
            first.hide(name, id, partitions);
            if is_whole && !is_moving {
                replicas.iter().for_each(|(at, broker)| first.delete(at, *broker, false));
                replicas.iter().for_each(|(at, broker)| second.delete(at, *broker, true));
            }
        }
        if !first.is_empty() {
            self.send(&first);
        }
        if !second.is_empty() {
            self.send(&second);
        }
    }

    /// Topics that were marked before we were elected are not announced any more.
    pub(super) async fn load_deletions(&mut self) -> Result<(), Stopped> {
        if !self.settings.delete_topics {
            return Ok(());
        }
        let marked =
            self.session.children(znodes::DELETE_TOPICS, true).await.map_err(Stopped::of)?;
        for name in marked.into_iter().map(TopicName::from) {
            let context = self.context_mut();
            if let Some(topic) = context.topics.get(&name) {
                let replicas = replicas_of(&name, topic);
                let holders = replicas.into_iter().map(|(_, broker)| broker).collect();
                context.deleting.insert(name, holders);
            }
        }
        Ok(())
    }

    pub(super) async fn handle_stop_replica_answer(
        &mut self,
        broker: BrokerId,
        sequence: u64,
        response: StopReplicaResponse,
    ) {
        let Some(active) = &mut self.active else { return };
        let Some(mut topics) = active.stops.remove(&(broker, sequence)) else { return };
        if response.error_code != ErrorCode::None.code() {
            topics.clear();
        }
        for error in response.partition_errors {
            if error.error_code != ErrorCode::None.code() {
                tracing::warn!(%broker, topic = %error.topic_name, partition = error.partition_index, error = error.error_code, "a replica was not deleted");
                topics.remove(&*error.topic_name);
            }
        }
        let mut gone = Vec::new();
        for name in topics {
            if let Some(holders) = active.context.deleting.get_mut(&name) {
                holders.remove(&broker);
                if holders.is_empty() {
                    gone.push(name);
                }
            }
        }
        if let Err(stopped) = self.forget(gone).await {
            self.stop(stopped, "delete topics").await;
        }
    }

    /// Removes topics whose replicas are all deleted from the store.
    async fn forget(&mut self, names: Vec<TopicName>) -> Result<(), Stopped> {
        for name in names {
            let Some(topic) = self.context().topics.get(&name) else { continue };
            let mut groups = Vec::new();
            for (&index, partition) in &topic.partitions {
                if partition.has_eligible_node {
                    groups.push(vec![Op::delete(znodes::eligible_path(&name, index))]);
                }
                if partition.state.is_some() {
                    groups.push(vec![
                        Op::delete(znodes::state_path(&name, index)),
                        Op::delete(znodes::partition_path(&name, index)),
                    ]);
                }
            }
            let mut last = Vec::new();
            if self.context().eligible_topics.contains(&name) {
                last.push(Op::delete(znodes::eligible_topic_path(&name)));
            }
            if topic.has_partitions_node {
                last.push(Op::delete(znodes::partitions_path(&name)));
            }
            last.push(Op::delete(znodes::topic_path(&name)));
            last.push(Op::delete(znodes::config_path(&ConfigEntity::Topic(name.clone()))));
            last.push(Op::delete(znodes::delete_topic_path(&name)));
            groups.push(last);
            let results = self.commit(chunks(groups)).await?;
            for error in results.into_iter().filter_map(Result::err) {
                if !matches!(error, StoreError::NoNode(_) | StoreError::NotEmpty(_)) {
                    return Err(Stopped::Refused(error));
                }
                // Not as we thought: whatever is there goes, node by node.
                self.remove_tree(znodes::eligible_topic_path(&name)).await?;
                self.remove_tree(znodes::topic_path(&name)).await?;
                let config = znodes::config_path(&ConfigEntity::Topic(name.clone()));
                self.remove_tree(config).await?;
                self.remove_tree(znodes::delete_topic_path(&name)).await?;
            }
            self.context_mut().remove(&name);
            self.surroundings.configs.config_changed(metadata::ConfigChange {
                entity: ConfigEntity::Topic(name.clone()),
                configs: BTreeMap::new(),
            });
            tracing::info!(topic = %name, "deleted");
        }
        Ok(())
    }

    pub(super) async fn remove_tree(&mut self, root: String) -> Result<(), Stopped> {
        let mut found = vec![root];
        let mut at = 0;
        while let Some(path) = found.get(at).cloned() {
            at += 1;
            match self.session.children(&path, false).await {
                Ok(names) => found.extend(names.iter().map(|name| format!("{path}/{name}"))),
                Err(StoreError::NoNode(_)) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
        }
        for path in found.into_iter().rev() {
            match self.commit_one(vec![Op::delete(path)]).await {
                Ok(_) | Err(Stopped::Refused(StoreError::NoNode(_))) => {}
                Err(stopped) => return Err(stopped),
            }
        }
        Ok(())
    }

    /// Topics were marked for deletion by somebody else, or brokers came back that hold their replicas.
    pub(super) async fn handle_deletions_changed(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.resume_deletions().await {
            self.stop(stopped, "topics marked for deletion").await;
        }
    }

    async fn resume_deletions(&mut self) -> Result<(), Stopped> {
        let marked =
            self.session.children(znodes::DELETE_TOPICS, true).await.map_err(Stopped::of)?;
        let (known, unknown): (Vec<TopicName>, Vec<TopicName>) = marked
            .into_iter()
            .map(TopicName::from)
            .partition(|name| self.context().topics.contains_key(name));
        let refused = if self.settings.delete_topics { Vec::new() } else { known.clone() };
        for name in unknown.into_iter().chain(refused) {
            match self.commit_one(vec![Op::delete(znodes::delete_topic_path(&name))]).await {
                Ok(_) | Err(Stopped::Refused(StoreError::NoNode(_))) => {}
                Err(stopped) => return Err(stopped),
            }
        }
        if self.settings.delete_topics {
            let active = self.active.as_ref().ok_or(Stopped::Moved)?;
            let asked: BTreeSet<&TopicName> = active.stops.values().flatten().collect();
            let idle = known.into_iter().filter(|name| !asked.contains(name)).collect();
            self.start_deletion(idle);
        }
        Ok(())
    }

    /// Somebody else may have created topics or added partitions.
    pub(super) async fn handle_topics_changed(&mut self) {
        let list = std::mem::take(&mut self.dirty.topic_list);
        let topics = std::mem::take(&mut self.dirty.topics);
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.update_topics(list, topics).await {
            self.stop(stopped, "topics changed").await;
        }
    }

    async fn update_topics(
        &mut self,
        list: bool,
        changed: BTreeSet<TopicName>,
    ) -> Result<(), Stopped> {
        let mut outbox = Outbox::default();
        let is_known = |driver: &Self, name: &TopicName| driver.context().topics.contains_key(name);
        // One that could not be read and is not known may be mended.
        let (changed, mut new): (BTreeSet<_>, BTreeSet<_>) =
            changed.into_iter().partition(|name| is_known(self, name));
        if list {
            let names = self.session.children(znodes::TOPICS, true).await.map_err(Stopped::of)?;
            let names = names.into_iter().map(TopicName::from);
            new.extend(names.filter(|name| !is_known(self, name)));
        }
        if !new.is_empty() {
            let new = new.into_iter().collect();
            let loaded = self.load(new).await?;
            self.announce_topics(loaded.clone()).await.map_err(Stopped::of)?;
            let partitions = self.partitions_of(&loaded);
            let has_state = |at: &&TopicPartition| {
                self.context().partition(at).is_some_and(|partition| partition.state.is_some())
            };
            let old: Vec<_> = partitions.iter().filter(has_state).cloned().collect();
            outbox = self.repair(partitions).await?;
            // They had leaders before we could read their topic.
            self.lead_anew(old, &mut outbox).await?;
        }
        self.send(&outbox);
        let reads = changed.iter().map(|name| Read::data(znodes::topic_path(name)).watched());
        let found = self.session.read_all(reads.collect()).await.map_err(Stopped::of)?;
        for (name, found) in changed.into_iter().zip(found) {
            // One that is not there has been deleted meanwhile.
            let Ok(ReadResult::Data(data, _)) = found else { continue };
            let Some(node) = znodes::parse_topic(&data.unwrap_or_default()) else {
                self.note_unreadable(&name);
                continue;
            };
            if let Some(active) = &mut self.active {
                active.unreadable.remove(&name);
            }
            let Some(topic) = self.context().topics.get(&name) else { continue };
            let new =
                node.partitions.into_iter().filter(|(i, _)| !topic.partitions.contains_key(i));
            let new: BTreeMap<_, _> = new.map(|(i, ids)| (i, Partition::assigned(ids))).collect();
            if new.is_empty() || self.context().deleting.contains_key(&name) {
                continue;
            }
            let added = new.keys().map(|&i| TopicPartition::new(name.clone(), i)).collect();
            if let Some(topic) = self.context_mut().topics.get_mut(&name) {
                topic.partitions.extend(new);
            }
            let outbox = self.repair(added).await?;
            self.send(&outbox);
        }
        Ok(())
    }

    fn partitions_of(&self, names: &[TopicName]) -> Vec<TopicPartition> {
        let context = self.context();
        names
            .iter()
            .filter_map(|name| Some((name, context.topics.get(name)?)))
            .flat_map(|(name, topic)| {
                topic.partitions.keys().map(|&index| TopicPartition::new(name.clone(), index))
            })
            .collect()
    }
}

fn replicas_of(name: &TopicName, topic: &Topic) -> Vec<(TopicPartition, BrokerId)> {
    let partitions = topic.partitions.iter();
    partitions
        .flat_map(|(&index, partition)| {
            let at = TopicPartition::new(name.clone(), index);
            partition.replicas.iter().map(move |&id| (at.clone(), id))
        })
        .collect()
}

/// The brokers that may get new replicas.
fn candidates(context: &Context) -> Vec<Candidate> {
    let candidate =
        |broker: &LiveBroker| Candidate { id: broker.image.id, rack: broker.image.rack.clone() };
    context.live().map(candidate).collect()
}

fn describe(plan: &Plan, validate_only: bool) -> CreatedTopic {
    let partitions = &plan.topic.partitions;
    let first = partitions.values().next().map_or(0, |p| p.replicas.len());
    CreatedTopic {
        id: (!validate_only).then_some(plan.topic.id),
        partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        replication_factor: i16::try_from(first).unwrap_or(i16::MAX),
        configs: plan.configs.clone(),
        is_ready: true,
    }
}

fn timed_out(_: ()) -> Result<(), ApiError> {
    Err(ApiError::bare(ErrorCode::RequestTimedOut))
}

/// Answers when what went well shows in this broker's image; at once if nothing did, or if the client
/// does not wait (then, as in Kafka, what went well timed out).
fn answer_later<T: Send + 'static>(
    driver: &mut Driver,
    results: PerTopic<T>,
    wants: Wants,
    timeout: Duration,
    late: fn(T) -> Result<T, ApiError>,
    reply: ReplyTo<PerTopic<T>>,
) {
    let topics: Vec<TopicName> =
        results.iter().filter(|(_, result)| result.is_ok()).map(|(name, _)| name.clone()).collect();
    let finish = move |unfinished: &Unfinished| {
        let results =
            results.into_iter().map(|(name, result)| match (result, unfinished.get(&name)) {
                (Ok(done), Some(why)) if why.code == ErrorCode::RequestTimedOut => {
                    (name, late(done))
                }
                (Ok(_), Some(why)) => (name, Err(why.clone())),
                (result, _) => (name, result),
            });
        let _ = reply.send(results.collect());
    };
    if timeout.is_zero() || topics.is_empty() {
        let late = ApiError::bare(ErrorCode::RequestTimedOut);
        finish(&topics.into_iter().map(|topic| (topic, late.clone())).collect());
    } else {
        driver.wait(topics, wants, timeout, finish);
    }
}
