//! The highest controller epoch that this broker has acted in, in a file of its first log directory.

use crate::small_file::SmallFile;
use controller::EpochRecord;
use model::ControllerEpoch;
use platform::Disk;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;

const FILE_NAME: &str = "barnabas-controller-epoch";
/// More than any record has.
const MAX_BYTES: u64 = 256;

/// One line: the cluster's id, a space, the epoch. What belongs to another cluster counts as none.
#[derive(Debug)]
pub(crate) struct EpochFile {
    file: SmallFile,
    cluster_id: String,
    /// What the file holds, or would if it could be written.
    highest: Mutex<ControllerEpoch>,
}

impl EpochFile {
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: &Path, cluster_id: &str) -> Self {
        let file = SmallFile::new(disk, directory, FILE_NAME, MAX_BYTES);
        let found = file.read().and_then(|text| match text {
            Some(text) => epoch_of(&text, cluster_id),
            None => Ok(ControllerEpoch(0)),
        });
        let highest = found.unwrap_or_else(|error| {
            warn!(%error, file = file.name(), "it is not known which controller epochs this broker has seen");
            ControllerEpoch(0)
        });
        Self { file, cluster_id: cluster_id.to_owned(), highest: Mutex::new(highest) }
    }
}

fn epoch_of(text: &str, cluster_id: &str) -> io::Result<ControllerEpoch> {
    let malformed =
        || io::Error::new(io::ErrorKind::InvalidData, "not a cluster's id and an epoch");
    let (of, epoch) = text.trim_end().split_once(' ').ok_or_else(malformed)?;
    let epoch = epoch.parse().map_err(|_| malformed())?;
    Ok(ControllerEpoch(if of == cluster_id { epoch } else { 0 }))
}

impl EpochRecord for EpochFile {
    fn highest(&self) -> ControllerEpoch {
        *self.highest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, epoch: ControllerEpoch) {
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch <= *highest {
            return;
        }
        *highest = epoch;
        if let Err(error) = self.file.replace(&format!("{} {epoch}\n", self.cluster_id)) {
            warn!(%error, file = self.file.name(), controller_epoch = %epoch, "after a restart this broker will not know which controller epochs it has seen");
        }
    }
}

#[test]
fn the_highest_epoch_of_this_cluster_is_remembered_and_junk_is_not() {
    let disk = platform::MemoryDisk::new();
    let directory = Path::new("/logs");
    disk.create_directories(directory).unwrap();
    let open = |disk: &platform::MemoryDisk, cluster: &str| {
        EpochFile::open(Arc::new(disk.clone()), directory, cluster)
    };
    let file = open(&disk, "a");
    assert_eq!(file.highest(), ControllerEpoch(0));
    file.raise(ControllerEpoch(7));
    file.raise(ControllerEpoch(3));
    assert_eq!(file.highest(), ControllerEpoch(7));
    assert_eq!(open(&disk.copy(), "a").highest(), ControllerEpoch(7));
    assert_eq!(open(&disk.copy(), "b").highest(), ControllerEpoch(0));
    for junk in [&b""[..], b"a", b"a x\n", b"a 99999999999\n", b"\xff \xff", &[b'a'; 10_000]] {
        disk.put(&directory.join(FILE_NAME), junk);
        assert_eq!(open(&disk, "a").highest(), ControllerEpoch(0));
    }
}
