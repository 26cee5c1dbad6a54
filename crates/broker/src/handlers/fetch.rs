//! Fetch (key 1), v0 to v18: v3 size limit of the whole answer (KIP-74), v4 isolation and v2 batches
//! (KIP-98), v5 log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320), v10 zstd
//! (KIP-110), v11 rack (KIP-392), v12 flexible and divergence (KIP-595), v13 topic ids (KIP-516), v15
//! replica state (KIP-903), v16 leader hints (KIP-951), v17 directory ids (KIP-853), v18 the
//! follower's high watermark (KIP-1166).
//!
//! Reads what there is; if that is less than `min_bytes` and nothing went wrong, the request waits on
//! a [`Watcher`] until there is more or `max_wait` is over, and reads again. What has to come from the disk is
//! read by another thread ([`crate::cold_reads`]). A session looks only at
//! partitions that told its watcher of news, that the request names, or that it has not finished with.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::fetch_session::{
    AskedAs, Context, NO_SESSION, Session, SessionRequest, SessionState, Slot,
};
use crate::handlers::leader_hint::leader_hint;
use crate::listener::Listener;
use crate::partition::Replica;
use crate::partition::{Effects, Interest, Isolation, Partition, PartitionRead, Read, ReadFailure};
use crate::partition::{Wake, Watcher};
use crate::request::{Outcome, Parked, Request};
use bytestring::ByteString;
use model::{BrokerEpoch, BrokerId, Instant, Offset, Timestamp};
use platform::Network;
use protocol::messages::FetchRequest;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use protocol::records::RecordsError;
use protocol::records::convert::{DownConverted, down_convert, fetch_magic};
use protocol::records::validate::INFLATE_LIMIT;
use protocol::{ErrorCode, Records};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use storage::ReadPlan;

pub(crate) const API: Api = api!(FetchRequest, 0..=18, fetch);

const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// So much of control batches is passed over for one partition of an answer to an old consumer.
const PASSED_BYTES: usize = 16 << 20;

fn fetch(broker: &Arc<Broker>, request: Request<FetchRequest>) -> Outcome {
    let limits = Limits::of(broker, &request);
    if let Some(refusal) = refuse_isolation(broker, &request) {
        return request.respond(refusal);
    }
    let body = &request.body;
    let context = broker.fetch_sessions.begin(
        SessionRequest {
            id: body.session_id,
            epoch: body.session_epoch,
            uses_topic_ids: limits.version >= 13,
            is_follower: limits.replica.is_some(),
            topics: &body.topics,
            forgotten: &body.forgotten_topics_data,
        },
        broker.clock.now(),
        &*broker.random,
    );
    let scope = match context {
        Ok(Context::Sessionless) => {
            Scope::Sessionless { slots: slots(&body.topics), watcher: None }
        }
        Ok(Context::Full(session)) => {
            Scope::Session { session, epoch: body.session_epoch, is_full: true }
        }
        Ok(Context::Incremental(session)) => {
            Scope::Session { session, epoch: body.session_epoch, is_full: false }
        }
        Err(code) => {
            let error_code = code.code();
            return request.respond(FetchResponse { error_code, ..Default::default() });
        }
    };
    if let Scope::Session { session, .. } = &scope {
        session.state.lock().ask_as(AskedAs {
            isolation: limits.isolation,
            counts_bytes: limits.min_bytes > 1,
            registration: limits.replica.and_then(|(_, registration)| registration),
        });
        session.watcher.note_fetch(request.context.received_at);
    }
    let listener = Arc::clone(request.context.listener());
    let rack = (limits.replica.is_none() && broker.config.load().replication.rack_aware_reads)
        .then(|| body.rack_id.clone())
        .filter(|rack| !rack.is_empty());
    let deferred = Vec::new();
    let broker = Arc::clone(broker);
    let mut waiting = Waiting { broker, listener, limits, rack, scope, deferred };
    let may_wait = waiting.limits.max_wait > Duration::ZERO;
    match waiting.attempt(!may_wait, true) {
        Some(response) => {
            waiting.read_deferred();
            request.respond(response)
        }
        None => {
            Box::new(Parking { waiting, request: request.into_parked() }).park();
            Outcome::Parked
        }
    }
}

