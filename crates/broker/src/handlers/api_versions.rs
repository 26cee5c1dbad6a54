//! ApiVersions (key 18), v0 to v5: v1 throttle time, v3 flexible and the client's software (KIP-511),
//! v4 feature ranges from 0, v5 the cluster and broker that the client believes to speak to (KIP-1242).
//!
//! The first request of most clients, so it never fails for being too new: an unknown version is
//! answered in the layout of v0 with UNSUPPORTED_VERSION and the range of this API, and the
//! connection stays. The response header is always v0, flexible or not, because the client cannot
//! know yet which versions we speak.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api, apis};
use crate::request::{ClientSoftware, Outcome, Request, RequestContext, Responder};
use protocol::ErrorCode;
use protocol::messages::ApiVersionsRequest;
use protocol::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(ApiVersionsRequest, 0..=5, api_versions);

/// The client does not say which broker it believes to speak to.
const NO_NODE: i32 = -1;

fn api_versions(broker: &Arc<Broker>, request: Request<ApiVersionsRequest>) -> Outcome {
    if request.context.api_version >= 5
        && request.body.cluster_id.is_some() != (request.body.node_id != NO_NODE)
    {
        return refused(request, ErrorCode::InvalidRequest);
    }
    if request.context.api_version >= 3 {
        let (name, version) =
            (&request.body.client_software_name, &request.body.client_software_version);
        if !is_software_name(name) || !is_software_name(version) {
            return refused(request, ErrorCode::InvalidRequest);
        }
        request
            .context
            .connection
            .set_software(ClientSoftware { name: name.clone(), version: version.clone() });
    }
    if request.body.cluster_id.as_ref().is_some_and(|id| *id != broker.cluster_id)
        || ![NO_NODE, admin::own_id(broker)].contains(&request.body.node_id)
    {
        return refused(request, ErrorCode::RebootstrapRequired);
    }
    let api_keys = apis()
        .into_iter()
        .map(|row| ApiVersion {
            api_key: row.key.code(),
            min_version: row.lowest,
            max_version: row.highest,
        })
        .collect();
    // No feature is finalized, at the first version of `/feature`.
    let finalized_features_epoch = 0;
    request.respond(ApiVersionsResponse {
        api_keys,
        finalized_features_epoch,
        ..Default::default()
    })
}

fn refused(request: Request<ApiVersionsRequest>, code: ErrorCode) -> Outcome {
    request.respond(ApiVersionsResponse { error_code: code.code(), ..Default::default() })
}

/// The answer to a version that we do not know.
pub(crate) fn unsupported(context: &RequestContext, sequence: u64) -> Outcome {
    let body = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![ApiVersion {
            api_key: API.key.code(),
            min_version: *API.versions.start(),
            max_version: *API.versions.end(),
        }],
        ..Default::default()
    };
    Responder::<ApiVersionsRequest>::new(context, sequence).respond_at(&body, 0)
}

/// KIP-511: letters, digits, dots and dashes, with a letter or digit at both ends.
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
}
