//! What is in a log directory, without changing or locking anything.

use crate::checkpoint;
use crate::directory_name::{self, DirectoryName};
use crate::error::{DiskError, LogError};
use crate::files::{FileCache, PartitionDirectory};
use crate::leader_epochs::LeaderEpochs;
use crate::log_directories::{CLEAN_MARKER, LOCK};
use crate::meta_properties::MetaProperties;
use crate::partition_metadata;
use crate::scan::StoredBatch;
use crate::snapshot;
use model::{BrokerId, LeaderEpoch, Offset, ProducerId, Timestamp, TopicId, TopicPartition};
use platform::Disk;
use platform::disk::OpenOptions;
use protocol::records::HEADER_BYTES;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A log directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectorySurvey {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is, as `meta.properties` says.
    pub broker_id: Option<BrokerId>,
    /// The cluster, as `meta.properties` says.
    pub cluster_id: Option<String>,
    /// Whether another process has it.
    pub is_in_use: bool,
    /// Whether the last broker stopped cleanly: otherwise logs are recovered when they are first used.
    pub is_clean: bool,
    /// Its logs, by name.
    pub partitions: Vec<PartitionSurvey>,
    /// Directories that are no live logs, and what they are.
    pub others: Vec<(String, &'static str)>,
    /// What keeps a broker from starting on it, in words.
    pub problems: Vec<String>,
}

/// One partition's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSurvey {
    /// Which partition.
    pub name: TopicPartition,
    /// The topic's id, as `partition.metadata` says; none of Kafka before 2.8.
    pub topic_id: Option<TopicId>,
    /// The newest leader epoch, of the checkpoint or a batch.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The highest id of a producer that the log remembers.
    pub last_producer_id: Option<ProducerId>,
    /// Bytes in its segments.
    pub size_bytes: u64,
    /// How many segments it has.
    pub segments: usize,
}

