//! Fetches records of partitions that the caller names.

use crate::{Client, ClientError, Connection, Retry};
use bytes::Bytes;
use model::{Offset, TopicPartition};
use protocol::ErrorCode;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{FetchRequest, FetchResponse, ListOffsetsRequest};
use protocol::records::{Batches, ControlRecord, Record, RecordsError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::pending;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// From version 13 on topics go by id.
const FETCH_BY_NAME: i16 = 12;
/// The most that one compressed batch may inflate to.
const INFLATE_LIMIT: usize = 1 << 30;

/// Asks [`list_offsets`] for the first offset.
pub const EARLIEST: i64 = -2;
/// Asks [`list_offsets`] for the offset after the last record.
pub const LATEST: i64 = -1;

/// Which records are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All.
    #[default]
    ReadUncommitted,
    /// Not those of open and aborted transactions.
    ReadCommitted,
}

impl Isolation {
    const fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// Where to go on when the wanted offset is not (or no longer) in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record.
    Earliest,
    /// At the end.
    #[default]
    Latest,
    /// Nowhere: it is an error.
    Fail,
}

/// How to fetch.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Which records are seen.
    pub isolation: Isolation,
    /// Where to go on from an offset that is not there.
    pub reset: OffsetReset,
    /// How long a broker may wait for `min_bytes`.
    pub max_wait: Duration,
    /// What a broker waits for.
    pub min_bytes: i32,
    /// The most per answer.
    pub max_bytes: i32,
    /// The most per partition.
    pub partition_max_bytes: i32,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            reset: OffsetReset::default(),
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 32 << 20,
            partition_max_bytes: 4 << 20,
        }
    }
}

/// Fetches from all leaders of its partitions at once, one request each.
pub struct Consumer {
    client: Client,
    options: ConsumerOptions,
    positions: BTreeMap<TopicPartition, i64>,
    leaders: BTreeMap<TopicPartition, i32>,
    connections: BTreeMap<i32, Connection>,
    /// Leaders that have a request.
    asked: BTreeSet<i32>,
    answers: JoinSet<Answer>,
    ready: VecDeque<Fetched>,
    /// Rises with every assignment: answers to older ones are thrown away.
    assignment: u64,
    turn: usize,
    /// Of looking for leaders, since the last time that every partition was fetched.
    retry: Retry,
    /// When leaders are looked for again, if that has just not helped. Partitions that have one go on.
    look_again_at: Option<Instant>,
}

struct Answer {
    assignment: u64,
    leader: i32,
    asked: Vec<(TopicPartition, i64)>,
    result: Result<FetchResponse, ClientError>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("positions", &self.positions).finish_non_exhaustive()
    }
}

/// Records of one partition, as they came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Where from.
    pub partition: TopicPartition,
    /// The offset that was asked for.
    pub offset: i64,
    /// Where to go on.
    pub next_offset: i64,
    /// The offset after the last record that consumers see.
    pub end_offset: i64,
    records: Bytes,
    aborted: Vec<AbortedTransaction>,
}

