//! All keys, one file per area. The facts of a line come from Kafka's own definitions; `tests/golden/kafka_configs.tsv`
//! holds them for comparison.

mod barnabas;
mod groups;
mod kraft;
mod listeners;
mod log;
mod metrics;
mod network;
mod newer_groups;
mod node;
mod quotas;
mod replication;
mod sasl;
mod security;
mod tiered_storage;
mod tls;
mod topic;
mod topics;
mod transactions;
mod zookeeper;

use super::definition::{Area, Definition};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The broker's areas, in the order of the manual.
const BROKER_AREAS: &[Area] = &[
    node::AREA,
    listeners::AREA,
    network::AREA,
    topics::AREA,
    log::AREA,
    replication::AREA,
    groups::AREA,
    transactions::AREA,
    quotas::AREA,
    metrics::AREA,
    barnabas::AREA,
    security::AREA,
    tls::AREA,
    sasl::AREA,
    zookeeper::AREA,
    kraft::AREA,
    tiered_storage::AREA,
    newer_groups::AREA,
];

/// Every key of a topic, in the order in which Kafka checks them.
pub(super) const TOPIC_DEFINITIONS: &[Definition] = topic::AREA.definitions;

/// All areas, in the order of the manual: topics first, since most people look there first.
pub fn areas() -> impl Iterator<Item = &'static Area> {
    std::iter::once(&topic::AREA).chain(BROKER_AREAS)
}

/// Every key of a broker.
pub(super) fn all_broker_definitions() -> impl Iterator<Item = &'static Definition> {
    BROKER_AREAS.iter().flat_map(|area| area.definitions)
}

/// The broker's key of exactly this name.
#[must_use]
pub fn broker_definition(name: &str) -> Option<&'static Definition> {
    static BY_NAME: LazyLock<HashMap<&str, &Definition>> = LazyLock::new(|| {
        all_broker_definitions().map(|definition| (definition.name, definition)).collect()
    });
    BY_NAME.get(name).copied()
}

/// The topic's key of exactly this name.
#[must_use]
pub fn topic_definition(name: &str) -> Option<&'static Definition> {
    TOPIC_DEFINITIONS.iter().find(|definition| definition.name == name)
}
