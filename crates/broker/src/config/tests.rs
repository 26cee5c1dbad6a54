//! The rules of the whole: sources, statuses, problems.

use super::*;
use std::collections::BTreeSet;

fn properties(pairs: &[(&str, &str)]) -> Properties {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn load(pairs: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    BrokerConfig::from_properties(properties(pairs), &|_| None)
}

#[test]
fn every_default_is_valid_and_every_key_is_defined_once() {
    let mut seen = BTreeSet::new();
    for area in areas() {
        for definition in area.definitions {
            let topic = area.title == "Topic settings";
            assert!(seen.insert((topic, definition.name)), "{} is defined twice", definition.name);
            if let Some(default) = definition.default {
                let value = Value::parse(definition.kind, default)
                    .unwrap_or_else(|reason| panic!("{}: {reason}", definition.name));
                let empty_list = value == Value::List(Vec::new());
                assert!(
                    empty_list || definition.range.check(Some(&value)).is_ok(),
                    "{}",
                    definition.name
                );
            }
        }
    }
}

#[test]
fn without_a_file_one_broker_serves_this_machine() {
    let Loaded { config, warnings } = BrokerConfig::load(None, &[]).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.node.broker_id, Some(model::BrokerId(0)));
    assert_eq!(config.log.directories, [std::path::PathBuf::from("./barnabas-data")]);
    assert_eq!(config.offsets.topic_replication_factor, 1);
    assert_eq!(config.listeners.inter_broker().host.as_deref(), Some("127.0.0.1"));
    assert_eq!(config.listeners.inter_broker().port, 9092);
    assert_eq!(config.topic_defaults.log, storage::LogConfig::default());
}

#[test]
fn with_a_file_kafkas_defaults_hold() {
    let config = load(&[]).unwrap().config;
    assert_eq!(config.node.broker_id, None);
    assert_eq!(config.offsets.topic_replication_factor, 3);
    assert_eq!(config.listeners.all[0].host, None);
}
