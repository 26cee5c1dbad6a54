//! The targets, one file for what belongs together.

mod config;
pub(crate) mod files;
mod groups;
pub(crate) mod messages;
pub(crate) mod nodes;
mod records;
mod recovery;
mod zookeeper;

use crate::Target;

/// What decoding a frame may hold: 64 KiB and eight times the frame (`protocol::Reader`), and a part for the message
/// that is written and read again.
const MESSAGE_BASE: usize = (64 << 10) * 3;
const MESSAGE_FACTOR: usize = 8 * 3;

pub(crate) const ALL: &[Target] = &[
    Target {
        name: "message",
        about: "any message of the protocol, in any version: requests, answers, records of coordinators",
        run: messages::message,
        base_bytes: MESSAGE_BASE,
        factor: MESSAGE_FACTOR,
    },
    Target {
        name: "request",
        about: "a frame from a client: header and body",
        run: messages::request,
        base_bytes: MESSAGE_BASE,
        factor: MESSAGE_FACTOR,
    },
    Target {
        name: "batches",
        about: "batches of all formats and codecs, read, filtered as compaction does, and converted for old consumers",
        run: records::batches,
        base_bytes: 24 * records::INFLATE_LIMIT,
        factor: 64,
    },
    Target {
        name: "produce",
        about: "records in a produce request, checked and rebuilt as the broker does",
        run: records::produce,
        base_bytes: 24 * records::INFLATE_LIMIT,
        factor: 64,
    },
    Target {
        name: "file",
        about: "any file of a log directory, as barnabas data dump reads it",
        run: files::file,
        base_bytes: 32 << 20,
        factor: 64,
    },
    Target {
        name: "recovery",
        about: "a log directory with a partition of any content: started, read, written to, crashed and started again",
        run: recovery::recovery,
        base_bytes: 64 << 20,
        factor: 64,
    },
    Target {
        name: "store",
        about: "the files of the embedded metadata store",
        run: nodes::store,
        base_bytes: 16 << 20,
        factor: 64,
    },
    Target {
        name: "nodes",
        about: "the nodes of a cluster of strangers, as barnabas data adopt and store export read them",
        run: nodes::nodes,
        base_bytes: 16 << 20,
        factor: 64,
    },
    Target {
        name: "zookeeper",
        about: "what a ZooKeeper server says to our client",
        run: zookeeper::server,
        base_bytes: 1 << 20,
        factor: 64,
    },
    Target {
        name: "connect-string",
        about: "zookeeper.connect",
        run: zookeeper::connect_string,
        base_bytes: 64 << 10,
        factor: 64,
    },
    Target {
        name: "config",
        about: "settings: of a broker, dynamic ones, of topics",
        run: config::settings,
        base_bytes: 8 << 20,
        factor: 256,
    },
    Target {
        name: "groups",
        about: "records of __consumer_offsets, loaded as at a failover",
        run: groups::load,
        base_bytes: 1 << 20,
        factor: 256,
    },
];

/// Takes parts of the input from its front. What is not there is zero, or empty.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// At most `length` bytes.
    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Bytes whose length stands before them.
    fn part(&mut self) -> &'a [u8] {
        let length = usize::from(self.u16());
        self.bytes(length)
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
