//! The records of `__consumer_offsets` that classic groups need, byte for byte as Kafka writes them.
//!
//! Key: i16 type, then fixed-width fields. Value: i16 version, then that version's fields; none is a tombstone.
//! Written: keys 1 and 2; offset values v3, v1 with an expiry time of the client's (OffsetCommit v2 to v4), v4 with a
//! topic id (OffsetCommit v10); group values v3. Read: every version there is. Source: `OffsetCommitKey.json`,
//! `OffsetCommitValue.json`, `GroupMetadataKey.json`, `GroupMetadataValue.json` of Kafka 3.9 and 4.4.

use crate::offsets::CommittedOffset;
use bytes::{BufMut, Bytes};
use model::{Offset, Timestamp, TopicId, TopicName};
use std::sync::Arc;

/// A record of a kind that classic groups have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A committed offset, or its removal.
    Offset {
        /// The group.
        group: Arc<str>,
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: i32,
        /// None removes it.
        value: Option<CommittedOffset>,
    },
    /// A group's metadata, or its removal.
    Group {
        /// The group.
        group: Arc<str>,
        /// None removes it.
        value: Option<GroupMetadata>,
    },
}

/// A generation of a group with its assignment, or with no members at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMetadata {
    /// Such as `consumer`; empty if not known.
    pub protocol_type: Arc<str>,
    /// Counts rebalances.
    pub generation: i32,
    /// The protocol that was chosen.
    pub protocol: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// When the group came to its state; None in records before v2.
    pub state_timestamp: Option<Timestamp>,
    /// Every member.
    pub members: Vec<MemberMetadata>,
}

/// A member as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMetadata {
    /// Its id.
    pub id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// Its client id.
    pub client_id: Arc<str>,
    /// Its address, as Java prints one: `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// Milliseconds.
    pub rebalance_timeout: i32,
    /// Milliseconds.
    pub session_timeout: i32,
    /// Its metadata for the chosen protocol.
    pub subscription: Bytes,
    /// What the leader gave it.
    pub assignment: Bytes,
}

/// The record is of no kind or version that Kafka has, or its bytes end early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end within a field.
    #[error("the record is cut short or holds text that is not UTF-8")]
    Malformed,
    /// A version of the value that this code has never heard of: newer software wrote here.
    #[error("value version {version} of record type {kind} is not known")]
    UnknownVersion {
        /// The type, from the key.
        kind: i16,
        /// The version, from the value.
        version: i16,
    },
}

/// A key, borrowed from the log: loading looks groups up without copying their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Types 0 and 1.
    Offset {
        /// The group.
        group: &'a str,
        /// The topic.
        topic: &'a str,
        /// The partition.
        partition: i32,
    },
    /// Type 2.
    Group {
        /// The group.
        group: &'a str,
    },
    /// A type that other software uses: skipped, and never removed.
    Other {
        /// The type.
        kind: i16,
    },
}

impl<'a> Key<'a> {
    /// Reads a key.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the bytes end early.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut fields = Fields(bytes);
        Ok(match fields.i16()? {
            0 | 1 => Self::Offset {
                group: fields.text()?,
                topic: fields.text()?,
                partition: fields.i32()?,
            },
            2 => Self::Group { group: fields.text()? },
            kind => Self::Other { kind },
        })
    }
}

/// Reads the value of an offset record.
///
/// # Errors
/// [`RecordError`] if it is cut short or of an unknown version.
pub fn decode_offset(bytes: &[u8], appended_at: Offset) -> Result<CommittedOffset, RecordError> {
    let mut fields = Fields(bytes);
    let version = fields.i16()?;
    if !(0..=4).contains(&version) {
        return Err(RecordError::UnknownVersion { kind: 1, version });
    }
    let flexible = version >= 4;
    let offset = fields.i64()?;
    let leader_epoch = if version >= 3 { Some(fields.i32()?) } else { None };
    let metadata =
        if flexible { fields.compact_text()?.unwrap_or_default() } else { fields.text()? };
    let metadata = if metadata.is_empty() { None } else { Some(Arc::from(metadata)) };
    let commit_timestamp = Timestamp(fields.i64()?);
    let expire_timestamp = if version == 1 { Some(fields.i64()?) } else { None };
    let mut topic_id = None;
    if flexible {
        fields.tags(|tag, mut value| {
            if tag == 0 {
                topic_id = Some(TopicId(value.array()?)).filter(|id| id.0 != [0; 16]);
            }
            Ok(())
        })?;
    }
    Ok(CommittedOffset {
        offset,
        leader_epoch: leader_epoch.filter(|&epoch| epoch >= 0),
        metadata,
        commit_timestamp,
        expire_timestamp: expire_timestamp.filter(|&t| t != -1).map(Timestamp),
        topic_id,
        appended_at,
    })
}

