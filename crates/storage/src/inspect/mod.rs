//! Reading any file of the log layout, for people and tools, and checking it.
//!
//! It only reads, and opens nothing for writing: a file may be another broker's, a running one's, damaged, or no file
//! of a log at all. Segments and indexes are streamed; a batch or a small file is held whole up to
//! [`Options::limit`]. What is wrong is an [`Item::Problem`] among the others, never an error.

mod index;
mod segment;

use crate::checkpoint;
use crate::checksums::ChecksumFile;
use crate::directory_name::{self, DirectoryName};
use crate::error::{DiskError, LogError};
use crate::leader_epochs;
use crate::log_directories::CLEAN_MARKER;
use crate::meta_properties::{self, MetaProperties};
use crate::offset_index::OffsetEntry;
use crate::partition_metadata;
use crate::snapshot;
use crate::time_index::TimeEntry;
use model::{LeaderEpoch, Offset, ProducerId, TopicId, TopicPartition};
use platform::disk::OpenOptions;
use platform::{Disk, File};
use protocol::messages::producer_snapshot::ProducerEntry;
use protocol::records::{Batch, BatchRecords};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `<offset>.log`: batches.
    Segment,
    /// `<offset>.index`: positions by offset.
    OffsetIndex,
    /// `<offset>.timeindex`: offsets by timestamp.
    TimeIndex,
    /// `<offset>.txnindex`: aborted transactions.
    TransactionIndex,
    /// `<offset>.snapshot`: producers.
    ProducerSnapshot,
    /// `<offset>.checksums`: of what the checksums of batches leave out (this broker's own).
    Checksums,
    /// `leader-epoch-checkpoint`.
    LeaderEpochs,
    /// The checkpoints of a log directory: an offset per partition.
    Offsets,
    /// `partition.metadata`: the topic id.
    PartitionMetadata,
    /// `meta.properties`: whose a log directory is.
    MetaProperties,
    /// `.kafka_cleanshutdown`: the mark of a clean stop.
    CleanShutdown,
}

impl FileKind {
    /// For people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::OffsetIndex => "offset index",
            Self::TimeIndex => "time index",
            Self::TransactionIndex => "transaction index",
            Self::ProducerSnapshot => "producer snapshot",
            Self::Checksums => "checksums",
            Self::LeaderEpochs => "leader epochs",
            Self::Offsets => "offsets of partitions",
            Self::PartitionMetadata => "partition metadata",
            Self::MetaProperties => "identity of a log directory",
            Self::CleanShutdown => "mark of a clean stop",
        }
    }

    /// What the file at `path` is, and the offset that it is named after. Files that wait for their removal or for
    /// their place (`.deleted`, `.cleaned`, `.swap`) count too.
    #[must_use]
    pub fn of(path: &Path) -> Option<(Self, Offset)> {
        let name = path.file_name()?.to_str()?;
        let kind = match name {
            leader_epochs::FILE_NAME => Self::LeaderEpochs,
            checkpoint::RECOVERY_POINTS
            | checkpoint::LOG_STARTS
            | checkpoint::CLEANER_OFFSETS
            | checkpoint::HIGH_WATERMARKS => Self::Offsets,
            partition_metadata::FILE_NAME => Self::PartitionMetadata,
            meta_properties::FILE_NAME => Self::MetaProperties,
            CLEAN_MARKER => Self::CleanShutdown,
            _ => {
                let (stem, extension, _) = split(name);
                let is_offset = stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit());
                let base = stem.parse().ok().filter(|_| is_offset)?;
                let kind = match extension {
                    "log" => Self::Segment,
                    "index" => Self::OffsetIndex,
                    "timeindex" => Self::TimeIndex,
                    "txnindex" => Self::TransactionIndex,
                    "snapshot" => Self::ProducerSnapshot,
                    "checksums" => Self::Checksums,
                    _ => return None,
                };
                return Some((kind, Offset(base)));
            }
        };
        Some((kind, Offset(0)))
    }
}

const SUFFIXES: [&str; 3] = [".deleted", ".cleaned", ".swap"];

