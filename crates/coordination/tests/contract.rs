//! What every store does, whichever back-end it has. ZooKeeper's half needs Java and Maven:
//! `cargo test -p coordination --test contract -- --ignored`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../zookeeper/tests/ensemble/mod.rs"]
mod ensemble;

use bytes::Bytes;
use coordination::local::LocalStore;
use coordination::zookeeper::{ZooKeeperConfig, ZooKeeperStore};
use coordination::{Change, CreateMode, Event, Events, Op, OpResult, Read, ReadResult};
use coordination::{SessionHandle, Store, StoreError};
use ensemble::Ensemble;
use platform::clock::SystemClock;
use platform::random::SystemRandom;
use platform::{Clock, MemoryDisk};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zookeeper::{Environment, Settings};

const PATIENCE: Duration = Duration::from_secs(60);

fn local() -> Arc<dyn Store> {
    let clock = Arc::new(SystemClock::new());
    let disk = Arc::new(MemoryDisk::new());
    Arc::new(LocalStore::open_inline(disk, Path::new("/store"), clock).unwrap())
}

/// A store below a chroot of its own, which does not exist before, on a server that all tests share.
fn zookeeper(server: &Ensemble, name: &str) -> Arc<dyn Store> {
    let servers = format!("{}/chroot/of/{name}", server.connect_string());
    Arc::new(store_on(&servers, Duration::from_secs(6)))
}

fn store_on(servers: &str, timeout: Duration) -> ZooKeeperStore {
    let settings = Settings {
        session_timeout: timeout,
        connection_timeout: if servers.contains("127.0.0.1:1/") { timeout } else { PATIENCE },
        ..Settings::default()
    };
    let config = ZooKeeperConfig { servers: servers.parse().unwrap(), settings, protect: false };
    let environment =
        Environment { clock: Arc::new(SystemClock::new()), random: Arc::new(SystemRandom) };
    ZooKeeperStore::start(config, environment).unwrap()
}

/// Each rule as a test of the embedded store, and all of them, one after the other, of ZooKeeper.
macro_rules! contract {
    ($($rule:ident),* $(,)?) => {
        mod embedded {
            $(#[test]
            fn $rule() {
                super::run(super::$rule(super::local()));
            })*
        }

        #[test]
        #[ignore = "needs Java and Maven"]
        fn zookeeper_keeps_the_contract() {
            let server = Ensemble::start(1, &[]);
            $(println!("{}", stringify!($rule));
            run($rule(zookeeper(&server, stringify!($rule))));)*
        }
    };
}

contract!(
    versions_guard_changes_and_a_failed_transaction_leaves_no_trace,
    a_stat_tells_everything,
    null_and_empty_data_differ,
    sequential_names_count_the_children_that_ever_were,
    watches_fire_once_and_say_what_happened,
    an_event_comes_before_what_is_read_later,
    ephemeral_nodes_vanish_with_their_session,
    requests_keep_their_order_without_anyone_waiting,
    ten_thousand_reads_go_in_one_request,
    what_is_no_path_is_refused,
    of_many_sessions_one_wins,
    a_store_that_was_shut_down_fails_and_does_not_hang,
);

fn run(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(2 * PATIENCE, future).await };
    runtime.block_on(bounded).expect("in time");
}

async fn session(store: &Arc<dyn Store>) -> (SessionHandle, Events) {
    store.open_session().await.unwrap()
}

/// The next `count` events; there must be no more once a read was answered.
async fn events(
    session: &SessionHandle,
    events: &mut Events,
    count: usize,
) -> Vec<(Change, String)> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let event = tokio::time::timeout(PATIENCE, events.recv()).await.expect("in time");
        seen.push(event.expect("the session goes on"));
    }
    session.exists("/", false).await.unwrap();
    seen.extend(std::iter::from_fn(|| events.try_recv().ok()));
    let watched = |event| match event {
        Event::Watched(change, path) => (change, path),
        Event::Disconnected | Event::Lapsed | Event::Connected | Event::Expired => {
            panic!("{event:?}")
        }
    };
    seen.into_iter().map(watched).collect()
}

async fn data(session: &SessionHandle, path: &str) -> Option<String> {
    let (data, _) = session.get(path, false).await.ok()?;
    Some(String::from_utf8(data.unwrap_or_default().to_vec()).unwrap())
}

