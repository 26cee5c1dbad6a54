//! Opening a log: what is on disk becomes segments, leader epochs and producer state
//! (log-format 5).
//!
//! After a clean stop everything is as it was left. After a crash segments from the recovery point on
//! are read batch by batch: the first damaged one ends the log, later segments go, indexes and producer
//! state are made anew. Both are safe to repeat: a crash in the middle changes nothing for the next try.
//!
//! # Non-obvious
//! - A full disk does not stop recovery: what it cuts needs no space, what it would write (indexes,
//!   snapshots) stays in memory or is done without.
//! - A leader epoch file that is missing or damaged is derived from all batches.

use crate::checksums::FoundFile;
use crate::error::{DiskError, LogError};
use crate::files::{Kind, PartitionDirectory, SegmentFiles, file_name};
use crate::leader_epochs::{self, LeaderEpochs};
use crate::log_config::LogConfig;
use crate::producer_state::{ProducerState, Recollection};
use crate::scan::{Scanner, producer_batch};
use crate::segment::{IndexWrites, Segment};
use crate::snapshot;
use crate::transaction_index::{ENTRY_BYTES, TransactionEntry, TransactionIndex};
use model::{Bug, Offset, Timestamp};
use platform::disk::OpenOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use tracing::warn;

/// What is known of a log before it is opened.
#[derive(Debug)]
pub(crate) struct LoadRequest<'a> {
    pub(crate) directory: &'a Arc<PartitionDirectory>,
    pub(crate) config: &'a LogConfig,
    /// The last stop was clean.
    pub(crate) clean: bool,
    pub(crate) recovery_point: Offset,
    pub(crate) log_start_offset: Offset,
    /// It is compacted, or was once.
    pub(crate) may_have_holes: bool,
    pub(crate) now: Timestamp,
}

/// A log that was opened.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// At least one; the last is active.
    pub(crate) segments: Vec<Segment>,
    pub(crate) epochs: LeaderEpochs,
    pub(crate) producers: Producers,
    pub(crate) log_start_offset: Offset,
    pub(crate) log_end_offset: Offset,
    pub(crate) recovery_point: Offset,
    /// Something was made anew, or removed: the files are not as a clean stop leaves them.
    pub(crate) recovered: bool,
}

/// How much of the log before a snapshot is looked through for batches that clients may send again.
const RECALLED_BYTES: u64 = 32 << 20;

/// Producer state with its snapshots.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    pub(crate) state: ProducerState,
    /// Records below are accounted for.
    pub(crate) end_offset: Offset,
    /// Offsets of the snapshots on disk.
    pub(crate) snapshots: BTreeSet<Offset>,
}

impl Producers {
    pub(crate) fn path(directory: &PartitionDirectory, offset: Offset) -> PathBuf {
        directory.join(file_name(offset, "snapshot"))
    }

    /// Writes a snapshot at the end offset, unless there is one at or above.
    pub(crate) fn take_snapshot(
        &mut self,
        directory: &PartitionDirectory,
        sync: bool,
    ) -> Result<(), DiskError> {
        if self.snapshots.last().map_or(Offset(0), |offset| *offset) >= self.end_offset {
            return Ok(());
        }
        write_snapshot(directory, self.end_offset, &snapshot::encode(&self.state), sync)?;
        self.snapshots.insert(self.end_offset);
        Ok(())
    }

    pub(crate) fn remove_snapshot(
        &mut self,
        directory: &PartitionDirectory,
        offset: Offset,
    ) -> Result<(), DiskError> {
        if self.snapshots.remove(&offset) {
            remove_file(directory, Self::path(directory, offset))?;
        }
        Ok(())
    }