/// The name before its first dot, the extension without such a suffix, and the suffix.
fn split(name: &str) -> (&str, &str, &str) {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let suffix = SUFFIXES.iter().find(|suffix| extension.ends_with(**suffix)).unwrap_or(&"");
    (stem, extension.strip_suffix(suffix).unwrap_or(extension), suffix)
}

/// The segment's file of batches that belongs to the index at `path`, suffix and all.
fn log_beside(path: &Path) -> PathBuf {
    beside(path, "log")
}

/// Another file of the same segment.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (stem, _, suffix) = split(name);
    path.with_file_name(format!("{stem}.{extension}{suffix}"))
}

/// The partition whose directory the file at `path` is in.
#[must_use]
pub fn partition_of(path: &Path) -> Option<TopicPartition> {
    match directory_name::parse(path.parent()?.file_name()?.to_str()?)? {
        DirectoryName::Live(partition) | DirectoryName::Future(partition) => Some(partition),
        DirectoryName::Delete | DirectoryName::Stray | DirectoryName::Foreign => None,
    }
}

/// How to look at a file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Also check what costs more than reading the file itself: order, records, index entries against the log.
    pub verify: bool,
    /// Hand out the records of batches.
    pub records: bool,
    /// The most bytes that are held at once: of a batch as it is stored, of a batch inflated, of a file that is read
    /// whole.
    pub limit: usize,
}

/// One thing in a file, in the file's order.
#[derive(Debug)]
pub enum Item<'a> {
    /// A batch, or an uncompressed message of the old formats.
    Batch {
        /// Where it starts in the file.
        position: u64,
        /// The batch.
        batch: &'a Batch<'a>,
        /// Whether its checksum is right.
        valid: bool,
        /// Its records, if they were asked for and can be read. A record that cannot is also reported as a problem.
        records: Option<&'a BatchRecords<'a>>,
    },
    /// An entry of an offset index.
    OffsetEntry {
        /// The last offset of the batch at the position.
        offset: Offset,
        /// Where that batch starts.
        position: u32,
    },
    /// An entry of a time index.
    TimeEntry {
        /// The largest timestamp up to the offset.
        timestamp: i64,
        /// The offset of the batch that has it.
        offset: Offset,
    },
    /// Zeros at the end of an index that was allocated whole.
    Padding {
        /// How many bytes.
        bytes: u64,
    },
    /// An entry of a transaction index.
    Aborted {
        /// Of which format; 0.
        version: i16,
        /// Whose transaction.
        producer_id: ProducerId,
        /// Its first offset.
        first_offset: Offset,
        /// The offset of its marker.
        last_offset: Offset,
        /// The last stable offset once it had ended.
        last_stable_offset: Offset,
    },
    /// What is known of a part of a segment, beside its batches' own checksums.
    Part {
        /// Where it begins.
        from: u64,
        /// Where its first batch starts, if one starts in it, and the sum of the hashes of the first 17 bytes of all that
        /// do; `None` if nothing is known.
        known: Option<(Option<u32>, u64)>,
    },
    /// A producer in a snapshot; -1 stands where something is absent.
    Producer(ProducerEntry),
    /// A leader epoch and where it starts.
    Epoch(LeaderEpoch, Offset),
    /// A partition's offset in a checkpoint.
    PartitionOffset(TopicPartition, i64),
    /// The topic id of a partition's directory.
    TopicId(TopicId),
    /// A key and a value.
    Property(&'a str, &'a str),
    /// What is wrong, in words that name the place.
    Problem(String),
}

/// Why a file was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum InspectError<E> {
    /// It is not a file of the layout.
    #[error(
        "not a file of a log directory: known are <20 digits>.log, .index, .timeindex, .txnindex, .snapshot and .checksums, \
         leader-epoch-checkpoint, the *-offset-checkpoint files, partition.metadata, meta.properties and \
         .kafka_cleanshutdown"
    )]
    Unknown,
    /// The disk failed.
    #[error("{0}: {source}", source = .0.source)]
    Disk(#[from] DiskError),
    /// Whoever was told of an item wants no more.
    #[error("stopped")]
    Stopped(E),
}

