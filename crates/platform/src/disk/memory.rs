//! A disk in memory that crashes, fills up and fails when it is told to.
//!
//! What survives a crash: names and contents that were synced, and of the rest whatever the seed says.
//! Names change in the order in which they were changed (journalling file systems do that), contents
//! of different writes in any order, and a write in part.

use super::{Disk, File, Lock, Metadata, OpenOptions, Space};
use crate::random::{Random, SeededRandom};
use model::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::ops::Bound;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// Nothing is written.
    Fails,
    /// Half of the bytes are written.
    Short,
}

/// A disk in memory. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>, Arc<Condvar>);

#[derive(Debug, Default)]
struct State {
    /// What the running process sees.
    names: BTreeMap<PathBuf, Node>,
    /// What a crash leaves for certain.
    synced_names: BTreeMap<PathBuf, Node>,
    /// Changes of names that are not synced, oldest first.
    unsynced: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    faults: Faults,
    /// Changes so far: the clock of `cut_power_after` and the modification times.
    changes: u64,
    writes: u64,
    syncs: u64,
    /// How many crashes of the machine it has seen.
    crashes: u64,
}

#[derive(Debug, Default)]
struct Faults {
    writes: BTreeMap<u64, WriteFault>,
    syncs: BTreeSet<u64>,
    /// Bytes that all files together may have.
    capacity: Option<u64>,
    failing: BTreeSet<PathBuf>,
    cut_power_after: Option<u64>,
    /// Reads below these wait.
    held: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
enum Node {
    Directory,
    File(Arc<Mutex<Content>>),
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    modified: Timestamp,
    was_evicted: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Create(path, node) => drop(names.insert(path.clone(), node.clone())),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to) => {
                // What is below a directory follows it in the order of paths.
                let moved = names
                    .range::<Path, _>((Bound::Included(from.as_path()), Bound::Unbounded))
                    .map(|(path, _)| path)
                    .take_while(|path| path.starts_with(from))
                    .cloned()
                    .collect::<Vec<_>>();
                for path in moved {
                    let node = names.remove(&path).expect("just listed");
                    let rest = path.strip_prefix(from).expect("filtered by it");
                    let target =
                        if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    names.insert(target, node);
                }
            }
        }
    }

    fn touches(&self, directory: &Path) -> bool {
        match self {
            Self::Create(path, _) | Self::Remove(path) => path.parent() == Some(directory),
            Self::Rename(from, to) => {
                from.parent() == Some(directory) || to.parent() == Some(directory)
            }
        }
    }
}

fn failing() -> io::Error {
    io::Error::other("the disk fails (injected)")
}

impl State {
    /// Counts a change of the disk, or fails it.
    fn change(&mut self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        self.changes += 1;
        Ok(())
    }

    /// Counts a sync, or fails it.
    fn sync(&mut self, path: &Path) -> io::Result<()> {
        self.change(path)?;
        self.syncs += 1;
        if self.faults.syncs.remove(&(self.syncs - 1)) { Err(failing()) } else { Ok(()) }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        if self.faults.cut_power_after.is_some_and(|last| self.changes >= last)
            || self.faults.failing.iter().any(|directory| path.starts_with(directory))
        {
            return Err(failing());
        }
        Ok(())
    }

