//! LeaveGroup (key 13), v0 to v5: v3 several members, also by instance id (KIP-345), v4 flexible, v5 reason (KIP-800).
//! Before v3 the one member's error is the answer's.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work};
use crate::request::{Outcome, Parked, Request};
use group::Error;
use group::request::Leaver;
use protocol::messages::LeaveGroupRequest;
use protocol::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(LeaveGroupRequest, 0..=5, leave_group);

fn leave_group(broker: &Arc<Broker>, request: Request<LeaveGroupRequest>) -> Outcome {
    if request.body.group_id.is_empty() {
        return request.respond(refused(Error::InvalidGroupId));
    }
    let group_id = request.body.group_id.clone();
    broker.groups.submit(&group_id, &broker.image.load(), Box::new(request.into_parked()));
    Outcome::Parked
}

impl Work for Parked<LeaveGroupRequest> {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let leavers: Vec<_> = if self.context.api_version < 3 {
            vec![Leaver { member: &self.body.member_id, instance: None, reason: None }]
        } else {
            let named = self.body.members.iter().map(|m| Leaver {
                member: &m.member_id,
                instance: m.group_instance_id.as_deref(),
                reason: m.reason.as_deref(),
            });
            named.collect()
        };
        let results = desk.groups.leave(desk.now, &self.body.group_id, &leavers, desk.actions);
        let body = match results {
            Err(error) => refused(error),
            Ok(results) if self.context.api_version < 3 => {
                let error = results.into_iter().next().and_then(Result::err);
                LeaveGroupResponse {
                    error_code: error_codes::of_group(error),
                    ..Default::default()
                }
            }
            Ok(results) => {
                let members =
                    self.body.members.iter().zip(results).map(|(m, result)| MemberResponse {
                        member_id: m.member_id.clone(),
                        group_instance_id: m.group_instance_id.clone(),
                        error_code: error_codes::of_group(result.err()),
                    });
                LeaveGroupResponse { members: members.collect(), ..Default::default() }
            }
        };
        self.respond(body);
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.respond(refused(error));
    }
}

fn refused(error: Error) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code: error_codes::group(error).code(), ..Default::default() }
}
