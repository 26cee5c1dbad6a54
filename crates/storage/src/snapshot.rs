//! Producer snapshots (`<offset>.snapshot`): the producer state after every record below the offset.
//!
//! `version i16 = 1 | crc u32 | count i32`, then 46 bytes per producer: `id i64 | epoch i16 | last
//! sequence i32 | last offset i64 | offset delta i32 | timestamp i64 | coordinator epoch i32 |
//! transaction first offset i64`. CRC-32C of everything after it. Only the last batch of a producer
//! is kept: after a restart older retries are out of order instead of duplicates, as with Kafka.

use crate::producer_state::{ProducerState, RememberedBatch};
use crc_fast::{CrcAlgorithm, checksum};
use model::{Offset, ProducerId, Timestamp};
use std::time::Duration;

const HEAD_BYTES: usize = 10;
const ENTRY_BYTES: usize = 46;

fn crc(bytes: &[u8]) -> u32 {
    u32::try_from(checksum(CrcAlgorithm::Crc32Iscsi, bytes)).expect("a 32-bit checksum")
}

/// The bytes of a snapshot.
pub(crate) fn encode(state: &ProducerState) -> Vec<u8> {
    let producers = state.iter();
    let count = i32::try_from(producers.len()).expect("fewer than 2^31 producers fit in memory");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + producers.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&1i16.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&count.to_be_bytes());
    for (id, producer) in producers {
        let none = RememberedBatch { last_sequence: -1, last_offset: -1, ..Default::default() };
        let last = producer.last_batch().copied().unwrap_or(none);
        bytes.extend_from_slice(&id.0.to_be_bytes());
        bytes.extend_from_slice(&producer.epoch.to_be_bytes());
        bytes.extend_from_slice(&last.last_sequence.to_be_bytes());
        bytes.extend_from_slice(&last.last_offset.to_be_bytes());
        bytes.extend_from_slice(&last.offset_delta.to_be_bytes());
        bytes.extend_from_slice(&producer.last_timestamp.to_be_bytes());
        bytes.extend_from_slice(&producer.coordinator_epoch.to_be_bytes());
        let first = producer.transaction_first_offset.map_or(-1, |offset| offset.0);
        bytes.extend_from_slice(&first.to_be_bytes());
    }
    let crc = crc(&bytes[6..]).to_be_bytes();
    bytes[2..6].copy_from_slice(&crc);
    bytes
}

/// Bytes of a snapshot of so many producers.
pub(crate) fn encoded_bytes(producers: usize) -> usize {
    HEAD_BYTES + producers * ENTRY_BYTES
}

/// One producer in a snapshot, field by field; -1 where something is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotProducer {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub epoch: i16,
    /// The last sequence of its last batch.
    pub last_sequence: i32,
    /// The last offset of its last batch.
    pub last_offset: i64,
    /// Last offset less first offset of that batch.
    pub offset_delta: i32,
    /// The largest timestamp of that batch, or its marker's.
    pub timestamp: i64,
    /// The coordinator epoch of its last marker.
    pub coordinator_epoch: i32,
    /// Where its open transaction starts.
    pub transaction_first_offset: i64,
}

/// The producers in a snapshot, in the file's order.
///
/// # Errors
/// What is wrong with the file, in words.
pub(crate) fn producers(bytes: &[u8]) -> Result<Vec<SnapshotProducer>, &'static str> {
    const SHORT: &str = "it is shorter than it says";
    fn number<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], &'static str> {
        let field = bytes.get(*at..).and_then(|rest| rest.first_chunk()).ok_or(SHORT)?;
        *at += N;
        Ok(*field)
    }
    let mut at = 0;
    if i16::from_be_bytes(number(bytes, &mut at)?) != 1 {
        return Err("its version is not 1");
    }
    if u32::from_be_bytes(number(bytes, &mut at)?) != crc(&bytes[at..]) {
        return Err("its checksum is wrong");
    }
    let count = i32::from_be_bytes(number(bytes, &mut at)?);
    let mut producers = Vec::new();
    for _ in 0..count {
        producers.push(SnapshotProducer {
            producer_id: ProducerId(i64::from_be_bytes(number(bytes, &mut at)?)),
            epoch: i16::from_be_bytes(number(bytes, &mut at)?),
            last_sequence: i32::from_be_bytes(number(bytes, &mut at)?),
            last_offset: i64::from_be_bytes(number(bytes, &mut at)?),
            offset_delta: i32::from_be_bytes(number(bytes, &mut at)?),
            timestamp: i64::from_be_bytes(number(bytes, &mut at)?),
            coordinator_epoch: i32::from_be_bytes(number(bytes, &mut at)?),
            transaction_first_offset: i64::from_be_bytes(number(bytes, &mut at)?),
        });
    }
    Ok(producers)
}

/// The state in a snapshot, less expired producers; `None` if it is damaged or of another version.
pub(crate) fn decode(bytes: &[u8], now: Timestamp, expiration: Duration) -> Option<ProducerState> {
    let mut state = ProducerState::default();
    for read in producers(bytes).ok()? {
        let first = read.transaction_first_offset;
        let producer = ProducerState::bare(
            read.epoch,
            read.coordinator_epoch,
            read.timestamp,
            (first >= 0).then_some(Offset(first)),
        );
        let batch = RememberedBatch {
            last_sequence: read.last_sequence,
            last_offset: read.last_offset,
            offset_delta: read.offset_delta,
            timestamp: read.timestamp,
        };
        let batch = (read.last_offset >= 0).then_some(batch);
        state.load(read.producer_id, producer, batch, now, expiration);
    }
    Some(state)
}
