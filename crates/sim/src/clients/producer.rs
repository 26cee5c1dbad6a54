//! A producer: batches of records that nobody else sends.
//!
//! An idempotent one sends a batch that was not answered again, until it is or until the answer says that this
//! is of no use; now and then it sends up to four one after the other first, and each of them again after that. The
//! others send each record once, one batch at a time.

use super::ClientContext;
use super::cluster::{BY_NAME, Cluster};
use crate::history::{RecordId, Seen};
use crate::plan::TOPIC;
use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Sequence};
use platform::{Clock, Random};
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{InitProducerIdRequest, ProduceRequest};
use protocol::records::RecordBatchBuilder;
use protocol::{ErrorCode, Records};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

/// What a producer is like.
#[derive(Clone, Copy, Debug)]
pub struct ProducerSettings {
    /// Its number; part of the names of its records.
    pub number: u32,
    /// 0, 1, or -1 for all in-sync replicas.
    pub acks: i16,
    /// Whether records are sent again, and appear once all the same.
    pub is_idempotent: bool,
    /// The longest pause between two batches.
    pub pause: Duration,
}

/// A producer's stamp, and the next sequence of each partition.
#[derive(Debug, Default)]
struct Identity {
    id: Option<(i64, i16)>,
    sequences: BTreeMap<i32, i32>,
}

/// What became of a batch.
enum Outcome {
    Acked(i64),
    Refused(ErrorCode),
    /// It may have been appended.
    Unknown,
    /// It was not sent.
    NotSent,
}

/// After these a batch is not sent again, and its producer goes on with another id.
const FATAL: [ErrorCode; 3] = [
    ErrorCode::OutOfOrderSequenceNumber,
    ErrorCode::UnknownProducerId,
    ErrorCode::InvalidProducerEpoch,
];

/// A batch and the records in it.
struct Batch {
    bytes: Bytes,
    records: Vec<RecordId>,
}

/// Sends records while the history says so.
pub async fn produce(context: ClientContext, settings: ProducerSettings) {
    let mut cluster = Cluster::new(context.clone());
    let mut identity = Identity::default();
    let mut next: u64 = 0;
    loop {
        cluster.pause(settings.pause).await;
        if !context.history.is_producing() {
            continue;
        }
        if settings.is_idempotent && identity.id.is_none() {
            let Some(id) = init(&mut cluster).await else { continue };
            identity = Identity { id: Some(id), sequences: BTreeMap::new() };
        }
        let partition = cluster.any_partition();
        let mut batch = |identity: &mut Identity| {
            let count = 1 + context.random.below(3);
            let first = (u64::from(settings.number) << 32) | next;
            let records: Vec<RecordId> = (first..first + count).collect();
            next += count;
            let sequence = identity.sequences.entry(partition).or_default();
            let bytes = encoded(&context, &records, identity.id.map(|id| (id, *sequence)));
            *sequence += i32::try_from(count).expect("few");
            Batch { bytes, records }
        };
        if !settings.is_idempotent {
            let batch = batch(&mut identity);
            send_once(&mut cluster, settings, partition, &batch).await;
            continue;
        }
        // Of a producer of which a log knows nothing any batch may be the first: then the others would come too late.
        let is_known = identity.sequences.contains_key(&partition);
        let goes_ahead = is_known && context.random.below(3) == 0;
        let count = 1 + if goes_ahead { context.random.below(4) } else { 0 };
        let batches: Vec<Batch> = (0..count).map(|_| batch(&mut identity)).collect();
        let begun = context.scheduler.elapsed();
        if count > 1 {
            send_together(&mut cluster, settings, partition, &batches).await;
        }
        for batch in &batches {
            let first_sent = (count > 1).then_some(begun);
            if !send_until_acked(&mut cluster, settings, partition, batch, first_sent).await {
                identity.id = None;
                break;
            }
        }
    }
}

/// Sends a batch and takes note of what becomes of it.
async fn send_once(
    cluster: &mut Cluster,
    settings: ProducerSettings,
    partition: i32,
    batch: &Batch,
) {
    let history = cluster.context.history.clone();
    let sent_at = cluster.context.scheduler.elapsed();
    let (acks, records) = (settings.acks, batch.records.clone());
    match send(cluster, settings, partition, batch.bytes.clone()).await {
        Outcome::Acked(offset) => {
            history.push(Seen::Acked { partition, offset, records, acks, sent_at });
        }
        Outcome::Refused(code) => {
            history.refused(code.code());
            cluster.forget_leader(partition);
            if code == ErrorCode::NotEnoughReplicas {
                history.push(Seen::Refused { partition, records });
            }
        }
        Outcome::Unknown => history.unknown(),
        Outcome::NotSent => {}
    }
}

