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
    /// Checks `value`; the error is Kafka's reason, to follow `Invalid value X for configuration Y: `.
    ///
    /// # Errors
    /// The reason, if the value is outside.
    pub fn check(&self, value: Option<&Value>) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            Self::AtLeast(least) => in_order(value, *least, i64::MAX, None),
            Self::Between(least, most) => in_order(value, *least, *most, None),
            Self::BetweenOr(least, most, other) => in_order(value, *least, *most, Some(*other)),
            Self::Fraction(least, most) => match value {
                None => Err("Value must be non-null".into()),
                Some(value) => match value.as_f64() {
                    Some(number) if number < *least => {
                        Err(format!("Value must be at least {least}"))
                    }
                    Some(number) if number > *most => {
                        Err(format!("Value must be no more than {most}"))
                    }
                    _ => Ok(()),
                },
            },
            Self::OneOf(allowed) => match text(value) {
                Some(text) if allowed.contains(&text) => Ok(()),
                _ => Err(format!("String must be one of: {}", allowed.join(", "))),
            },
            Self::OneOfAnyCase(allowed) => match text(value) {
                Some(text) if allowed.iter().any(|one| one.eq_ignore_ascii_case(text)) => Ok(()),
                _ => {
                    Err(format!("String must be one of (case insensitive): {}", allowed.join(", ")))
                }
            },
            Self::ListOf(allowed) => match value {
                Some(Value::List(items))
                    if items.iter().any(|item| !allowed.contains(&item.as_str())) =>
                {
                    Err(format!("String must be one of: {}", allowed.join(", ")))
                }
                _ => Ok(()),
            },
            Self::NonEmptyList => match value {
                Some(Value::List(items)) if items.is_empty() => {
                    Err("List must contain at least one element".into())
                }
                _ => Ok(()),
            },
            Self::NonEmpty => match text(value) {
                Some("") => Err("String must be non-empty".into()),
                _ => Ok(()),
            },
            Self::NonNull => match value {
                None => Err("entry must be non null".into()),
                Some(_) => Ok(()),
            },
            Self::ThrottledReplicas => throttled_replicas(value),
            Self::Release => match text(value) {
                Some(text) if is_release(text) => Ok(()),
                _ => Err(format!(
                    "Version `{}` is not a valid version",
                    text(value).unwrap_or("null")
                )),
            },
            Self::PoolSize => match value.and_then(Value::as_i64) {
                Some(number) if number == -1 || number >= 1 => Ok(()),
                _ => Err("Value can be either -1 or greater than 0".into()),
            },
        }
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
            Self::NonEmptyList | Self::NonEmpty => f.write_str("not empty"),
            Self::NonNull => f.write_str("set"),
            Self::ThrottledReplicas => f.write_str("`*`, or a list of partition:broker"),
            Self::Release => f.write_str("a Kafka version such as 3.9"),
            Self::PoolSize => f.write_str("-1, or at least 1"),
        }
    }
}

fn in_order(value: Option<&Value>, least: i64, most: i64, or: Option<i64>) -> Result<(), String> {
    let Some(number) = value.and_then(Value::as_i64) else {
        return Err("Value must be non-null".into());
    };
    let suffix = or.map(|other| format!(" or {other}")).unwrap_or_default();
    if or == Some(number) {
        Ok(())
    } else if number < least {
        Err(format!("Value must be at least {least}{suffix}"))
    } else if number > most {
        Err(format!("Value must be no more than {most}{suffix}"))
    } else {
        Ok(())
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

fn throttled_replicas(value: Option<&Value>) -> Result<(), String> {
    let Some(Value::List(items)) = value else { return Ok(()) };
    let wildcard = items.len() == 1 && matches!(items[0].trim(), "*" | "none");
    let pair = |item: &String| {
        item.split_once(':').is_some_and(|(partition, broker)| {
            let digits =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits(partition) && digits(broker)
        })
    };
    if items.is_empty() || wildcard || items.iter().all(pair) {
        Ok(())
    } else {
        Err("Must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            .into())
    }
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
