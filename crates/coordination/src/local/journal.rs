//! The store's files: a snapshot of the tree and the log of what was committed since.
//!
//! `barnabas-store.snapshot.<zxid>` holds the tree after that change; `barnabas-store.log.<zxid>` the
//! changes after it. They are plain files, which Apache Kafka ignores in a log directory; a directory of
//! theirs would stop it. Both are a 16-byte header (8 bytes of magic, the zxid) and frames: length, CRC-32 of the payload, CRC-32 of
//! those eight bytes (all `u32`, little-endian), payload. One frame of a log is what was flushed
//! together, so after a crash at most the last frame is torn; nothing in it was acknowledged, and it
//! is cut off.
//!
//! Rotation writes `barnabas-store.snapshot.tmp`, flushes and renames it, starts a new log and removes the old files,
//! in that order: at any point the newest snapshot and its log (if any) are complete.
//!
//! The log's space is reserved ahead, so that a broker can start (a session, a registration, an
//! election) while the disk is full.

use super::codec::{self, Input, Transaction};
use super::tree::{Node, Tree};
use crate::Zxid;
use platform::disk::{File, OpenOptions};
use platform::{Disk, disk::Lock};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SNAPSHOT_PREFIX: &str = "barnabas-store.snapshot.";
const LOG_PREFIX: &str = "barnabas-store.log.";
const LOCK: &str = "barnabas-store.lock";
/// Where the files were at first: in a directory of their own, under names without `barnabas-store.`.
const FORMER_DIRECTORY: &str = ".barnabas-store";
const FORMER_LOCK: &str = ".lock";

const LOG_MAGIC: &[u8; 8] = b"BNBSLOG1";
const SNAPSHOT_MAGIC: &[u8; 8] = b"BNBSSNP1";
const HEADER: usize = 16;
const FRAME_HEADER: usize = 12;
/// A log is replaced by a snapshot when it is longer than this and than the last snapshot.
const ROTATE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };
const RESERVE_BYTES: u64 = 256 << 10;
const RESERVE_AGAIN_BELOW: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Journal {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    log: Arc<dyn File>,
    log_bytes: u64,
    reserved: u64,
    rotate_at: u64,
    _lock: Box<dyn Lock>,
}

/// Why changes did not reach the disk.
#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing of them is there, and nothing will be: they may be taken back.
    NotWritten(io::Error),
    /// Nobody knows what is there.
    Unknown(io::Error),
}

/// What the files said.
pub(super) struct Recovered {
    pub(super) journal: Journal,
    pub(super) tree: Tree,
    pub(super) last_zxid: Zxid,
}

