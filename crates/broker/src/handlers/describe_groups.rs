//! DescribeGroups (key 15), v0 to v6: v3 authorized operations (KIP-430), v4 instance ids, v5 flexible, v6 unknown groups
//! are an error with a message (KIP-1043); before that they are described as Dead.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Slot, Work, gather};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use group::Error;
use group::request::{Description, MemberDescription};
use protocol::ErrorCode;
use protocol::messages::DescribeGroupsRequest;
use protocol::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use std::sync::Arc;

pub(crate) const API: Api = api!(DescribeGroupsRequest, 0..=6, describe_groups);

/// Without an authorizer everybody may do everything that can be done to a group: read (bit 3), delete (6), describe (8).
const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8;
/// From version 6 on also to describe (10) and to alter (11) its settings, which 4.x knows.
const ALL_OPERATIONS_WITH_SETTINGS: i32 = ALL_OPERATIONS | 1 << 10 | 1 << 11;

fn describe_groups(broker: &Arc<Broker>, request: Request<DescribeGroupsRequest>) -> Outcome {
    let image = broker.image.load();
    let version = request.context.api_version;
    let wants_operations = version >= 3 && request.body.include_authorized_operations;
    let ids = request.body.groups.clone();
    let request = request.into_parked();
    let slots = gather(ids.len(), move |groups| {
        request.respond(DescribeGroupsResponse { groups, ..Default::default() });
    });
    for (group_id, slot) in ids.into_iter().zip(slots) {
        let work = Describing { group_id: group_id.clone(), version, wants_operations, slot };
        broker.groups.submit(&group_id, &image, Box::new(work));
    }
    Outcome::Parked
}

struct Describing {
    group_id: ByteString,
    version: i16,
    wants_operations: bool,
    slot: Slot<DescribedGroup>,
}

impl Work for Describing {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let mut group = match desk.groups.describe(&self.group_id) {
            Some(description) => described(self.group_id, description),
            None => unknown(self.group_id, self.version),
        };
        if self.wants_operations && group.error_code == 0 {
            group.authorized_operations =
                if self.version >= 6 { ALL_OPERATIONS_WITH_SETTINGS } else { ALL_OPERATIONS };
        }
        self.slot.fill(group);
    }

    fn refuse(self: Box<Self>, error: Error) {
        let error_code = error_codes::group(error).code();
        self.slot.fill(DescribedGroup {
            error_code,
            group_id: self.group_id,
            ..Default::default()
        });
    }
}

fn unknown(group_id: ByteString, version: i16) -> DescribedGroup {
    let is_error = version >= 6;
    DescribedGroup {
        error_code: if is_error { ErrorCode::GroupIdNotFound.code() } else { 0 },
        error_message: is_error.then(|| format!("Group {group_id} not found.").into()),
        group_id,
        group_state: "Dead".into(),
        ..Default::default()
    }
}

fn described(group_id: ByteString, group: Description) -> DescribedGroup {
    DescribedGroup {
        group_id,
        group_state: group.state.into(),
        protocol_type: (&*group.protocol_type).into(),
        protocol_data: (&*group.protocol).into(),
        members: group.members.into_iter().map(member).collect(),
        ..Default::default()
    }
}

fn member(member: MemberDescription) -> DescribedGroupMember {
    DescribedGroupMember {
        member_id: (&*member.id).into(),
        group_instance_id: member.instance.as_deref().map(Into::into),
        client_id: (&*member.client_id).into(),
        client_host: (&*member.client_host).into(),
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    }
}
