//! The whole configuration of a broker, typed.

use super::check;
use super::error::{ConfigError, Problem, Warning};
use super::layers::{Layers, Properties, definition_of};
use super::listener::{self, Listeners};
use super::properties;
use super::providers::{self, Environment};
use super::settings::{
    ControllerSettings, GroupSettings, LogSettings, NetworkSettings, NodeSettings, OffsetsSettings,
    ReplicationSettings, TopicSettings, TransactionSettings, ZooKeeperSettings,
};
use super::topic::{self, TopicConfig};
use super::values::Values;
use std::env;
use std::path::Path;

/// The whole configuration of a broker, immutable. A dynamic update makes another one: [`BrokerConfig::with_dynamic`].
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    /// Who the broker is.
    pub node: NodeSettings,
    /// Where it listens.
    pub listeners: Listeners,
    /// Sockets, connections and request queues.
    pub network: NetworkSettings,
    /// How topics come and go.
    pub topics: TopicSettings,
    /// Where records live.
    pub log: LogSettings,
    /// Fetching from leaders, and what leaders expect of followers.
    pub replication: ReplicationSettings,
    /// What it does while it is the controller.
    pub controller: ControllerSettings,
    /// The classic group protocol.
    pub groups: GroupSettings,
    /// Committed offsets.
    pub offsets: OffsetsSettings,
    /// Producer ids and transactions.
    pub transactions: TransactionSettings,
    /// The ensemble that keeps the metadata; `None` if the broker does.
    pub zookeeper: Option<ZooKeeperSettings>,
    /// What a topic without settings of its own goes by.
    pub topic_defaults: TopicConfig,
    /// The same, by topic key.
    pub(super) topic_properties: Properties,
    pub(super) layers: Layers,
}

/// A configuration to start with, and what to tell the operator about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: BrokerConfig,
    /// Each to be logged once.
    pub warnings: Vec<Warning>,
}