    /// Removes snapshots outside of `(above, keep]` and loads the newest in `(above, up_to]`.
    fn reload(
        &mut self,
        request: &LoadRequest<'_>,
        above: Offset,
        up_to: Offset,
        keep: Offset,
    ) -> Result<(), DiskError> {
        let directory = request.directory;
        let out = self.snapshots.iter().filter(|&&at| at <= above || at > keep);
        for offset in out.copied().collect::<Vec<_>>() {
            self.remove_snapshot(directory, offset)?;
        }
        self.state = ProducerState::default();
        self.end_offset = above;
        while let Some(&offset) = self.snapshots.range(..=up_to).next_back() {
            let path = Self::path(directory, offset);
            let bytes = crate::checkpoint::read_file(directory.disk().as_ref(), &path)?;
            let expiration = request.config.producer_id_expiration_ms;
            let state = bytes.and_then(|bytes| snapshot::decode(&bytes, request.now, expiration));
            if let Some(state) = state {
                self.state = state;
                self.end_offset = offset;
                return Ok(());
            }
            warn!(path = %path.display(), "producer snapshot is damaged, using an older one");
            self.remove_snapshot(directory, offset)?;
        }
        Ok(())
    }

    /// Brings the state to what it was at `to`, from the newest snapshot and the batches after it; later
    /// snapshots go, but for those up to `keep`.
    pub(crate) fn rebuild(
        &mut self,
        request: &LoadRequest<'_>,
        segments: &[Segment],
        to: Offset,
        keep: Offset,
    ) -> Result<(), LogError> {
        self.reload(request, request.log_start_offset, to, keep.max(to))?;
        if self.snapshots.is_empty() && Bug::Kafka5435.is_planted() {
            self.end_offset = to;
            return Ok(());
        }
        self.recall(segments)?;
        for (at, segment) in segments.iter().enumerate() {
            let next_base = segments.get(at + 1).map(|next| next.base);
            if segment.base >= to || next_base.is_some_and(|next| next <= self.end_offset) {
                continue;
            }
            self.end_offset = self.end_offset.max(segment.base);
            // At the log start there is nothing to take one of.
            if at + 2 >= segments.len() && self.end_offset == segment.base {
                self.try_snapshot(request.directory);
            }
            let from = self.end_offset;
            let position =
                segment.find(from, segment.size)?.map_or(segment.size, |batch| batch.position);
            let mut scanner = Scanner::whole(&segment.files, position, segment.size)?;
            while let Some(batch) = scanner.next_head()? {
                let Some(header) = batch.header.as_ref().filter(|header| header.producer_id >= 0)
                else {
                    continue;
                };
                if batch.base_offset.is_some_and(|base| base >= to) {
                    break;
                }
                let bytes = if header.attributes.is_control() {
                    scanner
                        .read_batch(&batch)
                        .map_err(|error| scanner.damaged(error.to_string()))?
                } else {
                    Vec::new()
                };
                let producer = producer_batch(header, &bytes).map_err(|e| scanner.damaged(e))?;
                if let Some(producer) = producer {
                    // Aborted transactions are in the index already.
                    drop(self.state.replay(producer));
                }
            }
        }
        self.end_offset = to;
        Ok(())
    }

    /// Looks the producers' batches up that a snapshot does not have, near the end of what it accounts
    /// for.
    fn recall(&mut self, segments: &[Segment]) -> Result<(), DiskError> {
        if self.state.iter().len() == 0 {
            return Ok(());
        }
        let below = segments.partition_point(|segment| segment.base < self.end_offset);
        let mut first = below;
        let mut size = 0;
        while first > 0 && size < RECALLED_BYTES {
            first -= 1;
            size += segments[first].size;
        }
        let mut recollection = Recollection::default();
        for (at, segment) in segments.iter().enumerate().take(below).skip(first) {
            let mut position = 0;
            if at == first && size > RECALLED_BYTES {
                // About there: where exactly does not matter.
                let next = segments.get(at + 1).map_or(self.end_offset, |next| next.base);
                let share = |part: u64| i128::from(part) * i128::from(next.0 - segment.base.0);
                let skipped = share(size - RECALLED_BYTES) / i128::from(segment.size.max(1));
                let from = Offset(segment.base.0 + i64::try_from(skipped).unwrap_or(0));
                position = segment.find(from, segment.size)?.map_or(0, |batch| batch.position);
            }
            let mut scanner = Scanner::whole(&segment.files, position, segment.size)?;
            while let Some(batch) = scanner.next_head()?
                && batch.last_offset < self.end_offset
            {
                batch.header.iter().for_each(|header| recollection.note(header));
            }
        }
        self.state.complete(&recollection);
        Ok(())
    }

