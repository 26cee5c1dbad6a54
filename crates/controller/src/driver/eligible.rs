//! Lists of eligible leaders in the store: what they follow from is read, they are written with the states that they go
//! with, and whoever may lack records leaves them. The rules are in [`crate::eligible`].
//!
//! Nodes: `/barnabas/eligible/<topic>/<partition>`, only where there is a list; and `/barnabas/settings/<broker>`, in which
//! each broker of ours says what it goes by.

use super::failover::{PlannedWrite, StateWrite};
use super::*;
use crate::context::State;
use crate::eligible::{self, Eligible, LeaderMinimum, Stamps};
use crate::znodes::AppliedSettings;
use metadata::ConfigEntity;

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// One node of settings.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// The change that last wrote it; 0 if it is not there.
    stamp: i64,
    /// Whether it is as it was when its topic was made: whoever has a replica learned it then.
    is_first: bool,
    /// What it says, if anything; an error if that cannot be read.
    minimum: Result<Option<usize>, ()>,
}

/// What the store says of several topics' minimums, and of some brokers.
#[derive(Debug, Default)]
struct Minimums {
    topics: BTreeMap<TopicName, Setting>,
    brokers: BTreeMap<BrokerId, Setting>,
    all_brokers: Option<Setting>,
    applied: BTreeMap<BrokerId, AppliedSettings>,
}

impl Minimums {
    fn settings(&self, topic: &TopicName, broker: BrokerId) -> Option<[Setting; 3]> {
        Some([*self.topics.get(topic)?, *self.brokers.get(&broker)?, self.all_brokers?])
    }

    fn stamps(&self, topic: &TopicName, broker: BrokerId) -> Option<Stamps> {
        Some(self.settings(topic, broker)?.map(|setting| setting.stamp))
    }

    /// What `leader` goes by for `topic`; `None` if it does not say, or the settings cannot be read.
    fn of(&self, topic: &TopicName, leader: BrokerId) -> Option<LeaderMinimum> {
        let applied = self.applied.get(&leader)?;
        let settings = self.settings(topic, leader)?;
        let mut said = None;
        for setting in settings {
            said = said.or(setting.minimum.ok()?);
        }
        let knows = |setting: &Setting| setting.is_first || setting.stamp <= applied.changes;
        Some(LeaderMinimum {
            min_insync_replicas: said.unwrap_or(applied.min_insync_replicas),
            settings: settings.map(|setting| setting.stamp),
            is_applied: settings.iter().all(knows),
        })
    }
}

impl Driver {
    /// The lists that go with `writes`, in order. An error of one that would make a leader by a list that does not count
    /// any more.
    pub(super) async fn lists_for(
        &mut self,
        writes: &[StateWrite],
    ) -> Result<Vec<Result<Option<Eligible>, StoreError>>, Stopped> {
        let context = self.context();
        let is_concerned = |(at, node, _): &&StateWrite| {
            let may_lead = |id| context.may_be_eligible(id, at);
            context.partition(at).is_some_and(|partition| {
                eligible::may_be_needed(partition, node, may_lead)
                    || eligible::is_elected_by_list(partition, node)
            })
        };
        let concerned: Vec<&StateWrite> = writes.iter().filter(is_concerned).collect();
        let topics: BTreeSet<TopicName> =
            concerned.iter().map(|(at, ..)| at.topic.clone()).collect();
        let leaders = |(at, node, _): &&StateWrite| {
            let present = context.partition(at).and_then(|p| p.eligible.as_ref());
            [node.leader, present.map(|present| present.leader)].into_iter().flatten()
        };
        let brokers: BTreeSet<BrokerId> = concerned.iter().flat_map(leaders).collect();
        let concerned: BTreeSet<TopicPartition> =
            concerned.into_iter().map(|(at, ..)| at.clone()).collect();
        let minimums = match topics.is_empty() {
            true => Minimums::default(),
            false => self.read_minimums(topics, brokers).await?,
        };
        let context = self.context();
        let lists = writes.iter().map(|(at, node, _)| {
            let Some(partition) = context.partition(at).filter(|_| concerned.contains(at)) else {
                return Ok(None);
            };
            let stands = partition.eligible.as_ref().is_some_and(|present| {
                minimums.stamps(&at.topic, present.leader) == Some(present.settings)
            });
            if !stands && eligible::is_elected_by_list(partition, node) {
                let path = znodes::eligible_path(&at.topic, at.partition);
                return Err(StoreError::BadVersion(path));
            }
            let may_lead = |id| context.may_be_eligible(id, at);
            let minimum = node.leader.and_then(|leader| minimums.of(&at.topic, leader));
            Ok(eligible::eligible_after(partition, node, may_lead, stands, minimum))
        });
        Ok(lists.collect())
    }

