//! Requests and answers, and how they are written. Source: ZooKeeper's `zookeeper.jute`, 3.4 to 3.9.

use crate::error::Refusal;
use crate::jute::{Malformed, Reader, Writer};
use bytes::Bytes;
use model::Timestamp;

pub(crate) const NOTIFICATION_XID: i32 = -1;
pub(crate) const PING_XID: i32 = -2;
pub(crate) const SET_WATCHES_XID: i32 = -8;

const PING: i32 = 11;
const SET_WATCHES: i32 = 101;
const SASL: i32 = 102;
const CLOSE: i32 = -11;
const ERROR: i32 = -1;

/// How long a node lives and who names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Until it is deleted.
    Persistent,
    /// Until it is deleted or its session ends.
    Ephemeral,
    /// Persistent; the server appends ten digits to the name.
    PersistentSequential,
    /// Ephemeral; the server appends ten digits to the name.
    EphemeralSequential,
}

impl CreateMode {
    pub(crate) fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }

    fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
        }
    }
}

/// Who may do what with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Bits: 1 read, 2 write, 4 create, 8 delete, 16 administer.
    pub permissions: i32,
    /// `world`, `auth`, `sasl`, `x509`, `digest` ...
    pub scheme: String,
    /// Whom the scheme means.
    pub id: String,
}

impl Acl {
    /// Reading and nothing else.
    pub const READ: i32 = 1;
    /// Everything.
    pub const ALL: i32 = 31;

    /// `permissions` for everybody.
    #[must_use]
    pub fn world(permissions: i32) -> Self {
        Self { permissions, scheme: "world".into(), id: "anyone".into() }
    }

    /// Everything for whoever this client has authenticated as; refused if it has not.
    #[must_use]
    pub fn creator() -> Self {
        Self { permissions: Self::ALL, scheme: "auth".into(), id: String::new() }
    }
}

/// What the server keeps about a node besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The change that created the node.
    pub czxid: i64,
    /// The change that last set its data.
    pub mzxid: i64,
    /// The change that last created or deleted a child.
    pub pzxid: i64,
    /// When it was created.
    pub ctime: Timestamp,
    /// When its data was last set.
    pub mtime: Timestamp,
    /// How often its data was set.
    pub version: i32,
    /// How often a child was created or deleted.
    pub cversion: i32,
    /// How often its ACL was set.
    pub aversion: i32,
    /// The session that it vanishes with; 0 for a persistent node.
    pub ephemeral_owner: i64,
    /// Length of its data.
    pub data_length: i32,
    /// Number of its children.
    pub num_children: i32,
}

/// A change. A `version` of `None` means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a node.
    Create {
        /// Where.
        path: String,
        /// Its data; null and empty differ.
        data: Option<Bytes>,
        /// Who may do what with it.
        acl: Vec<Acl>,
        /// How long it lives and who names it.
        mode: CreateMode,
    },
    /// Deletes a node without children.
    Delete {
        /// The node.
        path: String,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Sets a node's data.
    Set {
        /// The node.
        path: String,
        /// Its new data.
        data: Option<Bytes>,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Changes nothing; fails the transaction unless the node has this version. Only within [`Call::Multi`].
    Check {
        /// The node.
        path: String,
        /// The version that it must have.
        version: i32,
    },
}

/// What became of one change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// The node was created at this path.
    Created(String),
    /// The node was deleted.
    Deleted,
    /// The data was set.
    Set(Stat),
    /// The version was right.
    Checked,
}

