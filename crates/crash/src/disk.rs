//! A disk in memory that records what is done to it, and can leave out one kind of operation to show that
//! it matters, or fail one.

use crate::tree::{Id, Node, Operation, Tree};
use model::Timestamp;
use platform::disk::{File, Lock, Metadata, OpenOptions, Space};
use platform::{Disk, disk};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What kind of operation it is: as near to a place in the code as the disk can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// `write`, `sync`, `rename` ...
    pub action: &'static str,
    /// Of what: `log`, `snapshot`, `partition directory` ...
    pub class: &'static str,
    /// `.tmp`, `.cleaned`, `.swap`, `.deleted` or nothing.
    pub suffix: &'static str,
    /// Of a sync: what was done last to the directory, or in which step of the workload.
    pub context: &'static str,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, class, suffix, context } = self;
        write!(f, "{action} {class}{suffix}")?;
        if context.is_empty() { Ok(()) } else { write!(f, " ({context})") }
    }
}

const CLASSES: [&str; 16] = [
    "log",
    "index",
    "timeindex",
    "txnindex",
    "snapshot",
    "checksums",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    "barnabas-logs",
    "barnabas-moves",
    ".kafka_cleanshutdown",
];
const SUFFIXES: [&str; 4] = [".tmp", ".cleaned", ".swap", ".deleted"];

/// Class and suffix of a file's or directory's name.
fn classify(path: &Path, is_directory: bool) -> (&'static str, &'static str) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if is_directory {
        let class = match path.components().count() {
            0 | 1 => "root",
            2 => "log directory",
            _ if name.ends_with("-delete") => "deleted partition directory",
            _ if name.ends_with("-future") => "future partition directory",
            _ => "partition directory",
        };
        return (class, "");
    }
    let suffix = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)).unwrap_or("");
    let name = name.strip_suffix(suffix).unwrap_or(name);
    let extension = name.rsplit('.').next().unwrap_or_default();
    let class = CLASSES.into_iter().find(|class| *class == name || *class == extension);
    (class.unwrap_or("other"), suffix)
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device fails.
    Io,
    /// The volume is full.
    Full,
    /// Half of a write comes, then the volume is full.
    Short,
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Self::Io => io::Error::other("EIO (injected)"),
            Self::Full | Self::Short => io::ErrorKind::StorageFull.into(),
        }
    }
}

#[derive(Debug)]
struct State {
    tree: Tree,
    operations: Vec<Operation>,
    labels: Vec<Label>,
    locked: BTreeSet<PathBuf>,
    boot: u64,
    phase: &'static str,
    left_out: Option<Label>,
    /// What was done last to a directory, for the labels of its syncs.
    last_change: &'static str,
    /// Counts what can fail.
    attempts: u64,
    fault: Option<(u64, Fault)>,
}

/// A disk in memory that records. Clones share their content.
#[derive(Clone, Debug)]
pub struct RecordingDisk(Arc<Mutex<State>>);

impl RecordingDisk {
    /// A disk with this content, in a run of the operating system that `boot` names.
    #[must_use]
    pub fn new(tree: Tree, boot: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            tree,
            operations: Vec::new(),
            labels: Vec::new(),
            locked: BTreeSet::new(),
            boot,
            phase: "",
            left_out: None,
            last_change: "",
            attempts: 0,
            fault: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the operations with this label out from now on.
    pub fn leave_out(&self, label: Option<Label>) {
        self.lock().left_out = label;
    }

    /// Names the step that the next operations belong to; returns the one before.
    pub(crate) fn set_phase(&self, phase: &'static str) -> &'static str {
        std::mem::replace(&mut self.lock().phase, phase)
    }

    /// Makes the `nth` change or request from now on (counted from 0) fail.
    pub fn fail(&self, nth: u64, fault: Fault) {
        let mut state = self.lock();
        state.fault = Some((state.attempts + nth, fault));
    }

    /// How many changes and requests there were that could fail.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.lock().attempts
    }

    /// How many operations were recorded.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().operations.len()
    }

    /// What was recorded.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// What kinds of operations were recorded.
    #[must_use]
    pub fn labels(&self) -> Vec<Label> {
        self.lock().labels.clone()
    }

    /// What is on it.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.lock().tree.clone()
    }

    /// The run of the operating system.
    #[must_use]
    pub fn boot(&self) -> u64 {
        self.lock().boot
    }
}