async fn versions_guard_changes_and_a_failed_transaction_leaves_no_trace(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    s.create("/a", None, CreateMode::Persistent).await.unwrap();
    assert_eq!(s.set("/a", "1", Some(0)).await.unwrap().version, 1);
    assert_eq!(s.set("/a", "2", Some(0)).await, Err(StoreError::BadVersion("/a".into())));
    let failing = vec![
        Op::set("/a", "3"),
        Op::create("/a/b", "x"),
        Op::create_ephemeral("/e", None),
        Op::check("/a", 1),
    ];
    let before = s.exists("/a", false).await.unwrap();
    assert_eq!(s.multi(failing).await, Err(StoreError::BadVersion("/a".into())));
    assert_eq!(s.exists("/a", false).await.unwrap(), before);
    let left = (data(&s, "/a").await, data(&s, "/a/b").await, data(&s, "/e").await);
    assert_eq!(left, (Some("1".into()), None, None));

    let good = vec![Op::check("/a", 1), Op::create("/a/b", "x"), Op::set("/a/b", "y")];
    let results = s.multi(good).await.unwrap();
    let [OpResult::Checked, OpResult::Created(path), OpResult::Set(set)] = &results[..] else {
        panic!("{results:?}")
    };
    assert_eq!((path.as_str(), set.czxid, set.version), ("/a/b", set.mzxid, 1));
    assert_eq!(s.multi(vec![Op::check("/a", 1)]).await, Ok(vec![OpResult::Checked]));
    assert_eq!(s.multi(vec![]).await, Ok(vec![]));
    assert_eq!(s.delete("/a", None).await, Err(StoreError::NotEmpty("/a".into())));
    s.delete("/a/b", Some(1)).await.unwrap();
    assert_eq!(s.delete("/a/b", None).await, Err(StoreError::NoNode("/a/b".into())));
    let again = s.create("/a", None, CreateMode::Persistent).await;
    assert_eq!(again, Err(StoreError::NodeExists("/a".into())));
    let orphan = s.create("/no/such", None, CreateMode::Persistent).await;
    assert_eq!(orphan, Err(StoreError::NoNode("/no".into())));
    let two = vec![Op::check("/a", 1), Op::create("/none/such", "")];
    assert_eq!(s.multi(two).await, Err(StoreError::NoNode("/none".into())));
}

async fn a_stat_tells_everything(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    let ops = vec![Op::create_ephemeral("/id", None), Op::set_if("/id", "data", 0)];
    let [_, OpResult::Set(stat)] = s.multi(ops).await.unwrap()[..] else { panic!("no stat") };
    assert_eq!(s.exists("/id", false).await.unwrap(), Some(stat));
    assert_eq!((stat.czxid, stat.version, stat.data_length), (stat.mzxid, 1, 4));
    assert_eq!((stat.ephemeral_owner, stat.num_children), (Some(s.id()), 0));
    assert!(stat.ctime.0 > 1_600_000_000_000, "{stat:?}");
    s.create("/a", None, CreateMode::Persistent).await.unwrap();
    s.create("/a/b", None, CreateMode::Persistent).await.unwrap();
    let parent = s.exists("/a", false).await.unwrap().unwrap();
    let child = s.exists("/a/b", false).await.unwrap().unwrap();
    assert!(child.czxid > parent.czxid && parent.czxid > stat.czxid);
    assert_eq!((parent.num_children, parent.cversion, parent.pzxid), (1, 1, child.czxid));
    assert_eq!((parent.ephemeral_owner, parent.data_length), (None, 0));
    s.delete("/a/b", None).await.unwrap();
    assert_eq!(s.exists("/a", false).await.unwrap().unwrap().cversion, 2);
}

async fn null_and_empty_data_differ(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    s.multi(vec![Op::create_null("/null"), Op::create("/empty", "")]).await.unwrap();
    assert_eq!(s.get("/null", false).await.unwrap().0, None);
    assert_eq!(s.get("/empty", false).await.unwrap().0, Some(Bytes::new()));
}

