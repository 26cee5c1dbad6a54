//! Topics.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Topics",
    introduction: "How topics come and go.",
    definitions: definitions! {
        /// -
        "delete.topic.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;

        /// -
        "max.request.partition.size.limit": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "default.replication.factor": Int = Some("1"), Any, Medium, ReadOnly, Honoured;

        /// -
        "num.partitions": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "auto.create.topics.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;
    },
};