/// What to ask a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// One change: answered by [`Answer::Done`] with one result.
    Single(Op),
    /// All of several changes, or none: answered by [`Answer::Done`].
    Multi(Vec<Op>),
    /// Whether a node exists. A watch sees its creation, deletion and new data.
    Exists {
        /// The node.
        path: String,
        /// Whether to be told of the next change.
        watch: bool,
    },
    /// A node's data. A watch sees its deletion and new data; a missing node leaves none.
    GetData {
        /// The node.
        path: String,
        /// Whether to be told of the next change.
        watch: bool,
    },
    /// A node's children. A watch sees changes of that list, and the node's deletion.
    GetChildren {
        /// The node.
        path: String,
        /// Whether to be told of the next change.
        watch: bool,
    },
    /// A node's ACL.
    GetAcl {
        /// The node.
        path: String,
    },
    /// Sets a node's ACL.
    SetAcl {
        /// The node.
        path: String,
        /// The new ACL.
        acl: Vec<Acl>,
        /// The ACL's version that it must have (`aversion`).
        version: Option<i32>,
    },
    /// Later reads see at least what the ensemble had agreed upon when this was asked.
    Sync {
        /// Any node; the server ignores which.
        path: String,
    },
    /// Ends the session.
    Close,
}

impl Call {
    /// Whether performing it twice differs from performing it once.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, Self::Single(_) | Self::Multi(_) | Self::SetAcl { .. })
    }
}

/// A server's answer to a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The changes were made.
    Done(Vec<OpResult>),
    /// To [`Call::Exists`]: the node's `Stat` if there is one.
    Exists(Option<Stat>),
    /// To [`Call::GetData`].
    Data(Option<Bytes>, Stat),
    /// To [`Call::GetChildren`]; in no order.
    Children(Vec<String>, Stat),
    /// To [`Call::GetAcl`].
    Acl(Vec<Acl>, Stat),
    /// To [`Call::SetAcl`].
    AclSet(Stat),
    /// To [`Call::Sync`].
    Synced,
    /// To [`Call::Close`].
    Closed,
}

/// Opens a session, or continues one.
pub(crate) struct ConnectRequest<'a> {
    pub(crate) last_zxid: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) session: i64,
    pub(crate) password: &'a [u8],
}

impl ConnectRequest<'_> {
    pub(crate) fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.i32(0); // protocol version
        w.i64(self.last_zxid);
        w.i32(self.timeout_ms);
        w.i64(self.session);
        w.buffer(Some(self.password));
        w.bool(false); // a server without a quorum is of no use
        w.finish()
    }
}

pub(crate) struct ConnectResponse {
    /// 0 or less: the session that was to be continued is over.
    pub(crate) timeout_ms: i32,
    pub(crate) session: i64,
    pub(crate) password: Bytes,
}

impl ConnectResponse {
    pub(crate) fn decode(frame: Bytes) -> Result<Self, Malformed> {
        let mut r = Reader::new(frame);
        r.i32()?;
        let timeout_ms = r.i32()?;
        let session = r.i64()?;
        let password = r.buffer()?.unwrap_or_default();
        if password.len() > 64 {
            return Err(Malformed("a session password of more than 64 bytes"));
        }
        // Servers of 3.4 and later say whether they are read-only; nothing follows from it here.
        Ok(Self { timeout_ms, session, password })
    }
}

/// What precedes every answer.
pub(crate) struct ReplyHeader {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) error: i32,
}

impl ReplyHeader {
    pub(crate) fn decode(r: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self { xid: r.i32()?, zxid: r.i64()?, error: r.i32()? })
    }
}

/// How a watched node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was set.
    Data,
    /// A child was created or deleted.
    Children,
}

/// A watched node's change, or `None` for what a server says of the connection, which we know ourselves.
pub(crate) fn decode_notification(r: &mut Reader) -> Result<Option<(Change, String)>, Malformed> {
    let change = match r.i32()? {
        1 => Change::Created,
        2 => Change::Deleted,
        3 => Change::Data,
        4 => Change::Children,
        _ => return Ok(None),
    };
    r.i32()?;
    Ok(Some((change, r.string()?)))
}

pub(crate) fn ping() -> Bytes {
    let mut w = Writer::new();
    w.i32(PING_XID);
    w.i32(PING);
    w.finish()
}

pub(crate) fn sasl(xid: i32, token: &[u8]) -> Bytes {
    let mut w = Writer::new();
    w.i32(xid);
    w.i32(SASL);
    w.buffer(Some(token));
    w.finish()
}

