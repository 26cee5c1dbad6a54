//! The task that owns one shard.
//!
//! Waiting and changing are apart: [`ShardTask::select`] changes nothing, [`ShardTask::apply`] never waits.

use super::log::OffsetsLog;
use super::{Shared, load};
use ::group::record::Record;
use ::group::request::{Action, Answer, Event, Ticket};
use ::group::{Error, GroupShard, Now, WriteError, WriteId};
use bytes::Bytes;
use model::{Bug, LeaderEpoch, Offset, Timestamp, TopicName};
use protocol::records::{BuildError, RecordBatchBuilder};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, WeakUnboundedSender};
use tracing::{debug, error, info, warn};

/// How much work is done before what it decided is appended.
const TURN: usize = 256;

/// The longest sleep at once; a timer further away is looked at again then.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// How long to wait after a failed load.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// What a request wants of a shard.
pub(crate) trait Work: Send {
    /// Does it. The answer may be given here, or later through [`Desk::wait`].
    fn run(self: Box<Self>, desk: &mut Desk<'_>);

    /// Answers that it cannot be done here, or now.
    fn refuse(self: Box<Self>, error: Error);
}

/// A shard at work.
pub(crate) struct Desk<'a> {
    /// Its groups.
    pub(crate) groups: &'a mut GroupShard,
    /// What it does must be left here.
    pub(crate) actions: &'a mut Vec<Action>,
    /// The time.
    pub(crate) now: Now,
    waiting: &'a mut Waiting,
    shared: &'a Shared,
}

impl Desk<'_> {
    /// A ticket for an answer that may take its time.
    pub(crate) fn wait(&mut self, respond: impl FnOnce(Answer) + Send + 'static) -> Ticket {
        self.waiting.next += 1;
        let ticket = Ticket(self.waiting.next);
        self.waiting.requests.insert(ticket, Box::new(respond));
        ticket
    }

    /// 128 random bits.
    pub(crate) fn uuid(&self) -> u128 {
        let random = &self.shared.random;
        u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
    }
}

#[derive(Default)]
struct Waiting {
    next: u64,
    requests: HashMap<Ticket, Box<dyn FnOnce(Answer) + Send>>,
}

/// What a task is told besides requests.
pub(super) enum News {
    Written(WriteId, Result<(Offset, Offset), WriteError>),
    TopicsDeleted(Vec<TopicName>),
    Reelected(LeaderEpoch),
    Resigned,
}

enum Input {
    Work(Box<dyn Work>),
    News(News),
    Time,
    /// Nobody can reach the task any more.
    Abandoned,
}

pub(super) struct ShardTask {
    shared: Arc<Shared>,
    partition: i32,
    leader_epoch: LeaderEpoch,
    log: Arc<dyn OffsetsLog>,
    work: Receiver<Box<dyn Work>>,
    told: UnboundedReceiver<News>,
    news: WeakUnboundedSender<News>,
    is_loaded: Arc<AtomicBool>,
    groups: GroupShard,
    waiting: Waiting,
    actions: Vec<Action>,
    high_watermark: Offset,
    deleted_meanwhile: Vec<TopicName>,
    has_ended: bool,
}

impl ShardTask {
    #[expect(clippy::too_many_arguments, reason = "the ends of its channels, once")]
    pub(super) fn new(
        shared: Arc<Shared>,
        partition: i32,
        leader_epoch: LeaderEpoch,
        log: Arc<dyn OffsetsLog>,
        work: Receiver<Box<dyn Work>>,
        told: UnboundedReceiver<News>,
        news: WeakUnboundedSender<News>,
        is_loaded: Arc<AtomicBool>,
    ) -> Self {
        Self {
            groups: GroupShard::new(shared.config.clone()),
            shared,
            partition,
            leader_epoch,
            log,
            work,
            told,
            news,
            is_loaded,
            waiting: Waiting::default(),
            actions: Vec::new(),
            high_watermark: Offset(0),
            deleted_meanwhile: Vec::new(),
            has_ended: false,
        }
    }

    pub(super) async fn run(mut self) {
        while let Err(error) = self.load().await {
            warn!(partition = self.partition, %error, "groups and offsets cannot be loaded; will try again");
            if self.wait_to_load_again().await {
                return self.end(self.now());
            }
        }
        let deleted = std::mem::take(&mut self.deleted_meanwhile);
        self.apply(Input::News(News::TopicsDeleted(deleted)));
        while !self.has_ended {
            let input = self.select().await;
            self.apply(input);
        }
    }

