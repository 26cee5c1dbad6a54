//! A small file of ours in the first log directory, which is replaced whole. Kafka ignores plain files there.

use platform::Disk;
use platform::disk::OpenOptions;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct SmallFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    name: &'static str,
    max_bytes: u64,
}

impl SmallFile {
    /// A file of which at most `max_bytes` are read.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        name: &'static str,
        max_bytes: u64,
    ) -> Self {
        Self { disk, directory: directory.to_owned(), name, max_bytes }
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// What it holds; bytes that are no text are replaced. `None` if there is no such file.
    pub(crate) fn read(&self) -> io::Result<Option<String>> {
        let file = match self.disk.open(&self.directory.join(self.name), OpenOptions::default()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = usize::try_from(file.len()?.min(self.max_bytes)).expect("a small constant");
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Replaces it, durably: after a crash there is the old content or the new.
    pub(crate) fn replace(&self, text: &str) -> io::Result<()> {
        let path = self.directory.join(self.name);
        let new = self.directory.join(format!("{}.tmp", self.name));
        let options = OpenOptions { write: true, create: true, truncate: true };
        let file = self.disk.open(&new, options)?;
        file.write_all_at(&[IoSlice::new(text.as_bytes())], 0)?;
        file.sync()?;
        self.disk.rename(&new, &path)?;
        self.disk.sync_directory(&self.directory)
    }
}
