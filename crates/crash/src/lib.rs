//! Crashes of the storage layer, one after the other: whatever a killed process or a power cut may leave
//! of random workloads is recovered and judged (`cargo xtask crash`, docs/crashes.md).
//!
//! ```text
//! campaign -> workload  a broker's life by a seed, on the real storage code
//!          -> disk      records what is done to files and names
//!          -> image     what a crash after so many operations may leave
//!          -> verdict   recovers it and compares with what was known
//! power    -> campaign  with one kind of operation left out: who notices?
//! ```

mod broker;
pub mod campaign;
mod dice;
pub mod disk;
mod facts;
pub mod image;
pub mod power;
pub mod tree;
mod verdict;
pub mod workload;
