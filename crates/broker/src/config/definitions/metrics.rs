//! Metrics.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Metrics",
    introduction: "What the broker tells about itself.",
    definitions: definitions! {
        /// -
        "metrics.num.samples": Int = Some("2"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "metrics.sample.window.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "metric.reporters": List = Some(""), Any, Low, ClusterWide, Honoured;

        /// -
        "metrics.recording.level": String = Some("INFO"), Any, Low, ReadOnly, Honoured;

        /// -
        "auto.include.jmx.reporter": Boolean = Some("true"), Any, Low, ReadOnly, Honoured, removed;

        /// -
        "kafka.metrics.reporters": List = Some(""), Any, Low, ReadOnly, Honoured;

        /// -
        "kafka.metrics.polling.interval.secs": Int = Some("10"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "telemetry.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Honoured;
    },
};
