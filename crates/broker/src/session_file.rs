//! The store's sessions that this broker registered with, in a file of its first log directory.

use crate::small_file::SmallFile;
use controller::SessionRecord;
use coordination::SessionId;
use platform::Disk;
use std::path::Path;
use std::sync::Arc;
use tracing::warn;

const FILE_NAME: &str = "barnabas-sessions";
/// More than any record has.
const MAX_BYTES: u64 = 4096;

/// One session a line, as hexadecimal digits; a line that is none is skipped.
#[derive(Debug)]
pub(crate) struct SessionFile(SmallFile);

impl SessionFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path) -> Self {
        Self(SmallFile::new(disk, directory, FILE_NAME, MAX_BYTES))
    }
}

impl SessionRecord for SessionFile {
    fn last(&self) -> Vec<SessionId> {
        let text = self.0.read().unwrap_or_else(|error| {
            warn!(%error, file = self.0.name(), "the sessions of the last run are not known");
            None
        });
        let parse = |line: &str| u64::from_str_radix(line.trim(), 16).ok();
        let ids = text.iter().flat_map(|text| text.lines()).filter_map(parse);
        ids.map(|id| SessionId(id.cast_signed())).collect()
    }

    fn record(&self, sessions: &[SessionId]) {
        let line = |id: &SessionId| format!("{:x}\n", id.0.cast_unsigned());
        let text: String = sessions.iter().map(line).collect();
        if let Err(error) = self.0.replace(&text) {
            warn!(%error, file = self.0.name(), "after a crash a new start must wait for this session's end");
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
