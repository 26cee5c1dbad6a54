//! The short way over the records of nearly every batch.

use crate::records::header::{BatchHeader, TimestampType};
use crate::records::varint;

/// The records of a batch as producers write them: uncompressed, numbered from 0 on, with create times,
/// without headers.
#[derive(Debug)]
pub(super) struct Usual {
    pub(super) count: i32,
    pub(super) first_timestamp_delta: i64,
    pub(super) min_timestamp: i64,
    pub(super) max_timestamp: i64,
    pub(super) all_have_keys: bool,
}

impl Usual {
    /// Passes over the records with as few instructions as checking every byte's place takes. `None`
    /// for all that is unusual, and for all that is wrong: [`walk_plain`](super::walk_plain) tells the two apart.
    pub(super) fn of(header: &BatchHeader, payload: &[u8]) -> Option<Self> {
        if header.record_count <= 0
            || header.attributes.timestamp_type() != TimestampType::CreateTime
        {
            return None;
        }
        let mut usual = Self {
            count: header.record_count,
            first_timestamp_delta: 0,
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            all_have_keys: true,
        };
        let mut at = 0;
        for index in 0..header.record_count {
            let length = usize::try_from(varint::read_i32(payload, &mut at)?).ok()?;
            let body = payload.get(at..)?.get(..length)?;
            at += length;
            let mut within = 1; // the attributes have no meaning
            let delta = varint::read_i64(body, &mut within)?;
            if varint::read_i32(body, &mut within)? != index {
                return None;
            }
            let key = varint::read_i32(body, &mut within)?;
            usual.all_have_keys &= key >= 0;
            within += usize::try_from(key).unwrap_or(0);
            let value = varint::read_i32(body, &mut within)?;
            within += usize::try_from(value).unwrap_or(0);
            // What is left is the number of headers.
            if body.get(within..)? != [0] {
                return None;
            }
            let timestamp = header.timestamp(delta);
            if timestamp < 0 {
                return None;
            }
            if index == 0 {
                usual.first_timestamp_delta = delta;
            }
            usual.min_timestamp = usual.min_timestamp.min(timestamp);
            usual.max_timestamp = usual.max_timestamp.max(timestamp);
        }
        (at == payload.len()).then_some(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RecordError, ValidationRules, Walk, walk_any, walk_plain};
    use super::*;
    use crate::records::{Compression, Header, RecordBatchBuilder};
    use model::Timestamp;
    use proptest::prelude::*;

    type Record = (i64, Option<Vec<u8>>, Option<Vec<u8>>, bool);

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let field =
            |most| proptest::option::weighted(0.7, proptest::collection::vec(0u8..4, 0..most));
        let timestamp = prop_oneof![8 => 900..1_100i64, 1 => Just(-1), 1 => 0..1i64 << 50];
        let record = (timestamp, field(3), field(200), proptest::bool::weighted(0.02));
        proptest::collection::vec(record, 1..150)
    }

    fn payload(records: &[Record]) -> (BatchHeader, Vec<u8>) {
        let mut builder = RecordBatchBuilder::new();
        for (timestamp, key, value, has_header) in records {
            let at = (*timestamp != -1).then_some(Timestamp(*timestamp));
            let header = has_header.then_some(Header { key: b"h", value: None });
            builder.append_with(at, key.as_deref(), value.as_deref(), header).unwrap();
        }
        builder.build_parts().unwrap()
    }

    type Found = (Result<(), String>, i32, bool, i64, i64, Vec<RecordError>);

    fn found(walk: Walk<'_>, result: Result<(), super::super::ValidationError>) -> Found {
        let result = result.map_err(|error| format!("{:?} {error}", error.kind));
        let Walk { index, in_order, first_timestamp_delta, max_timestamp, errors, .. } = walk;
        (result, index, in_order, first_timestamp_delta, max_timestamp, errors)
    }

    fn assert_same(header: &BatchHeader, payload: &[u8], rules: &ValidationRules) {
        let batch_type = header.attributes.timestamp_type();
        let mut general = Walk::new(rules, batch_type);
        let by_general = walk_plain(header, payload, &mut general, |_, _| Ok(()));
        let mut either = Walk::new(rules, batch_type);
        let by_either = walk_any(header, Compression::None, payload, &mut either);
        assert_eq!(found(either, by_either), found(general, by_general));
    }

    proptest! {
        #[test]
        fn the_short_walk_judges_as_the_general_one(
            records in records(),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            cut in 0usize..400, more in -1i32..2, log_append in proptest::bool::weighted(0.1),
            compacted in any::<bool>(), before in prop_oneof![Just(i64::MAX), Just(60), Just(100)],
            after in prop_oneof![Just(i64::MAX), Just(60), Just(100)],
        ) {
            let (mut header, mut payload) = payload(&records);
            for (at, with) in flips {
                let at = at.index(payload.len());
                payload[at] ^= with;
            }
            if cut < 4 {
                payload.truncate(payload.len() - cut.min(payload.len()));
            }
            header.record_count += more;
            if log_append {
                header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
            }
            let rules = ValidationRules {
                compacted, timestamp_before_max_ms: before, timestamp_after_max_ms: after,
                ..ValidationRules::new(Timestamp(1_000))
            };
            assert_same(&header, &payload, &rules);
            assert_same(&header, &payload, &ValidationRules {
                timestamp_type: TimestampType::LogAppendTime, ..rules
            });
        }
    }

    #[test]
    fn what_producers_send_is_usual_and_every_changed_byte_is_judged_the_same() {
        let record = |n: usize| {
            let at = 1_000 + 3 * i64::try_from(n).unwrap();
            (at, n.is_multiple_of(2).then(|| vec![7]), Some(vec![0; 60 + n]), false)
        };
        let records: Vec<Record> = (0..70).map(record).collect();
        let (header, payload) = payload(&records);
        let usual = Usual::of(&header, &payload).unwrap();
        assert_eq!((usual.count, usual.first_timestamp_delta), (70, 0));
        assert_eq!((usual.min_timestamp, usual.max_timestamp), (1_000, 1_207));
        assert!(!usual.all_have_keys);
        let rules = ValidationRules::new(Timestamp(1_000));
        for at in 0..payload.len() {
            for with in [1, 2, 0x40, 0x80, 0xff] {
                let mut changed = payload.clone();
                changed[at] ^= with;
                assert_same(&header, &changed, &rules);
            }
        }
    }
}
