//! Dynamic changes: what `AlterConfigs` and `IncrementalAlterConfigs` may do, with Kafka's answers when they may not.

use super::broker_config::BrokerConfig;
use super::check;
use super::definition::{Definition, Kind, Scope, Status};
use super::definitions::{TOPIC_DEFINITIONS, broker_definition, topic_definition};
use super::layers::{Layers, Properties, definition_of, listener_key, synonyms};
use super::topic;
use super::values::Values;

/// Why a change is not made. `Display` is Kafka's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    /// `InvalidConfigurationException`: INVALID_CONFIG, whichever request it came with.
    #[error("{0}")]
    Configuration(String),
    /// `ConfigException`: INVALID_CONFIG when a topic is created, INVALID_REQUEST with the resource in front of the
    /// message when settings are altered.
    #[error("{0}")]
    Value(String),
}

/// What an incremental change does to one key (KIP-339).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Give the value.
    Set,
    /// Fall back to the default.
    Delete,
    /// Add to a list.
    Append,
    /// Take out of a list.
    Subtract,
}

impl Operation {
    /// From the code in the request.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        Some(match code {
            0 => Self::Set,
            1 => Self::Delete,
            2 => Self::Append,
            3 => Self::Subtract,
            _ => return None,
        })
    }
}

/// Applies one incremental operation to the settings that a resource has of its own. `definition` finds the key: a list
/// that is not set starts from the definition's default, as in Kafka.
///
/// # Errors
/// `Append` and `Subtract` on a key that is unknown or not a list.
pub fn apply_operation(
    set: &mut Properties,
    definition: fn(&str) -> Option<&'static Definition>,
    operation: Operation,
    key: &str,
    value: &str,
) -> Result<(), AlterError> {
    let verb = match operation {
        Operation::Set => {
            set.insert(key.to_owned(), value.to_owned());
            return Ok(());
        }
        Operation::Delete => {
            set.remove(key);
            return Ok(());
        }
        Operation::Append => "append",
        Operation::Subtract => "subtract",
    };
    let Some(definition) = definition(key) else {
        return Err(AlterError::Configuration(format!("Unknown config name: {key}")));
    };
    if definition.kind != Kind::List {
        return Err(AlterError::Configuration(format!(
            "Config value {verb} is not allowed for config key: {key}"
        )));
    }
    let old = set.get(key).map(String::as_str).or(definition.default).unwrap_or_default();
    let mut items: Vec<&str> =
        old.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        match operation {
            Operation::Append if !items.contains(&item) => items.push(item),
            Operation::Subtract => items.retain(|one| *one != item),
            Operation::Append | Operation::Set | Operation::Delete => {}
        }
    }
    let items = items.join(",");
    set.insert(key.to_owned(), items);
    Ok(())
}

