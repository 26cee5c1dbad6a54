//! Topics and partitions.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

/// A topic's name, owned and cheap to clone. Looked up by `&str`.
///
/// Any text can be held: what may be *created* is decided where topics are created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl Deref for TopicName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for TopicName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for TopicName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for TopicName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of a topic; printed as Kafka does, `topic-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<TopicName>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A topic's id (KIP-516): 16 bytes, written as 22 characters of URL-safe base64 without padding.
///
/// Also the form of cluster ids and directory ids. The all-zero id means "none" on the wire; it stops
/// in `protocol` like every sentinel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl TopicId {
    /// "None" on the wire.
    pub const ZERO: Self = Self([0; 16]);
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for digit in 0..22 {
            let sextet = if digit < 21 { bits >> (122 - 6 * digit) } else { bits << 4 };
            write!(f, "{}", ALPHABET[(sextet & 63) as usize] as char)?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

/// The text is not 22 characters of URL-safe base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicIdError(pub String);

impl fmt::Display for TopicIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an id: expected 22 characters of URL-safe base64", self.0)
    }
}

impl std::error::Error for TopicIdError {}

impl FromStr for TopicId {
    type Err = TopicIdError;

    fn from_str(text: &str) -> Result<Self, TopicIdError> {
        let wrong = || TopicIdError(text.chars().take(64).collect());
        let text = text.strip_suffix("==").unwrap_or(text);
        if text.len() != 22 {
            return Err(wrong());
        }
        let mut bits = 0u128;
        for (at, byte) in text.bytes().enumerate() {
            let sextet = ALPHABET.iter().position(|&b| b == byte).ok_or_else(wrong)? as u128;
            bits = if at < 21 { bits << 6 | sextet } else { bits << 2 | sextet >> 4 };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}

#[test]
fn an_id_is_written_as_kafka_writes_it() {
    let id = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(id.to_string(), "AQIDBAUGBwgJCgsMDQ4PEA", "zookeeper-mode.md 5.7");
    assert_eq!("AQIDBAUGBwgJCgsMDQ4PEA".parse(), Ok(id));
    assert!("AQIDBAUGBwgJCgsMDQ4PE".parse::<TopicId>().is_err());
    assert!("AQIDBAUGBwgJCgsMDQ4P+A".parse::<TopicId>().is_err());
}