    /// True if there is nothing to load any more.
    async fn wait_to_load_again(&mut self) -> bool {
        self.groups = GroupShard::new(self.shared.config.clone());
        let pause = tokio::time::sleep(LOAD_PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                news = self.told.recv() => match news {
                    Some(News::TopicsDeleted(topics)) => self.deleted_meanwhile.extend(topics),
                    Some(News::Written(..)) => {}
                    Some(News::Reelected(leader_epoch)) => {
                        self.leader_epoch = leader_epoch;
                        return false;
                    }
                    Some(News::Resigned) | None => return true,
                },
                () = &mut pause => return false,
            }
        }
    }

    /// Reads the log to its end, a piece at a time; other tasks run in between.
    async fn load(&mut self) -> Result<(), String> {
        let begin = self.shared.clock.now();
        let mut loaded = load::Loaded::default();
        let mut next = self.log.start(self.leader_epoch)?;
        loop {
            let batches =
                self.log.read(self.leader_epoch, next, self.shared.load_bytes.min(1 << 20))?;
            let Some(end) = load::load_batches(&mut self.groups, &batches, next, &mut loaded)
            else {
                break;
            };
            next = end;
            if Bug::Kafka5600.is_planted() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let now = self.now();
        self.groups.loaded(now, &mut self.actions);
        self.finish_turn();
        self.is_loaded.store(true, Ordering::Release);
        let (partition, elapsed) = (self.partition, now.instant.since(begin));
        let load::Loaded { records, bytes, skipped } = loaded;
        if records == 0 && skipped == 0 {
            debug!(partition, "coordinates the groups of this partition");
        } else {
            info!(
                partition,
                records,
                bytes,
                skipped,
                ?elapsed,
                "coordinates the groups of this partition"
            );
        }
        Ok(())
    }

    /// Cancellation-safe: only receives and sleeps.
    async fn select(&mut self) -> Input {
        let sleep = self
            .groups
            .next_deadline()
            .map(|at| at.since(self.shared.clock.now()).min(LONGEST_SLEEP));
        let timer = async {
            match sleep {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = self.told.recv() => news.map_or(Input::Abandoned, Input::News),
            work = self.work.recv() => work.map_or(Input::Abandoned, Input::Work),
            () = timer => Input::Time,
        }
    }

    fn apply(&mut self, input: Input) {
        self.apply_one(input);
        for _ in 0..TURN {
            if self.has_ended {
                break;
            }
            if let Ok(news) = self.told.try_recv() {
                self.apply_one(Input::News(news));
            } else if let Ok(work) = self.work.try_recv() {
                self.apply_one(Input::Work(work));
            } else {
                break;
            }
        }
        self.finish_turn();
    }

    fn apply_one(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Work(work) if !self.is_loaded.load(Ordering::Relaxed) => {
                work.refuse(Error::CoordinatorLoadInProgress);
            }
            // Somebody else may lead by now, and know of later offsets and another generation.
            Input::Work(work) if !self.log.is_surely_led() => work.refuse(Error::NotCoordinator),
            Input::Work(work) => work.run(&mut Desk {
                groups: &mut self.groups,
                actions: &mut self.actions,
                now,
                waiting: &mut self.waiting,
                shared: &self.shared,
            }),
            Input::Time => self.groups.tick(now, &mut self.actions),
            Input::News(News::Written(id, Ok((base, last)))) => {
                self.groups.appended(id, base, last);
                self.high_watermark = self.high_watermark.max(Offset(last.0 + 1));
                self.groups.committed(now, self.high_watermark, &mut self.actions);
            }
            Input::News(News::Written(id, Err(error))) => {
                self.groups.append_failed(now, id, error, &mut self.actions);
            }
            Input::News(News::TopicsDeleted(topics)) => {
                self.groups.topics_deleted(now, &topics, &mut self.actions);
            }
            Input::News(News::Reelected(leader_epoch)) => self.leader_epoch = leader_epoch,
            Input::News(News::Resigned) | Input::Abandoned => self.end(now),
        }
    }

    /// Appends what was decided, then answers what is answered.
    fn finish_turn(&mut self) {
        while !self.has_ended {
            let now = self.now();
            let Some((id, records)) = self.groups.next_batch() else { break };
            let batch = match encode(records, now.wall, &self.shared) {
                Ok(batch) => batch,
                Err(error) => {
                    error!(partition = self.partition, %error, "records of groups cannot be encoded");
                    self.groups.append_failed(now, id, WriteError::TooLarge, &mut self.actions);
                    continue;
                }
            };
            let news = self.news.clone();
            let done = move |result| {
                if let Some(news) = news.upgrade() {
                    drop(news.send(News::Written(id, result)));
                }
            };
            self.log.append(self.leader_epoch, &batch, Box::new(done));
        }
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Answer(ticket, answer) => {
                    if let Some(respond) = self.waiting.requests.remove(&ticket) {
                        respond(answer);
                    }
                }
                Action::Log(event) => log_event(event),
            }
        }
    }

    /// Tells everyone who waits to look elsewhere.
    fn end(&mut self, now: Now) {
        self.has_ended = true;
        self.is_loaded.store(false, Ordering::Release);
        self.groups.unload(now, &mut self.actions);
        self.work.close();
        while let Ok(work) = self.work.try_recv() {
            work.refuse(Error::NotCoordinator);
        }
    }

    fn now(&self) -> Now {
        Now { instant: self.shared.clock.now(), wall: self.shared.clock.timestamp() }
    }
}

fn encode(records: &[Record], wall: Timestamp, shared: &Shared) -> Result<Bytes, BuildError> {
    let mut builder = RecordBatchBuilder::new().compression(shared.compression);
    for record in records {
        let (key, value) = (record.encode_key(), record.encode_value());
        builder.append(Some(wall), Some(&key), value.as_deref())?;
    }
    builder.build()
}

fn log_event(event: Event) {
    match event {
        Event::Rebalancing { group, generation, reason } => {
            info!(%group, generation, reason, "group rebalances")
        }
        Event::Formed { group, generation, members } => {
            info!(%group, generation, members, "group has a new generation")
        }
        Event::Stable { group, generation } => info!(%group, generation, "group is stable"),
        Event::MemberFailed { group, member, why } => info!(%group, %member, why, "member removed"),
        Event::NobodyRejoined { group } => info!(%group, "nobody has joined the rebalance yet"),
        Event::WriteFailed { group, error } => {
            warn!(%group, %error, "a record of the group could not be written")
        }
    }
}
