//! What `DescribeConfigs` says: value, source and synonyms of every key (`kafka.server.ConfigHelper`, KIP-226).

use super::alter::is_writable;
use super::broker_config::BrokerConfig;
use super::definition::{Definition, Kind};
use super::definitions::{TOPIC_DEFINITIONS, all_broker_definitions, broker_definition};
use super::layers::{Properties, definition_of, synonyms};
use super::topic::{self, broker_key_of};
use super::value::Value;
use std::collections::BTreeMap;

/// One key as `DescribeConfigs` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConfig {
    /// The key.
    pub name: String,
    /// `None` if null or sensitive.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// `None` for a key that nobody knows.
    pub kind: Option<Kind>,
    /// Not changeable in a running broker.
    pub read_only: bool,
    /// Its value is never shown.
    pub sensitive: bool,
    /// Everything that sets it, strongest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it does.
    pub documentation: Option<&'static str>,
}

/// One of several settings of the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The key.
    pub name: String,
    /// `None` if sensitive.
    pub value: Option<String>,
    /// Where it is set.
    pub source: ConfigSource,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The topic itself.
    Topic,
    /// Dynamic, for this broker.
    DynamicBroker,
    /// Dynamic, for every broker.
    DynamicDefaultBroker,
    /// The file or the command line.
    StaticBroker,
    /// The definition.
    Default,
    /// The subscription to clients' metrics itself.
    ClientMetrics,
}

impl ConfigSource {
    /// The code in the answer.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
            Self::ClientMetrics => 7,
        }
    }
}

/// Every key of this broker.
#[must_use]
pub fn describe_broker(config: &BrokerConfig) -> Vec<DescribedConfig> {
    let effective = config.layers.effective();
    let mut names: BTreeMap<&str, Option<&'static Definition>> =
        effective.keys().map(|key| (key.as_str(), definition_of(key))).collect();
    names.extend(
        all_broker_definitions().filter(|one| one.is_reported()).map(|one| (one.name, Some(one))),
    );
    let entries = names.into_iter().map(|(name, definition)| {
        let default = definition.and_then(|one| one.default);
        let text = effective.get(name).map(String::as_str).or(default);
        broker_entry(config, name, definition, text, true)
    });
    in_kafkas_order(entries.collect())
}

/// Every dynamic setting for all brokers: the answer for a broker resource without a name.
#[must_use]
pub fn describe_cluster_defaults(config: &BrokerConfig) -> Vec<DescribedConfig> {
    let set = config.layers.cluster.iter();
    let entries =
        set.map(|(name, text)| broker_entry(config, name, definition_of(name), Some(text), false));
    in_kafkas_order(entries.collect())
}

/// Every key of a topic with `overrides`.
#[must_use]
pub fn describe_topic(config: &BrokerConfig, overrides: &Properties) -> Vec<DescribedConfig> {
    let effective = topic::layered(&config.topic_properties, overrides);
    let entries = TOPIC_DEFINITIONS
        .iter()
        .filter(|definition| definition.is_reported() || overrides.contains_key(definition.name))
        .map(|definition| {
            let name = definition.name;
            let value = printed(
                Some(definition),
                effective.get(name).map(String::as_str).or(definition.default),
            );
            let mut synonyms = Vec::new();
            if overrides.contains_key(name) {
                synonyms.push(ConfigSynonym {
                    name: name.to_owned(),
                    value: value.clone(),
                    source: ConfigSource::Topic,
                });
            }
            if let Some(key) = broker_key_of(name) {
                synonyms.extend(broker_synonyms(config, key, definition.sensitive()));
            }
            DescribedConfig {
                name: name.to_owned(),
                value,
                source: synonyms.first().map_or(ConfigSource::Default, |one| one.source),
                kind: Some(definition.kind),
                read_only: false,
                sensitive: definition.sensitive(),
                synonyms,
                documentation: Some(definition.doc()),
            }
        })
        .collect();
    in_kafkas_order(entries)
}

fn broker_entry(
    config: &BrokerConfig,
    name: &str,
    definition: Option<&'static Definition>,
    text: Option<&str>,
    per_broker: bool,
) -> DescribedConfig {
    // A key that nobody knows may be the password of a plugin.
    let sensitive = definition.is_none_or(Definition::sensitive);
    let mut synonyms = broker_synonyms(config, name, sensitive);
    if !per_broker {
        synonyms.retain(|one| one.source == ConfigSource::DynamicDefaultBroker);
    }
    DescribedConfig {
        name: name.to_owned(),
        value: if sensitive { None } else { printed(definition, text) },
        source: synonyms.first().map_or(ConfigSource::Default, |one| one.source),
        kind: definition.map(|one| one.kind),
        read_only: !is_writable(name),
        sensitive,
        synonyms,
        documentation: definition.map(Definition::doc),
    }
}

/// Who sets `name`, strongest first. What is stronger than every setting under the name itself is left out: a
/// listener's own value when the plain key is described.
fn broker_synonyms(config: &BrokerConfig, name: &str, sensitive: bool) -> Vec<ConfigSynonym> {
    let names = synonyms(name, true);
    let layers = [
        (&config.layers.broker, ConfigSource::DynamicBroker),
        (&config.layers.cluster, ConfigSource::DynamicDefaultBroker),
        (&config.layers.fixed, ConfigSource::StaticBroker),
    ];
    let entry = |name: &str, value: &str, source| ConfigSynonym {
        name: name.to_owned(),
        value: (!sensitive).then(|| value.to_owned()),
        source,
    };
    let set = layers.iter().flat_map(|(layer, source)| {
        names
            .iter()
            .filter_map(move |name| layer.get(*name).map(|value| entry(name, value, *source)))
    });
    let defaults = names.iter().filter_map(|name| {
        let definition = broker_definition(name).filter(|one| !one.is_dynamic_only())?;
        Some(entry(name, definition.default?, ConfigSource::Default))
    });
    set.chain(defaults).skip_while(|one| one.name != name).collect()
}

fn printed(definition: Option<&Definition>, text: Option<&str>) -> Option<String> {
    let text = text?;
    match definition {
        Some(definition) => Some(
            Value::parse(definition.kind, text)
                .map_or_else(|_| text.to_owned(), |value| value.print()),
        ),
        None => Some(text.to_owned()),
    }
}

/// The order in which Scala's `mutable.HashMap` holds the names, which Kafka never sorts: by bucket, and within one by
/// hash. Nobody should depend on it, but an answer is easier to compare with Kafka's if it agrees.
fn in_kafkas_order(mut entries: Vec<DescribedConfig>) -> Vec<DescribedConfig> {
    let mut buckets = 16;
    while entries.len() + 1 >= buckets * 3 / 4 {
        buckets *= 2;
    }
    entries.sort_by_cached_key(|entry| {
        let hash = java_hash(&entry.name);
        let improved = hash ^ (hash >> 16);
        (improved as usize & (buckets - 1), improved.cast_signed())
    });
    entries
}

/// `String.hashCode`; over UTF-16, which is one unit per byte for the names of keys.
fn java_hash(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}
