//! Listeners.

use crate::config::definition::{
    Area,
    Status::{Honoured, Refused},
    definitions,
};
use crate::config::range::Range::{Any, OneOf};
use crate::config::refusal::Refusal::ControlPlane;

pub(super) const AREA: Area = Area {
    title: "Listeners",
    introduction: "Where the broker listens, and where it tells its clients to connect.",
    definitions: definitions! {
        /// Sockets to listen on, `NAME://host:port` with commas between. An empty host means all interfaces, port 0 a
        /// free port; IPv6 addresses stand in brackets.
        "listeners": String = Some("PLAINTEXT://:9092"), Any, High, PerBroker, Honoured;

        /// Addresses that clients and brokers are told to use, for the listeners that differ from what they bind to. Port
        /// 0 stands for the bound port, an empty host for the machine's name; 0.0.0.0 is refused.
        "advertised.listeners": String = None, Any, High, PerBroker, Honoured;

        /// Security protocol of each listener name, as `NAME:PROTOCOL` pairs. Names are compared in upper case. Only
        /// PLAINTEXT listeners can be served.
        "listener.security.protocol.map": String = Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"), Any, Low, PerBroker, Honoured;

        /// Listener that only the controller uses to reach this broker, so that its commands never queue behind clients.
        "control.plane.listener.name": String = None, Any, High, ReadOnly, Refused(ControlPlane), removed;

        /// Picks the listener of this name for traffic between brokers, if `inter.broker.listener.name` does not.
        "security.inter.broker.protocol": String = Some("PLAINTEXT"), OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), Medium, ReadOnly, Honoured;

        /// Listener that other brokers use; it must be advertised. Not to be combined with
        /// `security.inter.broker.protocol`.
        "inter.broker.listener.name": String = None, Any, Medium, ReadOnly, Honoured;
    },
};