fn corrupt(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

impl Journal {
    /// Reads the files in `directory`, which is created if it is missing, and cuts off a torn end.
    pub(super) fn open(disk: Arc<dyn Disk>, directory: &Path) -> io::Result<Recovered> {
        disk.create_directories(directory)?;
        let lock = disk.lock(&directory.join(LOCK))?;
        move_from_former_place(&*disk, directory)?;
        let files = Files::list(&*disk, directory)?;
        let (mut tree, mut last_zxid, mut snapshot_bytes) = (Tree::new(), Zxid(0), 0);
        if let Some(&zxid) = files.snapshots.last() {
            let path = snapshot_path(directory, zxid);
            let bytes = read_file(&*disk, &path)?;
            snapshot_bytes = bytes.len() as u64;
            tree = Tree::from_root(decode_snapshot(&path, &bytes, zxid)?);
            last_zxid = zxid;
        }
        let log_start = last_zxid;
        let path = log_path(directory, log_start);
        let log = disk.open(&path, OpenOptions { write: true, create: true, truncate: false })?;
        let log_bytes = replay(&path, &*log, log_start, &mut tree, &mut last_zxid)?;
        disk.sync_directory(directory)?;
        let mut journal = Self {
            disk,
            directory: directory.into(),
            log,
            log_bytes,
            reserved: 0,
            rotate_at: ROTATE_BYTES.max(snapshot_bytes),
            _lock: lock,
        };
        journal.reserve_ahead();
        journal.remove_files_before(log_start);
        Ok(Recovered { journal, tree, last_zxid })
    }

    /// Appends what was committed together and flushes it.
    pub(super) fn append(&mut self, transactions: &[Transaction]) -> Result<(), AppendError> {
        let mut payload = Vec::new();
        transactions.iter().for_each(|t| codec::put_transaction(&mut payload, t));
        let header = frame_header(&payload).map_err(AppendError::NotWritten)?;
        let buffers = [IoSlice::new(&header), IoSlice::new(&payload)];
        if let Err(error) = self.log.write_all_at(&buffers, self.log_bytes) {
            let cut = self.log.set_len(self.log_bytes).and_then(|()| self.log.sync());
            self.reserved = self.log_bytes;
            self.reserve_ahead();
            return Err(match cut {
                Ok(()) => AppendError::NotWritten(error),
                Err(_) => AppendError::Unknown(error),
            });
        }
        self.log.sync().map_err(AppendError::Unknown)?;
        self.log_bytes += (header.len() + payload.len()) as u64;
        self.reserve_ahead();
        Ok(())
    }

    /// Whether the log is long enough to be replaced by a snapshot.
    pub(super) fn wants_snapshot(&self) -> bool {
        self.log_bytes >= self.rotate_at
    }

    /// Replaces snapshot and log by a snapshot of `tree`, which is the state after `zxid`.
    ///
    /// # Errors
    /// [`AppendError::NotWritten`]: the old files are still in use, and it is tried again when the log
    /// has doubled. [`AppendError::Unknown`]: nobody knows which files the next start will find.
    pub(super) fn rotate(&mut self, tree: &Tree, zxid: Zxid) -> Result<(), AppendError> {
        self.rotate_at = self.log_bytes.saturating_mul(2);
        let temporary = self.directory.join(format!("{SNAPSHOT_PREFIX}tmp"));
        let prepared = self.write_snapshot(&temporary, tree, zxid).and_then(|bytes| {
            // The log before the snapshot has its name: the next start looks for both.
            let path = log_path(&self.directory, zxid);
            let options = OpenOptions { write: true, create: true, truncate: true };
            let log = self.disk.open(&path, options)?;
            log.write_all_at(&[IoSlice::new(&file_header(LOG_MAGIC, zxid))], 0)?;
            log.sync()?;
            Ok((log, bytes))
        });
        let (log, snapshot_bytes) = prepared.map_err(|error| {
            let _ = self.disk.remove_file(&temporary);
            AppendError::NotWritten(error)
        })?;
        self.disk
            .rename(&temporary, &snapshot_path(&self.directory, zxid))
            .and_then(|()| self.disk.sync_directory(&self.directory))
            .map_err(AppendError::Unknown)?;
        (self.log, self.log_bytes, self.reserved) = (log, HEADER as u64, 0);
        self.rotate_at = ROTATE_BYTES.max(snapshot_bytes);
        self.reserve_ahead();
        self.remove_files_before(zxid);
        Ok(())
    }

    fn write_snapshot(&self, path: &Path, tree: &Tree, zxid: Zxid) -> io::Result<u64> {
        let mut payload = Vec::new();
        codec::put_node(&mut payload, &tree.root);
        let (header, frame) = (file_header(SNAPSHOT_MAGIC, zxid), frame_header(&payload)?);
        let options = OpenOptions { write: true, create: true, truncate: true };
        let file = self.disk.open(path, options)?;
        let buffers = [IoSlice::new(&header), IoSlice::new(&frame), IoSlice::new(&payload)];
        file.write_all_at(&buffers, 0)?;
        file.sync()?;
        Ok((HEADER + FRAME_HEADER + payload.len()) as u64)
    }

    /// Best effort: where nothing can be reserved, a full disk is found out by writing.
    fn reserve_ahead(&mut self) {
        if self.reserved < self.log_bytes + RESERVE_AGAIN_BELOW
            && self.log.reserve(self.log_bytes + RESERVE_BYTES).is_ok()
        {
            self.reserved = self.log_bytes + RESERVE_BYTES;
        }
    }

    fn remove_files_before(&self, zxid: Zxid) {
        let Ok(files) = Files::list(&*self.disk, &self.directory) else { return };
        let snapshots = files.snapshots.iter().map(|&z| (z, snapshot_path(&self.directory, z)));
        let logs = files.logs.iter().map(|&z| (z, log_path(&self.directory, z)));
        for (file_zxid, path) in snapshots.chain(logs) {
            if file_zxid != zxid {
                let _ = self.disk.remove_file(&path);
            }
        }
    }
}

/// What is in the directory, by ascending zxid.
struct Files {
    snapshots: Vec<Zxid>,
    logs: Vec<Zxid>,
}

impl Files {
    fn list(disk: &dyn Disk, directory: &Path) -> io::Result<Self> {
        let (mut snapshots, mut logs) = (Vec::new(), Vec::new());
        for path in disk.list(directory)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let zxid = |prefix| {
                let digits: &str = name.strip_prefix(prefix)?;
                i64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16).map(Zxid)
            };
            snapshots.extend(zxid(SNAPSHOT_PREFIX));
            logs.extend(zxid(LOG_PREFIX));
        }
        snapshots.sort_unstable();
        logs.sort_unstable();
        Ok(Self { snapshots, logs })
    }
}

