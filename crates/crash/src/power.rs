//! What the enumerator notices: each kind of sync and rename is left out in turn.

use crate::campaign::{self, Options};
use crate::disk::Label;
use crate::workload::live;
use std::collections::BTreeMap;

/// Kinds of operations that make something durable or atomic, with how many a few workloads have.
#[must_use]
pub fn kinds(seed: u64, workloads: u64) -> BTreeMap<Label, u64> {
    let mut kinds = BTreeMap::new();
    for workload in seed..seed + workloads {
        for life in live(workload, 2, None) {
            for label in life.labels {
                if label.action.starts_with("sync") || label.action == "rename" {
                    *kinds.entry(label).or_default() += 1;
                }
            }
        }
    }
    kinds
}

/// What became of leaving a kind of operation out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kind.
    pub label: Label,
    /// How many images were tried.
    pub images: u64,
    /// What was noticed first, if anything was.
    pub noticed: Option<String>,
}

/// Leaves `label` out until it is noticed, or `images` were tried.
#[must_use]
pub fn try_without(label: Label, seed: u64, images: u64) -> Outcome {
    let options = Options { seed, images, of_each: 600, left_out: Some(label), stops: true };
    let (totals, failures) = campaign::run(options, |_| {});
    let noticed = failures.into_iter().next().map(|failure| failure.to_string());
    Outcome { label, images: totals.images, noticed }
}
