//! The one place where the errors of the crates below become Kafka's error codes.
//!
//! One function per error type, without a wildcard arm: a new variant does not compile until
//! someone decides what clients are told.