    fn apply(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|node| match node {
                Node::Directory => 0,
                Node::File(content) => lock(content).bytes.len() as u64,
            })
            .sum()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(self.names.get(path), Some(Node::Directory))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn as_position(position: u64) -> io::Result<usize> {
    usize::try_from(position).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl MemoryDisk {
    fn of(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is left after the power failed now: all that was synced and a part of the rest, which
    /// `seed` decides. The old disk is not changed.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let state = lock(&self.0);
        let mut names = state.synced_names.clone();
        let kept = usize::try_from(random.below(state.unsynced.len() as u64 + 1))
            .expect("at most the number of changes");
        for change in &state.unsynced[..kept] {
            change.apply(&mut names);
        }
        // One content may have two names; the crashed one has to be shared as well.
        let mut crashed = BTreeMap::<*const Mutex<Content>, Arc<Mutex<Content>>>::new();
        for node in names.values_mut() {
            if let Node::File(content) = node {
                let after = crashed
                    .entry(Arc::as_ptr(content))
                    .or_insert_with(|| Arc::new(Mutex::new(lock(content).crash(&random))));
                *content = Arc::clone(after);
            }
        }
        Self::of(State {
            synced_names: names.clone(),
            names,
            crashes: state.crashes + 1,
            ..State::default()
        })
    }

    /// A copy of everything, as after `kill -9`: nothing is lost, locks are free, no faults.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = lock(&self.0);
        let mut copied = BTreeMap::<*const Mutex<Content>, Arc<Mutex<Content>>>::new();
        let mut copy = |node: &Node| match node {
            Node::Directory => Node::Directory,
            Node::File(content) => Node::File(Arc::clone(
                copied
                    .entry(Arc::as_ptr(content))
                    .or_insert_with(|| Arc::new(Mutex::new(lock(content).clone()))),
            )),
        };
        let names = state.names.iter().map(|(path, node)| (path.clone(), copy(node))).collect();
        let synced_names =
            state.synced_names.iter().map(|(path, node)| (path.clone(), copy(node))).collect();
        let unsynced = state
            .unsynced
            .iter()
            .map(|change| match change {
                NameChange::Create(path, node) => NameChange::Create(path.clone(), copy(node)),
                other @ (NameChange::Rename(..) | NameChange::Remove(_)) => other.clone(),
            })
            .collect();
        Self::of(State {
            names,
            synced_names,
            unsynced,
            crashes: state.crashes,
            ..State::default()
        })
    }

    /// Makes the `nth` write from now (counted from 0) go wrong.
    pub fn fail_write(&self, nth: u64, fault: WriteFault) {
        let mut state = lock(&self.0);
        let at = state.writes + nth;
        state.faults.writes.insert(at, fault);
    }

    /// Makes the `nth` sync from now (counted from 0), of a file or a directory, fail; the next one succeeds, as
    /// the system's do.
    pub fn fail_sync(&self, nth: u64) {
        let mut state = lock(&self.0);
        let at = state.syncs + nth;
        state.faults.syncs.insert(at);
    }

    /// Lets all files together have at most so many bytes; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        lock(&self.0).faults.capacity = bytes;
    }

    /// Makes everything below `directory` fail, or work again.
    pub fn set_failing(&self, directory: impl Into<PathBuf>, fails: bool) {
        let mut state = lock(&self.0);
        if fails {
            state.faults.failing.insert(directory.into());
        } else {
            state.faults.failing.remove(&directory.into());
        }
    }

    /// Makes reads of all files below `directory` wait, as those of a disk that is busy, or ends their wait.
    pub fn hold_reads(&self, directory: impl Into<PathBuf>, holds: bool) {
        let mut state = lock(&self.0);
        if holds {
            state.faults.held.insert(directory.into());
        } else {
            state.faults.held.remove(&directory.into());
            self.1.notify_all();
        }
    }

    /// Makes everything fail after so many more changes (writes, syncs, names).
    pub fn cut_power_after(&self, changes: u64) {
        let mut state = lock(&self.0);
        state.faults.cut_power_after = Some(state.changes + changes);
    }

    /// How many changes (writes, syncs, names) there were.
    #[must_use]
    pub fn changes(&self) -> u64 {
        lock(&self.0).changes
    }

    /// How many writes there were.
    #[must_use]
    pub fn writes(&self) -> u64 {
        lock(&self.0).writes
    }