/// Reads the value of a group record.
///
/// # Errors
/// [`RecordError`] if it is cut short or of an unknown version.
pub fn decode_group(bytes: &[u8]) -> Result<GroupMetadata, RecordError> {
    let mut fields = Fields(bytes);
    let version = fields.i16()?;
    if !(0..=4).contains(&version) {
        return Err(RecordError::UnknownVersion { kind: 2, version });
    }
    let flexible = version >= 4;
    let protocol_type = fields.text_of(flexible)?.unwrap_or_default().into();
    let generation = fields.i32()?;
    let protocol = fields.text_of(flexible)?.map(Arc::from);
    let leader = fields.text_of(flexible)?.map(Arc::from);
    let state_timestamp = if version >= 2 { Some(fields.i64()?) } else { None };
    let count = fields.count(flexible)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let id = fields.text_of(flexible)?.ok_or(RecordError::Malformed)?.into();
        let instance_id =
            if version >= 3 { fields.text_of(flexible)?.map(Arc::from) } else { None };
        let client_id = fields.text_of(flexible)?.unwrap_or_default().into();
        let client_host = fields.text_of(flexible)?.unwrap_or_default().into();
        let rebalance_timeout = if version >= 1 { Some(fields.i32()?) } else { None };
        let session_timeout = fields.i32()?;
        let subscription = Bytes::copy_from_slice(fields.bytes(flexible)?);
        let assignment = Bytes::copy_from_slice(fields.bytes(flexible)?);
        if flexible {
            fields.tags(|_, _| Ok(()))?;
        }
        let rebalance_timeout = rebalance_timeout.unwrap_or(session_timeout);
        members.push(MemberMetadata {
            id,
            instance_id,
            client_id,
            client_host,
            rebalance_timeout,
            session_timeout,
            subscription,
            assignment,
        });
    }
    if flexible {
        fields.tags(|_, _| Ok(()))?;
    }
    let state_timestamp = state_timestamp.filter(|&t| t != -1).map(Timestamp);
    Ok(GroupMetadata { protocol_type, generation, protocol, leader, state_timestamp, members })
}

impl Record {
    /// Reads a record; None if it is of a kind that classic groups do not have.
    ///
    /// # Errors
    /// [`RecordError`] if it is cut short or of an unknown version.
    pub fn decode(
        key: &[u8],
        value: Option<&[u8]>,
        appended_at: Offset,
    ) -> Result<Option<Self>, RecordError> {
        Ok(match Key::decode(key)? {
            Key::Offset { group, topic, partition } => Some(Self::Offset {
                group: group.into(),
                topic: topic.into(),
                partition,
                value: value.map(|v| decode_offset(v, appended_at)).transpose()?,
            }),
            Key::Group { group } => Some(Self::Group {
                group: group.into(),
                value: value.map(decode_group).transpose()?,
            }),
            Key::Other { .. } => None,
        })
    }

    /// The key's bytes.
    #[must_use]
    pub fn encode_key(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Offset { group, topic, partition, .. } => {
                out.put_i16(1);
                put_text(&mut out, group);
                put_text(&mut out, topic);
                out.put_i32(*partition);
            }
            Self::Group { group, .. } => {
                out.put_i16(2);
                put_text(&mut out, group);
            }
        }
        out.into()
    }

    /// The value's bytes; None for a tombstone.
    #[must_use]
    pub fn encode_value(&self) -> Option<Bytes> {
        match self {
            Self::Offset { value, .. } => value.as_ref().map(encode_offset),
            Self::Group { value, .. } => value.as_ref().map(encode_group),
        }
    }

    /// About the bytes that it takes in a batch, framing included; never less.
    pub(crate) fn size(&self) -> usize {
        const FRAMING: usize = 64;
        FRAMING
            + match self {
                Self::Offset { group, topic, value, .. } => {
                    let metadata = value.as_ref().and_then(|v| v.metadata.as_ref());
                    group.len() + topic.len() + metadata.map_or(0, |m| m.len()) + 32
                }
                Self::Group { group, value } => {
                    let members = value.iter().flat_map(|v| &v.members);
                    let texts = |m: &MemberMetadata| {
                        m.id.len()
                            + m.client_id.len()
                            + m.client_host.len()
                            + m.instance_id.as_ref().map_or(0, |i| i.len())
                    };
                    group.len()
                        + 128
                        + members
                            .map(|m| texts(m) + m.subscription.len() + m.assignment.len() + 32)
                            .sum::<usize>()
                }
            }
    }
}