async fn sequential_names_count_the_children_that_ever_were(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    s.create("/c", None, CreateMode::Persistent).await.unwrap();
    let sequential = CreateMode::PersistentSequential;
    assert_eq!(s.create("/c/n_", None, sequential).await, Ok("/c/n_0000000000".into()));
    s.delete("/c/n_0000000000", None).await.unwrap();
    assert_eq!(s.create("/c/n_", None, sequential).await, Ok("/c/n_0000000001".into()));
    let ephemeral = CreateMode::EphemeralSequential;
    assert_eq!(s.create("/c/e_", None, ephemeral).await, Ok("/c/e_0000000002".into()));
    assert_eq!(s.children("/c", false).await.unwrap(), ["e_0000000002", "n_0000000001"]);
}

async fn watches_fire_once_and_say_what_happened(store: Arc<dyn Store>) {
    let ((writer, _e), (reader, mut seen)) = (session(&store).await, session(&store).await);
    let on = |path: &str, change| (change, path.to_owned());
    // A missing node: `exists` leaves a watch, `get` and `children` do not.
    reader.exists("/a", true).await.unwrap();
    assert!(reader.get("/b", true).await.is_err() && reader.children("/b", true).await.is_err());
    writer.multi(vec![Op::create_null("/a"), Op::create_null("/b")]).await.unwrap();
    assert_eq!(events(&reader, &mut seen, 1).await, [on("/a", Change::Created)]);
    writer.set("/a", "1", None).await.unwrap();
    assert_eq!(events(&reader, &mut seen, 0).await, [], "spent");
    // Data and children are watched apart.
    reader.get("/a", true).await.unwrap();
    reader.children("/b", true).await.unwrap();
    let ops = vec![Op::set("/a", "2"), Op::set("/b", "2"), Op::create_null("/b/c")];
    writer.multi(ops).await.unwrap();
    let expected = [on("/a", Change::Data), on("/b", Change::Children)];
    assert_eq!(events(&reader, &mut seen, 2).await, expected);
    // A deletion fires both kinds; the parent's children change too. The embedded store tells of the
    // deletion once, ZooKeeper's servers once for each kind; the client passes on the first.
    reader.get("/b/c", true).await.unwrap();
    reader.children("/b/c", true).await.unwrap();
    reader.children("/b", true).await.unwrap();
    writer.delete("/b/c", None).await.unwrap();
    let expected = [on("/b/c", Change::Deleted), on("/b", Change::Children)];
    assert_eq!(events(&reader, &mut seen, 2).await, expected);
    // A transaction that fails fires nothing.
    reader.exists("/d", true).await.unwrap();
    assert!(writer.multi(vec![Op::create_null("/d"), Op::check("/d", 7)]).await.is_err());
    assert_eq!(events(&reader, &mut seen, 0).await, []);
    writer.create("/d", None, CreateMode::Persistent).await.unwrap();
    assert_eq!(events(&reader, &mut seen, 1).await, [on("/d", Change::Created)]);
}

async fn an_event_comes_before_what_is_read_later(store: Arc<dyn Store>) {
    let ((writer, _e), (reader, mut seen)) = (session(&store).await, session(&store).await);
    writer.create("/a", None, CreateMode::Persistent).await.unwrap();
    for round in 0..200 {
        let (_, before) = reader.get("/a", true).await.unwrap();
        let write = writer.multi(vec![Op::set("/a", "x")]);
        let (_, after) = reader.get("/a", false).await.unwrap();
        if after.version > before.version {
            assert!(seen.try_recv().is_ok(), "round {round}");
        }
        write.await.unwrap();
        reader.get("/a", false).await.unwrap();
        while seen.try_recv().is_ok() {}
    }
}

async fn ephemeral_nodes_vanish_with_their_session(store: Arc<dyn Store>) {
    let ((one, mut over), (two, mut seen)) = (session(&store).await, session(&store).await);
    one.create("/e", None, CreateMode::Ephemeral).await.unwrap();
    assert_eq!(two.exists("/e", true).await.unwrap().unwrap().ephemeral_owner, Some(one.id()));
    let child = two.create("/e/c", None, CreateMode::Persistent).await;
    assert_eq!(child, Err(StoreError::NoChildrenForEphemerals("/e/c".into())));
    one.close().await.unwrap();
    assert_eq!(events(&two, &mut seen, 1).await, [(Change::Deleted, "/e".to_owned())]);
    assert_eq!(over.recv().await, Some(Event::Expired));
    assert_eq!(one.exists("/e", false).await, Err(StoreError::SessionExpired));
    assert_eq!(one.set("/e", "x", None).await, Err(StoreError::SessionExpired));
    assert_ne!(one.id(), two.id());
}

