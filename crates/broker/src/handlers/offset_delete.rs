//! OffsetDelete (key 47), v0 (KIP-496). Removes offsets of partitions that no member of the group reads.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::groups::{Desk, Work};
use crate::request::{Outcome, Parked, Request};
use group::Error;
use group::request::Answer;
use model::TopicName;
use protocol::ErrorCode;
use protocol::messages::OffsetDeleteRequest;
use protocol::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const API: Api = api!(OffsetDeleteRequest, 0..=0, offset_delete);

fn offset_delete(broker: &Arc<Broker>, request: Request<OffsetDeleteRequest>) -> Outcome {
    let image = broker.image.load();
    let mut response = OffsetDeleteResponse::default();
    let mut partitions = BTreeSet::new();
    for topic in &request.body.topics {
        for partition in &topic.partitions {
            let index = partition.partition_index;
            match image.partition(&topic.name, index) {
                Some(_) => _ = partitions.insert((TopicName::from(&*topic.name), index)),
                None => add(
                    &mut response,
                    &topic.name,
                    index,
                    ErrorCode::UnknownTopicOrPartition.code(),
                ),
            }
        }
    }
    if request.body.group_id.is_empty() {
        return request.respond(refused(Error::InvalidGroupId));
    }
    let group_id = request.body.group_id.clone();
    let partitions = partitions.into_iter().collect();
    let work = Deleting { request: request.into_parked(), response, partitions };
    broker.groups.submit(&group_id, &image, Box::new(work));
    Outcome::Parked
}

struct Deleting {
    request: Parked<OffsetDeleteRequest>,
    /// With what is refused already.
    response: OffsetDeleteResponse,
    partitions: Vec<(TopicName, i32)>,
}

impl Work for Deleting {
    fn run(self: Box<Self>, desk: &mut Desk<'_>) {
        let Self { request: Parked { body, responder, .. }, mut response, partitions } = *self;
        let places = partitions.clone();
        let ticket = desk.wait(move |answer| match answer {
            Answer::OffsetDelete(Ok(results)) => {
                for ((topic, partition), error) in places.iter().zip(results) {
                    add(&mut response, topic, *partition, error_codes::of_group(error));
                }
                responder.respond(&response);
            }
            Answer::OffsetDelete(Err(error)) => responder.respond(&refused(error)),
            Answer::Join(_) | Answer::Sync(_) | Answer::Commit(_) | Answer::DeleteGroups(_) => {}
        });
        desk.groups.delete_offsets(desk.now, ticket, &body.group_id, &partitions, desk.actions);
    }

    fn refuse(self: Box<Self>, error: Error) {
        self.request.respond(refused(error));
    }
}

fn add(response: &mut OffsetDeleteResponse, topic: &str, partition_index: i32, error_code: i16) {
    let found = response.topics.iter().rposition(|t| *t.name == *topic);
    let at = found.unwrap_or_else(|| {
        response
            .topics
            .push(OffsetDeleteResponseTopic { name: topic.into(), partitions: Vec::new() });
        response.topics.len() - 1
    });
    let partition = OffsetDeleteResponsePartition { partition_index, error_code };
    response.topics[at].partitions.push(partition);
}

fn refused(error: Error) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code: error_codes::group(error).code(), ..Default::default() }
}