fn encode_offset(value: &CommittedOffset) -> Bytes {
    let metadata = value.metadata.as_deref().unwrap_or_default();
    let mut out = Vec::with_capacity(40 + metadata.len());
    let epoch = value.leader_epoch.unwrap_or(-1);
    if let Some(expire_timestamp) = value.expire_timestamp {
        out.put_i16(1);
        out.put_i64(value.offset);
        put_text(&mut out, metadata);
        out.put_i64(value.commit_timestamp.0);
        out.put_i64(expire_timestamp.0);
    } else if let Some(topic_id) = value.topic_id {
        out.put_i16(4);
        out.put_i64(value.offset);
        out.put_i32(epoch);
        put_varint(&mut out, metadata.len() as u64 + 1);
        out.put_slice(metadata.as_bytes());
        out.put_i64(value.commit_timestamp.0);
        out.put_slice(&[1, 0, 16]);
        out.put_slice(&topic_id.0);
    } else {
        out.put_i16(3);
        out.put_i64(value.offset);
        out.put_i32(epoch);
        put_text(&mut out, metadata);
        out.put_i64(value.commit_timestamp.0);
    }
    out.into()
}

fn encode_group(value: &GroupMetadata) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.put_i16(3);
    put_text(&mut out, &value.protocol_type);
    out.put_i32(value.generation);
    put_nullable_text(&mut out, value.protocol.as_deref());
    put_nullable_text(&mut out, value.leader.as_deref());
    out.put_i64(value.state_timestamp.map_or(-1, |t| t.0));
    put_length(&mut out, value.members.len());
    for member in &value.members {
        put_text(&mut out, &member.id);
        put_nullable_text(&mut out, member.instance_id.as_deref());
        put_text(&mut out, &member.client_id);
        put_text(&mut out, &member.client_host);
        out.put_i32(member.rebalance_timeout);
        out.put_i32(member.session_timeout);
        put_length(&mut out, member.subscription.len());
        out.put_slice(&member.subscription);
        put_length(&mut out, member.assignment.len());
        out.put_slice(&member.assignment);
    }
    out.into()
}

/// Every text here came in a request or a record with a 16-bit length, or is shorter than 200 bytes beside one; what
/// does not fit all the same (a generated member id behind the longest client id) is cut at a character.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(i16::MAX as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.put_i16(i16::try_from(end).unwrap_or(i16::MAX));
    out.put_slice(&text.as_bytes()[..end]);
}

fn put_nullable_text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_text(out, text),
        None => out.put_i16(-1),
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.put_i32(
        i32::try_from(length).expect("a part of one request, whose frame has a 31-bit size"),
    );
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.put_u8(value.to_le_bytes()[0]);
}

