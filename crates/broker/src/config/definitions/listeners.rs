//! Listeners.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, OneOf};

pub(super) const AREA: Area = Area {
    title: "Listeners",
    introduction: "Where the broker listens, and where it tells its clients to connect.",
    definitions: definitions! {
        /// -
        "listeners": String = Some("PLAINTEXT://:9092"), Any, High, PerBroker, Honoured;

        /// -
        "advertised.listeners": String = None, Any, High, PerBroker, Honoured;

        /// -
        "listener.security.protocol.map": String = Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"), Any, Low, PerBroker, Honoured;

        /// -
        "control.plane.listener.name": String = None, Any, High, ReadOnly, Honoured, removed;

        /// -
        "security.inter.broker.protocol": String = Some("PLAINTEXT"), OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), Medium, ReadOnly, Honoured;

        /// -
        "inter.broker.listener.name": String = None, Any, Medium, ReadOnly, Honoured;
    },
};
