//! A consumer: reads partitions in order, begins again now and then, and asks where they end.

use super::ClientContext;
use super::cluster::Cluster;
use crate::history::{RecordId, Seen};
use crate::plan::TOPIC;
use platform::Random;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{FetchRequest, ListOffsetsRequest};
use protocol::records::Batches;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many bytes a batch of ours inflates to at most.
const MOST_BYTES: usize = 1 << 20;

/// Reads for ever.
pub async fn consume(context: ClientContext) {
    let mut cluster = Cluster::new(context.clone());
    let mut positions: BTreeMap<i32, i64> = BTreeMap::new();
    loop {
        cluster.pause(Duration::from_millis(100)).await;
        let partition = cluster.any_partition();
        let Some(leader) = cluster.leader(partition).await else { continue };
        if context.random.below(8) == 0 {
            ask_latest(&mut cluster, leader, partition).await;
            continue;
        }
        if context.random.below(200) == 0 {
            positions.remove(&partition);
        }
        let position = positions.entry(partition).or_insert(0);
        match fetch(&mut cluster, leader, partition, *position).await {
            Some((next, _)) => *position = next,
            None => cluster.forget_leader(partition),
        }
    }
}

/// Reads a piece: where the next begins, and what was read.
pub(super) async fn fetch(
    cluster: &mut Cluster,
    leader: i32,
    partition: i32,
    position: i64,
) -> Option<(i64, Vec<(i64, RecordId)>)> {
    let wanted = FetchPartition {
        partition,
        fetch_offset: position,
        partition_max_bytes: 64 << 10,
        ..Default::default()
    };
    let topic = FetchTopic { topic: TOPIC.into(), partitions: vec![wanted], ..Default::default() };
    let request = FetchRequest {
        max_wait_ms: 300,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let response = cluster.ask(leader, &request).await?;
    let data = response.responses.into_iter().next()?.partitions.into_iter().next()?;
    if data.error_code != 0 {
        return None;
    }
    let bytes = data.records?.to_bytes().ok()?;
    let (mut next, mut found) = (position, Vec::new());
    for batch in Batches::new(&bytes) {
        let batch = batch.expect("a leader sends batches");
        assert!(batch.verify(), "a batch was damaged on its way");
        let epoch = batch.header().map_or(-1, |header| header.partition_leader_epoch);
        let records = batch.records(MOST_BYTES).expect("records of ours");
        for record in records.iter() {
            let record = record.expect("a record of ours");
            let offset = record.offset.0;
            if offset < position {
                continue;
            }
            let id = record.value.and_then(|value| value.first_chunk::<8>());
            let record = u64::from_be_bytes(*id.expect("a record of ours"));
            cluster.context.history.push(Seen::Read { partition, offset, epoch, record });
            found.push((offset, record));
            next = offset + 1;
        }
    }
    Some((next, found))
}

async fn ask_latest(cluster: &mut Cluster, leader: i32, partition: i32) {
    let wanted = ListOffsetsPartition {
        partition_index: partition,
        timestamp: -1,
        current_leader_epoch: -1,
        ..Default::default()
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: TOPIC.into(), partitions: vec![wanted] }],
        ..Default::default()
    };
    let asked_at = cluster.context.scheduler.elapsed();
    let Some(response) = cluster.ask(leader, &request).await else { return };
    let answer = response.topics.into_iter().flat_map(|topic| topic.partitions).next();
    match answer {
        Some(answer) if answer.error_code == 0 => {
            let offset = answer.offset;
            cluster.context.history.push(Seen::Latest { partition, offset, asked_at });
        }
        Some(_) | None => cluster.forget_leader(partition),
    }
}
