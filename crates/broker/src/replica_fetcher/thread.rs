//! The loop of one fetcher: take messages, ask, append what was answered.

use super::backoff;
use super::fetchers::FetcherSettings;
use super::followed::{FollowedPartitions, Slot};
use super::link::{ConnectionSettings, ExchangeFailure, Link, Urgency, Waiting, exchange};
use super::mending::{Damaged, DamagedPartitions, PIECES};
use super::session::FetchSession;
use super::socket_link::SocketLink;
use crate::partition::{Fetched, FollowFailure, FollowerPosition, MendingWish, Partition};
use bytes::Bytes;
use bytestring::ByteString;
use model::{BrokerId, Bug, Instant, LeaderEpoch, Offset, TopicName};
use parking_lot::Mutex;
use protocol::messages::fetch_request::ReplicaState;
use protocol::messages::fetch_response::{EpochEndOffset, PartitionData};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{FetchRequest, ListOffsetsRequest};
use protocol::{ErrorCode, Request};
use replication::truncation::EpochEnd;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

/// Kafka 3.9's versions between brokers; peers are not asked what they serve.
const FETCH_BY_ID: i16 = 17;
const FETCH_BY_NAME: i16 = 12;
const LIST_OFFSETS: i16 = 9;

/// Wire values of ListOffsets.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// A partition that came while a fetch was under way waits so long for its answer before that is given
/// up.
const GRACE: Duration = Duration::from_millis(10);

/// How often it is looked whether what a throttle holds back may go on.
const THROTTLE_INTERVAL: Duration = Duration::from_millis(100);

/// Pause after the first failed connection; it doubles up to `replica.fetch.backoff.ms`.
const FIRST_RECONNECT: Duration = Duration::from_millis(10);

/// What a fetcher is told.
#[derive(Debug)]
pub(super) enum Message {
    /// Follow this partition, in this epoch.
    Follow(Arc<Partition>, LeaderEpoch),
    /// Follow it no more.
    Leave(Arc<Partition>),
    /// Its log is damaged.
    Mend(TopicName, i32),
}

/// Where messages to one fetcher are left.
#[derive(Debug)]
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    bell: Bell,
    /// Whether the fetcher has a connection.
    connected: AtomicBool,
}

/// Ends the wait of a fetcher.
#[derive(Debug)]
pub(super) enum Bell {
    /// Of a thread that waits for a socket.
    Thread(mio::Waker),
    /// Of a task.
    Task(Arc<Notify>),
}

#[derive(Debug, Default)]
struct Mail {
    messages: Vec<Message>,
    has_additions: bool,
    stopping: bool,
}

impl Mailbox {
    /// An empty mailbox.
    pub(super) fn new(bell: Bell) -> Self {
        Self { mail: Mutex::default(), bell, connected: AtomicBool::new(false) }
    }

    pub(super) fn send(&self, message: Message) {
        {
            let mut mail = self.mail.lock();
            mail.has_additions |= matches!(message, Message::Follow(..));
            mail.messages.push(message);
        }
        self.wake();
    }

    /// Ends the fetcher after what it is appending.
    pub(super) fn stop(&self) {
        self.mail.lock().stopping = true;
        self.wake();
    }

    /// Whether the fetcher has a connection to its leader.
    pub(super) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    fn wake(&self) {
        match &self.bell {
            Bell::Thread(waker) => {
                if let Err(error) = waker.wake() {
                    warn!(%error, "a replica fetcher cannot be woken; it looks for itself within its wait");
                }
            }
            Bell::Task(news) => news.notify_one(),
        }
    }

    fn has_mail(&self) -> bool {
        let mail = self.mail.lock();
        mail.stopping || !mail.messages.is_empty()
    }
}

