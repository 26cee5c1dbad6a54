//! What is known of a segment's bytes: which of them were looked at, and what they must be where the checksums of
//! batches say nothing.
//!
//! A record batch's checksum begins at its attributes: base offset, length, leader epoch and magic are not covered (of a
//! message of the old formats, offset and length are not). Those 17 bytes in front are a batch's *head* here. Heads are
//! recorded when a batch is appended, and written to `<base offset>.checksums` beside the segment when it is complete.
//! Everything goes by *cells* of 64 KiB; a batch belongs to the cell that it starts in.
//!
//! The file (numbers are big-endian): `magic "brnbsum1" | base offset i64 | bytes covered i64 | when the segment was
//! modified i64 | check u64`, then per cell `position of the first batch u32 | sum of the hashes of its heads u64 |
//! check u32`. An entry whose check is wrong is not known.
//!
//! # Non-obvious
//! - The file is a hint: it may vanish, be torn or scrambled, and is never needed to open a log.
//! - It may be older than the segment, where another broker wrote to the directory in between: it *fits* if the segment
//!   was not modified since, or if this broker was the last to stop here. One that does not is believed only
//!   where cells behind agree with it again: who cuts or compacts a segment changes all that follows.
//! - The check of an entry includes how much the file covers: an entry of an older file under a newer header does not
//!   count.
//! - Sums can be added: what was appended since the file was written is joined with what it says.
//! - What was appended since the log was opened is not looked at as long as the system has it in memory: it was checked
//!   when it came.
//! - What was looked at is looked at again once the system has dropped it from memory, as `cachestat` tells (Linux 6.5),
//!   once its log was idle, and once somebody else has written to the segment.

use crate::error::{DiskError, ReadError};
use crate::files::{Kind, SegmentFiles, lock};
use crate::offset_index::OffsetIndex;
use crate::scan::Scanner;
use model::{Offset, Timestamp};
use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::sync::Mutex;
use tracing::{debug, error, info, warn};
use twox_hash::XxHash3_128;

/// How much of a segment is recorded, checked and remembered at once.
pub(crate) const CELL_BYTES: u64 = 64 << 10;
/// What of a batch its own checksum does not cover (in old formats also the checksum itself).
pub(crate) const HEAD_BYTES: usize = 17;

const MAGIC: [u8; 8] = *b"brnbsum1";
const FILE_HEADER_BYTES: usize = 40;
const ENTRY_BYTES: usize = 16;

/// So much is read at once.
const READ_AHEAD: usize = 256 << 10;

/// So many cells are looked at to find out whether another broker changed a segment.
const WITNESSES: u64 = 1024;

fn hash(bytes: &[u8]) -> u64 {
    let [_, _, _, _, _, _, _, _, low @ ..] = XxHash3_128::oneshot(bytes).to_be_bytes();
    u64::from_be_bytes(low)
}

/// The batches that start in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// Where the first of them starts.
    first: u32,
    /// The sum of the hashes of their heads.
    heads: u64,
}

impl Cell {
    const EMPTY: Self = Self { first: u32::MAX, heads: 0 };
    const UNKNOWN: Self = Self { first: u32::MAX - 1, heads: 0 };

    fn add(&mut self, position: u64, head: &[u8]) {
        if *self == Self::UNKNOWN {
            return;
        }
        // Java's positions end below both marks.
        let position = u32::try_from(position).expect("a segment has at most 2^31 bytes");
        self.first = self.first.min(position);
        self.heads = self.heads.wrapping_add(hash(head));
    }

    /// This and what came later.
    fn joined(self, later: Self) -> Self {
        if self == Self::UNKNOWN || later == Self::UNKNOWN {
            return Self::UNKNOWN;
        }
        Self { first: self.first.min(later.first), heads: self.heads.wrapping_add(later.heads) }
    }

    fn check(self, header: &Header, number: u64) -> u32 {
        let mut bytes = Vec::with_capacity(36);
        bytes.extend_from_slice(&header.base.0.to_be_bytes());
        bytes.extend_from_slice(&header.covered.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&self.first.to_be_bytes());
        bytes.extend_from_slice(&self.heads.to_be_bytes());
        let [a, b, c, d, ..] = hash(&bytes).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }

