//! Sends records in batches.
//!
//! Each partition has a lane: a batch that fills up, a short queue of full ones, and a task that sends
//! them one after the other and retries. While a request is under way the next batch grows, so batches
//! are large exactly when the broker is the slower side.

use crate::murmur2::partition_of;
use crate::{Client, ClientError, Connection};
use bytes::Bytes;
use bytestring::ByteString;
use model::{ProducerEpoch, ProducerId, Sequence, Timestamp};
use platform::Clock;
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{InitProducerIdRequest, ProduceRequest};
use protocol::records::{Compression, CompressionLevels, Header, RecordBatchBuilder};
use protocol::{ErrorCode, Records};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// From version 13 on topics go by id.
const PRODUCE_BY_NAME: i16 = 12;
/// Full batches that wait per partition before [`Producer::send`] waits.
const QUEUED_BATCHES: usize = 4;

/// Who must have a record before it counts as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody: the broker does not even answer.
    None,
    /// The leader.
    Leader,
    /// All in-sync replicas.
    All,
}

impl Acks {
    const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// How to produce.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Who must have a record.
    pub acks: Acks,
    /// The codec.
    pub compression: Compression,
    /// The codec's levels.
    pub levels: CompressionLevels,
    /// Uncompressed bytes from which a batch is full.
    pub batch_bytes: usize,
    /// How long a batch may be retried.
    pub delivery_timeout: Duration,
    /// Whether retries must not write twice (KIP-98). Only with [`Acks::All`].
    pub idempotent: bool,
    /// Whether an unknown topic may be created by the broker.
    pub create_topics: bool,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            compression: Compression::None,
            levels: CompressionLevels::DEFAULT,
            batch_bytes: 512 * 1024,
            delivery_timeout: Duration::from_secs(120),
            idempotent: true,
            create_topics: true,
        }
    }
}

/// A record to send.
#[derive(Clone, Debug, Default)]
pub struct ToSend<'a> {
    /// The partition; else the key's, else one after the other in turn, a batch each.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a [Header<'a>],
    /// The create time; now if none.
    pub timestamp: Option<Timestamp>,
}

/// What has been delivered so far; can be watched from anywhere.
#[derive(Debug, Default)]
pub struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Records that brokers have (with [`Acks::None`]: that were sent).
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Bytes of their batches, as sent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Sends records. [`Self::flush`] before dropping it, or what is queued may be lost.
pub struct Producer {
    client: Client,
    options: Arc<ProducerOptions>,
    clock: Arc<dyn Clock>,
    identity: Option<(ProducerId, ProducerEpoch)>,
    topics: BTreeMap<String, Topic>,
    progress: Arc<Progress>,
    failure: Arc<OnceLock<ClientError>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("options", &self.options).finish_non_exhaustive()
    }
}

struct Topic {
    lanes: Vec<Lane>,
    turn: usize,
}

/// A partition's way out.
struct Lane {
    batch: RecordBatchBuilder,
    sequence: Sequence,
    queue: mpsc::Sender<Queued>,
}

enum Queued {
    Batch {
        bytes: Bytes,
        records: u64,
    },
    /// Answered when all before it is done with.
    Flush(oneshot::Sender<()>),
}

