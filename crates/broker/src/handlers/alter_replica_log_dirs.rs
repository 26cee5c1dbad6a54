//! AlterReplicaLogDirs (key 34), v0 to v2 (KIP-113): v2 flexible. Moves logs between the directories
//! of `log.dirs`: answered when a move has begun, or when there is nothing to move.
//!
//! A partition that is not on this broker yet is answered with an error, and its log will be created
//! in the directory that was asked for.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::request::{Outcome, Request};
use model::TopicPartition;
use protocol::ErrorCode;
use protocol::messages::AlterReplicaLogDirsRequest;
use protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use storage::LogDirectory;

pub(crate) const API: Api = api!(AlterReplicaLogDirsRequest, 0..=2, alter_replica_log_dirs);

/// A directory's name has at most 255 bytes; that of a copy has a dot, 32 digits and `-future` more
/// than the partition's.
const LONGEST_PARTITION_NAME: usize = 255 - 40;

fn alter_replica_log_dirs(
    broker: &Arc<Broker>,
    request: Request<AlterReplicaLogDirsRequest>,
) -> Outcome {
    let mut topics: BTreeMap<&str, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for directory in &request.body.dirs {
        for topic in &directory.topics {
            for &partition_index in &topic.partitions {
                let result = move_log(broker, &topic.name, partition_index, &directory.path);
                let error_code = result.err().unwrap_or(ErrorCode::None).code();
                topics
                    .entry(&topic.name)
                    .or_default()
                    .push(AlterReplicaLogDirPartitionResult { partition_index, error_code });
            }
        }
    }
    let results = topics
        .into_iter()
        .map(|(name, partitions)| AlterReplicaLogDirTopicResult {
            topic_name: name.into(),
            partitions,
        })
        .collect();
    request.respond(AlterReplicaLogDirsResponse { results, ..Default::default() })
}

fn move_log(broker: &Broker, topic: &str, index: i32, path: &str) -> Result<(), ErrorCode> {
    let name = TopicPartition::new(topic, index);
    if name.to_string().len() > LONGEST_PARTITION_NAME {
        return Err(ErrorCode::InvalidTopicException);
    }
    let directory = find_directory(broker, path).ok_or(ErrorCode::LogDirNotFound)?;
    if directory.is_offline() {
        return Err(ErrorCode::KafkaStorageError);
    }
    let partition = match find_partition(broker, topic, index) {
        Ok(partition) => partition,
        Err(code) => {
            broker.partitions.prefer(name, directory);
            return Err(match code == ErrorCode::NotLeaderOrFollower {
                true => ErrorCode::ReplicaNotAvailable,
                false => code,
            });
        }
    };
    match partition.move_to(&directory) {
        Ok(Some(relocation)) => broker.partitions.environment().mover.ask(relocation),
        Ok(None) => {}
        Err(refusal) => return Err(error_codes::move_refusal(&refusal)),
    }
    Ok(())
}

/// The log directory whose absolute path is `path`.
fn find_directory(broker: &Broker, path: &str) -> Option<Arc<LogDirectory>> {
    broker
        .partitions
        .environment()
        .logs
        .directories()
        .iter()
        .find(|directory| {
            std::path::absolute(directory.path()).is_ok_and(|own| own == Path::new(path))
        })
        .cloned()
}
