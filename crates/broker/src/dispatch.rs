//! From a frame to its handler: the table of the APIs that we serve, and nothing else.
//!
//! An API is in the table when it is complete. What ApiVersions answers and `barnabas apis` prints
//! is this table.

use crate::Broker;
use crate::handlers::{self, api_versions};
use crate::request::{CloseReason, ConnectionContext, Outcome, Request, RequestContext, Responder};
use bytes::Bytes;
use model::Instant;
use protocol::{ApiKey, DecodeErrorKind, Reader, RequestHeader};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// One API: which versions of it we serve, and how.
#[derive(Debug)]
pub struct Api {
    /// Which API.
    pub key: ApiKey,
    /// The versions that are complete.
    pub versions: RangeInclusive<i16>,
    pub(crate) handle: fn(&Arc<Broker>, Incoming) -> Outcome,
}

/// Declares an [`Api`]: the request's type, its versions, its handler
/// (`fn(&Arc<Broker>, Request<R>) -> Outcome`).
macro_rules! api {
    ($request:ty, $versions:expr, $handler:expr) => {
        $crate::dispatch::Api {
            key: <$request as protocol::Request>::KEY,
            versions: $versions,
            handle: |broker, incoming| incoming.handle::<$request>(broker, $handler),
        }
    };
}
pub(crate) use api;

/// One row of the table of what we serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiRow {
    /// Which API.
    pub key: ApiKey,
    /// The lowest version.
    pub lowest: i16,
    /// The highest version.
    pub highest: i16,
}

/// What we serve, by key: what ApiVersions answers.
#[must_use]
pub fn apis() -> Vec<ApiRow> {
    let mut rows: Vec<_> = handlers::APIS
        .iter()
        .map(|api| ApiRow {
            key: api.key,
            lowest: *api.versions.start(),
            highest: *api.versions.end(),
        })
        .collect();
    rows.sort_by_key(|row| row.key.code());
    rows
}

/// A request whose body is not decoded yet.
pub(crate) struct Incoming {
    body: Reader,
    context: RequestContext,
    sequence: u64,
}

impl Incoming {
    /// Decodes the body and calls the handler.
    pub(crate) fn handle<R: protocol::Request>(
        mut self,
        broker: &Arc<Broker>,
        handler: fn(&Arc<Broker>, Request<R>) -> Outcome,
    ) -> Outcome {
        match R::decode(&mut self.body, self.context.api_version) {
            Ok(body) => {
                let responder = Responder::new(&self.context, self.sequence);
                handler(broker, Request { body, context: self.context, responder })
            }
            Err(error) => Outcome::Close(CloseReason::Malformed(error.to_string())),
        }
    }
}

/// Handles one frame. A refusal is logged here, where the client's name is known.
pub(crate) fn dispatch(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionContext>,
    sequence: u64,
    frame: Bytes,
    now: Instant,
) -> Outcome {
    let mut body = Reader::new(frame);
    let header = match RequestHeader::decode(&mut body) {
        Ok(header) => header,
        Err(error) => {
            let reason = if let DecodeErrorKind::UnknownApiKey(key) = error.kind {
                CloseReason::UnknownApi(key)
            } else {
                CloseReason::Header(error.to_string())
            };
            broker.refusals.log(connection, None, &reason, now);
            return Outcome::Close(reason);
        }
    };
    let context = RequestContext {
        api_version: header.api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.unwrap_or_default(),
        received_at: now,
        connection: Arc::clone(connection),
    };
    let client_id = context.client_id.clone();
    let outcome = match find(header.api_key) {
        Some(api) if api.versions.contains(&header.api_version) => {
            (api.handle)(broker, Incoming { body, context, sequence })
        }
        Some(api) if api.key == ApiKey::ApiVersions => {
            api_versions::unsupported(&context, sequence)
        }
        Some(api) => Outcome::Close(CloseReason::UnsupportedVersion {
            version: header.api_version,
            lowest: *api.versions.start(),
            highest: *api.versions.end(),
        }),
        None => Outcome::Close(CloseReason::UnknownApi(header.api_key.code())),
    };
    if let Outcome::Close(reason) = &outcome {
        let request = (header.api_key, header.api_version, client_id);
        broker.refusals.log(connection, Some(request), reason, now);
    }
    outcome
}

/// The API `key`, if we serve it.
fn find(key: ApiKey) -> Option<&'static Api> {
    let place = BY_KEY.get(key as usize)?;
    handlers::APIS.get(usize::from(*place))
}

const NONE: u8 = u8::MAX;

/// For each key its place in [`handlers::APIS`].
#[expect(clippy::cast_possible_truncation, reason = "Kafka has fewer than 128 APIs")]
static BY_KEY: [u8; 128] = {
    let mut places = [NONE; 128];
    let mut place = 0;
    while place < handlers::APIS.len() {
        places[handlers::APIS[place].key as usize] = place as u8;
        place += 1;
    }
    places
};
