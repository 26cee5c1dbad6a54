//! What becomes of replicas whose disk fails, or is full: the controller is told, asks this broker again to
//! lead and follow what it has, and hears which replicas it cannot (`KAFKA_STORAGE_ERROR`). Those are
//! offline until this broker says otherwise, and somebody else leads them.
//!
//! Kafka's own way for a log directory that failed (KIP-112), used here for more: a leader that cannot
//! append, because its disk is full or its log fails, says the same of what others can lead, and so does a
//! follower. They come back as followers once there is room. Who leads with a damaged log says the same once, and
//! follows at once.
//!
//! Non-obvious:
//! - Who is the only one in sync leads on: it takes no records, but what it has can be read.
//! - A directory whose disk is full is not offline: only the logs that could not be written count as failed.

use crate::Broker;
use crate::partition::Partition;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::info;

/// What goes wrong at the same time is announced together.
const GATHERING: Duration = Duration::from_millis(100);

/// A log that failed is trusted again after this long, if its directory has room.
const DISTRUST: Duration = Duration::from_secs(10);

/// Takes note of logs that fail.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTroubles {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    news: Notify,
    /// Whether any log failed, or is damaged, and was not seen to work again.
    any: AtomicBool,
}

impl LogTroubles {
    /// The controller is to ask what this broker can still host. Cheap; a partition's lock may be held.
    pub(crate) fn report(&self) {
        self.shared.any.store(true, Ordering::Relaxed);
        self.shared.news.notify_one();
    }

    /// Whatever is wrong with a log is to be looked at soon.
    pub(crate) fn look(&self) {
        self.shared.any.store(true, Ordering::Relaxed);
    }

    /// Announces what is reported until the broker is gone; a task of the control runtime.
    pub(crate) async fn run(self, broker: Weak<Broker>) {
        loop {
            self.shared.news.notified().await;
            let Some(broker) = broker.upgrade() else { return };
            if let Some(controller) = broker.controller.get() {
                controller.log_directory_failed();
            }
            drop(broker);
            tokio::time::sleep(GATHERING).await;
        }
    }
}

/// Looks whether logs that failed can be used again, and whether somebody can lead by now what this broker
/// cannot.
pub(crate) fn look_after(broker: &Broker) {
    let environment = broker.partitions.environment();
    if !environment.troubles.shared.any.swap(false, Ordering::Relaxed) {
        return;
    }
    let mut must_report = false;
    for partition in broker.partitions.all() {
        if partition.is_damaged() {
            environment.troubles.look();
            must_report |= partition.could_hand_over_damaged() || partition.could_follow_damaged();
        }
        let is_offline = partition.log_directory().is_some_and(|found| found.is_offline());
        let since = match partition.fails_since() {
            None if !is_offline => continue,
            since => since.unwrap_or_default(),
        };
        environment.troubles.shared.any.store(true, Ordering::Relaxed);
        if broker.clock.now().since(since) < DISTRUST {
            must_report |= partition.could_hand_over();
        } else if has_room(&partition) {
            if partition.trust_again() {
                info!(%partition, "its log may be used again: it asks to follow");
                must_report = true;
            }
        } else {
            must_report |= partition.could_hand_over();
        }
    }
    if must_report {
        environment.troubles.report();
    }
}

fn has_room(partition: &Arc<Partition>) -> bool {
    let Some(directory) = partition.log_directory() else { return false };
    !directory.is_offline() && directory.has_ample_room().unwrap_or_default()
}
