//! Dynamic changes: what `AlterConfigs` and `IncrementalAlterConfigs` may do, with Kafka's answers when they may not.

use super::broker_config::BrokerConfig;
use super::check;
use super::definition::{Definition, Scope, Status};
use super::definitions::{TOPIC_DEFINITIONS, broker_definition, topic_definition};
use super::layers::{Layers, Properties, definition_of, listener_key};
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
    if values.boolean("remote.log.copy.disable") || values.boolean("remote.log.delete.on.disable") {
        return Err(AlterError::Configuration(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
                .into(),
        ));
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
    let refuse = |message: &str, collection: &str, fails: &dyn Fn(&str) -> bool| {
        let names: Vec<_> = set.keys().map(String::as_str).filter(|key| fails(key)).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(AlterError::Value(format!("{message}: {collection}({})", names.join(", "))))
        }
    };
    refuse(NOT_DYNAMIC, "Set", &|key| !is_dynamic(key))?;
    refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        "HashSet",
        &|key| NEEDS_LISTENER_PREFIX.contains(&key),
    )?;
    for (key, value) in set {
        if let Some(definition) = definition_of(key) {
            check::check_value(definition, key, value).map_err(AlterError::Value)?;
        }
    }
    if !per_broker {
        refuse(NOT_FOR_ALL, "Set", &is_per_broker)?;
    }
    for (key, value) in set {
        check_dynamic_value(key, value, per_broker).map_err(AlterError::Value)?;
    }
    let layers = if per_broker {
        Layers { broker: set.clone(), ..config.layers.clone() }
    } else {
        Layers { cluster: set.clone(), ..config.layers.clone() }
    };
    check_threads(&config.layers.effective(), &layers.effective()).map_err(AlterError::Value)?;
    match BrokerConfig::build(layers, Vec::new()) {
        Ok(_) => Ok(()),
        Err(problems) => {
            let first =
                problems.into_iter().next().map(|problem| problem.message).unwrap_or_default();
            Err(AlterError::Value(format!("requirement failed: {first}")))
        }
    }
}

const NOT_DYNAMIC: &str = "Cannot update these configs dynamically";
const NOT_FOR_ALL: &str =
    "Cannot update these configs at default cluster level, broker id must be specified";

/// Kafka lets a pool of threads at most double or halve at a time.
fn check_threads(old: &Properties, new: &Properties) -> Result<(), String> {
    let (old, new) = (Values::broker(old), Values::broker(new));
    for name in THREAD_POOLS {
        let (now, then) = (old.i64(name), new.i64(name));
        if now == then {
            continue;
        }
        let failed = format!("Dynamic thread count update validation failed for {name}={then}");
        if then <= 0 {
            return Err(format!("{failed}, value should be at least 1"));
        } else if then < now / 2 {
            return Err(format!("{failed}, value should be at least half the current value {now}"));
        } else if then > now * 2 {
            return Err(format!(
                "{failed}, value should not be greater than double the current value {now}"
            ));
        }
    }
    Ok(())
}

const THREAD_POOLS: &[&str] = &[
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
];

/// Checks one dynamic value by itself; the error is the message.
pub(super) fn check_dynamic_value(key: &str, value: &str, per_broker: bool) -> Result<(), String> {
    if !is_dynamic(key) {
        return Err(format!("{NOT_DYNAMIC}: Set({key})"));
    }
    if !per_broker && is_per_broker(key) {
        return Err(format!("{NOT_FOR_ALL}: Set({key})"));
    }
    let Some(definition) = definition_of(key) else { return Ok(()) };
    check::check_value(definition, key, value)?;
    match check::status_of(definition, key) {
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

/// Settings that Kafka can change while it runs, but that we read only at the start: a change that would not take
/// effect is refused rather than stored.
pub(super) const FIXED_HERE: &[&str] = &[
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "config.providers",
];

/// Whether `DescribeConfigs` calls it writable. Kafka 3.9 does not say so of its dynamic-only keys; what this broker
/// refuses to change, whatever the value, is read-only here though it is not in Kafka.
pub(super) fn is_writable(name: &str) -> bool {
    broker_definition(name).is_some_and(|definition| {
        definition.scope != Scope::ReadOnly
            && !definition.is_dynamic_only()
            && !is_fixed(definition)
    })
}

/// Whether no change of it is taken at run time, though Kafka takes some.
pub(super) fn is_fixed(definition: &Definition) -> bool {
    matches!(definition.status, Status::Refused(_)) || FIXED_HERE.contains(&definition.name)
}

/// Kafka lets names that it does not know pass, a listener's among them: they may belong to a plugin.
fn is_dynamic(key: &str) -> bool {
    broker_definition(key).is_none_or(|definition| definition.scope != Scope::ReadOnly)
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
