//! A producer: batches of records that nobody else sends, one at a time.
//!
//! An idempotent one sends a batch that was not answered again, until it is or until the answer says that this
//! is of no use; the others send each record once.

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
        let count = 1 + context.random.below(3);
        let first = (u64::from(settings.number) << 32) | next;
        let records: Vec<RecordId> = (first..first + count).collect();
        next += count;
        let sequence = identity.sequences.get(&partition).copied().unwrap_or(0);
        let batch = batch(&context, &records, identity.id.map(|id| (id, sequence)));
        let sent_at = context.scheduler.elapsed();
        let mut sends = 0;
        loop {
            match send(&mut cluster, settings, partition, batch.clone()).await {
                Outcome::Acked(offset) => {
                    if sends > 0 {
                        context.history.repeated();
                    }
                    let acks = settings.acks;
                    context.history.push(Seen::Acked { partition, offset, records, acks, sent_at });
                    let sent = i32::try_from(count).expect("few");
                    identity.sequences.insert(partition, sequence + sent);
                    break;
                }
                Outcome::Refused(code) => {
                    sends += 1;
                    context.history.refused(code.code());
                    cluster.forget_leader(partition);
                    if code == ErrorCode::NotEnoughReplicas && !settings.is_idempotent {
                        context.history.push(Seen::Refused { partition, records });
                        break;
                    }
                    if FATAL.contains(&code) {
                        identity.id = None;
                        break;
                    }
                }
                Outcome::Unknown => {
                    sends += 1;
                    context.history.unknown();
                }
                Outcome::NotSent => {}
            }
            if !settings.is_idempotent {
                break;
            }
            cluster.pause(Duration::from_millis(300)).await;
        }
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
    (response.error_code == 0).then_some((response.producer_id, response.producer_epoch))
}

fn batch(context: &ClientContext, records: &[RecordId], stamp: Option<((i64, i16), i32)>) -> Bytes {
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
    let data = PartitionProduceData { index: partition, records: Some(Records::from(batch)) };
    let topic =
        TopicProduceData { name: TOPIC.into(), partition_data: vec![data], ..Default::default() };
    let request = ProduceRequest {
        acks: settings.acks,
        timeout_ms: 4_000,
        topic_data: vec![topic],
        ..Default::default()
    };
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