/// One fetcher.
pub(super) struct Fetcher<L> {
    settings: Arc<FetcherSettings>,
    leader: BrokerId,
    client_id: ByteString,
    mailbox: Arc<Mailbox>,
    link: L,
    is_connected: bool,
    correlation_id: i32,
    followed: FollowedPartitions,
    damaged: DamagedPartitions,
    session: FetchSession,
    /// Where logs stand that are to be flushed before their leader hears of it.
    unflushed: Vec<Unflushed>,
    /// Connections that failed in a row.
    failures: u32,
    /// Whether a fetch was answered since one was last given up: a leader that is slow must not be given
    /// up for ever while partitions keep coming.
    may_give_up: bool,
}

impl Fetcher<SocketLink> {
    /// Fetches until the mailbox says stop; the thread's main function.
    pub(super) fn run_on_thread(self) {
        let mut running = pin!(self.run());
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => {}
            Poll::Pending => {
                unreachable!("by socket a fetcher blocks its thread instead of waiting")
            }
        }
    }
}

impl<L: Link> Fetcher<L> {
    pub(super) fn new(
        settings: Arc<FetcherSettings>,
        leader: BrokerId,
        index: usize,
        mailbox: Arc<Mailbox>,
        link: L,
    ) -> Self {
        let client_id = format!("broker-{}-fetcher-{index}", settings.broker_id.0).into();
        Self {
            settings,
            leader,
            client_id,
            mailbox,
            link,
            is_connected: false,
            correlation_id: 0,
            followed: FollowedPartitions::default(),
            damaged: DamagedPartitions::default(),
            session: FetchSession::default(),
            unflushed: Vec::new(),
            failures: 0,
            may_give_up: true,
        }
    }

    /// Fetches until the mailbox says stop.
    pub(super) async fn run(mut self) {
        loop {
            let (messages, stopping) = {
                let mut mail = self.mailbox.mail.lock();
                mail.has_additions = false;
                (std::mem::take(&mut mail.messages), mail.stopping)
            };
            if stopping {
                return;
            }
            for message in messages {
                match message {
                    Message::Follow(partition, epoch) => {
                        self.followed.add(&partition, epoch);
                        self.damaged.remove(&partition);
                        if partition.is_damaged() {
                            self.damaged.add(&partition, epoch, self.now());
                        }
                    }
                    Message::Leave(partition) => {
                        self.followed.remove(&partition);
                        self.damaged.remove(&partition);
                    }
                    Message::Mend(topic, index) => {
                        if let Some(followed) = self.followed.named(&topic, index) {
                            self.damaged.add(&followed.partition, followed.epoch, self.now());
                        }
                    }
                }
            }
            self.followed.end_pauses(self.now());
            self.throttle();
            for slot in self.followed.take_unread() {
                self.read_position(slot);
            }
            self.flush();
            if !self.followed.has_wishes() && !self.damaged.is_due(self.now()) {
                if self.followed.is_empty() {
                    self.disconnect();
                }
                let look = self.followed.has_held_back().then(|| self.now() + THROTTLE_INTERVAL);
                let due = [self.followed.next_due(), look, self.damaged.next_due()]
                    .into_iter()
                    .flatten()
                    .min();
                self.sleep_until(due).await;
                continue;
            }
            match self.work().await {
                Ok(()) => (self.failures, self.may_give_up) = (0, true),
                // Messages are taken above.
                Err(ExchangeFailure::Interrupted) => {
                    self.may_give_up = false;
                    self.disconnect();
                }
                Err(failure) => {
                    self.disconnect();
                    let pause = self.next_reconnect();
                    if self.failures == 1 {
                        info!(leader = self.leader.0, fetcher = %self.client_id, %failure, "lost the leader's broker");
                    } else {
                        debug!(leader = self.leader.0, fetcher = %self.client_id, %failure, "still no connection");
                    }
                    self.sleep_until(Some(self.now() + pause)).await;
                }
            }
        }
    }

    fn throttle(&mut self) {
        let throttle = &self.settings.throttle;
        if throttle.is_limited() || self.followed.has_held_back() {
            let is_exceeded = throttle.is_exceeded(self.now());
            self.followed.throttle(is_exceeded, self.settings.broker_id.0);
        }
    }

