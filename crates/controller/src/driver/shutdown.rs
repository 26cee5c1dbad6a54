//! A broker asks to shut down: what it leads is led elsewhere, what it follows does not wait for it.

use super::failover::StateWrite;
use super::*;
use crate::context::elected;
use crate::handle::ReplyTo;
use crate::znodes::StateNode;
use protocol::messages::controlled_shutdown_response::RemainingPartition;
use protocol::messages::{ControlledShutdownRequest, ControlledShutdownResponse};

/// How long a broker that stops waits for brokers that do not answer.
const OTHERS_KNOW_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

impl Driver {
    pub(super) async fn controlled_shutdown(
        &mut self,
        request: ControlledShutdownRequest,
    ) -> ControlledShutdownResponse {
        let refused = |code: ErrorCode| ControlledShutdownResponse {
            error_code: code.code(),
            ..ControlledShutdownResponse::default()
        };
        let id = BrokerId(request.broker_id);
        let Some(active) = &mut self.active else {
            return refused(ErrorCode::StaleControllerEpoch);
        };
        let known = active.context.brokers.get(&id).map(|broker| broker.epoch.0);
        match known {
            None if request.broker_epoch == -1 => return refused(ErrorCode::BrokerNotAvailable),
            None => return refused(ErrorCode::UnknownServerError),
            Some(known) if request.broker_epoch != -1 && request.broker_epoch < known => {
                return refused(ErrorCode::StaleBrokerEpoch);
            }
            Some(_) => {}
        }
        tracing::info!(broker = %id, "asks to shut down");
        active.context.leaving.insert(id);
        if let Err(stopped) = self.hand_over(id).await {
            let code = match &stopped {
                Stopped::Moved => ErrorCode::StaleControllerEpoch,
                Stopped::Refused(_) => ErrorCode::UnknownServerError,
            };
            self.stop(stopped, "controlled shutdown").await;
            return refused(code);
        }
        let context = self.context();
        let remaining = context.all_partitions().into_iter().filter(|at| {
            concerns(context, at, id)
                && context.partition(at).is_some_and(|partition| {
                    partition.state.as_ref().is_some_and(|state| state.node.leader == Some(id))
                })
        });
        let remaining_partitions = remaining.map(|at| RemainingPartition {
            topic_name: (&*at.topic).into(),
            partition_index: at.partition,
        });
        ControlledShutdownResponse {
            remaining_partitions: remaining_partitions.collect(),
            ..ControlledShutdownResponse::default()
        }
    }

    /// Answers when the other brokers have done what they were told, or after [`OTHERS_KNOW_WITHIN`]:
    /// whoever stops on this answer is then missed by nobody, also if it is the controller itself, whose
    /// queues end with it. Kafka answers when the requests are queued.
    pub(super) fn answer_once_others_know(
        &self,
        leaving: BrokerId,
        response: ControlledShutdownResponse,
        reply: ReplyTo<ControlledShutdownResponse>,
    ) {
        let senders = self.active.iter().flat_map(|active| &active.senders);
        let others: Vec<_> =
            senders.filter(|(id, _)| **id != leaving).map(|(_, sender)| sender.is_done()).collect();
        platform::tasks::spawn(async move {
            let all = async {
                for done in others {
                    // An error: that broker is gone, or we are not controller any more.
                    let _ = done.await;
                }
            };
            let _ = tokio::time::timeout(OTHERS_KNOW_WITHIN, all).await;
            let _ = reply.send(response);
        });
    }

    async fn hand_over(&mut self, id: BrokerId) -> Result<(), Stopped> {
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let context = self.context();
        let concerned: Vec<TopicPartition> =
            context.all_partitions().into_iter().filter(|at| concerns(context, at, id)).collect();
        let mut first = Outbox::default();
        let mut followed = Vec::new();
        let mut writes: Vec<StateWrite> = Vec::new();
        for at in concerned {
            let Some(partition) = context.partition(&at) else { continue };
            let Some(state) = &partition.state else { continue };
            if state.node.leader == Some(id) {
                // Who can take over? If nobody, it leads on until it is gone.
                let Some(node) = context.repaired(&at, false, epoch) else { continue };
                if node.leader != Some(id) {
                    writes.push((at, node, Some(state.partition_epoch)));
                }
                continue;
            }
            first.stop(&at, id, state.node.leader_epoch, false);
            if state.node.isr.contains(&id) && state.node.isr.len() > 1 {
                let mut node = elected(StateNode::clone(&state.node), epoch);
                node.isr.retain(|member| *member != id);
                writes.push((at.clone(), node, Some(state.partition_epoch)));
            }
            followed.push(at);
        }
        if !first.is_empty() {
            self.send(&first);
        }
        let mut outbox = Outbox::default();
        followed.iter().for_each(|at| outbox.describe(at));
        let mut stale = Vec::new();
        for (at, result) in self.write_states(writes).await? {
            match result {
                Ok(()) => {
                    let mut told = self.context().reachable_replicas(&at);
                    if followed.contains(&at) {
                        told.retain(|told| *told != id);
                    }
                    outbox.lead(&at, told, false);
                }
                Err(error) => {
                    tracing::warn!(partition = %at, %error, "is not handed over yet");
                    stale.push(at);
                }
            }
        }
        if !outbox.is_empty() {
            self.send(&outbox);
        }
        // The broker asks again.
        self.refresh_states(&stale).await
    }
}

/// Whether the shutdown of `id` has to do with `at`: replicas without siblings hold nothing up.
fn concerns(context: &Context, at: &TopicPartition, id: BrokerId) -> bool {
    let partition = context.partition(at);
    !context.deleting.contains_key(&at.topic)
        && partition.is_some_and(|p| p.replicas.len() > 1 && p.replicas.contains(&id))
}