    async fn read_minimums(
        &mut self,
        topics: BTreeSet<TopicName>,
        brokers: BTreeSet<BrokerId>,
    ) -> Result<Minimums, Stopped> {
        let config = |entity: ConfigEntity| Read::data(znodes::config_path(&entity));
        let mut reads = vec![config(ConfigEntity::AllBrokers)];
        for &id in &brokers {
            reads.push(config(ConfigEntity::Broker(id)));
            reads.push(Read::data(znodes::applied_settings_path(id)));
            reads.push(Read::exists(znodes::broker_path(id)));
        }
        for name in &topics {
            reads.push(config(ConfigEntity::Topic(name.clone())));
            reads.push(Read::exists(znodes::topic_path(name)));
        }
        let mut found = self.session.read_all(reads).await.map_err(Stopped::of)?.into_iter();
        let mut minimums = Minimums { all_brokers: setting(found.next(), None), ..<_>::default() };
        for id in brokers {
            if let Some(setting) = setting(found.next(), None) {
                minimums.brokers.insert(id, setting);
            }
            let said = match found.next() {
                Some(Ok(ReadResult::Data(Some(data), _))) => znodes::parse_applied_settings(&data),
                _ => None,
            };
            // What an earlier registration said, or one of ours before one of Apache's, says nothing of this one.
            if let (Some(said), Some(Ok(ReadResult::Exists(Some(registered))))) =
                (said, found.next())
                && registered.ephemeral_owner == Some(said.session)
            {
                minimums.applied.insert(id, said);
            }
        }
        for name in topics {
            let (config, topic) = (found.next(), found.next());
            let made = match topic {
                Some(Ok(ReadResult::Exists(Some(stat)))) => Some(stat.czxid),
                _ => None,
            };
            if let Some(setting) = setting(config, made) {
                minimums.topics.insert(name, setting);
            }
        }
        Ok(minimums)
    }

    /// Lists that the next election would go by and whose settings are others now are void: they are deleted.
    pub(super) async fn drop_void_lists(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), Stopped> {
        let context = self.context();
        let listed: Vec<(TopicPartition, Eligible)> = partitions
            .iter()
            .filter(|at| !context.has_online_leader(at))
            .filter_map(|at| Some((at.clone(), context.partition(at)?.eligible.clone()?)))
            .collect();
        if listed.is_empty() {
            return Ok(());
        }
        let topics = listed.iter().map(|(at, _)| at.topic.clone()).collect();
        let brokers = listed.iter().map(|(_, list)| list.leader).collect();
        let minimums = self.read_minimums(topics, brokers).await?;
        let void = listed
            .into_iter()
            .filter(|(at, list)| minimums.stamps(&at.topic, list.leader) != Some(list.settings));
        let void: Vec<_> = void.map(|(at, list)| (at, list.members)).collect();
        for (at, members) in &void {
            tracing::info!(partition = %at, eligible = ?members, "settings that its list of eligible leaders followed from have changed: it is void");
        }
        let all = |_: &TopicPartition, _: BrokerId| true;
        self.leave_lists(void.into_iter().map(|(at, _)| at).collect(), all).await
    }

    /// `brokers` may lack records: they are no eligible leaders any more.
    pub(super) async fn drop_from_lists(
        &mut self,
        brokers: &BTreeSet<BrokerId>,
    ) -> Result<(), Stopped> {
        let context = self.context();
        let mut listed = context.all_partitions();
        listed.retain(|at| {
            let list = context.partition(at).and_then(|partition| partition.eligible.as_ref());
            list.is_some_and(|list| list.members.iter().any(|id| brokers.contains(id)))
        });
        if !listed.is_empty() {
            tracing::info!(
                ?brokers,
                partitions = listed.len(),
                "may lack records: they are no eligible leaders any more"
            );
        }
        self.leave_lists(listed, |_, id| brokers.contains(&id)).await
    }

