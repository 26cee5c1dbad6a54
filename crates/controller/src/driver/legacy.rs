//! Nodes that tools of before Kafka 3.0 write: reassignments and preferred elections.
//!
//! A node that cannot be read is left alone; its writer is told by one line in the log.

use super::reassignments::{plan_reassignment, targets};
use super::*;
use crate::ElectionType;

impl Driver {
    pub(super) async fn handle_legacy_reassignments(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.take_over_legacy_reassignments().await {
            self.stop(stopped, "/admin/reassign_partitions").await;
        }
    }

    pub(super) async fn handle_legacy_elections(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.take_over_legacy_elections().await {
            self.stop(stopped, "/admin/preferred_replica_election").await;
        }
    }

    /// Starts what `/admin/reassign_partitions` asks for; what is impossible, or done, leaves the node.
    pub(super) async fn take_over_legacy_reassignments(&mut self) -> Result<(), Stopped> {
        let Some(data) = self.legacy_node(znodes::REASSIGN_PARTITIONS).await? else {
            return Ok(());
        };
        let Some(wanted) = znodes::parse_reassignments(&data) else {
            self.note_junk(znodes::REASSIGN_PARTITIONS);
            return Ok(());
        };
        let all: BTreeMap<_, _> = wanted.iter().cloned().collect();
        if let Some(active) = &mut self.active {
            active.legacy_reassignments = all;
        }
        for (at, target) in wanted {
            // Also when the node has changed because we took something out of it.
            let unchanged =
                self.context().partition(&at).is_some_and(|found| targets(found) == target);
            let planned = plan_reassignment(self.context(), &at, Some(target));
            let result = match planned {
                Ok(_) if unchanged => Ok(()),
                Ok(planned) => self.start_reassignment(&at, planned).await,
                Err(error) => {
                    tracing::warn!(partition = %at, %error, "is not reassigned");
                    Ok(())
                }
            };
            match result {
                Ok(()) => {}
                Err(Stopped::Refused(error)) => {
                    tracing::warn!(partition = %at, %error, "is not reassigned");
                }
                Err(stopped) => return Err(stopped),
            }
            if !self.context().partition(&at).is_some_and(|partition| partition.is_moving()) {
                self.forget_legacy_reassignment(&at).await?;
            }
        }
        Ok(())
    }

    /// A partition's reassignment is over, or in other hands: it leaves the node, which goes with its last.
    pub(super) async fn forget_legacy_reassignment(
        &mut self,
        at: &TopicPartition,
    ) -> Result<(), Stopped> {
        let Some(active) = &mut self.active else { return Err(Stopped::Moved) };
        if active.legacy_reassignments.remove(at).is_none() {
            return Ok(());
        }
        let op = match active.legacy_reassignments.is_empty() {
            true => Op::delete(znodes::REASSIGN_PARTITIONS),
            false => Op::set(
                znodes::REASSIGN_PARTITIONS,
                znodes::reassignments(&active.legacy_reassignments),
            ),
        };
        match self.commit_one(vec![op]).await {
            Ok(_) | Err(Stopped::Refused(StoreError::NoNode(_))) => Ok(()),
            Err(stopped) => Err(stopped),
        }
    }

    /// Holds the elections that `/admin/preferred_replica_election` asks for, and removes it.
    pub(super) async fn take_over_legacy_elections(&mut self) -> Result<(), Stopped> {
        let path = znodes::PREFERRED_ELECTION;
        let Some(data) = self.legacy_node(path).await? else { return Ok(()) };
        let Some(partitions) = znodes::parse_partitions(&data) else {
            self.note_junk(path);
            return Ok(());
        };
        for (at, result) in self.elect_each(ElectionType::Preferred, partitions).await {
            if let Err(error) = result
                && error.code != ErrorCode::ElectionNotNeeded
            {
                tracing::warn!(partition = %at, %error, "its preferred replica does not lead");
            }
        }
        match self.commit_one(vec![Op::delete(path)]).await {
            Ok(_) | Err(Stopped::Refused(StoreError::NoNode(_))) => Ok(()),
            Err(stopped) => Err(stopped),
        }
    }

    fn note_junk(&mut self, node: &'static str) {
        if self.active.as_mut().is_some_and(|active| active.junk.insert(node)) {
            tracing::warn!(node, "cannot be read and is left alone");
        }
    }

    /// The data of a node that may appear: its creation is watched.
    async fn legacy_node(&mut self, path: &'static str) -> Result<Option<bytes::Bytes>, Stopped> {
        if self.session.exists(path, true).await.map_err(Stopped::of)?.is_none() {
            return Ok(None);
        }
        match self.session.get(path, false).await {
            Ok((data, _)) => Ok(Some(data.unwrap_or_default())),
            Err(StoreError::NoNode(_)) => Ok(None),
            Err(error) => Err(Stopped::of(error)),
        }
    }
}
