//! What holds across building, framing, iterating, validating and converting.

use super::convert::down_convert;
use super::validate::{Origin, RecordValidation, ValidationRules, check_produce, validate};
use super::*;
use bytes::Bytes;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use proptest::prelude::*;

type OwnedRecord = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>, i64);

fn field() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..40))
}

fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
    let header = (proptest::collection::vec(any::<u8>(), 0..8), field());
    let headers = proptest::collection::vec(header, 0..4);
    let timestamp = prop_oneof![Just(-1), 0..2_000_000_000_000i64, Just(i64::MAX)];
    proptest::collection::vec((field(), field(), headers, timestamp), 1..50)
}

fn codec() -> impl Strategy<Value = Compression> {
    (0u8..5).prop_map(|id| Compression::from_id(id).unwrap())
}

fn fill(mut builder: RecordBatchBuilder, records: &[OwnedRecord]) -> Bytes {
    for (key, value, headers, timestamp) in records {
        let timestamp = (*timestamp != -1).then_some(Timestamp(*timestamp));
        let headers = headers.iter().map(|(key, value)| Header { key, value: value.as_deref() });
        builder.append_with(timestamp, key.as_deref(), value.as_deref(), headers).unwrap();
    }
    builder.build().unwrap()
}

fn read(batch: &Batch<'_>) -> Vec<(i64, OwnedRecord)> {
    let records = batch.records(1 << 30).unwrap();
    let owned = |record: Record<'_>| {
        let headers = record.headers.map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)));
        let timestamp = record.timestamp.map_or(-1, |at| at.0);
        let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
        (record.offset.0, (key, value, headers.collect(), timestamp))
    };
    records.iter().map(|record| owned(record.unwrap())).collect()
}

