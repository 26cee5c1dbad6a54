//! DeleteGroups (key 42), v0 to v3: v2 flexible, v3 error messages. Deletes groups without members, and their offsets.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Slot, Work, gather};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use group::Error;
use group::request::Answer;
use protocol::messages::DeleteGroupsRequest;
use protocol::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const API: Api = api!(DeleteGroupsRequest, 0..=3, delete_groups);

fn delete_groups(broker: &Arc<Broker>, request: Request<DeleteGroupsRequest>) -> Outcome {
    let image = broker.image.load();
    let mut seen = BTreeSet::new();
    let ids = request.body.groups_names.iter().filter(|&id| seen.insert(id.clone())).cloned();
    let ids: Vec<ByteString> = ids.collect();
    let request = request.into_parked();
    let slots = gather(ids.len(), move |results| {
        request.respond(DeleteGroupsResponse { results, ..Default::default() });
    });
    for (group_id, slot) in ids.into_iter().zip(slots) {
        let work = Deleting { group_id: group_id.clone(), slot };
        broker.groups.submit(&group_id, &image, Box::new(work));
    }
    Outcome::Parked
}

struct Deleting {
    group_id: ByteString,
    slot: Slot<DeletableGroupResult>,
}

impl Work for Deleting {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let Self { group_id, slot } = *self;
        let id = group_id.clone();
        let ticket = desk.wait(move |answer| {
            if let Answer::DeleteGroups(results) = answer {
                slot.fill(result(id, results.into_iter().next().flatten()));
            }
        });
        desk.groups.delete_groups(desk.now, ticket, &[&group_id], desk.actions);
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.slot.fill(result(self.group_id, Some(error)));
    }
}

fn result(group_id: ByteString, error: Option<Error>) -> DeletableGroupResult {
    let error = error.map(error_codes::group);
    DeletableGroupResult {
        group_id,
        error_code: error.map_or(0, |e| e.code()),
        // Kafka says no more than the code.
        error_message: None,
    }
}
