//! The last client: reads every partition from its beginning to where it ends, once everything is whole.

use super::ClientContext;
use super::cluster::Cluster;
use super::consumer::fetch;
use crate::history::Seen;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Reads up to `ends`; `is_done` when it has.
pub async fn audit(context: ClientContext, ends: BTreeMap<i32, i64>, is_done: Arc<Mutex<bool>>) {
    let mut cluster = Cluster::new(context.clone());
    for (partition, end) in ends {
        let mut position = 0;
        while position < end {
            let Some(leader) = cluster.leader(partition).await else {
                cluster.pause(Duration::from_millis(100)).await;
                continue;
            };
            let Some((next, records)) = fetch(&mut cluster, leader, partition, position).await
            else {
                cluster.forget_leader(partition);
                cluster.pause(Duration::from_millis(100)).await;
                continue;
            };
            for (offset, record) in records {
                context.history.push(Seen::Audited { partition, offset, record });
            }
            position = next;
        }
    }
    *is_done.lock() = true;
}
