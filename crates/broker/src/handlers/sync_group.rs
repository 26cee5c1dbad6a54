//! SyncGroup (key 14), v0 to v5: v3 static members (KIP-345), v4 flexible, v5 protocol type and name are checked
//! (KIP-559). The leader brings the assignment, and everybody is answered once it is stored.
//!
//! While its shard loads the answer is REBALANCE_IN_PROGRESS: the rebalance is forgotten, the client joins again.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work};
use crate::request::{Outcome, Parked, Request};
use bytes::Bytes;
use group::Error;
use group::request::{Answer, Sync, Synced};
use protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(SyncGroupRequest, 0..=5, sync_group);

fn sync_group(broker: &Arc<Broker>, request: Request<SyncGroupRequest>) -> Outcome {
    let body = &request.body;
    let lacks_protocol = body.protocol_type.is_none() || body.protocol_name.is_none();
    if request.context.api_version >= 5 && lacks_protocol {
        return request.respond(response(Err(Error::InconsistentGroupProtocol)));
    }
    if body.group_id.is_empty() {
        return request.respond(response(Err(Error::InvalidGroupId)));
    }
    let group_id = body.group_id.clone();
    broker.groups.submit(&group_id, &broker.image.load(), Box::new(request.into_parked()));
    Outcome::Parked
}

impl Work for Parked<SyncGroupRequest> {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let Parked { body, responder, .. } = *self;
        let ticket = desk.wait(move |answer| {
            if let Answer::Sync(result) = answer {
                responder.respond(&response(result));
            }
        });
        let copied = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let assignments = body.assignments.iter().map(|a| (&*a.member_id, copied(&a.assignment)));
        let sync = Sync {
            group: &body.group_id,
            generation: body.generation_id,
            member: &body.member_id,
            instance: body.group_instance_id.as_deref(),
            protocol_type: body.protocol_type.as_deref(),
            protocol: body.protocol_name.as_deref(),
            assignments: assignments.collect(),
        };
        desk.groups.sync(desk.now, ticket, sync, desk.actions);
    }

    fn refuse(self: Box<Self>, error: Error) {
        let loads = error == Error::CoordinatorLoadInProgress;
        self.respond(response(Err(if loads { Error::RebalanceInProgress } else { error })));
    }
}

fn response(result: Result<Synced, Error>) -> SyncGroupResponse {
    match result {
        Ok(synced) => SyncGroupResponse {
            protocol_type: synced.protocol_type.as_deref().map(Into::into),
            protocol_name: synced.protocol.as_deref().map(Into::into),
            assignment: synced.assignment,
            ..Default::default()
        },
        Err(error) => {
            SyncGroupResponse { error_code: error_codes::group(error).code(), ..Default::default() }
        }
    }
}
