//! The layers of a broker's configuration and which one wins (KIP-226).

use super::definition::Definition;
use super::definitions::broker_definition;
use std::collections::BTreeMap;

/// Settings by key, as written.
pub type Properties = BTreeMap<String, String>;

/// What was set where. Highest first: `broker`, `cluster`, `fixed`, the default of the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layers {
    /// From `server.properties` and the command line.
    pub(super) fixed: Properties,
    /// Dynamic, for every broker (the entity `<default>`).
    pub(super) cluster: Properties,
    /// Dynamic, for this broker.
    pub(super) broker: Properties,
}

impl Layers {
    /// One value per key. A higher layer also hides the synonyms that a lower one has: a dynamic `log.retention.ms`
    /// replaces `log.retention.hours` of the file.
    pub(super) fn effective(&self) -> Properties {
        let mut effective = self.fixed.clone();
        for layer in [&self.cluster, &self.broker] {
            for (key, value) in layer {
                for synonym in synonyms(key, false) {
                    effective.remove(synonym);
                }
                effective.insert(key.clone(), value.clone());
            }
        }
        effective
    }
}

/// Every name that sets the same thing as `name`, itself included, strongest first. With `of_listeners` the plain
/// name stands in for a listener's own.
pub(super) fn synonyms(name: &str, of_listeners: bool) -> Vec<&str> {
    const FAMILIES: &[&[&str]] = &[
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
    ];
    if let Some(family) = FAMILIES.iter().find(|family| family.contains(&name)) {
        return family.to_vec();
    }
    if name == "log.flush.interval.ms" {
        return vec!["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];
    }
    match listener_key(name) {
        Some(plain) if of_listeners => {
            let of_mechanism = PER_MECHANISM.iter().find(|key| plain.ends_with(**key));
            vec![name, of_mechanism.copied().unwrap_or(plain)]
        }
        _ => vec![name],
    }
}

/// Keys that a listener may set per SASL mechanism: `listener.name.<listener>.<mechanism>.<key>`.
const PER_MECHANISM: &[&str] = &[
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
];

/// `<key>` of `listener.name.<listener>.<key>`.
pub(super) fn listener_key(name: &str) -> Option<&str> {
    let (_, key) = name.strip_prefix("listener.name.")?.split_once('.')?;
    (!key.is_empty()).then_some(key)
}

/// The definition that a key goes by: its own, or the plain one of a listener's key.
pub(super) fn definition_of(name: &str) -> Option<&'static Definition> {
    broker_definition(name).or_else(|| synonyms(name, true).into_iter().find_map(broker_definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(pairs: &[(&str, &str)]) -> Properties {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_dynamic_value_hides_the_synonyms_of_the_file() {
        let layers = Layers {
            fixed: properties(&[
                ("log.retention.ms", "1"),
                ("log.retention.hours", "2"),
                ("num.partitions", "3"),
            ]),
            cluster: properties(&[("log.retention.ms", "4")]),
            broker: properties(&[]),
        };
        assert_eq!(
            layers.effective(),
            properties(&[("log.retention.ms", "4"), ("num.partitions", "3")])
        );
    }

    #[test]
    fn a_value_for_this_broker_beats_the_one_for_all() {
        let layers = Layers {
            fixed: properties(&[("message.max.bytes", "1")]),
            cluster: properties(&[("message.max.bytes", "2")]),
            broker: properties(&[("message.max.bytes", "3")]),
        };
        assert_eq!(layers.effective(), properties(&[("message.max.bytes", "3")]));
    }

    #[test]
    fn a_listeners_key_falls_back_to_the_plain_one() {
        assert_eq!(
            synonyms("listener.name.x.ssl.keystore.type", true),
            ["listener.name.x.ssl.keystore.type", "ssl.keystore.type"]
        );
        assert_eq!(
            synonyms("listener.name.x.plain.sasl.jaas.config", true),
            ["listener.name.x.plain.sasl.jaas.config", "sasl.jaas.config"]
        );
        assert_eq!(
            definition_of("listener.name.x.max.connections").map(|one| one.name),
            Some("max.connections")
        );
        assert!(definition_of("listener.name.x.no.such.key").is_none());
    }
}