/// Sends batches one after the other without waiting for answers, and does not heed those: they are all sent again. The
/// leader has to tell that from new records.
async fn send_together(
    cluster: &mut Cluster,
    settings: ProducerSettings,
    partition: i32,
    batches: &[Batch],
) {
    let Some(leader) = cluster.leader(partition).await else { return };
    let Ok(connection) = cluster.connection(leader).await else {
        return cluster.forget(leader);
    };
    let requests: Vec<_> =
        batches.iter().map(|batch| request(settings, partition, batch.bytes.clone())).collect();
    for request in &requests[..requests.len() - 1] {
        // It is on its way once it was polled; nobody waits for its answer, which comes before the last one's.
        let mut sending = std::pin::pin!(connection.send_at_most(request, BY_NAME));
        drop(poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await);
    }
    if let Some(last) = requests.last()
        && connection.send_at_most(last, BY_NAME).await.is_err()
    {
        cluster.forget(leader);
    }
}

/// Sends a batch until it is acknowledged. False if that is of no use any more.
async fn send_until_acked(
    cluster: &mut Cluster,
    settings: ProducerSettings,
    partition: i32,
    batch: &Batch,
    first_sent: Option<Duration>,
) -> bool {
    let history = cluster.context.history.clone();
    let sent_at = first_sent.unwrap_or_else(|| cluster.context.scheduler.elapsed());
    let mut sends = u32::from(first_sent.is_some());
    loop {
        match send(cluster, settings, partition, batch.bytes.clone()).await {
            Outcome::Acked(offset) => {
                if sends > 0 {
                    history.repeated();
                }
                let (acks, records) = (settings.acks, batch.records.clone());
                history.push(Seen::Acked { partition, offset, records, acks, sent_at });
                return true;
            }
            Outcome::Refused(code) => {
                sends += 1;
                history.refused(code.code());
                cluster.forget_leader(partition);
                if FATAL.contains(&code) {
                    let (record, code) = (batch.records[0], code.code());
                    history.push(Seen::OutOfOrder { partition, record, code });
                    return false;
                }
            }
            Outcome::Unknown => {
                sends += 1;
                history.unknown();
            }
            Outcome::NotSent => {}
        }
        cluster.pause(Duration::from_millis(300)).await;
    }
}

async fn init(cluster: &mut Cluster) -> Option<(i64, i16)> {
    let broker = cluster.leader(0).await?;
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let response = cluster.ask(broker, &request).await?;
    cluster.context.history.refused(response.error_code);
    if response.error_code != 0 {
        return None;
    }
    let (id, epoch) = (response.producer_id, response.producer_epoch);
    cluster.context.history.push(Seen::ProducerId { id, epoch });
    Some((id, epoch))
}

fn encoded(
    context: &ClientContext,
    records: &[RecordId],
    stamp: Option<((i64, i16), i32)>,
) -> Bytes {
    let mut builder = RecordBatchBuilder::new();
    if let Some(((id, epoch), sequence)) = stamp {
        builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), Some(Sequence(sequence)));
    }
    let timestamp = context.scheduler.clock().timestamp();
    for record in records {
        let mut value = record.to_be_bytes().to_vec();
        value.resize(8 + usize::try_from(context.random.below(200)).expect("small"), b'.');
        builder.append(Some(timestamp), None, Some(&value)).expect("a small record");
    }
    builder.build().expect("small records")
}

fn request(settings: ProducerSettings, partition: i32, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData { index: partition, records: Some(Records::from(batch)) };
    let topic =
        TopicProduceData { name: TOPIC.into(), partition_data: vec![data], ..Default::default() };
    ProduceRequest {
        acks: settings.acks,
        timeout_ms: 4_000,
        topic_data: vec![topic],
        ..Default::default()
    }
}

async fn send(
    cluster: &mut Cluster,
    settings: ProducerSettings,
    partition: i32,
    batch: Bytes,
) -> Outcome {
    let Some(leader) = cluster.leader(partition).await else { return Outcome::NotSent };
    let Ok(connection) = cluster.connection(leader).await else {
        cluster.forget(leader);
        return Outcome::NotSent;
    };
    let request = request(settings, partition, batch);
    if settings.acks == 0 {
        if connection.send_unanswered(&request, BY_NAME).await.is_err() {
            cluster.forget(leader);
        }
        return Outcome::Unknown;
    }
    let Ok((response, _)) = connection.send_at_most(&request, BY_NAME).await else {
        cluster.forget(leader);
        return Outcome::Unknown;
    };
    let answer = response.responses.first().and_then(|topic| topic.partition_responses.first());
    match answer {
        Some(answer) if answer.error_code == 0 => Outcome::Acked(answer.base_offset),
        Some(answer) => {
            let code = ErrorCode::from_code(answer.error_code);
            Outcome::Refused(code.unwrap_or(ErrorCode::UnknownServerError))
        }
        None => Outcome::Unknown,
    }
}
