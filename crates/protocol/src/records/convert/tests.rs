use super::super::{EndTransaction, LegacyMessage, RecordBatchBuilder};
use super::*;
use model::{ProducerEpoch, ProducerId, Timestamp};

fn batch(codec: Compression, base: i64) -> Bytes {
    let mut builder = RecordBatchBuilder::new().compression(codec).base_offset(Offset(base));
    for value in [b"a", b"b", b"c"] {
        builder.append(Some(Timestamp(5)), None, Some(value)).unwrap();
    }
    builder.build().unwrap()
}

fn messages(records: &[u8]) -> Vec<LegacyMessage<'_>> {
    let batches = Batches::new(records).map(|batch| batch.unwrap());
    batches.map(|batch| *batch.legacy().unwrap()).collect()
}

#[test]
fn fetch_versions_have_their_magic() {
    assert_eq!([0, 1, 2, 3, 4, 17].map(fetch_magic), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn plain_records_below_the_fetch_offset_are_left_out() {
    let converted =
        down_convert(&batch(Compression::None, 10), 1, Offset(11), 1 << 20, 1 << 20).unwrap();
    let offsets: Vec<_> = messages(&converted.records).iter().map(|m| m.offset).collect();
    assert_eq!(offsets, [11, 12]);
    assert_eq!(converted.next_offset, Offset(13));
}

#[test]
fn a_compressed_set_has_the_last_offset_outside_and_relative_ones_inside() {
    for magic in 0..2 {
        let converted =
            down_convert(&batch(Compression::Lz4, 10), magic, Offset(11), 1 << 20, 1 << 20)
                .unwrap();
        let [wrapper] = messages(&converted.records)[..] else { panic!("one wrapper") };
        assert!(wrapper.verify());
        assert_eq!((wrapper.offset, wrapper.key), (12, None));
        let set = wrapper.inflate(999).unwrap();
        let inner: Vec<_> = messages(&set).iter().map(|m| m.offset).collect();
        assert_eq!(inner, if magic == 0 { [10, 11, 12] } else { [0, 1, 2] });
    }
}

#[test]
fn the_first_batch_is_whole_and_of_later_ones_what_fits_is_sent() {
    let two: Bytes = [batch(Compression::None, 0), batch(Compression::None, 3)].concat().into();
    let count = |input: &Bytes, max_bytes| {
        let converted = down_convert(input, 1, Offset(0), max_bytes, 1 << 20).unwrap();
        (messages(&converted.records).len(), converted.records.len())
    };
    let one = count(&two, 1).1 / 3;
    assert_eq!(count(&two, 1), (3, 3 * one));
    assert_eq!(count(&two, 4 * one - 1), (3, 3 * one));
    assert_eq!(count(&two, 4 * one), (4, 4 * one));
    assert_eq!(count(&two, 6 * one), (6, 6 * one));
    let set: Bytes = [batch(Compression::None, 0), batch(Compression::Gzip, 3)].concat().into();
    assert_eq!(count(&set, 3 * one + 20), (3, 3 * one), "a set is sent whole or not at all");
}

#[test]
fn a_message_set_compressed_with_zstd_is_an_invalid_record() {
    let gzip = down_convert(&batch(Compression::Gzip, 0), 1, Offset(0), 1 << 20, 1 << 20).unwrap();
    let mut set = gzip.records.to_vec();
    // After offset, length, CRC and magic: attributes.
    set[17] = Compression::Zstd.id();
    let [message] = messages(&set)[..] else { panic!("one wrapper") };
    assert!(matches!(message.compression(), Err(RecordsError::Invalid(_))));
}

#[test]
fn control_batches_are_left_out_and_zstd_has_no_old_number() {
    let end = EndTransaction { committed: true, coordinator_epoch: 1 };
    let marker = end.batch(ProducerId(1), ProducerEpoch(0), Timestamp(1));
    let only = down_convert(&marker, 1, Offset(0), 1 << 20, 1 << 20).unwrap();
    assert_eq!((only.records, only.next_offset), (Bytes::new(), Offset(1)));
    let zstd = batch(Compression::Zstd, 1);
    let behind: Bytes = [&marker[..], &zstd].concat().into();
    let error = down_convert(&behind, 1, Offset(0), 1 << 20, 1 << 20).unwrap_err();
    assert!(matches!(error, RecordsError::Codec(_)));
    let after: Bytes = [&batch(Compression::None, 0)[..], &zstd].concat().into();
    let before = down_convert(&after, 1, Offset(0), 1 << 20, 1 << 20).unwrap();
    assert_eq!((messages(&before.records).len(), before.next_offset), (3, Offset(3)));
}

#[test]
fn nothing_comes_of_a_cut_batch_and_old_ones_are_copied() {
    let cut = batch(Compression::None, 0).slice(..70);
    let nothing = down_convert(&cut, 0, Offset(0), 1 << 20, 9).unwrap();
    assert_eq!((nothing.records.len(), nothing.next_offset), (0, Offset(0)));
    let old = Bytes::from_static(include_bytes!("../../../tests/golden/records/old0.log"));
    assert_eq!(down_convert(&old, 1, Offset(0), 1 << 20, 9).unwrap().records, old);
}

#[test]
fn conversion_stops_at_the_size_but_not_before_the_first_batch() {
    let two: Bytes =
        [&batch(Compression::None, 0)[..], &batch(Compression::None, 3)].concat().into();
    let one = down_convert(&two, 1, Offset(0), 1, 9).unwrap();
    assert_eq!((messages(&one.records).len(), one.next_offset), (3, Offset(3)));
}
