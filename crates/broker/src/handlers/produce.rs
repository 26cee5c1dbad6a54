//! Produce (key 0), v0 to v13: v3 record batches and transactions (KIP-98), v5 log start offset, v7
//! zstd (KIP-110), v8 record errors and messages (KIP-467), v9 flexible, v10 leader hints (KIP-951),
//! v13 topic ids (KIP-516). Appends a batch whole or not at all; a partition's failure is its own.
//!
//! Every append is queued and written at the end of the reactor's turn, so the request is always
//! parked. `acks=0` is answered by silence, or by closing the connection if anything failed: that is
//! how such a producer learns to ask for new metadata.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::handlers::leader_hint::{LeaderHint, leader_hint};
use crate::partition::{Append, AppendListener, AppendResult, AppendWaiter, Appended, Partition};
use crate::reactor::turn_timestamp;
use crate::request::{CloseReason, Outcome, ParkedResponder, Request, RequestContext};
use model::{Timestamp, TopicId};
use parking_lot::Mutex;
use protocol::ErrorCode;
use protocol::messages::ProduceRequest;
use protocol::messages::produce_request::PartitionProduceData;
use protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    ProduceResponse, TopicProduceResponse,
};
use protocol::records::validate::{self, Origin, ValidationError, ValidationErrorKind};
use protocol::records::{LOG_OVERHEAD_BYTES, MAGIC_POSITION};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use storage::AppendOrigin;

pub(crate) const API: Api = api!(ProduceRequest, 0..=13, produce);

/// Who may write to internal topics by hand.
const ADMIN_CLIENT_ID: &str = "__admin_client";

fn produce(broker: &Arc<Broker>, request: Request<ProduceRequest>) -> Outcome {
    let Request { mut body, context, responder } = request;
    let wall = turn_timestamp(&*broker.clock);
    let total = body.topic_data.iter().map(|topic| topic.partition_data.len()).sum::<usize>();
    let refusal = whole_request_refusal(&body);
    // Nearly every request has one partition. It is found by the name before the answer takes that.
    let mut only = match body.topic_data.as_slice() {
        [topic] if total == 1 => {
            let index = topic.partition_data[0].index;
            Some(find(broker, &context, &topic.name, topic.topic_id, index))
        }
        _ => None,
    };
    // Where there are several, one more, so that nothing ends before everything has begun.
    let begins = usize::from(only.is_none());
    let progress = Arc::new(Progress {
        broker: Arc::clone(broker),
        context,
        acks: body.acks,
        timeout: Duration::from_millis(u64::try_from(body.timeout_ms).unwrap_or_default()),
        state: Mutex::new(State {
            responder: Some(responder.park()),
            response: ProduceResponse { responses: skeleton(&mut body), ..Default::default() },
            missing: total + begins,
            failed: false,
            has_deadline: false,
        }),
    });
    let mut slot = 0;
    for topic in body.topic_data {
        for data in topic.partition_data {
            let attempt = match &refusal {
                Some((code, message)) => {
                    Err(Failure { message: message.clone(), ..Failure::from(*code) })
                }
                None => {
                    let partition = only.take().unwrap_or_else(|| {
                        find(broker, &progress.context, &topic.name, topic.topic_id, data.index)
                    });
                    progress.append(partition, data, slot, wall)
                }
            };
            if let Err(failure) = attempt {
                progress.end(slot, Err(failure));
            }
            slot += 1;
        }
    }
    if begins > 0 {
        progress.release();
    }
    Outcome::Parked
}

/// What refuses the whole request. Kafka looks through all batches for transactional ones first, and
/// stumbles over what does not even look like a batch. Transactional batches need a transactional id;
/// without one Kafka takes the writer for one that is not allowed to use it.
fn whole_request_refusal(body: &ProduceRequest) -> Option<(ErrorCode, Option<String>)> {
    let all = body.topic_data.iter().flat_map(|topic| &topic.partition_data);
    for part in all.flat_map(|data| data.records.iter().flat_map(|records| records.parts())) {
        let protocol::RecordsPart::Bytes(bytes) = part else { continue };
        match look_through(bytes) {
            Ok(false) => {}
            Ok(true) if body.transactional_id.is_some() => return None,
            Ok(true) => return Some((ErrorCode::TransactionalIdAuthorizationFailed, None)),
            Err(message) => return Some((ErrorCode::CorruptMessage, Some(message))),
        }
    }
    None
}