    /// Takes out of the lists of `partitions` whomever `leaves` names. The states stay as they are: a list may always
    /// become shorter.
    pub(super) async fn leave_lists(
        &mut self,
        partitions: Vec<TopicPartition>,
        leaves: impl Fn(&TopicPartition, BrokerId) -> bool,
    ) -> Result<(), Stopped> {
        let (mut listed, mut transactions) = (Vec::new(), Vec::new());
        for at in partitions {
            let Some(topic) = self.context().topics.get(&at.topic).map(|topic| topic.id) else {
                continue;
            };
            let Some(partition) = self.context_mut().partition_mut(&at) else { continue };
            let Some(mut list) = partition.eligible.take() else { continue };
            list.members.retain(|&id| !leaves(&at, id));
            let path = znodes::eligible_path(&at.topic, at.partition);
            transactions.push(vec![match &partition.state {
                Some(state) if !list.members.is_empty() => {
                    let data = znodes::eligible(topic, state, &list);
                    partition.eligible = Some(list);
                    Op::set(path, data)
                }
                Some(_) | None => {
                    partition.has_eligible_node = false;
                    Op::delete(path)
                }
            }]);
            listed.push(at);
        }
        for (at, result) in listed.into_iter().zip(self.commit(transactions).await?) {
            match result {
                Ok(_) => {}
                // Somebody deleted it, which is always allowed.
                Err(StoreError::NoNode(_)) => {
                    if let Some(partition) = self.context_mut().partition_mut(&at) {
                        (partition.eligible, partition.has_eligible_node) = (None, false);
                    }
                }
                Err(error) => return Err(Stopped::Refused(error)),
            }
        }
        Ok(())
    }

    /// The changes that make the store's list the one of `planned`. `made` has the topics whose node an earlier change of
    /// the same batch creates.
    pub(super) fn list_ops(
        &self,
        planned: &PlannedWrite,
        made: &mut BTreeSet<TopicName>,
    ) -> Vec<Op> {
        let (at, node, version) = &planned.write;
        let context = self.context();
        let is_there = context.partition(at).is_some_and(|partition| partition.has_eligible_node);
        let path = znodes::eligible_path(&at.topic, at.partition);
        let (Some(list), Some(before), Some(topic)) =
            (&planned.list, version, context.topics.get(&at.topic))
        else {
            return is_there.then(|| Op::delete(path)).into_iter().collect();
        };
        let partition_epoch = model::PartitionEpoch(before.0.wrapping_add(1));
        let state = State { node: node.clone(), partition_epoch };
        let data = znodes::eligible(topic.id, &state, list);
        if is_there {
            return vec![Op::set(path, data)];
        }
        let mut ops = Vec::new();
        if !context.eligible_topics.contains(&at.topic) && made.insert(at.topic.clone()) {
            ops.push(Op::create_null(znodes::eligible_topic_path(&at.topic)));
        }
        ops.push(Op::create(path, data));
        ops
    }

    /// Reads the lists of `partitions`, whose states are known.
    pub(super) async fn read_lists(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), Stopped> {
        let reads = partitions.iter().flat_map(|at| {
            [
                Read::data(znodes::eligible_path(&at.topic, at.partition)),
                Read::exists(znodes::eligible_topic_path(&at.topic)),
            ]
        });
        let found = self.session.read_all(reads.collect()).await.map_err(Stopped::of)?;
        let mut found = found.into_iter();
        for at in partitions {
            let (list, of_topic) = (found.next(), found.next());
            let context = self.context_mut();
            match of_topic {
                Some(Ok(ReadResult::Exists(Some(_)))) => {
                    context.eligible_topics.insert(at.topic.clone())
                }
                _ => context.eligible_topics.remove(&at.topic),
            };
            let Some(topic) = context.topics.get(&at.topic).map(|topic| topic.id) else { continue };
            let Some(partition) = context.partition_mut(at) else { continue };
            (partition.eligible, partition.has_eligible_node) = match (list, &partition.state) {
                (Some(Ok(ReadResult::Data(data, _))), Some(state)) => {
                    let data = data.unwrap_or_default();
                    (znodes::parse_eligible(&data, topic, state), true)
                }
                (list, _) => (None, matches!(list, Some(Ok(_)))),
            };
        }
        Ok(())
    }

