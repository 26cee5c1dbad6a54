//! Stand-ins for types of `protocol` until it has them.
pub use protocol::Records;
pub use protocol::records::validate::ValidatedBatches;