/// A cursor; nothing is allocated by what the bytes say.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(RecordError::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, RecordError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, RecordError> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, RecordError> {
        self.array().map(i64::from_be_bytes)
    }

    fn varint(&mut self) -> Result<usize, RecordError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|_| RecordError::Malformed);
            }
        }
        Err(RecordError::Malformed)
    }

    fn utf8(&mut self, length: usize) -> Result<&'a str, RecordError> {
        std::str::from_utf8(self.take(length)?).map_err(|_| RecordError::Malformed)
    }

    fn nullable_text(&mut self) -> Result<Option<&'a str>, RecordError> {
        match self.i16()? {
            -1 => Ok(None),
            length => {
                self.utf8(usize::try_from(length).map_err(|_| RecordError::Malformed)?).map(Some)
            }
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, RecordError> {
        self.nullable_text()?.ok_or(RecordError::Malformed)
    }

    fn compact_text(&mut self) -> Result<Option<&'a str>, RecordError> {
        match self.varint()? {
            0 => Ok(None),
            length => self.utf8(length - 1).map(Some),
        }
    }

    fn text_of(&mut self, flexible: bool) -> Result<Option<&'a str>, RecordError> {
        if flexible { self.compact_text() } else { self.nullable_text() }
    }

    pub(crate) fn count(&mut self, flexible: bool) -> Result<usize, RecordError> {
        if flexible {
            self.varint()?.checked_sub(1).ok_or(RecordError::Malformed)
        } else {
            usize::try_from(self.i32()?).map_err(|_| RecordError::Malformed)
        }
    }

    fn bytes(&mut self, flexible: bool) -> Result<&'a [u8], RecordError> {
        let length = self.count(flexible)?;
        self.take(length)
    }

    fn tags(
        &mut self,
        mut each: impl FnMut(usize, Fields<'a>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            let length = self.varint()?;
            each(tag, Fields(self.take(length)?))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset() -> CommittedOffset {
        CommittedOffset {
            offset: 3,
            leader_epoch: Some(7),
            metadata: Some("meta-héllo".into()),
            commit_timestamp: Timestamp(1_700_000_000_123),
            expire_timestamp: None,
            topic_id: None,
            appended_at: Offset(5),
        }
    }

    fn record(value: Option<CommittedOffset>) -> Record {
        Record::Offset { group: "g".into(), topic: "t".into(), partition: 2, value }
    }

    fn through_bytes(record: &Record) -> Record {
        let (key, value) = (record.encode_key(), record.encode_value());
        Record::decode(&key, value.as_deref(), Offset(5)).unwrap().unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_in_every_version_that_is_written() {
        let (expiring, with_id) = (
            CommittedOffset {
                leader_epoch: None,
                expire_timestamp: Some(Timestamp(9)),
                ..offset()
            },
            CommittedOffset { topic_id: Some(TopicId([7; 16])), ..offset() },
        );
        for (value, version) in [(offset(), 3), (expiring, 1), (with_id, 4)] {
            let record = record(Some(value));
            assert_eq!(record.encode_value().unwrap()[..2], [0, version]);
            assert_eq!(through_bytes(&record), record);
        }
        assert_eq!(through_bytes(&record(None)), record(None));
    }

    #[test]
    fn an_offset_record_has_kafkas_bytes() {
        let record = record(Some(CommittedOffset { metadata: None, ..offset() }));
        assert_eq!(&record.encode_key()[..], b"\0\x01\0\x01g\0\x01t\0\0\0\x02");
        let value = record.encode_value().unwrap();
        assert_eq!(&value[..18], b"\0\x03\0\0\0\0\0\0\0\x03\0\0\0\x07\0\0\0\0");
        assert_eq!(value.len(), 24);
    }

    #[test]
    fn old_and_new_versions_of_a_group_are_read() {
        let mut v0 = Vec::new();
        v0.put_slice(b"\0\0\0\x08consumer\0\0\0\x04\0\x05range\0\x01m\0\0\0\x01");
        v0.put_slice(b"\0\x01m\0\x01c\0\x02/h\0\0\x27\x10\0\0\0\x01S\0\0\0\x01A");
        let group = decode_group(&v0).unwrap();
        assert_eq!(
            (group.generation, group.protocol.as_deref(), group.state_timestamp),
            (4, Some("range"), None)
        );
        assert_eq!(
            (group.members[0].rebalance_timeout, group.members[0].session_timeout),
            (10_000, 10_000)
        );
        let mut v4 = Vec::new();
        v4.put_slice(
            b"\0\x04\x09consumer\0\0\0\x04\x06range\x02m\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        );
        v4.put_slice(b"\x02m\0\x02c\x03/h\0\0\x27\x10\0\0\x27\x10\x02S\x02A\0\0");
        assert_eq!(decode_group(&v4).unwrap(), group);
        let record = Record::Group { group: "g".into(), value: Some(group.clone()) };
        assert_eq!(record.encode_value().unwrap()[..2], [0, 3]);
        assert_eq!(through_bytes(&record), record);
    }

    #[test]
    fn cut_or_lying_bytes_are_an_error_and_allocate_nothing() {
        for record in [
            record(Some(offset())),
            Record::Group { group: "g".into(), value: Some(GroupMetadata::default()) },
        ] {
            let (key, value) = (record.encode_key(), record.encode_value().unwrap());
            for end in 0..key.len() {
                assert!(Key::decode(&key[..end]).is_err(), "key cut at {end}");
            }
            for end in 0..value.len() {
                assert!(
                    Record::decode(&key, Some(&value[..end]), Offset(0)).is_err(),
                    "value cut at {end}"
                );
            }
        }
        assert!(
            decode_group(b"\0\x03\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x7f\xff\xff\xff")
                .is_err()
        );
        assert_eq!(
            decode_offset(b"\0\x05", Offset(0)),
            Err(RecordError::UnknownVersion { kind: 1, version: 5 })
        );
        assert_eq!(
            Record::decode(b"\0\x0a\0\x01g", None, Offset(0)),
            Ok(None),
            "another kind is skipped"
        );
    }
}