    /// Reads all lists of `topics`. The store is asked for the few that there are.
    pub(super) async fn load_lists(&mut self, topics: &BTreeSet<TopicName>) -> Result<(), Stopped> {
        let mut listed = Vec::new();
        for name in self.topics_with_lists().await? {
            if !topics.contains(&name) {
                continue;
            }
            let path = znodes::eligible_topic_path(&name);
            let indexes = match self.session.children(&path, false).await {
                Ok(names) => names,
                Err(StoreError::NoNode(_)) => continue,
                Err(error) => return Err(Stopped::of(error)),
            };
            let indexes = indexes.iter().filter_map(|index| index.parse().ok());
            listed.extend(indexes.map(|index| TopicPartition::new(name.clone(), index)));
            self.context_mut().eligible_topics.insert(name);
        }
        listed.retain(|at| self.context().partition(at).is_some());
        self.read_lists(&listed).await
    }

    /// Deletes the lists of topics that somebody deleted who knows nothing of lists.
    pub(super) async fn forget_stray_lists(&mut self) -> Result<(), Stopped> {
        for name in self.topics_with_lists().await? {
            let active = self.active.as_ref().ok_or(Stopped::Moved)?;
            if active.context.topics.contains_key(&name) || active.unreadable.contains(&name) {
                continue;
            }
            self.remove_tree(znodes::eligible_topic_path(&name)).await?;
        }
        Ok(())
    }

    async fn topics_with_lists(&mut self) -> Result<Vec<TopicName>, Stopped> {
        match self.session.children(znodes::ELIGIBLE, false).await {
            Ok(names) => Ok(names.into_iter().map(TopicName::from).collect()),
            Err(StoreError::NoNode(_)) => Ok(Vec::new()),
            Err(error) => Err(Stopped::of(error)),
        }
    }

    /// What this broker says with its registration: it goes by all settings that were announced up to `changes`.
    pub(super) fn applied_settings(&self, changes: Zxid) -> Vec<u8> {
        znodes::applied_settings(AppliedSettings {
            session: self.session.id(),
            changes: changes.0,
            min_insync_replicas: self.settings.min_insync_replicas,
        })
    }

    /// The last announcement of changed settings, as the store numbers changes. Whatever is read after this has them.
    pub(super) async fn announced_changes(&mut self) -> Result<Zxid, StoreError> {
        let stat = self.session.exists(znodes::CONFIG_CHANGES, false).await?;
        Ok(stat.map_or(Zxid(0), |stat| stat.pzxid))
    }

    /// This broker goes by all settings that were announced up to `changes`, and says so.
    pub(super) async fn note_applied_changes(&mut self, changes: Zxid) -> Result<(), StoreError> {
        if changes <= self.applied_changes {
            return Ok(());
        }
        let own = znodes::applied_settings_path(self.settings.broker.id);
        match self.session.set(&own, self.applied_settings(changes), None).await {
            Ok(_) => self.applied_changes = changes,
            // Somebody deleted it; the next registration makes it anew.
            Err(StoreError::NoNode(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// A value that every broker takes, and takes for the same.
fn number(value: &str) -> Result<usize, ()> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = value.parse().map_err(drop)?;
    usize::try_from(number).ok().filter(|number| digits && *number > 0).ok_or(())
}

/// What a node of settings says; `made` is when its topic was made. `None`: the store does not answer.
fn setting(found: Option<Result<ReadResult, StoreError>>, made: Option<Zxid>) -> Option<Setting> {
    match found? {
        Ok(ReadResult::Data(data, stat)) => {
            let said = znodes::parse_config(data.as_deref()).ok_or(());
            let minimum = said.and_then(|configs| {
                let value = configs.get(MIN_INSYNC_REPLICAS);
                value.map(|value| number(value)).transpose()
            });
            let is_first = stat.version == 0 && made.is_some_and(|made| stat.czxid <= made);
            Some(Setting { stamp: stat.mzxid.0, is_first, minimum })
        }
        Err(StoreError::NoNode(_)) => {
            Some(Setting { stamp: 0, is_first: false, minimum: Ok(None) })
        }
        Ok(ReadResult::Exists(_) | ReadResult::Children(..)) | Err(_) => None,
    }
}
