//! Who is not in sync, how far behind, since when and why: asked for with DescribeConfigs of a topic, by a key that
//! no listing shows. Each broker answers what it knows: leaders how far their followers are, the controller since
//! when and why replicas are out, and every broker what is wrong with its own. Decision 13 in `docs/decisions`.

use crate::Broker;
use bytestring::ByteString;
use controller::OutOfSync;
use model::{BrokerId, TopicName};
use protocol::messages::DescribeConfigsRequest;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::describe_configs_response::DescribeConfigsResourceResult;

use super::admin::resource;

/// The key. What is told has names that begin with it: `barnabas.out.of.sync.<partition>.<replica>.<what>`.
const KEY: &str = "barnabas.out.of.sync";

/// The type of a text, on the wire.
const STRING: i8 = 2;

pub(super) fn is_asked(asked: &DescribeConfigsResource) -> bool {
    let keys = asked.configuration_keys.as_deref().unwrap_or_default();
    asked.resource_type == resource::TOPIC && keys.iter().any(|key| **key == *KEY)
}

/// The topics whose replicas are asked about.
pub(super) fn topics(request: &DescribeConfigsRequest) -> Vec<TopicName> {
    let asked = request.resources.iter().filter(|asked| is_asked(asked));
    asked.map(|asked| TopicName::from(&*asked.resource_name)).collect()
}

/// What is known here of the replicas of `topic`; `left` is what the controller, if this is it, knows of all topics.
pub(super) fn describe(
    broker: &Broker,
    topic: &str,
    left: &[OutOfSync],
) -> Vec<DescribeConfigsResourceResult> {
    let mut told = Vec::new();
    let mut tell = |partition: i32, replica: BrokerId, what: &str, value: String| {
        told.push(DescribeConfigsResourceResult {
            name: format!("{KEY}.{partition}.{}.{what}", replica.0).into(),
            value: Some(ByteString::from(value)),
            read_only: true,
            config_type: STRING,
            ..Default::default()
        });
    };
    for one in left.iter().filter(|one| *one.partition.topic == *topic) {
        let index = one.partition.partition;
        tell(index, one.replica, "left.ms", one.departure.at.to_string());
        tell(index, one.replica, "cause", one.departure.cause.name().into());
        if one.is_eligible {
            tell(index, one.replica, "eligible", "true".into());
        }
    }
    let wall = broker.clock.timestamp();
    let own_id = broker.partitions.environment().broker_id;
    for partition in broker.partitions.of_topic(topic) {
        let index = partition.index;
        for straggler in partition.stragglers(wall) {
            tell(index, straggler.id, "end.offset", straggler.end.to_string());
            tell(index, straggler.id, "behind", straggler.behind.to_string());
            if let Some(at) = straggler.caught_up_at {
                tell(index, straggler.id, "caught.up.ms", at.to_string());
            }
        }
        if let Some(trouble) = partition.trouble() {
            tell(index, own_id, "trouble", trouble);
        }
    }
    told
}
