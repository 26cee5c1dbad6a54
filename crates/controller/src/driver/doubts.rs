//! Brokers that come back without all that they had: after a power failure the ends of their logs may be gone,
//! and log directories may be missing.
//!
//! Such a broker says so in the transaction that registers it, in a node of its own, which stays through later
//! starts until the controller has drawn the consequences: the broker is out of every ISR in which somebody else
//! leads, and takes part again once it has caught up. Where nobody leads, the rest of the ISR is waited for
//! (`barnabas.unclean.restart.wait.ms`); then whoever has the longest log leads. Source: rule R6 (KIP-380,
//! KIP-841, KIP-966); decision 11 in `docs/decisions`.
//!
//! Non-obvious:
//! - A broker whose logs may be missing is asked with LeaderAndIsr before it leads anything: each log that is
//!   there is as good as any.
//! - A registration may be left over from before the power failed. So who has not answered this controller yet
//!   is no reason to take anybody in doubt out of an ISR.
//! - Only ISRs of before the registration are in doubt, and each until it was written once without the broker,
//!   or with it as leader.
//! - Who is the only one left of an ISR leads at once, as in Kafka, unless others left it with all that was committed
//!   (`eligible.rs`): there is nothing to choose.
//! - Who may lack records is no eligible leader any more, and the store knows it before anything else follows.

use super::*;
use crate::context::Doubt;
use model::{LeaderEpoch, Offset};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

/// `ReplicaId` of a debugging consumer, whom every replica answers.
const DEBUGGING: i32 = -2;
/// The timestamp that asks for the end of the log.
const LATEST: i64 = -1;
/// A log that says nothing of its end has nothing.
const NOTHING: (LeaderEpoch, Offset) = (LeaderEpoch(-1), Offset(-1));