impl DirectorySurvey {
    /// Looks at the log directory at `path`: names, small files, and the heads of those batches that came
    /// after the last producer snapshot.
    ///
    /// # Errors
    /// The disk's; what is wrong with contents is in [`DirectorySurvey::problems`].
    pub fn of(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self, DiskError> {
        let mut survey = Self { path: path.to_owned(), ..Self::default() };
        let names = disk.list(path).map_err(DiskError::at("list", path))?;
        survey.read_identity(disk.as_ref())?;
        let has = |name: &str| names.iter().any(|known| known.as_path() == Path::new(name));
        survey.is_clean = has(CLEAN_MARKER);
        // Only a file that is there is locked: this makes none.
        survey.is_in_use = has(LOCK)
            && matches!(disk.lock(&path.join(LOCK)), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        let cache = Arc::new(FileCache::new(Arc::clone(disk), 1));
        for name in names {
            let at = path.join(&name);
            let metadata = disk.metadata(&at).map_err(DiskError::at("look at", &at))?;
            if !metadata.is_directory {
                continue;
            }
            let text = name.to_string_lossy().into_owned();
            match name.to_str().and_then(directory_name::parse) {
                Some(DirectoryName::Live(partition)) => {
                    let directory = PartitionDirectory::new(Arc::clone(&cache), &at);
                    match PartitionSurvey::of(partition, &directory) {
                        Ok(found) => survey.partitions.push(found),
                        Err(LogError::Disk(error)) => return Err(error),
                        Err(error) => survey.problems.push(error.to_string()),
                    }
                }
                Some(DirectoryName::Future(_)) => {
                    survey.others.push((text, "a copy on its way from another log directory"));
                }
                Some(DirectoryName::Delete) => {
                    survey.others.push((text, "deleted; goes at the next start"))
                }
                Some(DirectoryName::Stray) => survey.others.push((text, "stray; is left alone")),
                Some(DirectoryName::Foreign) => {
                    survey.others.push((text, "no partition; is left alone"))
                }
                None => survey
                    .problems
                    .push(format!("{} is not a partition's directory: move it away", at.display())),
            }
        }
        survey.partitions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(survey)
    }

    fn read_identity(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let file = MetaProperties::path(&self.path);
        let read = MetaProperties::read(disk, &self.path)?;
        match read.and_then(|meta| Ok((meta.broker_id()?, meta))) {
            Ok((broker_id, meta)) => {
                self.broker_id = broker_id;
                self.cluster_id = meta.cluster_id().map(str::to_owned);
            }
            Err(reason) => self.problems.push(format!("{}: {reason}", file.display())),
        }
        if self.broker_id.is_none() && self.problems.is_empty() {
            let file = file.display();
            self.problems.push(format!("{file} names no broker: is this a log directory?"));
        }
        Ok(())
    }
}

impl PartitionSurvey {
    fn of(name: TopicPartition, directory: &PartitionDirectory) -> Result<Self, LogError> {
        let disk = Arc::clone(directory.disk());
        let path = directory.path();
        let names = disk.list(&path).map_err(DiskError::at("list", &path))?;
        let bases = |extension: &str| {
            let mut bases: Vec<Offset> =
                names.iter().filter_map(|name| offset_of(name, extension)).collect();
            bases.sort_unstable();
            bases
        };
        let segments = bases("log");
        // A file that cannot be read is derived anew from the batches; so it is here.
        let epochs = LeaderEpochs::read(directory).ok().and_then(|epochs| epochs.latest());
        let mut survey = Self {
            name,
            topic_id: partition_metadata::read(directory)?,
            leader_epoch: epochs,
            last_producer_id: None,
            size_bytes: 0,
            segments: segments.len(),
        };
        let mut known_up_to = Offset(0);
        for base in bases("snapshot").into_iter().rev() {
            let file = directory.join(crate::files::file_name(base, "snapshot"));
            let Some(bytes) = checkpoint::read_file(disk.as_ref(), &file)? else { continue };
            let Some(state) = snapshot::decode(&bytes, Timestamp(0), Duration::MAX) else {
                continue;
            };
            survey.last_producer_id = state.iter().map(|(id, _)| id).max();
            known_up_to = base;
            break;
        }
        for (at, &base) in segments.iter().enumerate() {
            let file = directory.join(crate::files::file_name(base, "log"));
            let size = disk.metadata(&file).map_err(DiskError::at("look at", &file))?.len;
            survey.size_bytes += size;
            let is_last = at + 1 == segments.len();
            if is_last || segments[at + 1] > known_up_to {
                survey.scan(disk.as_ref(), &file, size)?;
            }
        }
        Ok(survey)
    }

    /// Notes what batch heads say, up to the first that is none.
    fn scan(&mut self, disk: &dyn Disk, path: &Path, size: u64) -> Result<(), DiskError> {
        let file = disk.open(path, OpenOptions::default()).map_err(DiskError::at("open", path))?;
        let mut head = [0; HEADER_BYTES];
        let mut position = 0;
        while position < size {
            let read = file.read_at(&mut head, position).map_err(DiskError::at("read", path))?;
            let Some(batch) = StoredBatch::parse(&head[..read], position) else { break };
            if let Some(header) = &batch.header {
                let epoch = header.partition_leader_epoch;
                let epoch = (epoch >= 0).then_some(LeaderEpoch(epoch));
                self.leader_epoch = self.leader_epoch.max(epoch);
                let producer = (header.producer_id >= 0).then_some(ProducerId(header.producer_id));
                self.last_producer_id = self.last_producer_id.max(producer);
            }
            position = batch.end();
        }
        Ok(())
    }
}

/// The offset that a segment's or snapshot's file is named after.
fn offset_of(name: &Path, extension: &str) -> Option<Offset> {
    let (stem, found) = name.to_str()?.split_once('.')?;
    let is_offset = stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit());
    if found != extension || !is_offset {
        return None;
    }
    stem.parse().ok().map(Offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::MemoryDisk;
    use protocol::records::RecordBatchBuilder;

    const ID: TopicId = TopicId([7; 16]);

    fn disk() -> (MemoryDisk, Arc<dyn Disk>) {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/meta.properties"), b"version=0\nbroker.id=5\ncluster.id=abc\n");
        (disk.clone(), Arc::new(disk))
    }

    fn batch(producer: i64, epoch: i32) -> Vec<u8> {
        let builder = RecordBatchBuilder::new();
        let mut builder = match producer {
            -1 => builder,
            id => {
                builder.producer(ProducerId(id), model::ProducerEpoch(0), Some(model::Sequence(0)))
            }
        };
        builder.append(Some(Timestamp(1)), None, Some(b"v")).unwrap();
        let mut bytes = builder.build().unwrap().to_vec();
        // The checksum does not cover the leader epoch.
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        bytes
    }

    #[test]
    fn ids_epochs_and_producers_are_found_and_nothing_changes() {
        let (memory, disk) = disk();
        memory.put(
            Path::new("/d/t-0/partition.metadata"),
            format!("version: 0\ntopic_id: {ID}").as_bytes(),
        );
        memory.put(Path::new("/d/t-0/leader-epoch-checkpoint"), b"0\n1\n2 0\n");
        let log = [batch(-1, 2), batch(41, 3), batch(-1, 3)].concat();
        memory.put(Path::new("/d/t-0/00000000000000000000.log"), &log);
        memory.put(Path::new("/d/u-0.0123-delete/x"), b"");
        memory.put(Path::new("/d/.lock"), b"");
        let changes = memory.changes();
        let survey = DirectorySurvey::of(&disk, Path::new("/d")).unwrap();
        assert_eq!(memory.changes(), changes, "it only looks");
        assert_eq!(
            (survey.broker_id, survey.cluster_id.as_deref()),
            (Some(BrokerId(5)), Some("abc"))
        );
        assert!(!survey.is_clean && !survey.is_in_use && survey.problems.is_empty(), "{survey:?}");
        assert_eq!(survey.others.len(), 1);
        let [partition] = survey.partitions.as_slice() else { panic!("{survey:?}") };
        assert_eq!(partition.topic_id, Some(ID));
        assert_eq!(partition.leader_epoch, Some(LeaderEpoch(3)), "newer than the checkpoint");
        assert_eq!(partition.last_producer_id, Some(ProducerId(41)));
        assert_eq!((partition.size_bytes, partition.segments), (log.len() as u64, 1));
    }

    #[test]
    fn what_no_broker_starts_on_is_named() {
        let (memory, disk) = disk();
        memory.put(Path::new("/d/strange/x"), b"");
        memory.put(Path::new("/d/t-0/partition.metadata"), b"version: 0\ntopic_id: x");
        let survey = DirectorySurvey::of(&disk, Path::new("/d")).unwrap();
        assert_eq!(survey.problems.len(), 2, "{:?}", survey.problems);
        memory.put(Path::new("/e/t-0/x"), b"");
        let survey = DirectorySurvey::of(&disk, Path::new("/e")).unwrap();
        assert!(survey.problems[0].contains("is this a log directory"), "{:?}", survey.problems);
    }

    #[test]
    fn a_directory_in_use_is_seen() {
        let (memory, disk) = disk();
        memory.put(Path::new("/d/.lock"), b"");
        let held = disk.lock(Path::new("/d/.lock")).unwrap();
        assert!(DirectorySurvey::of(&disk, Path::new("/d")).unwrap().is_in_use);
        drop(held);
        assert!(!DirectorySurvey::of(&disk, Path::new("/d")).unwrap().is_in_use);
    }
}
