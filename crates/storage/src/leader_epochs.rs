//! Which leader epoch starts at which offset (`leader-epoch-checkpoint`; KIP-101, KIP-279).
//!
//! Entries rise in both columns. The file is written without waiting for the disk: every entry can be
//! derived from the batches, so it only has to be durable before the recovery point passes them (a
//! flush syncs it), and a file that is missing or damaged is derived anew from the whole log.

use crate::checkpoint::{self, Durability};
use crate::error::{DiskError, LogError};
use crate::files::PartitionDirectory;
use crate::read::EpochEnd;
use model::{Bug, LeaderEpoch, Offset};

/// The file's name, in the partition's directory.
pub(crate) const FILE_NAME: &str = "leader-epoch-checkpoint";

/// The history of leader epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaderEpochs {
    entries: Vec<(LeaderEpoch, Offset)>,
    /// The file is behind.
    unwritten: bool,
    /// The file may not be on disk.
    unsynced: bool,
}

impl LeaderEpochs {
    /// Reads the file. Entries that do not rise are as bad as a malformed line.
    pub(crate) fn read(directory: &PartitionDirectory) -> Result<Self, LogError> {
        let path = directory.join(FILE_NAME);
        let entries = checkpoint::read(directory.disk().as_ref(), &path, parse_entry)?;
        if !entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
            return Err(LogError::Damaged { path, reason: "epochs do not rise".to_owned() });
        }
        Ok(Self { entries, unwritten: false, unsynced: true })
    }

    pub(crate) fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.0)
    }

    /// The epoch that holds at `offset`.
    pub(crate) fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let count = self.entries.partition_point(|entry| entry.1 <= offset);
        Some(self.entries[count.checked_sub(1)?].0)
    }

    pub(crate) fn entries(&self) -> &[(LeaderEpoch, Offset)] {
        &self.entries
    }

    /// Notes that `epoch` starts at `start`; entries that contradict it go.
    pub(crate) fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        assert!(epoch.0 >= 0 && start.0 >= 0, "epoch {epoch} cannot start at {start}");
        if let Some(&(latest, latest_start)) = self.entries.last()
            && latest == epoch
            && latest_start <= start
        {
            return;
        }
        self.entries.retain(|entry| entry.0 < epoch && entry.1 < start);
        self.entries.push((epoch, start));
        self.unwritten = true;
    }

    /// Notes that the batch at `base` is of `epoch`: batches are right, and entries that contradict one go.
    pub(crate) fn observe(&mut self, epoch: LeaderEpoch, base: Offset) {
        if self.at(base) == Some(epoch) {
            return;
        }
        // Ascending: entries before it, and entries after it.
        self.entries.retain(|entry| {
            (entry.0 <= epoch && entry.1 <= base) || (entry.0 > epoch && entry.1 > base)
        });
        self.unwritten = true;
        let at = self.entries.partition_point(|entry| entry.1 <= base);
        if at.checked_sub(1).is_none_or(|before| self.entries[before].0 != epoch) {
            self.entries.retain(|entry| entry.1 != base);
            let at = self.entries.partition_point(|entry| entry.1 < base);
            self.entries.insert(at, (epoch, base));
        }
    }

    /// Where `epoch` ends, in a log that ends at `log_end_offset` (log-format 3.5).
    pub(crate) fn end_offset_for(
        &self,
        epoch: LeaderEpoch,
        log_end_offset: Offset,
    ) -> Option<EpochEnd> {
        if self.latest()? == epoch {
            return Some(EpochEnd { leader_epoch: epoch, end_offset: log_end_offset });
        }
        let higher = self.entries.partition_point(|entry| entry.0 <= epoch);
        let end_offset = self.entries.get(higher)?.1;
        let leader_epoch = match higher.checked_sub(1) {
            Some(at) => self.entries[at].0,
            None => epoch,
        };
        Some(EpochEnd { leader_epoch, end_offset })
    }

    /// Drops epochs that start at or above `end`.
    pub(crate) fn truncate_from_end(&mut self, end: Offset) {
        let count = self.entries.partition_point(|entry| entry.1 < end);
        self.unwritten |= count < self.entries.len();
        self.entries.truncate(count);
    }

    /// Lets the epoch that holds at `start` begin there, and drops those before.
    pub(crate) fn truncate_from_start(&mut self, start: Offset) {
        let count = self.entries.partition_point(|entry| entry.1 <= start);
        if count == 0 || (count == 1 && self.entries[0].1 == start) {
            return;
        }
        self.entries.drain(..count - 1);
        self.entries[0].1 = start;
        self.unwritten = true;
    }

    pub(crate) fn clear(&mut self) {
        self.unwritten |= !self.entries.is_empty();
        self.entries.clear();
    }

    /// Writes the file if it is behind; whether it was.
    pub(crate) fn write(&mut self, directory: &PartitionDirectory) -> Result<bool, DiskError> {
        if !self.unwritten {
            return Ok(false);
        }
        let lines = self.entries.iter().map(|(epoch, start)| format!("{epoch} {start}"));
        let text = checkpoint::encode(lines);
        let path = directory.join(FILE_NAME);
        checkpoint::replace(directory.disk().as_ref(), &path, text.as_bytes(), Durability::Lazy)?;
        self.unwritten = false;
        self.unsynced = true;
        Ok(true)
    }

    /// Whether the file has to be synced; the caller does it.
    pub(crate) fn take_unsynced(&mut self) -> bool {
        std::mem::take(&mut self.unsynced)
            && !self.entries.is_empty()
            && !Bug::Kafka16541.is_planted()
    }
}