    /// Bytes in all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        lock(&self.0).used()
    }

    /// Every file and its content, sorted by name.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        lock(&self.0)
            .names
            .iter()
            .filter_map(|(path, node)| match node {
                Node::Directory => None,
                Node::File(content) => Some((path.clone(), lock(content).bytes.clone())),
            })
            .collect()
    }

    fn wait_for_reads(&self, path: &Path) {
        let mut state = lock(&self.0);
        while state.faults.held.iter().any(|directory| path.starts_with(directory)) {
            state = self.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Flips the bits of `mask` in one byte of a file, as a disk does that rots: nothing else tells of it.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn rot(&self, path: &Path, position: usize, mask: u8) {
        let state = lock(&self.0);
        let Some(Node::File(content)) = state.names.get(path) else {
            panic!("{} is no file", path.display());
        };
        let mut content = lock(content);
        content.bytes[position] ^= mask;
        content.was_evicted = true;
        if let Some(synced) = content.synced.get_mut(position) {
            *synced ^= mask;
        }
    }

    /// Puts a file there, with its directories, synced.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = lock(&self.0);
        let content =
            Content { bytes: bytes.to_vec(), synced: bytes.to_vec(), ..Content::default() };
        let node = Node::File(Arc::new(Mutex::new(content)));
        for directory in path.ancestors().skip(1).filter(|path| path.parent().is_some()) {
            state.names.insert(directory.to_owned(), Node::Directory);
            state.synced_names.insert(directory.to_owned(), Node::Directory);
        }
        state.names.insert(path.to_owned(), node.clone());
        state.synced_names.insert(path.to_owned(), node);
    }
}

impl Content {
    fn sync(&mut self) {
        self.synced = self.bytes.clone();
        self.unsynced.clear();
    }

    fn crash(&self, random: &SeededRandom) -> Self {
        let mut bytes = self.synced.clone();
        for change in &self.unsynced {
            match (change, random.below(4)) {
                (_, 0) => {}
                (Change::Write { position, bytes: written }, 1) => {
                    let kept = usize::try_from(random.below(written.len() as u64 + 1))
                        .expect("at most the length");
                    overwrite(&mut bytes, *position, &written[..kept]);
                }
                (Change::Write { position, bytes: written }, _) => {
                    overwrite(&mut bytes, *position, written);
                }
                (Change::SetLen(len), _) => bytes.resize(*len, 0),
            }
        }
        Self {
            synced: bytes.clone(),
            bytes,
            unsynced: Vec::new(),
            modified: self.modified,
            was_evicted: false,
        }
    }
}