/// The partitions of a request without a session; of one that is named twice the last wish counts.
fn slots(topics: &[FetchTopic]) -> Vec<Slot> {
    let all = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| Slot::new(topic, partition)));
    let rises =
        |topic: &FetchTopic| topic.partitions.is_sorted_by(|a, b| a.partition < b.partition);
    if topics.len() == 1 && topics.iter().all(rises) {
        return all.collect();
    }
    let mut places = HashMap::new();
    let mut slots: Vec<Slot> = Vec::new();
    for slot in all {
        match places.entry((slot.topic.clone(), slot.topic_id, slot.index)) {
            Entry::Occupied(place) => slots[*place.get()] = slot,
            Entry::Vacant(place) => {
                place.insert(slots.len());
                slots.push(slot);
            }
        }
    }
    slots
}

/// An isolation level that does not exist is an error that Kafka did not expect, once it is about to
/// read: its answer then lists no partition that it could not read anyway.
fn refuse_isolation(broker: &Broker, request: &Request<FetchRequest>) -> Option<FetchResponse> {
    let body = &request.body;
    if [READ_UNCOMMITTED, READ_COMMITTED].contains(&body.isolation_level) {
        return None;
    }
    let version = request.context.api_version;
    let exists = |topic: &FetchTopic, partition: &FetchPartition| match version {
        13.. => broker.partitions.find_by_id(topic.topic_id, partition.partition).is_some(),
        _ => broker.partitions.find(&topic.topic, partition.partition).is_some(),
    };
    let is_read = |topic: &FetchTopic| topic.partitions.iter().any(|p| exists(topic, p));
    if !body.topics.iter().any(is_read) {
        return None;
    }
    let code = ErrorCode::UnknownServerError;
    let responses = slots(&body.topics).into_iter().filter(|_| version < 13);
    let mut response = FetchResponse {
        error_code: code.code(),
        session_id: body.session_id,
        ..Default::default()
    };
    responses.for_each(|slot| {
        let data = PartitionData { aborted_transactions: Some(Vec::new()), ..error(&slot, code) };
        push(&mut response.responses, &slot, data, version);
    });
    Some(response)
}

/// Adds a partition's answer to those of its topic.
fn push(topics: &mut Vec<FetchableTopicResponse>, slot: &Slot, data: PartitionData, version: i16) {
    let is_same = |last: &FetchableTopicResponse| match version {
        13.. => last.topic_id == slot.topic_id,
        _ => last.topic == slot.topic,
    };
    match topics.last_mut() {
        Some(last) if is_same(last) => last.partitions.push(data),
        _ => topics.push(FetchableTopicResponse {
            topic: slot.topic.clone(),
            topic_id: slot.topic_id,
            partitions: vec![data],
        }),
    }
}

/// What one fetch asks for, of all its partitions together.
#[derive(Clone, Copy, Debug)]
struct Limits {
    version: i16,
    isolation: Isolation,
    replica: Option<(BrokerId, Option<BrokerEpoch>)>,
    min_bytes: u64,
    max_bytes: usize,
    /// The whole answer's limit was below 0, which Kafka finds out when it reads.
    is_negative: bool,
    max_wait: Duration,
    deadline: Instant,
}

impl Limits {
    fn of(broker: &Broker, request: &Request<FetchRequest>) -> Self {
        let Request { body, context, .. } = request;
        let id = match context.api_version {
            15.. => body.replica_state.replica_id,
            _ => body.replica_id,
        };
        let epoch = Some(body.replica_state.replica_epoch).filter(|&epoch| epoch >= 0);
        let replica = (id >= 0).then_some((BrokerId(id), epoch.map(BrokerEpoch)));
        let isolation = match (replica, body.isolation_level) {
            (Some(_), _) => Isolation::LogEnd,
            (None, READ_COMMITTED) => Isolation::LastStableOffset,
            (None, _) => Isolation::HighWatermark,
        };
        let bytes = |bytes: i32| usize::try_from(bytes).unwrap_or_default();
        let max_bytes =
            bytes(body.max_bytes).min(bytes(broker.config.load().network.fetch_max_bytes));
        let max_wait = Duration::from_millis(u64::try_from(body.max_wait_ms).unwrap_or_default());
        Self {
            version: context.api_version,
            isolation,
            replica,
            min_bytes: bytes(body.min_bytes).min(max_bytes) as u64,
            max_bytes,
            is_negative: context.api_version >= 3 && body.max_bytes < 0,
            max_wait,
            deadline: context.received_at + max_wait,
        }
    }

    fn interest(&self, slot: &Slot) -> Interest {
        Interest {
            from: Offset(slot.offset),
            isolation: self.isolation,
            max_bytes: u64::try_from(slot.max_bytes).unwrap_or_default(),
            counts_bytes: self.min_bytes > 1,
            replica: self.replica.map(|(id, _)| id),
        }
    }
}

