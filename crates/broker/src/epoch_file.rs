//! The highest controller epoch that this broker has acted in, in a file of its first log directory.

use controller::EpochRecord;
use model::ControllerEpoch;
use platform::Disk;
use platform::disk::OpenOptions;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;

/// A plain file: Kafka ignores those in a log directory.
const FILE_NAME: &str = "barnabas-controller-epoch";
/// More than any record has.
const MAX_BYTES: u64 = 256;

/// One line: the cluster's id, a space, the epoch. What belongs to another cluster counts as none.
#[derive(Debug)]
pub(crate) struct EpochFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    cluster_id: String,
    /// What the file holds, or would if it could be written.
    highest: Mutex<ControllerEpoch>,
}

impl EpochFile {
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: &Path, cluster_id: &str) -> Self {
        let directory = directory.to_owned();
        let cluster_id = cluster_id.to_owned();
        let file = Self { disk, directory, cluster_id, highest: Mutex::default() };
        let found = match file.read() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ControllerEpoch(0),
            Err(error) => {
                warn!(%error, file = FILE_NAME, "it is not known which controller epochs this broker has seen");
                ControllerEpoch(0)
            }
        };
        Self { highest: Mutex::new(found), ..file }
    }

    fn read(&self) -> io::Result<ControllerEpoch> {
        let file = self.disk.open(&self.directory.join(FILE_NAME), OpenOptions::default())?;
        let length = usize::try_from(file.len()?.min(MAX_BYTES)).expect("a small constant");
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes);
        let malformed =
            || io::Error::new(io::ErrorKind::InvalidData, "not a cluster's id and an epoch");
        let (cluster_id, epoch) = text.trim_end().split_once(' ').ok_or_else(malformed)?;
        let epoch = epoch.parse().map_err(|_| malformed())?;
        Ok(ControllerEpoch(if cluster_id == self.cluster_id { epoch } else { 0 }))
    }

    fn write(&self, epoch: ControllerEpoch) -> io::Result<()> {
        let text = format!("{} {epoch}\n", self.cluster_id);
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
        if let Err(error) = self.write(epoch) {
            warn!(%error, file = FILE_NAME, controller_epoch = %epoch, "after a restart this broker will not know which controller epochs it has seen");
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
