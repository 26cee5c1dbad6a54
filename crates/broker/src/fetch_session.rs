//! Incremental fetch sessions (KIP-227): what a reader asked for before, so that it need not repeat it.
//!
//! A session is found by its id in one of eight caches, each with an eighth of
//! `max.incremental.fetch.session.cache.slots`. A full cache makes room as Kafka's does: a session
//! unused for two minutes goes first; else one that is worth less than the new one, where followers
//! are worth more than consumers, and more partitions more than fewer.

use crate::partition::{Isolation, Partition, Watcher};
use bytestring::ByteString;
use model::{BrokerEpoch, Bug, Instant, LeaderEpoch, TopicId};
use parking_lot::Mutex;
use platform::Random;
use protocol::ErrorCode;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

const SHARDS: usize = 8;
const SHARD_RANGE: i32 = i32::MAX / 8;

/// Kafka's `MinIncrementalFetchSessionEvictionMs`.
const EVICTION_AGE: Duration = Duration::from_secs(120);

/// A session that does not exist.
pub(crate) const NO_SESSION: i32 = 0;
/// The epoch of a request that asks for a new session.
pub(crate) const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants no session.
pub(crate) const FINAL_EPOCH: i32 = -1;

/// All sessions.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    shards: Vec<Mutex<BTreeMap<i32, Entry>>>,
    slots_per_shard: usize,
}

#[derive(Debug)]
struct Entry {
    session: Arc<Session>,
    created_at: Instant,
    last_used_at: Instant,
    /// As of its last use.
    size: usize,
}

/// One reader's session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its number; not 0.
    pub(crate) id: i32,
    is_privileged: bool,
    uses_topic_ids: bool,
    /// What its partitions tell.
    pub(crate) watcher: Arc<Watcher>,
    /// What it asked for.
    pub(crate) state: Mutex<SessionState>,
}

/// What a session asked for.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// The epoch that the next request must have.
    epoch: i32,
    /// The partitions; `None` where one was forgotten.
    pub(crate) slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// As whom the session last asked.
    asked_as: Option<AskedAs>,
    /// Slots to look at in the next answer, each once: see [`Slot::is_ready`].
    pub(crate) ready: Vec<u32>,
}

/// What a request says for all partitions of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedAs {
    /// Up to where it reads.
    pub(crate) isolation: Isolation,
    /// Whether it waits for more than a byte.
    pub(crate) counts_bytes: bool,
    /// The follower's registration (KIP-903). A broker whose session on the store expired goes on with its
    /// fetch sessions, under another.
    pub(crate) registration: Option<BrokerEpoch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Name(ByteString, i32),
    Id(TopicId, i32),
}

/// One partition that a fetch or a session asks for.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The topic, up to version 12; from 13 on its name as last resolved.
    pub(crate) topic: ByteString,
    /// The topic, from version 13 on.
    pub(crate) topic_id: TopicId,
    /// The partition.
    pub(crate) index: i32,
    /// The next offset wanted.
    pub(crate) offset: i64,
    /// What an answer may carry.
    pub(crate) max_bytes: i32,
    /// The leader epoch that the reader knows.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// The epoch of the last record that the reader has.
    pub(crate) last_fetched_epoch: Option<LeaderEpoch>,
    /// Where a follower's log starts; -1 from consumers.
    pub(crate) log_start_offset: i64,
    /// The partition, once found.
    pub(crate) partition: Option<Arc<Partition>>,
    /// Whether the partition knows the session's watcher.
    pub(crate) is_subscribed: bool,
    /// Whether it is in the session's list.
    pub(crate) is_ready: bool,
    /// Whether a throttle kept back what there was when it was last read.
    pub(crate) is_held_back: bool,
    /// The high watermark of the last answer; -1 if it is to be told again.
    pub(crate) told_high_watermark: i64,
    /// The log start of the last answer; -1 if it is to be told again.
    pub(crate) told_log_start: i64,
}