impl State {
    fn record(&mut self, operation: Operation, label: Label) {
        self.tree.apply(&operation);
        self.operations.push(operation);
        self.labels.push(label);
    }

    fn is_left_out(&self, label: Label) -> bool {
        self.left_out == Some(label)
    }

    fn attempt(&mut self) -> Option<Fault> {
        let number = self.attempts;
        self.attempts += 1;
        self.fault.filter(|(nth, _)| *nth == number).map(|(_, fault)| fault)
    }

    fn try_attempt(&mut self) -> io::Result<()> {
        self.attempt().map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn label(&self, action: &'static str, path: &Path, is_directory: bool) -> Label {
        let (class, suffix) = classify(path, is_directory);
        Label { action, class, suffix, context: "" }
    }

    fn change_name(&mut self, operation: Operation, label: Label) {
        // A sync of the directory is named after it: there are few places that sync one.
        self.last_change = match (label.class, label.suffix) {
            ("log" | "index" | "timeindex" | "txnindex", ".deleted") => "old segments removed",
            ("log" | "index" | "timeindex" | "txnindex", _) => "segment files named",
            (class, _) => class,
        };
        self.record(operation, label);
    }

    /// The directory and the last part of a path.
    fn split(&self, path: &Path) -> io::Result<(Id, String)> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let id = self.tree.find(parent).ok_or(io::ErrorKind::NotFound)?;
        let name = path.file_name().and_then(|name| name.to_str());
        Ok((id, name.ok_or(io::ErrorKind::InvalidInput)?.to_owned()))
    }

    fn create(&mut self, path: &Path, is_directory: bool) -> io::Result<Id> {
        let (directory, name) = self.split(path)?;
        let id = self.tree.next_id();
        let label = self.label("create", path, is_directory);
        self.change_name(Operation::Create { directory, name, id, is_directory }, label);
        Ok(id)
    }

    /// A rename that is not one step: the content is copied to the new name, then the old name goes.
    fn copy_instead(&mut self, path: &Path, to_path: &Path, label: Label) -> io::Result<()> {
        let id = self.tree.find(path).ok_or(io::ErrorKind::NotFound)?;
        let (directory, name) = self.split(path)?;
        match self.tree.nodes[&id].clone() {
            Node::File(bytes) => {
                let to = match self.tree.find(to_path) {
                    Some(to) => {
                        self.record(Operation::SetLength { id: to, length: 0 }, label);
                        to
                    }
                    None => self.create(to_path, false)?,
                };
                self.record(Operation::Write { id: to, position: 0, bytes }, label);
            }
            Node::Directory(entries) => {
                self.create(to_path, true)?;
                for name in entries.keys() {
                    self.copy_instead(&path.join(name), &to_path.join(name), label)?;
                }
            }
        }
        self.change_name(Operation::Remove { directory, name }, label);
        Ok(())
    }
}