proptest! {
    #[test]
    fn what_is_built_is_read_again(records in records(), codec in codec(), base in 0..1i64 << 40) {
        let builder = RecordBatchBuilder::new()
            .compression(codec)
            .base_offset(Offset(base))
            .leader_epoch(LeaderEpoch(7))
            .producer(ProducerId(9), ProducerEpoch(3), Some(Sequence(11)))
            .transactional();
        let bytes = fill(builder, &records);
        let mut batches = Batches::new(&bytes);
        let batch = batches.next().unwrap().unwrap();
        prop_assert!(batch.verify() && batches.next().is_none() && batches.incomplete().is_none());
        prop_assert_eq!(batch.header().unwrap().leader_epoch(), Some(LeaderEpoch(7)));
        let expected: Vec<_> = (base..).zip(records).collect();
        prop_assert_eq!(read(&batch), expected);
    }

    /// Whatever the bytes: no panic, and no memory beyond the limit that is passed.
    #[test]
    fn damaged_batches_are_refused_or_read_but_never_panic(
        records in records(), codec in codec(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(), reseal in any::<bool>(), magic in 0u8..3,
    ) {
        let mut bytes = fill(RecordBatchBuilder::new().compression(codec), &records).to_vec();
        if magic < 2 && codec != Compression::Zstd {
            bytes = down_convert(&bytes.into(), magic, Offset(0), usize::MAX, 1 << 20)
                .unwrap().records.to_vec();
        }
        for (at, with) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        if reseal && bytes[16] == 2 && let Ok(header) = BatchHeader::parse(&bytes) {
            let crc = header.compute_crc(&bytes[61..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        let input = Bytes::from(bytes);
        for batch in Batches::new(&input).map_while(Result::ok) {
            let _ = batch.verify();
            if let Ok(records) = batch.records(1 << 20) {
                for record in records.iter().map_while(Result::ok) {
                    let _ = (record.headers.clone().count(), ControlRecord::parse(&record).is_ok());
                }
            }
        }
        let _ = check_produce(9, &input);
        for compression in [None, Some(Compression::None), Some(Compression::Lz4)] {
            let rules = ValidationRules {
                inflate_limit: 1 << 20, compression, ..ValidationRules::new(Timestamp(5))
            };
            let _ = validate(&input, &rules);
        }
        for magic in 0..2 {
            let _ = down_convert(&input, magic, Offset(3), 1 << 20, 1 << 20);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let input = Bytes::from(bytes);
        let batches: Vec<_> = Batches::new(&input).collect();
        prop_assert!(batches.len() <= input.len() / 26 + 1);
        let _ = validate(&input, &ValidationRules::new(Timestamp(0)));
    }

    /// In place means: the payload is the producer's memory, and validation agrees with reading.
    #[test]
    fn a_valid_batch_is_kept_byte_for_byte(records in records(), codec in codec()) {
        let input = fill(RecordBatchBuilder::new().compression(codec), &records);
        let rules = ValidationRules::new(Timestamp(5));
        let validated = validate(&input, &rules).unwrap();
        let batch = validated.batch.as_ref().unwrap();
        prop_assert_eq!(batch.payload.as_ptr(), input[61..].as_ptr());
        prop_assert_eq!(&batch.header.encode()[..], &input[..61]);
        let headers = ValidationRules { validation: RecordValidation::Headers, ..rules };
        prop_assert_eq!(validate(&input, &headers).unwrap(), validated);
    }

    /// Magic 2 to 0 or 1 to 2 again loses headers (and in magic 0 timestamps) and nothing else.
    #[test]
    fn conversion_keeps_keys_values_and_offsets(
        records in records(), codec in codec(), magic in 0u8..2,
    ) {
        prop_assume!(codec != Compression::Zstd);
        let input = fill(RecordBatchBuilder::new().compression(codec), &records);
        let old = down_convert(&input, magic, Offset(0), usize::MAX, 1 << 30).unwrap();
        prop_assert_eq!(old.next_offset, Offset(i64::try_from(records.len()).unwrap()));
        prop_assert_eq!(old.converted_records, records.len());
        let rules = ValidationRules::new(Timestamp(5));
        let new = validate(&old.records, &rules).unwrap();
        prop_assert_eq!(new.converted_records, records.len());
        let batch = new.batch.as_ref().unwrap();
        prop_assert_eq!(batch.header.attributes.compression(), Ok(codec));
        let bytes = [&batch.header.encode()[..], &batch.payload].concat();
        let batch = Batches::new(&bytes).next().unwrap().unwrap();
        prop_assert!(batch.verify());
        let expected: Vec<_> = (0..)
            .zip(records)
            .map(|(offset, (key, value, _, timestamp))| {
                (offset, (key, value, Vec::new(), if magic == 0 { -1 } else { timestamp }))
            })
            .collect();
        prop_assert_eq!(read(&batch), expected);
    }
}

#[test]
fn a_marker_has_the_78_bytes_of_kafkas() {
    let end = EndTransaction { committed: true, coordinator_epoch: 5 };
    let bytes = end.batch(ProducerId(2), ProducerEpoch(1), Timestamp(1000));
    assert_eq!(bytes.len(), 78);
    let batch = Batches::new(&bytes).next().unwrap().unwrap();
    let header = batch.header().unwrap();
    assert_eq!((header.attributes.0, header.base_sequence, header.record_count), (0x30, -1, 1));
    assert_eq!(header.producer().unwrap().base_sequence, None);
    let records = batch.records(0).unwrap();
    let record = records.iter().next().unwrap().unwrap();
    assert_eq!(ControlRecord::parse(&record), Ok(ControlRecord::EndTransaction(end)));
    let rules =
        ValidationRules { origin: Origin::Coordinator, ..ValidationRules::new(Timestamp(1)) };
    assert_eq!(validate(&bytes, &rules).unwrap().batch.unwrap().payload, bytes[61..]);
    assert!(validate(&bytes, &ValidationRules::new(Timestamp(1))).is_err(), "not from clients");
}

#[test]
fn a_cut_batch_says_how_much_it_needs() {
    let bytes = fill(RecordBatchBuilder::new(), &[(None, Some(vec![1; 50]), Vec::new(), 3)]);
    let two = [&bytes[..], &bytes[..40]].concat();
    let mut batches = Batches::new(&two);
    assert_eq!(batches.by_ref().count(), 1);
    let (position, needed) = (bytes.len(), Some(bytes.len()));
    assert_eq!(batches.incomplete(), Some(Incomplete { position, length: 40, needed }));
    let mut batches = Batches::new(&bytes[..11]);
    assert!(batches.next().is_none());
    assert_eq!(batches.incomplete().unwrap().needed, None);
}

#[test]
fn sizes_and_magics_that_cannot_be_end_the_iteration() {
    let mut bytes = fill(RecordBatchBuilder::new(), &[(None, None, Vec::new(), 3)]).to_vec();
    bytes[16] = 3;
    assert!(Batches::new(&bytes).next().unwrap().is_err());
    bytes[16] = 2;
    bytes[8..12].copy_from_slice(&13i32.to_be_bytes());
    assert!(Batches::new(&bytes).next().unwrap().is_err());
    bytes[8..12].copy_from_slice(&(-1i32).to_be_bytes());
    let mut batches = Batches::new(&bytes);
    assert!(batches.next().unwrap().is_err());
    assert!(batches.next().is_none());
}

/// The records of a batch, tampered with, as its bytes with a right checksum.
fn tampered(record_count: i32, records: &[u8]) -> Bytes {
    let bytes = fill(RecordBatchBuilder::new(), &[(None, None, Vec::new(), 3)]);
    let mut header = BatchHeader::parse(&bytes).unwrap();
    header.record_count = record_count;
    header.last_offset_delta = record_count.wrapping_sub(1);
    header.batch_length = i32::try_from(49 + records.len()).unwrap();
    header.crc = header.compute_crc(records);
    [&header.encode()[..], records].concat().into()
}

#[test]
fn every_byte_of_a_record_has_its_place() {
    let good = [14, 0, 0, 0, 1, 2, b'v', 0];
    let rules = ValidationRules::new(Timestamp(0));
    assert!(validate(&tampered(1, &good), &rules).is_ok());
    let cases: [(&str, i32, &[u8]); 11] = [
        ("a negative count", -1, &good),
        ("a huge count", i32::MAX, &good),
        ("more bytes than records", 1, &[&good[..], &[0]].concat()),
        ("a record cut off", 1, &good[..7]),
        ("a negative length", 1, &[1, 0, 0, 0, 1, 2, b'v', 0]),
        ("a longer body than fields", 1, &[16, 0, 0, 0, 1, 2, b'v', 0, 0]),
        ("a shorter body than fields", 1, &[12, 0, 0, 0, 1, 2, b'v', 0]),
        ("a value beyond the record", 1, &[14, 0, 0, 0, 1, 200, b'v', 0]),
        ("headers that are not there", 1, &[14, 0, 0, 0, 1, 2, b'v', 2]),
        ("a negative header count", 1, &[14, 0, 0, 0, 1, 2, b'v', 1]),
        ("a null header key", 1, &[18, 0, 0, 0, 1, 2, b'v', 2, 1, 1]),
    ];
    for (what, count, records) in cases {
        let input = tampered(count, records);
        assert!(validate(&input, &rules).is_err(), "{what}");
        let batch = Batches::new(&input).next().unwrap().unwrap();
        assert!(batch.records(99).unwrap().iter().any(|r| r.is_err()), "{what}");
    }
}
