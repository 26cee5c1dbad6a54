//! Following: threads that fetch from other brokers what their partitions' leaders have, and append it
//! to the copies here.
//!
//! [`ReplicaFetchers`] has up to `num.replica.fetchers` threads per source broker; each has one
//! connection, one fetch under way, and an incremental session (KIP-227) so that a fetch costs what
//! changed and not how many partitions there are. [`followed`] is what a thread knows of its
//! partitions, [`mending`] those that are damaged, [`session`] its session, [`link`] its way to that broker, [`thread`] the loop.
//!
//! Non-obvious:
//! - Whoever changes a role only leaves a message; a thread takes messages between two fetches. A
//!   partition that came meanwhile must not wait for a fetch that has nothing to answer: after a short
//!   grace that fetch is given up and its connection with it. Kafka's followers wait.
//! - The leader's word is believed only for the leader epoch that the fetch was sent for; the partition
//!   checks that (`partition/following.rs`), so a thread that is late does no harm.
//! - Right after an election leader and follower hear of it in either order, so the first retries come
//!   quickly; `replica.fetch.backoff.ms` is the longest pause, not the only one.

mod fetchers;
mod followed;
mod link;
mod mending;
mod session;
mod socket_link;
mod thread;
mod virtual_link;

pub(crate) use fetchers::{FetcherSettings, ReplicaFetchers};

use std::time::Duration;

/// The pause after one more failure than `failures`: `first`, doubled for each of them, and no longer than `longest`.
fn backoff(first: Duration, failures: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(16)).min(longest)
}
