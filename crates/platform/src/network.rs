//! Connections to other processes, for whoever opens them.
//!
//! [`Network::System`] says that the caller uses sockets as it always does, at full speed;
//! [`Network::Virtual`] that it asks a simulated network for a stream of bytes instead.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways, in order.
pub trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for T {}

/// A connection on its way.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn ByteStream>>> + Send>>;

/// A network that is not the system's, as one process sees it.
pub trait VirtualNetwork: Debug + Send + Sync {
    /// Connects to `address` (`host:port`).
    ///
    /// Resolves to `ConnectionRefused` if the host is there and nobody listens, and to nothing while the host
    /// cannot be reached: the caller bounds how long it waits.
    fn connect(&self, address: &str) -> Connecting;
}

/// How connections are opened.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// By sockets.
    #[default]
    System,
    /// Through a simulated network.
    Virtual(Arc<dyn VirtualNetwork>),
}
