//! Single files of the log's layout.

use super::Input;
use super::records::with_checksums;
use platform::{Disk, MemoryDisk};
use std::path::Path;
use std::sync::Arc;
use storage::inspect::{Item, Options, inspect};

/// One of each kind.
pub(crate) const NAMES: [&str; 11] = [
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000007.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
];

pub(super) fn file(input: &[u8]) {
    let mut input = Input(input);
    let (which, how) = (usize::from(input.u8()), input.u8());
    let path = Path::new("/data/t-0").join(NAMES[which % NAMES.len()]);
    let memory = MemoryDisk::new();
    let content = match how & 1 {
        0 => with_checksums(input.0),
        _ => input.0.to_vec(),
    };
    memory.put(&path, &content);
    let disk: Arc<dyn Disk> = Arc::new(memory);
    let options = Options { verify: how & 2 == 0, records: how & 4 == 0, limit: 1 << 20 };
    let mut left = 10_000;
    let tell = |item: Item<'_>| {
        // What is told can be told to people.
        let _ = format!("{item:?}").len();
        left -= 1;
        if left > 0 { Ok(()) } else { Err(()) }
    };
    let _ = inspect(&disk, &path, options, tell);
}