    /// Takes a snapshot if the disk lets it: a log can be opened without.
    fn try_snapshot(&mut self, directory: &PartitionDirectory) {
        if let Err(error) = self.take_snapshot(directory, false) {
            warn!(error = &error as &dyn std::error::Error, "no producer snapshot");
        }
    }
}

pub(crate) fn write_snapshot(
    directory: &PartitionDirectory,
    offset: Offset,
    bytes: &[u8],
    sync: bool,
) -> Result<(), DiskError> {
    let path = Producers::path(directory, offset);
    let write = || -> io::Result<()> {
        let options = OpenOptions { write: true, create: true, truncate: true };
        let file = directory.disk().open(&path, options)?;
        file.write_all_at(&[IoSlice::new(bytes)], 0)?;
        if sync { file.sync() } else { Ok(()) }
    };
    write().map_err(DiskError::at("write", &path))
}

/// Removes a file, if it is there.
pub(crate) fn remove_file(directory: &PartitionDirectory, path: PathBuf) -> Result<(), DiskError> {
    match directory.disk().remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(DiskError { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// The names in a partition's directory, by what they are.
#[derive(Debug, Default)]
struct Listing {
    /// Per base offset: which files there are.
    segments: BTreeMap<Offset, [bool; Kind::ALL.len()]>,
    snapshots: BTreeSet<Offset>,
    has_epochs: bool,
}

/// Splits `00000000000000000042.index` into offset and extension.
fn parse_name(name: &str) -> Option<(Offset, &str)> {
    let (digits, extension) = name.split_once('.')?;
    let is_offset = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((Offset(is_offset.then(|| digits.parse().ok())??), extension))
}

/// Lists the directory, after removing or completing what an interrupted change left (log-format 5.2).
fn list(directory: &PartitionDirectory) -> Result<Listing, DiskError> {
    let disk = directory.disk();
    let path = directory.path();
    let names = || -> Result<Vec<String>, DiskError> {
        let names = disk.list(&path).map_err(DiskError::at("list", &path))?;
        Ok(names.into_iter().filter_map(|name| name.into_os_string().into_string().ok()).collect())
    };
    let mut listed = names()?;
    if listed.iter().any(|name| {
        [".deleted", ".cleaned", ".swap", ".tmp"].iter().any(|suffix| name.ends_with(suffix))
    }) {
        finish_interrupted(directory, &listed)?;
        listed = names()?;
    }
    let mut listing = Listing::default();
    for name in &listed {
        if name == leader_epochs::FILE_NAME {
            listing.has_epochs = true;
        }
        let Some((offset, extension)) = parse_name(name) else { continue };
        if extension == "snapshot" {
            listing.snapshots.insert(offset);
        } else if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.extension() == extension)
        {
            listing.segments.entry(offset).or_default()[kind as usize] = true;
        }
    }
    let is_orphan = |files: &[bool; Kind::ALL.len()]| !files[Kind::Log as usize];
    for (base, files) in listing.segments.iter().filter(|entry| is_orphan(entry.1)) {
        for kind in Kind::ALL.into_iter().filter(|&kind| files[kind as usize]) {
            remove_file(directory, directory.join(file_name(*base, kind.extension())))?;
        }
    }
    listing.segments.retain(|_, files| !is_orphan(files));
    Ok(listing)
}

fn finish_interrupted(directory: &PartitionDirectory, names: &[String]) -> Result<(), DiskError> {
    let disk = directory.disk();
    let offset_of = |name: &str| parse_name(name).map(|(offset, _)| offset);
    let with = |suffix: &'static str| names.iter().filter(move |name| name.ends_with(suffix));
    // A swap file beside a cleaned one belongs to a series of renames that was not completed: a group of
    // segments is cleaned after the one before has its names.
    let is_unfinished = with(".cleaned").next().is_some();
    let is_there = |name: &str| names.iter().any(|other| other == name);
    let mut complete = Vec::new();
    for name in with(".swap") {
        let (own, batches) = (name.trim_end_matches(".swap"), ".log.swap");
        let is_taken_back = !name.ends_with(batches)
            && is_there(own)
            && offset_of(name).is_some_and(|base| !is_there(&(file_name(base, "log") + ".swap")));
        if is_unfinished || is_taken_back {
            remove_file(directory, directory.join(name))?;
        } else {
            complete.push(name);
        }
    }
    if is_unfinished {
        // Before what tells that they are not complete goes.
        directory.sync()?;
    }
    for name in with(".deleted").chain(with(".cleaned")).chain(with(".tmp")) {
        remove_file(directory, directory.join(name))?;
    }
    // The others replace everything in their range.
    let mut range = None::<(Offset, Offset)>;
    for name in complete.iter().filter(|name| name.ends_with(".log.swap")) {
        let Some(base) = offset_of(name) else { continue };
        let path = directory.join(name);
        let last = last_offset_of(directory, &path)?.unwrap_or(base);
        range = Some(range.map_or((base, last), |(low, high)| (low.min(base), high.max(last))));
    }
    if let Some((low, high)) = range {
        for name in names.iter().filter(|name| !name.ends_with(".swap")) {
            if offset_of(name).is_some_and(|offset| (low..=high).contains(&offset)) {
                remove_file(directory, directory.join(name))?;
            }
        }
        directory.sync()?;
    }
    // The batches first: what is renamed before them would be removed if this is interrupted.
    complete.sort_by_key(|name| !name.ends_with(".log.swap"));
    for name in complete {
        let (from, to) = (directory.join(name), directory.join(name.trim_end_matches(".swap")));
        disk.rename(&from, &to).map_err(DiskError::at("rename", &from))?;
    }
    Ok(())
}

/// The last offset in a file of batches that is not a segment yet.
fn last_offset_of(
    directory: &PartitionDirectory,
    path: &std::path::Path,
) -> Result<Option<Offset>, DiskError> {
    let bytes = crate::checkpoint::read_file(directory.disk().as_ref(), path)?.unwrap_or_default();
    Ok(protocol::records::Batches::new(&bytes)
        .map_while(Result::ok)
        .last()
        .map(|batch| batch.last_offset()))
}

/// Opens a log.
pub(crate) fn load(request: &LoadRequest<'_>) -> Result<Loaded, LogError> {
    let directory = request.directory;
    let listing = list(directory)?;
    let mut epochs = match LeaderEpochs::read(directory) {
        Ok(epochs) => epochs,
        Err(error @ LogError::Damaged { .. }) => {
            warn!(error = &error as &dyn std::error::Error, "deriving leader epochs anew");
            LeaderEpochs::default()
        }
        Err(error) => return Err(error),
    };
    let mut has_epochs = epochs.latest().is_some();
    if !request.clean {
        // What the file says of batches that were not synced may be of others, which were cut off.
        epochs.truncate_from_end(request.recovery_point);
    }
    let mut producers = Producers { snapshots: listing.snapshots.clone(), ..Default::default() };
    if let Some((&first, _)) = listing.segments.first_key_value() {
        // What came between these and the first segment is gone: transactions that ended there would be open for ever.
        for &offset in listing.snapshots.range(..first) {
            producers.remove_snapshot(directory, offset)?;
        }
    }
    let mut segments = Vec::with_capacity(listing.segments.len());
    let mut recovered_any = false;
    let bases = listing.segments.keys().copied().collect::<Vec<_>>();
    for (at, (&base, present)) in listing.segments.iter().enumerate() {
        let next_base = bases.get(at + 1);
        // One that ends at the recovery point may have been synced before its indexes were complete.
        let is_unclean =
            !request.clean && next_base.is_none_or(|&next| next >= request.recovery_point);
        let opened = if is_unclean { None } else { open_segment(request, base, present)? };
        if let Some(segment) = opened {
            segments.push(segment);
            continue;
        }
        let later = bases.get(at + 1..).unwrap_or_default();
        let flushed = if is_unclean { Flushed::Later } else { Flushed::Before };
        let known_epochs = (flushed == Flushed::Before).then(|| epochs.clone());
        let recovered =
            recover(request, &mut epochs, &mut producers, &segments, base, later, flushed)?;
        recovered_any = true;
        // It came back from below the log start, maybe without those after it: of their epochs the file tells nothing.
        has_epochs &= known_epochs.is_none_or(|known| known == epochs);
        let Recovered { segment, end, cut } = recovered;
        segments.push(segment);
        let Some(&next) = next_base else { continue };
        // Compaction leaves holes; elsewhere one means that records were lost with what the system had
        // not written yet. What came after them must not be kept: their retry would be out of order.
        // Below the recovery point nothing was lost: there a truncation, or the leader, left it.
        let has_hole = end < next && next > request.recovery_point && !request.may_have_holes;
        if cut > 0 || (is_unclean && has_hole) {
            warn!(
                path = %directory.path().display(), segment = base.0, end = end.0, cut,
                "batches are missing or damaged: the rest of the log is removed"
            );
            remove_later(directory, &mut producers, later)?;
            break;
        }
    }

    let log_end_offset = match end_of(request, &mut epochs, &mut producers, &mut segments)? {
        Some(end) if end >= request.log_start_offset => end,
        _ => {
            // Nothing is left at or above the log start.
            while let Some(segment) = segments.pop() {
                segment.files.close();
                remove_segment_files(directory, segment.base)?;
                directory.sync()?;
            }
            epochs.clear();
            if let Err(error) = epochs.write(directory) {
                warn!(error = &error as &dyn std::error::Error, "leader epochs are written later");
            }
            recovered_any = true;
            let base = request.log_start_offset;
            let files = Arc::new(SegmentFiles::new(Arc::clone(directory), base));
            create_files(&files)?;
            // Else the log might end lower after a crash.
            directory.sync()?;
            segments.push(Segment::empty(files, request.now));
            base
        }
    };
    let first_base = segments[0].base;
    if !has_epochs {
        derive_epochs(&mut epochs, &segments)?;
    }
    epochs.truncate_from_end(log_end_offset);
    epochs.truncate_from_start(request.log_start_offset);

    remove_stray_snapshots(directory, &mut producers, &segments, log_end_offset)?;
    if request.clean && !recovered_any && listing.snapshots.is_empty() {
        // A log without snapshots that was closed cleanly has no producers.
        producers.end_offset = log_end_offset;
    } else {
        producers.rebuild(request, &segments, log_end_offset, log_end_offset)?;
        if recovered_any {
            producers.try_snapshot(directory);
        }
    }
    let recovery_point = if request.clean && !recovered_any || Bug::Kafka10101.is_planted() {
        log_end_offset
    } else {
        request.recovery_point.min(log_end_offset)
    };
    let log_start_offset = request.log_start_offset.max(first_base);
    let recovered = recovered_any || producers.snapshots != listing.snapshots;
    Ok(Loaded {
        segments,
        epochs,
        producers,
        log_start_offset,
        log_end_offset,
        recovery_point,
        recovered,
    })
}

/// Makes the files of a new segment.
pub(crate) fn create_files(files: &SegmentFiles) -> Result<(), DiskError> {
    for kind in [Kind::Log, Kind::OffsetIndex, Kind::TimeIndex] {
        let file = files.create(kind)?;
        // Something may be left of a segment of the same name.
        let len = file.len().map_err(DiskError::at("measure", &files.path(kind)))?;
        if len > 0 {
            file.set_len(0).map_err(DiskError::at("truncate", &files.path(kind)))?;
        }
    }
    Ok(())
}

fn remove_segment_files(directory: &PartitionDirectory, base: Offset) -> Result<(), DiskError> {
    Kind::ALL.into_iter().try_for_each(|kind| {
        remove_file(directory, directory.join(file_name(base, kind.extension())))
    })
}

/// A segment as it lies there; `None` if it has to be recovered.
fn open_segment(
    request: &LoadRequest<'_>,
    base: Offset,
    present: &[bool; Kind::ALL.len()],
) -> Result<Option<Segment>, LogError> {
    let files = Arc::new(SegmentFiles::new(Arc::clone(request.directory), base));
    let len = |kind: Kind| -> Result<u64, DiskError> {
        if !present[kind as usize] {
            return Ok(0);
        }
        let path = files.path(kind);
        let metadata = request.directory.disk().metadata(&path);
        Ok(metadata.map_err(DiskError::at("look at", &path))?.len)
    };
    let (offsets, times) = (len(Kind::OffsetIndex)?, len(Kind::TimeIndex)?);
    let size = note_found(&files)?;
    let is_missing = |kind: Kind| size > 0 && !present[kind as usize];
    if is_missing(Kind::OffsetIndex)
        || is_missing(Kind::TimeIndex)
        || offsets % 8 != 0
        || times % 12 != 0
        || (times == 0 && has_timestamps(&files, size)?)
    {
        return Ok(None);
    }
    let transactions = match len(Kind::TransactionIndex)? {
        0 => TransactionIndex::default(),
        len => match TransactionIndex::open(&files, len) {
            Ok(index) => index,
            Err(LogError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    Ok(Some(Segment::existing(files, size, offsets, times, transactions, request.now)))
}

/// Whether the first batch has one. Then the time index of a segment that was closed has an entry at least; it is
/// empty where Kafka recovered a log that had lost it, and who asks for a time would pass the segment over.
fn has_timestamps(files: &SegmentFiles, size: u64) -> Result<bool, DiskError> {
    let first = Scanner::near(files, 0, size)?.next_head()?;
    Ok(first.is_some_and(|batch| batch.max_timestamp >= 0))
}

/// Notes what the file of batches was when the log was opened; its length.
fn note_found(files: &SegmentFiles) -> Result<u64, DiskError> {
    let path = files.path(Kind::Log);
    let metadata = files.directory.disk().metadata(&path);
    let metadata = metadata.map_err(DiskError::at("look at", &path))?;
    let (len, modified) = (metadata.len, metadata.modified);
    files.was_found(FoundFile { len, modified, is_ours: files.directory.is_ours });
    Ok(len)
}

/// When the flush is that makes a segment durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    /// It was before: no flush looks at the segment again, and the next start believes what is there.
    Before,
    /// It is to come: until then every start recovers the segment.
    Later,
}

struct Recovered {
    segment: Segment,
    /// The offset after its last batch.
    end: Offset,
    /// Bytes cut off the end.
    cut: u64,
}

/// Removes the segments that come after the log's new end.
fn remove_later(
    directory: &PartitionDirectory,
    producers: &mut Producers,
    later: &[Offset],
) -> Result<(), DiskError> {
    for &base in later.iter().rev() {
        remove_segment_files(directory, base)?;
        producers.remove_snapshot(directory, base)?;
        // None must be left behind a gap, nor come back behind what is appended from now on.
        directory.sync()?;
    }
    Ok(())
}

/// Reads a segment batch by batch, cuts off what is damaged with the `later` segments, and makes everything else from it (log-format 5.4).
fn recover(
    request: &LoadRequest<'_>,
    epochs: &mut LeaderEpochs,
    producers: &mut Producers,
    before: &[Segment],
    base: Offset,
    later: &[Offset],
    flushed: Flushed,
) -> Result<Recovered, LogError> {
    let directory = request.directory;
    // What compaction removed only a snapshot tells; up to the recovery point they are durable.
    let knows_more = request.may_have_holes
        && base <= request.recovery_point
        && producers.snapshots.contains(&base);
    if producers.end_offset != base
        || producers.end_offset <= request.log_start_offset
        || knows_more
    {
        producers.rebuild(request, before, base, request.recovery_point)?;
    }
    producers.try_snapshot(directory);
    let files = Arc::new(SegmentFiles::new(Arc::clone(directory), base));
    let path = files.path(Kind::Log);
    let len = note_found(&files)?;
    files.record_anew();
    let mut segment = Segment::empty(Arc::clone(&files), request.now);
    let mut aborted = Vec::<TransactionEntry>::new();
    let mut scanner = Scanner::whole(&files, 0, len)?;
    let mut last_indexed = None;
    let mut end = base;
    while let Some((batch, bytes)) = scanner.next_valid()? {
        if batch.base_offset.unwrap_or(batch.last_offset) < end {
            // The checksum does not cover the offset: a torn write may have lost it alone.
            break;
        }
        if segment.relative(batch.last_offset).is_none() {
            return Err(scanner.damaged(format!("offset {} cannot be in it", batch.last_offset)));
        }
        let indexed = segment.offset_index.known_last();
        segment.append(&batch, request.config);
        files.record(batch.position, bytes, batch.size);
        if segment.offset_index.known_last() != indexed {
            // Offsets that do not rise: nothing in this segment can be trusted.
            if last_indexed.is_some_and(|last| batch.last_offset <= last) {
                segment = Segment::empty(Arc::clone(&files), request.now);
                files.record_anew();
                end = base;
                aborted.clear();
                break;
            }
            last_indexed = Some(batch.last_offset);
        }
        end = end.max(batch.next_offset());
        if let Some(header) = &batch.header {
            if let Some(epoch) = header.leader_epoch() {
                epochs.observe(epoch, header.base_offset());
            }
            let producer = producer_batch(header, bytes);
            if let Some(producer) =
                producer.map_err(|reason| LogError::Damaged { path: path.clone(), reason })?
            {
                aborted.extend(producers.state.replay(producer));
            }
            producers.end_offset = producers.end_offset.max(batch.next_offset());
        }
    }
    segment.published = segment.size;
    let cut = len - segment.size;
    if cut > 0 {
        // First: once it is cut, nothing tells of a compacted log that the gap is none of compaction's.
        remove_later(directory, producers, later)?;
        files.cut_log(segment.size)?;
    }
    if flushed == Flushed::Before && !aborted.is_empty() {
        // Before the others: that it is missing nobody sees, and one of them may be what this is done for.
        files.replace(Kind::TransactionIndex, &encode_transactions(&aborted))?;
        note_transactions(&mut segment, &aborted);
    } else {
        write_transactions(&mut segment, &aborted)?;
    }
    segment.push_time_entry();
    let written = match flushed {
        Flushed::Before => segment.make_indexes(),
        Flushed::Later => segment.write_indexes(IndexWrites::Cut),
    };
    match written {
        Ok(()) => segment.sealed = true,
        Err(error) if error.is_full() => {
            warn!(error = &error as &dyn std::error::Error, "indexes stay in memory");
            if flushed == Flushed::Later {
                // Once the segment is flushed what is there is believed; what is missing is made anew.
                for kind in segment.unwritten_indexes() {
                    files.close_kind(kind);
                    remove_file(directory, files.path(kind))?;
                }
                directory.sync()?;
            }
        }
        Err(error) => return Err(error.into()),
    }
    // What does not fit a file that fits the segment has rotted since: the file stays, and readers will find out.
    if cut > 0 || !files.contradicts_file() {
        files.try_save_checksums(segment.size);
    }
    producers.try_snapshot(directory);
    Ok(Recovered { segment, end, cut })
}

fn encode_transactions(aborted: &[TransactionEntry]) -> Vec<u8> {
    aborted.iter().flat_map(TransactionEntry::encode).collect()
}

fn note_transactions(segment: &mut Segment, aborted: &[TransactionEntry]) {
    segment.transactions.entries = aborted.len();
    segment.reserved_transactions = aborted.len();
}

pub(crate) fn write_transactions(
    segment: &mut Segment,
    aborted: &[TransactionEntry],
) -> Result<(), DiskError> {
    let path = segment.files.path(Kind::TransactionIndex);
    if aborted.is_empty() {
        if segment.files.directory.disk().metadata(&path).is_ok() {
            let file = segment.files.get(Kind::TransactionIndex)?;
            file.set_len(0).map_err(DiskError::at("truncate", &path))?;
            // No flush looks at it.
            segment.files.sync(Kind::TransactionIndex)?;
        }
        return Ok(());
    }
    let bytes = encode_transactions(aborted);
    let file = segment.files.create(Kind::TransactionIndex)?;
    file.write_all_at(&[IoSlice::new(&bytes)], 0).map_err(DiskError::at("write", &path))?;
    file.set_len((aborted.len() * ENTRY_BYTES) as u64).map_err(DiskError::at("truncate", &path))?;
    note_transactions(segment, aborted);
    Ok(())
}

/// Prepares the last segment for appending and finds where it ends; recovers it if it does not end
/// with a whole batch, or if its index does not fit.
fn end_of(
    request: &LoadRequest<'_>,
    epochs: &mut LeaderEpochs,
    producers: &mut Producers,
    segments: &mut Vec<Segment>,
) -> Result<Option<Offset>, LogError> {
    for attempt in 0..2 {
        let Some(active) = segments.last_mut() else { return Ok(None) };
        active.activate()?;
        let last_indexed = active.offset_index.known_last();
        let start = last_indexed.map_or(0, |entry| u64::from(entry.position));
        let mut end = active.base;
        let mut position = start;
        let files = Arc::clone(&active.files);
        if start < active.size {
            let mut scanner = Scanner::near(&files, start, active.size)?;
            let mut is_first = true;
            while let Some(batch) = scanner.next_head()? {
                let fits = last_indexed.is_none_or(|entry| {
                    active.relative(batch.last_offset) == Some(entry.relative_offset)
                });
                // An entry of older Kafka's names the last of several batches.
                if is_first
                    && !fits
                    && last_indexed.is_some_and(|entry| {
                        active.relative(batch.last_offset).is_none_or(|r| r > entry.relative_offset)
                    })
                {
                    break;
                }
                is_first = false;
                active.note_timestamp(&batch);
                end = end.max(batch.next_offset());
                position = batch.end();
            }
        }
        if position == active.size && (start < active.size || active.size == 0) {
            return Ok(Some(end));
        }
        assert!(attempt == 0, "a recovered segment ends with a whole batch: {active:?}");
        let base = active.base;
        warn!(path = %files.path(Kind::Log).display(), "segment does not fit its index: recovering");
        segments.pop();
        // The state has to be rebuilt up to this segment, not to wherever recovery came.
        producers.end_offset = Offset(-1);
        let recovered = recover(request, epochs, producers, segments, base, &[], Flushed::Later)?;
        segments.push(recovered.segment);
    }
    unreachable!("the second attempt returns or panics")
}

/// Finds the epochs in all batches; the latest may have none yet.
fn derive_epochs(epochs: &mut LeaderEpochs, segments: &[Segment]) -> Result<(), LogError> {
    let latest = epochs.entries().last().copied();
    epochs.clear();
    for segment in segments.iter().filter(|segment| segment.size > 0) {
        let mut scanner = Scanner::whole(&segment.files, 0, segment.size)?;
        while let Some(batch) = scanner.next_head()? {
            match batch.header.as_ref().map(|header| (header.leader_epoch(), header.base_offset()))
            {
                Some((Some(epoch), base))
                    if epochs.latest().is_none_or(|latest| epoch > latest) =>
                {
                    epochs.assign(epoch, base);
                }
                Some(_) => {}
                None => epochs.clear(),
            }
        }
    }
    if let Some((epoch, start)) = latest
        && epochs.latest().is_some_and(|derived| epoch > derived)
    {
        epochs.assign(epoch, start);
    }
    Ok(())
}

/// Removes snapshots above the log end and those that belong to no segment, but for the newest if it is above
/// the last segment.
fn remove_stray_snapshots(
    directory: &PartitionDirectory,
    producers: &mut Producers,
    segments: &[Segment],
    log_end_offset: Offset,
) -> Result<(), DiskError> {
    for offset in producers.snapshots.range(log_end_offset + 1..).copied().collect::<Vec<_>>() {
        producers.remove_snapshot(directory, offset)?;
    }
    let last_base = segments.last().map(|segment| segment.base);
    let is_base = |offset: &Offset| segments.iter().any(|segment| segment.base == *offset);
    let strays = producers.snapshots.iter().filter(|offset| !is_base(offset)).copied();
    let mut strays = strays.collect::<Vec<_>>();
    if strays.last().copied() > last_base {
        strays.pop();
    }
    strays.into_iter().try_for_each(|offset| producers.remove_snapshot(directory, offset))
}