/// An epoch and where it starts.
pub(crate) fn parse_entry(line: &str) -> Option<(LeaderEpoch, Offset)> {
    let mut fields = line.split_whitespace();
    let epoch = LeaderEpoch(fields.next()?.parse().ok()?);
    let start = Offset(fields.next()?.parse().ok()?);
    (fields.next().is_none() && epoch.0 >= 0 && start.0 >= 0).then_some((epoch, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileCache;
    use platform::MemoryDisk;
    use std::path::Path;
    use std::sync::Arc;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        entries.iter().for_each(|&(e, o)| epochs.assign(LeaderEpoch(e), Offset(o)));
        epochs
    }

    fn listed(epochs: &LeaderEpochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.0.0, entry.1.0)).collect()
    }

    #[test]
    fn assigning_removes_what_contradicts() {
        assert_eq!(listed(&epochs(&[(0, 0), (0, 5), (2, 9)])), [(0, 0), (2, 9)]);
        assert_eq!(listed(&epochs(&[(0, 0), (2, 9), (3, 9)])), [(0, 0), (3, 9)]);
        assert_eq!(listed(&epochs(&[(1, 4), (2, 9), (2, 3)])), [(2, 3)]);
        assert_eq!(listed(&epochs(&[(5, 4), (3, 9)])), [(3, 9)]);
    }

    #[test]
    fn what_batches_say_counts() {
        let observed = |batches: &[(i32, i64)]| {
            let mut known = epochs(&[(2, 10), (4, 20), (7, 30)]);
            for &(epoch, base) in batches {
                known.observe(LeaderEpoch(epoch), Offset(base));
            }
            listed(&known)
        };
        assert_eq!(observed(&[(2, 10), (2, 15), (4, 25), (7, 30)]), [(2, 10), (4, 20), (7, 30)]);
        assert_eq!(observed(&[(8, 40)]), [(2, 10), (4, 20), (7, 30), (8, 40)]);
        assert_eq!(observed(&[(2, 35)]), [(2, 10)], "stale entries of a log that was cut");
        assert_eq!(observed(&[(1, 35)]), [(1, 35)]);
        assert_eq!(observed(&[(3, 15)]), [(2, 10), (3, 15), (4, 20), (7, 30)], "one is missing");
        assert_eq!(observed(&[(5, 20)]), [(2, 10), (5, 20), (7, 30)]);
        assert_eq!(observed(&[(7, 25)]), [(2, 10), (4, 20), (7, 25)], "it began earlier");
    }

    #[test]
    fn the_end_of_an_epoch_is_as_the_table_says() {
        let known = epochs(&[(2, 10), (4, 20), (7, 30)]);
        let end = |epoch| {
            known
                .end_offset_for(LeaderEpoch(epoch), Offset(40))
                .map(|end| (end.leader_epoch.0, end.end_offset.0))
        };
        assert_eq!(end(7), Some((7, 40)), "the latest ends with the log");
        assert_eq!(end(8), None);
        assert_eq!(end(1), Some((1, 10)), "no entry at or below: ends where the next begins");
        assert_eq!(end(2), Some((2, 20)));
        assert_eq!(end(5), Some((4, 30)));
        assert_eq!(end(-1), Some((-1, 10)), "the façade answers none for a negative epoch");
        assert_eq!(epochs(&[]).end_offset_for(LeaderEpoch(0), Offset(40)), None);
    }

    #[test]
    fn truncating_keeps_the_epoch_of_the_first_record() {
        let mut known = epochs(&[(2, 10), (4, 20), (7, 30)]);
        known.truncate_from_start(Offset(25));
        assert_eq!(listed(&known), [(4, 25), (7, 30)]);
        known.truncate_from_end(Offset(30));
        assert_eq!(listed(&known), [(4, 25)]);
        known.truncate_from_start(Offset(3));
        assert_eq!(listed(&known), [(4, 25)]);
        assert_eq!(known.at(Offset(24)), None);
        assert_eq!(known.at(Offset(25)), Some(LeaderEpoch(4)));
    }

    #[test]
    fn the_file_is_kafkas() {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/t-0/x"), b"");
        let cache = Arc::new(FileCache::new(Arc::new(disk.clone()), 4));
        let directory = PartitionDirectory::new(cache, Path::new("/d/t-0"));
        let mut known = epochs(&[(0, 0), (2, 18)]);
        known.write(&directory).unwrap();
        let files = disk.files();
        let file = files.iter().find(|file| file.0.ends_with(FILE_NAME)).unwrap();
        assert_eq!(file.1, b"0\n2\n0 0\n2 18\n");
        assert_eq!(listed(&LeaderEpochs::read(&directory).unwrap()), listed(&known));
        disk.put(&directory.join(FILE_NAME), b"0\n2\n2 18\n0 19\n");
        LeaderEpochs::read(&directory).unwrap_err();
    }
}