/// Whether one of the batches is transactional; an error if one is framed wrongly.
fn look_through(mut rest: &[u8]) -> Result<bool, String> {
    const SMALLEST: i32 = 14;
    const TRANSACTIONAL: u8 = 0x10;
    while let Some(size) = rest.get(8..LOG_OVERHEAD_BYTES).and_then(|size| size.first_chunk()) {
        let size = i32::from_be_bytes(*size);
        if size < SMALLEST {
            return Err(format!("a record batch of {size} bytes is too small to be one"));
        }
        match rest.get(MAGIC_POSITION) {
            None => break,
            Some(0..=2) => {}
            Some(magic) => return Err(format!("there is no record batch of magic {magic}")),
        }
        let end = LOG_OVERHEAD_BYTES + usize::try_from(size).unwrap_or(usize::MAX / 2);
        let Some(after) = rest.get(end..) else { break };
        // The low byte of the attributes, in magic 2.
        if rest[MAGIC_POSITION] == 2 && rest.get(22).is_some_and(|byte| byte & TRANSACTIONAL != 0) {
            return Ok(true);
        }
        rest = after;
    }
    Ok(false)
}

thread_local! {
    /// The lists of answers that were sent, for the next: nearly every answer has one topic with one
    /// partition, and a turn has hundreds of answers.
    static SPARE_LISTS: RefCell<Vec<SpareLists>> = const { RefCell::new(Vec::new()) };
}

/// Room for an answer of one partition; nothing is in it.
struct SpareLists {
    topics: Vec<TopicProduceResponse>,
    partitions: Vec<PartitionProduceResponse>,
}

impl SpareLists {
    fn new() -> Self {
        Self { topics: Vec::with_capacity(1), partitions: Vec::with_capacity(1) }
    }
}

/// So many are kept by a thread: as many requests as a turn executes.
const MOST_SPARE_LISTS: usize = 256;

fn keep_lists(response: ProduceResponse) {
    let mut topics = response.responses;
    let [topic] = topics.as_mut_slice() else { return };
    let mut partitions = std::mem::take(&mut topic.partition_responses);
    if topics.capacity() > 1 || partitions.capacity() > 1 {
        return;
    }
    topics.clear();
    partitions.clear();
    SPARE_LISTS.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE_LISTS {
            spare.push(SpareLists { topics, partitions });
        }
    });
}

/// An answer for each partition. Of a request of one it takes the topic's name.
fn skeleton(body: &mut ProduceRequest) -> Vec<TopicProduceResponse> {
    let partition = |data: &PartitionProduceData| PartitionProduceResponse {
        index: data.index,
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        ..Default::default()
    };
    if let [topic] = body.topic_data.as_mut_slice()
        && let [data] = topic.partition_data.as_slice()
    {
        let spare = SPARE_LISTS.with_borrow_mut(Vec::pop);
        let SpareLists { mut topics, mut partitions } = spare.unwrap_or_else(SpareLists::new);
        partitions.push(partition(data));
        topics.push(TopicProduceResponse {
            name: std::mem::take(&mut topic.name),
            topic_id: topic.topic_id,
            partition_responses: partitions,
        });
        return topics;
    }
    body.topic_data
        .iter()
        .filter(|topic| !topic.partition_data.is_empty())
        .map(|topic| TopicProduceResponse {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partition_responses: topic.partition_data.iter().map(partition).collect(),
        })
        .collect()
}

/// A Produce on its way.
#[derive(Debug)]
struct Progress {
    broker: Arc<Broker>,
    context: RequestContext,
    acks: i16,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once answered.
    responder: Option<ParkedResponder<ProduceRequest>>,
    response: ProduceResponse,
    missing: usize,
    failed: bool,
    has_deadline: bool,
}

/// Why nothing was appended to a partition.
#[derive(Debug)]
struct Failure {
    code: ErrorCode,
    /// For people, where `invalid` says nothing.
    message: Option<String>,
    /// What the records were refused for.
    invalid: Option<Box<ValidationError>>,
    log_start_offset: i64,
    hint: Option<Box<LeaderHint>>,
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None, invalid: None, log_start_offset: -1, hint: None }
    }
}

