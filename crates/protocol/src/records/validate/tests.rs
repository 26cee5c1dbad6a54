use super::*;
use ValidationErrorKind::*;

const NOW: i64 = 1_000_000;

fn rules() -> ValidationRules {
    ValidationRules::new(Timestamp(NOW))
}

/// A batch of records (key, timestamp) with value `v`.
fn batch(builder: RecordBatchBuilder, records: &[(Option<&str>, i64)]) -> Bytes {
    let mut builder = builder;
    for (key, timestamp) in records {
        let at = (*timestamp != -1).then_some(Timestamp(*timestamp));
        builder.append(at, key.map(str::as_bytes), Some(b"v")).unwrap();
    }
    builder.build().unwrap()
}

fn plain() -> Bytes {
    batch(RecordBatchBuilder::new(), &[(Some("a"), 10), (Some("b"), 30), (Some("c"), 20)])
}

/// `bytes` with a header changed and a right checksum.
fn with(bytes: &Bytes, change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut header = BatchHeader::parse(bytes).unwrap();
    change(&mut header);
    header.crc = header.compute_crc(&bytes[HEADER_BYTES..]);
    [&header.encode()[..], &bytes[HEADER_BYTES..]].concat().into()
}

fn kind(input: &Bytes, rules: &ValidationRules) -> ValidationErrorKind {
    validate(input, rules).unwrap_err().kind
}

fn only(validated: Validated) -> ValidatedBatch {
    let batch = validated.batch.unwrap();
    let crc = batch.header.compute_crc(&batch.payload);
    assert_eq!(batch.header.crc, crc, "the checksum that goes to disk is right");
    assert_eq!(batch.header.size_bytes(), HEADER_BYTES + batch.payload.len());
    batch
}

#[test]
fn headers_that_clients_may_not_send_are_refused() {
    type Change = fn(&mut BatchHeader);
    let cases: [(&str, Change); 8] = [
        ("base offset", |h| h.base_offset = 1),
        ("count below offsets", |h| h.record_count = 2),
        ("count above offsets", |h| h.last_offset_delta = 1),
        ("no records", |h| (h.record_count, h.last_offset_delta) = (0, -1)),
        ("offsets below zero", |h| h.last_offset_delta = -5),
        ("control", |h| h.attributes = h.attributes.with_control(true)),
        ("no sequence", |h| (h.producer_id, h.producer_epoch) = (5, 0)),
        ("count and offsets overflow", |h| {
            (h.record_count, h.last_offset_delta) = (i32::MIN, i32::MAX);
        }),
    ];
    for (what, change) in cases {
        for validation in [RecordValidation::Full, RecordValidation::Headers] {
            let rules = ValidationRules { validation, ..rules() };
            assert_eq!(kind(&with(&plain(), change), &rules), InvalidRecord, "{what}");
        }
    }
    let unknown = with(&plain(), |h| h.attributes = Attributes(6));
    assert_eq!(kind(&unknown, &rules()), UnknownServerError);
}

#[test]
fn a_wrong_checksum_is_corrupt_and_a_large_batch_too_large() {
    let mut bytes = plain().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(kind(&bytes.into(), &rules()), CorruptMessage);
    let exact = ValidationRules { max_message_bytes: plain().len(), ..rules() };
    assert!(validate(&plain(), &exact).is_ok());
    let less = ValidationRules { max_message_bytes: plain().len() - 1, ..rules() };
    assert_eq!(kind(&plain(), &less), MessageTooLarge);
}

#[test]
fn a_cut_tail_is_dropped_and_nothing_is_no_error() {
    let bytes = plain();
    let longer: Bytes = [&bytes[..], &bytes[..20]].concat().into();
    assert_eq!(only(validate(&longer, &rules()).unwrap()).payload, bytes[61..]);
    for nothing in [Bytes::new(), bytes.slice(..60)] {
        assert_eq!(validate(&nothing, &rules()), Ok(Validated::default()));
    }
    let two: Bytes = [&bytes[..], &bytes].concat().into();
    assert_eq!(kind(&two, &rules()), InvalidRecord);
}

#[test]
fn a_wrong_max_timestamp_is_corrected() {
    let wrong = with(&plain(), |h| h.max_timestamp = 99);
    let batch = only(validate(&wrong, &rules()).unwrap());
    assert_eq!(batch.header.max_timestamp, 30);
    assert_eq!(batch.payload.as_ptr(), wrong[61..].as_ptr(), "still in place");
}

