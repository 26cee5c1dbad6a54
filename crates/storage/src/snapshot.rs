//! Producer snapshots (`<offset>.snapshot`): the producer state after every record below the offset.
//!
//! `version i16 = 1 | crc u32 | count i32`, then 46 bytes per producer: `id i64 | epoch i16 | last
//! sequence i32 | last offset i64 | offset delta i32 | timestamp i64 | coordinator epoch i32 |
//! transaction first offset i64`. CRC-32C of everything after it. Only the last batch of a producer
//! is kept: after a restart older retries are out of order instead of duplicates, as with Kafka.

use crate::producer_state::{ProducerState, RememberedBatch};
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use model::{Offset, ProducerId, Timestamp};
use protocol::messages::ProducerSnapshot;
use protocol::messages::producer_snapshot::ProducerEntry;
use protocol::{Message, Reader};
use std::time::Duration;

const VERSION: i16 = 1;
/// Where the checksum ends; it covers all that follows.
const CRC_END: usize = 6;
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
    bytes.extend_from_slice(&VERSION.to_be_bytes());
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
    let crc = crc(&bytes[CRC_END..]).to_be_bytes();
    bytes[2..CRC_END].copy_from_slice(&crc);
    bytes
}

/// Bytes of a snapshot of so many producers.
pub(crate) fn encoded_bytes(producers: usize) -> usize {
    HEAD_BYTES + producers * ENTRY_BYTES
}

/// The producers in a snapshot, in the file's order; -1 stands where something is absent.
///
/// # Errors
/// What is wrong with the file, in words.
pub(crate) fn producers(bytes: &[u8]) -> Result<Vec<ProducerEntry>, &'static str> {
    const SHORT: &str = "it is shorter than it says";
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    if reader.i16().map_err(|_| SHORT)? != VERSION {
        return Err("its version is not 1");
    }
    let covered = bytes.get(CRC_END..).ok_or(SHORT)?;
    if bytes[2..CRC_END] != crc(covered).to_be_bytes() {
        return Err("its checksum is wrong");
    }
    let snapshot = ProducerSnapshot::decode(&mut reader, VERSION).map_err(|_| SHORT)?;
    Ok(snapshot.producer_entries)
}

/// The state in a snapshot, less expired producers; `None` if it is damaged or of another version.
pub(crate) fn decode(bytes: &[u8], now: Timestamp, expiration: Duration) -> Option<ProducerState> {
    let mut state = ProducerState::default();
    for read in producers(bytes).ok()? {
        let first = read.current_txn_first_offset;
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
        state.load(ProducerId(read.producer_id), producer, batch, now, expiration);
    }
    Some(state)
}
