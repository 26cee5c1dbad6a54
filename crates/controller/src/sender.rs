//! One broker's queue of control requests: one on its way at a time, repeated until it is answered.

use crate::channel::{ControlChannel, ControlRequest, ControlResponse};
use model::BrokerId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Kafka's pause between two tries.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A broker has done what it was told.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) broker: BrokerId,
    /// Which of the requests.
    pub(crate) sequence: u64,
    pub(crate) response: ControlResponse,
}

/// What is queued.
#[derive(Debug)]
enum Item {
    Tell(u64, ControlRequest),
    /// Everything before it was answered.
    Mark(oneshot::Sender<()>),
}

/// Dropping it ends its task; what is queued is not sent any more.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: mpsc::UnboundedSender<Item>,
    task: platform::tasks::Task,
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sender {
    pub(crate) fn start(
        broker: BrokerId,
        channel: Arc<dyn ControlChannel>,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Self {
        let (queue, mut items) = mpsc::unbounded_channel::<Item>();
        let task = platform::tasks::spawn(async move {
            while let Some(item) = items.recv().await {
                let (sequence, request) = match item {
                    Item::Tell(sequence, request) => (sequence, request),
                    Item::Mark(reached) => {
                        let _ = reached.send(());
                        continue;
                    }
                };
                let response = loop {
                    match channel.send(request.clone()).await {
                        Ok(response) => break response,
                        Err(error) => tracing::debug!(%broker, %error, "will tell it again"),
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                };
                if reports.send(Report { broker, sequence, response }).is_err() {
                    return;
                }
            }
        });
        Self { queue, task }
    }

    pub(crate) fn send(&self, sequence: u64, request: ControlRequest) {
        let _ = self.queue.send(Item::Tell(sequence, request));
    }

    /// Resolves when the broker has done everything that it was told until now, or will not be told.
    pub(crate) fn is_done(&self) -> oneshot::Receiver<()> {
        let (reached, done) = oneshot::channel();
        let _ = self.queue.send(Item::Mark(reached));
        done
    }
}
