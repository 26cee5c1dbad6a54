//! Whether the processes of other brokers are there.
//!
//! The system closes all sockets of a process that ends, however it ends, and refuses connections to its
//! ports. So an idle connection to another broker tells of its end within a moment, long before its session
//! expires. That is a hint: what this broker sees counts only together with what others see, and only the
//! controller acts on it (`controller`'s `suspicions.rs`). A process that is frozen, or that cannot be
//! reached, refuses nothing: that waits for the session.
//!
//! A broker is watched by the controller and by the three before it in the order of ids; in a small cluster
//! by everybody.

use crate::Broker;
use metadata::{ClusterImage, SecurityProtocol};
use model::BrokerId;
use platform::Network;
use platform::network::ByteStream;
use platform::tasks::{self, Task};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Notify;
use tracing::{debug, info};

/// How many of the brokers that come next in the order of ids one watches.
const WATCHED: usize = 3;
/// Between two tries to connect to one that just closed its connections.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// So many tries must be refused, one after the other: a process that is started again opens its port soon.
const REFUSALS: u32 = 3;
/// How often a suspicion is told again while it lasts; the controller counts those of the last 2 s.
const SAY_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Between two tries to reach one that was never connected, or that is not answered.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Tells when the other brokers, or their addresses, may have changed. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Arc<Notify>);

/// Where a broker listens to other brokers.
type Address = (String, u16);

impl Peers {
    /// The image is another.
    pub(crate) fn image_changed(&self) {
        self.0.notify_one();
    }

    /// Watches other brokers until this one is gone; a task of the control runtime.
    pub(crate) async fn run(self, broker: Weak<Broker>) {
        let mut watched = Watched::default();
        loop {
            {
                let Some(itself) = broker.upgrade() else { return };
                let listener = &itself.config.load().listeners.inter_broker;
                let own_id = itself.partitions.environment().broker_id;
                let wanted = to_watch(&itself.image.load(), own_id, listener);
                watched.change_to(wanted, &broker);
            }
            self.0.notified().await;
        }
    }
}

/// Dropping it ends its tasks.
#[derive(Debug, Default)]
struct Watched(BTreeMap<(BrokerId, Address), Task>);