/// Reads the file at `path` and tells `tell` of each item.
///
/// # Errors
/// [`InspectError`]; damage is told, not returned.
pub fn inspect<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: Options,
    mut tell: impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<(), InspectError<E>> {
    let (kind, base) = FileKind::of(path).ok_or(InspectError::Unknown)?;
    let mut tell = |item: Item<'_>| tell(item).map_err(InspectError::Stopped);
    match kind {
        FileKind::Segment => segment::inspect(disk, path, base, options, &mut tell),
        FileKind::OffsetIndex => {
            index::inspect::<OffsetEntry, _>(disk, path, base, options, &mut tell)
        }
        FileKind::TimeIndex => index::inspect::<TimeEntry, _>(disk, path, base, options, &mut tell),
        FileKind::TransactionIndex => index::transactions(disk, path, options, &mut tell),
        FileKind::ProducerSnapshot => small(disk, path, options, &mut tell, |bytes, tell| {
            snapshot(bytes, base, options.verify, tell)
        }),
        FileKind::Checksums => {
            small(disk, path, options, &mut tell, |bytes, tell| checksums(bytes, base, tell))
        }
        FileKind::LeaderEpochs
        | FileKind::Offsets
        | FileKind::PartitionMetadata
        | FileKind::MetaProperties
        | FileKind::CleanShutdown => small(disk, path, options, &mut tell, |bytes, tell| {
            text(disk.as_ref(), path, kind, bytes, tell)
        }),
    }
}

type Told<E> = Result<(), InspectError<E>>;
type Tell<'t, E> = &'t mut dyn FnMut(Item<'_>) -> Told<E>;

/// Opens a file to read it.
fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<(Arc<dyn File>, u64), DiskError> {
    let file = disk.open(path, OpenOptions::default()).map_err(DiskError::at("open", path))?;
    let len = file.len().map_err(DiskError::at("look at", path))?;
    Ok((file, len))
}

/// Reads as much as is there, at most what `buffer` holds.
fn read_up_to(
    file: &dyn File,
    path: &Path,
    buffer: &mut [u8],
    position: u64,
) -> Result<usize, DiskError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read = file
            .read_at(&mut buffer[filled..], position + filled as u64)
            .map_err(DiskError::at("read", path))?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(filled)
}

/// How far zeros are looked at. A segment or index has at most 2 GiB; a file that only claims its size costs nobody
/// more than a moment.
const ZEROS_READ: u64 = 64 << 20;

/// Where the first byte is that is not zero, from `position` up to `len`, as far as [`ZEROS_READ`].
fn first_not_zero(
    file: &dyn File,
    path: &Path,
    mut position: u64,
    len: u64,
) -> Result<Option<u64>, DiskError> {
    let mut chunk = vec![0; 64 << 10];
    let len = len.min(position.saturating_add(ZEROS_READ));
    while position < len {
        let wanted = usize::try_from(len - position).unwrap_or(usize::MAX).min(chunk.len());
        let read = read_up_to(file, path, &mut chunk[..wanted], position)?;
        if let Some(at) = chunk[..read].iter().position(|&byte| byte != 0) {
            return Ok(Some(position + at as u64));
        }
        if read == 0 {
            break;
        }
        position += read as u64;
    }
    Ok(None)
}

/// A file that is read whole.
fn small<E>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: Options,
    tell: Tell<'_, E>,
    show: impl FnOnce(&[u8], Tell<'_, E>) -> Told<E>,
) -> Told<E> {
    let (file, len) = open(disk, path)?;
    let Some(len) = usize::try_from(len).ok().filter(|&len| len <= options.limit) else {
        return tell(Item::Problem(format!(
            "it is {len} bytes long, and files of this kind are read up to {} bytes only",
            options.limit
        )));
    };
    let mut bytes = vec![0; len];
    let read = read_up_to(file.as_ref(), path, &mut bytes, 0)?;
    bytes.truncate(read);
    show(&bytes, tell)
}