impl Producer {
    /// A producer; asks for a producer id if it is to be idempotent and the broker has any.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn new(
        client: Client,
        mut options: ProducerOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        options.idempotent &= options.acks == Acks::All;
        let identity = match options.idempotent {
            true => init_producer_id(&client).await?,
            false => None,
        };
        Ok(Self {
            client,
            options: Arc::new(options),
            clock,
            identity,
            topics: BTreeMap::new(),
            progress: Arc::default(),
            failure: Arc::default(),
        })
    }

    /// What has been delivered.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Queues a record. Waits only while its partition's queue is full.
    ///
    /// # Errors
    /// [`ClientError`]: of this record, or of an earlier one that could not be delivered; the producer
    /// is of no use after the latter.
    pub async fn send(&mut self, topic: &str, record: ToSend<'_>) -> Result<(), ClientError> {
        self.check()?;
        if !self.topics.contains_key(topic) {
            let info = self.client.leaders(topic, self.options.create_topics).await?;
            let lanes = (0..).take(info.leaders.len()).map(|partition| self.lane(topic, partition));
            let opened = Topic { lanes: lanes.collect(), turn: 0 };
            self.topics.insert(topic.to_owned(), opened);
        }
        let identity = self.identity;
        let batch_bytes = self.options.batch_bytes;
        let opened = self.topics.get_mut(topic).expect("inserted above");
        let count = opened.lanes.len();
        let at = match (record.partition, record.key) {
            (Some(partition), _) => usize::try_from(partition).ok(),
            (None, Some(key)) => Some(partition_of(key, count)),
            (None, None) => Some(opened.turn % count.max(1)),
        };
        let mut lane = at.and_then(|at| opened.lanes.get_mut(at)).ok_or_else(|| {
            let partition = record.partition.unwrap_or_default();
            ClientError::NoPartition { topic: topic.to_owned(), partition }
        })?;
        let header_bytes = RecordBatchBuilder::header_bytes(record.headers);
        let bound = RecordBatchBuilder::record_bound(record.key, record.value, header_bytes);
        if !lane.batch.is_empty() && lane.batch.size_bytes() + bound > batch_bytes {
            lane.hand_over(identity).await?;
            if record.partition.is_none() && record.key.is_none() {
                opened.turn = opened.turn.wrapping_add(1);
                lane = &mut opened.lanes[opened.turn % count];
            }
        }
        let timestamp = Some(record.timestamp.unwrap_or_else(|| self.clock.timestamp()));
        let headers = record.headers.iter().copied();
        Ok(lane.batch.append_with(timestamp, record.key, record.value, headers)?)
    }

    /// Hands over what is queued without waiting for batches to fill.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn push(&mut self) -> Result<(), ClientError> {
        for topic in self.topics.values_mut() {
            topic.turn = topic.turn.wrapping_add(1);
            for lane in topic.lanes.iter_mut().filter(|lane| !lane.batch.is_empty()) {
                lane.hand_over(self.identity).await?;
            }
        }
        self.check()
    }

    /// Waits until everything is delivered.
    ///
    /// # Errors
    /// The first [`ClientError`] by which something was not.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        self.push().await?;
        let mut done = Vec::new();
        for lane in self.topics.values().flat_map(|topic| &topic.lanes) {
            let (flushed, wait) = oneshot::channel();
            if lane.queue.send(Queued::Flush(flushed)).await.is_ok() {
                done.push(wait);
            }
        }
        for wait in done {
            // A lane that is gone has left its failure.
            wait.await.ok();
        }
        self.check()
    }

    fn check(&self) -> Result<(), ClientError> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    fn lane(&self, topic: &str, partition: i32) -> Lane {
        let (queue, batches) = mpsc::channel(QUEUED_BATCHES);
        let sender = LaneSender {
            client: self.client.clone(),
            options: Arc::clone(&self.options),
            topic: topic.into(),
            partition,
            progress: Arc::clone(&self.progress),
            failure: Arc::clone(&self.failure),
        };
        tokio::spawn(sender.run(batches));
        let (compression, levels) = (self.options.compression, self.options.levels);
        let batch = RecordBatchBuilder::new().compression(compression).levels(levels);
        Lane { batch, sequence: Sequence(0), queue }
    }
}

impl Lane {
    async fn hand_over(
        &mut self,
        identity: Option<(ProducerId, ProducerEpoch)>,
    ) -> Result<(), ClientError> {
        let count = self.batch.record_count();
        let mut batch = self.batch.take();
        if let Some((id, epoch)) = identity {
            batch = batch.producer(id, epoch, Some(self.sequence));
            self.sequence = self.sequence.plus(count);
        }
        let queued =
            Queued::Batch { bytes: batch.build()?, records: u64::from(count.unsigned_abs()) };
        self.queue.send(queued).await.map_err(|_| ClientError::Stopped)
    }
}

async fn init_producer_id(
    client: &Client,
) -> Result<Option<(ProducerId, ProducerEpoch)>, ClientError> {
    let mut retry = client.retry();
    loop {
        match init_producer_id_once(client).await {
            Ok(identity) => return Ok(Some(identity)),
            Err(ClientError::Unsupported { .. }) => return Ok(None),
            Err(error) if retry.again(&error).await => {}
            Err(error) => return Err(error),
        }
    }
}

