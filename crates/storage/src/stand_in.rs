//! Stand-ins for types of `protocol` until it has them.
#![expect(missing_docs, reason = "replaced by protocol's types")]
use bytes::Bytes;
#[derive(Debug, Default)]
pub struct ValidatedBatches;
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Bytes>);
