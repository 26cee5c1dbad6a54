//! The broker.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "The broker",
    introduction: "Who the broker is, and how it leaves.",
    definitions: definitions! {
        /// -
        "broker.id.generation.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "reserved.broker.max.id": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured, removed;

        /// -
        "broker.id": Int = Some("-1"), Any, High, ReadOnly, Honoured;

        /// -
        "background.threads": Int = Some("10"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "request.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Honoured;

        /// -
        "broker.rack": String = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "controlled.shutdown.max.retries": Int = Some("3"), Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "controlled.shutdown.retry.backoff.ms": Long = Some("5000"), Any, Medium, ReadOnly, Honoured, removed;

        /// -
        "controlled.shutdown.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured;

        /// -
        "node.id": Int = Some("-1"), Any, High, ReadOnly, Honoured;

        /// -
        "config.providers": List = Some(""), Any, Low, ClusterWide, Honoured, newer;
    },
};
