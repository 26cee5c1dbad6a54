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
        let count = u64::try_from(header.record_count).ok()?;
        let mut found = Found { index: 0, least_delta: i64::MAX, largest_delta: i64::MIN };
        let (mut first_timestamp_delta, mut all_have_keys) = (0, true);
        let (mut rest, mut size, mut in_a_row) = (payload, 0, 0);
        while found.index < count {
            let record = Record::at_start_of(rest, found.index)?;
            if found.index == 0 {
                first_timestamp_delta = record.timestamp_delta;
            }
            found.add(record.timestamp_delta);
            all_have_keys &= record.has_key;
            rest = &rest[record.bytes.len()..];
            in_a_row = if record.bytes.len() == size { in_a_row + 1 } else { 0 };
            size = record.bytes.len();
            if in_a_row >= WORTH_A_SHAPE
                && let Some(shape) = Shape::of(&record)
            {
                rest = shape.pass(rest, count, &mut found);
            }
        }
        // Of additions that wrap around none that is in between can be told.
        let min_timestamp = header.base_timestamp.checked_add(found.least_delta)?;
        let max_timestamp = header.base_timestamp.checked_add(found.largest_delta)?;
        (rest.is_empty() && min_timestamp >= 0).then_some(Self {
            count: header.record_count,
            first_timestamp_delta,
            min_timestamp,
            max_timestamp,
            all_have_keys,
        })
    }
}

/// So many records of one size in a row, and more of them are worth looking for.
const WORTH_A_SHAPE: u32 = 3;

/// What was found so far.
struct Found {
    /// How many records: the number of the next.
    index: u64,
    least_delta: i64,
    largest_delta: i64,
}

impl Found {
    #[inline]
    fn add(&mut self, timestamp_delta: i64) {
        self.index += 1;
        self.least_delta = self.least_delta.min(timestamp_delta);
        self.largest_delta = self.largest_delta.max(timestamp_delta);
    }
}

/// A usual record, and where what is in it starts.
struct Record<'a> {
    /// From its length to its number of headers.
    bytes: &'a [u8],
    timestamp_delta: i64,
    has_key: bool,
    /// The attributes are in the byte before.
    timestamp_at: usize,
    offset_at: usize,
    key_at: usize,
    value_at: usize,
    value_from: usize,
}

impl<'a> Record<'a> {
    #[inline]
    fn at_start_of(rest: &'a [u8], index: u64) -> Option<Self> {
        let mut at = 0;
        let length = usize::try_from(varint::read_i32(rest, &mut at)?).ok()?;
        let bytes = rest.get(..at + length)?;
        let timestamp_at = at + 1; // the attributes have no meaning
        at = timestamp_at;
        let timestamp_delta = varint::read_i64(bytes, &mut at)?;
        let offset_at = at;
        if u64::try_from(varint::read_i32(bytes, &mut at)?) != Ok(index) {
            return None;
        }
        let key_at = at;
        let key = varint::read_i32(bytes, &mut at)?;
        at += usize::try_from(key).unwrap_or(0);
        let value_at = at;
        let value = varint::read_i32(bytes, &mut at)?;
        let value_from = at;
        at += usize::try_from(value).unwrap_or(0);
        // What is left is the number of headers.
        if bytes.get(at..)? != [0] {
            return None;
        }
        let has_key = key >= 0;
        Some(Self {
            bytes,
            timestamp_delta,
            has_key,
            timestamp_at,
            offset_at,
            key_at,
            value_at,
            value_from,
        })
    }
}

/// What records of one size share with the one before: their first eight bytes but for attributes,
/// timestamp and offset, and the length of the value. One is known to be usual by a comparison, and the
/// next is found without waiting for the length of this.
struct Shape {
    size: usize,
    /// Where `head` has to be the same: the lengths of record and key, the offset, and the ends of both
    /// variable-length numbers between them.
    head_mask: u64,
    head: u64,
    timestamp_shift: usize,
    is_timestamp_wide: bool,
    offset_shift: usize,
    is_offset_wide: bool,
    value_at: usize,
    value_mask: u32,
    value: u32,
}

