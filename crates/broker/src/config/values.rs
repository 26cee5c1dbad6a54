//! Typed reading of checked values by key.

use super::definition::{Definition, Kind};
use super::definitions::{broker_definition, topic_definition};
use super::value::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Effective values by key, checked already: reading a key as another type than its definition's, or a key without
/// a default, is a bug of ours.
pub(super) struct Values<'a> {
    set: &'a BTreeMap<String, String>,
    definition: fn(&str) -> Option<&'static Definition>,
}

impl<'a> Values<'a> {
    /// Of the broker.
    pub(super) fn broker(set: &'a BTreeMap<String, String>) -> Self {
        Self { set, definition: broker_definition }
    }

    /// Of a topic.
    pub(super) fn topic(set: &'a BTreeMap<String, String>) -> Self {
        Self { set, definition: topic_definition }
    }

    /// Whether somebody set `name`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    fn value(&self, name: &str) -> Option<Value> {
        let definition =
            (self.definition)(name).unwrap_or_else(|| panic!("no definition of {name}"));
        let text = self.set.get(name).map(String::as_str).or(definition.default)?;
        Some(
            Value::parse(definition.kind, text)
                .unwrap_or_else(|reason| panic!("{name}={text} was checked: {reason}")),
        )
    }

    pub(super) fn optional_i64(&self, name: &str) -> Option<i64> {
        self.value(name).map(|value| value.as_i64().unwrap_or_else(|| panic!("{name} is a number")))
    }

    pub(super) fn i64(&self, name: &str) -> i64 {
        self.optional_i64(name).unwrap_or_else(|| panic!("{name} has a default"))
    }

    pub(super) fn i32(&self, name: &str) -> i32 {
        i32::try_from(self.i64(name)).unwrap_or_else(|_| panic!("{name} is an INT"))
    }

    /// Also for an INT that counts what Kafka's protocol counts in 16 bits: larger means the largest.
    pub(super) fn i16(&self, name: &str) -> i16 {
        i16::try_from(self.i64(name)).unwrap_or(i16::MAX)
    }

    /// Negative reads as 0.
    pub(super) fn u32(&self, name: &str) -> u32 {
        u32::try_from(self.i64(name).max(0)).unwrap_or(u32::MAX)
    }

    /// Negative reads as 0.
    pub(super) fn u64(&self, name: &str) -> u64 {
        u64::try_from(self.i64(name)).unwrap_or(0)
    }

    /// Negative reads as 0.
    pub(super) fn size(&self, name: &str) -> usize {
        usize::try_from(self.u64(name)).unwrap_or(usize::MAX)
    }

    /// Unset or negative reads as `None`.
    pub(super) fn optional_size(&self, name: &str) -> Option<usize> {
        self.optional_i64(name).and_then(|number| usize::try_from(number).ok())
    }

    /// Unset, negative, or the largest number reads as no limit.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        self.optional_i64(name)
            .filter(|&limit| limit != i64::MAX)
            .and_then(|limit| u64::try_from(limit).ok())
    }

    /// As `DescribeConfigs` shows it.
    pub(super) fn printed(&self, name: &str) -> Option<String> {
        self.value(name).map(|value| value.print())
    }

    pub(super) fn f64(&self, name: &str) -> f64 {
        self.value(name)
            .and_then(|value| value.as_f64())
            .unwrap_or_else(|| panic!("{name} is a DOUBLE with a default"))
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => value,
            other => panic!("{name} is a BOOLEAN with a default, not {other:?}"),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            other @ (Value::Boolean(_) | Value::Whole(_) | Value::Double(_) | Value::List(_)) => {
                panic!("{name} is text, not {other:?}")
            }
        }
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            None => Vec::new(),
            Some(Value::List(items)) => items,
            Some(other) => panic!("{name} is a {}, not {other:?}", Kind::List.name()),
        }
    }

    /// Negative reads as zero.
    pub(super) fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.u64(name))
    }

    /// Unset, negative, or the largest number reads as never.
    pub(super) fn millis_or_never(&self, name: &str) -> Option<Duration> {
        self.optional_i64(name)
            .filter(|&millis| millis != i64::MAX)
            .and_then(|millis| u64::try_from(millis).ok())
            .map(Duration::from_millis)
    }
}
