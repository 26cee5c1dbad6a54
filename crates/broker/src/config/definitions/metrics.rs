//! Metrics.

use crate::config::definition::{
    Area,
    Status::{Harmless, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Metrics",
    introduction: "What the broker tells about itself.",
    definitions: definitions! {
        /// Samples that Kafka's rate metrics keep.
        "metrics.num.samples": Int = Some("2"), AtLeast(1), Low, ReadOnly, Inert;

        /// Length of one such sample.
        "metrics.sample.window.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Inert;

        /// Java classes that pass metrics on.
        "metric.reporters": List = Some(""), Any, Low, ClusterWide, Harmless;

        /// Finest level of metrics that Kafka records.
        "metrics.recording.level": String = Some("INFO"), Any, Low, ReadOnly, Inert;

        /// Whether metrics appear in JMX without being asked for.
        "auto.include.jmx.reporter": Boolean = Some("true"), Any, Low, ReadOnly, Inert, removed;

        /// Java classes that pass on metrics of Kafka's older kind.
        "kafka.metrics.reporters": List = Some(""), Any, Low, ReadOnly, Harmless;

        /// How often those classes are called, in seconds.
        "kafka.metrics.polling.interval.secs": Int = Some("10"), AtLeast(1), Low, ReadOnly, Inert;

        /// Largest batch of metrics that a client may push (KIP-714). Client telemetry is not served in this version.
        "telemetry.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Inert;
    },
};