fn overwrite(bytes: &mut Vec<u8>, position: usize, written: &[u8]) {
    let end = position + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[position..end].copy_from_slice(written);
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut state = lock(&self.0);
        state.check(path)?;
        let content = match state.names.get(path) {
            Some(Node::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(content)) => Arc::clone(content),
            None if options.create => {
                if !path.parent().is_some_and(|parent| state.is_directory(parent)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.change(path)?;
                let content = Arc::new(Mutex::new(Content::default()));
                state.apply(NameChange::Create(path.to_owned(), Node::File(Arc::clone(&content))));
                content
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        drop(state);
        let file = MemoryFile { disk: self.clone(), path: path.to_owned(), content, options };
        if options.truncate && file.len()? > 0 {
            file.set_len(0)?;
        }
        Ok(Arc::new(file))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let state = lock(&self.0);
        state.check(directory)?;
        if !state.is_directory(directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state
            .names
            .keys()
            .filter(|path| path.parent() == Some(directory))
            .filter_map(|path| path.file_name().map(PathBuf::from))
            .collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = lock(&self.0);
        state.check(path)?;
        match state.names.get(path) {
            None if state.is_directory(path) => {
                Ok(Metadata { len: 0, is_directory: true, modified: Timestamp(0) })
            }
            None => Err(io::ErrorKind::NotFound.into()),
            Some(Node::Directory) => {
                Ok(Metadata { len: 0, is_directory: true, modified: Timestamp(0) })
            }
            Some(Node::File(content)) => {
                let content = lock(content);
                Ok(Metadata {
                    len: content.bytes.len() as u64,
                    is_directory: false,
                    modified: content.modified,
                })
            }
        }
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        let mut missing = path
            .ancestors()
            .take_while(|path| !state.is_directory(path))
            .map(Path::to_owned)
            .collect::<Vec<_>>();
        missing.reverse();
        for directory in missing {
            if state.names.contains_key(&directory) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            state.change(&directory)?;
            state.apply(NameChange::Create(directory, Node::Directory));
        }
        state.check(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        if !state.names.contains_key(from)
            || !to.parent().is_some_and(|parent| state.is_directory(parent))
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.is_directory(to) && state.names.keys().any(|path| path.parent() == Some(to)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(from)?;
        state.check(to)?;
        state.apply(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        match state.names.get(path) {
            Some(Node::File(_)) => {}
            Some(Node::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        state.change(path)?;
        state.apply(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        if !state.is_directory(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.names.keys().any(|name| name.parent() == Some(path)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(path)?;
        state.apply(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        if !state.is_directory(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.sync(path)?;
        let synced =
            state.unsynced.iter().rposition(|change| change.touches(path)).map_or(0, |at| at + 1);
        let changes = state.unsynced.drain(..synced).collect::<Vec<_>>();
        for change in changes {
            change.apply(&mut state.synced_names);
        }
        Ok(())
    }

    fn sync_everything(&self, directory: &Path) -> io::Result<()> {
        let mut state = lock(&self.0);
        state.sync(directory)?;
        state.unsynced.clear();
        state.synced_names = state.names.clone();
        for node in state.names.values() {
            if let Node::File(content) = node {
                lock(content).sync();
            }
        }
        Ok(())
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let state = lock(&self.0);
        state.check(path)?;
        let used = state.used();
        let total = state.faults.capacity.unwrap_or(1 << 40);
        Ok(Space { total, usable: total.saturating_sub(used) })
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot-{}", lock(&self.0).crashes))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        drop(self.open(path, OpenOptions { write: true, create: true, truncate: false })?);
        if !lock(&self.0).locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
}

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.disk.0).locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    path: PathBuf,
    content: Arc<Mutex<Content>>,
    options: OpenOptions,
}

impl MemoryFile {
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
        if !self.options.write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut state = lock(&self.disk.0);
        state.change(&self.path)?;
        Ok(state)
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.wait_for_reads(&self.path);
        lock(&self.disk.0).check(&self.path)?;
        let content = lock(&self.content);
        let rest = content.bytes.get(as_position(position)?..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_all_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let position = as_position(position)?;
        let mut state = self.change()?;
        let mut bytes =
            buffers.iter().flat_map(|buffer| buffer.iter()).copied().collect::<Vec<_>>();
        let number = state.writes;
        state.writes += 1;
        let mut outcome = Ok(());
        match state.faults.writes.remove(&number) {
            Some(WriteFault::Fails) => return Err(failing()),
            Some(WriteFault::Short) => {
                bytes.truncate(bytes.len() / 2);
                outcome = Err(io::ErrorKind::WriteZero.into());
            }
            None => {}
        }
        if let Some(capacity) = state.faults.capacity {
            let used = state.used();
            let len = lock(&self.content).bytes.len();
            let free = as_position(capacity.saturating_sub(used))?;
            let fits = (len + free).saturating_sub(position);
            if bytes.len() > fits {
                bytes.truncate(fits);
                outcome = Err(io::ErrorKind::StorageFull.into());
            }
        }
        let mut content = lock(&self.content);
        content.modified = Timestamp(i64::try_from(state.changes).expect("few changes"));
        overwrite(&mut content.bytes, position, &bytes);
        content.unsynced.push(Change::Write { position, bytes });
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        lock(&self.disk.0).check(&self.path)?;
        Ok(lock(&self.content).bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = as_position(len)?;
        let _state = self.change()?;
        let mut content = lock(&self.content);
        content.bytes.resize(len, 0);
        content.unsynced.push(Change::SetLen(len));
        Ok(())
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        let state = lock(&self.disk.0);
        state.check(&self.path)?;
        let grows = len.saturating_sub(lock(&self.content).bytes.len() as u64);
        match state.faults.capacity {
            Some(capacity) if state.used() + grows > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.disk.0);
        state.sync(&self.path)?;
        lock(&self.content).sync();
        Ok(())
    }

    fn set_modified(&self, at: Timestamp) -> io::Result<()> {
        lock(&self.disk.0).check(&self.path)?;
        lock(&self.content).modified = at;
        Ok(())
    }

    /// Once after it has rotted, it is not.
    fn is_cached(&self, _: u64, _: u64) -> bool {
        !std::mem::take(&mut lock(&self.content).was_evicted)
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
