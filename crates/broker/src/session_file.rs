//! The store's sessions that this broker registered with, in a file of its first log directory.

use controller::SessionRecord;
use coordination::SessionId;
use platform::Disk;
use platform::disk::OpenOptions;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::warn;

/// A plain file: Kafka ignores those in a log directory.
const FILE_NAME: &str = "barnabas-sessions";
/// More than any record has.
const MAX_BYTES: u64 = 4096;

/// One session a line, as hexadecimal digits; a line that is none is skipped.
#[derive(Debug)]
pub(crate) struct SessionFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl SessionFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path) -> Self {
        Self { disk, directory: directory.to_owned() }
    }

    fn read(&self) -> io::Result<Vec<SessionId>> {
        let file = self.disk.open(&self.directory.join(FILE_NAME), OpenOptions::default())?;
        let length = usize::try_from(file.len()?.min(MAX_BYTES)).expect("a small constant");
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let parse = |line: &str| u64::from_str_radix(line.trim(), 16).ok();
        Ok(text.lines().filter_map(parse).map(|id| SessionId(id.cast_signed())).collect())
    }

    fn write(&self, sessions: &[SessionId]) -> io::Result<()> {
        let text: String =
            sessions.iter().map(|id| format!("{:x}\n", id.0.cast_unsigned())).collect();
        let (path, new) =
            (self.directory.join(FILE_NAME), self.directory.join(format!("{FILE_NAME}.tmp")));
        let options = OpenOptions { write: true, create: true, truncate: true };
        let file = self.disk.open(&new, options)?;
        file.write_all_at(&[IoSlice::new(text.as_bytes())], 0)?;
        file.sync()?;
        self.disk.rename(&new, &path)?;
        self.disk.sync_directory(&self.directory)
    }
}

impl SessionRecord for SessionFile {
    fn last(&self) -> Vec<SessionId> {
        match self.read() {
            Ok(sessions) => sessions,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                warn!(%error, file = FILE_NAME, "the sessions of the last run are not known");
                Vec::new()
            }
        }
    }

    fn record(&self, sessions: &[SessionId]) {
        if let Err(error) = self.write(sessions) {
            warn!(%error, file = FILE_NAME, "after a crash a new start must wait for this session's end");
        }
    }
}

#[test]
fn sessions_are_remembered_and_junk_is_not() {
    let disk = platform::MemoryDisk::new();
    let directory = Path::new("/logs");
    disk.create_directories(directory).unwrap();
    let file = SessionFile::new(Arc::new(disk.clone()), directory);
    assert_eq!(file.last(), []);
    let sessions = [SessionId(0x1000_0000_0000_0001), SessionId(-2)];
    file.record(&sessions);
    assert_eq!(SessionFile::new(Arc::new(disk.copy()), directory).last(), sessions);
    disk.put(&directory.join(FILE_NAME), b"\xff\n\nzz\n7\n-1\n");
    assert_eq!(file.last(), [SessionId(7)]);
}
