use super::*;
use crate::records::{Batches, Header, RecordBatchBuilder};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};

const RULES: RetainRules = RetainRules {
    delete_horizon: Timestamp(9_000),
    ends_empty_transaction: false,
    inflate_limit: 1 << 20,
};

fn parse(bytes: &[u8]) -> Batch<'_> {
    let mut batches = Batches::new(bytes);
    let batch = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none() && batches.incomplete().is_none());
    assert!(batch.verify());
    batch
}

/// Offset, timestamp, key, value.
type Seen = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn seen(batch: &Batch<'_>) -> Vec<Seen> {
    let records = batch.records(1 << 20).unwrap();
    let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
    records
        .iter()
        .map(Result::unwrap)
        .map(|r| (r.offset.0, r.timestamp.map_or(-1, |t| t.0), owned(r.key), owned(r.value)))
        .collect()
}

fn batch(codec: Compression, values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new()
        .base_offset(Offset(100))
        .leader_epoch(LeaderEpoch(3))
        .compression(codec)
        .producer(ProducerId(7), ProducerEpoch(2), Some(Sequence(40)));
    for (at, value) in (0..).zip(values) {
        let key = [b'k', u8::try_from(at).unwrap()];
        let header = Header { key: b"h", value: Some(b"x") };
        builder.append_with(Some(Timestamp(1_000 + at)), Some(&key), *value, [header]).unwrap();
    }
    builder.build().unwrap().to_vec()
}

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