/// The three kinds of watches, as lists of full paths.
#[derive(Debug, Default)]
pub(crate) struct WatchedPaths {
    pub(crate) data: Vec<String>,
    pub(crate) exists: Vec<String>,
    pub(crate) children: Vec<String>,
}

pub(crate) fn set_watches(since: i64, watched: &WatchedPaths) -> Bytes {
    let mut w = Writer::new();
    w.i32(SET_WATCHES_XID);
    w.i32(SET_WATCHES);
    w.i64(since);
    for paths in [&watched.data, &watched.exists, &watched.children] {
        w.length(paths.len());
        paths.iter().for_each(|path| w.string(path));
    }
    w.finish()
}

/// Writes `call` with every path below `chroot` (empty for none).
pub(crate) fn encode(call: &Call, xid: i32, chroot: &str) -> Bytes {
    let mut w = Writer::new();
    w.i32(xid);
    let full = |path: &str| full_path(chroot, path);
    let read = |w: &mut Writer, code: i32, path: &str, watch: bool| {
        w.i32(code);
        w.string(&full(path));
        w.bool(watch);
    };
    match call {
        Call::Single(op) => {
            w.i32(op_code(op));
            encode_op(&mut w, op, chroot);
        }
        Call::Multi(ops) => {
            w.i32(14);
            for op in ops {
                multi_header(&mut w, op_code(op), false);
                encode_op(&mut w, op, chroot);
            }
            multi_header(&mut w, -1, true);
        }
        Call::Exists { path, watch } => read(&mut w, 3, path, *watch),
        Call::GetData { path, watch } => read(&mut w, 4, path, *watch),
        Call::GetChildren { path, watch } => read(&mut w, 12, path, *watch),
        Call::GetAcl { path } => {
            w.i32(6);
            w.string(&full(path));
        }
        Call::SetAcl { path, acl, version } => {
            w.i32(7);
            w.string(&full(path));
            encode_acl(&mut w, acl);
            w.i32(version.unwrap_or(-1));
        }
        Call::Sync { path } => {
            w.i32(9);
            w.string(&full(path));
        }
        Call::Close => w.i32(CLOSE),
    }
    w.finish()
}

fn multi_header(w: &mut Writer, code: i32, done: bool) {
    w.i32(code);
    w.bool(done);
    w.i32(-1);
}

/// A client's path as the server knows it.
pub(crate) fn full_path(chroot: &str, path: &str) -> String {
    if chroot.is_empty() {
        path.to_owned()
    } else if path == "/" {
        chroot.to_owned()
    } else {
        format!("{chroot}{path}")
    }
}

/// A server's path as the client knows it; `None` if it is not below `chroot`.
pub(crate) fn client_path<'a>(chroot: &str, path: &'a str) -> Option<&'a str> {
    match path.strip_prefix(chroot)? {
        "" => Some("/"),
        rest if rest.starts_with('/') => Some(rest),
        _ => None,
    }
}

fn op_code(op: &Op) -> i32 {
    match op {
        Op::Create { .. } => 1,
        Op::Delete { .. } => 2,
        Op::Set { .. } => 5,
        Op::Check { .. } => 13,
    }
}

fn encode_op(w: &mut Writer, op: &Op, chroot: &str) {
    match op {
        Op::Create { path, data, acl, mode } => {
            w.string(&full_path(chroot, path));
            w.buffer(data.as_deref());
            encode_acl(w, acl);
            w.i32(mode.flags());
        }
        Op::Delete { path, version } => {
            w.string(&full_path(chroot, path));
            w.i32(version.unwrap_or(-1));
        }
        Op::Set { path, data, version } => {
            w.string(&full_path(chroot, path));
            w.buffer(data.as_deref());
            w.i32(version.unwrap_or(-1));
        }
        Op::Check { path, version } => {
            w.string(&full_path(chroot, path));
            w.i32(*version);
        }
    }
}

