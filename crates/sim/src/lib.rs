//! Whole brokers in one thread on virtual time: one seed decides topology, configuration, workload, faults and
//! who goes on when (decision 17 in `docs/decisions`).
//!
//! [`world`] is one run: a cluster is started, clients write and read, faults come as the [`plan`] says, then
//! everything must heal within a bound. The [`oracle`] looks at every replica after each step of its broker,
//! at what clients see and at what is written to the store, and asks the [`invariants`]. What a set of runs must
//! have led to are its [`situations`].
//!
//! Non-obvious:
//! - The same seed and the same code give the same run, to the last step: nothing here, and nothing that brokers
//!   do, may depend on hash maps' order, on threads, or on real time.
//! - What is committed is what a leader's high watermark ever passed, taken down at that moment.
//! - No machine loses power whose log is the only whole one of an ISR: what was only in its memory would
//!   rightly be gone.

pub mod clients;
pub mod facts;
pub mod faults;
pub mod history;
pub mod invariants;
pub mod network;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod runs;
pub mod scheduler;
pub mod situations;
pub mod store;
pub mod trace;
pub mod world;