#[test]
fn log_append_time_stamps_the_batch() {
    let rules = ValidationRules { timestamp_type: TimestampType::LogAppendTime, ..rules() };
    for validation in [RecordValidation::Full, RecordValidation::Headers] {
        let rules = ValidationRules { validation, ..rules.clone() };
        for target in [None, Some(Compression::Gzip)] {
            let rules = ValidationRules { compression: target, ..rules.clone() };
            let validated = validate(&plain(), &rules).unwrap();
            assert_eq!(validated.log_append_time, Some(Timestamp(NOW)));
            let batch = only(validated);
            assert_eq!(batch.header.attributes.timestamp_type(), TimestampType::LogAppendTime);
            assert_eq!(batch.header.max_timestamp, NOW);
        }
        let claims = with(&plain(), |h| {
            h.attributes = h.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        });
        let error = validate(&claims, &rules).unwrap_err();
        assert_eq!(error.kind, InvalidTimestamp, "only the broker may say so");
        assert_eq!(error.record_errors[0].refusal, Refusal::TimestampType);
    }
}

#[test]
fn create_times_must_be_near_and_every_bad_record_is_named() {
    let rules =
        ValidationRules { timestamp_before_max_ms: 100, timestamp_after_max_ms: 50, ..rules() };
    let limits = [(None, NOW - 100), (None, NOW + 50), (None, -1)];
    assert!(validate(&batch(RecordBatchBuilder::new(), &limits), &rules).is_ok());
    let bad = [(None, NOW - 101), (None, NOW), (None, NOW + 51)];
    for codec in [Compression::None, Compression::Zstd] {
        let input = batch(RecordBatchBuilder::new().compression(codec), &bad);
        let error = validate(&input, &rules).unwrap_err();
        assert_eq!(error.kind, InvalidTimestamp);
        let indexes: Vec<_> = error.record_errors.iter().map(|e| e.batch_index).collect();
        assert_eq!(indexes, [0, 2]);
        let headers = ValidationRules { validation: RecordValidation::Headers, ..rules.clone() };
        assert_eq!(kind(&input, &headers), InvalidTimestamp);
    }
}

#[test]
fn a_compacted_topic_refuses_the_batch_of_a_keyless_record() {
    for validation in [RecordValidation::Full, RecordValidation::Headers] {
        for codec in [Compression::None, Compression::Lz4] {
            let rules = ValidationRules { compacted: true, validation, ..rules() };
            let builder = RecordBatchBuilder::new().compression(codec);
            let input = batch(builder.clone(), &[(Some("k"), 1), (None, 2), (Some(""), 3)]);
            let error = validate(&input, &rules).unwrap_err();
            assert_eq!(error.kind, InvalidRecord);
            let expected = RecordError { batch_index: 1, refusal: Refusal::NullKey };
            assert_eq!(error.record_errors, [expected]);
            assert!(validate(&batch(builder, &[(Some(""), 3)]), &rules).is_ok());
        }
    }
}

#[test]
fn the_topics_codec_wins_and_producer_fields_survive() {
    let builder = RecordBatchBuilder::new()
        .producer(ProducerId(4), ProducerEpoch(2), Some(Sequence(8)))
        .transactional();
    let input = batch(builder.compression(Compression::Gzip), &[(Some("a"), 5), (None, 9)]);
    for target in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let rules = ValidationRules { compression: Some(target), ..rules() };
        let batch = only(validate(&input, &rules).unwrap());
        assert_eq!(batch.header.attributes.compression(), Ok(target));
        assert!(batch.header.attributes.is_transactional());
        let stamp = batch.header.producer().unwrap();
        assert_eq!((stamp.id.0, stamp.epoch.0, stamp.base_sequence), (4, 2, Some(Sequence(8))));
        assert_eq!((batch.header.base_timestamp, batch.header.max_timestamp), (5, 9));
        assert_eq!((batch.header.last_offset_delta, batch.header.record_count), (1, 2));
    }
    let same = ValidationRules { compression: Some(Compression::Gzip), ..rules() };
    let kept = only(validate(&input, &same).unwrap());
    assert_eq!(kept.payload.as_ptr(), input[61..].as_ptr(), "levels do not count");
}

#[test]
fn recoding_gives_what_rebuilding_would_and_wrong_deltas_are_rebuilt() {
    let records = [(Some("a"), 50), (None, 20), (Some("c"), 90)];
    let input = batch(RecordBatchBuilder::new().compression(Compression::Zstd), &records);
    for target in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4] {
        let rules = ValidationRules { compression: Some(target), ..rules() };
        let header = BatchHeader::parse(&input).unwrap();
        let recoded = only(validate(&input, &rules).unwrap());
        let rebuilt = rebuild(&header, &input[61..], target, &rules).unwrap();
        assert_eq!(recoded, rebuilt, "{target}");
    }
    // A base timestamp that is not the first record's: all deltas change.
    let rules = ValidationRules { compression: Some(Compression::None), ..rules() };
    let mut records = Vec::new();
    let none = EncodedHeaders::default();
    super::super::record::write_record(&mut records, -5, 0, None, Some(b"v"), none);
    let payload = Compression::Lz4.compress(2, CompressionLevels::DEFAULT, &records).unwrap();
    let shifted = RecordBatchBuilder::new().compression(Compression::Lz4);
    let mut header = BatchHeader::parse(&batch(shifted, &[(None, 50)])).unwrap();
    header.batch_length = i32::try_from(49 + payload.len()).unwrap();
    header.crc = header.compute_crc(&payload);
    let input = [&header.encode()[..], &payload].concat().into();
    let rebuilt = only(validate(&input, &rules).unwrap());
    assert_eq!((rebuilt.header.base_timestamp, rebuilt.header.max_timestamp), (45, 45));
    assert_eq!(RawRecord::take(&rebuilt.payload, &mut 0).unwrap().timestamp_delta, 0);
}