/// Moves a store that lies in `.barnabas-store`, where Apache Kafka takes it for a bad partition.
///
/// The former lock goes first, so that a crash on the way is told from a broker of then that has made a
/// second store. Logs go before snapshots; nothing is opened before all have gone.
fn move_from_former_place(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let former = directory.join(FORMER_DIRECTORY);
    let names = match disk.list(&former) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let names: Vec<String> =
        names.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    if names.iter().any(|name| name == FORMER_LOCK) {
        let files = Files::list(disk, directory)?;
        if !files.snapshots.is_empty() || !files.logs.is_empty() {
            return Err(corrupt(
                &former,
                "there is a store in it and another one beside it: move the older one away",
            ));
        }
        disk.remove_file(&former.join(FORMER_LOCK))?;
        disk.sync_directory(&former)?;
    }
    let (logs, others): (Vec<_>, Vec<_>) =
        names.iter().filter(|name| *name != FORMER_LOCK).partition(|n| n.starts_with("log."));
    for name in logs.into_iter().chain(others) {
        let to = directory.join(format!("barnabas-store.{name}"));
        disk.rename(&former.join(name), &to)?;
    }
    disk.sync_directory(directory)?;
    disk.remove_directory(&former)?;
    disk.sync_directory(directory)?;
    tracing::info!(directory = %directory.display(), "the metadata store lies in plain files now");
    Ok(())
}

fn snapshot_path(directory: &Path, zxid: Zxid) -> PathBuf {
    directory.join(format!("{SNAPSHOT_PREFIX}{:016x}", zxid.0))
}

fn log_path(directory: &Path, zxid: Zxid) -> PathBuf {
    directory.join(format!("{LOG_PREFIX}{:016x}", zxid.0))
}

fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenOptions::default())?;
    read_all(&*file)
}

fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn file_header(magic: &[u8; 8], zxid: Zxid) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(magic);
    header[8..].copy_from_slice(&zxid.0.to_le_bytes());
    header
}

fn frame_header(payload: &[u8]) -> io::Result<[u8; FRAME_HEADER]> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "more than 4 GiB at once"))?;
    let mut header = [0; FRAME_HEADER];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let check = crc32fast::hash(&header[..8]);
    header[8..].copy_from_slice(&check.to_le_bytes());
    Ok(header)
}

enum Frame<'a> {
    Whole {
        payload: &'a [u8],
        rest: &'a [u8],
    },
    /// The bytes end within it, or its header was not written.
    Torn,
    /// It is followed by others, but its payload is not what its header says.
    Bad,
}

fn next_frame(bytes: &[u8]) -> Frame<'_> {
    let Some((header, after)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
        return Frame::Torn;
    };
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if word(8) != crc32fast::hash(&header[..8]) {
        return Frame::Torn;
    }
    match after.split_at_checked(word(0) as usize) {
        None => Frame::Torn,
        Some((payload, rest)) if crc32fast::hash(payload) == word(4) => {
            Frame::Whole { payload, rest }
        }
        Some((_, [])) => Frame::Torn,
        Some(_) => Frame::Bad,
    }
}

fn decode_snapshot(path: &Path, bytes: &[u8], zxid: Zxid) -> io::Result<Node> {
    let Some(rest) = bytes.strip_prefix(&file_header(SNAPSHOT_MAGIC, zxid)) else {
        return Err(corrupt(path, "not a snapshot of this version, or not of this zxid"));
    };
    let Frame::Whole { payload, rest: [] } = next_frame(rest) else {
        return Err(corrupt(path, "the snapshot does not match its checksum"));
    };
    Input(payload).node(0).map_err(|_| corrupt(path, "the snapshot cannot be decoded"))
}

/// Applies the log to `tree`, cuts off a torn end, and returns the log's length.
fn replay(
    path: &Path,
    log: &dyn File,
    start: Zxid,
    tree: &mut Tree,
    last_zxid: &mut Zxid,
) -> io::Result<u64> {
    let bytes = read_all(log)?;
    let header = file_header(LOG_MAGIC, start);
    if bytes.len() < HEADER || bytes[..HEADER].iter().all(|&b| b == 0) {
        // Created, but a crash came before its first flush: nothing in it was acknowledged.
        log.set_len(0)?;
        log.write_all_at(&[IoSlice::new(&header)], 0)?;
        log.sync()?;
        return Ok(HEADER as u64);
    }
    let Some(mut rest) = bytes.strip_prefix(&header) else {
        return Err(corrupt(path, "not a log of this version, or not of this zxid"));
    };
    loop {
        match next_frame(rest) {
            Frame::Whole { payload, rest: after } => {
                rest = after;
                let mut input = Input(payload);
                while !input.is_empty() {
                    let transaction = input
                        .transaction()
                        .map_err(|_| corrupt(path, "a transaction cannot be decoded"))?;
                    *last_zxid = transaction.at.zxid;
                    for op in &transaction.ops {
                        tree.apply(op, transaction.at).map_err(|e| {
                            corrupt(path, &format!("{op:?} cannot be replayed: {e}"))
                        })?;
                    }
                }
            }
            Frame::Torn => break,
            Frame::Bad => {
                return Err(corrupt(path, "a transaction does not match its checksum"));
            }
        }
    }
    let whole = (bytes.len() - rest.len()) as u64;
    if !rest.is_empty() {
        tracing::info!(path = %path.display(), bytes = rest.len(), "cut a torn end off the store's log");
        log.set_len(whole)?;
        log.sync()?;
    }
    Ok(whole)
}