impl Driver {
    /// Whoever registered last with this id did so from other directories, or these are an old copy: their logs
    /// end earlier than this broker had said. Before the first registration, and before it is recorded.
    pub(super) async fn doubt_unless_last(&mut self) -> Result<(), ControllerError> {
        if self.doubt == Some(LogDoubt::Unclean) || self.own_sessions.is_empty() {
            return Ok(());
        }
        let path = znodes::incarnation_path(self.settings.broker.id);
        match self.session.get(&path, false).await {
            Ok((Some(data), _)) => {
                let session = znodes::parse_incarnation(&data);
                if session.is_some_and(|session| !self.own_sessions.contains(&session)) {
                    tracing::warn!(
                        ?session,
                        "this broker's id was last registered by a session that its log directories do not know: they may be an old copy"
                    );
                    self.doubt = Some(LogDoubt::Unclean);
                }
                Ok(())
            }
            Ok((None, _)) | Err(StoreError::NoNode(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The change that says what this broker may lack, unless it was said already and still stands.
    pub(super) async fn doubt_ops(&mut self) -> Result<Vec<Op>, ControllerError> {
        let Some(doubt) = self.doubt else { return Ok(Vec::new()) };
        let path = znodes::doubt_path(self.settings.broker.id);
        let data = |doubt| znodes::doubt(doubt);
        match self.session.get(&path, false).await {
            Ok((said, stat)) => {
                let said = said.as_deref().map(znodes::parse_doubt);
                // Never less than what was said before. Set, so that it is not withdrawn meanwhile.
                Ok(vec![Op::set_if(
                    path,
                    data(said.map_or(doubt, |said| said.max(doubt))),
                    stat.version,
                )])
            }
            Err(StoreError::NoNode(_)) => Ok(vec![Op::create(path, data(doubt))]),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what `brokers` say of themselves, and what follows from it for the partitions whose ISRs they are
    /// in. After their registrations were read: what was said with one is there then.
    pub(super) async fn hear_doubts(
        &mut self,
        brokers: &BTreeSet<BrokerId>,
    ) -> Result<(), Stopped> {
        let names = self.session.children(znodes::DOUBTS, false).await.map_err(Stopped::of)?;
        let said: Vec<BrokerId> =
            znodes::broker_ids(&names).filter(|id| brokers.contains(id)).collect();
        let live = &self.context().brokers;
        let is_silent =
            |id: &&BrokerId| live.get(id).is_some_and(|live| live.incarnation.is_none());
        // One of Apache's says nothing of what it may lack.
        let silent = brokers.iter().filter(is_silent);
        let may_lack_records = silent.chain(&said).copied().collect();
        self.drop_from_lists(&may_lack_records).await?;
        if said.is_empty() {
            return Ok(());
        }
        let reads = said.iter().map(|&id| Read::data(znodes::doubt_path(id))).collect();
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let since = self.last_sequence;
        let until = Instant::now() + self.settings.unclean_restart_wait;
        let active = self.active.as_mut().ok_or(Stopped::Moved)?;
        for (id, found) in said.into_iter().zip(found) {
            let Ok(ReadResult::Data(data, _)) = found else { continue };
            // A registration of Apache's since then: its own controller would not know of this either.
            let Some(incarnation) = active.context.brokers.get(&id).and_then(|b| b.incarnation)
            else {
                continue;
            };
            let about = znodes::parse_doubt(&data.unwrap_or_default());
            let doubt = Doubt { about, since, log_end: None };
            let context = &mut active.context;
            let mut counted_on = context.all_partitions();
            counted_on.retain(|at| {
                !context.deleting.contains_key(&at.topic)
                    && context.partition(at).is_some_and(|partition| {
                        let state = partition.state.as_ref();
                        state.is_some_and(|state| match &state.node.isr[..] {
                            // Nobody else can lead, whatever it lacks; if its log is gone, it says so.
                            [alone] if *alone == id => {
                                about == LogDoubt::Unclean && partition.replicas.len() > 1
                            }
                            isr => isr.contains(&id),
                        })
                    })
            });
            tracing::info!(broker = %id, ?about, partitions = counted_on.len(), "is back, and may lack what it had: others of its ISRs lead");
            context.doubts.extend(counted_on.into_iter().map(|at| ((id, at), doubt)));
            context.patient.insert(id);
            active.doubted.insert(id, incarnation);
            active.patience.insert(id, until);
        }
        Ok(())
    }

    /// `broker` lives in its present registration: it may lead what others are in doubt about.
    pub(super) async fn note_answer(&mut self, broker: BrokerId, sequence: u64) {
        let Some(active) = &mut self.active else { return };
        if active.opened.get(&broker).is_none_or(|&before| sequence <= before)
            || !active.context.heard.insert(broker)
        {
            return;
        }
        let context = &active.context;
        let mut concerned: BTreeSet<_> = context.doubts.keys().map(|(_, at)| at.clone()).collect();
        let waits_for_it = |at: &TopicPartition| {
            let list = context.partition(at).and_then(|partition| partition.eligible.as_ref());
            list.is_some_and(|list| list.members.contains(&broker))
                && !context.has_online_leader(at)
        };
        concerned.extend(context.all_partitions().into_iter().filter(waits_for_it));
        self.repair_and_tell(concerned.into_iter().collect(), "a broker answered").await;
    }

    /// `broker` says that it has these logs. Returns those that are in no doubt any more.
    pub(super) fn logs_are_there(
        &mut self,
        broker: BrokerId,
        sequence: u64,
        there: Vec<TopicPartition>,
    ) -> Vec<TopicPartition> {
        let Some(active) = &mut self.active else { return Vec::new() };
        let mut settled = Vec::new();
        let mut asked: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
        for at in there {
            let key = (broker, at);
            let Some(doubt) = active.context.doubts.get(&key) else { continue };
            if sequence <= doubt.since {
                continue;
            }
            match (doubt.about, doubt.log_end) {
                (LogDoubt::Incomplete, _) => {
                    active.context.doubts.remove(&key);
                    settled.push(key.1);
                }
                (LogDoubt::Unclean, None) => {
                    asked.entry(key.1.topic).or_default().push(key.1.partition);
                }
                (LogDoubt::Unclean, Some(_)) => {}
            }
        }
        if !asked.is_empty()
            && let Some(sender) = active.senders.get(&broker)
        {
            self.last_sequence += 1;
            sender.send(self.last_sequence, crate::ControlRequest::LogEnds(log_ends_of(asked)));
        }
        settled
    }

    /// `broker` says how far its logs reach.
    pub(super) async fn handle_log_ends(
        &mut self,
        broker: BrokerId,
        sequence: u64,
        response: ListOffsetsResponse,
    ) {
        let Some(active) = &mut self.active else { return };
        let mut heard = Vec::new();
        for topic in response.topics {
            for partition in topic.partitions {
                let at = TopicPartition::new(&*topic.name, partition.partition_index);
                let Some(doubt) = active.context.doubts.get_mut(&(broker, at.clone())) else {
                    continue;
                };
                if sequence <= doubt.since {
                    continue;
                }
                if partition.error_code == ErrorCode::KafkaStorageError.code() {
                    active.context.doubts.remove(&(broker, at.clone()));
                    active.context.offline.insert((broker, at.clone()));
                    heard.push(at);
                    continue;
                }
                let is_known = partition.error_code == ErrorCode::None.code();
                let end = (LeaderEpoch(partition.leader_epoch), Offset(partition.offset));
                doubt.log_end = Some(if is_known { end } else { NOTHING });
                tracing::info!(%broker, partition = %at, leader_epoch = partition.leader_epoch, end = partition.offset, error_code = partition.error_code, "its log may lack records, and reaches this far");
                heard.push(at);
            }
        }
        self.repair_and_tell(heard, "logs may lack records").await;
    }

    /// Whoever waited long enough leads what it can, without those that did not return.
    pub(super) async fn lose_patience(&mut self, now: Instant) {
        let Some(active) = &mut self.active else { return };
        let mut waited = BTreeSet::new();
        active.patience.retain(|id, until| {
            if *until <= now {
                waited.insert(*id);
            }
            *until > now
        });
        active.context.patient.retain(|id| !waited.contains(id));
        let doubts = active.context.doubts.keys();
        let concerned = doubts.filter(|(id, _)| waited.contains(id)).map(|(_, at)| at.clone());
        let concerned: BTreeSet<_> = concerned.collect();
        if !concerned.is_empty() {
            tracing::warn!(brokers = ?waited, partitions = concerned.len(), "members of ISRs that may have more records did not return in time: they are not waited for any longer");
            self.repair_and_tell(concerned.into_iter().collect(), "waited long enough").await;
        }
    }

    async fn repair_and_tell(&mut self, partitions: Vec<TopicPartition>, step: &'static str) {
        if partitions.is_empty() {
            return;
        }
        match self.repair(partitions).await {
            Ok(outbox) => {
                self.send(&outbox);
            }
            Err(stopped) => self.stop(stopped, step).await,
        }
    }

    /// The state of `at` is known anew, and was written with `leader`: whoever leads is in no doubt any more, nor
    /// is who left the ISR.
    pub(super) fn settle_doubts(&mut self, at: &TopicPartition, leader: Option<BrokerId>) {
        let Some(active) = &mut self.active else { return };
        let context = &mut active.context;
        for &id in active.doubted.keys() {
            let state = context.partition(at).and_then(|partition| partition.state.as_ref());
            let is_member = state.is_some_and(|state| state.node.isr.contains(&id));
            if leader == Some(id) || !is_member {
                context.doubts.remove(&(id, at.clone()));
            }
        }
    }

    /// Deletes what brokers said once nothing follows from it any more.
    pub(super) async fn withdraw_settled_doubts(&mut self) {
        let Some(active) = &self.active else { return };
        if active.doubted.is_empty() {
            return;
        }
        let context = &active.context;
        let is_open = |id: &BrokerId| {
            let unreadable = |at: &TopicPartition| {
                context.partition(at).is_some_and(|p| p.is_unreadable && p.replicas.contains(id))
            };
            context.doubts.keys().any(|(doubted, _)| doubted == id)
                || !active.unreadable.is_empty()
                || context.all_partitions().iter().any(unreadable)
        };
        let settled: Vec<(BrokerId, i32)> = active
            .doubted
            .iter()
            .filter(|(id, _)| !is_open(id))
            .map(|(&id, &incarnation)| (id, incarnation))
            .collect();
        for (id, incarnation) in settled {
            let ops = vec![
                Op::check(znodes::incarnation_path(id), incarnation),
                Op::delete(znodes::doubt_path(id)),
            ];
            let outcome = self.commit_one(ops).await;
            if let Some(active) = &mut self.active {
                active.doubted.remove(&id);
                active.patience.remove(&id);
                active.context.patient.remove(&id);
            }
            match outcome {
                Ok(_) => tracing::info!(broker = %id, "nobody counts any more on what it may lack"),
                // It has registered anew, and is heard again.
                Err(Stopped::Refused(StoreError::BadVersion(_) | StoreError::NoNode(_))) => {}
                Err(stopped) => return self.stop(stopped, "withdraw doubts").await,
            }
        }
    }
}

fn log_ends_of(partitions: BTreeMap<TopicName, Vec<i32>>) -> ListOffsetsRequest {
    let topics = partitions.into_iter().map(|(name, indexes)| {
        let asked = |partition_index| ListOffsetsPartition {
            partition_index,
            current_leader_epoch: -1,
            timestamp: LATEST,
            ..Default::default()
        };
        let partitions = indexes.into_iter().map(asked).collect();
        ListOffsetsTopic { name: (&*name).into(), partitions }
    });
    ListOffsetsRequest { replica_id: DEBUGGING, topics: topics.collect(), ..Default::default() }
}
