//! Settings of subscriptions to clients' metrics (KIP-714): `ClientMetricsConfigs` of Kafka 4.3.
//!
//! They are kept and described, so that what manages subscriptions works. Nothing goes by them: no client is asked for
//! metrics, since the APIs for that are not served.

use super::alter::AlterError;
use super::check;
use super::definition::{Definition, Status::Inert, definitions};
use super::describe::{ConfigSource, ConfigSynonym, DescribedConfig};
use super::java_pattern;
use super::layers::Properties;
use super::range::Range::{Any, FilledList};
use super::value::Value;
use std::collections::BTreeSet;

const INTERVAL: &str = "interval.ms";
const MATCH: &str = "match";

const DEFINITIONS: &[Definition] = definitions! {
    /// Beginnings of the names of the metrics that clients are asked for.
    "metrics": List = Some(""), FilledList, Medium, ClusterWide, Inert;

    /// How often a client sends its metrics, in milliseconds.
    "interval.ms": Int = Some("300000"), Any, Medium, ClusterWide, Inert;

    /// Which clients are asked: `name=pattern`, all of which must fit.
    "match": List = Some(""), FilledList, Medium, ClusterWide, Inert;
};

/// What a client can be matched by.
const MATCH_NAMES: &[&str] = &[
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// The longest value, in Java's characters.
const LONGEST: usize = 32_767;

/// Milliseconds.
const INTERVALS: std::ops::RangeInclusive<i64> = 100..=3_600_000;

/// What is known of the key `name` of a subscription.
pub(super) fn client_metrics_definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.iter().find(|definition| definition.name == name)
}

/// Whether a subscription may have `configs`, all of them.
///
/// # Errors
/// [`AlterError::Value`] is an INVALID_REQUEST, [`AlterError::Configuration`] an INVALID_CONFIG.
pub fn validate_client_metrics(name: &str, configs: &Properties) -> Result<(), AlterError> {
    if name.is_empty() {
        return Err(AlterError::Value("Subscription name can't be empty".into()));
    }
    if let Some(unknown) = configs.keys().find(|key| client_metrics_definition(key).is_none()) {
        return Err(AlterError::Value(format!("Unknown client metrics configuration: {unknown}")));
    }
    if configs.values().any(|value| value.encode_utf16().count() > LONGEST) {
        return Err(AlterError::Configuration(format!(
            "The configuration value cannot be added because it exceeds the maximum value size of {LONGEST} bytes."
        )));
    }
    for definition in DEFINITIONS {
        let Some(text) = configs.get(definition.name) else { continue };
        let value = check::check_value(definition, definition.name, text)
            .map_err(AlterError::Configuration)?;
        match (definition.name, value) {
            (INTERVAL, Value::Whole(millis)) if !INTERVALS.contains(&millis) => {
                return Err(AlterError::Value(format!(
                    "Invalid value {millis} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)"
                )));
            }
            (MATCH, Value::List(patterns)) => {
                if let Some(pattern) = patterns.iter().find(|pattern| !is_match(pattern)) {
                    return Err(AlterError::Configuration(format!(
                        "Illegal client matching pattern: {pattern}"
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// `name=pattern`, as Java splits it: what is empty at the end does not count.
fn is_match(text: &str) -> bool {
    let mut parts: Vec<&str> = text.split('=').collect();
    while parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    match parts.as_slice() {
        [name, pattern] => {
            let trim = |text: &'_ str| text.trim_matches(|c: char| c <= ' ').to_owned();
            MATCH_NAMES.contains(&trim(name).as_str()) && java_pattern::is_valid(&trim(pattern))
        }
        _ => false,
    }
}

/// Every key of a subscription that has `set`.
#[must_use]
pub fn describe_client_metrics(set: &Properties) -> Vec<DescribedConfig> {
    let described = DEFINITIONS.iter().map(|definition| {
        let own = set.get(definition.name);
        let text = own.map(String::as_str).or(definition.default).unwrap_or_default();
        let printed = Value::parse(definition.kind, text).map(|value| distinct(value).print());
        let value = Some(printed.unwrap_or_else(|_| text.to_owned()));
        let source = match own {
            Some(_) => ConfigSource::ClientMetrics,
            None => ConfigSource::Default,
        };
        let synonym =
            || ConfigSynonym { name: definition.name.to_owned(), value: value.clone(), source };
        DescribedConfig {
            name: definition.name.to_owned(),
            source,
            kind: Some(definition.kind),
            read_only: false,
            sensitive: false,
            synonyms: own.map(|_| synonym()).into_iter().collect(),
            documentation: Some(definition.doc()),
            value: value.clone(),
        }
    });
    described.collect()
}

/// Kafka takes a list in which something comes twice, and goes by each once.
fn distinct(value: Value) -> Value {
    let Value::List(mut items) = value else { return value };
    let mut seen = BTreeSet::new();
    items.retain(|item| seen.insert(item.clone()));
    Value::List(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(key: &str, value: &str) -> Result<(), AlterError> {
        validate_client_metrics("all", &[(key.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn what_kafka_refuses_is_refused_with_its_code() {
        let value = |message: &str| Err(AlterError::Value(message.into()));
        let configuration = |message: &str| Err(AlterError::Configuration(message.into()));
        assert_eq!(judged("interval.ms", "100"), Ok(()));
        assert_eq!(
            judged("interval.ms", "99"),
            value(
                "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        );
        assert!(matches!(judged("interval.ms", "soon"), Err(AlterError::Configuration(_))));
        assert_eq!(judged("x", "1"), value("Unknown client metrics configuration: x"));
        assert!(matches!(judged("metrics", "a,,b"), Err(AlterError::Configuration(_))));
        assert_eq!(judged("metrics", "a,a"), Ok(()));
        assert_eq!(judged("metrics", "*"), Ok(()));
        assert_eq!(judged("metrics", ""), Ok(()));
        assert_eq!(judged("match", "client_id=a.*, client_software_name = java="), Ok(()));
        for bad in ["client=a", "client_id", "client_id=", "client_id=a=b", "client_id=("] {
            assert_eq!(
                judged("match", bad),
                configuration(&format!("Illegal client matching pattern: {bad}"))
            );
        }
        assert!(validate_client_metrics("", &Properties::new()).is_err());
        assert_eq!(judged("metrics", &"x".repeat(32_767)), Ok(()));
        assert!(matches!(
            judged("metrics", &"x".repeat(32_768)),
            Err(AlterError::Configuration(_))
        ));
    }

    #[test]
    fn every_key_is_described_and_says_whether_it_was_set() {
        let described = describe_client_metrics(&[("metrics".into(), "a, b,a".into())].into());
        let line = |one: &DescribedConfig| {
            let (value, source) = (one.value.clone().unwrap(), one.source.code());
            format!("{}={value} {source} {}", one.name, one.synonyms.len())
        };
        let lines: Vec<_> = described.iter().map(line).collect();
        assert_eq!(lines, ["metrics=a,b 7 1", "interval.ms=300000 5 0", "match= 5 0"]);
    }
}