#[test]
fn a_batch_may_inflate_in_proportion_or_up_to_the_limit() {
    let rules = ValidationRules { inflate_limit: 100, ..rules() };
    let sizes = |value: &[u8]| {
        let mut builder = RecordBatchBuilder::new().compression(Compression::Zstd);
        builder.append(None, None, Some(value)).unwrap();
        validate(&builder.build().unwrap(), &rules).map(|_| ()).map_err(|error| error.kind)
    };
    assert_eq!(sizes(&[7; 50]), Ok(()));
    assert_eq!(sizes(&[7; 50_000]), Err(MessageTooLarge));
    let mixed: Vec<u8> =
        (0..50_000u32).map(|i| (i.wrapping_mul(i) >> 7).to_le_bytes()[0]).collect();
    assert_eq!(sizes(&mixed), Ok(()), "large, but so is what was received");
}

#[test]
fn a_rebuilt_batch_must_fit_again() {
    let mut builder = RecordBatchBuilder::new().compression(Compression::Zstd);
    builder.append(None, None, Some(&[0; 10_000])).unwrap();
    let rules = ValidationRules {
        compression: Some(Compression::None),
        max_message_bytes: 5000,
        ..rules()
    };
    assert_eq!(kind(&builder.build().unwrap(), &rules), MessageTooLarge);
}

#[test]
fn compressed_records_that_are_not_numbered_from_0_are_refused_or_renumbered() {
    let mut records = Vec::new();
    for delta in [3, 3] {
        super::super::record::write_record(
            &mut records,
            0,
            delta,
            None,
            Some(b"v"),
            EncodedHeaders::default(),
        );
    }
    let payload = Compression::Gzip.compress(2, CompressionLevels::DEFAULT, &records).unwrap();
    let input = batch(RecordBatchBuilder::new().compression(Compression::Gzip), &[(None, 1); 2]);
    let mut header = BatchHeader::parse(&input).unwrap();
    header.batch_length = i32::try_from(49 + payload.len()).unwrap();
    header.crc = header.compute_crc(&payload);
    let input: Bytes = [&header.encode()[..], &payload].concat().into();
    assert_eq!(kind(&input, &rules()), UnknownServerError, "Kafka cannot rebuild it");
    let recoded = ValidationRules { compression: Some(Compression::Lz4), ..rules() };
    let batch = only(validate(&input, &recoded).unwrap());
    let plain = Compression::Lz4.decompress(2, &batch.payload, 999).unwrap();
    let mut at = 0;
    let deltas = [0, 1].map(|_| RawRecord::take(&plain, &mut at).unwrap().offset_delta);
    assert_eq!(deltas, [0, 1]);
}

#[test]
fn compressed_records_across_chunks_are_checked_too() {
    let mut builder = RecordBatchBuilder::new().compression(Compression::Zstd);
    let header = super::super::Header { key: b"h", value: Some(&[1; 40_000]) };
    for size in [1, 70_000, 200_000, 65_000, 3] {
        builder.append_with(Some(Timestamp(5)), None, Some(&vec![7; size]), [header; 3]).unwrap();
    }
    let input = builder.build().unwrap();
    assert!(validate(&input, &rules()).is_ok());
    let low = ValidationRules { inflate_limit: 300_000, ..rules() };
    assert_eq!(kind(&input, &low), MessageTooLarge);
    let recoded = ValidationRules { compression: Some(Compression::Snappy), ..rules() };
    let snappy = only(validate(&input, &recoded).unwrap());
    let plain = Compression::Snappy.decompress(2, &snappy.payload, 1 << 20).unwrap();
    assert_eq!(Ok(plain), Compression::Zstd.decompress(2, &input[61..], 1 << 20));
    let fewer = with(&input, |h| (h.record_count, h.last_offset_delta) = (4, 3));
    assert_eq!(kind(&fewer, &rules()), InvalidRecord);
    let more = with(&input, |h| (h.record_count, h.last_offset_delta) = (6, 5));
    assert_eq!(kind(&more, &rules()), InvalidRecord);
}