/// A fetch that may have to read more than once.
#[derive(Debug)]
struct Waiting {
    broker: Arc<Broker>,
    /// Where the client is: hints name addresses of the same listener.
    listener: Arc<Listener>,
    limits: Limits,
    /// The consumer's rack, if it is to read from a replica there.
    rack: Option<ByteString>,
    scope: Scope,
    /// What the last attempt left for later, because it has to come from the disk.
    deferred: Vec<ReadPlan>,
}

/// Which partitions a fetch is about.
#[derive(Debug)]
enum Scope {
    /// Those that the request names.
    Sessionless {
        slots: Vec<Slot>,
        /// Exists while the fetch waits.
        watcher: Option<Arc<Watcher>>,
    },
    /// Those of a session.
    Session {
        session: Arc<Session>,
        /// The epoch of the request.
        epoch: i32,
        /// Whether all are answered, or those that changed.
        is_full: bool,
    },
}

/// What one pass over the partitions brought.
struct Pass<'a> {
    broker: &'a Broker,
    listener: &'a Listener,
    limits: &'a Limits,
    rack: Option<&'a str>,
    now: Instant,
    wall: Timestamp,
    /// What the answer may still carry.
    remaining: usize,
    /// Whether the first batch found comes whole.
    min_one_message: bool,
    bytes: u64,
    /// Something that must be told at once.
    is_urgent: bool,
    /// How many partitions could be read, or failed at it.
    interesting: usize,
    /// Whether what has to come from the disk is left for later, and what that is.
    may_defer: bool,
    deferred: Vec<ReadPlan>,
    effects: Effects,
}

/// What a partition's read brought.
struct Answer {
    data: PartitionData,
    size: usize,
    /// There is more, which did not fit into this response.
    is_unfinished: bool,
    /// There may be more, which a throttle keeps back: nothing to wait for.
    is_held_back: bool,
}

impl Waiting {
    /// Reads; `None` if the fetch is to wait. Does not wait if it `is_final`, but for the disk: where all that there
    /// is has to come from there, and the attempt `may_defer` that.
    fn attempt(&mut self, is_final: bool, may_defer: bool) -> Option<FetchResponse> {
        let Self { broker, listener, limits, rack, scope, deferred } = self;
        let mut pass = Pass {
            broker,
            listener,
            limits,
            rack: rack.as_deref(),
            now: broker.clock.now(),
            wall: broker.clock.timestamp(),
            remaining: limits.max_bytes,
            // Up to version 2 the limits are hard, and a message that does not fit comes truncated.
            min_one_message: limits.version > 2,
            bytes: 0,
            is_urgent: false,
            interesting: 0,
            // A simulator has no other threads, and its disk does not wait.
            may_defer: may_defer && matches!(broker.network, Network::System),
            deferred: Vec::new(),
            effects: Effects::default(),
        };
        let response = match scope {
            Scope::Sessionless { slots, .. } => {
                let answers: Vec<_> = slots.iter_mut().map(|slot| pass.read(slot, None)).collect();
                pass.is_satisfied(is_final).then(|| {
                    let mut response = ResponseBuilder::new(&pass);
                    for (slot, answer) in slots.iter().zip(answers) {
                        response.add(slot, answer.data);
                    }
                    response.finish(NO_SESSION)
                })
            }
            Scope::Session { session, epoch, is_full: true } => {
                pass.read_whole_session(session, *epoch, is_final)
            }
            Scope::Session { session, epoch, is_full: false } => {
                pass.read_changes(session, *epoch, is_final)
            }
        };
        pass.effects.fire();
        *deferred = pass.deferred;
        response
    }

    /// Has what was left for later read, so that it is in memory when it is asked for again: what is at hand
    /// may always be enough for an answer, and the rest never get a turn.
    fn read_deferred(&mut self) {
        let plans = std::mem::take(&mut self.deferred);
        if !plans.is_empty() {
            self.broker.cold_reads.ask(Box::new(move || plans.into_iter().for_each(bring_in)));
        }
    }
}

/// Reads for the sake of reading. What fails will fail again when it is asked for, and is told then.
fn bring_in(plan: ReadPlan) {
    drop(plan.run());
}

