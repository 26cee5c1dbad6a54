//! The nodes, and the changes of a transaction applied to them one by one with a way back.

use crate::{CreateMode, Op, OpResult, SessionId, Stat, StoreError, Zxid, path};
use bytes::Bytes;
use model::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Node {
    pub(super) data: Option<Bytes>,
    pub(super) czxid: Zxid,
    pub(super) mzxid: Zxid,
    pub(super) pzxid: Zxid,
    pub(super) ctime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) version: i32,
    /// How many children it ever had: the number in a sequential child's name.
    pub(super) children_created: i32,
    pub(super) owner: Option<SessionId>,
    /// Boxed: nearly every map here has one entry, and a map reserves room for eleven.
    pub(super) children: BTreeMap<Box<str>, Box<Node>>,
}

impl Node {
    fn new(data: Option<Bytes>, at: Moment, owner: Option<SessionId>) -> Self {
        Self {
            data,
            czxid: at.zxid,
            mzxid: at.zxid,
            pzxid: at.zxid,
            ctime: at.time,
            mtime: at.time,
            version: 0,
            children_created: 0,
            owner,
            children: BTreeMap::new(),
        }
    }

    pub(super) fn stat(&self) -> Stat {
        let children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.children_created.wrapping_mul(2).wrapping_sub(children),
            ephemeral_owner: self.owner,
            data_length: self.data.as_ref().map_or(0, Bytes::len),
            num_children: self.children.len(),
        }
    }
}

/// When, in which transaction, and by whom a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) zxid: Zxid,
    pub(super) time: Timestamp,
    pub(super) session: SessionId,
}

