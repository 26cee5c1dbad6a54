//! Messages that carry their version in their first two bytes: coordinators' records, what consumers
//! put into `JoinGroup` and `SyncGroup`, forwarded principals.

use crate::{DecodeError, EncodeError, Message, Reader, RecordKey, Writer};
use bytes::Bytes;

/// The bytes of a coordinator record's key.
///
/// # Errors
/// If a string is too long for the old format.
pub fn encode_record_key<K: RecordKey>(key: &K) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(K::TYPE);
    key.encode(&mut writer, 0)?;
    Ok(writer.into_bytes())
}

/// The version and the body.
///
/// # Errors
/// As [`Message::encode`].
pub fn encode_versioned<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    writer.i16(version);
    message.encode(&mut writer, version)?;
    Ok(writer.into_bytes())
}

/// Reads the version and the body in it; returns both.
///
/// # Errors
/// If the version does not exist or the bytes are not such a message.
pub fn decode_versioned<M: Message>(bytes: Bytes) -> Result<(i16, M), DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    Ok((version, M::decode(&mut reader, version)?))
}

/// As [`decode_versioned`], but reads a version newer than any known as the newest known: what Kafka
/// does with subscriptions and assignments, whose versions only ever add to the end.
///
/// # Errors
/// If the version is negative or below the lowest, or the bytes are not such a message.
pub fn decode_newest<M: Message>(bytes: Bytes) -> Result<(i16, M), DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    Ok((version, M::decode(&mut reader, version.min(*M::VERSIONS.end()))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ConsumerProtocolSubscription, OffsetCommitKey, OffsetCommitValue};

    #[test]
    fn a_record_key_starts_with_its_type() {
        let key = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition: 7 };
        assert_eq!(&encode_record_key(&key).unwrap()[..], b"\0\x01\0\x01g\0\x01t\0\0\0\x07");
    }

    #[test]
    fn a_value_is_read_in_the_version_that_it_names() {
        let value = OffsetCommitValue { offset: 5, leader_epoch: 3, ..Default::default() };
        for version in [3, 4] {
            let bytes = encode_versioned(&value, version).unwrap();
            assert_eq!(decode_versioned(bytes).unwrap(), (version, value.clone()));
        }
        assert!(decode_versioned::<OffsetCommitValue>(Bytes::from_static(b"\0\x09")).is_err());
    }

    #[test]
    fn a_subscription_of_the_future_is_read_as_the_newest_known() {
        let mut bytes =
            encode_versioned(&ConsumerProtocolSubscription::default(), 3).unwrap().to_vec();
        bytes[1] = 9;
        bytes.extend_from_slice(b"what version 9 adds");
        let (version, read) = decode_newest::<ConsumerProtocolSubscription>(bytes.into()).unwrap();
        assert_eq!((version, read), (9, ConsumerProtocolSubscription::default()));
    }
}
