//! The only door to the operating system: disk, network, clock, randomness, tasks; each real and simulated.
//!
//! Everything above takes these as `Arc<dyn ...>`, so that a simulator can run whole brokers on a
//! virtual clock and an in-memory disk that crashes when it is told to.

pub mod clock;
pub mod disk;
pub mod memory;
pub mod network;
pub mod random;
pub mod tasks;

pub use clock::Clock;
pub use disk::{Disk, File, MemoryDisk, RealDisk};
pub use network::Network;
pub use random::Random;
pub use tasks::Tasks;
