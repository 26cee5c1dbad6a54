//! What administrative handlers share.

use crate::Broker;
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, ConfigAlteration, ConfigEdit, ControllerHandle};
use metadata::ConfigEntity;
use model::BrokerId;
use protocol::ErrorCode;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Kinds of resources that have settings, as the wire numbers them.
pub(crate) mod resource {
    /// A topic.
    pub(crate) const TOPIC: i8 = 2;
    /// A broker, or all of them.
    pub(crate) const BROKER: i8 = 4;
    /// A broker's loggers.
    pub(crate) const BROKER_LOGGER: i8 = 8;
    /// A subscription to clients' metrics (KIP-714).
    pub(crate) const CLIENT_METRICS: i8 = 16;
    /// A group (KIP-848); none has settings here yet.
    pub(crate) const GROUP: i8 = 32;
}

/// Bits of what anybody may do to a topic where nobody is authorized (KIP-430): read, write, create,
/// delete, alter, describe, describe configs, alter configs.
pub(crate) const ALL_TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;

/// The same for the cluster: create, alter, describe, cluster action, describe configs, alter configs,
/// idempotent write.
pub(crate) const ALL_CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

/// The way to the controller; before it runs, there is none to speak of.
pub(crate) fn controller(broker: &Broker) -> Result<ControllerHandle, ApiError> {
    broker.controller.get().cloned().ok_or_else(|| ApiError::of(ErrorCode::NotController))
}

/// How long a client waits; not at all if it says a negative time.
pub(crate) fn timeout(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The message of an answer.
pub(crate) fn message(error: &ApiError) -> Option<ByteString> {
    error.message.as_deref().map(ByteString::from)
}

/// Code and message of a result.
pub(crate) fn outcome<T>(result: &Result<T, ApiError>) -> (i16, Option<ByteString>) {
    match result {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(error) => (error.code.code(), message(error)),
    }
}

/// This broker's id.
pub(crate) fn own_id(broker: &Broker) -> i32 {
    broker.partitions.environment().broker_id.0
}

pub(crate) fn invalid_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

/// A resource as a request names it: kind and name.
pub(crate) type Resource = (i8, ByteString);

/// Alters the settings of `resources` as `plan` says of the one at each place, and answers with what became of each
/// of them. A plan is for the controller to carry out, or nothing if that is done already. One that is named twice is
/// not altered at all.
pub(crate) fn alter_configs<R: protocol::Request + Send + 'static>(
    broker: &Arc<Broker>,
    request: Request<R>,
    validate_only: bool,
    resources: Vec<Resource>,
    plan: impl Fn(&R, usize) -> Result<Option<ConfigAlteration>, ApiError>,
    answer: impl FnOnce(Vec<(Resource, Result<(), ApiError>)>) -> R::Response + Send + 'static,
) -> Outcome {
    let repeated = repeated(&resources);
    let mut results: Vec<Result<(), ApiError>> = Vec::with_capacity(resources.len());
    let (mut places, mut alterations) = (Vec::new(), Vec::new());
    for at in 0..resources.len() {
        let planned = match repeated.contains(&at) {
            true => Err(invalid_request("Each resource must appear at most once.")),
            false => plan(&request.body, at),
        };
        results.push(planned.map(|alteration| {
            places.extend(alteration.is_some().then_some(at));
            alterations.extend(alteration);
        }));
    }
    let controller = controller(broker);
    let request = request.into_parked();
    broker.control.spawn(async move {
        let altered = match controller {
            _ if places.is_empty() => Vec::new(),
            Ok(controller) => controller.alter_configs(alterations, validate_only).await,
            Err(error) => vec![Err(error); places.len()],
        };
        for (place, result) in places.into_iter().zip(altered) {
            results[place] = result;
        }
        request.respond(answer(resources.into_iter().zip(results).collect()));
    });
    Outcome::Parked
}

/// The places of resources that are named more than once.
fn repeated(resources: &[Resource]) -> BTreeSet<usize> {
    let mut first: HashMap<&Resource, usize> = HashMap::new();
    let mut repeated = BTreeSet::new();
    for (at, resource) in resources.iter().enumerate() {
        if let Some(&before) = first.get(resource) {
            repeated.extend([before, at]);
        } else {
            first.insert(resource, at);
        }
    }
    repeated
}

/// Refuses settings of which one is named twice, or lacks the value that it needs: `(name, whether it lacks it)`.
pub(crate) fn check_settings<'a>(
    settings: impl Iterator<Item = (&'a str, bool)> + Clone,
) -> Result<(), ApiError> {
    let mut names: Vec<_> = settings.clone().map(|(name, _)| name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid_request("Error due to duplicate config keys"));
    }
    let null: Vec<&str> = settings.filter(|(_, is_null)| *is_null).map(|(name, _)| name).collect();
    if !null.is_empty() {
        return Err(invalid_request(format!("Null value not supported for : {}", null.join(", "))));
    }
    Ok(())
}

/// What the controller is to do to a resource whose settings lie in the store. A broker's are altered at that broker;
/// no name means all brokers.
pub(crate) fn alteration(
    broker: &Broker,
    kind: i8,
    name: &str,
    edit: ConfigEdit,
) -> Result<ConfigAlteration, ApiError> {
    let entity = match kind {
        resource::TOPIC if name.is_empty() => {
            return Err(invalid_request("Default topic resources are not allowed."));
        }
        resource::TOPIC if broker.image.load().topic(name).is_none() => {
            return Err(ApiError::new(
                ErrorCode::UnknownTopicOrPartition,
                format!("The topic '{name}' does not exist."),
            ));
        }
        resource::TOPIC => ConfigEntity::Topic(name.into()),
        resource::BROKER if name.is_empty() => ConfigEntity::AllBrokers,
        resource::BROKER => {
            check_own_id(broker, name, "Unexpected broker id, expected")?;
            ConfigEntity::Broker(BrokerId(own_id(broker)))
        }
        resource::CLIENT_METRICS if name.is_empty() => {
            return Err(invalid_request("Subscription name can't be empty"));
        }
        resource::CLIENT_METRICS => ConfigEntity::ClientMetrics(name.into()),
        kind => return Err(invalid_request(format!("Unknown resource type {kind}"))),
    };
    Ok(ConfigAlteration { entity, edit })
}

/// Refuses another broker's name; `words` come before the id.
pub(crate) fn check_own_id(broker: &Broker, name: &str, words: &str) -> Result<(), ApiError> {
    let own = own_id(broker);
    match name.parse::<i32>() {
        Ok(id) if id == own => Ok(()),
        Ok(_) => Err(invalid_request(format!("{words} {own}, but received {name}"))),
        Err(_) => Err(invalid_request(format!("Node id must be an integer, but it is: {name}"))),
    }
}