impl Slot {
    /// What a request asks for.
    pub(crate) fn new(topic: &FetchTopic, partition: &FetchPartition) -> Self {
        let mut slot = Self {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            index: partition.partition,
            offset: 0,
            max_bytes: 0,
            leader_epoch: None,
            last_fetched_epoch: None,
            log_start_offset: -1,
            partition: None,
            is_subscribed: false,
            is_ready: false,
            is_held_back: false,
            told_high_watermark: -1,
            told_log_start: -1,
        };
        slot.update(partition);
        slot
    }

    fn update(&mut self, partition: &FetchPartition) {
        let epoch = |epoch| (epoch >= 0).then_some(LeaderEpoch(epoch));
        self.offset = partition.fetch_offset;
        self.max_bytes = partition.partition_max_bytes;
        self.leader_epoch =
            epoch(partition.current_leader_epoch).filter(|_| !Bug::Kafka9338.is_planted());
        self.last_fetched_epoch = epoch(partition.last_fetched_epoch);
        self.log_start_offset = partition.log_start_offset;
    }

    /// Takes the watcher's interest back from the partition.
    pub(crate) fn unsubscribe(&mut self, watcher: &Arc<Watcher>, slot: u32) {
        if std::mem::take(&mut self.is_subscribed)
            && let Some(partition) = &self.partition
        {
            partition.unsubscribe(watcher, slot);
        }
    }
}

impl SessionState {
    /// How many partitions it has.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Puts a slot on the list of those to look at.
    pub(crate) fn mark_ready(&mut self, number: u32) {
        if let Some(Some(slot)) = self.slots.get_mut(number as usize)
            && !std::mem::replace(&mut slot.is_ready, true)
        {
            self.ready.push(number);
        }
    }

    /// Looks at all partitions if a request asks otherwise than the one before it: they must count in
    /// another way, or their leaders hear of the follower's new registration, which speaks for
    /// partitions that it does not name, too.
    pub(crate) fn ask_as(&mut self, asks: AskedAs) {
        let before = self.asked_as.replace(asks);
        if before.is_some_and(|before| before != asks) {
            let all = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            (0..all).for_each(|number| self.mark_ready(number));
        }
    }

    /// Adds and changes what the request names; returns their slots in order.
    fn add(&mut self, topics: &[FetchTopic], uses_topic_ids: bool) -> Vec<u32> {
        let mut named = Vec::new();
        for topic in topics {
            for partition in &topic.partitions {
                let key =
                    Key::of(uses_topic_ids, &topic.topic, topic.topic_id, partition.partition);
                let number = match self.by_key.get(&key) {
                    Some(&number) => {
                        if let Some(Some(slot)) = self.slots.get_mut(number as usize) {
                            slot.update(partition);
                        }
                        number
                    }
                    None => {
                        let slot = Some(Slot::new(topic, partition));
                        let number = match self.free.pop() {
                            Some(number) => {
                                self.slots[number as usize] = slot;
                                number
                            }
                            None => {
                                self.slots.push(slot);
                                u32::try_from(self.slots.len() - 1)
                                    .expect("a request names fewer than 2^32 partitions")
                            }
                        };
                        self.by_key.insert(key, number);
                        number
                    }
                };
                self.mark_ready(number);
                named.push(number);
            }
        }
        named
    }

    fn forget(&mut self, topics: &[ForgottenTopic], uses_topic_ids: bool, watcher: &Arc<Watcher>) {
        for topic in topics {
            for &index in &topic.partitions {
                let key = Key::of(uses_topic_ids, &topic.topic, topic.topic_id, index);
                let Some(number) = self.by_key.remove(&key) else { continue };
                if let Some(mut slot) = self.slots[number as usize].take() {
                    slot.unsubscribe(watcher, number);
                    if slot.is_ready {
                        self.ready.retain(|&ready| ready != number);
                    }
                }
                self.free.push(number);
            }
        }
    }

    fn unsubscribe_all(&mut self, watcher: &Arc<Watcher>) {
        for (number, slot) in (0..).zip(&mut self.slots) {
            if let Some(slot) = slot {
                slot.unsubscribe(watcher, number);
            }
        }
    }
}

