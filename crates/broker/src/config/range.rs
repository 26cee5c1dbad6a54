//! What a value must satisfy beyond its type, with Kafka's own words when it does not: clients show and compare them.

use super::value::Value;
use std::fmt;

/// Kafka's validators of single values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// Anything of the type.
    Any,
    /// A whole number, inclusive.
    AtLeast(i64),
    /// A whole number, both ends inclusive.
    Between(i64, i64),
    /// A whole number between the first two, or the third.
    BetweenOr(i64, i64, i64),
    /// A fraction, both ends inclusive.
    Fraction(f64, f64),
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// One of these strings, in any case.
    OneOfAnyCase(&'static [&'static str]),
    /// A list of nothing but these.
    ListOf(&'static [&'static str]),
    /// A list with at least one element.
    NonEmptyList,
    /// A list of which no element is empty.
    FilledList,
    /// Text with at least one character.
    NonEmpty,
    /// Anything but null.
    NonNull,
    /// `*`, or a list of `partition:broker`.
    ThrottledReplicas,
    /// A release of Kafka such as `3.9` or `3.9-IV0`.
    Release,
    /// -1 or at least 1 thread.
    PoolSize,
}

impl Range {
    /// Checks what `key` is to be set to.
    ///
    /// # Errors
    /// Kafka's message, if the value is outside.
    pub fn check(&self, key: &str, value: &Value) -> Result<(), String> {
        match self.reason(key, value) {
            None => Ok(()),
            Some((shown, reason)) => Err(invalid_value(&shown, key, &reason)),
        }
    }

    /// The part of `value` to show, and what is wrong with it.
    fn reason(&self, key: &str, value: &Value) -> Option<(String, String)> {
        let reason = match (self, value) {
            (Self::AtLeast(least), Value::Whole(number)) => in_order(*number, *least, i64::MAX),
            (Self::Between(least, most), Value::Whole(number)) => in_order(*number, *least, *most),
            (Self::BetweenOr(least, most, other), Value::Whole(number)) => {
                let inside = (least..=most).contains(&number) || number == other;
                (!inside).then(|| {
                    format!("Value must be between {least} and {most} or equal to {other}")
                })
            }
            (Self::PoolSize, Value::Whole(number)) => (*number != -1 && *number < 1)
                .then(|| "Value can be either -1 or greater than 0".to_owned()),
            (Self::Fraction(least, _), Value::Double(number)) if number < least => {
                Some(format!("Value must be at least {least}"))
            }
            (Self::Fraction(_, most), Value::Double(number)) if number > most => {
                Some(format!("Value must be no more than {most}"))
            }
            (Self::OneOf(allowed), Value::Text(text)) => (!allowed.contains(&text.as_str()))
                .then(|| format!("String must be one of: {}", allowed.join(", "))),
            (Self::OneOfAnyCase(allowed), Value::Text(text)) => {
                let found = allowed.iter().any(|one| one.eq_ignore_ascii_case(text));
                (!found).then(|| {
                    format!("String must be one of (case insensitive): {}", allowed.join(", "))
                })
            }
            (Self::ListOf(allowed), Value::List(items)) => {
                let item = items.iter().find(|item| !allowed.contains(&item.as_str()))?;
                let reason = format!("String must be one of: {}", allowed.join(", "));
                return Some((item.clone(), reason));
            }
            (Self::NonEmptyList, Value::List(items)) => {
                items.is_empty().then(|| "List must contain at least one element".to_owned())
            }
            (Self::FilledList, Value::List(items)) => {
                let is_empty = items.iter().any(String::is_empty);
                is_empty.then(|| "values must not be empty".to_owned())
            }
            (Self::NonEmpty, Value::Text(text)) => {
                text.is_empty().then(|| "String must be non-empty".to_owned())
            }
            (Self::ThrottledReplicas, Value::List(items)) => (!are_replicas(items)).then(|| {
                format!(
                    "{key} must be the literal '*' or a list of replicas in the following format: \
                     [partitionId]:[brokerId],[partitionId]:[brokerId],..."
                )
            }),
            (Self::Release, Value::Text(text)) => {
                (!is_release(text)).then(|| format!("Version {text} is not a valid version"))
            }
            // Kafka's other rules are about null, which nobody can write into a file; a value of another type than the
            // range's cannot come out of the definition's own parser.
            _ => None,
        };
        reason.map(|reason| (value.display(), reason))
    }
}

