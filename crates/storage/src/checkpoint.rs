//! Small text files that are replaced whole: Kafka's checkpoint format.
//!
//! Line 1 is the version, 0; line 2 the number of entries; then one entry per line, fields separated
//! by spaces.

use crate::error::{DiskError, LogError};
use model::TopicPartition;
use platform::Disk;
use platform::disk::OpenOptions;
use std::fmt::{Display, Write};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

/// Recovery points of a directory's logs: everything below is on disk.
pub(crate) const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Log start offsets of those logs whose first segment starts below.
pub(crate) const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// Where compaction goes on: records below have been compacted with each other.
pub(crate) const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// High watermarks.
pub(crate) const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";

/// Whether a replaced file must be on disk when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It must.
    Synced,
    /// A crash may leave the old file, or an empty one: whoever reads it can do without.
    Lazy,
}

/// Replaces the file at `path` by `contents`, atomically.
pub(crate) fn replace(
    disk: &dyn Disk,
    path: &Path,
    contents: &[u8],
    durability: Durability,
) -> Result<(), DiskError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let options = OpenOptions { write: true, create: true, truncate: true };
    let file = disk.open(&temporary, options).map_err(DiskError::at("write", path))?;
    let written = file.write_all_at(&[IoSlice::new(contents)], 0);
    written.map_err(DiskError::at("write", path))?;
    if durability == Durability::Synced {
        file.sync().map_err(DiskError::at("sync", path))?;
    }
    disk.rename(&temporary, path).map_err(DiskError::at("write", path))?;
    if durability == Durability::Synced {
        let directory = path.parent().unwrap_or(Path::new("."));
        disk.sync_directory(directory).map_err(DiskError::at("sync", path))?;
    }
    Ok(())
}

/// The whole file at `path`; `None` if there is none.
pub(crate) fn read_file(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>, DiskError> {
    let read = || -> io::Result<Vec<u8>> {
        let file = disk.open(path, OpenOptions::default())?;
        let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::InvalidData)?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DiskError::at("read", path)(error)),
    }
}

/// The text of a checkpoint.
pub(crate) fn encode(entries: impl ExactSizeIterator<Item = impl Display>) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        writeln!(text, "{entry}").expect("writing to a string does not fail");
    }
    text
}

/// The entries of a checkpoint; none if the file is missing, empty or has only its version.
///
/// # Errors
/// [`LogError::Damaged`] for a wrong version, a malformed line or a wrong count.
pub(crate) fn read<T>(
    disk: &dyn Disk,
    path: &Path,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, LogError> {
    let Some(bytes) = read_file(disk, path)? else { return Ok(Vec::new()) };
    self::parse(path, &bytes, parse)
}

/// The entries of the checkpoint at `path`, whose content is `bytes`.
///
/// # Errors
/// As [`read`].
pub(crate) fn parse<T>(
    path: &Path,
    bytes: &[u8],
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, LogError> {
    let damaged = |reason: &str| LogError::Damaged { path: path.to_owned(), reason: reason.into() };
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("not UTF-8"))?;
    if !text.is_empty() && !text.ends_with('\n') {
        // A number may have lost its last digits in a crash.
        return Err(damaged("its last line is cut off"));
    }
    let mut lines = text.lines();
    match lines.next() {
        None => return Ok(Vec::new()),
        Some("0") => {}
        Some(_) => return Err(damaged("its version is not 0")),
    }
    let Some(count) = lines.next() else { return Ok(Vec::new()) };
    let entries = lines.map(parse).collect::<Option<Vec<_>>>();
    let entries = entries.ok_or_else(|| damaged("a line is malformed"))?;
    if count.trim().parse() != Ok(entries.len()) {
        return Err(damaged("the number of lines is wrong"));
    }
    Ok(entries)
}

/// One offset of one partition.
pub(crate) fn parse_offset(line: &str) -> Option<(TopicPartition, i64)> {
    let mut fields = line.split_whitespace();
    let (topic, partition, offset) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    Some((TopicPartition::new(topic, partition.parse().ok()?), offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::MemoryDisk;

    fn read_text(text: &str) -> Result<Vec<(TopicPartition, i64)>, LogError> {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/c"), text.as_bytes());
        read(&disk, Path::new("/d/c"), parse_offset)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let disk = MemoryDisk::new();
        disk.create_directories(Path::new("/d")).unwrap();
        let path = Path::new("/d/c");
        assert!(
            read(&disk, path, parse_offset).unwrap().is_empty(),
            "a missing file has no entries"
        );
        for text in [encode(["a 0 5", "b-c 11 7"].iter()), encode(["a 0 6"].iter())] {
            replace(&disk, path, text.as_bytes(), Durability::Synced).unwrap();
        }
        assert_eq!(read(&disk, path, parse_offset).unwrap(), [(TopicPartition::new("a", 0), 6)]);
        assert_eq!(disk.files().len(), 1, "the temporary file is gone");
        assert_eq!(disk.crash(1).files(), disk.files(), "and it is on disk");
    }

    #[test]
    fn a_malformed_checkpoint_is_an_error_and_an_empty_one_is_not() {
        assert!(read_text("").unwrap().is_empty());
        assert!(read_text("0\n").unwrap().is_empty());
        assert_eq!(read_text("0\n2\na 0 1\nb  3   2\n").unwrap().len(), 2);
        for text in [
            "1\n0\n",
            "0\n1\n",
            "0\n0\na 0 1\n",
            "0\n1\na 0\n",
            "0\n1\na 0 1 2\n",
            "0\n1\na x 1\n",
            "0\n1\na 0 1",
        ] {
            assert!(matches!(read_text(text), Err(LogError::Damaged { .. })), "{text:?}");
        }
    }
}
