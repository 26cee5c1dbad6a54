//! One broker's queue of control requests: one on its way at a time, repeated until it is answered.

use crate::channel::{ControlChannel, ControlRequest, ControlResponse};
use model::BrokerId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

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

/// Dropping it ends its task; what is queued is not sent any more.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: mpsc::UnboundedSender<(u64, ControlRequest)>,
    task: tokio::task::AbortHandle,
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
        let (queue, mut requests) = mpsc::unbounded_channel::<(u64, ControlRequest)>();
        let task = tokio::spawn(async move {
            while let Some((sequence, request)) = requests.recv().await {
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
        Self { queue, task: task.abort_handle() }
    }

    pub(crate) fn send(&self, sequence: u64, request: ControlRequest) {
        let _ = self.queue.send((sequence, request));
    }
}