/// The partition that a request names, if it is led or followed here.
fn find(
    broker: &Broker,
    context: &RequestContext,
    topic: &str,
    id: TopicId,
    index: i32,
) -> Result<Arc<Partition>, ErrorCode> {
    if context.api_version >= 13 {
        return broker.partitions.find_by_id(id, index).ok_or_else(|| {
            let image = broker.image.load();
            match image.topic_by_id(id) {
                None => ErrorCode::UnknownTopicId,
                Some(topic) if topic.partition(index).is_none() => {
                    ErrorCode::UnknownTopicOrPartition
                }
                Some(_) => ErrorCode::NotLeaderOrFollower,
            }
        });
    }
    find_partition(broker, topic, index)
}

impl Progress {
    /// Begins the append to one partition. `Ok` if its end will be told.
    fn append(
        self: &Arc<Self>,
        partition: Result<Arc<Partition>, ErrorCode>,
        data: PartitionProduceData,
        slot: u32,
        wall: Timestamp,
    ) -> Result<(), Failure> {
        let version = self.context.api_version;
        if let Err(code @ (ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)) =
            partition
        {
            return Err(code.into());
        }
        let records = data.records.unwrap_or_default().into_bytes().unwrap_or_default();
        let only = validate::check_produce(version, &records)
            .map_err(|error| Failure::from(error_codes::validation_error(error.kind)))?;
        if !matches!(self.acks, -1..=1) {
            return Err(ErrorCode::InvalidRequiredAcks.into());
        }
        let partition = partition.map_err(|code| self.hinted_at(code, slot))?;
        if is_internal(&partition.topic.name) && self.context.client_id != ADMIN_CLIENT_ID {
            return Err(ErrorCode::InvalidTopicException.into());
        }
        let rules = partition.topic.settings.load().checks.rules(Origin::Client, wall);
        let validated = match only {
            Some(batch) => validate::validate_one(&records, &batch, &rules),
            None => validate::validate(&records, &rules),
        }
        .map_err(|error| Failure::invalid(error, &partition))?;
        if let Some(at) = validated.log_append_time
            && let Some(place) = self.state.lock().place(slot)
        {
            place.log_append_time_ms = at.0;
        }
        let append = Append {
            validated,
            origin: AppendOrigin::Client,
            acks_all: self.acks == -1,
            leader_epoch: None,
            now: wall,
        };
        let waiter = AppendWaiter { listener: Arc::clone(self) as _, slot };
        match partition.enqueue(append, waiter) {
            Ok(true) => Ok(()),
            // No whole batch: nothing to do, which went well.
            Ok(false) => {
                self.end(slot, Ok(None));
                Ok(())
            }
            Err(failure) => {
                let code = error_codes::append_failure(&failure);
                let mut failure = self.hinted(code, &partition.topic.name, data.index);
                failure.log_start_offset = log_start_for(code, &partition);
                Err(failure)
            }
        }
    }

    /// KIP-951: says who leads instead.
    fn hinted(&self, code: ErrorCode, topic: &str, index: i32) -> Failure {
        let mut failure = Failure::from(code);
        if code == ErrorCode::NotLeaderOrFollower && self.context.api_version >= 10 {
            let listener = &self.context.listener().name;
            failure.hint = Some(Box::new(leader_hint(&self.broker, listener, topic, index)));
        }
        failure
    }

    fn hinted_at(&self, code: ErrorCode, slot: u32) -> Failure {
        match self.location(slot) {
            Some((topic, index)) => self.hinted(code, &topic, index),
            None => code.into(),
        }
    }

    fn end(&self, slot: u32, result: Result<Option<Appended>, Failure>) {
        let mut state = self.state.lock();
        if state.responder.is_none() {
            return;
        }
        match result {
            Ok(appended) => {
                let Some(place) = state.place(slot) else { return };
                place.error_code = 0;
                if let Some(appended) = appended {
                    place.fill(&appended);
                }
            }
            Err(failure) => state.fail(slot, failure, self.context.api_version),
        }
        self.release_locked(state);
    }

    fn release(&self) {
        self.release_locked(self.state.lock());
    }