impl Key {
    fn of(uses_topic_ids: bool, topic: &ByteString, id: TopicId, index: i32) -> Self {
        if uses_topic_ids { Self::Id(id, index) } else { Self::Name(topic.clone(), index) }
    }
}

/// What a request's session fields come to.
#[derive(Debug)]
pub(crate) enum Context {
    /// No session, now or later.
    Sessionless,
    /// A new session; all partitions are answered.
    Full(Arc<Session>),
    /// A session that goes on; what changed is answered.
    Incremental(Arc<Session>),
}

/// The session part of a Fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRequest<'a> {
    /// `SessionId`.
    pub(crate) id: i32,
    /// `SessionEpoch`.
    pub(crate) epoch: i32,
    /// Whether the request names topics by id (version 13).
    pub(crate) uses_topic_ids: bool,
    /// Whether a follower asks.
    pub(crate) is_follower: bool,
    /// `Topics`.
    pub(crate) topics: &'a [FetchTopic],
    /// `ForgottenTopicsData`.
    pub(crate) forgotten: &'a [ForgottenTopic],
}

impl FetchSessions {
    /// A cache of `slots` sessions in all.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            slots_per_shard: slots / SHARDS,
        }
    }

    /// Finds, makes, or ends the session that a request speaks of, and updates it.
    ///
    /// # Errors
    /// The code to answer the whole request with.
    pub(crate) fn begin(
        &self,
        request: SessionRequest<'_>,
        now: Instant,
        random: &dyn Random,
    ) -> Result<Context, ErrorCode> {
        if matches!(request.epoch, INITIAL_EPOCH | FINAL_EPOCH) {
            if request.id != NO_SESSION {
                self.close(request.id);
            }
            if request.epoch == FINAL_EPOCH {
                return Ok(Context::Sessionless);
            }
            return Ok(self
                .create(&request, now, random)
                .map_or(Context::Sessionless, Context::Full));
        }
        let session = {
            let mut shard = self.shard(request.id).lock();
            let entry = shard.get_mut(&request.id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
            Arc::clone(&entry.session)
        };
        let mut state = session.state.lock();
        if state.epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        state.add(request.topics, request.uses_topic_ids);
        state.forget(request.forgotten, request.uses_topic_ids, &session.watcher);
        if state.len() == 0 {
            drop(state);
            self.close(session.id);
            return Ok(Context::Sessionless);
        }
        state.epoch = next_epoch(state.epoch);
        let size = state.len();
        drop(state);
        if let Some(entry) = self.shard(session.id).lock().get_mut(&session.id) {
            entry.last_used_at = entry.last_used_at.max(now);
            entry.size = size;
        }
        Ok(Context::Incremental(session))
    }

    fn create(
        &self,
        request: &SessionRequest<'_>,
        now: Instant,
        random: &dyn Random,
    ) -> Option<Arc<Session>> {
        let number = usize::try_from(random.below(SHARDS as u64)).unwrap_or_default();
        let size = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let mut evicted = None;
        let session = {
            let mut shard = self.shards[number].lock();
            if shard.len() >= self.slots_per_shard {
                let victim = victim(&shard, now, request.is_follower, size)?;
                evicted = shard.remove(&victim);
            }
            let lowest = i64::from(SHARD_RANGE) * i64::try_from(number).unwrap_or_default();
            let id = loop {
                let below = random.below(SHARD_RANGE.unsigned_abs().into());
                let id = i32::try_from(lowest + i64::try_from(below).unwrap_or_default()).ok()?;
                if id != NO_SESSION && !shard.contains_key(&id) {
                    break id;
                }
            };
            let session = Arc::new(Session {
                id,
                is_privileged: request.is_follower,
                uses_topic_ids: request.uses_topic_ids,
                watcher: Arc::default(),
                state: Mutex::new(SessionState {
                    epoch: next_epoch(INITIAL_EPOCH),
                    ..SessionState::default()
                }),
            });
            session.state.lock().add(request.topics, request.uses_topic_ids);
            let (created_at, last_used_at) = (now, now);
            let entry = Entry { session: Arc::clone(&session), created_at, last_used_at, size };
            shard.insert(id, entry);
            session
        };
        if let Some(evicted) = evicted {
            evicted.session.end();
        }
        Some(session)
    }

    /// Ends a session if it exists.
    pub(crate) fn close(&self, id: i32) {
        let entry = self.shard(id).lock().remove(&id);
        if let Some(entry) = entry {
            entry.session.end();
        }
    }

    /// Forgets all sessions and whoever waits in them; nobody is answered.
    pub(crate) fn abandon(&self) {
        for shard in &self.shards {
            let sessions = std::mem::take(&mut *shard.lock());
            for entry in sessions.into_values() {
                drop(entry.session.watcher.end_any_wait());
            }
        }
    }

    fn shard(&self, id: i32) -> &Mutex<BTreeMap<i32, Entry>> {
        let number = usize::try_from(id / SHARD_RANGE).unwrap_or_default();
        &self.shards[number.min(SHARDS - 1)]
    }
}

