//! The broker.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "The broker",
    introduction: "Who the broker is, and how it leaves.",
    definitions: definitions! {
        /// Lets a broker without `broker.id` draw one above `reserved.broker.max.id` at its first start;
        /// `meta.properties` keeps it from then on.
        "broker.id.generation.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured, removed;

        /// Largest id that may be given by hand; generated ids start at the next number.
        "reserved.broker.max.id": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured, removed;

        /// Number that names this broker for ever; it must match the id in every log directory. -1 asks for a generated
        /// id.
        "broker.id": Int = Some("-1"), Any, High, ReadOnly, Honoured;

        /// Threads for Kafka's housekeeping. Here one janitor and the committers do it.
        "background.threads": Int = Some("10"), AtLeast(1), High, ClusterWide, Inert;

        /// How long a request to another broker may take before it is retried or fails.
        "request.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Honoured;

        /// Rack or zone of this broker; replicas of a partition are spread over racks, and clients see it in metadata.
        "broker.rack": String = None, Any, Medium, ReadOnly, Honoured;

        /// How often a stopping broker asks the controller to move its leaderships before it stops anyway. One broker has
        /// nobody to hand over to.
        "controlled.shutdown.max.retries": Int = Some("3"), Any, Medium, ReadOnly, Honoured, removed;

        /// Pause between two attempts to hand leaderships over.
        "controlled.shutdown.retry.backoff.ms": Long = Some("5000"), Any, Medium, ReadOnly, Honoured, removed;

        /// Whether a stopping broker hands its leaderships over first.
        "controlled.shutdown.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured;

        /// The name that Kafka 4 gives to `broker.id`. If both are set they must agree.
        "node.id": Int = Some("-1"), Any, High, ReadOnly, Honoured;

        /// Names of providers that resolve `${name:path:key}` in other values; `config.providers.<name>.class` says
        /// which: files, directories and the environment are supported.
        "config.providers": List = Some(""), Any, Low, ClusterWide, Honoured, newer;
    },
};
