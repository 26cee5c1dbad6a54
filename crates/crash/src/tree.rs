//! Files and directories as they are at one moment, and the operations that change them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names a file or directory whatever it is called.
pub type Id = u32;

/// The directory above all.
pub const ROOT: Id = 0;

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Its bytes.
    File(Vec<u8>),
    /// Its entries.
    Directory(BTreeMap<String, Id>),
}

/// One change of the disk, or one request to make changes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file or directory gets its first name.
    Create {
        /// Where.
        directory: Id,
        /// Its name.
        name: String,
        /// What gets it.
        id: Id,
        /// Whether it is a directory.
        is_directory: bool,
    },
    /// A name is changed within its directory; what had the new name loses it.
    Rename {
        /// Where.
        directory: Id,
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A name goes.
    Remove {
        /// Where.
        directory: Id,
        /// The name.
        name: String,
    },
    /// Bytes are written.
    Write {
        /// The file.
        id: Id,
        /// Where in it.
        position: usize,
        /// What.
        bytes: Vec<u8>,
    },
    /// A file is cut, or extended with zeros.
    SetLength {
        /// The file.
        id: Id,
        /// Its new length.
        length: usize,
    },
    /// `fdatasync` of a file.
    Sync(Id),
    /// `fsync` of a directory: the names in it.
    SyncDirectory(Id),
    /// `syncfs`.
    SyncEverything,
}

/// What is on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(crate) nodes: BTreeMap<Id, Node>,
    next: Id,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::Directory(BTreeMap::new()))]), next: ROOT + 1 }
    }
}

impl Tree {
    /// A tree of `nodes`, without those that have no name.
    pub(crate) fn of(mut nodes: BTreeMap<Id, Node>, next: Id) -> Self {
        let mut reachable = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(id) = todo.pop() {
            if reachable.insert(id)
                && let Some(Node::Directory(entries)) = nodes.get(&id)
            {
                todo.extend(entries.values());
            }
        }
        nodes.retain(|id, _| reachable.contains(id));
        Self { nodes, next }
    }

    pub(crate) fn next_id(&self) -> Id {
        self.next
    }

    /// What `path` names.
    pub(crate) fn find(&self, path: &Path) -> Option<Id> {
        let mut id = ROOT;
        for part in path.components().skip(1) {
            let Node::Directory(entries) = self.nodes.get(&id)? else { return None };
            id = *entries.get(part.as_os_str().to_str()?)?;
        }
        Some(id)
    }

    pub(crate) fn entries(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match self.nodes.get(&id) {
            Some(Node::Directory(entries)) => Some(entries),
            Some(Node::File(_)) | None => None,
        }
    }

    pub(crate) fn bytes(&self, id: Id) -> Option<&Vec<u8>> {
        match self.nodes.get(&id) {
            Some(Node::File(bytes)) => Some(bytes),
            Some(Node::Directory(_)) | None => None,
        }
    }

    fn entries_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        match self.nodes.get_mut(&id) {
            Some(Node::Directory(entries)) => entries,
            other @ (Some(Node::File(_)) | None) => panic!("no directory: {other:?}"),
        }
    }

    fn bytes_mut(&mut self, id: Id) -> &mut Vec<u8> {
        match self.nodes.get_mut(&id) {
            Some(Node::File(bytes)) => bytes,
            other @ (Some(Node::Directory(_)) | None) => panic!("no file: {other:?}"),
        }
    }

    /// Does what `operation` says.
    pub(crate) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { directory, name, id, is_directory } => {
                let node = match is_directory {
                    true => Node::Directory(BTreeMap::new()),
                    false => Node::File(Vec::new()),
                };
                self.nodes.insert(*id, node);
                self.next = self.next.max(id + 1);
                self.entries_mut(*directory).insert(name.clone(), *id);
            }
            Operation::Rename { directory, from, to } => {
                let entries = self.entries_mut(*directory);
                if let Some(id) = entries.remove(from) {
                    entries.insert(to.clone(), id);
                }
            }
            Operation::Remove { directory, name } => {
                self.entries_mut(*directory).remove(name);
            }
            Operation::Write { id, position, bytes } => {
                overwrite(self.bytes_mut(*id), *position, bytes);
            }
            Operation::SetLength { id, length } => self.bytes_mut(*id).resize(*length, 0),
            Operation::Sync(_) | Operation::SyncDirectory(_) | Operation::SyncEverything => {}
        }
    }

    /// Every file, by its path.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        self.collect(ROOT, "", &mut found);
        found
    }

    fn collect(&self, id: Id, path: &str, found: &mut BTreeMap<String, Vec<u8>>) {
        match self.nodes.get(&id) {
            Some(Node::File(bytes)) => drop(found.insert(path.to_owned(), bytes.clone())),
            Some(Node::Directory(entries)) => {
                entries.iter().for_each(|(name, id)| {
                    self.collect(*id, &format!("{path}/{name}"), found);
                });
            }
            None => {}
        }
    }
}

pub(crate) fn overwrite(bytes: &mut Vec<u8>, position: usize, written: &[u8]) {
    let end = position + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[position..end].copy_from_slice(written);
}