impl Pass<'_> {
    fn is_satisfied(&self, is_final: bool) -> bool {
        if !self.deferred.is_empty() && self.bytes == 0 && !self.is_urgent {
            return false;
        }
        is_final || self.is_urgent || self.interesting == 0 || self.bytes >= self.limits.min_bytes
    }

    /// The first answer of a session: every partition, in the order of the request.
    fn read_whole_session(
        &mut self,
        session: &Arc<Session>,
        epoch: i32,
        is_final: bool,
    ) -> Option<FetchResponse> {
        let mut state = session.state.lock();
        let state = &mut *state;
        let mut told = Vec::new();
        session.watcher.take_ready(&mut told);
        let mut answers = Vec::with_capacity(state.len());
        let (mut ready, mut held_back) = (Vec::new(), Vec::new());
        for (number, slot) in (0..).zip(&mut state.slots) {
            let Some(slot) = slot else { continue };
            let answer = self.read(slot, Some((&session.watcher, number)));
            match (answer.is_held_back, answer.is_unfinished) {
                (true, _) => held_back.push(number),
                (false, true) => ready.push(number),
                (false, false) => {}
            }
            answers.push((number, answer));
        }
        if !self.is_satisfied(is_final) {
            recount(state, &ready, &session.watcher);
            return None;
        }
        ready.append(&mut held_back);
        let mut response = ResponseBuilder::new(self);
        for (number, answer) in answers {
            let Some(Some(slot)) = state.slots.get_mut(number as usize) else { continue };
            slot.is_ready = false;
            remember(slot, &answer.data);
            response.add(slot, answer.data);
        }
        state.ready.clear();
        ready.into_iter().for_each(|number| state.mark_ready(number));
        debug_assert_eq!(epoch, crate::fetch_session::INITIAL_EPOCH);
        Some(response.finish(session.id))
    }

    /// The later answers: partitions with records, errors, or a watermark or log start that moved.
    fn read_changes(
        &mut self,
        session: &Arc<Session>,
        epoch: i32,
        is_final: bool,
    ) -> Option<FetchResponse> {
        if !session.is_current(epoch) {
            // Another request has taken the session over meanwhile.
            let error_code = ErrorCode::InvalidFetchSessionEpoch.code();
            let session_id = session.id;
            return Some(FetchResponse { error_code, session_id, ..Default::default() });
        }
        let mut state = session.state.lock();
        let state = &mut *state;
        let mut told = Vec::new();
        session.watcher.take_ready(&mut told);
        told.into_iter().for_each(|number| state.mark_ready(number));
        let ready = std::mem::take(&mut state.ready);
        // Those that are not looked at have nothing to say; that makes them neither errors nor news.
        self.interesting += state.len() - ready.len();
        let mut answers = Vec::new();
        let mut unread = Vec::new();
        let (mut unserved, mut held_back) = (Vec::new(), Vec::new());
        let mut unfinished = Vec::new();
        for &number in &ready {
            let Some(Some(slot)) = state.slots.get_mut(number as usize) else { continue };
            if self.remaining == 0 && !self.min_one_message {
                self.interesting += 1;
                unread.push(number);
                continue;
            }
            let answer = self.read(slot, Some((&session.watcher, number)));
            match (answer.is_unfinished, answer.size) {
                (true, 0) if answer.is_held_back => held_back.push(number),
                (true, 0) => unserved.push(number),
                (true, _) => unfinished.push(number),
                (false, _) => {}
            }
            if is_news(slot, &answer) {
                answers.push((number, answer));
            }
        }
        if !self.is_satisfied(is_final) {
            recount(state, &unserved, &session.watcher);
            recount(state, &unfinished, &session.watcher);
            state.ready = ready;
            return None;
        }
        for &number in &ready {
            if let Some(Some(slot)) = state.slots.get_mut(number as usize) {
                slot.is_ready = false;
            }
        }
        // Whoever got nothing this time comes first next time: only the first batch of an answer comes
        // whatever its size.
        unread
            .into_iter()
            .chain(unserved)
            .chain(held_back)
            .chain(unfinished)
            .for_each(|number| state.mark_ready(number));
        let mut response = ResponseBuilder::new(self);
        for (number, answer) in answers {
            let Some(Some(slot)) = state.slots.get_mut(number as usize) else { continue };
            remember(slot, &answer.data);
            response.add(slot, answer.data);
        }
        Some(response.finish(session.id))
    }

    /// Reads one partition. With a watcher (and the slot's number in it) the partition knows from here
    /// on where the reader stands.
    fn read(&mut self, slot: &mut Slot, watcher: Option<(&Arc<Watcher>, u32)>) -> Answer {
        let partition = match self.find(slot) {
            Ok(partition) => partition,
            Err((code, is_interesting)) => {
                self.interesting += usize::from(is_interesting);
                self.is_urgent |= is_interesting;
                return self.failed(slot, code, watcher);
            }
        };
        self.interesting += 1;
        if let Some(nearer) = self.nearer(slot, &partition) {
            self.is_urgent = true;
            return nearer;
        }
        let max_bytes = usize::try_from(slot.max_bytes).unwrap_or_default().min(self.remaining);
        let mut asked = Read {
            offset: Offset(slot.offset),
            max_bytes,
            min_one_message: self.min_one_message,
            isolation: self.limits.isolation,
            leader_epoch: slot.leader_epoch,
            last_fetched_epoch: slot.last_fetched_epoch,
            replica: self.limits.replica.map(|(id, broker_epoch)| Replica {
                id,
                broker_epoch,
                log_start_offset: Offset(slot.log_start_offset),
            }),
            // Version 11 is how consumers say that they know of it.
            at_follower: self.limits.replica.is_none() && self.limits.version >= 11,
            may_defer: self.may_defer,
        };
        let interest = self.limits.interest(slot);
        let subscription = watcher.filter(|_| slot.is_subscribed).map(|(w, n)| (w, n, interest));
        let result = partition.read(self.now, self.wall, &asked, subscription, &mut self.effects);
        let mut read = match result {
            Ok(read) => read,
            Err(failure) => return self.unreadable(slot, &failure, watcher),
        };
        let is_deferred = read.deferred.is_some();
        self.deferred.extend(read.deferred.take());
        // Control batches are not for consumers of versions 0 to 3. They ask for the same offset again
        // until records come of it, so where all that was read are control batches it is read on. (Kafka
        // answers with a part of a message then, at once and every time.)
        let mut older = self.older((slot, max_bytes), &partition, &read);
        let mut passed = 0;
        while let Ok(Some(converted)) = &older
            && converted.records.is_empty()
            && converted.next_offset > asked.offset
            && passed < PASSED_BYTES
        {
            passed += read.size;
            asked.offset = converted.next_offset;
            asked.may_defer = false;
            slot.offset = asked.offset.0;
            let result = partition.read(self.now, self.wall, &asked, None, &mut self.effects);
            read = match result {
                Ok(read) => read,
                Err(failure) => return self.unreadable(slot, &failure, watcher),
            };
            older = self.older((slot, max_bytes), &partition, &read);
        }
        slot.is_held_back = read.is_held_back;
        if let Some((watcher, number)) = watcher
            && !slot.is_held_back
            && !std::mem::replace(&mut slot.is_subscribed, true)
        {
            partition.subscribe(watcher, number, interest);
        }
        self.is_urgent |= read.diverging_epoch.is_some();
        let is_behind = slot.offset < read.high_watermark.0;
        if is_behind && (slot.max_bytes < 0 || self.limits.is_negative) {
            self.is_urgent = true;
            return self.failed(slot, ErrorCode::UnknownServerError, watcher);
        }
        // From version 3 on the first batch of an answer is whole, and consumers fail on another one's
        // part (KIP-74): they get it whole in a later answer.
        let was_cut = read.first_batch_incomplete && self.limits.version > 2;
        if was_cut {
            (read.records, read.size) = (Records::default(), 0);
            older = older.map(|older| older.map(|_| DownConverted::default()));
        }
        if read.size > 0 {
            self.min_one_message = false;
        }
        self.remaining = self.remaining.saturating_sub(read.size);
        self.bytes += read.size as u64;
        let is_held_back = read.is_held_back;
        match older.and_then(|older| self.compatible(slot, &partition, read, older)) {
            Ok(answer) => Answer {
                is_unfinished: answer.is_unfinished || was_cut || is_held_back || is_deferred,
                is_held_back,
                ..answer
            },
            Err(code) => Answer::error(slot, code),
        }
    }

    /// Why a partition could not be read.
    fn unreadable(
        &mut self,
        slot: &mut Slot,
        failure: &ReadFailure,
        watcher: Option<(&Arc<Watcher>, u32)>,
    ) -> Answer {
        self.is_urgent = true;
        let code = error_codes::read_failure(failure);
        let answer = self.failed(slot, code, watcher);
        if code == ErrorCode::NotLeaderOrFollower {
            return self.gone(slot).unwrap_or(answer);
        }
        answer
    }

    /// Sends a consumer to a replica in its own rack, if that is not this one (KIP-392).
    fn nearer(&self, slot: &Slot, partition: &Partition) -> Option<Answer> {
        let rack = self.rack?;
        let image = self.broker.image.load();
        let is_near = |id| image.broker(id).is_some_and(|live| live.rack.as_deref() == Some(rack));
        let nearer = partition.nearer_replica(Offset(slot.offset), is_near)?;
        let data = PartitionData {
            partition_index: slot.index,
            high_watermark: nearer.high_watermark.0,
            last_stable_offset: nearer.last_stable_offset.0,
            log_start_offset: nearer.log_start_offset.0,
            preferred_read_replica: nearer.replica.0,
            aborted_transactions: None,
            records: Some(Records::default()),
            ..Default::default()
        };
        // It is told so every time, until it goes.
        Some(Answer { data, size: 0, is_unfinished: true, is_held_back: false })
    }

    /// The partition, or why there is none and whether that ends a wait: Kafka finds out about unknown
    /// topics before it reads, and does not hurry for them.
    fn find(&self, slot: &mut Slot) -> Result<Arc<Partition>, (ErrorCode, bool)> {
        if let Some(partition) = &slot.partition {
            return Ok(Arc::clone(partition));
        }
        let partitions = &self.broker.partitions;
        let by_id = self.limits.version >= 13;
        let found = match by_id {
            true => partitions.find_by_id(slot.topic_id, slot.index),
            false => partitions.find(&slot.topic, slot.index),
        };
        if let Some(partition) = found {
            if by_id && slot.topic.is_empty() {
                slot.topic = (&*partition.topic.name).into();
            }
            slot.partition = Some(Arc::clone(&partition));
            return Ok(partition);
        }
        let image = self.broker.image.load();
        let topic = match by_id {
            true => image.topic_by_id(slot.topic_id),
            false => image.topic(&slot.topic),
        };
        Err(match topic {
            Some(topic) if topic.partition(slot.index).is_some() => {
                (ErrorCode::NotLeaderOrFollower, true)
            }
            Some(_) => (ErrorCode::UnknownTopicOrPartition, false),
            None if !by_id => (ErrorCode::UnknownTopicOrPartition, false),
            None if slot.topic.is_empty() => (ErrorCode::UnknownTopicId, false),
            // The session knows the name: has the topic been made anew?
            None if image.topic(&slot.topic).is_some() => (ErrorCode::InconsistentTopicId, true),
            None => (ErrorCode::UnknownTopicOrPartition, false),
        })
    }

    /// What to say of a partition that a session kept and that is no longer there; `None` if another
    /// one has its place.
    fn gone(&self, slot: &mut Slot) -> Option<Answer> {
        let found = self.find(slot);
        slot.partition = None;
        found.err().map(|(code, _)| Answer::error(slot, code))
    }

    /// Forgets the partition, which may be another one next time.
    fn failed(
        &self,
        slot: &mut Slot,
        code: ErrorCode,
        watcher: Option<(&Arc<Watcher>, u32)>,
    ) -> Answer {
        if let Some((watcher, number)) = watcher {
            slot.unsubscribe(watcher, number);
        }
        slot.partition = None;
        // Version 6 is how consumers say that they know KAFKA_STORAGE_ERROR.
        let is_unknown = code == ErrorCode::KafkaStorageError && self.limits.version <= 5;
        let code = if is_unknown { ErrorCode::NotLeaderOrFollower } else { code };
        Answer::error(slot, code)
    }

    /// What was read in the form of versions 0 to 3, if that is the reader's; in at most `max_bytes`.
    fn older(
        &self,
        (slot, max_bytes): (&Slot, usize),
        partition: &Partition,
        read: &PartitionRead,
    ) -> Result<Option<DownConverted>, ErrorCode> {
        let version = self.limits.version;
        if version >= 4 {
            return Ok(None);
        }
        let settings = partition.topic.settings.load();
        if settings.checks.stores_zstd() {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        if self.limits.replica.is_none() && !settings.down_conversion {
            return Err(ErrorCode::UnsupportedVersion);
        }
        older(&read.records, (slot, max_bytes), version).map(Some)
    }

    /// Puts what was read, or what `older` form was made of it, into an answer.
    fn compatible(
        &self,
        slot: &Slot,
        partition: &Partition,
        read: PartitionRead,
        older: Option<DownConverted>,
    ) -> Result<Answer, ErrorCode> {
        let (mut records, mut size) = (read.records, read.size);
        if self.limits.version < 10 && partition.topic.settings.load().checks.stores_zstd() {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        if let Some(older) = older {
            (size, records) = (older.records.len(), older.records.into());
        }
        let aborted = read.aborted_transactions.map(|aborted| {
            aborted
                .into_iter()
                .map(|one| AbortedTransaction {
                    producer_id: one.producer_id.0,
                    first_offset: one.first_offset.0,
                })
                .collect()
        });
        let diverging_epoch = read.diverging_epoch.map_or_else(EpochEndOffset::default, |end| {
            EpochEndOffset { epoch: end.leader_epoch.0, end_offset: end.end_offset.0 }
        });
        let data = PartitionData {
            partition_index: slot.index,
            error_code: 0,
            high_watermark: read.high_watermark.0,
            last_stable_offset: read.last_stable_offset.0,
            log_start_offset: read.log_start_offset.0,
            diverging_epoch,
            aborted_transactions: aborted,
            records: Some(records),
            ..Default::default()
        };
        Ok(Answer { data, size, is_unfinished: size > 0, is_held_back: false })
    }
}

impl Answer {
    fn error(slot: &Slot, code: ErrorCode) -> Self {
        Self { data: error(slot, code), size: 0, is_unfinished: true, is_held_back: false }
    }
}

/// Converts what was read for consumers of versions 0 to 3.
fn older(
    records: &Records,
    (slot, max_bytes): (&Slot, usize),
    version: i16,
) -> Result<DownConverted, ErrorCode> {
    let bytes = records.to_bytes().map_err(|_| ErrorCode::KafkaStorageError)?;
    if bytes.is_empty() {
        return Ok(DownConverted::default());
    }
    down_convert(&bytes, fetch_magic(version), Offset(slot.offset), max_bytes, INFLATE_LIMIT)
        .map_err(|error| match error {
            RecordsError::Codec(_) => ErrorCode::UnsupportedCompressionType,
            RecordsError::Corrupt(_)
            | RecordsError::Invalid(_)
            | RecordsError::Unreadable(_)
            | RecordsError::TooLarge { .. } => ErrorCode::CorruptMessage,
        })
}

/// A partition's answer that says only what is wrong. Its records are empty, never null: librdkafka
/// and others cannot read null (KAFKA-18646). Kafka lists no aborted transactions if it did not come to
/// read, and says null if it did.
fn error(slot: &Slot, code: ErrorCode) -> PartitionData {
    let is_unread = [ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId].contains(&code);
    PartitionData {
        partition_index: slot.index,
        error_code: code.code(),
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        aborted_transactions: is_unread.then(Vec::new),
        records: Some(Records::default()),
        ..Default::default()
    }
}

/// Whether an incremental answer must have it.
fn is_news(slot: &Slot, answer: &Answer) -> bool {
    let data = &answer.data;
    answer.size > 0
        || data.error_code != 0
        || data.high_watermark != slot.told_high_watermark
        || data.log_start_offset != slot.told_log_start
        || data.diverging_epoch != EpochEndOffset::default()
        || data.preferred_read_replica >= 0
}

/// Notes what the reader now knows. After an error it is told everything again.
fn remember(slot: &mut Slot, data: &PartitionData) {
    let diverged = data.diverging_epoch != EpochEndOffset::default();
    slot.told_high_watermark =
        if data.error_code != 0 || diverged { -1 } else { data.high_watermark };
    slot.told_log_start = data.log_start_offset;
}

/// Lets the partitions tell the watcher again of what it has forgotten when the pass began.
fn recount(state: &SessionState, numbers: &[u32], watcher: &Arc<Watcher>) {
    for &number in numbers {
        if let Some(Some(slot)) = state.slots.get(number as usize)
            && let Some(partition) = &slot.partition
        {
            partition.recount(watcher, number);
        }
    }
}

/// How often a fetch that was told of enough, and could not read it, looks again before it is answered with
/// what there is.
const MAX_LOOKS: usize = 8;

/// A fetch on its way to wait.
#[derive(Debug)]
struct Parking {
    waiting: Waiting,
    request: Parked<FetchRequest>,
}

impl Parking {
    /// Waits, or has the disk read; looks again at once if there is enough by now.
    fn park(mut self: Box<Self>) {
        for _ in 0..MAX_LOOKS {
            if !self.waiting.deferred.is_empty() {
                return self.read_cold();
            }
            let watcher = self.subscribe();
            let broker = Arc::clone(&self.waiting.broker);
            let limits = self.waiting.limits;
            match watcher.wait(limits.min_bytes.max(1), self) {
                Ok(wait) => {
                    let watcher = Arc::downgrade(&watcher);
                    broker.timers.schedule(limits.deadline, move || {
                        if let Some(watcher) = watcher.upgrade()
                            && let Some(wake) = watcher.end_wait(wait)
                        {
                            wake.wake();
                        }
                    });
                    return;
                }
                Err(parking) => self = parking,
            }
            if let Some(response) = self.look(false, true) {
                return self.answer(response);
            }
        }
        // What was announced cannot be read: the reader comes again, and others get their turn.
        match self.look(true, true) {
            Some(response) => self.answer(response),
            None => self.read_cold(),
        }
    }

    fn answer(mut self: Box<Self>, response: FetchResponse) {
        self.waiting.read_deferred();
        self.request.respond(response);
    }

    /// Goes on once what has to come from the disk is there, on the thread that read it.
    fn read_cold(mut self: Box<Self>) {
        let cold_reads = self.waiting.broker.cold_reads.clone();
        let plans = std::mem::take(&mut self.waiting.deferred);
        cold_reads.ask(Box::new(move || {
            // Before anything is locked.
            plans.into_iter().for_each(bring_in);
            match self.look(false, false) {
                Some(response) => self.answer(response),
                None => self.park(),
            }
        }));
    }

    /// Makes sure that all its partitions tell the watcher of their news.
    fn subscribe(&mut self) -> Arc<Watcher> {
        let limits = self.waiting.limits;
        match &mut self.waiting.scope {
            Scope::Session { session, .. } => Arc::clone(&session.watcher),
            Scope::Sessionless { slots, watcher } => {
                let watcher = watcher.insert(Arc::default());
                for (number, slot) in (0..).zip(slots) {
                    // What a throttle keeps back is there, and no reason to look again.
                    if let Some(partition) = &slot.partition
                        && !slot.is_held_back
                    {
                        partition.subscribe(watcher, number, limits.interest(slot));
                        slot.is_subscribed = true;
                    }
                }
                Arc::clone(watcher)
            }
        }
    }

    /// The answer, if there is enough or, `at_last`, whatever there is; see [`Waiting::attempt`].
    fn look(&mut self, at_last: bool, may_defer: bool) -> Option<FetchResponse> {
        if let Scope::Sessionless { slots, watcher } = &mut self.waiting.scope
            && let Some(watcher) = watcher.take()
        {
            for (number, slot) in (0..).zip(slots) {
                slot.unsubscribe(&watcher, number);
            }
        }
        let is_over = self.waiting.broker.clock.now() >= self.waiting.limits.deadline;
        self.waiting.attempt(at_last || is_over, may_defer)
    }
}

impl Wake for Parking {
    fn wake(mut self: Box<Self>) {
        match self.look(false, true) {
            Some(response) => self.answer(response),
            None => self.park(),
        }
    }
}

/// Puts an answer together.
struct ResponseBuilder<'a> {
    broker: &'a Broker,
    listener: &'a Listener,
    version: i16,
    is_follower: bool,
    response: FetchResponse,
}

