//! A ZooKeeper client: a pure protocol core and a small tokio shell.
//!
//! Speaks what servers from 3.4 to 3.9 have in common and Kafka needs. [`Client`] is one session.
//!
//! Non-obvious:
//! - A write that was sent and not answered may have been made: [`Error::MayHaveBeenApplied`]. It is never
//!   made again by this crate; reads are.
//! - Watches fire once and survive reconnects: a change that was missed is told after [`Event::Connected`],
//!   before the answer to any later call. Asking for them again takes several requests, all of which must
//!   name the same moment: the answer to the first already moves the last change seen.
//! - A server is only believed to have ended the session when it says so. What the client knows by itself is
//!   [`Event::Lapsed`]: nobody confirmed the session for as long as it lasts. After an outage of the whole
//!   ensemble sessions are still there.
//! - Nothing that a server sends decides how much is allocated or how long is waited.

mod client;
mod connect_string;
mod core;
mod digest_md5;
mod error;
mod jute;
mod protocol;
mod watches;

pub use crate::core::{Action, CallId, Core, Event, Input, Session, Settings};
pub use client::{Client, Environment, OnEvent};
pub use connect_string::{BadConnectString, ConnectString, Host};
pub use digest_md5::Login;
pub use error::{Error, Refusal};
pub use protocol::{Acl, Answer, Call, Change, CreateMode, Op, OpResult, Stat};