#[test]
fn what_is_kept_whole_is_not_touched() {
    for codec in CODECS {
        let bytes = batch(codec, &[Some(b"a"), Some(b"b")]);
        let mut out = b"before".to_vec();
        assert_eq!(retain(&parse(&bytes), &RULES, |_| true, &mut out), Ok(Retained::Unchanged));
        assert_eq!(retain(&parse(&bytes), &RULES, |_| false, &mut out), Ok(Retained::Nothing));
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_batch_keeps_what_the_log_relies_on() {
    for codec in CODECS {
        let bytes = batch(codec, &[Some(b"a"), Some(b"b"), Some(b"c"), Some(b"d")]);
        let before = parse(&bytes);
        let mut out = Vec::new();
        let keep = |record: &Record<'_>| matches!(record.offset.0, 101 | 102);
        assert_eq!(retain(&before, &RULES, keep, &mut out), Ok(Retained::Rewritten));
        let after = parse(&out);
        assert_eq!(seen(&after), seen(&before)[1..3]);
        let expected = BatchHeader {
            batch_length: after.header().unwrap().batch_length,
            crc: after.header().unwrap().crc,
            base_timestamp: 1_001,
            max_timestamp: 1_002,
            record_count: 2,
            ..before.header().unwrap().clone()
        };
        assert_eq!(after.header(), Some(&expected));
        let records = after.records(1 << 20).unwrap();
        assert_eq!(records.iter().next().unwrap().unwrap().headers.len(), 1);
    }
}

#[test]
fn tombstones_get_a_horizon_once() {
    let bytes = batch(Compression::None, &[Some(b"a"), None]);
    let mut out = Vec::new();
    assert_eq!(retain(&parse(&bytes), &RULES, |_| true, &mut out), Ok(Retained::Rewritten));
    let marked = parse(&out);
    assert_eq!(marked.header().unwrap().delete_horizon(), Some(Timestamp(9_000)));
    assert_eq!(seen(&marked), seen(&parse(&bytes)), "the times of the records are as they were");

    let later = RetainRules { delete_horizon: Timestamp(99_000), ..RULES };
    assert_eq!(retain(&marked, &later, |_| true, &mut Vec::new()), Ok(Retained::Unchanged));
    let mut out = Vec::new();
    let keep = |record: &Record<'_>| record.value.is_some();
    assert_eq!(retain(&marked, &later, keep, &mut out), Ok(Retained::Rewritten));
    let rest = parse(&out);
    assert_eq!(rest.header().unwrap().delete_horizon(), Some(Timestamp(9_000)));
    assert_eq!(seen(&rest), seen(&marked)[..1]);

    let empty = empty_batch(rest.header().unwrap());
    let empty = parse(&empty);
    let header = empty.header().unwrap();
    assert_eq!((header.delete_horizon(), header.base_timestamp), (None, -1));
    assert_eq!((header.record_count, header.max_timestamp), (0, 1_000));
    assert_eq!(header.last_sequence(), Some(Sequence(41)));
    assert_eq!(header.last_offset(), Offset(101));
}

#[test]
fn log_append_time_stays() {
    let mut builder = RecordBatchBuilder::new().log_append_time(Timestamp(5_000));
    for value in [Some(&b"a"[..]), None, Some(b"c")] {
        builder.append(Some(Timestamp(1)), Some(b"k"), value).unwrap();
    }
    let bytes = builder.build().unwrap();
    let mut out = Vec::new();
    let keep = |record: &Record<'_>| record.offset.0 > 0;
    assert_eq!(retain(&parse(&bytes), &RULES, keep, &mut out), Ok(Retained::Rewritten));
    let after = parse(&out);
    assert_eq!(after.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(
        seen(&after).iter().map(|s| (s.0, s.1)).collect::<Vec<_>>(),
        [(1, 5_000), (2, 5_000)]
    );
    assert_eq!(after.header().unwrap().delete_horizon(), Some(Timestamp(9_000)));
}

#[test]
fn the_marker_of_an_empty_transaction_gets_a_horizon() {
    let marker = crate::records::EndTransaction { committed: true, coordinator_epoch: 1 };
    let bytes = marker.batch(ProducerId(1), ProducerEpoch(0), Timestamp(77));
    let rules = RetainRules { ends_empty_transaction: true, ..RULES };
    let mut out = Vec::new();
    assert_eq!(retain(&parse(&bytes), &rules, |_| true, &mut out), Ok(Retained::Rewritten));
    let after = parse(&out);
    assert_eq!(after.header().unwrap().delete_horizon(), Some(Timestamp(9_000)));
    assert!(after.is_control());
    assert_eq!(seen(&after), seen(&parse(&bytes)));
}

/// A wrapper of `magic` whose messages have the offsets given.
fn wrapper(magic: u8, stamp: u8, codec: Compression, offsets: &[i64]) -> Vec<u8> {
    let mut set = Vec::new();
    for &offset in offsets {
        let inner = if magic == 0 { offset } else { offset - offsets[0] };
        let value = format!("v{offset}");
        write_message(
            &mut set,
            (magic, 0),
            inner,
            1_000 + offset,
            Some(b"k"),
            Some(value.as_bytes()),
        )
        .unwrap();
    }
    let value = codec.compress(magic, CompressionLevels::DEFAULT, &set).unwrap();
    let mut out = Vec::new();
    let last = *offsets.last().unwrap();
    write_message(&mut out, (magic, stamp | codec.id()), last, 7_000, None, Some(&value)).unwrap();
    out
}

#[test]
fn compressed_message_sets_are_rebuilt_around_what_is_kept() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4] {
        for (magic, stamp) in [(0, 0), (1, 0), (1, 0b1000)] {
            let bytes = wrapper(magic, stamp, codec, &[10, 12, 13, 17]);
            let before = parse(&bytes);
            let mut out = Vec::new();
            let keep = |record: &Record<'_>| matches!(record.offset.0, 12 | 13);
            assert_eq!(retain(&before, &RULES, keep, &mut out), Ok(Retained::Rewritten));
            let after = parse(&out);
            assert_eq!(after.last_offset(), Offset(13));
            assert_eq!(seen(&after), seen(&before)[1..3]);
            let expected = match (magic, stamp) {
                (0, _) => -1,
                (_, 0) => 1_013,
                _ => 7_000,
            };
            assert_eq!(after.max_timestamp().map_or(-1, |t| t.0), expected);
            assert_eq!(retain(&before, &RULES, |_| true, &mut out), Ok(Retained::Unchanged));
        }
    }
}

#[test]
fn damaged_records_change_nothing() {
    let mut bytes = batch(Compression::None, &[Some(b"a"), Some(b"b")]);
    bytes[HEADER_BYTES] = 0x7f;
    let whole = Batches::new(&bytes).next().unwrap().unwrap();
    let mut out = Vec::new();
    assert!(retain(&whole, &RULES, |_| false, &mut out).is_err());
    assert!(out.is_empty());
}