impl Disk for RecordingDisk {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        if options.write {
            state.try_attempt()?;
        }
        let id = match state.tree.find(path) {
            Some(id) if state.tree.entries(id).is_some() => {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Some(id) => id,
            None if options.create => state.create(path, false)?,
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let length = state.tree.bytes(id).map_or(0, Vec::len);
        if options.truncate && length > 0 {
            let label = state.label("truncate", path, false);
            state.record(Operation::SetLength { id, length: 0 }, label);
        }
        drop(state);
        Ok(Arc::new(RecordingFile { disk: self.clone(), id, path: path.to_owned(), options }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.lock();
        let entries = state.tree.find(directory).and_then(|id| state.tree.entries(id));
        let entries = entries.ok_or(io::ErrorKind::NotFound)?;
        Ok(entries.keys().map(PathBuf::from).collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = self.lock();
        let id = state.tree.find(path).ok_or(io::ErrorKind::NotFound)?;
        let bytes = state.tree.bytes(id);
        Ok(Metadata {
            len: bytes.map_or(0, |bytes| bytes.len() as u64),
            is_directory: bytes.is_none(),
            modified: Timestamp(0),
        })
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let missing = path.ancestors().take_while(|path| state.tree.find(path).is_none());
        let mut missing = missing.map(Path::to_owned).collect::<Vec<_>>();
        missing.reverse();
        for directory in missing {
            state.try_attempt()?;
            state.create(&directory, true)?;
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let id = state.tree.find(from).ok_or(io::ErrorKind::NotFound)?;
        let (directory, old) = state.split(from)?;
        let (other, new) = state.split(to)?;
        assert_eq!(directory, other, "names change within their directory");
        state.try_attempt()?;
        let is_directory = state.tree.entries(id).is_some();
        let mut label = state.label("rename", from, is_directory);
        if label.suffix.is_empty() && !is_directory {
            label.suffix = state.label("rename", to, false).suffix;
            label.context = "out of the way";
        }
        if state.is_left_out(label) {
            return state.copy_instead(from, to, label);
        }
        state.change_name(Operation::Rename { directory, from: old, to: new }, label);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.tree.find(path).ok_or(io::ErrorKind::NotFound)?;
        state.try_attempt()?;
        let (directory, name) = state.split(path)?;
        let label = state.label("remove", path, false);
        state.change_name(Operation::Remove { directory, name }, label);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let id = state.tree.find(path).ok_or(io::ErrorKind::NotFound)?;
        if state.tree.entries(id).is_none_or(|entries| !entries.is_empty()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.try_attempt()?;
        let (directory, name) = state.split(path)?;
        let label = state.label("remove", path, true);
        state.change_name(Operation::Remove { directory, name }, label);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.try_attempt()?;
        let id = state.tree.find(path).ok_or(io::ErrorKind::NotFound)?;
        let mut label = state.label("sync", path, true);
        label.context = match label.class {
            "log directory" => state.last_change,
            _ => state.phase,
        };
        if !state.is_left_out(label) {
            state.record(Operation::SyncDirectory(id), label);
        }
        Ok(())
    }

    fn sync_everything(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.try_attempt()?;
        let mut label = state.label("sync", directory, true);
        label.action = "sync volume of";
        if !state.is_left_out(label) {
            state.record(Operation::SyncEverything, label);
        }
        Ok(())
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        Ok(Space { total: 1 << 40, usable: 1 << 39 })
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot-{}", self.lock().boot))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let options = OpenOptions { write: true, create: true, truncate: false };
        drop(disk::Disk::open(self, path, options)?);
        if !self.lock().locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(RecordingLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct RecordingLock {
    disk: RecordingDisk,
    path: PathBuf,
}

impl Lock for RecordingLock {}

impl Drop for RecordingLock {
    fn drop(&mut self) {
        self.disk.lock().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct RecordingFile {
    disk: RecordingDisk,
    id: Id,
    /// As it was opened: it may have another name by now.
    path: PathBuf,
    options: OpenOptions,
}

impl RecordingFile {
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.options.write {
            Ok(self.disk.lock())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

fn as_position(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl File for RecordingFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.disk.lock();
        let bytes = state.tree.bytes(self.id).expect("a file");
        let rest = bytes.get(as_position(position)?..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_all_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let position = as_position(position)?;
        let bytes = buffers.iter().flat_map(|buffer| buffer.iter()).copied();
        let mut bytes = bytes.collect::<Vec<_>>();
        let mut state = self.change()?;
        let label = state.label("write", &self.path, false);
        let mut outcome = Ok(());
        match state.attempt() {
            Some(fault @ Fault::Short) => {
                bytes.truncate(bytes.len() / 2);
                outcome = Err(fault.error());
            }
            Some(fault @ (Fault::Io | Fault::Full)) => return Err(fault.error()),
            None => {}
        }
        state.record(Operation::Write { id: self.id, position, bytes }, label);
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().tree.bytes(self.id).expect("a file").len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = as_position(len)?;
        let mut state = self.change()?;
        state.try_attempt()?;
        let mut label = state.label("cut", &self.path, false);
        label.context = state.phase;
        state.record(Operation::SetLength { id: self.id, length }, label);
        Ok(())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.try_attempt()?;
        let mut label = state.label("sync", &self.path, false);
        if label.class == "log" && label.suffix.is_empty() {
            label.context = state.phase;
        }
        if !state.is_left_out(label) {
            state.record(Operation::Sync(self.id), label);
        }
        Ok(())
    }

    fn set_modified(&self, _: Timestamp) -> io::Result<()> {
        self.disk.lock().try_attempt()
    }

    fn is_cached(&self, _: u64, _: u64) -> bool {
        true
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
