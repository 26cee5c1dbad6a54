//! Bytes of transactions and nodes in the journal's frames. All numbers are little-endian.
//!
//! | thing | bytes |
//! |---|---|
//! | text, data | length `u32`, bytes; null data has length `u32::MAX` |
//! | transaction | zxid, time, session `i64`; number of changes `u32`; changes |
//! | change | tag `u8`: 0 create, 1 create ephemeral, 2 set (path, data); 3 delete (path) |
//! | node | data; czxid, mzxid, pzxid, ctime, mtime, owner (0: none) `i64`; version, children ever `i32`; number of children `u32`; for each: name, node |

use super::tree::{Moment, Node};
use crate::path::MAX_NAMES;
use crate::{CreateMode, Op, SessionId, Zxid};
use bytes::Bytes;
use model::Timestamp;
use std::collections::BTreeMap;

/// One committed transaction. Its paths are final and its changes bear no conditions any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) at: Moment,
    pub(super) ops: Vec<Op>,
}

/// The bytes are not what this version writes.
#[derive(Debug)]
pub(super) struct Malformed;

pub(super) fn put_transaction(out: &mut Vec<u8>, transaction: &Transaction) {
    let Moment { zxid, time, session } = transaction.at;
    put_i64(out, zxid.0);
    put_i64(out, time.0);
    put_i64(out, session.0);
    put_length(out, transaction.ops.len());
    for op in &transaction.ops {
        match op {
            Op::Create { path, data, mode } => {
                out.push(u8::from(mode.is_ephemeral()));
                put_bytes(out, path.as_bytes());
                put_data(out, data.as_ref());
            }
            Op::Set { path, data, .. } => {
                out.push(2);
                put_bytes(out, path.as_bytes());
                put_data(out, data.as_ref());
            }
            Op::Delete { path, .. } => {
                out.push(3);
                put_bytes(out, path.as_bytes());
            }
            Op::Check { .. } => unreachable!("conditions are not logged"),
        }
    }
}

pub(super) fn put_node(out: &mut Vec<u8>, node: &Node) {
    put_data(out, node.data.as_ref());
    let owner = node.owner.map_or(0, |owner| owner.0);
    let numbers = [node.czxid.0, node.mzxid.0, node.pzxid.0, node.ctime.0, node.mtime.0, owner];
    numbers.into_iter().for_each(|number| put_i64(out, number));
    out.extend_from_slice(&node.version.to_le_bytes());
    out.extend_from_slice(&node.children_created.to_le_bytes());
    put_length(out, node.children.len());
    for (name, child) in &node.children {
        put_bytes(out, name.as_bytes());
        put_node(out, child);
    }
}

pub(super) fn put_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("the store refuses data of 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_data(out: &mut Vec<u8>, data: Option<&Bytes>) {
    match data {
        Some(data) => put_bytes(out, data),
        None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
    }
}

/// What is left to decode.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// Copied, so that small data does not keep a large file's buffer in memory.
    fn data(&mut self) -> Result<Option<Bytes>, Malformed> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Ok(None);
        }
        Ok(Some(Bytes::copy_from_slice(self.take(length as usize)?)))
    }

    pub(super) fn transaction(&mut self) -> Result<Transaction, Malformed> {
        let (zxid, time, session) =
            (Zxid(self.i64()?), Timestamp(self.i64()?), SessionId(self.i64()?));
        let count = self.u32()?;
        let ops = (0..count).map(|_| self.op()).collect::<Result<_, _>>()?;
        Ok(Transaction { at: Moment { zxid, time, session }, ops })
    }

    fn op(&mut self) -> Result<Op, Malformed> {
        let [tag] = self.array()?;
        let path = self.text()?.to_owned();
        Ok(match tag {
            0 => Op::Create { path, data: self.data()?, mode: CreateMode::Persistent },
            1 => Op::Create { path, data: self.data()?, mode: CreateMode::Ephemeral },
            2 => Op::Set { path, data: self.data()?, version: None },
            3 => Op::Delete { path, version: None },
            _ => return Err(Malformed),
        })
    }

    pub(super) fn node(&mut self, depth: usize) -> Result<Node, Malformed> {
        if depth > MAX_NAMES {
            return Err(Malformed);
        }
        let data = self.data()?;
        let (czxid, mzxid, pzxid) = (Zxid(self.i64()?), Zxid(self.i64()?), Zxid(self.i64()?));
        let (ctime, mtime) = (Timestamp(self.i64()?), Timestamp(self.i64()?));
        let owner = Some(self.i64()?).filter(|&owner| owner != 0).map(SessionId);
        let (version, children_created, count) = (self.i32()?, self.i32()?, self.u32()?);
        let children = (0..count)
            .map(|_| Ok((self.text()?.into(), Box::new(self.node(depth + 1)?))))
            .collect::<Result<BTreeMap<Box<str>, Box<Node>>, _>>()?;
        Ok(Node {
            data,
            czxid,
            mzxid,
            pzxid,
            ctime,
            mtime,
            version,
            children_created,
            owner,
            children,
        })
    }
}