/// How to take one change back. Only valid while every later change was taken back before.
#[derive(Debug)]
pub(super) enum Undo {
    Create { path: String, parent_pzxid: Zxid },
    Set { path: String, data: Option<Bytes>, mzxid: Zxid, mtime: Timestamp },
    Delete { path: String, node: Box<Node>, parent_pzxid: Zxid },
    Nothing,
}

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let at = Moment { zxid: Zxid(0), time: Timestamp(0), session: SessionId(0) };
        Self::from_root(Node::new(None, at, None))
    }

    pub(super) fn from_root(root: Node) -> Self {
        fn collect(node: &Node, path: &str, found: &mut BTreeMap<SessionId, BTreeSet<String>>) {
            if let Some(owner) = node.owner {
                found.entry(owner).or_default().insert(path.into());
            }
            for (name, child) in &node.children {
                collect(child, &format!("{path}/{name}"), found);
            }
        }
        let mut ephemerals = BTreeMap::new();
        collect(&root, "", &mut ephemerals);
        Self { root, ephemerals }
    }

    pub(super) fn node(&self, path: &str) -> Option<&Node> {
        path::segments(path)
            .try_fold(&self.root, |node, name| node.children.get(name).map(|n| &**n))
    }

    fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        path::segments(path)
            .try_fold(&mut self.root, |node, name| node.children.get_mut(name).map(|n| &mut **n))
    }

    /// The ephemeral nodes of one session.
    pub(super) fn ephemerals_of(&self, session: SessionId) -> Vec<String> {
        self.ephemerals.get(&session).into_iter().flatten().cloned().collect()
    }

    /// The ephemeral nodes of all sessions.
    pub(super) fn ephemerals(&self) -> Vec<String> {
        self.ephemerals.values().flatten().cloned().collect()
    }

    /// Makes one change, or returns why it cannot be made.
    pub(super) fn apply(&mut self, op: &Op, at: Moment) -> Result<(OpResult, Undo), StoreError> {
        path::validate(op.path())?;
        match op {
            Op::Create { path, data, mode } => self.create(path, data.clone(), *mode, at),
            Op::Set { path, data, version } => self.set(path, data.clone(), *version, at),
            Op::Delete { path, version } => self.delete(path, *version, at),
            Op::Check { path, version } => {
                let node = self.node(path).ok_or_else(|| StoreError::NoNode(path.clone()))?;
                check(path, node, Some(*version))?;
                Ok((OpResult::Checked, Undo::Nothing))
            }
        }
    }

    fn create(
        &mut self,
        path: &str,
        data: Option<Bytes>,
        mode: CreateMode,
        at: Moment,
    ) -> Result<(OpResult, Undo), StoreError> {
        let Some((parent_path, name)) = path::split(path) else {
            return Err(StoreError::NodeExists(path.into()));
        };
        let parent =
            self.node_mut(parent_path).ok_or_else(|| StoreError::NoNode(parent_path.into()))?;
        if parent.owner.is_some() {
            return Err(StoreError::NoChildrenForEphemerals(path.into()));
        }
        let digits = if mode.is_sequential() {
            format!("{:010}", parent.children_created)
        } else {
            String::new()
        };
        let (path, name) = (format!("{path}{digits}"), format!("{name}{digits}"));
        if parent.children.contains_key(name.as_str()) {
            return Err(StoreError::NodeExists(path));
        }
        let owner = mode.is_ephemeral().then_some(at.session);
        let node = Box::new(Node::new(data, at, owner));
        let undo = Undo::Create { path: path.clone(), parent_pzxid: parent.pzxid };
        parent.children.insert(name.into(), node);
        parent.children_created = parent.children_created.wrapping_add(1);
        parent.pzxid = at.zxid;
        if let Some(owner) = owner {
            self.ephemerals.entry(owner).or_default().insert(path.clone());
        }
        Ok((OpResult::Created(path), undo))
    }

    fn set(
        &mut self,
        path: &str,
        data: Option<Bytes>,
        version: Option<i32>,
        at: Moment,
    ) -> Result<(OpResult, Undo), StoreError> {
        let node = self.node_mut(path).ok_or_else(|| StoreError::NoNode(path.into()))?;
        check(path, node, version)?;
        let undo = Undo::Set {
            path: path.into(),
            data: std::mem::replace(&mut node.data, data),
            mzxid: node.mzxid,
            mtime: node.mtime,
        };
        node.version = node.version.wrapping_add(1);
        node.mzxid = at.zxid;
        node.mtime = at.time;
        Ok((OpResult::Set(node.stat()), undo))
    }

    fn delete(
        &mut self,
        path: &str,
        version: Option<i32>,
        at: Moment,
    ) -> Result<(OpResult, Undo), StoreError> {
        let Some((parent_path, name)) = path::split(path) else {
            return Err(StoreError::BadArguments(path.into()));
        };
        let missing = || StoreError::NoNode(path.into());
        let parent = self.node_mut(parent_path).ok_or_else(missing)?;
        let node = parent.children.get(name).ok_or_else(missing)?;
        check(path, node, version)?;
        if !node.children.is_empty() {
            return Err(StoreError::NotEmpty(path.into()));
        }
        let node = parent.children.remove(name).expect("found above");
        let parent_pzxid = std::mem::replace(&mut parent.pzxid, at.zxid);
        if let Some(owner) = node.owner {
            self.forget_ephemeral(owner, path);
        }
        Ok((OpResult::Deleted, Undo::Delete { path: path.into(), node, parent_pzxid }))
    }

    /// Takes the latest change back.
    pub(super) fn undo(&mut self, undo: Undo) {
        const HELD: &str = "changes are taken back in reverse order";
        match undo {
            Undo::Create { path, parent_pzxid } => {
                let (parent, name) = path::split(&path).expect("the root is never created");
                let parent = self.node_mut(parent).expect(HELD);
                let node = parent.children.remove(name).expect(HELD);
                parent.children_created = parent.children_created.wrapping_sub(1);
                parent.pzxid = parent_pzxid;
                if let Some(owner) = node.owner {
                    self.forget_ephemeral(owner, &path);
                }
            }
            Undo::Set { path, data, mzxid, mtime } => {
                let node = self.node_mut(&path).expect(HELD);
                node.version = node.version.wrapping_sub(1);
                (node.data, node.mzxid, node.mtime) = (data, mzxid, mtime);
            }
            Undo::Delete { path, node, parent_pzxid } => {
                if let Some(owner) = node.owner {
                    self.ephemerals.entry(owner).or_default().insert(path.clone());
                }
                let (parent, name) = path::split(&path).expect("the root is never deleted");
                let parent = self.node_mut(parent).expect(HELD);
                parent.children.insert(name.into(), node);
                parent.pzxid = parent_pzxid;
            }
            Undo::Nothing => {}
        }
    }

    fn forget_ephemeral(&mut self, owner: SessionId, path: &str) {
        if let Some(paths) = self.ephemerals.get_mut(&owner) {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
    }
}

fn check(path: &str, node: &Node, version: Option<i32>) -> Result<(), StoreError> {
    match version {
        Some(version) if version != node.version => Err(StoreError::BadVersion(path.into())),
        _ => Ok(()),
    }
}