    fn encode(self, header: &Header, number: u64, out: &mut Vec<u8>) {
        // What is not known has a check that is wrong.
        let wrong = u32::from(self == Self::UNKNOWN);
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.heads.to_be_bytes());
        out.extend_from_slice(&(self.check(header, number) ^ wrong).to_be_bytes());
    }

    fn decode(bytes: &[u8; ENTRY_BYTES], header: &Header, number: u64) -> Self {
        let [a, b, c, d, heads @ .., e, f, g, h] = *bytes;
        let cell =
            Self { first: u32::from_be_bytes([a, b, c, d]), heads: u64::from_be_bytes(heads) };
        let is_right = cell.check(header, number) == u32::from_be_bytes([e, f, g, h]);
        if is_right { cell } else { Self::UNKNOWN }
    }
}

/// The front of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    base: Offset,
    covered: u64,
    modified: Timestamp,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.base.0.to_be_bytes());
        bytes.extend_from_slice(&self.covered.to_be_bytes());
        bytes.extend_from_slice(&self.modified.0.to_be_bytes());
        let check = hash(&bytes);
        bytes.extend_from_slice(&check.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..)?.first_chunk().map(|n| u64::from_be_bytes(*n));
        let signed = |at: usize| number(at).map(u64::cast_signed);
        let header = Self {
            base: Offset(signed(8)?),
            covered: number(16)?,
            modified: Timestamp(signed(24)?),
        };
        (header.encode() == bytes).then_some(header)
    }
}

/// What a whole file says, for whoever looks at it.
#[derive(Debug)]
pub(crate) struct ChecksumFile {
    header: Header,
    cells: Vec<Cell>,
}

impl ChecksumFile {
    /// `None` if it is none, or that of another segment.
    pub(crate) fn parse(bytes: &[u8], base: Offset) -> Option<Self> {
        let (header, entries) = bytes.split_at_checked(FILE_HEADER_BYTES)?;
        let header = Header::decode(header).filter(|header| header.base == base)?;
        let (entries, _) = entries.as_chunks();
        let cells = (0..).zip(entries).map(|(cell, entry)| Cell::decode(entry, &header, cell));
        Some(Self { header, cells: cells.collect() })
    }

    /// How much of the segment it was made of, and when that was modified.
    pub(crate) fn covers(&self) -> (u64, Timestamp) {
        (self.header.covered, self.header.modified)
    }

    /// For each cell where it begins, where its first batch starts and the sum of its heads, if they are known.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (u64, Option<(Option<u32>, u64)>)> {
        (0_u64..).zip(&self.cells).map(|(number, &cell)| {
            let from = number * CELL_BYTES;
            let first = (cell.first != Cell::EMPTY.first).then_some(cell.first);
            (from, (cell != Cell::UNKNOWN).then_some((first, cell.heads)))
        })
    }

    /// Begins to compare it with a segment.
    pub(crate) fn compared(self) -> Comparison {
        Comparison { found: vec![Cell::EMPTY; self.cells.len()], file: self }
    }
}

/// A file, and what is found in its segment.
#[derive(Debug)]
pub(crate) struct Comparison {
    file: ChecksumFile,
    found: Vec<Cell>,
}

impl Comparison {
    /// Notes a batch, of which `bytes` are the first.
    pub(crate) fn note(&mut self, position: u64, bytes: &[u8]) {
        let cell = usize::try_from(position / CELL_BYTES).ok();
        let found = cell.and_then(|cell| self.found.get_mut(cell));
        if let (Some(found), Some(head)) = (found, bytes.get(..HEAD_BYTES))
            && position < self.file.header.covered.min(u64::from(u32::MAX / 2))
        {
            found.add(position, head);
        }
    }

    /// Where the cells begin that are not as the file says.
    pub(crate) fn differences(&self) -> impl Iterator<Item = u64> {
        let cells = (0_u64..).zip(self.file.cells.iter().zip(&self.found));
        cells
            .filter(|(_, (said, found))| **said != Cell::UNKNOWN && said != found)
            .map(|(number, _)| number * CELL_BYTES)
    }

