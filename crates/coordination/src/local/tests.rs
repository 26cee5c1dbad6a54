use super::*;
use crate::path;
use crate::{Change, CreateMode, Event, Events, Op, Read, SessionHandle};
use bytes::Bytes;
use model::Timestamp;
use platform::MemoryDisk;
use platform::clock::ManualClock;
use platform::disk::WriteFault;
use std::future::Future;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn store(disk: &MemoryDisk) -> LocalStore {
    LocalStore::open_inline(Arc::new(disk.clone()), Path::new("/store"), clock()).unwrap()
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(NOW))
}

/// Inline stores answer at once: nothing is ever waited for.
fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn session(store: &LocalStore) -> (SessionHandle, Events) {
    now(store.open_session()).unwrap()
}

fn events(events: &mut Events) -> Vec<(Change, String)> {
    std::iter::from_fn(|| events.try_recv().ok())
        .map(|event| match event {
            Event::Watched(change, path) => (change, path),
            Event::Disconnected | Event::Lapsed | Event::Connected | Event::Expired => {
                panic!("{event:?}")
            }
        })
        .collect()
}

fn data(session: &SessionHandle, path: &str) -> Option<String> {
    now(session.get(path, false))
        .ok()
        .map(|(data, _)| String::from_utf8(data.unwrap_or_default().to_vec()).unwrap())
}

#[test]
fn null_and_empty_data_differ_also_after_a_restart() {
    let disk = MemoryDisk::new();
    let (s, _events) = session(&store(&disk));
    now(s.multi(vec![Op::create_null("/null"), Op::create("/empty", "")])).unwrap();
    let (s, _events) = session(&store(&disk.copy()));
    assert_eq!(now(s.get("/null", false)).unwrap().0, None);
    assert_eq!(now(s.get("/empty", false)).unwrap().0, Some(Bytes::new()));
}

#[test]
fn sequential_names_count_the_children_that_ever_were() {
    let disk = MemoryDisk::new();
    let (s, _events) = session(&store(&disk));
    let create =
        |s: &SessionHandle| now(s.create("/c/n_", None, CreateMode::PersistentSequential)).unwrap();
    now(s.create("/c", None, CreateMode::Persistent)).unwrap();
    assert_eq!(create(&s), "/c/n_0000000000");
    now(s.delete("/c/n_0000000000", None)).unwrap();
    assert_eq!(create(&s), "/c/n_0000000001");
    let (s, _events) = session(&store(&disk.copy()));
    assert_eq!(create(&s), "/c/n_0000000002");
}

#[test]
fn a_restart_keeps_everything_but_the_last_process_ephemerals() {
    let disk = MemoryDisk::new();
    let before = {
        let (s, _events) = session(&store(&disk));
        now(s.multi(vec![Op::create("/a", "1"), Op::create_ephemeral("/e", None)])).unwrap();
        now(s.set("/a", "2", Some(0))).unwrap();
        (s.id(), now(s.exists("/a", false)).unwrap())
    };
    let (s, _events) = session(&store(&disk.copy()));
    assert_eq!(now(s.exists("/a", false)).unwrap(), before.1);
    assert_eq!((data(&s, "/a"), data(&s, "/e")), (Some("2".into()), None));
    assert!(s.id() > before.0, "a session id is never used twice");
}

#[test]
fn an_acknowledged_change_survives_a_power_cut_at_any_moment() {
    // Enough data for several rotations, each cut at every change of the disk.
    let write = |disk: &MemoryDisk| {
        let store = LocalStore::open_inline(Arc::new(disk.clone()), Path::new("/store"), clock());
        let Ok(store) = store else { return 0 };
        let Ok((s, _events)) = now(store.open_session()) else { return 0 };
        let mut acknowledged = 0;
        for i in 0..30 {
            let data = vec![b'x'; 5_000];
            let ops = vec![Op::create(format!("/n{i}"), data), Op::create_null(format!("/n{i}/c"))];
            match now(s.multi(ops)) {
                Ok(_) => acknowledged += 1,
                Err(_) => break,
            }
        }
        acknowledged
    };
    let whole = MemoryDisk::new();
    assert_eq!(write(&whole), 30);
    let files: Vec<_> = whole.files().into_iter().map(|(path, _)| path).collect();
    assert!(files.iter().any(|f| f.display().to_string().contains("snapshot.")), "{files:?}");
    assert!(whole.used() < 400_000, "old files are removed");
    for cut in 0..whole.changes() {
        let disk = MemoryDisk::new();
        disk.cut_power_after(cut);
        let acknowledged = write(&disk);
        let (s, _events) = session(&store(&disk.crash(cut)));
        let there = (0..30).take_while(|i| data(&s, &format!("/n{i}/c")).is_some()).count();
        let parents = (0..30).take_while(|i| data(&s, &format!("/n{i}")).is_some()).count();
        assert!(there >= acknowledged, "cut {cut}: {there} of {acknowledged}");
        assert_eq!(there, parents, "cut {cut}: half a transaction");
    }
}