impl<'a> ResponseBuilder<'a> {
    fn new(pass: &Pass<'a>) -> Self {
        Self {
            broker: pass.broker,
            listener: pass.listener,
            version: pass.limits.version,
            is_follower: pass.limits.replica.is_some(),
            response: FetchResponse::default(),
        }
    }

    fn add(&mut self, slot: &Slot, mut data: PartitionData) {
        if self.version >= 16
            && [ErrorCode::NotLeaderOrFollower.code(), ErrorCode::FencedLeaderEpoch.code()]
                .contains(&data.error_code)
        {
            self.hint(slot, &mut data);
        }
        push(&mut self.response.responses, slot, data, self.version);
    }

    fn hint(&mut self, slot: &Slot, data: &mut PartitionData) {
        let image = self.broker.image.load();
        let Some(topic) = image.topic_by_id(slot.topic_id) else { return };
        let hint = leader_hint(self.broker, &self.listener.name, topic.name(), slot.index);
        data.current_leader =
            LeaderIdAndEpoch { leader_id: hint.leader_id, leader_epoch: hint.leader_epoch };
        // Kafka 4 gives followers no addresses: they have them from their controller.
        if let Some(node) = hint.node
            && !(self.version >= 18 && self.is_follower)
            && !self.response.node_endpoints.iter().any(|known| known.node_id == node.id)
        {
            self.response.node_endpoints.push(NodeEndpoint {
                node_id: node.id,
                host: node.host.into(),
                port: node.port,
                rack: node.rack.map(Into::into),
            });
        }
    }

    fn finish(mut self, session_id: i32) -> FetchResponse {
        self.response.session_id = session_id;
        self.response
    }
}
