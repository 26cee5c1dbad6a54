//! One-shot watches, as ZooKeeper's `WatchManager` keeps them: one table for nodes, one for children.

use crate::{Change, Event, OpResult, SessionId, path};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Left by `exists` and `get`.
    Node,
    /// Left by `children`.
    Children,
}

/// A watch that fired: an event to deliver, or to take back if the change is not made after all.
#[derive(Debug)]
pub(super) struct Fired {
    pub(super) session: SessionId,
    pub(super) event: Event,
    tables: Vec<Table>,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    watchers: BTreeMap<(String, Table), BTreeSet<SessionId>>,
}

impl Watches {
    pub(super) fn arm(&mut self, path: &str, table: Table, session: SessionId) {
        self.watchers.entry((path.into(), table)).or_default().insert(session);
    }

    /// Spends the watches that one change of a transaction sets off.
    pub(super) fn fire(&mut self, op_path: &str, result: &OpResult, fired: &mut Vec<Fired>) {
        match result {
            OpResult::Created(path) => {
                self.spend(path, &[Table::Node], Change::Created, fired);
                self.parent_changed(path, fired);
            }
            OpResult::Set(_) => self.spend(op_path, &[Table::Node], Change::Data, fired),
            OpResult::Deleted => {
                self.spend(op_path, &[Table::Node, Table::Children], Change::Deleted, fired);
                self.parent_changed(op_path, fired);
            }
            OpResult::Checked => {}
        }
    }

    fn parent_changed(&mut self, child: &str, fired: &mut Vec<Fired>) {
        if let Some((parent, _)) = path::split(child) {
            self.spend(parent, &[Table::Children], Change::Children, fired);
        }
    }

    /// A session with watches in several of `tables` hears of the change once.
    fn spend(&mut self, path: &str, tables: &[Table], change: Change, fired: &mut Vec<Fired>) {
        let mut sessions: BTreeMap<SessionId, Vec<Table>> = BTreeMap::new();
        for &table in tables {
            for session in self.watchers.remove(&(path.into(), table)).into_iter().flatten() {
                sessions.entry(session).or_default().push(table);
            }
        }
        fired.extend(sessions.into_iter().map(|(session, tables)| Fired {
            session,
            event: Event::Watched(change, path.into()),
            tables,
        }));
    }

    /// Arms again what fired for a change that was not made after all.
    pub(super) fn rearm(&mut self, fired: Vec<Fired>) {
        for Fired { session, event, tables } in fired {
            if let Event::Watched(_, path) = event {
                tables.into_iter().for_each(|table| self.arm(&path, table, session));
            }
        }
    }

    pub(super) fn forget(&mut self, session: SessionId) {
        self.watchers.retain(|_, sessions| {
            sessions.remove(&session);
            !sessions.is_empty()
        });
    }
}