    fn release_locked(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        state.missing -= 1;
        if state.missing == 0 {
            let responder = state.responder.take();
            let response = std::mem::take(&mut state.response);
            let failed = state.failed;
            drop(state);
            self.finish(responder, &response, failed);
            keep_lists(response);
        }
    }

    fn finish(
        &self,
        responder: Option<ParkedResponder<ProduceRequest>>,
        response: &ProduceResponse,
        failed: bool,
    ) {
        let Some(responder) = responder else { return };
        match (self.acks, failed) {
            (0, false) => responder.finish_silently(),
            (0, true) => responder.close(CloseReason::SilentProduceFailed),
            _ => responder.respond(response),
        }
    }

    /// The deadline: what is still missing is answered as it is, which is REQUEST_TIMED_OUT.
    fn expire(&self) {
        let mut state = self.state.lock();
        let responder = state.responder.take();
        let response = std::mem::take(&mut state.response);
        drop(state);
        self.finish(responder, &response, false);
    }
}

impl AppendListener for Progress {
    fn appended(self: Arc<Self>, slot: u32, result: AppendResult) {
        let result = result
            .map(Some)
            .map_err(|failure| self.hinted_at(error_codes::append_failure(&failure), slot));
        self.end(slot, result);
    }

    fn awaits_replicas(self: Arc<Self>, slot: u32, appended: Appended) {
        if !self.state.lock().awaits_replicas(slot, &appended) {
            return;
        }
        let deadline = self.context.received_at + self.timeout;
        let progress = Arc::downgrade(&self);
        self.broker.timers.schedule(deadline, move || {
            if let Some(progress) = progress.upgrade() {
                progress.expire();
            }
        });
    }
}

impl Progress {
    fn location(&self, slot: u32) -> Option<(String, i32)> {
        let mut state = self.state.lock();
        let index = state.place(slot)?.index;
        let mut rest = slot as usize;
        for topic in &state.response.responses {
            match rest.checked_sub(topic.partition_responses.len()) {
                Some(next) => rest = next,
                None if self.context.api_version >= 13 => {
                    let image = self.broker.image.load();
                    return Some((image.topic_by_id(topic.topic_id)?.name().to_string(), index));
                }
                None => return Some((topic.name.to_string(), index)),
            }
        }
        None
    }
}

impl State {
    /// The answer for the partition that is number `slot` in the request; `None` once the request is
    /// answered, which its deadline may do at any time, with other partitions not even begun.
    fn place(&mut self, slot: u32) -> Option<&mut PartitionProduceResponse> {
        let mut rest = slot as usize;
        let mut topics = self.response.responses.iter_mut().peekable();
        topics.peek()?;
        for topic in topics {
            match rest.checked_sub(topic.partition_responses.len()) {
                Some(next) => rest = next,
                None => return Some(&mut topic.partition_responses[rest]),
            }
        }
        unreachable!("slot {slot} is one of the request's partitions")
    }

    /// Notes what the deadline answers for this partition, unless the append has ended already: it is
    /// told without locks, and a follower's fetch on another thread may be faster. Whether this is the
    /// first that waits, so that the request needs its deadline.
    fn awaits_replicas(&mut self, slot: u32, appended: &Appended) -> bool {
        let Some(place) = self.place(slot) else { return false };
        // Either is set by an end.
        if place.error_code != 0 || place.base_offset != -1 {
            return false;
        }
        place.fill(appended);
        place.error_code = ErrorCode::RequestTimedOut.code();
        !std::mem::replace(&mut self.has_deadline, true)
    }