    pub(crate) fn file(&self) -> &ChecksumFile {
        &self.file
    }
}

/// The segment's file as it was when its log was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundFile {
    pub(crate) len: u64,
    pub(crate) modified: Timestamp,
    /// Nobody else has opened the log directory since this broker stopped there.
    pub(crate) is_ours: bool,
}

/// The file of checksums, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    /// There is none to be used.
    #[default]
    Absent,
    /// It was not looked at.
    Unread,
    Read {
        header: Header,
        is_doubtful: bool,
    },
}

/// What is known of one segment's bytes.
#[derive(Debug, Default)]
pub(crate) struct Checksums(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Absent if the segment was made since.
    found: Option<FoundFile>,
    side: Side,
    /// Batches of `from..end` are recorded, from the cell on that `from` is in.
    from: u64,
    end: u64,
    cells: Vec<Cell>,
    /// A bit per cell: it was looked at, or all in it was appended since the log was opened.
    verified: Vec<u64>,
    /// Cells that were found to be damaged.
    bad: BTreeSet<u64>,
    /// By kind.
    was_blamed: [bool; Kind::ALL.len()],
    /// How often a part was cut off.
    cuts: u64,
    /// When all of it was last looked at, since the log was opened.
    looked_at: Option<Timestamp>,
}

/// What a cell must hold.
struct Expected {
    cell: Cell,
    /// Batches from here on do not count.
    stop: u64,
    is_doubtful: bool,
}

/// Why bytes are not to be used.
#[derive(Debug)]
pub(crate) enum Fault {
    Disk(DiskError),
    /// The cell, and what is wrong with it.
    Bad {
        cell: u64,
        reason: String,
    },
}

impl From<DiskError> for Fault {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl Fault {
    /// As the reader of `offset` is told.
    pub(crate) fn at(self, offset: Offset) -> ReadError {
        match self {
            Self::Disk(error) => ReadError::Disk(error),
            Self::Bad { reason, .. } => ReadError::Corrupt { offset, reason },
        }
    }
}

/// What was seen of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// What is in it, if that was all looked at.
    cell: Cell,
    /// How much was read.
    bytes: u64,
}

/// What was seen of a segment's cells, from the first on.
#[derive(Debug, Default)]
pub(crate) struct Cells(Vec<Cell>);

impl Cells {
    pub(crate) fn push(&mut self, looked: Looked) {
        self.0.push(looked.cell);
    }

    pub(crate) fn push_unknown(&mut self) {
        self.0.push(Cell::UNKNOWN);
    }
}

/// Where the batches of a segment are, and where they end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) index: &'a OffsetIndex,
    /// Position after the last batch that counts.
    pub(crate) end: u64,
    /// Offsets of the segment are lower.
    pub(crate) limit: Offset,
    /// How often the segment had been cut when this was so.
    pub(crate) cuts: u64,
}

impl State {
    fn is_verified(&self, cell: u64) -> bool {
        let (word, bit) = place(cell);
        self.verified.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set_verified(&mut self, cell: u64) {
        let (word, bit) = place(cell);
        if self.verified.len() <= word {
            self.verified.resize(word + 1, 0);
        }
        self.verified[word] |= bit;
    }

    fn clear_verified(&mut self, cell: u64) {
        let (word, bit) = place(cell);
        if let Some(word) = self.verified.get_mut(word) {
            *word &= !bit;
        }
    }

    /// What was recorded of a cell.
    fn recorded(&self, cell: u64) -> Cell {
        let at = cell.checked_sub(self.from / CELL_BYTES).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.cells.get(at)).copied().unwrap_or(Cell::EMPTY)
    }

    fn record(&mut self, position: u64, head: &[u8], size: u64) {
        let number = position / CELL_BYTES;
        let first = self.from / CELL_BYTES;
        let at = usize::try_from(number - first).unwrap_or(usize::MAX);
        while self.cells.len() <= at {
            self.cells.push(Cell::EMPTY);
            let cell = first + self.cells.len() as u64 - 1;
            if cell * CELL_BYTES >= self.from {
                self.set_verified(cell);
            }
        }
        self.cells[at].add(position, head);
        self.end = position + size;
    }
}

