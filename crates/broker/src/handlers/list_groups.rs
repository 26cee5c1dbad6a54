//! ListGroups (key 16), v0 to v5: v3 flexible, v4 states (KIP-518), v5 types (KIP-848). Lists the groups that this broker
//! coordinates; while a shard loads the others are listed, with COORDINATOR_LOAD_IN_PROGRESS.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::groups::{Desk, Slot, Work, gather};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use group::Error;
use group::request::Overview;
use protocol::ErrorCode;
use protocol::messages::ListGroupsRequest;
use protocol::messages::list_groups_response::{ListGroupsResponse, ListedGroup};
use std::sync::Arc;

pub(crate) const API: Api = api!(ListGroupsRequest, 0..=5, list_groups);

fn list_groups(broker: &Arc<Broker>, request: Request<ListGroupsRequest>) -> Outcome {
    let filter = Arc::new(Filter {
        states: request.body.states_filter.clone(),
        types: request.body.types_filter.clone(),
    });
    let request = request.into_parked();
    let responder = request.responder;
    let responder = Arc::new(parking_lot::Mutex::new(Some(responder)));
    let last = Arc::clone(&responder);
    let finish = move |parts: Vec<Result<Vec<ListedGroup>, Error>>| {
        let loads = parts.iter().any(Result::is_err);
        let body = ListGroupsResponse {
            error_code: if loads { ErrorCode::CoordinatorLoadInProgress.code() } else { 0 },
            groups: parts.into_iter().flatten().flatten().collect(),
            ..Default::default()
        };
        if let Some(responder) = last.lock().take() {
            responder.respond(&body);
        }
    };
    let is_active = broker.groups.submit_to_all(|count| {
        let listing =
            |slot| Box::new(Listing { filter: Arc::clone(&filter), slot }) as Box<dyn Work>;
        gather(count, finish).into_iter().map(listing).collect()
    });
    if !is_active && let Some(responder) = responder.lock().take() {
        let error_code = ErrorCode::CoordinatorNotAvailable.code();
        responder.respond(&ListGroupsResponse { error_code, ..Default::default() });
    }
    Outcome::Parked
}

/// What to list; everything that is empty lets all pass.
struct Filter {
    states: Vec<ByteString>,
    types: Vec<ByteString>,
}

impl Filter {
    /// Upper and lower case are the same. Every group here is a classic one.
    fn passes(&self, group: &Overview) -> bool {
        let named = |list: &[ByteString], name: &str| {
            list.is_empty() || list.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        named(&self.states, group.state) && named(&self.types, "classic")
    }
}

struct Listing {
    filter: Arc<Filter>,
    slot: Slot<Result<Vec<ListedGroup>, Error>>,
}

impl Work for Listing {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let groups =
            desk.groups.list().filter(|group| self.filter.passes(group)).map(listed).collect();
        self.slot.fill(Ok(groups));
    }

    fn refuse(self: Box<Self>, error: Error) {
        // A shard that has just moved away lists nothing here.
        self.slot.fill(if error == Error::NotCoordinator { Ok(Vec::new()) } else { Err(error) });
    }
}

fn listed(group: Overview) -> ListedGroup {
    ListedGroup {
        group_id: (&*group.group).into(),
        protocol_type: (&*group.protocol_type).into(),
        group_state: group.state.into(),
        group_type: "classic".into(),
    }
}