/// Whether a topic may have `overrides`: `LogConfig.validate`.
///
/// # Errors
/// The first thing that is wrong, in the order in which Kafka looks.
pub fn validate_topic_configs(
    config: &BrokerConfig,
    overrides: &Properties,
) -> Result<(), AlterError> {
    if let Some(unknown) = overrides.keys().find(|key| topic_definition(key).is_none()) {
        return Err(AlterError::Configuration(format!("Unknown topic config name: {unknown}")));
    }
    for definition in TOPIC_DEFINITIONS {
        if let Some(text) = overrides.get(definition.name) {
            check::check_value(definition, definition.name, text).map_err(AlterError::Value)?;
        }
    }
    let effective = topic::layered(&config.topic_properties, overrides);
    let values = Values::topic(&effective);
    let (least, most) = (values.i64("min.compaction.lag.ms"), values.i64("max.compaction.lag.ms"));
    if least > most {
        return Err(AlterError::Configuration(format!(
            "conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )));
    }
    if values.boolean("remote.storage.enable") {
        return Err(AlterError::Value(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.".into(),
        ));
    }
    Ok(())
}

/// Whether this broker may have `set` as its dynamic settings, all of them: `DynamicBrokerConfig.validate`.
///
/// # Errors
/// What Kafka answers; also for settings that this broker would have to ignore.
pub fn validate_dynamic_broker_configs(
    config: &BrokerConfig,
    set: &Properties,
) -> Result<(), AlterError> {
    validate_dynamic(config, set, true)
}

/// Whether every broker may have `set` as its dynamic settings, all of them.
///
/// # Errors
/// As [`validate_dynamic_broker_configs`].
pub fn validate_cluster_configs(config: &BrokerConfig, set: &Properties) -> Result<(), AlterError> {
    validate_dynamic(config, set, false)
}

fn validate_dynamic(
    config: &BrokerConfig,
    set: &Properties,
    per_broker: bool,
) -> Result<(), AlterError> {
    let refuse = |message: &str, fails: &dyn Fn(&str) -> bool| {
        let names: Vec<_> = set.keys().map(String::as_str).filter(|key| fails(key)).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(AlterError::Value(format!("{message}: Set({})", names.join(", "))))
        }
    };
    refuse("Cannot update these configs dynamically", &|key| !is_dynamic(key))?;
    refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        &|key| NEEDS_LISTENER_PREFIX.contains(&key),
    )?;
    for (key, value) in set {
        check_dynamic_value(key, value, true).map_err(AlterError::Value)?;
    }
    if !per_broker {
        refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            &is_per_broker,
        )?;
    }
    let layers = if per_broker {
        Layers { broker: set.clone(), ..config.layers.clone() }
    } else {
        Layers { cluster: set.clone(), ..config.layers.clone() }
    };
    match BrokerConfig::build(layers, Vec::new()) {
        Ok(_) => Ok(()),
        Err(problems) => Err(AlterError::Value(
            problems.into_iter().next().map(|problem| problem.message).unwrap_or_default(),
        )),
    }
}

/// Checks one dynamic value by itself; the error is the message.
pub(super) fn check_dynamic_value(key: &str, value: &str, per_broker: bool) -> Result<(), String> {
    if !is_dynamic(key) {
        return Err(format!("Cannot update these configs dynamically: Set({key})"));
    }
    if !per_broker && is_per_broker(key) {
        return Err(format!(
            "Cannot update these configs at default cluster level, broker id must be specified: Set({key})"
        ));
    }
    let Some(definition) = definition_of(key) else { return Ok(()) };
    check::check_value(definition, key, value)?;
    match definition.status {
        Status::Refused(refusal) => Err(format!("{key} asks for {}", refusal.feature())),
        Status::Honoured | Status::Harmless | Status::Inert
            if FIXED_HERE.contains(&definition.name) =>
        {
            Err(format!("{key} can be changed only by a restart of this broker"))
        }
        Status::Honoured | Status::Harmless | Status::Inert => Ok(()),
    }
}

/// Security settings that Kafka lets one change only for a listener.
const NEEDS_LISTENER_PREFIX: &[&str] = &[
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Settings that Kafka opens and closes sockets for while it runs; we do so only at the start.
const FIXED_HERE: &[&str] =
    &["listeners", "advertised.listeners", "listener.security.protocol.map"];

/// Whether `DescribeConfigs` calls it writable.
pub(super) fn is_writable(name: &str) -> bool {
    broker_definition(name).is_some_and(|definition| definition.scope != Scope::ReadOnly)
}

/// Kafka lets names that it does not know pass: they may belong to a plugin.
fn is_dynamic(key: &str) -> bool {
    match broker_definition(key) {
        Some(definition) => definition.scope != Scope::ReadOnly,
        None => match listener_key(key).and(definition_of(key)) {
            Some(definition) => {
                definition.scope != Scope::ReadOnly
                    || synonyms(key, true).len() > 1 && is_mechanism_key(definition)
            }
            None => true,
        },
    }
}

/// Read-only by itself, but a listener's SASL mechanism may have its own.
fn is_mechanism_key(definition: &Definition) -> bool {
    definition.name.starts_with("sasl.") || definition.name == "connections.max.reauth.ms"
}

fn is_per_broker(key: &str) -> bool {
    match broker_definition(key) {
        Some(definition) => definition.scope == Scope::PerBroker,
        None => listener_key(key).is_some_and(|plain| !CLUSTER_WIDE_PER_LISTENER.contains(&plain)),
    }
}

/// Settings of a listener that may be given for all brokers at once.
const CLUSTER_WIDE_PER_LISTENER: &[&str] =
    &["max.connections", "max.connection.creation.rate", "num.network.threads"];