fn snapshot<E>(bytes: &[u8], at: Offset, verify: bool, tell: Tell<'_, E>) -> Told<E> {
    let producers = match snapshot::producers(bytes) {
        Ok(producers) => producers,
        Err(reason) => return tell(Item::Problem(reason.to_owned())),
    };
    let expected = snapshot::encoded_bytes(producers.len());
    let mut seen = BTreeSet::new();
    for producer in producers {
        let id = producer.producer_id;
        let last = producer.last_offset.max(producer.current_txn_first_offset);
        tell(Item::Producer(producer))?;
        if verify && last >= at.0 {
            tell(Item::Problem(format!(
                "producer {id} has offsets from the snapshot's, {at}, on"
            )))?;
        }
        if verify && !seen.insert(id) {
            tell(Item::Problem(format!("producer {id} is there twice")))?;
        }
    }
    if bytes.len() != expected {
        let text = format!("{} bytes follow the last producer", bytes.len().abs_diff(expected));
        tell(Item::Problem(text))?;
    }
    Ok(())
}

fn checksums<E>(bytes: &[u8], base: Offset, tell: Tell<'_, E>) -> Told<E> {
    let Some(file) = ChecksumFile::parse(bytes, base) else {
        return tell(Item::Problem("it is damaged, or of another segment".to_owned()));
    };
    let (covered, modified) = file.covers();
    tell(Item::Property("covered_bytes", &covered.to_string()))?;
    tell(Item::Property("segment_modified", &modified.0.to_string()))?;
    file.cells().try_for_each(|(from, known)| tell(Item::Part { from, known }))
}

fn text<E>(
    disk: &dyn Disk,
    path: &Path,
    kind: FileKind,
    bytes: &[u8],
    tell: Tell<'_, E>,
) -> Told<E> {
    let said = |error: LogError| match error {
        LogError::Damaged { reason, .. } => Ok(reason),
        LogError::Disk(error) => Err(InspectError::Disk(error)),
        other @ (LogError::OutOfRange { .. } | LogError::Offline) => Ok(other.to_string()),
    };
    match kind {
        FileKind::LeaderEpochs => {
            let entries = match checkpoint::parse(path, bytes, leader_epochs::parse_entry) {
                Ok(entries) => entries,
                Err(error) => return tell(Item::Problem(said(error)?)),
            };
            let rise = entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
            for (epoch, start) in entries {
                tell(Item::Epoch(epoch, start))?;
            }
            if !rise {
                tell(Item::Problem("epochs do not rise".to_owned()))?;
            }
        }
        FileKind::Offsets => {
            let entries = match checkpoint::parse(path, bytes, checkpoint::parse_offset) {
                Ok(entries) => entries,
                Err(error) => return tell(Item::Problem(said(error)?)),
            };
            let mut seen = BTreeSet::new();
            for (partition, offset) in entries {
                if offset < 0 {
                    tell(Item::Problem(format!("{partition} has the offset {offset}")))?;
                }
                if !seen.insert(partition.clone()) {
                    tell(Item::Problem(format!("{partition} is there twice")))?;
                }
                tell(Item::PartitionOffset(partition, offset))?;
            }
        }
        FileKind::PartitionMetadata => match partition_metadata::parse(bytes) {
            Some(id) => tell(Item::TopicId(id))?,
            None => tell(Item::Problem("it does not name a topic id".to_owned()))?,
        },
        FileKind::MetaProperties => {
            let directory = path.parent().unwrap_or(Path::new("."));
            match MetaProperties::read(disk, directory)? {
                Ok(properties) => {
                    for (key, value) in properties.iter() {
                        tell(Item::Property(key, value))?;
                    }
                    match properties.broker_id() {
                        Ok(Some(_)) => {}
                        Ok(None) => tell(Item::Problem("it names no broker".to_owned()))?,
                        Err(reason) => tell(Item::Problem(reason))?,
                    }
                }
                Err(reason) => tell(Item::Problem(reason))?,
            }
        }
        FileKind::CleanShutdown => match std::str::from_utf8(bytes) {
            // Before Kafka 3.8 it was empty.
            Ok(text) => tell(Item::Property("content", text.trim_end()))?,
            Err(_) => tell(Item::Problem("it is not text".to_owned()))?,
        },
        FileKind::Segment
        | FileKind::OffsetIndex
        | FileKind::TimeIndex
        | FileKind::TransactionIndex
        | FileKind::ProducerSnapshot
        | FileKind::Checksums => unreachable!("these are no text"),
    }
    Ok(())
}