/// Where a cell's bit is.
fn place(cell: u64) -> (usize, u64) {
    (usize::try_from(cell / 64).unwrap_or(usize::MAX), 1 << (cell % 64))
}

impl SegmentFiles {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.checksums.0)
    }

    /// The segment lay there when its log was opened.
    pub(crate) fn was_found(&self, found: FoundFile) {
        *self.state() = State {
            found: Some(found),
            side: Side::Unread,
            from: found.len,
            end: found.len,
            ..State::default()
        };
    }

    /// Everything in the segment is about to be recorded anew.
    pub(crate) fn record_anew(&self) {
        let mut state = self.state();
        *state = State { found: state.found, side: state.side, ..State::default() };
    }

    /// Notes a batch that is appended, or read by recovery. `batch` are its bytes, or the first of them.
    pub(crate) fn record(&self, position: u64, batch: &[u8], size: u64) {
        let head = batch.get(..HEAD_BYTES).expect("a batch has a head");
        self.state().record(position, head, size);
    }

    /// Forgets what the segment holds from `position` on, which is about to be cut off, and the file, which would
    /// contradict what comes instead.
    pub(crate) fn forget_from(&self, position: u64) {
        let kept = position / CELL_BYTES;
        let cells = (0..kept).map(|cell| self.known(cell)).collect::<Vec<_>>();
        self.drop_file();
        let mut state = self.state();
        state.cuts += 1;
        state.cells = cells;
        if !position.is_multiple_of(CELL_BYTES) {
            state.cells.push(Cell::UNKNOWN);
        }
        (state.from, state.end, state.found) = (0, position, None);
        let (word, bit) = place(kept);
        state.verified.truncate(word + 1);
        if let Some(last) = state.verified.get_mut(word) {
            *last &= bit | (bit - 1);
        }
        state.bad.retain(|&cell| cell < kept);
    }

    fn drop_file(&self) {
        self.close_kind(Kind::Checksums);
        // It may come back after a crash: it will not fit then.
        let _ = self.directory.disk().remove_file(&self.path(Kind::Checksums));
        self.state().side = Side::Absent;
    }

    /// What is known of a cell that is complete.
    fn known(&self, cell: u64) -> Cell {
        let (from, recorded) = {
            let state = self.state();
            (state.from, state.recorded(cell))
        };
        if cell * CELL_BYTES >= from {
            return recorded;
        }
        match self.stored(cell) {
            Some((stored, false)) => stored.joined(recorded),
            Some((_, true)) | None => Cell::UNKNOWN,
        }
    }

    /// Writes the file for a segment of `len` bytes, if that tells more than the one that is there. The segment's own file
    /// must not be touched any more, or the file will be doubted.
    ///
    /// # Errors
    /// The disk's: there is no file, or one of no use.
    pub(crate) fn save_checksums(&self, len: u64) -> Result<(), DiskError> {
        if len == 0 {
            return Ok(());
        }
        let path = self.path(Kind::Log);
        let metadata = self.directory.disk().metadata(&path);
        let modified = metadata.map_err(DiskError::at("look at", &path))?.modified;
        let side = self.side();
        let (has_news, end) = {
            let state = self.state();
            (state.end > state.from, state.end)
        };
        let is_current = match side {
            Side::Read { header, is_doubtful: false } => {
                header.covered == len && header.modified == modified
            }
            Side::Read { is_doubtful: true, .. } | Side::Unread | Side::Absent => true,
        };
        if end != len || !has_news && is_current {
            return Ok(());
        }
        let header = Header { base: self.base, covered: len, modified };
        let mut bytes = header.encode();
        for cell in 0..len.div_ceil(CELL_BYTES) {
            self.known(cell).encode(&header, cell, &mut bytes);
        }
        self.write_file(&bytes)?;
        let mut state = self.state();
        if state.end == len {
            state.found = Some(FoundFile { len, modified, is_ours: true });
            state.side = Side::Read { header, is_doubtful: false };
            (state.from, state.cells) = (len, Vec::new());
        }
        Ok(())
    }

    fn write_file(&self, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.path(Kind::Checksums);
        let file = self.create(Kind::Checksums)?;
        file.write_all_at(&[IoSlice::new(bytes)], 0).map_err(DiskError::at("write", &path))?;
        file.set_len(bytes.len() as u64).map_err(DiskError::at("truncate", &path))
    }

    /// As [`Self::save_checksums`] where the log goes on without.
    pub(crate) fn try_save_checksums(&self, len: u64) {
        if let Err(error) = self.save_checksums(len) {
            warn!(error = &error as &dyn std::error::Error, "no checksums are written");
        }
    }

    /// Whether what was recorded of the whole segment contradicts a file that fits it: then the file is right, and what was
    /// recorded is forgotten.
    pub(crate) fn contradicts_file(&self) -> bool {
        let end = self.state().end;
        let differs = |cell: u64| match self.stored(cell) {
            Some((stored, false)) => {
                stored != Cell::UNKNOWN && stored != self.state().recorded(cell)
            }
            Some((_, true)) | None => false,
        };
        let is_contradicted = (0..end.div_ceil(CELL_BYTES)).any(differs);
        if is_contradicted {
            let mut state = self.state();
            (state.from, state.cells) = (end, Vec::new());
            state.verified.clear();
        }
        is_contradicted
    }

    // ---- what the file says ----

    /// The file's header, read at most once. What cannot be read is not there.
    fn side(&self) -> Side {
        let (side, found) = {
            let state = self.state();
            (state.side, state.found)
        };
        let (Side::Unread, Some(found)) = (side, found) else { return side };
        let mut bytes = [0; FILE_HEADER_BYTES];
        let read =
            self.get(Kind::Checksums).is_ok_and(|file| file.read_exact_at(&mut bytes, 0).is_ok());
        let header = Header::decode(&bytes).filter(|header| read && header.base == self.base);
        let side = header.map_or(Side::Absent, |header| {
            let fits =
                header.covered == found.len && (header.modified == found.modified || found.is_ours);
            Side::Read { header, is_doubtful: !fits }
        });
        self.state().side = side;
        side
    }

    /// What the file says of a cell, and whether that is doubtful.
    fn stored(&self, cell: u64) -> Option<(Cell, bool)> {
        let Side::Read { header, is_doubtful } = self.side() else { return None };
        let len = self.state().found.map_or(0, |found| found.len);
        let is_whole = (cell + 1) * CELL_BYTES <= header.covered.min(len);
        let is_last = header.covered == len && cell * CELL_BYTES < len;
        if !is_whole && !is_last {
            return None;
        }
        let mut bytes = [0; ENTRY_BYTES];
        let file = self.get(Kind::Checksums).ok()?;
        file.read_exact_at(&mut bytes, FILE_HEADER_BYTES as u64 + cell * ENTRY_BYTES as u64)
            .ok()?;
        let cell = Cell::decode(&bytes, &header, cell);
        (cell != Cell::UNKNOWN).then_some((cell, is_doubtful))
    }

    fn expected(&self, cell: u64, end: u64) -> Expected {
        let cell_end = (cell + 1) * CELL_BYTES;
        let (from, recorded_end, recorded) = {
            let state = self.state();
            (state.from, state.end, state.recorded(cell))
        };
        // What is recorded and may not be read yet cannot be compared.
        let is_open = end < cell_end.min(recorded_end);
        if cell * CELL_BYTES >= from {
            let cell = if is_open { Cell::UNKNOWN } else { recorded };
            return Expected { cell, stop: cell_end, is_doubtful: false };
        }
        let (stored, is_doubtful) = self.stored(cell).unwrap_or((Cell::UNKNOWN, false));
        match is_open {
            true => Expected { cell: stored, stop: from, is_doubtful },
            false => Expected { cell: stored.joined(recorded), stop: cell_end, is_doubtful },
        }
    }

    // ---- looking ----

    /// Forgets which cells were looked at: they may come from the disk again.
    pub(crate) fn forget_verified(&self) {
        self.state().verified = Vec::new();
    }

    /// Forgets that the cells of `from..to` were looked at if the system does not have them in memory any more, and all if
    /// somebody else wrote to a complete segment. Whether it forgot any.
    pub(crate) fn forget_if_dropped(&self, from: u64, to: u64) -> Result<bool, DiskError> {
        if self.was_written_to()? {
            self.forget_verified();
            return Ok(true);
        }
        let first = from / CELL_BYTES * CELL_BYTES;
        if self.get(Kind::Log)?.is_cached(first, to.saturating_sub(first)) {
            return Ok(false);
        }
        let mut state = self.state();
        (from / CELL_BYTES..to.div_ceil(CELL_BYTES)).for_each(|cell| state.clear_verified(cell));
        Ok(true)
    }

    /// Whether the cells of `from..to` were looked at and the system has them in memory. What it has not is forgotten, as
    /// with [`Self::forget_if_dropped`].
    pub(crate) fn is_at_hand(&self, from: u64, to: u64) -> Result<bool, DiskError> {
        let mut cells = from / CELL_BYTES..to.div_ceil(CELL_BYTES);
        {
            let state = self.state();
            if !cells.all(|cell| state.is_verified(cell)) {
                return Ok(false);
            }
        }
        Ok(!self.forget_if_dropped(from, to)?)
    }

    /// Whether a segment that has its file, and to which nothing was appended since, was modified since this was last asked.
    fn was_written_to(&self) -> Result<bool, DiskError> {
        let known = {
            let state = self.state();
            let is_complete = state.end == state.from && matches!(state.side, Side::Read { .. });
            state.found.filter(|_| is_complete)
        };
        let Some(known) = known else { return Ok(false) };
        let path = self.path(Kind::Log);
        let metadata = self.directory.disk().metadata(&path);
        let modified = metadata.map_err(DiskError::at("look at", &path))?.modified;
        if modified == known.modified {
            return Ok(false);
        }
        if let Some(found) = &mut self.state().found {
            found.modified = modified;
        }
        Ok(true)
    }

    /// Looks at the cells of `from..to` that were not, until more than `budget` bytes were read. Returns up to where
    /// all batches are right that start at or after `from`.
    pub(crate) fn verify(
        &self,
        bounds: Bounds<'_>,
        from: u64,
        to: u64,
        budget: u64,
    ) -> Result<u64, Fault> {
        let mut walk = None;
        let mut read = 0;
        for cell in from / CELL_BYTES..to.div_ceil(CELL_BYTES) {
            if self.state().is_verified(cell) {
                continue;
            }
            if read > budget {
                return Ok(cell * CELL_BYTES);
            }
            read += self.look_at(cell, bounds, &mut walk)?.bytes;
        }
        Ok(to)
    }

    /// Looks at a cell, whether it was or not.
    pub(crate) fn look_at<'a>(
        &'a self,
        cell: u64,
        bounds: Bounds<'_>,
        walk: &mut Option<Scanner<'a>>,
    ) -> Result<Looked, Fault> {
        loop {
            let expected = self.expected(cell, bounds.end);
            let is_known = expected.cell != Cell::UNKNOWN;
            if expected.cell == Cell::EMPTY && !expected.is_doubtful {
                self.state().set_verified(cell);
                return Ok(Looked { cell: Cell::EMPTY, bytes: 0 });
            }
            let start = match expected.cell {
                Cell::EMPTY | Cell::UNKNOWN => self.start_of(cell, bounds)?,
                known => Some(u64::from(known.first)),
            };
            let stop = expected.stop.min(bounds.end);
            let outcome = match start {
                Some(start) => self.walk(walk, start, stop, bounds)?,
                None => Err("no batch starts where one must".to_owned()),
            };
            let outcome = match outcome {
                Ok((found, _)) if is_known && found != expected.cell => {
                    Err("offsets, lengths, epochs or formats are not those that were written"
                        .to_owned())
                }
                outcome => outcome,
            };
            match outcome {
                Ok((found, bytes)) => {
                    let mut state = self.state();
                    state.set_verified(cell);
                    state.bad.remove(&cell);
                    let is_all = expected.stop == (cell + 1) * CELL_BYTES;
                    let cell = if is_all { found } else { Cell::UNKNOWN };
                    return Ok(Looked { cell, bytes });
                }
                Err(_)
                    if expected.is_doubtful
                        && self.cuts() == bounds.cuts
                        && !self.has_witness(cell, bounds)? =>
                {
                    info!(
                        path = %self.path(Kind::Checksums).display(),
                        "the segment was written by another broker: its checksums are outdated"
                    );
                    self.drop_file();
                }
                // What is gone by now was not damaged: it is to be looked for anew.
                Err(_) if self.cuts() != bounds.cuts => return Err(self.gone().into()),
                Err(reason) => return Err(self.found_bad(cell, reason)),
            }
        }
    }

    /// How often the segment was cut. Who reads without the log's lock compares: what it meant to read may be gone.
    pub(crate) fn cuts(&self) -> u64 {
        self.state().cuts
    }

    /// Whether batches are known to be damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        !self.state().bad.is_empty()
    }

    /// As of a file that is not there any more.
    pub(crate) fn gone(&self) -> DiskError {
        let source = io::Error::new(io::ErrorKind::NotFound, "it was cut off meanwhile");
        DiskError { action: "read", path: self.path(Kind::Log), source }
    }

    fn found_bad(&self, cell: u64, reason: String) -> Fault {
        let is_news = {
            let mut state = self.state();
            // Whoever looks may have had it read from the disk, where the next reader finds it in memory.
            state.clear_verified(cell);
            state.bad.insert(cell)
        };
        if is_news {
            error!(
                path = %self.path(Kind::Log).display(),
                from = cell * CELL_BYTES,
                to = (cell + 1) * CELL_BYTES,
                reason,
                "damaged batches start in this part of the file: they are not served"
            );
            // Should this broker end before it is mended, the next one is to look at once.
            self.stamp(Timestamp(0));
        }
        Fault::Bad { cell, reason }
    }

    /// Whether a cell behind agrees with a file that is doubted: then the file is right.
    fn has_witness(&self, cell: u64, bounds: Bounds<'_>) -> Result<bool, DiskError> {
        let cells = bounds.end.div_ceil(CELL_BYTES);
        for witness in (cell + 1..cells).take(usize::try_from(WITNESSES).unwrap_or(usize::MAX)) {
            let expected = self.expected(witness, bounds.end);
            if [Cell::EMPTY, Cell::UNKNOWN].contains(&expected.cell) || !expected.is_doubtful {
                continue;
            }
            let start = u64::from(expected.cell.first);
            let stop = expected.stop.min(bounds.end);
            if let Ok((found, _)) = self.walk(&mut None, start, stop, bounds)?
                && found == expected.cell
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the first batch starts at or after the beginning of a cell. If the index leads nowhere, all batches before
    /// are walked.
    fn start_of(&self, cell: u64, bounds: Bounds<'_>) -> Result<Option<u64>, DiskError> {
        let target = cell * CELL_BYTES;
        let entry = bounds.index.last_where(self, |entry| u64::from(entry.position) <= target)?;
        let near = entry.map_or(0, |entry| u64::from(entry.position));
        let mut found = self.heads_to(near, target, bounds)?;
        if near > 0 {
            // Were it in the middle of a batch, the first batch of the cell would not be right either.
            let is_right = match found {
                Some(start) if start < bounds.end => {
                    Scanner::near(self, start, bounds.end)?.next_checked()?.is_some()
                }
                Some(_) => true,
                None => false,
            };
            if !is_right {
                found = self.heads_to(0, target, bounds)?.or(found);
            }
        }
        Ok(found)
    }

    fn heads_to(
        &self,
        from: u64,
        target: u64,
        bounds: Bounds<'_>,
    ) -> Result<Option<u64>, DiskError> {
        let mut scanner = Scanner::near(self, from, bounds.end)?;
        while scanner.position() < target.min(bounds.end) {
            if scanner.next_head()?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(scanner.position()))
    }

    /// Reads all batches that start in `start..stop`: what they are and how much was read, or what is wrong.
    fn walk<'a>(
        &'a self,
        walk: &mut Option<Scanner<'a>>,
        start: u64,
        stop: u64,
        bounds: Bounds<'_>,
    ) -> Result<Result<(Cell, u64), String>, DiskError> {
        let scanner = match walk.take() {
            Some(scanner) if scanner.position() == start => scanner,
            _ => Scanner::new(self, start, bounds.end, READ_AHEAD)?,
        };
        let scanner = walk.insert(scanner);
        let mut cell = Cell::EMPTY;
        let mut lowest = self.base;
        while scanner.position() < stop {
            let position = scanner.position();
            let Some((batch, head)) = scanner.next_checked()? else {
                return Ok(Err(format!("no batch with the right checksum at position {position}")));
            };
            let (first, last) = (batch.base_offset.unwrap_or(batch.last_offset), batch.last_offset);
            if first < lowest || last < first || last >= bounds.limit {
                return Ok(Err(format!(
                    "the batch at position {position} has offsets {first} to {last}, and only {lowest} to {} (exclusive) \
                     can be there",
                    bounds.limit
                )));
            }
            lowest = batch.next_offset();
            cell.add(position, &head);
        }
        Ok(Ok((cell, scanner.position().saturating_sub(start))))
    }

    /// Where the first batch of a later cell starts, if that is known for certain.
    pub(crate) fn next_known_start(&self, after: u64, end: u64) -> Option<u64> {
        (after / CELL_BYTES + 1..end.div_ceil(CELL_BYTES)).find_map(|cell| {
            let expected = self.expected(cell, end);
            let is_known = ![Cell::EMPTY, Cell::UNKNOWN].contains(&expected.cell);
            (is_known && !expected.is_doubtful).then(|| u64::from(expected.cell.first))
        })
    }

    /// Writes the file of a complete segment of `len` bytes of which all was seen and was right, unless it is there and
    /// tells as much. The segment had been `modified` then when that began: if it was since, the file will not fit.
    pub(crate) fn complete_checksums(&self, cells: &Cells, len: u64, modified: Timestamp) {
        let fits = matches!(self.side(), Side::Read { is_doubtful: false, .. });
        let tells = |(cell, seen): (u64, &Cell)| self.known(cell) == *seen;
        if fits && (0..).zip(&cells.0).all(tells) {
            return;
        }
        let header = Header { base: self.base, covered: len, modified };
        let mut bytes = header.encode();
        for (number, cell) in (0..).zip(&cells.0) {
            cell.encode(&header, number, &mut bytes);
        }
        if let Err(error) = self.write_file(&bytes) {
            warn!(error = &error as &dyn std::error::Error, "no checksums are written");
            return;
        }
        let mut state = self.state();
        if state.end == len {
            state.found = Some(FoundFile { len, modified, is_ours: true });
            state.side = Side::Read { header, is_doubtful: false };
            (state.from, state.cells) = (len, Vec::new());
        }
    }

    /// When everything in the segment was last looked at; the file tells it by when it was modified, so that it is known
    /// after a restart.
    pub(crate) fn looked_at_whole(&self) -> Option<Timestamp> {
        let metadata = self.directory.disk().metadata(&self.path(Kind::Checksums));
        self.state().looked_at.max(metadata.ok().map(|metadata| metadata.modified))
    }

    /// Notes that everything in it was looked at.
    pub(crate) fn note_looked_at_whole(&self, now: Timestamp) {
        self.state().looked_at = Some(now);
        if !self.is_damaged() {
            self.stamp(now);
        }
    }

    fn stamp(&self, time: Timestamp) {
        if let Ok(file) = self.get(Kind::Checksums)
            && let Err(error) = file.set_modified(time)
        {
            debug!(%error, "after a restart it is looked at again");
        }
    }

    /// The index led to no batch, or to one that comes too late, or says what the batch does not.
    pub(crate) fn blame_index(&self, kind: Kind) {
        if !std::mem::replace(&mut self.state().was_blamed[kind as usize], true) {
            warn!(path = %self.path(kind).display(), "the index does not fit its segment: it is not used");
        }
    }
}
