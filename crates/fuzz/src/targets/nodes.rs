//! The metadata store: its files, and nodes that others wrote.

use super::Input;
use bytes::Bytes;
use controller::{KnownCluster, MetadataCopy};
use coordination::local::LocalStore;
use coordination::{CreateMode, SessionHandle, Store};
use platform::MemoryDisk;
use platform::clock::ManualClock;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.unwrap_or_else(|error| panic!("a runtime: {error}"))
});

/// What is read of a store by somebody who joins it, or takes it elsewhere.
async fn look_around(session: &SessionHandle) {
    let _ = KnownCluster::read(session).await;
    let _ = MetadataCopy::read(session).await;
}

pub(super) fn store(input: &[u8]) {
    let mut input = Input(input);
    let disk = MemoryDisk::new();
    while !input.is_empty() {
        let (which, content) = (input.u8(), input.part());
        let kind = if which & 1 == 0 { "snapshot" } else { "log" };
        let name = format!("barnabas-store.{kind}.{:020}", which >> 1);
        disk.put(&Path::new("/store").join(name), content);
    }
    RUNTIME.block_on(async {
        for _ in 0..2 {
            let clock = Arc::new(ManualClock::default());
            let opened =
                LocalStore::open_inline(Arc::new(disk.clone()), Path::new("/store"), clock);
            let Ok(store) = opened else { return };
            if let Ok((session, _events)) = store.open_session().await {
                look_around(&session).await;
            }
            store.shut_down();
        }
    });
}

/// Where nodes with content are looked for.
const PATHS: [&str; 12] = [
    "/cluster/id",
    "/brokers/ids/1",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions/0/state",
    "/brokers/topics/t/partitions/1/state",
    "/brokers/topics/u",
    "/config/topics/t",
    "/config/brokers/1",
    "/config/topics/u",
    "/controller_epoch",
    "/latest_producer_id_block",
    "/brokers/seqid",
];

pub(super) fn nodes(input: &[u8]) {
    RUNTIME.block_on(async {
        let disk = Arc::new(MemoryDisk::new());
        let clock = Arc::new(ManualClock::default());
        let opened = LocalStore::open_inline(disk, Path::new("/store"), clock);
        let store = opened.unwrap_or_else(|error| panic!("an empty store: {error}"));
        let Ok((session, _events)) = store.open_session().await else { return };
        let mut input = Input(input);
        while !input.is_empty() {
            let path = PATHS[usize::from(input.u8()) % PATHS.len()];
            let content = Bytes::copy_from_slice(input.part());
            for (at, _) in path.match_indices('/').skip(1) {
                let _ = session.create(&path[..at], None, CreateMode::Persistent).await;
            }
            let _ = session.create(path, Some(content), CreateMode::Persistent).await;
        }
        look_around(&session).await;
        drop(session);
        store.shut_down();
    });
}

/// What stands in a cluster's nodes.
const CONTENTS: [(u8, &str); 8] = [
    (0, r#"{"version":"1","id":"DnqpQmGZQFGuJ0p2E3cVjQ"}"#),
    (
        2,
        r#"{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"w7fWuXzSSD2ujKbOZMqWQg","adding_replicas":{},"removing_replicas":{},"version":3}"#,
    ),
    (
        3,
        r#"{"controller_epoch":5,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2],"leader_recovery_state":0}"#,
    ),
    (4, r#"{"controller_epoch":5,"leader":-1,"version":1,"leader_epoch":7,"isr":[2]}"#),
    (6, r#"{"version":1,"config":{"retention.ms":"5","cleanup.policy":"compact"}}"#),
    (9, "5"),
    (10, r#"{"version":1,"broker":1,"block_start":"0","block_end":"999"}"#),
    (
        1,
        r#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h","version":5,"timestamp":"1"}"#,
    ),
];

pub(crate) fn node_seeds() -> Vec<Vec<u8>> {
    let one = |(path, content): &(u8, &str)| {
        let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
        [&[*path][..], &length.to_le_bytes(), content.as_bytes()].concat()
    };
    let mut seeds: Vec<_> = CONTENTS.iter().map(one).collect();
    seeds.push(seeds.concat());
    seeds
}

/// The files of a store with a few nodes.
pub(crate) fn store_seeds() -> Vec<Vec<u8>> {
    let disk = MemoryDisk::new();
    RUNTIME.block_on(async {
        let clock = Arc::new(ManualClock::default());
        let opened = LocalStore::open_inline(Arc::new(disk.clone()), Path::new("/store"), clock);
        let Ok(store) = opened else { return };
        if let Ok((session, _events)) = store.open_session().await {
            for path in ["/brokers", "/brokers/topics", "/brokers/topics/t"] {
                let data = Some(Bytes::from_static(b"{}"));
                let _ = session.create(path, data, CreateMode::Persistent).await;
            }
        }
        store.shut_down();
    });
    let mut all = Vec::new();
    for (path, content) in disk.files() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.rsplit('.').next().and_then(|digits| digits.parse::<u8>().ok());
        if let (Some(number), Ok(length)) = (number, u16::try_from(content.len())) {
            let kind = u8::from(!name.contains("snapshot"));
            all.extend([&[number << 1 | kind][..], &length.to_le_bytes(), &content].concat());
        }
    }
    vec![all]
}
