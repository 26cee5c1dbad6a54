//! The controller asks, the definitions answer: [`ConfigRules`] of this broker.

use super::alter::{
    AlterError, validate_cluster_configs, validate_dynamic_broker_configs, validate_topic_configs,
};
use super::broker_config::BrokerConfig;
use super::client_metrics::{client_metrics_definition, validate_client_metrics};
use super::definition::{Definition, Kind};
use super::definitions::{broker_definition, topic_definition};
use super::layers::Properties;
use controller::{ApiError, ConfigRules};
use metadata::ConfigEntity;
use model::TopicName;
use protocol::ErrorCode;
use std::fmt;
use std::sync::Arc;

/// Judges altered settings by the configuration that the broker has at that moment.
pub struct DefinedRules {
    current: Box<dyn Fn() -> Arc<BrokerConfig> + Send + Sync>,
}

impl DefinedRules {
    /// `current` answers with the broker's present configuration.
    #[must_use]
    pub fn new(current: impl Fn() -> Arc<BrokerConfig> + Send + Sync + 'static) -> Self {
        Self { current: Box::new(current) }
    }
}

impl fmt::Debug for DefinedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DefinedRules")
    }
}

impl ConfigRules for DefinedRules {
    fn is_list(&self, entity: &ConfigEntity, name: &str) -> Option<bool> {
        // To Kafka's controller no setting of a subscription is a list that could be added to.
        let is_subscription = matches!(entity, ConfigEntity::ClientMetrics(_));
        definition(entity, name).map(|definition| definition.kind == Kind::List && !is_subscription)
    }

    /// Kafka adds to and takes from the definition's default, whatever the broker's own default is.
    fn default_value(&self, entity: &ConfigEntity, name: &str) -> Option<String> {
        definition(entity, name)?.default.map(str::to_owned)
    }

    fn validate_new_topic(&self, _: &TopicName, configs: &Properties) -> Result<(), ApiError> {
        validate_topic_configs(&(self.current)(), configs)
            .map_err(|error| ApiError::new(ErrorCode::InvalidConfig, error.to_string()))
    }

    /// As Kafka answers when settings are altered: a broker's value that does not parse or is out of range is an
    /// `INVALID_REQUEST`, a topic's an `INVALID_CONFIG`.
    fn validate(
        &self,
        entity: &ConfigEntity,
        configs: &Properties,
        _edited: &[String],
    ) -> Result<(), ApiError> {
        let config = (self.current)();
        let result = match entity {
            ConfigEntity::Topic(_) => validate_topic_configs(&config, configs),
            ConfigEntity::Broker(_) => validate_dynamic_broker_configs(&config, configs),
            ConfigEntity::AllBrokers => validate_cluster_configs(&config, configs),
            ConfigEntity::ClientMetrics(name) => validate_client_metrics(name, configs),
        };
        result.map_err(|error| match (error, entity) {
            (AlterError::Configuration(message), _)
            | (AlterError::Value(message), ConfigEntity::Topic(_)) => {
                ApiError::new(ErrorCode::InvalidConfig, message)
            }
            (
                AlterError::Value(message),
                ConfigEntity::Broker(_) | ConfigEntity::AllBrokers | ConfigEntity::ClientMetrics(_),
            ) => ApiError::new(ErrorCode::InvalidRequest, message),
        })
    }
}

fn definition(entity: &ConfigEntity, name: &str) -> Option<&'static Definition> {
    match entity {
        ConfigEntity::Topic(_) => topic_definition(name),
        ConfigEntity::Broker(_) | ConfigEntity::AllBrokers => broker_definition(name),
        ConfigEntity::ClientMetrics(_) => client_metrics_definition(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::BrokerId;

    fn rules() -> DefinedRules {
        let config = Arc::new(BrokerConfig::load(None, &[]).unwrap().config);
        DefinedRules::new(move || Arc::clone(&config))
    }

    fn set(key: &str, value: &str) -> Properties {
        Properties::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_bad_value_is_an_invalid_config_of_a_topic_and_an_invalid_request_of_a_broker() {
        let (rules, topic) = (rules(), ConfigEntity::Topic(TopicName::from("t")));
        let bad = set("retention.ms", "-2");
        let reason = "Invalid value -2 for configuration retention.ms: Value must be at least -1";
        let altered = rules.validate(&topic, &bad, &[]).unwrap_err();
        assert_eq!(altered, ApiError::new(ErrorCode::InvalidConfig, reason));
        let broker = ConfigEntity::Broker(BrokerId(0));
        let altered = rules.validate(&broker, &set("log.cleaner.threads", "-2"), &[]).unwrap_err();
        assert_eq!(altered.code, ErrorCode::InvalidRequest);
        let created = rules.validate_new_topic(&TopicName::from("t"), &bad).unwrap_err();
        assert_eq!(created, ApiError::new(ErrorCode::InvalidConfig, reason));
    }

    #[test]
    fn a_name_that_no_topic_has_is_an_invalid_config() {
        let topic = ConfigEntity::Topic(TopicName::from("t"));
        let error = rules().validate(&topic, &set("no.such.key", "1"), &[]).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidConfig);
        assert_eq!(error.message.as_deref(), Some("Unknown topic config name: no.such.key"));
    }

    #[test]
    fn lists_are_known_as_such_by_entity() {
        let (topic, broker) =
            (ConfigEntity::Topic(TopicName::from("t")), ConfigEntity::Broker(BrokerId(0)));
        let rules = rules();
        assert_eq!(rules.is_list(&topic, "cleanup.policy"), Some(true));
        assert_eq!(rules.is_list(&topic, "retention.ms"), Some(false));
        assert_eq!(rules.is_list(&topic, "log.cleanup.policy"), None);
        assert_eq!(rules.is_list(&broker, "log.cleanup.policy"), Some(true));
        assert_eq!(rules.default_value(&topic, "cleanup.policy").as_deref(), Some("delete"));
    }
}
