//! Whether a log gives the answers that are written beside a golden directory.

use crate::read;
use model::{LeaderEpoch, Offset, ProducerId, Timestamp};
use protocol::records::{Batch, Batches};
use serde_json::Value;
use std::collections::BTreeMap;
use storage::{PartitionLog, ReadRequest};

/// Everything but its producers.
pub(crate) fn check(log: &PartitionLog, expected: &Value) {
    assert_eq!(log.log_end_offset(), Offset(number(&expected["log_end_offset"])));
    assert_eq!(log.log_start_offset(), Offset(number(&expected["log_start_offset"])));
    if let Some(id) = expected["topic_id"].as_str() {
        assert_eq!(log.topic_id().unwrap().to_string(), id);
    }
    if let Some(last_stable) = expected["last_stable_offset"].as_i64() {
        assert_eq!(log.last_stable_offset(), Offset(last_stable));
    }
    let seen = check_batches(log, expected);
    check_timestamps(log, &seen);
    check_epochs(log, expected);
    check_read_committed(log, expected);
}

pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// (offset, timestamp, leader epoch) of every record, control records too.
type Seen = Vec<(i64, i64, i32)>;

fn check_batches(log: &PartitionLog, expected: &Value) -> Seen {
    let mut at = log.log_start_offset();
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    while at < log.log_end_offset() {
        let bytes = read(log, at, 1 << 14);
        if bytes.is_empty() {
            break; // compaction left a gap at the end
        }
        for batch in Batches::new(&bytes) {
            let batch: Batch<'_> = batch.unwrap();
            assert!(batch.verify());
            at = batch.last_offset() + 1;
            let header = batch.header();
            found.push((
                header.map(|header| header.base_offset),
                batch.last_offset().0,
                batch.bytes().len(),
                header.map(|header| i64::from(header.crc)),
            ));
            for record in &batch.records(1 << 20).unwrap() {
                let record = record.unwrap();
                let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
                let epoch = header.map_or(-1, |header| header.partition_leader_epoch);
                seen.push((record.offset.0, timestamp, epoch));
            }
        }
    }
    let wanted = expected["batches"].as_array().unwrap().iter().map(|batch| {
        (
            batch.get("base").map(number),
            number(&batch["last"]),
            usize::try_from(number(&batch["bytes"])).unwrap(),
            batch.get("crc").map(number),
        )
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
    // Every offset is found in the first batch that reaches it.
    for offset in log.log_start_offset().0..log.log_end_offset().0 {
        let bytes = read(log, Offset(offset), 1);
        let first = Batches::new(&bytes).next().map(|batch| batch.unwrap().last_offset().0);
        let wanted = found.iter().map(|batch| batch.1).find(|&last| last >= offset);
        assert_eq!(first, wanted, "offset {offset}");
    }
    seen
}

fn check_timestamps(log: &PartitionLog, seen: &Seen) {
    let readable = || seen.iter().filter(|record| record.0 >= log.log_start_offset().0);
    let mut asked = readable().map(|record| record.1).filter(|&time| time >= 0).collect::<Vec<_>>();
    asked.extend(asked.clone().iter().flat_map(|time| [time - 1, time + 1]));
    for time in asked {
        let found = log.offset_for_timestamp(Timestamp(time)).unwrap().map(|found| {
            (found.offset.0, found.timestamp.0, found.leader_epoch.map_or(-1, |epoch| epoch.0))
        });
        assert_eq!(found, readable().find(|record| record.1 >= time).copied(), "time {time}");
    }
    let largest = seen.iter().map(|record| record.1).max().filter(|&largest| largest >= 0);
    let found =
        log.offset_of_max_timestamp().unwrap().map(|found| (found.timestamp.0, found.offset.0));
    let wanted = largest.map(|largest| {
        (largest, seen.iter().find(|record| record.1 == largest).expect("it is one of them").0)
    });
    assert_eq!(found, wanted);
}

fn check_epochs(log: &PartitionLog, expected: &Value) {
    let end = log.log_end_offset().0;
    let epochs = expected["leader_epochs"].as_array().cloned().unwrap_or_default();
    let epochs = epochs.iter().map(|entry| (number(&entry[0]), number(&entry[1])));
    // One that starts at the log end has no records, and is dropped when a log is opened.
    let epochs = epochs.filter(|entry| entry.1 < end).collect::<Vec<_>>();
    for offset in log.log_start_offset().0..end {
        let wanted = epochs.iter().rfind(|entry| entry.1 <= offset).map(|entry| entry.0);
        let found = log.epoch_for_offset(Offset(offset)).map(|epoch| i64::from(epoch.0));
        assert_eq!(found, wanted, "offset {offset}");
    }
    for (at, (epoch, _)) in epochs.iter().enumerate() {
        let wanted = epochs.get(at + 1).map_or(end, |next| next.1);
        let epoch = LeaderEpoch(i32::try_from(*epoch).unwrap());
        assert_eq!(log.end_offset_for_epoch(epoch).unwrap().end_offset, Offset(wanted));
    }
}

pub(crate) fn check_producers(log: &PartitionLog, expected: &Value) {
    let snapshots = expected["snapshots"].as_object().cloned().unwrap_or_default();
    let newest = snapshots.iter().max_by_key(|entry| entry.0.parse::<i64>().unwrap());
    let wanted = newest.map_or(Vec::new(), |entry| entry.1.as_array().unwrap().clone());
    let some = |value: &Value| Some(number(value)).filter(|&value| value >= 0);
    let mut wanted = wanted
        .iter()
        .map(|p| {
            (
                number(&p["producer_id"]),
                number(&p["epoch"]),
                some(&p["last_sequence"]),
                number(&p["timestamp"]),
                some(&p["coordinator_epoch"]),
                some(&p["current_txn_first_offset"]),
            )
        })
        .collect::<Vec<_>>();
    wanted.sort_unstable();
    let found = log.producers().into_iter().map(|p| {
        (
            p.producer_id.0,
            i64::from(p.epoch.0),
            p.last_sequence.map(|sequence| i64::from(sequence.0)),
            p.last_timestamp.0,
            p.coordinator_epoch.map(i64::from),
            p.current_transaction_first_offset.map(|offset| offset.0),
        )
    });
    assert_eq!(found.collect::<Vec<_>>(), wanted);
}

/// What a `read_committed` consumer makes of one large fetch.
fn check_read_committed(log: &PartitionLog, expected: &Value) {
    let Some(wanted) = expected["read_committed_offsets"].as_array() else { return };
    let mut at = log.log_start_offset();
    let mut delivered = Vec::new();
    let mut aborting = BTreeMap::<ProducerId, Offset>::new();
    while at < log.last_stable_offset() {
        let request = ReadRequest {
            offset: at,
            max_bytes: 300,
            min_one_message: true,
            upper_bound: log.last_stable_offset(),
            want_aborted: true,
        };
        let read = log.read(request).unwrap();
        let mut aborted = read.aborted_transactions.unwrap();
        aborted.sort_by_key(|aborted| aborted.first_offset);
        let bytes = read.records.into_bytes().unwrap();
        let before = at;
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            at = batch.last_offset() + 1;
            let id = ProducerId(batch.header().map_or(-1, |header| header.producer_id));
            while aborted.first().is_some_and(|first| first.first_offset <= batch.last_offset()) {
                let first = aborted.remove(0);
                aborting.insert(first.producer_id, first.first_offset);
            }
            if batch.is_control() {
                aborting.remove(&id);
            } else if !(batch.is_transactional() && aborting.contains_key(&id)) {
                for record in &batch.records(1 << 20).unwrap() {
                    let offset = record.unwrap().offset;
                    if offset >= before.max(log.log_start_offset()) {
                        delivered.push(offset.0);
                    }
                }
            }
        }
        if at == before {
            break;
        }
    }
    assert_eq!(delivered, wanted.iter().map(number).collect::<Vec<_>>());
}