async fn requests_keep_their_order_without_anyone_waiting(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    s.create("/a", None, CreateMode::Persistent).await.unwrap();
    let pending: Vec<_> = (0..500).map(|i| s.multi(vec![Op::set_if("/a", "x", i)])).collect();
    let read = s.read_all(vec![Read::data("/a")]);
    for one in pending {
        one.await.unwrap();
    }
    let read = read.await.unwrap();
    assert!(matches!(read[..], [Ok(ReadResult::Data(_, stat))] if stat.version == 500));
}

async fn ten_thousand_reads_go_in_one_request(store: Arc<dyn Store>) {
    let clock = SystemClock::new();
    let (s, _events) = session(&store).await;
    let nodes: Vec<String> = (0..10_000).map(|i| format!("/p/{i}")).collect();
    s.create("/p", None, CreateMode::Persistent).await.unwrap();
    for some in nodes.chunks(2500) {
        s.multi(some.iter().map(|path| Op::create(path, path.clone())).collect()).await.unwrap();
    }
    let reads = nodes.iter().map(Read::data).chain([Read::data("/missing")]).collect();
    let start = clock.now();
    let mut found = s.read_all(reads).await.unwrap();
    println!("10,000 reads: {:?}", clock.now().since(start));
    assert_eq!(found.pop(), Some(Err(StoreError::NoNode("/missing".into()))));
    for (path, found) in nodes.iter().zip(found) {
        assert!(matches!(found, Ok(ReadResult::Data(Some(data), _)) if data == path));
    }
    assert_eq!(s.children("/p", false).await.unwrap().len(), nodes.len());
}

async fn what_is_no_path_is_refused(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    for path in ["", "a", "/a/", "/a//b", "/a/../b", "/a/\0"] {
        let created = s.create(path, None, CreateMode::Persistent).await;
        assert!(matches!(created, Err(StoreError::BadArguments(_))), "{path:?}: {created:?}");
        let read = s.get(path, false).await;
        assert!(matches!(read, Err(StoreError::BadArguments(_))), "{path:?}: {read:?}");
    }
}

async fn of_many_sessions_one_wins(store: Arc<dyn Store>) {
    let mut sessions = BTreeMap::new();
    for _ in 0..8 {
        let (one, events) = session(&store).await;
        sessions.insert(one.id(), (one, events));
    }
    sessions.values().next().unwrap().0.create_parents("/epoch").await.unwrap();
    let race: Vec<_> = sessions
        .iter()
        .map(|(&id, (one, _))| {
            let ops = vec![Op::create_ephemeral("/controller", None), Op::set_if("/epoch", "1", 0)];
            (id, one.multi(ops))
        })
        .collect();
    let mut won = Vec::new();
    for (id, result) in race {
        match result.await {
            Ok(_) => won.push(id),
            Err(error) => assert_eq!(error, StoreError::NodeExists("/controller".into())),
        }
    }
    let [winner] = won[..] else { panic!("{won:?}") };
    let observer = sessions.keys().find(|&&id| id != winner).unwrap();
    let stat = sessions[observer].0.exists("/controller", false).await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, Some(winner));
}

async fn a_store_that_was_shut_down_fails_and_does_not_hang(store: Arc<dyn Store>) {
    let (s, _events) = session(&store).await;
    store.shut_down();
    assert!(matches!(s.exists("/", false).await, Err(StoreError::Failed(_))));
    assert!(matches!(store.open_session().await, Err(StoreError::Failed(_))));
}

#[test]
fn a_session_on_no_server_is_given_up_in_time() {
    run(async {
        let store = store_on("127.0.0.1:1/x", Duration::from_secs(1));
        let opened = store.open_session().await;
        assert!(
            matches!(&opened, Err(StoreError::Unreachable(why)) if why.contains("127.0.0.1:1"))
        );
    });
}
