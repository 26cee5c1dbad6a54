//! FindCoordinator (key 10), v0 to v6: v1 key types and an error message, v3 flexible, v4 several keys (KIP-699), v6 share
//! groups. Tells which broker leads the partition of the internal topic that the key is in, and creates the topic if there
//! is none yet; clients come back.
//!
//! Groups (key type 0) only: there is no transaction coordinator yet, and no share coordinator. A transactional id is
//! refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED and a message that says why. Any retriable code makes a producer ask
//! until its own time is up, some for ever, and this is the one code that every client takes for final: librdkafka asks
//! again after UNSUPPORTED_VERSION or INVALID_REQUEST too. No client that has seen ApiVersions tries share groups; their
//! keys are answered COORDINATOR_NOT_AVAILABLE, as by a broker whose internal topic cannot be created.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::groups::{OFFSETS_TOPIC, offsets_topic};
use crate::request::{Outcome, Request, RequestContext};
use metadata::{ClusterImage, Endpoint};
use model::BrokerId;
use protocol::ErrorCode;
use protocol::messages::FindCoordinatorRequest;
use protocol::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(FindCoordinatorRequest, 0..=6, find_coordinator);

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

const NO_TRANSACTIONS: &str = "This broker does not do transactions yet.";

fn find_coordinator(broker: &Arc<Broker>, request: Request<FindCoordinatorRequest>) -> Outcome {
    let image = broker.image.load();
    let body = &request.body;
    let find = |key: &str| match body.key_type {
        GROUP => find_group(broker, &image, key, &request.context),
        TRANSACTION => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        SHARE if request.context.api_version >= 6 => Err(ErrorCode::CoordinatorNotAvailable),
        _ => Err(ErrorCode::InvalidRequest),
    };
    let response = if request.context.api_version < 4 {
        one(find(&body.key))
    } else {
        let coordinator = |key: &bytestring::ByteString| {
            let found = find(key);
            let place = Place::of(&found);
            Coordinator {
                key: key.clone(),
                node_id: place.node_id,
                host: place.host.as_str().into(),
                port: place.port,
                error_code: place.error.code(),
                // Kafka refuses an unknown key type by the way that fills in messages; nothing else does.
                error_message: Some(match body.key_type {
                    TRANSACTION => NO_TRANSACTIONS.into(),
                    key_type if place.error == ErrorCode::InvalidRequest && key_type != SHARE => {
                        place.error.message().into()
                    }
                    _ => Default::default(),
                }),
            }
        };
        let coordinators = body.coordinator_keys.iter().map(coordinator).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    };
    request.respond(response)
}

fn one(found: Result<(BrokerId, Endpoint), ErrorCode>) -> FindCoordinatorResponse {
    let place = Place::of(&found);
    FindCoordinatorResponse {
        error_code: place.error.code(),
        // Kafka says NONE where there is no error.
        error_message: Some(if place.error == ErrorCode::None {
            "NONE".into()
        } else if place.error == ErrorCode::TransactionalIdAuthorizationFailed {
            NO_TRANSACTIONS.into()
        } else {
            place.error.message().into()
        }),
        node_id: place.node_id,
        host: place.host.as_str().into(),
        port: place.port,
        ..Default::default()
    }
}

struct Place {
    error: ErrorCode,
    node_id: i32,
    host: String,
    port: i32,
}

impl Place {
    fn of(found: &Result<(BrokerId, Endpoint), ErrorCode>) -> Self {
        match found {
            Ok((id, endpoint)) => Self {
                error: ErrorCode::None,
                node_id: id.0,
                host: endpoint.host.clone(),
                port: endpoint.port,
            },
            Err(error) => Self { error: *error, node_id: -1, host: String::new(), port: -1 },
        }
    }
}

fn find_group(
    broker: &Arc<Broker>,
    image: &ClusterImage,
    group: &str,
    context: &RequestContext,
) -> Result<(BrokerId, Endpoint), ErrorCode> {
    let unavailable = ErrorCode::CoordinatorNotAvailable;
    if image.topic(OFFSETS_TOPIC).is_none() {
        if let Some(controller) = broker.controller.get() {
            // Nobody waits for it: clients ask again.
            controller.auto_create_topics(vec![offsets_topic(&broker.config.load())]);
        }
        return Err(unavailable);
    }
    let partition = image.partition(OFFSETS_TOPIC, broker.groups.partition_of(group, image));
    let leader = partition.and_then(|p| p.leader).ok_or(unavailable)?;
    let endpoint = image.broker(leader).and_then(|b| b.endpoint(&context.listener().name));
    endpoint.map(|endpoint| (leader, endpoint.clone())).ok_or(unavailable)
}