/// For the manual and for our own error messages.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::BetweenOr(least, most, other) => write!(f, "{least} to {most}, or {other}"),
            Self::Fraction(least, most) => write!(f, "{least} to {most}"),
            Self::OneOf(allowed) => write!(f, "one of {}", allowed.join(", ")),
            Self::OneOfAnyCase(allowed) => write!(f, "one of {}, in any case", allowed.join(", ")),
            Self::ListOf(allowed) => write!(f, "a list of {}", allowed.join(", ")),
            Self::FilledList => f.write_str("a list without empty elements"),
            Self::NonEmptyList | Self::NonEmpty => f.write_str("not empty"),
            Self::NonNull => f.write_str("set"),
            Self::ThrottledReplicas => f.write_str("`*`, or a list of partition:broker"),
            Self::Release => f.write_str("a Kafka version such as 3.9"),
            Self::PoolSize => f.write_str("-1, or at least 1"),
        }
    }
}

/// `ConfigException`'s message.
pub(super) fn invalid_value(value: &str, key: &str, reason: &str) -> String {
    format!("Invalid value {value} for configuration {key}: {reason}")
}

fn in_order(number: i64, least: i64, most: i64) -> Option<String> {
    if number < least {
        Some(format!("Value must be at least {least}"))
    } else if number > most {
        Some(format!("Value must be no more than {most}"))
    } else {
        None
    }
}

fn are_replicas(items: &[String]) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = |item: &String| {
        item.split_once(':').is_some_and(|(partition, broker)| digits(partition) && digits(broker))
    };
    items.iter().all(pair) || (items.len() == 1 && items[0] == "*")
}

/// Kafka's `MetadataVersion.fromVersionString`: a release it knows, by its short or full name.
fn is_release(text: &str) -> bool {
    const KNOWN: &[(&str, u32)] = &[
        ("0.10.0", 1),
        ("0.10.1", 2),
        ("0.10.2", 0),
        ("0.11.0", 2),
        ("1.0", 0),
        ("1.1", 0),
        ("2.0", 1),
        ("2.1", 2),
        ("2.2", 1),
        ("2.3", 1),
        ("2.4", 1),
        ("2.5", 0),
        ("2.6", 0),
        ("2.7", 2),
        ("2.8", 1),
        ("3.0", 1),
        ("3.1", 0),
        ("3.2", 0),
        ("3.3", 3),
        ("3.4", 0),
        ("3.5", 2),
        ("3.6", 2),
        ("3.7", 4),
        ("3.8", 0),
        ("3.9", 0),
        ("4.0", 1),
    ];
    let (release, internal) = match text.split_once("-IV") {
        Some((release, internal)) => (release, Some(internal)),
        None => (text, None),
    };
    let mut parts = release.split('.');
    let kept = if release.starts_with("0.") { 3 } else { 2 };
    let short = parts.by_ref().take(kept).collect::<Vec<_>>().join(".");
    let patch_is_number = parts.all(|part| part.parse::<u32>().is_ok());
    if matches!(short.as_str(), "0.8.0" | "0.8.1" | "0.8.2" | "0.9.0") {
        return internal.is_none() && patch_is_number;
    }
    patch_is_number
        && KNOWN.iter().any(|(name, newest)| {
            *name == short
                && internal
                    .is_none_or(|text| text.parse::<u32>().is_ok_and(|number| number <= *newest))
        })
}