fn encode_acl(w: &mut Writer, acl: &[Acl]) {
    w.length(acl.len());
    for Acl { permissions, scheme, id } in acl {
        w.i32(*permissions);
        w.string(scheme);
        w.string(id);
    }
}

fn decode_acl(r: &mut Reader) -> Result<Vec<Acl>, Malformed> {
    r.vector(12, |r| Ok(Acl { permissions: r.i32()?, scheme: r.string()?, id: r.string()? }))
}

fn decode_stat(r: &mut Reader) -> Result<Stat, Malformed> {
    let (czxid, mzxid, ctime, mtime) = (r.i64()?, r.i64()?, r.i64()?, r.i64()?);
    Ok(Stat {
        czxid,
        mzxid,
        ctime: Timestamp(ctime),
        mtime: Timestamp(mtime),
        version: r.i32()?,
        cversion: r.i32()?,
        aversion: r.i32()?,
        ephemeral_owner: r.i64()?,
        data_length: r.i32()?,
        num_children: r.i32()?,
        pzxid: r.i64()?,
    })
}

/// A transaction's answer: all results, or the first change that was refused.
pub(crate) type Decoded = Result<Answer, (usize, Refusal)>;

/// Reads what follows the header of the answer to `call`, when the header has no error.
pub(crate) fn decode(call: &Call, r: &mut Reader, chroot: &str) -> Result<Decoded, Malformed> {
    let answer = match call {
        Call::Single(op) => Answer::Done(vec![decode_result(op, r, chroot)?]),
        Call::Multi(ops) => return decode_multi(ops, r, chroot),
        Call::Exists { .. } => Answer::Exists(Some(decode_stat(r)?)),
        Call::GetData { .. } => {
            let data = r.buffer()?;
            Answer::Data(data, decode_stat(r)?)
        }
        Call::GetChildren { .. } => {
            let names = r.vector(4, Reader::string)?;
            Answer::Children(names, decode_stat(r)?)
        }
        Call::GetAcl { .. } => {
            let acl = decode_acl(r)?;
            Answer::Acl(acl, decode_stat(r)?)
        }
        Call::SetAcl { .. } => Answer::AclSet(decode_stat(r)?),
        Call::Sync { .. } => Answer::Synced,
        Call::Close => Answer::Closed,
    };
    Ok(Ok(answer))
}

fn decode_result(op: &Op, r: &mut Reader, chroot: &str) -> Result<OpResult, Malformed> {
    Ok(match op {
        Op::Create { .. } => {
            let path = r.string()?;
            let path = client_path(chroot, &path).ok_or(Malformed("a path outside the chroot"))?;
            OpResult::Created(path.to_owned())
        }
        Op::Delete { .. } => OpResult::Deleted,
        Op::Set { .. } => OpResult::Set(decode_stat(r)?),
        Op::Check { .. } => OpResult::Checked,
    })
}

fn decode_multi(ops: &[Op], r: &mut Reader, chroot: &str) -> Result<Decoded, Malformed> {
    let mut results = Vec::with_capacity(ops.len());
    let mut refused = None;
    let mut index = 0;
    loop {
        let (code, done) = (r.i32()?, r.bool()?);
        r.i32()?;
        if done {
            break;
        }
        let op = ops.get(index).ok_or(Malformed("more results than changes"))?;
        if code == ERROR {
            // Changes before the one that was refused have "ok" here, those behind it an error that
            // only says that it was not their fault.
            let refusal = Refusal::of(r.i32()?);
            if let Some(refusal) = refusal
                && refused.is_none()
                && refusal != Refusal::NotTried
            {
                refused = Some((index, refusal));
            }
        } else if code == op_code(op) {
            results.push(decode_result(op, r, chroot)?);
        } else {
            return Err(Malformed("a result of another kind than its change"));
        }
        index += 1;
    }
    match refused {
        Some(refused) => Ok(Err(refused)),
        None if results.len() == ops.len() => Ok(Ok(Answer::Done(results))),
        None => Err(Malformed("fewer results than changes")),
    }
}
