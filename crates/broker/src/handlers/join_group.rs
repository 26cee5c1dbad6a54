//! JoinGroup (key 11), v0 to v9: v1 rebalance timeout (KIP-62), v4 members are given their id first (KIP-394), v5 static
//! members (KIP-345), v6 flexible, v7 protocol type, v8 reason (KIP-800), v9 static leaders may skip the assignment
//! (KIP-814). Answered when the rebalance that it joins, or starts, has everybody.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work, java_host};
use crate::request::{Outcome, Parked, Request};
use bytestring::ByteString;
use group::Error;
use group::request::{Answer, Join, JoinRefused, Joined, JoinedMember, Protocol};
use protocol::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use protocol::messages::{JoinGroupRequest, join_group_request::JoinGroupRequestProtocol};
use std::sync::Arc;

pub(crate) const API: Api = api!(JoinGroupRequest, 0..=9, join_group);

fn join_group(broker: &Arc<Broker>, request: Request<JoinGroupRequest>) -> Outcome {
    if request.body.group_id.is_empty() {
        let refused = refused(&request.body.member_id, Error::InvalidGroupId);
        let version = request.context.api_version;
        return request.respond(response(Err(refused), version));
    }
    let group_id = request.body.group_id.clone();
    broker.groups.submit(&group_id, &broker.image.load(), Box::new(request.into_parked()));
    Outcome::Parked
}

impl Work for Parked<JoinGroupRequest> {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let Parked { body, context, responder } = *self;
        let version = context.api_version;
        let ticket = desk.wait(move |answer| {
            if let Answer::Join(result) = answer {
                responder.respond(&response(result, version));
            }
        });
        let dynamic = body.group_instance_id.is_none();
        let join = Join {
            group: text(&body.group_id),
            member: (!body.member_id.is_empty()).then(|| text(&body.member_id)),
            instance: body.group_instance_id.as_ref().map(text),
            client_id: text(&context.client_id),
            client_host: java_host(context.peer()),
            session_timeout: body.session_timeout_ms,
            rebalance_timeout: if version == 0 {
                body.session_timeout_ms
            } else {
                body.rebalance_timeout_ms
            },
            protocol_type: text(&body.protocol_type),
            protocols: body.protocols.into_iter().map(protocol).collect(),
            needs_known_member_id: version >= 4 && dynamic,
            can_skip_assignment: version >= 9,
            uuid: desk.uuid(),
            reason: body.reason.as_ref().map(text),
        };
        desk.groups.join(desk.now, ticket, join, desk.actions);
    }

    fn refuse(self: Box<Self>, error: Error) {
        let refused = refused(&self.body.member_id, error);
        let version = self.context.api_version;
        self.respond(response(Err(refused), version));
    }
}

/// Copied: a group must not hold on to the frames that its members sent.
fn text(text: &ByteString) -> Arc<str> {
    Arc::from(&**text)
}

fn protocol(sent: JoinGroupRequestProtocol) -> Protocol {
    Protocol { name: text(&sent.name), metadata: bytes::Bytes::copy_from_slice(&sent.metadata) }
}

fn refused(member: &ByteString, error: Error) -> JoinRefused {
    JoinRefused { error, member: text(member) }
}

fn response(result: Result<Joined, JoinRefused>, version: i16) -> JoinGroupResponse {
    // No protocol is null from v7 on, and empty before.
    let nullable = |name: Option<&str>| match name {
        Some(name) => Some(name.into()),
        None => (version < 7).then(ByteString::new),
    };
    match result {
        Ok(joined) => JoinGroupResponse {
            generation_id: joined.generation,
            protocol_type: joined.protocol_type.as_deref().map(Into::into),
            protocol_name: nullable(joined.protocol.as_deref()),
            leader: (&*joined.leader).into(),
            skip_assignment: joined.skip_assignment,
            member_id: (&*joined.member).into(),
            members: joined.members.into_iter().map(member).collect(),
            ..Default::default()
        },
        Err(refused) => JoinGroupResponse {
            error_code: error_codes::group(refused.error).code(),
            protocol_name: nullable(None),
            member_id: (&*refused.member).into(),
            ..Default::default()
        },
    }
}

fn member(member: JoinedMember) -> JoinGroupResponseMember {
    JoinGroupResponseMember {
        member_id: (&*member.id).into(),
        group_instance_id: member.instance.as_deref().map(Into::into),
        metadata: member.metadata,
    }
}