#[test]
fn damage_inside_the_log_is_an_error_and_not_a_torn_end() {
    let disk = MemoryDisk::new();
    {
        let (s, _events) = session(&store(&disk));
        now(s.create("/a", Some("first".into()), CreateMode::Persistent)).unwrap();
        now(s.create("/b", Some("second".into()), CreateMode::Persistent)).unwrap();
    }
    let disk = disk.copy();
    let (path, mut bytes) = disk
        .files()
        .into_iter()
        .find(|(path, _)| path.display().to_string().contains("log."))
        .unwrap();
    let at = bytes.windows(5).position(|w| w == b"first").unwrap();
    bytes[at] ^= 1;
    disk.put(&path, &bytes);
    let opened = LocalStore::open_inline(Arc::new(disk), Path::new("/store"), clock());
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_full_disk_refuses_changes_takes_them_back_and_recovers() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let ((s, _e), (other, mut seen)) = (session(&store), session(&store));
    now(s.create("/a", Some("1".into()), CreateMode::Persistent)).unwrap();
    now(other.get("/a", true)).unwrap();
    for fault in [WriteFault::Fails, WriteFault::Short] {
        disk.fail_write(0, fault);
        let result = now(s.multi(vec![Op::set("/a", "2"), Op::create_ephemeral("/e", None)]));
        assert!(matches!(result, Err(StoreError::NotWritten(_))), "{result:?}");
        assert_eq!((data(&s, "/a"), data(&s, "/e")), (Some("1".into()), None));
        assert_eq!(events(&mut seen), []);
    }
    now(s.set("/a", "3", Some(0))).unwrap();
    assert_eq!(events(&mut seen), [(Change::Data, "/a".to_owned())], "the watch was armed again");
    let (s, _events) = session(&self::store(&disk.copy()));
    assert_eq!(data(&s, "/a"), Some("3".into()));
}

#[test]
fn requests_made_before_anyone_waits_keep_their_order_through_the_thread() {
    let disk = MemoryDisk::new();
    let store = LocalStore::open(Arc::new(disk.clone()), Path::new("/store"), clock()).unwrap();
    let (s, _events) = session(&store);
    now(s.create("/a", None, CreateMode::Persistent)).unwrap();
    let pending: Vec<_> = (0..1000).map(|i| s.multi(vec![Op::set_if("/a", "x", i)])).collect();
    let read = s.read_all(vec![Read::data("/a")]);
    pending.into_iter().for_each(|p| drop(now(p).unwrap()));
    assert!(now(read).unwrap()[0].is_ok());
    assert!(disk.writes() < 1000, "queued changes are flushed together");
    store.shut_down();
    assert!(matches!(now(s.close()), Err(StoreError::Failed(_))));
    let (s, _events) = session(&self::store(&disk));
    assert_eq!(now(s.exists("/a", false)).unwrap().unwrap().version, 1000);
}

#[test]
fn another_store_in_the_same_directory_is_refused() {
    let disk = MemoryDisk::new();
    let _first = store(&disk);
    let second = LocalStore::open_inline(Arc::new(disk), Path::new("/store"), clock());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// The files of a store where they were at first.
fn at_its_former_place(disk: &MemoryDisk) -> MemoryDisk {
    let former = MemoryDisk::new();
    for (path, bytes) in disk.files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let name = match name {
            "barnabas-store.lock" => ".lock",
            name => name.strip_prefix("barnabas-store.").unwrap(),
        };
        former.put(&Path::new("/store/.barnabas-store").join(name), &bytes);
    }
    former
}

#[test]
fn a_store_of_the_former_layout_moves_and_a_crash_on_the_way_loses_nothing() {
    let disk = MemoryDisk::new();
    let (s, _events) = session(&store(&disk));
    now(s.create("/a", Some("1".into()), CreateMode::Persistent)).unwrap();
    // Enough for a snapshot.
    for _ in 0..30 {
        now(s.set("/a", vec![b'x'; 4096], None)).unwrap();
    }
    now(s.set("/a", "2", None)).unwrap();
    drop(s);
    assert!(disk.files().iter().any(|(path, _)| path.to_string_lossy().contains("snapshot")));
    for changes in 0.. {
        let former = at_its_former_place(&disk);
        former.cut_power_after(changes);
        let interrupted =
            LocalStore::open_inline(Arc::new(former.clone()), Path::new("/store"), clock());
        let is_done = interrupted.is_ok();
        drop(interrupted);
        for seed in 0..4 {
            let (s, _events) = session(&store(&former.crash(seed)));
            assert_eq!(
                data(&s, "/a").as_deref(),
                Some("2"),
                "after {changes} changes, seed {seed}"
            );
        }
        if is_done {
            assert!(changes > 5, "it was cut short at each step");
            let moved = former.files();
            assert!(
                moved.iter().all(|(path, _)| path.parent() == Some(Path::new("/store"))),
                "{moved:?}"
            );
            break;
        }
    }
}

#[test]
fn two_stores_in_one_place_are_not_mixed() {
    let disk = MemoryDisk::new();
    drop(store(&disk));
    for (path, bytes) in at_its_former_place(&disk).files() {
        disk.put(&path, &bytes);
    }
    let opened = LocalStore::open_inline(Arc::new(disk), Path::new("/store"), clock());
    assert!(opened.unwrap_err().to_string().contains("another one beside it"));
}

/// What is written must be readable: a deeper tree was refused when the next start read the snapshot.
#[test]
fn no_tree_is_deeper_than_what_a_start_reads() {
    let disk = MemoryDisk::new();
    let mut depth = 0;
    let (s, _events) = session(&store(&disk));
    while now(s.multi(vec![Op::create_null("/x".repeat(depth + 1))])).is_ok() {
        depth += 1;
        assert!(depth < 1000);
    }
    assert_eq!(depth, path::MAX_NAMES);
    // As much as makes it write a snapshot.
    for n in 0..40 {
        now(s.multi(vec![Op::create(format!("/large{n}"), vec![b'x'; 256 << 10])])).unwrap();
    }
    drop(s);
    let (s, _events) = session(&store(&disk.copy()));
    assert!(now(s.exists(&"/x".repeat(depth), false)).unwrap().is_some());
}
