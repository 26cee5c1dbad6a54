//! Performs requests: a batch is applied in memory, flushed in one go, then answered.

use super::codec::Transaction;
use super::journal::{AppendError, Journal, Recovered};
use super::tree::{Moment, Tree, Undo};
use super::watches::{Fired, Table, Watches};
use super::{OpenSender, ReplySender};
use crate::path;
use crate::{
    CreateMode, Event, Events, Kind, Op, OpResult, Read, ReadResult, Reply, Request, SessionId,
    StoreError, Zxid,
};
use model::Timestamp;
use platform::{Clock, Disk};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

/// More than this in one node is refused.
const MAX_OP_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(super) enum Command {
    Open { reply: OpenSender },
    Perform { session: SessionId, request: Request, reply: ReplySender },
}

impl Command {
    pub(super) fn fail(self, error: StoreError) {
        match self {
            Self::Open { reply } => drop(reply.send(Err(error))),
            Self::Perform { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

#[derive(Debug)]
pub(super) struct Engine {
    tree: Tree,
    journal: Journal,
    watches: Watches,
    sessions: BTreeMap<SessionId, mpsc::UnboundedSender<Event>>,
    last_zxid: Zxid,
    clock: Arc<dyn Clock>,
    /// Why nothing works any more.
    failed: Option<String>,
}

/// What a batch did, until it is flushed.
#[derive(Default)]
struct Batch {
    transactions: Vec<Transaction>,
    undo: Vec<Undo>,
    fired: Vec<Fired>,
    opened: Vec<(SessionId, OpenSender, Events)>,
    closed: Vec<(SessionId, mpsc::UnboundedSender<Event>)>,
    replies: Vec<(ReplySender, Result<Reply, StoreError>)>,
}

impl Engine {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let Recovered { journal, tree, last_zxid } = Journal::open(disk, directory)?;
        let mut engine = Self {
            tree,
            journal,
            watches: Watches::default(),
            sessions: BTreeMap::new(),
            last_zxid,
            clock,
            failed: None,
        };
        engine.remove_ephemerals_of_the_last_process()?;
        Ok(engine)
    }

    fn remove_ephemerals_of_the_last_process(&mut self) -> io::Result<()> {
        let ops: Vec<Op> = self.tree.ephemerals().into_iter().map(Op::delete).collect();
        if ops.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        self.write(SessionId(0), &ops, &mut batch).map_err(io::Error::other)?;
        match self.journal.append(&batch.transactions) {
            Ok(()) => Ok(()),
            Err(AppendError::NotWritten(e) | AppendError::Unknown(e)) => Err(e),
        }
    }

    /// Lets every change from now on have a number above `floor`.
    pub(super) fn raise(&mut self, floor: Zxid) {
        self.last_zxid = self.last_zxid.max(floor);
    }

    pub(super) fn process(&mut self, commands: Vec<Command>) {
        if let Some(why) = &self.failed {
            commands.into_iter().for_each(|c| c.fail(StoreError::Failed(why.clone())));
            return;
        }
        let mut batch = Batch::default();
        for command in commands {
            self.perform(command, &mut batch);
        }
        if batch.transactions.is_empty() {
            return self.answer(batch);
        }
        match self.journal.append(&batch.transactions) {
            Ok(()) => {
                self.answer(batch);
                self.rotate_if_long();
            }
            Err(AppendError::NotWritten(error)) => {
                tracing::warn!(%error, "the store could not write and took its changes back");
                self.take_back(batch, &error);
            }
            Err(AppendError::Unknown(error)) => {
                tracing::error!(%error, "the store's disk has failed");
                self.fail(batch, &error);
            }
        }
    }

    fn perform(&mut self, command: Command, batch: &mut Batch) {
        match command {
            Command::Open { reply } => {
                let (sender, events) = mpsc::unbounded_channel();
                let at = self.next_moment(SessionId(0));
                let session = SessionId(at.zxid.0);
                batch.transactions.push(Transaction { at, ops: Vec::new() });
                self.sessions.insert(session, sender);
                batch.opened.push((session, reply, events));
            }
            Command::Perform { session, request, reply } => {
                let result = self.perform_request(session, request, batch);
                batch.replies.push((reply, result));
            }
        }
    }

    fn perform_request(
        &mut self,
        session: SessionId,
        request: Request,
        batch: &mut Batch,
    ) -> Result<Reply, StoreError> {
        if !self.sessions.contains_key(&session) {
            return Err(StoreError::SessionExpired);
        }
        match request {
            Request::Write(ops) => self.write(session, &ops, batch).map(Reply::Written),
            Request::Read(reads) => {
                Ok(Reply::Read(reads.into_iter().map(|read| self.read(session, read)).collect()))
            }
            Request::Close => {
                let ops: Vec<Op> =
                    self.tree.ephemerals_of(session).into_iter().map(Op::delete).collect();
                self.watches.forget(session);
                self.write(session, &ops, batch)?;
                let sender = self.sessions.remove(&session).expect("checked above");
                batch.closed.push((session, sender));
                Ok(Reply::Closed)
            }
        }
    }

    /// Makes all of `ops`, or none.
    fn write(
        &mut self,
        session: SessionId,
        ops: &[Op],
        batch: &mut Batch,
    ) -> Result<Vec<OpResult>, StoreError> {
        let before = self.last_zxid;
        let at = self.next_moment(session);
        let (mut results, mut undo) = (Vec::with_capacity(ops.len()), Vec::new());
        for op in ops {
            match check_limits(op).and_then(|()| self.tree.apply(op, at)) {
                Ok((result, back)) => {
                    results.push(result);
                    undo.push(back);
                }
                Err(error) => {
                    undo.into_iter().rev().for_each(|back| self.tree.undo(back));
                    self.last_zxid = before;
                    return Err(error);
                }
            }
        }
        let made: Vec<Op> =
            ops.iter().zip(&results).filter_map(|(op, result)| as_made(op, result)).collect();
        if made.is_empty() {
            self.last_zxid = before;
            return Ok(results);
        }
        for (op, result) in ops.iter().zip(&results) {
            self.watches.fire(op.path(), result, &mut batch.fired);
        }
        batch.undo.append(&mut undo);
        batch.transactions.push(Transaction { at, ops: made });
        Ok(results)
    }

    fn read(&mut self, session: SessionId, read: Read) -> Result<ReadResult, StoreError> {
        crate::path::validate(&read.path)?;
        let Read { path, kind, watch } = read;
        let node = self.tree.node(&path);
        if watch && (node.is_some() || kind == Kind::Exists) {
            let table = if kind == Kind::Children { Table::Children } else { Table::Node };
            self.watches.arm(&path, table, session);
        }
        match (kind, node) {
            (Kind::Exists, node) => Ok(ReadResult::Exists(node.map(|n| n.stat()))),
            (Kind::Data | Kind::Children, None) => Err(StoreError::NoNode(path)),
            (Kind::Data, Some(node)) => Ok(ReadResult::Data(node.data.clone(), node.stat())),
            (Kind::Children, Some(node)) => {
                let names = node.children.keys().map(|name| name.to_string()).collect();
                Ok(ReadResult::Children(names, node.stat()))
            }
        }
    }

    fn next_moment(&mut self, session: SessionId) -> Moment {
        self.last_zxid.0 += 1;
        let time: Timestamp = self.clock.timestamp();
        Moment { zxid: self.last_zxid, time, session }
    }

    fn answer(&mut self, batch: Batch) {
        for (session, reply, events) in batch.opened {
            if reply.send(Ok((session, events))).is_err() {
                // Whoever asked has gone: nobody will ever close it.
                self.sessions.remove(&session);
            }
        }
        // Events first: a session hears of a change before it reads what came of it.
        for Fired { session, event, .. } in batch.fired {
            if let Some(sender) = self.sessions.get(&session) {
                let _ = sender.send(event);
            }
        }
        for (_, sender) in batch.closed {
            let _ = sender.send(Event::Expired);
        }
        for (reply, result) in batch.replies {
            let _ = reply.send(result);
        }
    }

    /// Nothing of the batch is on disk: memory goes back to what it was.
    fn take_back(&mut self, batch: Batch, error: &io::Error) {
        batch.undo.into_iter().rev().for_each(|undo| self.tree.undo(undo));
        self.watches.rearm(batch.fired);
        self.sessions.extend(batch.closed);
        let why = || StoreError::NotWritten(error.to_string());
        for (session, reply, _) in batch.opened {
            self.sessions.remove(&session);
            let _ = reply.send(Err(why()));
        }
        for (reply, _) in batch.replies {
            let _ = reply.send(Err(why()));
        }
    }

    fn fail(&mut self, batch: Batch, error: &io::Error) {
        self.failed = Some(error.to_string());
        for (_, reply, _) in batch.opened {
            let _ = reply.send(Err(StoreError::Failed(error.to_string())));
        }
        for (reply, _) in batch.replies {
            let _ = reply.send(Err(StoreError::MayHaveBeenApplied));
        }
        for sender in std::mem::take(&mut self.sessions).into_values() {
            let _ = sender.send(Event::Expired);
        }
    }

    fn rotate_if_long(&mut self) {
        if !self.journal.wants_snapshot() {
            return;
        }
        match self.journal.rotate(&self.tree, self.last_zxid) {
            Ok(()) => {}
            Err(AppendError::NotWritten(error)) => {
                tracing::warn!(%error, "the store goes on without a new snapshot");
            }
            Err(AppendError::Unknown(error)) => {
                tracing::error!(%error, "the store's disk has failed");
                self.fail(Batch::default(), &error);
            }
        }
    }
}

fn check_limits(op: &Op) -> Result<(), StoreError> {
    let is_too_deep =
        matches!(op, Op::Create { path, .. } if path::segments(path).count() > path::MAX_NAMES);
    if op.size() > MAX_OP_BYTES || is_too_deep {
        return Err(StoreError::BadArguments(op.path().chars().take(256).collect()));
    }
    Ok(())
}

/// The change as it is logged: final path, no conditions.
fn as_made(op: &Op, result: &OpResult) -> Option<Op> {
    match (op, result) {
        (Op::Create { data, mode, .. }, OpResult::Created(path)) => {
            let mode =
                if mode.is_ephemeral() { CreateMode::Ephemeral } else { CreateMode::Persistent };
            Some(Op::Create { path: path.clone(), data: data.clone(), mode })
        }
        (Op::Set { path, data, .. }, _) => {
            Some(Op::Set { path: path.clone(), data: data.clone(), version: None })
        }
        (Op::Delete { path, .. }, _) => Some(Op::delete(path.clone())),
        (Op::Check { .. } | Op::Create { .. }, _) => None,
    }
}
