//! A log directory of any content.

use super::Input;
use super::files::NAMES;
use super::records::with_checksums;
use model::{BrokerId, Instant, Offset, Timestamp};
use platform::MemoryDisk;
use platform::random::SeededRandom;
use protocol::records::Batches;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::{
    ClosedLog, LogConfig, LogDirectories, LogDirectoriesConfig, PartitionLog, ReadRequest,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn start(disk: &MemoryDisk) -> Option<(LogDirectories, Vec<ClosedLog>)> {
    let config = LogDirectoriesConfig {
        paths: vec!["/data".into()],
        broker_id: BrokerId(1),
        max_open_files: 8,
        tail_cache_bytes: 0,
        disk_reserve_bytes: Some(0),
    };
    let random = Arc::new(SeededRandom::new(1));
    LogDirectories::open(Arc::new(disk.clone()), random, config, Instant::default()).ok()
}

/// All that a log says of itself, and its bytes; every batch that is served is whole.
fn read(log: &PartitionLog) -> (Offset, Offset, Vec<u8>) {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    assert!(start <= end, "a log from {start:?} to {end:?}");
    let (mut at, mut all) = (start, Vec::new());
    while at < end {
        let request = ReadRequest {
            offset: at,
            max_bytes: 1 << 16,
            min_one_message: true,
            upper_bound: end,
            want_aborted: true,
        };
        let Ok(found) = log.read(request) else { break };
        let bytes = found.records.to_bytes();
        let bytes = bytes.unwrap_or_else(|error| panic!("a range that was planned: {error}"));
        let before = at;
        for batch in Batches::new(&bytes) {
            let Ok(batch) = batch else { break };
            at = at.max(batch.last_offset() + 1);
        }
        all.extend_from_slice(&bytes);
        if at == before {
            break;
        }
    }
    (start, end, all)
}

pub(super) fn recovery(input: &[u8]) {
    let mut input = Input(input);
    let disk = MemoryDisk::new();
    let how = input.u8();
    while !input.is_empty() {
        let (which, content) = (input.u8(), input.part());
        let name = NAMES[usize::from(which & 0x1f) % NAMES.len()];
        // A second segment may begin anywhere.
        let name = match (which >> 5, name.split_once('.')) {
            (base @ 1.., Some((digits, extension))) if digits.len() == 20 => {
                format!("{:020}.{extension}", u64::from(base) * 3)
            }
            _ => name.to_owned(),
        };
        let is_of_directory = ["meta", "recovery", "replication", ".kafka"];
        let folder = match is_of_directory.iter().any(|start| name.starts_with(start)) {
            true => Path::new("/data"),
            false => Path::new("/data/t-0"),
        };
        let content = match name.ends_with(".log") && how & 1 == 0 {
            true => with_checksums(content),
            false => content.to_vec(),
        };
        disk.put(&folder.join(name), &content);
    }
    let config = Arc::new(LogConfig {
        segment_bytes: 1 << 16,
        index_interval_bytes: 64,
        producer_id_expiration_ms: Duration::MAX,
        ..LogConfig::default()
    });
    let mut before = None;
    // Recovery is idempotent, also where nothing told that the first had ended.
    for round in 0..2 {
        let Some((directories, closed)) = start(&disk) else { return };
        for closed in closed {
            let Ok(log) = closed.open(Arc::clone(&config), NOW) else { return };
            let now = read(&log);
            if let Some(before) = &before {
                assert!(now == *before, "another log in round {round}: {now:?}, {before:?}");
            }
            before = Some(now);
        }
        if how & 2 == 0 {
            directories.close(None);
        } else {
            directories.abandon();
        }
    }
}