impl Watched {
    fn change_to(&mut self, wanted: BTreeMap<BrokerId, Address>, broker: &Weak<Broker>) {
        self.0.retain(|(id, address), task| {
            let stays = wanted.get(id) == Some(address);
            if !stays {
                task.abort();
            }
            stays
        });
        for (id, address) in wanted {
            let broker = Weak::clone(broker);
            self.0
                .entry((id, address.clone()))
                .or_insert_with(|| tasks::spawn(Watch { id, address, broker }.run()));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.values().for_each(Task::abort);
    }
}

/// Whom `own_id` watches, and where those listen.
fn to_watch(image: &ClusterImage, own_id: BrokerId, listener: &str) -> BTreeMap<BrokerId, Address> {
    let address = |id: BrokerId| {
        let endpoint = image.broker(id)?.endpoint(listener)?;
        let is_plain = endpoint.security_protocol == SecurityProtocol::Plaintext;
        let port = u16::try_from(endpoint.port).ok().filter(|_| is_plain)?;
        Some((id, (endpoint.host.clone(), port)))
    };
    let mut others: Vec<BrokerId> = image.brokers().map(|broker| broker.id).collect();
    others.retain(|&id| id != own_id);
    others.sort_unstable_by_key(|&id| (id < own_id, id));
    if image.controller() != Some(own_id) {
        others.truncate(WATCHED);
    }
    others.into_iter().filter_map(address).collect()
}

/// What is seen of one broker.
struct Watch {
    id: BrokerId,
    address: Address,
    broker: Weak<Broker>,
}

/// What became of a try to connect.
enum Probe {
    Connected(Box<dyn ByteStream>),
    Refused,
    Unknown(io::Error),
}

impl Probe {
    fn of(connected: Result<io::Result<Box<dyn ByteStream>>, tokio::time::error::Elapsed>) -> Self {
        match connected {
            Ok(Ok(stream)) => Self::Connected(stream),
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Self::Refused,
            Ok(Err(error)) => Self::Unknown(error),
            Err(_) => Self::Unknown(ErrorKind::TimedOut.into()),
        }
    }
}

impl Watch {
    async fn run(self) {
        let mut was_connected = false;
        let mut refusals = 0;
        let mut said_at = None;
        loop {
            let Some(network) = self.broker.upgrade().map(|broker| broker.network.clone()) else {
                return;
            };
            let probe = match network {
                Network::System => self.probe().await,
                Network::Virtual(network) => {
                    let (host, port) = &self.address;
                    let connecting = network.connect(&model::host_and_port(host, *port));
                    Probe::of(tokio::time::timeout(CONNECT_TIMEOUT, connecting).await)
                }
            };
            match probe {
                Probe::Connected(connection) => {
                    (was_connected, refusals, said_at) = (true, 0, None);
                    until_closed(connection).await;
                    debug!(peer = %self.id, "closed a connection");
                    continue;
                }
                // One that could never be reached has not ended.
                Probe::Refused if was_connected => refusals += 1,
                Probe::Refused => {}
                Probe::Unknown(error) => {
                    debug!(peer = %self.id, %error, "cannot tell whether it is there");
                    refusals = 0;
                }
            }
            if refusals >= REFUSALS {
                let now = tokio::time::Instant::now();
                if said_at.is_none_or(|at| now.duration_since(at) >= SAY_AGAIN_AFTER) {
                    let Some(broker) = self.broker.upgrade() else { return };
                    if self.suspect(&broker) {
                        if said_at.is_none() {
                            info!(peer = %self.id, "its connections are closed, and new ones refused");
                        }
                        said_at = Some(now);
                    }
                }
            }
            let pause = if refusals > 0 { PROBE_INTERVAL } else { RETRY_AFTER };
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells of the broker, unless something here is still connected to it.
    fn suspect(&self, broker: &Broker) -> bool {
        let is_reached = broker.partitions.environment().fetchers.are_connected_to(self.id);
        let Some(controller) = broker.controller.get().filter(|_| !is_reached) else {
            return false;
        };
        controller.suspect(self.id);
        true
    }

    /// Connects; refused is only what every address of the host refuses.
    async fn probe(&self) -> Probe {
        let (host, port) = &self.address;
        let addresses = match lookup_host((host.as_str(), *port)).await {
            Ok(addresses) => addresses,
            Err(error) => return Probe::Unknown(error),
        };
        let mut unknown = None;
        let mut any = false;
        for address in addresses {
            any = true;
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                // A free port of this machine may have been connected to itself.
                Ok(Ok(stream)) if stream.local_addr().is_ok_and(|own| own == address) => {}
                Ok(Ok(stream)) => return Probe::Connected(Box::new(stream)),
                Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {}
                Ok(Err(error)) => unknown = Some(error),
                Err(_) => unknown = Some(ErrorKind::TimedOut.into()),
            }
        }
        match unknown {
            None if any => Probe::Refused,
            None => Probe::Unknown(ErrorKind::AddrNotAvailable.into()),
            Some(error) => Probe::Unknown(error),
        }
    }
}

/// Nothing is ever asked on it, so that nothing is answered: it ends with the other process, or when that
/// closes connections that are idle.
async fn until_closed(mut connection: Box<dyn ByteStream>) {
    let mut bytes = [0; 64];
    while connection.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::{BrokerImage, Endpoint, MetadataDelta};
    use model::ControllerEpoch;

    fn watched(own: i32, controller: i32, ids: &[i32]) -> Vec<i32> {
        let broker = |&id: &i32| BrokerImage {
            id: BrokerId(id),
            rack: None,
            endpoints: vec![Endpoint {
                listener: "PLAINTEXT".into(),
                host: "h".into(),
                port: 9092,
                security_protocol: SecurityProtocol::Plaintext,
            }],
        };
        let delta = MetadataDelta {
            controller: Some(BrokerId(controller)),
            controller_epoch: ControllerEpoch(1),
            brokers: ids.iter().map(broker).collect(),
            topics: Vec::new(),
        };
        let image = ClusterImage::new().apply(delta).image;
        to_watch(&image, BrokerId(own), "PLAINTEXT").into_keys().map(|id| id.0).collect()
    }

    #[test]
    fn every_broker_is_watched_by_the_controller_and_by_three_others() {
        assert_eq!(watched(2, 1, &[1, 2, 3]), [1, 3]);
        assert_eq!(watched(5, 1, &[1, 2, 3, 4, 5, 6, 7]), [1, 6, 7]);
        assert_eq!(watched(1, 1, &[1, 2, 3, 4, 5, 6, 7]), [2, 3, 4, 5, 6, 7]);
        assert!(watched(3, 1, &[3]).is_empty());
    }
}
