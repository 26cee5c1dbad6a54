//! DescribeLogDirs (key 35), v0 to v5 (KIP-113): v2 flexible, v3 top-level error, v4 size of the
//! volume (KIP-827), v5 cordoned directories (KIP-1066; none are). Every log directory, with the logs in it that were
//! asked for.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use protocol::ErrorCode;
use protocol::messages::DescribeLogDirsRequest;
use protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const API: Api = api!(DescribeLogDirsRequest, 0..=5, describe_log_dirs);

fn describe_log_dirs(broker: &Arc<Broker>, request: Request<DescribeLogDirsRequest>) -> Outcome {
    let wanted: Option<HashSet<(&str, i32)>> = request.body.topics.as_ref().map(|topics| {
        topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|&index| (&*topic.topic, index)))
            .collect()
    });
    let mut directories: BTreeMap<PathBuf, BTreeMap<String, Vec<DescribeLogDirsPartition>>> =
        BTreeMap::new();
    let live = broker.partitions.sizes().into_iter().map(|(name, size)| (name, size, false));
    let copies = broker.partitions.copies().into_iter().map(|(name, size)| (name, size, true));
    for (name, size, is_future_key) in live.chain(copies) {
        if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&(&*name.topic, name.partition))) {
            continue;
        }
        let topics = directories.entry(size.directory).or_default();
        topics.entry(name.topic.to_string()).or_default().push(DescribeLogDirsPartition {
            partition_index: name.partition,
            partition_size: i64::try_from(size.bytes).unwrap_or(i64::MAX),
            offset_lag: size.offset_lag,
            is_future_key,
        });
    }
    let results = broker.partitions.environment().logs.directories().iter().map(|directory| {
        let path = directory.path();
        let log_dir = shown(path);
        if directory.is_offline() {
            let error_code = ErrorCode::KafkaStorageError.code();
            return DescribeLogDirsResult { error_code, log_dir, ..Default::default() };
        }
        let topics = directories.remove(path).unwrap_or_default();
        let space = broker.disk.space(path).ok();
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        DescribeLogDirsResult {
            log_dir,
            topics: topics
                .into_iter()
                .map(|(name, partitions)| DescribeLogDirsTopic { name: name.into(), partitions })
                .collect(),
            total_bytes: space.map_or(-1, |space| bytes(space.total)),
            usable_bytes: space.map_or(-1, |space| bytes(space.usable)),
            ..Default::default()
        }
    });
    let results = results.collect();
    request.respond(DescribeLogDirsResponse { results, ..Default::default() })
}

/// A directory as Kafka names it: absolute.
fn shown(path: &Path) -> ByteString {
    std::path::absolute(path)
        .unwrap_or_else(|_| path.to_owned())
        .to_string_lossy()
        .into_owned()
        .into()
}