#[test]
fn old_message_sets_become_one_v2_batch() {
    for (log, magic) in [
        (&include_bytes!("../../../tests/golden/records/old0.log")[..], 0),
        (include_bytes!("../../../tests/golden/records/old1.log"), 1),
    ] {
        let input = Bytes::copy_from_slice(log);
        // On disk: five plain messages, then two compressed sets, which go in requests of their own.
        let ends: Vec<_> = Batches::new(&input).map(|b| b.unwrap()).map(|b| b.position()).collect();
        let plain = validate(&input.slice(..ends[5]), &rules()).unwrap();
        assert_eq!(plain.converted_records, 5);
        assert_eq!(only(plain).header.attributes.compression(), Ok(Compression::None));
        assert_eq!(kind(&input, &rules()), InvalidRecord, "a compressed set is alone");
        let snappy = validate(&input.slice(ends[5]..ends[6]), &rules()).unwrap();
        assert_eq!(snappy.converted_records, 4);
        let batch = only(snappy);
        assert_eq!(batch.header.attributes.compression(), Ok(Compression::Snappy));
        assert_eq!(batch.header.max_timestamp == -1, magic == 0);
        assert_eq!(batch.header.last_offset_delta, 3);
        let lz4 = validate(&input.slice(ends[6]..), &rules()).unwrap();
        assert_eq!(only(lz4).header.attributes.compression(), Ok(Compression::Lz4));
        let mut wrong = input.slice(..ends[1]).to_vec();
        wrong[30] ^= 1;
        assert_eq!(kind(&wrong.into(), &rules()), CorruptMessage);
    }
}

/// Codes that Kafka 4.3.1 gave for the same bytes.
#[test]
fn blocks_that_cannot_be_inflated_have_kafkas_code() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let good = batch(RecordBatchBuilder::new().compression(codec), &[(None, 1), (None, 2)]);
        let header = BatchHeader::parse(&good).unwrap();
        let with = |payload: &[u8]| {
            let mut header = header.clone();
            header.batch_length = i32::try_from(49 + payload.len()).unwrap();
            header.crc = header.compute_crc(payload);
            let input = [&header.encode()[..], payload].concat().into();
            validate(&input, &rules()).map(|_| ()).map_err(|error| error.kind)
        };
        let payload = &good[61..];
        let garbage: Vec<_> = payload.iter().map(|byte| byte ^ 0x55).collect();
        assert_eq!(with(&garbage), Err(UnknownServerError), "{codec}");
        assert_eq!(with(&payload[..payload.len() - 6]), Err(UnknownServerError), "{codec} cut");
        let empty = if codec == Compression::Zstd { InvalidRecord } else { UnknownServerError };
        assert_eq!(with(&[]), Err(empty), "{codec}, nothing");
        let more = [payload, &[9, 9]].concat();
        let trailing = if codec == Compression::Zstd { Err(UnknownServerError) } else { Ok(()) };
        assert_eq!(with(&more), trailing, "{codec} and more");
    }
}

#[test]
fn produce_versions_decide_what_may_be_sent() {
    let v2 = plain();
    let zstd = batch(RecordBatchBuilder::new().compression(Compression::Zstd), &[(None, 1)]);
    let old = include_bytes!("../../../tests/golden/records/old1.log");
    let two = [&v2[..], &v2].concat();
    let kind = |version, records| check_produce(version, records).err().map(|error| error.kind);
    assert_eq!(kind(2, &old[..]), None);
    assert_eq!(kind(3, &old[..]), Some(InvalidRecord));
    let mut disguised = v2.to_vec();
    disguised[16] = 1;
    assert_eq!(kind(3, &disguised), Some(InvalidRecord), "the magic is looked at first");
    assert_eq!(kind(3, &v2), None);
    assert_eq!(kind(3, &[]), Some(InvalidRecord));
    assert_eq!(kind(9, &two), Some(InvalidRecord));
    assert_eq!(kind(6, &zstd), Some(UnsupportedCompressionType));
    assert_eq!(kind(7, &zstd), None);
}

#[test]
fn a_coordinator_numbers_as_it_likes() {
    let rules = ValidationRules { origin: Origin::Coordinator, ..rules() };
    let input = with(&plain(), |h| (h.base_offset, h.partition_leader_epoch) = (7, 3));
    let mut batch = only(validate(&input, &rules).unwrap());
    assert_eq!((batch.header.base_offset, batch.header.partition_leader_epoch), (0, -1));
    let bytes = batch.assign(Offset(40), model::LeaderEpoch(6));
    assert!(BatchHeader::parse(&bytes).unwrap().verify(&[&bytes[..], &batch.payload].concat()));
}
