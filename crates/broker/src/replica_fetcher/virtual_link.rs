//! A fetcher's link to the broker that it follows, over a simulated network.

use super::fetchers::Address;
use super::link::{ConnectionSettings, ExchangeFailure, Link, Waiting};
use bytes::Bytes;
use model::Instant;
use platform::network::{ByteStream, VirtualNetwork};
use protocol::Segment;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A link over a simulated network.
#[derive(Debug)]
pub(super) struct VirtualLink {
    network: Arc<dyn VirtualNetwork>,
    /// Told of messages to the fetcher.
    news: Arc<Notify>,
    stream: Option<Box<dyn ByteStream>>,
}

impl VirtualLink {
    /// A link that is not connected, and what to tell of messages.
    pub(super) fn new(network: Arc<dyn VirtualNetwork>) -> (Self, Arc<Notify>) {
        let news = Arc::new(Notify::new());
        (Self { network, news: Arc::clone(&news), stream: None }, news)
    }

    fn stream(&mut self) -> io::Result<&mut Box<dyn ByteStream>> {
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Waits for `work`; messages are looked at as they come.
async fn wait<T>(
    news: &Notify,
    work: impl Future<Output = io::Result<T>>,
    deadline: Instant,
    may_give_up: bool,
    waiting: &mut Waiting<'_>,
) -> Result<T, ExchangeFailure> {
    let mut work = pin!(work);
    loop {
        let (now, until) = waiting.until(deadline, may_give_up)?;
        let either = async {
            tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = news.notified() => None,
            }
        };
        if let Ok(Some(done)) = timeout(until.since(now), either).await {
            return Ok(done?);
        }
    }
}

impl Link for VirtualLink {
    async fn open(
        &mut self,
        address: &Address,
        settings: &ConnectionSettings,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure> {
        let connecting = self.network.connect(&model::host_and_port(&address.host, address.port));
        let deadline = waiting.clock.now() + settings.timeout;
        self.stream = Some(wait(&self.news, connecting, deadline, false, waiting).await?);
        Ok(())
    }

    async fn round_trip(
        &mut self,
        frame: Vec<Segment>,
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<Bytes, ExchangeFailure> {
        let news = Arc::clone(&self.news);
        let stream = self.stream()?;
        for segment in frame {
            match segment {
                Segment::Bytes(bytes) => stream.write_all(&bytes).await?,
                Segment::File(_) => unreachable!("a follower sends no records"),
            }
        }
        let length = wait(&news, stream.read_i32(), deadline, true, waiting).await?;
        let length = usize::try_from(length)
            .map_err(|_| ExchangeFailure::Malformed("its length is negative".to_owned()))?;
        let mut frame = vec![0; length];
        wait(&news, stream.read_exact(&mut frame), deadline, false, waiting).await?;
        Ok(Bytes::from(frame))
    }

    async fn sleep(&mut self, waiting: &mut Waiting<'_>, until: Option<Instant>) {
        loop {
            let now = waiting.clock.now();
            if (waiting.has_mail)() || until.is_some_and(|until| until <= now) {
                return;
            }
            match until {
                Some(until) => drop(timeout(until.since(now), self.news.notified()).await),
                None => self.news.notified().await,
            }
        }
    }

    fn reclaim(&mut self, frame: Bytes) {
        drop(frame);
    }

    fn close(&mut self) {
        self.stream = None;
    }
}
