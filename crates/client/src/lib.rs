//! A client of Kafka's protocol, for our own commands and for brokers among themselves.
//!
//! [`Connection`] is the base: one socket, pipelined, versions negotiated, typed requests. [`Client`]
//! knows which broker to ask. [`Producer`], [`Consumer`] and [`GroupConsumer`] are what people mean by
//! a client.
//!
//! # Non-obvious
//! - Responses come in the order of the requests, so a request that waits (a long fetch) holds up those
//!   behind it. Whoever cannot wait takes a connection of its own.
//! - Topics are addressed by name: Produce and Fetch stop at version 12.
//! - A [`Producer`] has one request under way per partition; more records queue behind it and go
//!   together. Order holds through every retry, and with a producer id nothing is written twice.

mod client;
mod connection;
mod consumer;
mod error;
mod group;
mod murmur2;
mod producer;
mod retry;

pub use client::{Client, ClientOptions, TopicInfo};
pub use connection::{Connection, ConnectionOptions};
pub use consumer::{Consumer, ConsumerOptions, Fetched, Isolation, OffsetReset};
pub use consumer::{EARLIEST, LATEST, list_offsets};
pub use error::ClientError;
pub use group::{
    GroupConsumer, GroupOptions, PartitionOffset, assign_range, commit_offsets, committed_offsets,
};
pub use murmur2::{murmur2, partition_of};
pub use producer::{Acks, Producer, ProducerOptions, Progress, ToSend};
pub use retry::{OnRetry, Retry};
