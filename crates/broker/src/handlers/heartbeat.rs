//! Heartbeat (key 12), v0 to v4: v3 static members (KIP-345), v4 flexible. Says that a member lives, and learns from the
//! answer whether it must join again.
//!
//! While its shard loads, every heartbeat is answered NONE: the members of the stored generation are alive as far as
//! anybody knows (`coordinators.md` 1.1).

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work};
use crate::request::{Outcome, Parked, Request};
use group::Error;
use group::request::Speaker;
use protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(HeartbeatRequest, 0..=4, heartbeat);

fn heartbeat(broker: &Arc<Broker>, request: Request<HeartbeatRequest>) -> Outcome {
    if request.body.group_id.is_empty() {
        return request.respond(response(Err(Error::InvalidGroupId)));
    }
    let group_id = request.body.group_id.clone();
    broker.groups.submit(&group_id, &broker.image.load(), Box::new(request.into_parked()));
    Outcome::Parked
}

impl Work for Parked<HeartbeatRequest> {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let speaker = Speaker {
            member: &self.body.member_id,
            instance: self.body.group_instance_id.as_deref(),
            generation: self.body.generation_id,
        };
        let result = desk.groups.heartbeat(desk.now, &self.body.group_id, speaker, desk.actions);
        self.respond(response(result));
    }

    fn refuse(self: Box<Self>, error: Error) {
        let loads = error == Error::CoordinatorLoadInProgress;
        self.respond(response(if loads { Ok(()) } else { Err(error) }));
    }
}

fn response(result: Result<(), Error>) -> HeartbeatResponse {
    HeartbeatResponse { error_code: error_codes::of_group(result.err()), ..Default::default() }
}
