//! Record batches and message sets.

#![expect(clippy::cast_possible_truncation, reason = "a CRC-32 has 32 bits")]

use super::Input;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use model::{LeaderEpoch, Offset, Timestamp};
use protocol::records::convert::down_convert;
use protocol::records::validate::{Origin, RecordValidation, ValidationRules, validate};
use protocol::records::{
    Batches, Compression, ControlRecord, Record, RetainRules, Retained, TimestampType, retain,
};

/// What a batch may inflate to here.
pub(super) const INFLATE_LIMIT: usize = 1 << 20;

/// Where a batch's length, format and checksum stand, and what the checksum covers.
const LENGTH: usize = 8;
const OVERHEAD: usize = 12;
const MAGIC: usize = 16;
const CHECKSUM: usize = 17;
const CHECKED: usize = 21;

/// `bytes` with the checksums of its batches made right.
pub(super) fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(length) = bytes.get(at + LENGTH..at + OVERHEAD) {
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        let Some(end) = usize::try_from(length).ok().and_then(|l| l.checked_add(at + OVERHEAD))
        else {
            break;
        };
        if end > bytes.len() || end <= at + CHECKED {
            break;
        }
        let (from, sum) = match bytes[at + MAGIC] {
            // The sum has 32 bits.
            2 => (CHECKSUM, checksum(CrcAlgorithm::Crc32Iscsi, &bytes[at + CHECKED..end]) as u32),
            _ => (OVERHEAD, crc32fast::hash(&bytes[at + MAGIC..end])),
        };
        bytes[at + from..at + from + 4].copy_from_slice(&sum.to_be_bytes());
        at = end;
    }
    bytes
}

pub(super) fn batches(input: &[u8]) {
    let mut input = Input(input);
    let how = input.u8();
    let bytes = match how & 1 {
        0 => with_checksums(input.0),
        _ => input.0.to_vec(),
    };
    let mut out = Vec::new();
    for batch in Batches::new(&bytes) {
        let Ok(batch) = batch else { break };
        let _ = (batch.verify(), batch.base_offset(), batch.last_offset(), batch.max_timestamp());
        if let Ok(records) = batch.records(INFLATE_LIMIT) {
            for record in &records {
                let Ok(record) = record else { break };
                if batch.is_control() {
                    let _ = ControlRecord::parse(&record);
                }
            }
        }
        let rules = RetainRules {
            delete_horizon: Timestamp(i64::from(how)),
            ends_empty_transaction: how & 2 != 0,
            inflate_limit: INFLATE_LIMIT,
        };
        let mut turn = how;
        let keep = |_: &Record<'_>| {
            turn = turn.rotate_left(1);
            turn & 1 == 0
        };
        let before = out.len();
        let retained = retain(&batch, &rules, keep, &mut out);
        assert!(
            retained == Ok(Retained::Rewritten) || out.len() == before,
            "{retained:?} and bytes were written"
        );
        if retained == Ok(Retained::Rewritten) {
            for written in Batches::new(&out[before..]) {
                let written = written.unwrap_or_else(|error| panic!("rewritten so that {error}"));
                assert!(written.verify(), "rewritten with a wrong checksum");
                let records = written.records(32 * INFLATE_LIMIT);
                let records = records.unwrap_or_else(|error| panic!("rewritten so that {error}"));
                for record in &records {
                    record.unwrap_or_else(|error| panic!("rewritten so that {error}"));
                }
            }
        }
        out.truncate(before);
    }
    let bytes = Bytes::from(bytes);
    let from = Offset(i64::from(how >> 2));
    for magic in 0..=1 {
        let _ = down_convert(&bytes, magic, from, INFLATE_LIMIT, INFLATE_LIMIT);
    }
}

pub(super) fn produce(input: &[u8]) {
    let mut input = Input(input);
    let (how, codec) = (input.u8(), input.u8());
    let rules = ValidationRules {
        origin: if how & 1 == 0 { Origin::Client } else { Origin::Coordinator },
        compression: match codec % 6 {
            5 => None,
            code => Compression::from_id(code).ok(),
        },
        timestamp_type: match how & 2 {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        },
        compacted: how & 4 != 0,
        validation: match how & 8 {
            0 => RecordValidation::Full,
            _ => RecordValidation::Headers,
        },
        inflate_limit: INFLATE_LIMIT,
        ..ValidationRules::new(Timestamp(1_700_000_000_000))
    };
    let is_full = rules.validation == RecordValidation::Full;
    let bytes = Bytes::from(with_checksums(input.0));
    let Ok(validated) = validate(&bytes, &rules) else { return };
    let Some(mut batch) = validated.batch else { return };
    let mut appended = batch.assign(Offset(1 << 40), LeaderEpoch(7)).to_vec();
    appended.extend_from_slice(&batch.payload);
    let mut found = Batches::new(&appended);
    let again = found.next().unwrap_or_else(|| panic!("what is appended holds no batch"));
    let again = again.unwrap_or_else(|error| panic!("what is appended cannot be read: {error}"));
    assert!(again.verify(), "what is appended has a wrong checksum");
    assert!(found.next().is_none(), "what is appended holds more than a batch");
    if is_full {
        let limit = INFLATE_LIMIT.max(32 * bytes.len());
        let records = again.records(limit);
        let records = records.unwrap_or_else(|error| panic!("what is appended: {error}"));
        for record in &records {
            record.unwrap_or_else(|error| panic!("what is appended: {error}"));
        }
    }
}