    fn fail(&mut self, slot: u32, failure: Failure, version: i16) {
        self.failed = true;
        // Version 4 is how clients say that they know KAFKA_STORAGE_ERROR.
        let is_unknown = failure.code == ErrorCode::KafkaStorageError && version <= 3;
        let code = if is_unknown { ErrorCode::NotLeaderOrFollower } else { failure.code };
        let Some(place) = self.place(slot) else { return };
        place.error_code = code.code();
        place.base_offset = -1;
        place.log_append_time_ms = -1;
        place.log_start_offset = failure.log_start_offset;
        place.error_message = failure.message.map(Into::into);
        if let Some(invalid) = failure.invalid.filter(|invalid| !invalid.record_errors.is_empty()) {
            place.error_message = Some(invalid.message.into_owned().into());
            place.record_errors = invalid
                .record_errors
                .iter()
                .map(|error| BatchIndexAndErrorMessage {
                    batch_index: error.batch_index,
                    batch_index_error_message: Some(error.refusal.to_string().into()),
                })
                .collect();
        }
        let Some(hint) = failure.hint.map(|hint| *hint) else { return };
        place.current_leader =
            LeaderIdAndEpoch { leader_id: hint.leader_id, leader_epoch: hint.leader_epoch };
        if let Some(node) = hint.node
            && !self.response.node_endpoints.iter().any(|known| known.node_id == node.id)
        {
            self.response.node_endpoints.push(NodeEndpoint {
                node_id: node.id,
                host: node.host.into(),
                port: node.port,
                rack: node.rack.map(Into::into),
            });
        }
    }
}

impl Failure {
    fn invalid(error: ValidationError, partition: &Arc<Partition>) -> Self {
        let code = error_codes::validation_error(error.kind);
        let log_start_offset = match error.kind {
            ValidationErrorKind::CorruptMessage | ValidationErrorKind::MessageTooLarge => -1,
            ValidationErrorKind::InvalidTimestamp
            | ValidationErrorKind::UnsupportedCompressionType
            | ValidationErrorKind::InvalidRecord
            | ValidationErrorKind::UnknownServerError => partition.log_start_offset(),
        };
        Self { code, message: None, invalid: Some(Box::new(error)), log_start_offset, hint: None }
    }
}

/// Kafka tells the log's start with the errors that it did not expect from healthy clients.
fn log_start_for(code: ErrorCode, partition: &Arc<Partition>) -> i64 {
    let expected = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::KafkaStorageError,
        ErrorCode::RecordListTooLarge,
        ErrorCode::CorruptMessage,
    ];
    if expected.contains(&code) { -1 } else { partition.log_start_offset() }
}

/// Whether only brokers write to `topic`.
pub(crate) fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

trait Fill {
    fn fill(&mut self, appended: &Appended);
}

impl Fill for PartitionProduceResponse {
    fn fill(&mut self, appended: &Appended) {
        self.base_offset = appended.first_offset.0;
        self.log_start_offset = appended.log_start_offset.0;
        if let Some(timestamp) = appended.duplicate_of {
            self.log_append_time_ms = timestamp.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Offset;

    fn state(partitions: usize) -> State {
        let place = PartitionProduceResponse { base_offset: -1, ..Default::default() };
        let topic = TopicProduceResponse {
            partition_responses: vec![place; partitions],
            ..Default::default()
        };
        let response = ProduceResponse { responses: vec![topic], ..Default::default() };
        State { responder: None, response, missing: partitions, failed: false, has_deadline: false }
    }

    fn appended(first_offset: i64) -> Appended {
        Appended {
            first_offset: Offset(first_offset),
            last_offset: Offset(first_offset),
            log_start_offset: Offset(0),
            duplicate_of: None,
        }
    }

    /// Seen under kill -9 of leaders: the broker ended with "slot 0 is one of the request's partitions".
    #[test]
    fn an_append_that_followers_have_before_its_writer_says_that_it_waits_stays_acknowledged() {
        let mut answered = state(1);
        answered.response = ProduceResponse::default();
        assert!(!answered.awaits_replicas(0, &appended(7)), "all was answered meanwhile");

        let mut begun = state(2);
        begun.place(0).unwrap().fill(&appended(7));
        assert!(!begun.awaits_replicas(0, &appended(7)), "this one has ended");
        assert_eq!(begun.place(0).unwrap().error_code, 0);
        assert!(
            begun.awaits_replicas(1, &appended(3)),
            "the other one waits and needs the deadline"
        );
        assert_eq!(begun.place(1).unwrap().error_code, ErrorCode::RequestTimedOut.code());
    }

    #[test]
    fn what_ends_after_the_deadline_changes_nothing() {
        let mut answered = state(2);
        answered.response = ProduceResponse::default();
        answered.fail(1, ErrorCode::NotLeaderOrFollower.into(), 9);
        assert!(answered.place(0).is_none());
    }
}
