//! KIP-951: with NOT_LEADER_OR_FOLLOWER goes who leads instead, and where.

use crate::Broker;
use model::BrokerId;

/// Who leads a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaderHint {
    /// The leader; -1 if none is known.
    pub(crate) leader_id: i32,
    /// Its epoch; -1 if none is known.
    pub(crate) leader_epoch: i32,
    /// Where it listens, if it is alive.
    pub(crate) node: Option<HintedNode>,
}

/// A live broker as seen from one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HintedNode {
    /// Its id.
    pub(crate) id: i32,
    /// The host that clients of the listener are to connect to.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: i32,
    /// Its rack.
    pub(crate) rack: Option<String>,
}

/// Who leads partition `index` of `topic`, for a client of `listener`.
pub(crate) fn leader_hint(broker: &Broker, listener: &str, topic: &str, index: i32) -> LeaderHint {
    let image = broker.image.load();
    let here = broker.partitions.find(topic, index).and_then(|partition| partition.leadership());
    let (leader, epoch) = match here {
        Some((leader, epoch)) => (leader, Some(epoch)),
        None => match image.partition(topic, index) {
            Some(partition) => (partition.leader, Some(partition.leader_epoch)),
            None => (None, None),
        },
    };
    let node = |id: BrokerId| {
        let live = image.broker(id)?;
        let endpoint = live.endpoint(listener)?;
        Some(HintedNode {
            id: id.0,
            host: endpoint.host.clone(),
            port: endpoint.port,
            rack: live.rack.clone(),
        })
    };
    LeaderHint {
        leader_id: leader.map_or(-1, |leader| leader.0),
        leader_epoch: epoch.map_or(-1, |epoch| epoch.0),
        node: leader.and_then(node),
    }
}