impl BrokerConfig {
    /// Reads `file` (without one, the defaults for a single broker on this machine), then `overrides` in order, then what
    /// `config.providers` refers to.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(
        file: Option<&Path>,
        overrides: &[(String, String)],
    ) -> Result<Loaded, ConfigError> {
        let set = match file {
            Some(path) => properties::read_file(path)
                .map_err(|problem| ConfigError { problems: vec![problem] })?,
            None => Self::without_a_file(),
        };
        Self::from_properties(set.into_iter().chain(overrides.iter().cloned()).collect(), &|name| {
            env::var_os(name)
        })
    }

    /// What a broker without a file is configured with, as properties.
    #[must_use]
    pub fn without_a_file() -> Properties {
        properties::WITHOUT_A_FILE
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// Builds a configuration from properties; `environment` is what an `EnvVarConfigProvider` may read.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_properties(
        mut set: Properties,
        environment: Environment<'_>,
    ) -> Result<Loaded, ConfigError> {
        let mut problems = Vec::new();
        providers::resolve(&mut set, environment, &mut problems);
        problems.extend(same_id(&mut set));
        let layers = Layers { fixed: set, ..Layers::default() };
        problems.extend(check::check_values(&layers.fixed));
        let (refused, mut warnings) = check::check_statuses(&layers.fixed);
        problems.extend(refused);
        match Self::build(layers, problems) {
            Ok(config) => {
                warnings.extend(lonely(&config));
                warnings.extend(idle_tls(&config));
                Ok(Loaded { config, warnings })
            }
            Err(problems) => Err(ConfigError { problems }),
        }
    }

    /// The configuration with these dynamic values for every broker and for this one instead of the present ones.
    ///
    /// A value that cannot be used (it was stored by another version) is left out, and is in the list that comes back;
    /// so is a read-only key. If the rest contradicts itself, no dynamic value is used.
    #[must_use]
    pub fn with_dynamic(&self, cluster: &Properties, broker: &Properties) -> (Self, Vec<Problem>) {
        let mut left_out = Vec::new();
        let mut usable = |set: &Properties, per_broker: bool| -> Properties {
            set.iter()
                .filter(|(key, value)| {
                    match super::alter::check_dynamic_value(key, value, per_broker) {
                        Ok(()) => true,
                        Err(message) => {
                            left_out.push(Problem::new(
                                key.as_str(),
                                message,
                                "alter or delete the dynamic value",
                            ));
                            false
                        }
                    }
                })
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let layers = Layers {
            fixed: self.layers.fixed.clone(),
            cluster: usable(cluster, false),
            broker: usable(broker, true),
        };
        match Self::build(layers, Vec::new()) {
            Ok(config) => (config, left_out),
            Err(problems) => {
                left_out.extend(problems);
                let fixed = Layers { fixed: self.layers.fixed.clone(), ..Layers::default() };
                let config = Self::build(fixed, Vec::new())
                    .unwrap_or_else(|problems| panic!("it started with these: {problems:?}"));
                (config, left_out)
            }
        }
    }

    /// What a topic with `overrides` goes by. Overrides that are unknown or malformed count as absent.
    #[must_use]
    pub fn topic_config(&self, overrides: &Properties) -> TopicConfig {
        if overrides.is_empty() {
            return self.topic_defaults.clone();
        }
        let effective = topic::layered(&self.topic_properties, overrides);
        self.read_topic(&effective)
    }

    /// What the logs of a topic with `overrides` go by.
    #[must_use]
    pub fn log_config(&self, overrides: &Properties) -> storage::LogConfig {
        self.topic_config(overrides).log
    }

    fn read_topic(&self, effective: &Properties) -> TopicConfig {
        let mut config = TopicConfig::read(&Values::topic(effective));
        config.log.producer_id_expiration_ms = self.transactions.producer_id_expiration;
        config
    }

    /// `problems` are those found before; values that do not parse are left out, so that the rest can be checked too.
    pub(super) fn build(layers: Layers, mut problems: Vec<Problem>) -> Result<Self, Vec<Problem>> {
        let mut effective = layers.effective();
        effective.retain(|key, text| {
            definition_of(key)
                .is_none_or(|definition| check::check_value(definition, key, text).is_ok())
        });
        let values = Values::broker(&effective);
        problems.extend(check::check_together(&values));
        let listeners = listener::read(&values, &mut problems);
        let zookeeper = ZooKeeperSettings::read(&values, &mut problems);
        let (Some(listeners), true) = (listeners, problems.is_empty()) else {
            return Err(problems);
        };
        let topic_properties = topic::defaults_from(&values);
        let mut topic_defaults = TopicConfig::read(&Values::topic(&topic_properties));
        let transactions = TransactionSettings::read(&values);
        topic_defaults.log.producer_id_expiration_ms = transactions.producer_id_expiration;
        Ok(Self {
            node: NodeSettings::read(&values),
            listeners,
            network: NetworkSettings::read(&values),
            topics: TopicSettings::read(&values),
            log: LogSettings::read(&values),
            replication: ReplicationSettings::read(&values),
            zookeeper,
            controller: ControllerSettings::read(&values),
            groups: GroupSettings::read(&values),
            offsets: OffsetsSettings::read(&values),
            transactions,
            topic_defaults,
            topic_properties,
            layers,
        })
    }
}

/// `node.id` and `broker.id` are one key under two names: each stands in for the other.
pub(super) fn same_id(set: &mut Properties) -> Option<Problem> {
    let (broker, node) = (set.get("broker.id").cloned(), set.get("node.id").cloned());
    match (broker, node) {
        (Some(broker), Some(node)) if broker.trim() != node.trim() => Some(Problem::new(
            "node.id",
            "You must set `node.id` to the same value as `broker.id`.".into(),
            "remove one of the two",
        )),
        (Some(id), None) => {
            set.insert("node.id".into(), id);
            None
        }
        (None, Some(id)) => {
            set.insert("broker.id".into(), id);
            None
        }
        _ => None,
    }
}

/// Apache Kafka says nothing of it either, but whoever named these files may think that nobody listens.
fn idle_tls(config: &BrokerConfig) -> Vec<Warning> {
    let effective = config.layers.effective();
    let idle = super::settings::idle_tls_keys(&Values::broker(&effective)).into_iter();
    idle.map(|key| Warning {
        key: key.into(),
        message: "does nothing while zookeeper.ssl.client.enable is false: the connection to ZooKeeper is not \
                  encrypted; set that to true, or remove the key"
            .into(),
    })
    .collect()
}

/// Kafka's default asks for three brokers, which nobody notices before the first consumer group hangs.
fn lonely(config: &BrokerConfig) -> Option<Warning> {
    let factor = config.offsets.topic_replication_factor;
    (factor > 1).then(|| Warning {
        key: "offsets.topic.replication.factor".into(),
        message: format!(
            "{factor} copies of __consumer_offsets need as many brokers; alone, this broker serves no consumer group \
             until it is 1"
        ),
    })
}