    fn now(&self) -> Instant {
        self.settings.clock.now()
    }

    fn next_reconnect(&mut self) -> Duration {
        let longest = self.settings.replication.fetch_backoff.max(FIRST_RECONNECT);
        let pause = backoff(FIRST_RECONNECT, self.failures, longest);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// Sleeps until there is a message, or `until`.
    async fn sleep_until(&mut self, until: Option<Instant>) {
        let Self { settings, mailbox, link, .. } = self;
        let has_mail = || mailbox.has_mail();
        let mut urgency = || Urgency::None;
        let clock = &*settings.clock;
        let mut waiting = Waiting { clock, urgency: &mut urgency, has_mail: &has_mail };
        link.sleep(&mut waiting, until).await;
    }

    fn disconnect(&mut self) {
        // Also what was only half opened.
        self.link.close();
        if std::mem::take(&mut self.is_connected) {
            self.mailbox.connected.store(false, Ordering::Release);
        }
        // The answer that did not come may have told what will not be told again.
        self.session.lost();
        self.followed.forget_session();
    }

    fn read_position(&mut self, slot: Slot) {
        let Some(followed) = self.followed.get(slot) else { return };
        let (partition, epoch) = (Arc::clone(&followed.partition), followed.epoch);
        let result = partition.follower_position(epoch);
        self.went(slot, result, false);
    }

    /// What became of a partition's log.
    fn went(
        &mut self,
        slot: Slot,
        result: Result<FollowerPosition, FollowFailure>,
        is_served: bool,
    ) {
        let Some(followed) = self.followed.get(slot) else { return };
        let (partition, epoch) = (Arc::clone(&followed.partition), followed.epoch);
        let failure = match result {
            Ok(position) if partition.awaits_flush() => {
                self.unflushed.push(Unflushed { slot, partition, epoch, position, is_served });
                return;
            }
            Ok(position) => return self.followed.moved(slot, position, is_served),
            Err(failure) => failure,
        };
        match failure {
            // A message about it is on its way.
            FollowFailure::Ended => self.followed.discard(slot),
            FollowFailure::Moved => self.followed.repeat(slot),
            FollowFailure::Refused(error) => {
                warn!(%partition, leader = self.leader.0, %error, "the leader's records are refused");
                self.delay(slot);
            }
            // Said where it happened.
            FollowFailure::Storage => self.delay(slot),
            FollowFailure::Offline => self.followed.fail(slot),
        }
    }

    /// Flushes what has to be before the next fetch tells the leader that it is here: all of it at a time.
    fn flush(&mut self) {
        let unflushed = std::mem::take(&mut self.unflushed);
        if unflushed.len() > 1 {
            // The committer does many at the price of one; what it is at or has done is waited for below.
            unflushed.iter().for_each(|one| one.partition.ask_for_flush());
        }
        for Unflushed { slot, partition, epoch, position, is_served } in unflushed {
            let durable = partition.flush();
            let is_meant = self.followed.get(slot).is_some_and(|followed| {
                Arc::ptr_eq(&followed.partition, &partition) && followed.epoch == epoch
            });
            if !is_meant {
                continue;
            }
            match durable {
                Some(end) if end >= position.offset => {
                    self.followed.moved(slot, position, is_served)
                }
                // Somebody else changed the log.
                Some(_) => self.followed.repeat(slot),
                None => self.went(slot, Err(FollowFailure::Storage), false),
            }
        }
    }

    fn delay(&mut self, slot: Slot) {
        let longest = self.settings.replication.fetch_backoff;
        self.followed.delay(slot, self.now(), longest);
    }

    /// Sends a request to the leader and waits for the answer.
    async fn ask<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<(R::Response, Bytes), ExchangeFailure> {
        self.correlation_id = self.correlation_id.checked_add(1).unwrap_or(0);
        let options = self.options();
        let Self { settings, mailbox, link, may_give_up, correlation_id, .. } = self;
        let mut urgency = urgency(mailbox, settings, *may_give_up);
        let has_mail = || mailbox.has_mail();
        let clock = &*settings.clock;
        let mut waiting = Waiting { clock, urgency: &mut urgency, has_mail: &has_mail };
        exchange(link, &options, *correlation_id, (request, version), &mut waiting).await
    }

    async fn connect(&mut self) -> Result<(), ExchangeFailure> {
        if self.is_connected {
            return Ok(());
        }
        let options = self.options();
        let Self { settings, mailbox, link, .. } = self;
        let address = settings.address_of(self.leader).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the broker is not registered")
        })?;
        let mut urgency = urgency(mailbox, settings, false);
        let has_mail = || mailbox.has_mail();
        let clock = &*settings.clock;
        let mut waiting = Waiting { clock, urgency: &mut urgency, has_mail: &has_mail };
        link.open(&address, &options, &mut waiting).await?;
        (self.is_connected, self.correlation_id) = (true, 0);
        mailbox.connected.store(true, Ordering::Release);
        Ok(())
    }

    fn options(&self) -> ConnectionSettings {
        ConnectionSettings {
            client_id: self.client_id.clone(),
            timeout: self.settings.replication.socket_timeout,
            receive_buffer_bytes: self.settings.replication.socket_receive_buffer_bytes,
        }
    }

    /// What the leader is to be asked for now.
    async fn work(&mut self) -> Result<(), ExchangeFailure> {
        self.connect().await?;
        self.mend().await?;
        if self.followed.has_wishes() { self.fetch().await } else { Ok(()) }
    }

    /// Has some of what is damaged made anew.
    async fn mend(&mut self) -> Result<(), ExchangeFailure> {
        let mut left = Vec::new();
        let mut outcome = Ok(());
        for mut damaged in std::mem::take(&mut self.damaged.0) {
            let mut is_whole = false;
            if outcome.is_ok() && damaged.is_due(self.now()) {
                match self.mend_one(&mut damaged).await {
                    Ok(whole) => is_whole = whole,
                    Err(failure) => outcome = Err(failure),
                }
            }
            if !is_whole {
                left.push(damaged);
            }
        }
        self.damaged.0 = left;
        outcome
    }

    /// Fetches some of what `damaged` lacks. Whether it lacks nothing any more.
    async fn mend_one(&mut self, damaged: &mut Damaged) -> Result<bool, ExchangeFailure> {
        for _ in 0..PIECES {
            let offset = match damaged.partition.mending_wish(damaged.epoch) {
                MendingWish::Nothing => return Ok(true),
                MendingWish::Later => {
                    damaged.delay(self.now());
                    break;
                }
                MendingWish::From(offset) => offset,
            };
            let topic_id = damaged.partition.topic.id();
            let max_bytes = self.settings.replication.fetch_max_bytes;
            let request = damaged.request(offset, topic_id, max_bytes);
            let version = if topic_id.is_some() { FETCH_BY_ID } else { FETCH_BY_NAME };
            let (response, frame) = self.ask(&request, version).await?;
            let mut all = response.responses.into_iter().flat_map(|topic| topic.partitions);
            let data = all.next().unwrap_or_default();
            if let Some(code) =
                [response.error_code, data.error_code].into_iter().find(|&code| code != 0)
            {
                let code = error_code(code);
                debug!(partition = %damaged.partition, ?code, "the leader cannot mend it now");
                damaged.delay(self.now());
                break;
            }
            let records =
                data.records.and_then(|records| records.to_bytes().ok()).unwrap_or_default();
            // If it has nothing there it may yet.
            let is_of_use = !records.is_empty() && damaged.partition.mend(damaged.epoch, &records);
            drop(records);
            self.link.reclaim(frame);
            if !is_of_use {
                damaged.delay(self.now());
                break;
            }
            damaged.went_well();
        }
        Ok(false)
    }

    /// One fetch, and what comes of it.
    async fn fetch(&mut self) -> Result<(), ExchangeFailure> {
        let by_id = self.followed.have_ids();
        let fields = self.session.next(by_id);
        let replication = &self.settings.replication;
        let wishes = self.followed.wishes(&self.session, by_id, replication.fetch_max_bytes);
        let mut request = FetchRequest {
            // What is to be mended does not wait for what is to come.
            max_wait_ms: match self.damaged.is_due(self.now()) {
                true => 0,
                false => millis(replication.fetch_wait_max),
            },
            min_bytes: replication.fetch_min_bytes,
            max_bytes: replication.fetch_response_max_bytes,
            session_id: fields.id,
            session_epoch: fields.epoch,
            topics: wishes.topics,
            forgotten_topics_data: wishes.forgotten,
            ..Default::default()
        };
        let replica_id = self.settings.broker_id.0;
        let version = if by_id {
            let replica_epoch = self.settings.broker_epoch.load(Ordering::Relaxed);
            request.replica_state = ReplicaState { replica_id, replica_epoch };
            FETCH_BY_ID
        } else {
            request.replica_id = replica_id;
            FETCH_BY_NAME
        };
        let (response, frame) = self.ask(&request, version).await?;
        let code = error_code(response.error_code);
        if code != ErrorCode::None {
            debug!(leader = self.leader.0, fetcher = %self.client_id, ?code, "the fetch session ends");
            self.session.refused(code);
            self.followed.forget_session();
            let is_session = [
                ErrorCode::FetchSessionIdNotFound,
                ErrorCode::InvalidFetchSessionEpoch,
                ErrorCode::FetchSessionTopicIdError,
            ];
            return match is_session.contains(&code) {
                true => Ok(()),
                false => Err(ExchangeFailure::Malformed(format!("the fetch is refused: {code:?}"))),
            };
        }
        self.session.answered(response.session_id);
        if self.session.is_full() {
            self.followed.forget_session();
        }
        let mut out_of_range = Vec::new();
        for topic in response.responses {
            for data in topic.partitions {
                let index = data.partition_index;
                let found = self.followed.find(by_id, &topic.topic, topic.topic_id, index);
                if let Some(slot) = found
                    && self.take_answer(slot, data) == Taken::OutOfRange
                {
                    out_of_range.push(slot);
                }
            }
        }
        self.link.reclaim(frame);
        for slot in out_of_range {
            self.return_into_range(slot).await?;
        }
        Ok(())
    }

    /// What the leader said of one partition.
    fn take_answer(&mut self, slot: Slot, data: PartitionData) -> Taken {
        let Some(followed) = self.followed.get(slot) else { return Taken::Settled };
        let (partition, epoch) = (Arc::clone(&followed.partition), followed.epoch);
        let Some(from) = followed.position.map(|position| position.offset) else {
            return Taken::Settled;
        };
        let code = error_code(data.error_code);
        if code == ErrorCode::OffsetOutOfRange {
            return Taken::OutOfRange;
        }
        if code == ErrorCode::FencedLeaderEpoch {
            info!(%partition, epoch = epoch.0, "the leader is of a newer epoch; waits for the controller");
            self.followed.fail(slot);
            return Taken::Settled;
        }
        if code != ErrorCode::None {
            debug!(%partition, epoch = epoch.0, ?code, "the leader refuses");
            self.delay(slot);
            return Taken::Settled;
        }
        if data.diverging_epoch != EpochEndOffset::default() {
            let diverging = EpochEnd {
                epoch: LeaderEpoch(data.diverging_epoch.epoch),
                end_offset: Offset(data.diverging_epoch.end_offset),
            };
            if Bug::Kafka14704.is_planted() {
                let high_watermark = Offset(data.high_watermark);
                let (records, log_start_offset) = (Bytes::new(), Offset(data.log_start_offset));
                let nothing = Fetched { from, records, high_watermark, log_start_offset };
                drop(partition.append_as_follower(epoch, &nothing));
            }
            self.went(slot, partition.truncate_as_follower(epoch, from, diverging), false);
            return Taken::Settled;
        }
        // In memory: it was received.
        let records = data.records.and_then(|records| records.to_bytes().ok()).unwrap_or_default();
        let is_served = !records.is_empty();
        let fetched = Fetched {
            from,
            records,
            high_watermark: Offset(data.high_watermark),
            log_start_offset: Offset(data.log_start_offset),
        };
        let bytes = fetched.records.len() as u64;
        let result = partition.append_as_follower(epoch, &fetched);
        if let Ok(position) = &result {
            self.followed.set_lag(slot, 0.max(fetched.high_watermark - position.offset));
        }
        let throttle = &self.settings.throttle;
        let throttled = &partition.topic.settings.load().follower_throttled;
        if throttle.is_limited() && throttled.contains(partition.index, self.settings.broker_id.0) {
            throttle.record(self.now(), bytes);
        }
        self.went(slot, result, is_served);
        Taken::Settled
    }

    /// The leader does not have the offset that was asked for: where does its log begin and end?
    async fn return_into_range(&mut self, slot: Slot) -> Result<(), ExchangeFailure> {
        let Some(end) = self.offset_of(slot, LATEST).await? else { return Ok(()) };
        let Some(start) = self.offset_of(slot, EARLIEST).await? else { return Ok(()) };
        let Some(followed) = self.followed.get(slot) else { return Ok(()) };
        let (partition, epoch) = (Arc::clone(&followed.partition), followed.epoch);
        let Some(position) = followed.position else { return Ok(()) };
        let result = partition.return_into_range(epoch, position.offset, start, end);
        let settles = matches!(&result, Ok(next) if *next != position);
        self.went(slot, result, false);
        if !settles {
            // In range by now, or it would be asked for again and again.
            self.delay(slot);
        }
        Ok(())
    }

    async fn offset_of(
        &mut self,
        slot: Slot,
        timestamp: i64,
    ) -> Result<Option<Offset>, ExchangeFailure> {
        let Some(followed) = self.followed.get(slot) else { return Ok(None) };
        let request = ListOffsetsRequest {
            replica_id: self.settings.broker_id.0,
            topics: vec![ListOffsetsTopic {
                name: followed.topic.clone(),
                partitions: vec![ListOffsetsPartition {
                    partition_index: followed.partition.index,
                    current_leader_epoch: followed.epoch.0,
                    timestamp,
                    ..Default::default()
                }],
            }],
            ..Default::default()
        };
        let (response, _) = self.ask(&request, LIST_OFFSETS).await?;
        let answers = response.topics.into_iter().flat_map(|topic| topic.partitions);
        let found = answers
            .filter(|answer| answer.error_code == ErrorCode::None.code() && answer.offset >= 0)
            .map(|answer| Offset(answer.offset))
            .next();
        if found.is_none() {
            self.delay(slot);
        }
        Ok(found)
    }
}

/// Where a log stands that is to be flushed first.
struct Unflushed {
    slot: Slot,
    partition: Arc<Partition>,
    epoch: LeaderEpoch,
    position: FollowerPosition,
    is_served: bool,
}

/// What an answer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Settled,
    OutOfRange,
}

/// How urgent the mailbox's messages are to a fetch under way.
fn urgency(
    mailbox: &Mailbox,
    settings: &FetcherSettings,
    may_give_up: bool,
) -> impl FnMut() -> Urgency + Send {
    let mut grace = None;
    move || {
        let mail = mailbox.mail.lock();
        match (mail.stopping, mail.has_additions && may_give_up) {
            (true, _) => Urgency::Now,
            (false, true) => {
                Urgency::By(*grace.get_or_insert_with(|| settings.clock.now() + GRACE))
            }
            (false, false) => Urgency::None,
        }
    }
}

fn error_code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

fn millis(span: Duration) -> i32 {
    i32::try_from(span.as_millis()).unwrap_or(i32::MAX)
}
