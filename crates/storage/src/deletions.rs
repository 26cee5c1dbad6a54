//! Files and directories that were renamed out of the way and wait to be removed.
//!
//! Removing a large file in one call can take 100 ms of a disk's time: it is cut in steps first.

use crate::error::DiskError;
use crate::files::lock;
use model::Instant;
use platform::Disk;
use platform::disk::OpenOptions;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tracing::warn;

/// A file is cut by so much in one step.
const STEP_BYTES: u64 = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Deletions(Mutex<Queues>);

#[derive(Debug, Default)]
struct Queues {
    /// Their delay starts when the next step sees them.
    new: Vec<(PathBuf, Duration)>,
    waiting: BTreeMap<(Instant, u64), PathBuf>,
    count: u64,
}

impl Deletions {
    /// Removes `path`, a file or a directory, from `due` on.
    pub(crate) fn push_due(&self, path: PathBuf, due: Instant) {
        let mut queues = lock(&self.0);
        queues.count += 1;
        let key = (due, queues.count);
        queues.waiting.insert(key, path);
    }

    /// Removes `path`, a file or a directory, `delay` after the next step.
    pub(crate) fn push(&self, path: PathBuf, delay: Duration) {
        lock(&self.0).new.push((path, delay));
    }

    /// Takes a file out of its log by renaming it to `.deleted`; nothing if it is not there.
    pub(crate) fn doom_file(
        &self,
        disk: &dyn Disk,
        path: &Path,
        delay: Duration,
    ) -> Result<(), DiskError> {
        let mut doomed = path.as_os_str().to_owned();
        doomed.push(".deleted");
        let doomed = PathBuf::from(doomed);
        match disk.rename(path, &doomed) {
            Ok(()) => self.push(doomed, delay),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(DiskError { action: "rename", path: path.to_owned(), source });
            }
        }
        Ok(())
    }

    /// Frees a bounded part of what is due. Returns when to call again.
    pub(crate) fn step(&self, disk: &dyn Disk, now: Instant) -> Option<Instant> {
        let due = {
            let mut queues = lock(&self.0);
            let queues = &mut *queues;
            for (path, delay) in std::mem::take(&mut queues.new) {
                queues.count += 1;
                queues.waiting.insert((now + delay, queues.count), path);
            }
            let first = queues.waiting.first_entry()?;
            if first.key().0 > now {
                return Some(first.key().0);
            }
            first.remove_entry()
        };
        let (key, path) = due;
        match remove_step(disk, &path) {
            Ok(true) => {}
            Ok(false) => drop(lock(&self.0).waiting.insert(key, path)),
            // Nothing is lost: the next start tries again.
            Err(error) => warn!(path = %path.display(), %error, "cannot remove what was deleted"),
        }
        lock(&self.0).waiting.first_key_value().map(|(key, _)| key.0.max(now))
    }
}

/// Removes a part of `path`; whether nothing is left.
fn remove_step(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    let metadata = match disk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        metadata => metadata?,
    };
    if metadata.is_directory {
        return match disk.list(path)?.first() {
            Some(name) => remove_step(disk, &path.join(name)).map(|_| false),
            None => disk.remove_directory(path).map(|()| true),
        };
    }
    if metadata.len > STEP_BYTES {
        let file = disk.open(path, OpenOptions { write: true, ..OpenOptions::default() })?;
        return file.set_len(metadata.len - STEP_BYTES).map(|()| false);
    }
    disk.remove_file(path).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::MemoryDisk;

    #[test]
    fn removal_waits_and_goes_in_bounded_steps() {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/big.log"), &vec![1; 9 << 20]);
        disk.put(Path::new("/d/t-0-delete/a"), b"1");
        disk.put(Path::new("/d/t-0-delete/b"), b"2");
        let deletions = Deletions::default();
        let second = Duration::from_secs(1);
        deletions.doom_file(&disk, Path::new("/d/big.log"), second).unwrap();
        deletions.doom_file(&disk, Path::new("/d/missing.log"), second).unwrap();
        let mut now = Instant::default();
        deletions.push_due("/d/t-0-delete".into(), now + second * 2);
        assert_eq!(deletions.step(&disk, now), Some(now + second));
        assert_eq!(disk.used(), (9 << 20) + 2);
        now = now + second;
        let mut steps = Vec::new();
        while let Some(next) = deletions.step(&disk, now) {
            steps.push(disk.used());
            now = next;
        }
        assert_eq!(steps[..3], [(5 << 20) + 2, (1 << 20) + 2, 2]);
        assert!(disk.files().is_empty());
        assert!(disk.list(Path::new("/d")).unwrap().is_empty());
    }
}