impl Fetched {
    /// Calls `each` with the records that a consumer is to see, in order, until it says no.
    ///
    /// # Errors
    /// [`ClientError::Records`] if a batch is broken.
    pub fn for_each(&self, mut each: impl FnMut(&Record<'_>) -> bool) -> Result<(), ClientError> {
        self.walk(&mut each).map_err(|source| ClientError::Records {
            partition: self.partition.to_string(),
            source,
        })
    }

    fn walk(&self, each: &mut impl FnMut(&Record<'_>) -> bool) -> Result<(), RecordsError> {
        let mut starts: VecDeque<_> = self.aborted.iter().collect();
        starts.make_contiguous().sort_by_key(|transaction| transaction.first_offset);
        let mut aborted = BTreeSet::new();
        for batch in Batches::new(&self.records) {
            let batch = batch?;
            if !batch.verify() {
                return Err(RecordsError::Corrupt("checksum does not match".into()));
            }
            let producer = batch.header().map(|header| header.producer_id);
            while let Some(next) = starts.front()
                && next.first_offset <= batch.last_offset().0
            {
                aborted.insert(next.producer_id);
                starts.pop_front();
            }
            let records = batch.records(INFLATE_LIMIT)?;
            if batch.is_control() {
                let first = records.iter().next().transpose()?;
                if let Some(ControlRecord::EndTransaction(end)) =
                    first.as_ref().map(ControlRecord::parse).transpose()?
                    && !end.committed
                    && let Some(producer) = producer
                {
                    aborted.remove(&producer);
                }
                continue;
            }
            if batch.is_transactional() && producer.is_some_and(|id| aborted.contains(&id)) {
                continue;
            }
            for record in &records {
                let record = record?;
                if record.offset >= Offset(self.offset) && !each(&record) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Consumer {
    /// A consumer of nothing.
    #[must_use]
    pub fn new(client: Client, options: ConsumerOptions) -> Self {
        Self {
            retry: client.retry_for(None),
            look_again_at: None,
            client,
            options,
            positions: BTreeMap::new(),
            leaders: BTreeMap::new(),
            connections: BTreeMap::new(),
            asked: BTreeSet::new(),
            answers: JoinSet::new(),
            ready: VecDeque::new(),
            assignment: 0,
            turn: 0,
        }
    }

    /// Fetches these partitions from these offsets on, and no others.
    pub fn assign(&mut self, positions: impl IntoIterator<Item = (TopicPartition, i64)>) {
        self.positions = positions.into_iter().collect();
        self.leaders.retain(|partition, _| self.positions.contains_key(partition));
        self.ready.clear();
        self.assignment += 1;
    }

    /// Stops fetching a partition. What has been fetched of it still comes.
    pub fn pause(&mut self, partition: &TopicPartition) {
        self.positions.remove(partition);
    }

    /// The partitions and the offsets that are fetched next.
    pub fn positions(&self) -> impl Iterator<Item = (&TopicPartition, i64)> {
        self.positions.iter().map(|(partition, offset)| (partition, *offset))
    }

    /// The next records. Waits for them, as long as it takes; cancelling loses nothing.
    ///
    /// # Errors
    /// [`ClientError`] that no retry helps against.
    pub async fn poll(&mut self) -> Result<Fetched, ClientError> {
        loop {
            if let Some(fetched) = self.ready.pop_front() {
                return Ok(fetched);
            }
            self.ask().await?;
            let look_again_at = self.look_again_at;
            let look_again = async {
                match look_again_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some(answer) = self.answers.join_next() => {
                    if let Ok(answer) = answer {
                        self.take(answer).await?;
                    }
                }
                () = look_again => {}
            }
        }
    }

    /// Some partition could not be fetched: its leader is looked for again, later each time.
    fn failed(&mut self, error: &ClientError) {
        if self.look_again_at.is_none() {
            self.look_again_at = self.retry.failed(error).map(|pause| Instant::now() + pause);
        }
    }

    /// Sends a fetch to every leader that has none under way.
    async fn ask(&mut self) -> Result<(), ClientError> {
        self.find_leaders().await?;
        let mut wanted = BTreeMap::<i32, Vec<(TopicPartition, i64)>>::new();
        for (partition, offset) in &self.positions {
            if let Some(leader) = self.leaders.get(partition)
                && !self.asked.contains(leader)
            {
                wanted.entry(*leader).or_default().push((partition.clone(), *offset));
            }
        }
        self.turn = self.turn.wrapping_add(1);
        for (leader, mut asked) in wanted {
            // Partitions are served in order, up to the size of an answer: take turns at being first.
            let first = self.turn % asked.len();
            asked.rotate_left(first);
            let connection = match self.connections.get(&leader).filter(|open| open.is_open()) {
                Some(connection) => connection.clone(),
                None => match self.client.dedicated(leader).await {
                    Ok(connection) => {
                        self.connections.insert(leader, connection.clone());
                        connection
                    }
                    Err(error) if error.is_retriable() => {
                        self.leaders.retain(|_, other| *other != leader);
                        self.failed(&error);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            let request = self.request(&asked);
            let assignment = self.assignment;
            self.asked.insert(leader);
            self.answers.spawn(async move {
                let result = connection.send_at_most(&request, FETCH_BY_NAME).await;
                Answer { assignment, leader, asked, result: result.map(|(answer, _)| answer) }
            });
        }
        Ok(())
    }

    async fn find_leaders(&mut self) -> Result<(), ClientError> {
        if self.look_again_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        self.look_again_at = None;
        let missing: BTreeSet<_> = self
            .positions
            .keys()
            .filter(|partition| !self.leaders.contains_key(*partition))
            .map(|partition| partition.topic.clone())
            .collect();
        let mut without = None;
        for topic in missing {
            let info = match self.client.leaders(&topic, false).await {
                Ok(info) => info,
                Err(error) if error.is_retriable() => {
                    without = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for partition in self.positions.keys().filter(|partition| partition.topic == topic) {
                let at = usize::try_from(partition.partition).ok();
                match at.and_then(|at| info.leaders.get(at)) {
                    Some(Some(leader)) => {
                        self.leaders.insert(partition.clone(), *leader);
                    }
                    Some(None) => {
                        let code = ErrorCode::LeaderNotAvailable.code();
                        let what = format!("fetch from {partition}");
                        without = Some(ClientError::broker(code, what, None));
                    }
                    None => {
                        return Err(ClientError::NoPartition {
                            topic: topic.to_string(),
                            partition: partition.partition,
                        });
                    }
                }
            }
        }
        if let Some(error) = without {
            self.failed(&error);
        }
        Ok(())
    }

    fn request(&self, asked: &[(TopicPartition, i64)]) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (partition, offset) in asked {
            let wanted = FetchPartition {
                partition: partition.partition,
                fetch_offset: *offset,
                partition_max_bytes: self.options.partition_max_bytes,
                ..FetchPartition::default()
            };
            match topics.last_mut().filter(|topic| *topic.topic == *partition.topic) {
                Some(topic) => topic.partitions.push(wanted),
                None => topics.push(FetchTopic {
                    topic: (&*partition.topic).into(),
                    partitions: vec![wanted],
                    ..FetchTopic::default()
                }),
            }
        }
        FetchRequest {
            max_wait_ms: i32::try_from(self.options.max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.options.min_bytes,
            max_bytes: self.options.max_bytes,
            isolation_level: self.options.isolation.code(),
            session_epoch: -1,
            topics,
            ..FetchRequest::default()
        }
    }

    async fn take(&mut self, answer: Answer) -> Result<(), ClientError> {
        self.asked.remove(&answer.leader);
        if answer.assignment != self.assignment {
            return Ok(());
        }
        let response = match answer.result {
            Ok(response) => response,
            Err(error) if error.is_retriable() => {
                self.connections.remove(&answer.leader);
                self.leaders.retain(|_, leader| *leader != answer.leader);
                self.failed(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        ClientError::check(response.error_code, "fetch", None)?;
        let asked: BTreeMap<_, _> = answer.asked.into_iter().collect();
        for topic in response.responses {
            for data in topic.partitions {
                let partition = TopicPartition::new(&*topic.topic, data.partition_index);
                let Some(&offset) = asked.get(&partition) else { continue };
                if self.positions.get(&partition) != Some(&offset) {
                    continue;
                }
                self.take_partition(partition, offset, data).await?;
            }
        }
        if self.positions.keys().all(|at| self.leaders.contains_key(at)) {
            self.retry.succeeded();
        }
        Ok(())
    }

    /// Takes the records, or notes why the partition has to be asked for again, later.
    async fn take_partition(
        &mut self,
        partition: TopicPartition,
        offset: i64,
        data: PartitionData,
    ) -> Result<(), ClientError> {
        let what = || format!("fetch from {partition}");
        match ErrorCode::from_code(data.error_code) {
            Some(ErrorCode::None) => {}
            Some(ErrorCode::OffsetOutOfRange) => {
                let timestamp = match self.options.reset {
                    OffsetReset::Earliest => EARLIEST,
                    OffsetReset::Latest => LATEST,
                    OffsetReset::Fail => {
                        let message = format!("offset {offset} is not in the log");
                        return Err(ClientError::broker(data.error_code, what(), Some(&message)));
                    }
                };
                let wanted = [(partition.clone(), timestamp)];
                let found = list_offsets(&self.client, &wanted, self.options.isolation).await?;
                if let Some(offset) = found.get(&partition) {
                    self.positions.insert(partition, *offset);
                }
                return Ok(());
            }
            _ => {
                let error = ClientError::broker(data.error_code, what(), None);
                self.leaders.remove(&partition);
                if !error.is_retriable() {
                    return Err(error);
                }
                self.failed(&error);
                return Ok(());
            }
        }
        let records = data
            .records
            .unwrap_or_default()
            .to_bytes()
            .map_err(|error| ClientError::broker(-1, what(), Some(&error.to_string())))?;
        let broken = |source| ClientError::Records { partition: partition.to_string(), source };
        let mut next_offset = offset;
        for batch in Batches::new(&records) {
            let last = batch.map_err(broken)?.last_offset();
            next_offset = next_offset.max(last.0.saturating_add(1));
        }
        if next_offset == offset {
            return Ok(());
        }
        self.positions.insert(partition.clone(), next_offset);
        let end_offset = match self.options.isolation {
            Isolation::ReadUncommitted => data.high_watermark,
            Isolation::ReadCommitted => data.last_stable_offset,
        };
        let aborted = data.aborted_transactions.unwrap_or_default();
        self.ready.push_back(Fetched {
            partition,
            offset,
            next_offset,
            end_offset,
            records,
            aborted,
        });
        Ok(())
    }
}

/// The offsets of points in time ([`EARLIEST`], [`LATEST`], or milliseconds: the first record at or
/// after it, -1 if there is none).
///
/// # Errors
/// [`ClientError`], after retries.
pub async fn list_offsets(
    client: &Client,
    wanted: &[(TopicPartition, i64)],
    isolation: Isolation,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let mut retry = client.retry();
    loop {
        match list_offsets_once(client, wanted, isolation).await {
            Err(error) if retry.again(&error).await => {}
            done => return done,
        }
    }
}

async fn list_offsets_once(
    client: &Client,
    wanted: &[(TopicPartition, i64)],
    isolation: Isolation,
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let mut by_leader = BTreeMap::<i32, Vec<ListOffsetsTopic>>::new();
    let topics: BTreeSet<_> = wanted.iter().map(|(at, _)| at.topic.clone()).collect();
    for name in topics {
        let info = client.topic(&name, false).await?;
        for (at, timestamp) in wanted.iter().filter(|(at, _)| at.topic == name) {
            let found = info.partitions.iter().find(|p| p.partition_index == at.partition);
            let leader = match found {
                Some(partition) if partition.leader_id >= 0 => partition.leader_id,
                // Only the partitions that were asked for have to have a leader.
                Some(_) => {
                    let code = ErrorCode::LeaderNotAvailable.code();
                    return Err(ClientError::broker(code, format!("offsets of {at}"), None));
                }
                None => {
                    let (topic, partition) = (name.to_string(), at.partition);
                    return Err(ClientError::NoPartition { topic, partition });
                }
            };
            let topics = by_leader.entry(leader).or_default();
            let partition = ListOffsetsPartition {
                partition_index: at.partition,
                timestamp: *timestamp,
                ..ListOffsetsPartition::default()
            };
            match topics.last_mut().filter(|topic| *topic.name == *name) {
                Some(topic) => topic.partitions.push(partition),
                None => topics
                    .push(ListOffsetsTopic { name: (&*name).into(), partitions: vec![partition] }),
            }
        }
    }
    let mut found = BTreeMap::new();
    for (leader, topics) in by_leader {
        let request = ListOffsetsRequest {
            replica_id: -1,
            isolation_level: isolation.code(),
            topics,
            ..ListOffsetsRequest::default()
        };
        let answer = client.broker(leader).await?.send(&request).await?;
        for topic in answer.topics {
            for partition in topic.partitions {
                let at = TopicPartition::new(&*topic.name, partition.partition_index);
                ClientError::check(partition.error_code, format!("offsets of {at}"), None)?;
                found.insert(at, partition.offset);
            }
        }
    }
    Ok(found)
}
