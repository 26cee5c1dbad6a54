//! Takes leaders' proposals for their ISR to the controller (AlterPartition, KIP-497): one request under
//! way, all that is proposed meanwhile in the next.
//!
//! It never gives up: a leader that was not answered counts the members that it wants to lose *and* those
//! that it wants to gain, so its high watermark may stand still until the controller has spoken. What is
//! retried here is sending; a proposal that the controller refuses goes back to its leader.

use crate::Broker;
use crate::partition::{IsrProposal, IsrProposals};
use crate::to_controller::{self, Unasked, Whereabouts};
use client::{ClientError, Connection};
use model::{BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition};
use parking_lot::Mutex;
use protocol::ErrorCode;
use protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use protocol::messages::alter_partition_response;
use protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};
use replication::IsrRefusal;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{debug, info};

/// Pause before anything is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// How long the controller may think about it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The newest version of AlterPartition, and the newest that names topics.
const BY_ID: i16 = 3;
const BY_NAME: i16 = 1;

/// The list of proposals, shared by partitions and the task that sends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct IsrProposer {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// One per partition: a leader proposes again only once it was answered, or in a new epoch.
    proposed: Mutex<BTreeMap<TopicPartition, IsrProposal>>,
    news: Notify,
}

impl IsrProposals for IsrProposer {
    fn propose(&self, proposal: IsrProposal) {
        let key = proposal.topic_partition.clone();
        self.shared.proposed.lock().insert(key, proposal);
        self.shared.news.notify_one();
    }
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
enum SendFailure {
    #[error(transparent)]
    Unasked(#[from] Unasked),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the controller refuses: {0:?}")]
    Refused(ErrorCode),
}

impl IsrProposer {
    /// Sends what is proposed until the broker is gone; a task of the control runtime.
    pub(crate) async fn run(self, broker: Weak<Broker>) {
        let mut connection = None;
        let mut under_way: BTreeMap<TopicPartition, IsrProposal> = BTreeMap::new();
        loop {
            // What was proposed in a newer epoch replaces what was not answered.
            under_way.append(&mut self.shared.proposed.lock());
            if under_way.is_empty() {
                self.shared.news.notified().await;
                continue;
            }
            let Some(broker) = broker.upgrade() else { return };
            let proposals: Vec<_> = under_way.values().cloned().collect();
            match send(&broker, &mut connection, &proposals).await {
                Ok(response) => {
                    under_way.clear();
                    if !deliver(&broker, proposals, response) {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                }
                Err(failure) => {
                    debug!(%failure, proposals = proposals.len(), "ISR changes are sent again");
                    connection = None;
                    drop(broker);
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

/// Asks the controller.
async fn send(
    broker: &Broker,
    connection: &mut Option<(BrokerId, Connection)>,
    proposals: &[IsrProposal],
) -> Result<AlterPartitionResponse, SendFailure> {
    let by_id = proposals.iter().all(|proposal| proposal.topic_id.is_some());
    let at_most = if by_id { BY_ID } else { BY_NAME };
    let (controller, address) = match to_controller::find(broker)? {
        Whereabouts::Here(own) => {
            let request = request(broker, proposals, at_most);
            return accepted(own.alter_partition(request, at_most).await);
        }
        Whereabouts::At { id, address } => (id, address),
    };
    let ask = async {
        if connection.as_ref().is_none_or(|(id, open)| *id != controller || !open.is_open()) {
            let options = to_controller::options(broker, REQUEST_TIMEOUT);
            *connection = Some((controller, Connection::connect(&address, options).await?));
        }
        let Some((_, open)) = connection else { return Err(Unasked::NoController.into()) };
        let version = open.version_at_most::<AlterPartitionRequest>(at_most);
        let request = request(broker, proposals, version.unwrap_or(at_most));
        let (response, _) = open.send_at_most(&request, at_most).await?;
        accepted(response)
    };
    tokio::select! {
        biased;
        answer = ask => answer,
        // A controller that was frozen when it was asked answers only once it is none any more.
        () = another_than(controller, broker) => {
            Err(SendFailure::Refused(ErrorCode::NotController))
        }
    }
}

/// The answer, if it is one of a controller that considered the request.
fn accepted(response: AlterPartitionResponse) -> Result<AlterPartitionResponse, SendFailure> {
    let all = response.topics.iter().flat_map(|topic| &topic.partitions);
    let codes = all.map(|partition| partition.error_code).chain([response.error_code]);
    let not_controller = ErrorCode::NotController.code();
    if codes.into_iter().any(|code| code == not_controller) {
        return Err(SendFailure::Refused(ErrorCode::NotController));
    }
    match ErrorCode::from_code(response.error_code) {
        Some(ErrorCode::None) => Ok(response),
        code => Err(SendFailure::Refused(code.unwrap_or(ErrorCode::UnknownServerError))),
    }
}

/// Returns once another broker than `controller` is said to be it.
async fn another_than(controller: BrokerId, broker: &Broker) {
    while broker.image.load().controller() == Some(controller) {
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

fn request(broker: &Broker, proposals: &[IsrProposal], version: i16) -> AlterPartitionRequest {
    let environment = broker.partitions.environment();
    let mut topics: Vec<TopicData> = Vec::new();
    for proposal in proposals {
        let name = &proposal.topic_partition.topic;
        let topic_id = proposal.topic_id.unwrap_or(TopicId::ZERO);
        let mut partition = PartitionData {
            partition_index: proposal.topic_partition.partition,
            leader_epoch: proposal.leader_epoch.0,
            partition_epoch: proposal.partition_epoch.0,
            ..Default::default()
        };
        match version {
            3.. => {
                partition.new_isr_with_epochs = proposal
                    .isr
                    .iter()
                    .map(|&(id, epoch)| BrokerState {
                        broker_id: id.0,
                        broker_epoch: epoch.map_or(-1, |epoch| epoch.0),
                    })
                    .collect();
            }
            _ => partition.new_isr = proposal.isr.iter().map(|(id, _)| id.0).collect(),
        }
        let is_same = |last: &TopicData| match version {
            2.. => last.topic_id == topic_id,
            _ => *last.topic_name == **name,
        };
        match topics.last_mut() {
            Some(last) if is_same(last) => last.partitions.push(partition),
            _ if version >= 2 => topics.push(TopicData {
                topic_id,
                partitions: vec![partition],
                ..Default::default()
            }),
            _ => topics.push(TopicData {
                topic_name: (&**name).into(),
                partitions: vec![partition],
                ..Default::default()
            }),
        }
    }
    AlterPartitionRequest {
        broker_id: environment.broker_id.0,
        broker_epoch: environment.fetchers.current_broker_epoch(),
        topics,
    }
}

/// Tells every leader what became of its proposal. Whether none of them may propose the same again at
/// once.
fn deliver(broker: &Broker, proposals: Vec<IsrProposal>, response: AlterPartitionResponse) -> bool {
    let mut answers = BTreeMap::new();
    for topic in response.topics {
        for partition in topic.partitions {
            let index = partition.partition_index;
            if topic.topic_id == TopicId::ZERO {
                answers.insert((Some(topic.topic_name.to_string()), None, index), partition);
            } else {
                answers.insert((None, Some(topic.topic_id), index), partition);
            }
        }
    }
    let mut all_settled = true;
    for proposal in proposals {
        let TopicPartition { topic, partition: index } = proposal.topic_partition.clone();
        let answer = proposal
            .topic_id
            .and_then(|id| answers.remove(&(None, Some(id), index)))
            .or_else(|| answers.remove(&(Some(topic.to_string()), None, index)));
        let outcome = outcome(answer);
        all_settled &= matches!(outcome, Ok(_) | Err(IsrRefusal::Stale));
        match &outcome {
            Ok((_, epoch, isr)) => {
                info!(partition = %proposal.topic_partition, partition_epoch = epoch.0, ?isr, "the ISR changed");
            }
            // Ordinary: whoever came or went meanwhile is asked about anew.
            Err(refusal) => {
                info!(partition = %proposal.topic_partition, isr = ?proposal.isr, ?refusal, "the controller does not change the ISR");
            }
        }
        if let Some(partition) = broker.partitions.find(&topic, index) {
            partition.isr_answered(&proposal, outcome);
        }
    }
    all_settled
}

type Outcome = Result<(LeaderEpoch, PartitionEpoch, Vec<BrokerId>), IsrRefusal>;

fn outcome(answer: Option<alter_partition_response::PartitionData>) -> Outcome {
    let answer = answer.ok_or(IsrRefusal::Unanswered)?;
    let code = ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
    if code == ErrorCode::None {
        let isr = answer.isr.into_iter().map(BrokerId).collect();
        return Ok((LeaderEpoch(answer.leader_epoch), PartitionEpoch(answer.partition_epoch), isr));
    }
    let refused = [ErrorCode::OperationNotAttempted, ErrorCode::IneligibleReplica];
    let stale = [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::InvalidUpdateVersion,
        ErrorCode::InvalidRequest,
        ErrorCode::NewLeaderElected,
    ];
    Err(if refused.contains(&code) {
        IsrRefusal::Refused
    } else if stale.contains(&code) {
        IsrRefusal::Stale
    } else {
        IsrRefusal::Unanswered
    })
}