impl Shape {
    fn of(record: &Record<'_>) -> Option<Self> {
        let bits = |bytes: usize| 8 * bytes;
        let Record { bytes, timestamp_at, offset_at, key_at, value_at, value_from, .. } = *record;
        let (timestamp_bytes, offset_bytes) = (offset_at - timestamp_at, key_at - offset_at);
        let value_bytes = value_from - value_at;
        if key_at >= 8 || timestamp_bytes > 2 || offset_bytes > 2 || value_bytes > 3 {
            return None;
        }
        // A longer length of the key goes on in the next byte.
        if bytes[key_at] >= 0x80 {
            return None;
        }
        let head = u64::from_le_bytes(*bytes.first_chunk()?);
        let value = u32::from_le_bytes(*bytes.get(value_at..)?.first_chunk()?);
        let is_timestamp_wide = timestamp_bytes == 2;
        let length = (1 << bits(timestamp_at - 1)) - 1;
        let timestamp = if is_timestamp_wide { 0x8080 } else { 0x80 };
        let same = length | timestamp << bits(timestamp_at) | 0xff << bits(key_at);
        let is_offset_wide = offset_bytes == 2;
        let offset = if is_offset_wide { 0xffff } else { 0xff };
        let value_mask = (1 << bits(value_bytes)) - 1;
        Some(Self {
            size: bytes.len(),
            head_mask: same | offset << bits(offset_at),
            head: head & same,
            timestamp_shift: bits(timestamp_at),
            is_timestamp_wide,
            offset_shift: bits(offset_at),
            is_offset_wide,
            value_at,
            value_mask,
            value: value & value_mask,
        })
    }