impl Session {
    /// Lets go of the partitions and answers a fetch that waits.
    fn end(&self) {
        self.state.lock().unsubscribe_all(&self.watcher);
        if let Some(wake) = self.watcher.end_any_wait() {
            wake.wake();
        }
    }

    /// Whether a request of this epoch has not been followed by another yet.
    pub(crate) fn is_current(&self, request_epoch: i32) -> bool {
        self.state.lock().epoch == next_epoch(request_epoch)
    }
}

/// From `i32::MAX` it wraps to 1: 0 asks for a new session.
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

/// Which session must go for a new one, if one must.
fn victim(
    shard: &BTreeMap<i32, Entry>,
    now: Instant,
    is_privileged: bool,
    size: usize,
) -> Option<i32> {
    let (id, oldest) = shard.iter().min_by_key(|(id, entry)| (entry.last_used_at, **id))?;
    if now.since(oldest.last_used_at) > EVICTION_AGE {
        return Some(*id);
    }
    let may_go = |entry: &Entry| {
        now.since(entry.created_at) > EVICTION_AGE || is_privileged && !entry.session.is_privileged
    };
    let worth = |id: i32, entry: &Entry| (entry.session.is_privileged, entry.size, id);
    let cheapest = shard
        .iter()
        .filter(|(_, entry)| may_go(entry))
        .map(|(id, entry)| worth(*id, entry))
        .min()?;
    ((is_privileged, size, NO_SESSION) >= cheapest).then_some(cheapest.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::random::SeededRandom;

    fn topics(partitions: i32) -> Vec<FetchTopic> {
        let partition = |partition| FetchPartition { partition, ..Default::default() };
        let partitions = (0..partitions).map(partition).collect();
        vec![FetchTopic { topic: "t".into(), partitions, ..Default::default() }]
    }

    struct Scenario {
        sessions: FetchSessions,
        random: SeededRandom,
        now: Instant,
    }

    impl Scenario {
        /// One slot in each of the eight caches.
        fn new() -> Self {
            let random = SeededRandom::new(1);
            Self { sessions: FetchSessions::new(8), random, now: Instant::default() }
        }

        fn begin(&self, id: i32, epoch: i32, topics: &[FetchTopic]) -> Result<Context, ErrorCode> {
            self.begin_as(id, epoch, topics, false)
        }

        fn begin_as(
            &self,
            id: i32,
            epoch: i32,
            topics: &[FetchTopic],
            is_follower: bool,
        ) -> Result<Context, ErrorCode> {
            let forgotten = &[];
            let uses_topic_ids = false;
            let request =
                SessionRequest { id, epoch, uses_topic_ids, is_follower, topics, forgotten };
            self.sessions.begin(request, self.now, &self.random)
        }

        fn fill(&self, partitions: i32) -> usize {
            (0..200)
                .filter(|_| {
                    matches!(
                        self.begin(0, INITIAL_EPOCH, &topics(partitions)),
                        Ok(Context::Full(_))
                    )
                })
                .count()
        }
    }

    fn full(context: Result<Context, ErrorCode>) -> Arc<Session> {
        match context {
            Ok(Context::Full(session)) => session,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn epochs_count_from_one_and_a_wrong_one_is_refused() {
        let s = Scenario::new();
        let session = full(s.begin(0, 0, &topics(2)));
        assert!(session.id > 0);
        assert!(matches!(s.begin(session.id, 1, &[]), Ok(Context::Incremental(_))));
        assert_eq!(
            s.begin(session.id, 1, &[]).unwrap_err(),
            ErrorCode::InvalidFetchSessionEpoch,
            "used already"
        );
        assert!(matches!(s.begin(session.id, 2, &[]), Ok(Context::Incremental(_))));
        assert_eq!(s.begin(12345, 1, &[]).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
        assert_eq!(next_epoch(i32::MAX), 1);
    }

    #[test]
    fn a_final_epoch_ends_the_session() {
        let s = Scenario::new();
        let session = full(s.begin(0, 0, &topics(1)));
        assert!(matches!(s.begin(session.id, FINAL_EPOCH, &topics(1)), Ok(Context::Sessionless)));
        assert_eq!(s.begin(session.id, 1, &[]).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    }

    #[test]
    fn a_session_that_forgets_its_last_partition_ends() {
        let s = Scenario::new();
        let session = full(s.begin(0, 0, &topics(1)));
        let forgotten =
            [ForgottenTopic { topic: "t".into(), partitions: vec![0], ..Default::default() }];
        let request = SessionRequest {
            id: session.id,
            epoch: 1,
            uses_topic_ids: false,
            is_follower: false,
            topics: &[],
            forgotten: &forgotten,
        };
        let context = s.sessions.begin(request, s.now, &s.random);
        assert!(matches!(context, Ok(Context::Sessionless)));
        assert_eq!(s.begin(session.id, 2, &[]).unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    }

    #[test]
    fn a_session_keeps_to_names_or_to_ids() {
        let s = Scenario::new();
        let session = full(s.begin(0, 0, &topics(1)));
        let request = SessionRequest {
            id: session.id,
            epoch: 1,
            uses_topic_ids: true,
            is_follower: false,
            topics: &[],
            forgotten: &[],
        };
        let error = s.sessions.begin(request, s.now, &s.random).unwrap_err();
        assert_eq!(error, ErrorCode::FetchSessionTopicIdError);
    }

    #[test]
    fn a_full_cache_gives_no_session_to_one_worth_no_more() {
        let s = Scenario::new();
        assert_eq!(s.fill(3), 8);
        assert!(matches!(s.begin(0, 0, &topics(100)), Ok(Context::Sessionless)), "all are new");
    }

    #[test]
    fn old_sessions_go_for_larger_new_ones_and_unused_ones_for_any() {
        let mut s = Scenario::new();
        let sessions: Vec<_> = (0..200)
            .filter_map(|_| match s.begin(0, 0, &topics(3)) {
                Ok(Context::Full(session)) => Some(session.id),
                _ => None,
            })
            .collect();
        assert_eq!(sessions.len(), 8);
        s.now = Instant(Duration::from_secs(100));
        for &id in &sessions {
            s.begin(id, 1, &[]).expect("still there");
        }
        s.now = Instant(Duration::from_secs(150));
        assert_eq!(s.fill(3), 0, "used 50 seconds ago, and as large");
        assert!(s.fill(4) > 0, "old enough, and smaller");
        s.now = Instant(Duration::from_secs(500));
        assert!(s.fill(1) > 0, "unused for too long");
    }

    #[test]
    fn followers_push_out_consumers_whatever_their_age() {
        let s = Scenario::new();
        assert_eq!(s.fill(100), 8);
        assert!(matches!(s.begin_as(0, 0, &topics(1), true), Ok(Context::Full(_))));
    }
}
