//! Putting compacted segments in the place of others.

use crate::deletions::Deletions;
use crate::error::DiskError;
use crate::files::{Kind, PartitionDirectory, SegmentFiles, Suffix};
use crate::log_directories::LogDirectory;
use crate::partition_log::SwappedFiles;
use crate::recovery;
use crate::segment::Segment;
use model::Offset;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// New segments that hold what is to stay of old ones. Complete and durable, and not part of the log.
#[derive(Debug)]
pub struct CleanedGroup {
    pub(crate) directory: Arc<PartitionDirectory>,
    pub(crate) generation: u64,
    /// The segments that are replaced, in order.
    pub(crate) old: Vec<Arc<SegmentFiles>>,
    pub(crate) new: Vec<Segment>,
}

impl CleanedGroup {
    /// Removes what was written: the log has changed meanwhile.
    pub fn discard(self) {
        remove_files(&self.new);
    }
}

/// A swap that has begun and has to be ended.
#[derive(Debug)]
pub struct CleaningSwap {
    pub(crate) group: CleanedGroup,
    pub(crate) log_directory: Arc<LogDirectory>,
    /// What was replaced, once it is.
    pub(crate) replaced: Vec<Segment>,
    /// Producer snapshots at the starts of segments that are no more.
    pub(crate) snapshots: Vec<Offset>,
    pub(crate) delay: Duration,
}

impl CleaningSwap {
    /// First step, without the log's lock: from now on a crash ends with the new segments.
    ///
    /// # Errors
    /// The disk's. The old segments stay, if [`CleaningSwap::retreat`] succeeds.
    pub fn announce(&self) -> Result<(), DiskError> {
        // If not all are renamed, recovery drops those that are: it must see the others.
        self.group.directory.sync()?;
        for segment in self.group.new.iter().rev() {
            for kind in Kind::ALL {
                segment.files.rename(kind, Suffix::Swap)?;
            }
        }
        // Before any of the old files goes.
        self.group.directory.sync()
    }

    /// Takes a first step that failed back.
    ///
    /// # Errors
    /// The disk's: a crash would end with either.
    pub fn retreat(&self) -> Result<(), DiskError> {
        for segment in &self.group.new {
            segment.files.close();
            for kind in Kind::ALL {
                recovery::remove_file(&self.group.directory, segment.files.path(kind))?;
            }
        }
        Ok(())
    }

    /// Last step, without the log's lock: the old files go and the new ones get their names.
    ///
    /// # Errors
    /// The disk's: the log can be read and must not be changed any more.
    pub fn complete(&self, new: &SwappedFiles) -> Result<(), DiskError> {
        let deletions = &self.log_directory.shared().deletions;
        let disk = self.group.directory.disk();
        for segment in &self.replaced {
            // Readers that hold the files go on.
            segment.files.close();
            self.doom(deletions, &segment.files)?;
        }
        for &snapshot in &self.snapshots {
            let path = recovery::Producers::path(&self.group.directory, snapshot);
            deletions.doom_file(disk.as_ref(), &path, self.delay)?;
        }
        // Before recovery would take the new segment for one beside the old.
        self.group.directory.sync()?;
        for files in &new.0 {
            for kind in Kind::ALL {
                files.rename(kind, Suffix::None)?;
            }
        }
        self.group.directory.sync()
    }

    fn doom(&self, deletions: &Deletions, files: &SegmentFiles) -> Result<(), DiskError> {
        for kind in Kind::ALL {
            if let Some(doomed) = files.rename(kind, Suffix::Deleted)? {
                deletions.push(doomed, self.delay);
            }
        }
        Ok(())
    }
}

/// Removes the files of segments that never were part of a log.
pub(crate) fn remove_files(segments: &[Segment]) {
    for segment in segments {
        segment.files.close();
        for path in segment.paths() {
            if let Err(error) = recovery::remove_file(&segment.files.directory, path) {
                // The next start tries again.
                let error = &error as &dyn std::error::Error;
                warn!(error, "cannot remove what compaction left");
            }
        }
    }
}