    /// Passes over the records of this shape at the start of `rest`, up to number `count`; returns what
    /// follows them.
    fn pass<'a>(&self, mut rest: &'a [u8], count: u64, found: &mut Found) -> &'a [u8] {
        // Later offsets are wider.
        let count = count.min(if self.is_offset_wide { 1 << 13 } else { 1 << 6 });
        let mut previous = None;
        while found.index < count
            && let Some((record, after)) = rest.split_at_checked(self.size)
            && let (Some(head), Some(value), Some(0)) =
                (record.first_chunk(), record[self.value_at..].first_chunk(), record.last())
        {
            let raw_offset = 2 * found.index;
            let offset = if self.is_offset_wide {
                raw_offset & 0x7f | 0x80 | raw_offset >> 7 << 8
            } else {
                raw_offset
            };
            let (head, value) = (u64::from_le_bytes(*head), u32::from_le_bytes(*value));
            if head & self.head_mask != self.head | offset << self.offset_shift
                || value & self.value_mask != self.value
            {
                break;
            }
            let raw = head >> self.timestamp_shift;
            let raw =
                if self.is_timestamp_wide { raw & 0x7f | raw >> 1 & 0x3f80 } else { raw & 0x7f };
            if previous.replace(raw) == Some(raw) {
                found.index += 1;
            } else {
                found.add(varint::zigzag_i64(raw));
            }
            rest = after;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RecordError, ValidationRules, Walk, walk_any, walk_plain};
    use super::*;
    use crate::records::{Compression, Header, RecordBatchBuilder};
    use model::Timestamp;
    use proptest::prelude::*;

    type Sent = (i64, Option<Vec<u8>>, Option<Vec<u8>>, bool);

    fn records() -> impl Strategy<Value = Vec<Sent>> {
        let field =
            |most| proptest::option::weighted(0.7, proptest::collection::vec(0u8..4, 0..most));
        let timestamp = prop_oneof![8 => 900..1_100i64, 1 => Just(-1), 1 => 0..1i64 << 50];
        let record = (timestamp, field(3), field(200), proptest::bool::weighted(0.02));
        let any = proptest::collection::vec(record, 1..150);
        prop_oneof![any, alike()]
    }

    /// Records of one size or nearly, as metrics are.
    fn alike() -> impl Strategy<Value = Vec<Sent>> {
        let steps = proptest::collection::vec(prop_oneof![6 => 0..3i64, 1 => 0..9_000i64], 1..150);
        let odd_one = (any::<prop::sample::Index>(), 0usize..3);
        (steps, proptest::option::of(0usize..3), 0usize..150, odd_one).prop_map(
            |(steps, key, value, (odd, more))| {
                let (mut at, odd) = (1_000, odd.index(steps.len()));
                let record = |(n, step)| {
                    at += step;
                    let value = value + if n == odd { more } else { 0 };
                    (at, key.map(|len| vec![7; len]), Some(vec![1; value]), false)
                };
                steps.into_iter().enumerate().map(record).collect()
            },
        )
    }

    fn payload(records: &[Sent]) -> (BatchHeader, Vec<u8>) {
        let mut builder = RecordBatchBuilder::new();
        for (timestamp, key, value, has_header) in records {
            let at = (*timestamp != -1).then_some(Timestamp(*timestamp));
            let header = has_header.then_some(Header { key: b"h", value: None });
            builder.append_with(at, key.as_deref(), value.as_deref(), header).unwrap();
        }
        builder.build_parts().unwrap()
    }

    type Judgement = (Result<(), String>, i32, bool, i64, i64, Vec<RecordError>);

    fn found(walk: Walk<'_>, result: Result<(), super::super::ValidationError>) -> Judgement {
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
        let key = |has_key: bool| has_key.then(|| vec![7]);
        let growing = |n: usize| (key(n.is_multiple_of(2)), 60 + n);
        let of_one_size = |_| (None, 60);
        let of_one_size_with_keys = |_| (key(true), 20);
        /// Key, and the value's size, of the record with that number.
        type Shape<'a> = &'a dyn Fn(usize) -> (Option<Vec<u8>>, usize);
        let shapes: [(Shape<'_>, bool); 3] =
            [(&growing, false), (&of_one_size, false), (&of_one_size_with_keys, true)];
        for (shape, all_have_keys) in shapes {
            let record = |n: usize| {
                let (key, value) = shape(n);
                (1_000 + 3 * i64::try_from(n).unwrap(), key, Some(vec![0; value]), false)
            };
            let records: Vec<Sent> = (0..70).map(record).collect();
            let (header, payload) = payload(&records);
            let usual = Usual::of(&header, &payload).unwrap();
            assert_eq!((usual.count, usual.first_timestamp_delta), (70, 0));
            assert_eq!((usual.min_timestamp, usual.max_timestamp), (1_000, 1_207));
            assert_eq!(usual.all_have_keys, all_have_keys);
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

    #[test]
    fn records_of_one_size_are_passed_by_their_shape_to_the_end() {
        let record = |n: i64| (1_000 + n / 50, None, Some(vec![0; 100]), false);
        let records: Vec<Sent> = (0..9_000).map(record).collect();
        let (header, payload) = payload(&records);
        let usual = Usual::of(&header, &payload).unwrap();
        assert_eq!((usual.min_timestamp, usual.max_timestamp), (1_000, 1_179));
        let mut rest = payload.as_slice();
        rest = &rest[Record::at_start_of(rest, 0).unwrap().bytes.len()..];
        let record = Record::at_start_of(rest, 1).unwrap();
        let shape = Shape::of(&record).unwrap();
        let mut found = Found { index: 1, least_delta: 0, largest_delta: 0 };
        let after = shape.pass(rest, 9_000, &mut found);
        assert_eq!(found.index, 64, "then offsets take two bytes");
        assert_eq!(payload.len() - after.len(), 64 * record.bytes.len());
    }
}