async fn init_producer_id_once(
    client: &Client,
) -> Result<(ProducerId, ProducerEpoch), ClientError> {
    let request =
        InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
    let answer = client.any().await?.send(&request).await?;
    ClientError::check(answer.error_code, "producer id", None)?;
    Ok((ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch)))
}

/// The task behind a lane.
struct LaneSender {
    client: Client,
    options: Arc<ProducerOptions>,
    topic: ByteString,
    partition: i32,
    progress: Arc<Progress>,
    failure: Arc<OnceLock<ClientError>>,
}

impl LaneSender {
    async fn run(self, mut batches: mpsc::Receiver<Queued>) {
        let mut leader = None;
        while let Some(queued) = batches.recv().await {
            let (bytes, records) = match queued {
                Queued::Batch { bytes, records } => (bytes, records),
                Queued::Flush(done) => {
                    done.send(()).ok();
                    continue;
                }
            };
            let length = bytes.len() as u64;
            match self.deliver(&mut leader, bytes).await {
                Ok(()) => {
                    self.progress.records.fetch_add(records, Ordering::Relaxed);
                    self.progress.bytes.fetch_add(length, Ordering::Relaxed);
                }
                Err(error) => {
                    // Later batches would be out of sequence: the lane ends.
                    self.failure.set(error).ok();
                    return;
                }
            }
        }
    }

    async fn deliver(
        &self,
        leader: &mut Option<Connection>,
        bytes: Bytes,
    ) -> Result<(), ClientError> {
        let mut last = None;
        let mut retry = self.client.retry_for(Some(self.options.delivery_timeout));
        let delivery = async {
            loop {
                match self.attempt(leader, bytes.clone()).await {
                    Err(error) if error.code() == Some(ErrorCode::DuplicateSequenceNumber) => {
                        return Ok(());
                    }
                    Err(error) if error.is_retriable() => {
                        *leader = None;
                        last = Some(error.clone());
                        if !retry.again(&error).await {
                            return Err(error);
                        }
                    }
                    done => return done,
                }
            }
        };
        let delivered = timeout(self.options.delivery_timeout, delivery).await;
        delivered.unwrap_or_else(|_| {
            Err(last.take().unwrap_or_else(|| ClientError::Timeout {
                address: format!("the leader of {}-{}", self.topic, self.partition),
                api: "ProduceRequest",
            }))
        })
    }

    async fn attempt(
        &self,
        leader: &mut Option<Connection>,
        bytes: Bytes,
    ) -> Result<(), ClientError> {
        let connection = match leader {
            Some(connection) => connection,
            None => {
                let info = self.client.leaders(&self.topic, false).await?;
                let at = usize::try_from(self.partition).unwrap_or(usize::MAX);
                let id = info.leaders.get(at).copied().flatten().ok_or_else(|| {
                    let code = ErrorCode::LeaderNotAvailable.code();
                    ClientError::broker(code, self.what(), None)
                })?;
                leader.insert(self.client.broker(id).await?)
            }
        };
        let request = ProduceRequest {
            acks: self.options.acks.code(),
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: self.topic.clone(),
                partition_data: vec![PartitionProduceData {
                    index: self.partition,
                    records: Some(Records::from(bytes)),
                }],
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        if self.options.acks == Acks::None {
            return connection.send_unanswered(&request, PRODUCE_BY_NAME).await;
        }
        let (answer, _) = connection.send_at_most(&request, PRODUCE_BY_NAME).await?;
        let partition = answer.responses.iter().flat_map(|topic| &topic.partition_responses).next();
        let Some(partition) = partition else {
            return Err(ClientError::broker(-1, self.what(), Some("an answer without partitions")));
        };
        let of_record = partition.record_errors.iter().find_map(|error| {
            let message = error.batch_index_error_message.as_deref()?;
            Some(format!("record {}: {message}", error.batch_index))
        });
        let message = of_record.as_deref().or(partition.error_message.as_deref());
        ClientError::check(partition.error_code, self.what(), message)
    }

    fn what(&self) -> String {
        format!("produce to {}-{}", self.topic, self.partition)
    }
}
