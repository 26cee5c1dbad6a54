//! The recipe that a ZooKeeper client must pass, against real servers.
//!
//! `cargo test -p zookeeper --test real -- --ignored --test-threads=1`; needs Java and Maven. Prints what it
//! measures with `--nocapture`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for what it names")]

mod ensemble;

use bytes::Bytes;
use ensemble::{Ensemble, Proxy, SECURE, TLS_PASSWORD};
use platform::Clock;
use platform::clock::SystemClock;
use platform::random::SystemRandom;
use security::{StoreFile, TlsClient, TlsClientSettings, TlsVersion};
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use zookeeper::{
    Acl, Answer, Call, Change, Client, CreateMode, Environment, Error, Event, Login, Op, OpResult,
    Refusal, Settings, Stat,
};

const SECOND: Duration = Duration::from_secs(1);
/// No single wait of a test takes longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(60);

struct Session {
    client: Client,
    events: UnboundedReceiver<Event>,
}

fn settings(timeout: Duration) -> Settings {
    Settings {
        session_timeout: timeout,
        connection_timeout: PATIENCE,
        max_in_flight: 1000,
        ..Settings::default()
    }
}

fn environment() -> Environment {
    Environment { clock: Arc::new(SystemClock::new()), random: Arc::new(SystemRandom) }
}

async fn open(servers: &str, settings: Settings) -> Result<Session, Error> {
    let (sender, events) = mpsc::unbounded_channel();
    let tell = Box::new(move |event| drop(sender.send(event)));
    let client = Client::open(servers.parse().unwrap(), settings, environment(), tell).await?;
    Ok(Session { client, events })
}

async fn session(servers: &str, timeout: Duration) -> Session {
    open(servers, settings(timeout)).await.unwrap()
}

impl Session {
    async fn create(&self, path: &str, mode: CreateMode) -> Result<String, Error> {
        self.create_with(path, mode, vec![Acl::world(Acl::ALL)]).await
    }

    async fn create_with(
        &self,
        path: &str,
        mode: CreateMode,
        acl: Vec<Acl>,
    ) -> Result<String, Error> {
        match self.client.call(Call::Single(create(path, mode, acl))).await? {
            Answer::Done(results) => match &results[..] {
                [OpResult::Created(path)] => Ok(path.clone()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn set(&self, path: &str, data: &str, version: Option<i32>) -> Result<Stat, Error> {
        match self.client.call(set(path, data, version)).await? {
            Answer::Done(results) => match &results[..] {
                [OpResult::Set(stat)] => Ok(*stat),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn delete(&self, path: &str) -> Result<(), Error> {
        let op = Op::Delete { path: path.into(), version: None };
        self.client.call(Call::Single(op)).await.map(drop)
    }

    async fn exists(&self, path: &str, watch: bool) -> Option<Stat> {
        match self.client.call(Call::Exists { path: path.into(), watch }).await.unwrap() {
            Answer::Exists(stat) => stat,
            other => panic!("{other:?}"),
        }
    }

    async fn get(&self, path: &str, watch: bool) -> Result<(Option<Bytes>, Stat), Error> {
        match self.client.call(Call::GetData { path: path.into(), watch }).await? {
            Answer::Data(data, stat) => Ok((data, stat)),
            other => panic!("{other:?}"),
        }
    }

    async fn children(&self, path: &str, watch: bool) -> Result<Vec<String>, Error> {
        match self.client.call(Call::GetChildren { path: path.into(), watch }).await? {
            Answer::Children(mut names, _) => {
                names.sort();
                Ok(names)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn sync(&self) {
        assert_eq!(self.client.call(Call::Sync { path: "/".into() }).await, Ok(Answer::Synced));
    }

    async fn event(&mut self) -> Event {
        within(self.events.recv()).await.expect("the session goes on")
    }

    /// Waits for `wanted`; nothing else may come before.
    async fn expect(&mut self, wanted: Event) {
        assert_eq!(self.event().await, wanted);
    }

    async fn close(&self) {
        assert_eq!(self.client.call(Call::Close).await, Ok(Answer::Closed));
    }
}

fn create(path: &str, mode: CreateMode, acl: Vec<Acl>) -> Op {
    Op::Create { path: path.into(), data: None, acl, mode }
}

fn set(path: &str, data: &str, version: Option<i32>) -> Call {
    let data = Some(Bytes::copy_from_slice(data.as_bytes()));
    Call::Single(Op::Set { path: path.into(), data, version })
}

fn refused<T>(refusal: Refusal) -> Result<T, Error> {
    Err(Error::Refused { index: 0, refusal })
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

fn watched(change: Change, path: &str) -> Event {
    Event::Watched(change, path.to_owned())
}

/// What every server version must do.
async fn everything(servers: &str) {
    everything_below("root", servers, settings(4 * SECOND)).await;
}

async fn everything_below(root: &str, servers: &str, settings: Settings) {
    let session = async |servers: &str| open(servers, settings.clone()).await.unwrap();
    let chroot = session(servers).await;
    let path = format!("/{root}");
    chroot.create(&path, CreateMode::Persistent).await.unwrap();
    let below = format!("{servers}{path}");
    let (one, mut two) = (session(&below).await, session(&below).await);
    assert_eq!(one.create("/a", CreateMode::Persistent).await, Ok("/a".into()));
    assert_eq!(one.create("/a", CreateMode::Persistent).await, refused(Refusal::NodeExists));
    assert_eq!(one.create("/b/c", CreateMode::Persistent).await, refused(Refusal::NoNode));
    assert_eq!(chroot.children(&path, false).await.unwrap(), ["a"]);
    assert_eq!(one.get("/a", false).await.unwrap().0, None, "null data");
    assert_eq!(one.set("/a", "", Some(0)).await.unwrap().version, 1);
    assert_eq!(one.set("/a", "x", Some(0)).await, refused(Refusal::BadVersion));
    assert_eq!(one.get("/a", false).await.unwrap().0, Some(Bytes::new()), "empty data");
    let sequential = CreateMode::PersistentSequential;
    assert_eq!(one.create("/a/n_", sequential).await, Ok("/a/n_0000000000".into()));
    let ephemeral = CreateMode::EphemeralSequential;
    assert_eq!(one.create("/a/", ephemeral).await, Ok("/a/0000000001".into()));
    let owner = one.exists("/a/0000000001", false).await.unwrap().ephemeral_owner;
    assert_eq!(owner, one.client.session().id);
    assert_eq!(one.delete("/a").await, refused(Refusal::NotEmpty));
    let below_ephemeral = one.create("/a/0000000001/x", CreateMode::Persistent).await;
    assert_eq!(below_ephemeral, refused(Refusal::NoChildrenForEphemerals));

    // Transactions, as Kafka registers and fences with them.
    let all = vec![Acl::world(Acl::ALL)];
    let check = |version| Op::Check { path: "/a".into(), version };
    let fill = Op::Set { path: "/id".into(), data: Some("{}".into()), version: Some(0) };
    let ops = vec![create("/id", CreateMode::Ephemeral, all.clone()), fill, check(1)];
    match one.client.call(Call::Multi(ops)).await.unwrap() {
        Answer::Done(results) => match &results[..] {
            [OpResult::Created(path), OpResult::Set(stat), OpResult::Checked] => {
                assert_eq!((path.as_str(), stat.version, stat.czxid), ("/id", 1, stat.mzxid));
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    let ops = vec![check(1), create("/z", CreateMode::Persistent, all.clone()), check(9)];
    let failed = one.client.call(Call::Multi(ops)).await;
    assert_eq!(failed, Err(Error::Refused { index: 2, refusal: Refusal::BadVersion }));
    let ops = vec![check(0), create("/z", CreateMode::Persistent, all.clone())];
    let failed = one.client.call(Call::Multi(ops)).await;
    assert_eq!(failed, Err(Error::Refused { index: 0, refusal: Refusal::BadVersion }));
    assert_eq!(one.exists("/z", false).await, None, "nothing of it was made");

    // ACLs.
    let read_only = vec![Acl::world(Acl::READ)];
    let set_acl = Call::SetAcl { path: "/a".into(), acl: read_only.clone(), version: Some(0) };
    assert!(
        matches!(one.client.call(set_acl).await, Ok(Answer::AclSet(stat)) if stat.aversion == 1)
    );
    let acl = one.client.call(Call::GetAcl { path: "/a".into() }).await;
    assert!(matches!(&acl, Ok(Answer::Acl(acl, _)) if *acl == read_only), "{acl:?}");
    assert_eq!(one.set("/a", "x", None).await, refused(Refusal::NoAuth));
    let creator = vec![Acl::creator()];
    let by_creator = one.create_with("/y", CreateMode::Persistent, creator).await;
    // With TLS, a certificate says who the creator is.
    let known = if settings.tls.is_some() { Ok("/y".into()) } else { refused(Refusal::InvalidAcl) };
    assert_eq!(by_creator, known);

    // Watches.
    two.sync().await;
    assert_eq!(two.exists("/w", true).await, None);
    two.get("/id", true).await.unwrap();
    two.children("/", true).await.unwrap();
    assert_eq!(two.get("/v", true).await.unwrap_err(), refused::<()>(Refusal::NoNode).unwrap_err());
    one.create("/w", CreateMode::Persistent).await.unwrap();
    two.expect(watched(Change::Created, "/w")).await;
    two.expect(watched(Change::Children, "/")).await;
    one.set("/w", "again", None).await.unwrap();
    one.close().await;
    two.expect(watched(Change::Deleted, "/id")).await;
    two.sync().await;
    assert!(two.events.try_recv().is_err(), "a watch is spent by its first event");
    two.close().await;
    two.expect(Event::Expired).await;
    chroot.close().await;
}

#[test]
#[ignore = "needs Java and Maven"]
fn every_call_does_what_it_says() {
    let ensemble = Ensemble::start(1, &[]);
    run(everything(&ensemble.connect_string()));
}

#[test]
#[ignore = "needs Java and Maven"]
fn servers_of_other_versions_do_the_same() {
    for version in ["3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.9.4"] {
        let ensemble = Ensemble::start(1, &["--version", version]);
        run(everything(&ensemble.connect_string()));
        println!("ZooKeeper {version}: the same");
    }
}

#[test]
#[ignore = "needs Java and Maven"]
fn twenty_thousand_watches_come_back_and_tell_what_was_missed() {
    const COUNT: usize = 20_000;
    let ensemble = Ensemble::start(1, &[]);
    run(async {
        let clock = SystemClock::new();
        let since = |start| clock.now().since(start);
        let proxy = Proxy::to(ensemble.ports()[0]);
        let writer = session(&ensemble.connect_string(), 10 * SECOND).await;
        let through = format!("127.0.0.1:{}", proxy.port());
        let mut watcher = session(&through, 10 * SECOND).await;
        let path = |i: usize| format!("/topics/a-topic-with-a-name-of-some-length-{i:05}");
        writer.create("/topics", CreateMode::Persistent).await.unwrap();
        let start = clock.now();
        let created: Vec<_> = (0..COUNT)
            .map(|i| {
                let acl = vec![Acl::world(Acl::ALL)];
                let op = create(&path(i), CreateMode::Persistent, acl);
                writer.client.call(Call::Single(op))
            })
            .collect();
        for one in created {
            within(one).await.unwrap();
        }
        println!("{COUNT} creations: {:?}", since(start));
        watcher.sync().await;
        let start = clock.now();
        let armed: Vec<_> = (0..COUNT)
            .map(|i| watcher.client.call(Call::GetData { path: path(i), watch: true }))
            .collect();
        for one in armed {
            within(one).await.unwrap();
        }
        println!("{COUNT} reads with watches: {:?}", since(start));
        watcher.children("/topics", true).await.unwrap();
        assert_eq!(watcher.exists("/missing", true).await, None);

        proxy.cut();
        watcher.expect(Event::Disconnected).await;
        writer.set(&path(7), "new", None).await.unwrap();
        writer.delete(&path(19_999)).await.unwrap();
        writer.create("/missing", CreateMode::Persistent).await.unwrap();
        let start = clock.now();
        proxy.heal();
        watcher.expect(Event::Connected).await;
        let mut missed = Vec::new();
        for _ in 0..4 {
            missed.push(watcher.event().await);
        }
        watcher.sync().await;
        println!("{COUNT} watches back through a healed connection: {:?}", since(start));
        missed.sort_by_key(|event| format!("{event:?}"));
        let mut expected = [
            watched(Change::Children, "/topics"),
            watched(Change::Created, "/missing"),
            watched(Change::Data, &path(7)),
            watched(Change::Deleted, &path(19_999)),
        ];
        expected.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(missed, expected);
        assert!(watcher.events.try_recv().is_err());

        // The only server dies and comes back.
        let ids = (watcher.client.session().id, writer.client.session().id);
        ensemble.signal(1, "KILL");
        watcher.expect(Event::Disconnected).await;
        let start = clock.now();
        ensemble.run();
        println!("the server is back after {:?}", since(start));
        loop {
            match watcher.event().await {
                Event::Connected => break,
                Event::Lapsed => {}
                other => panic!("{other:?}"),
            }
        }
        watcher.sync().await;
        println!("{COUNT} watches back on a restarted server: {:?} after its start", since(start));
        assert_eq!(ids, (watcher.client.session().id, writer.client.session().id));
        // Calls may find the writer not connected yet.
        within(async {
            for i in [0, 10_000, 19_998] {
                while writer.set(&path(i), "after", None).await.is_err() {}
            }
        })
        .await;
        for i in [0, 10_000, 19_998] {
            watcher.expect(watched(Change::Data, &path(i))).await;
        }
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_write_whose_answer_is_lost_is_uncertain_and_not_made_twice() {
    let ensemble = Ensemble::start(1, &[]);
    run(async {
        let proxy = Proxy::to(ensemble.ports()[0]);
        let direct = session(&ensemble.connect_string(), 4 * SECOND).await;
        let mut through = session(&format!("127.0.0.1:{}", proxy.port()), 4 * SECOND).await;
        direct.create("/a", CreateMode::Persistent).await.unwrap();
        direct.exists("/a", true).await.unwrap();
        proxy.mute();
        let write = through.client.call(set("/a", "x", None));
        // It has arrived when the other one hears of it.
        let mut direct = direct;
        direct.expect(watched(Change::Data, "/a")).await;
        proxy.cut();
        assert_eq!(within(write).await, Err(Error::MayHaveBeenApplied));
        through.expect(Event::Disconnected).await;
        let queued = through.client.call(set("/a", "y", None));
        proxy.heal();
        through.expect(Event::Connected).await;
        within(queued).await.unwrap();
        assert_eq!(through.get("/a", false).await.unwrap().1.version, 2);
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn the_ensembles_leader_is_killed() {
    let ensemble = Ensemble::start(3, &[]);
    run(async {
        let clock = SystemClock::new();
        let mut kept = session(&ensemble.connect_string(), 10 * SECOND).await;
        let id = kept.client.session().id;
        kept.create("/e", CreateMode::Ephemeral).await.unwrap();
        kept.create("/counter", CreateMode::Persistent).await.unwrap();
        for _ in 0..100 {
            kept.set("/counter", "x", None).await.unwrap();
        }
        let start = clock.now();
        ensemble.signal(ensemble.leader(), "KILL");
        // Followers drop their clients when their leader is gone: a write is lost or waits.
        let mut made = 100;
        within(async {
            loop {
                match kept.set("/counter", "x", None).await {
                    Ok(stat) => break made = stat.version,
                    Err(Error::MayHaveBeenApplied | Error::Disconnected) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        })
        .await;
        println!("leader killed: the next write after {:?}", clock.now().since(start));
        assert!(made > 100, "what was acknowledged is there");
        kept.expect(Event::Disconnected).await;
        kept.expect(Event::Connected).await;
        let stat = kept.exists("/e", false).await.expect("the ephemeral node is kept");
        assert_eq!((stat.ephemeral_owner, kept.client.session().id), (id, id));
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn the_connected_server_is_frozen() {
    let ensemble = Ensemble::start(3, &[]);
    run(async {
        let clock = SystemClock::new();
        // Connected to a follower, so that the ensemble goes on.
        let frozen = (1..=3).find(|&server| server != ensemble.leader()).unwrap();
        let port = ensemble.ports()[usize::from(frozen) - 1];
        let others: Vec<_> = ensemble.ports().into_iter().filter(|&other| other != port).collect();
        let proxy = Proxy::to(port);
        let servers =
            format!("127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}", proxy.port(), others[0], others[1]);
        let mut kept = loop {
            let kept = session(&servers, 6 * SECOND).await;
            let connections = ensemble.four_letters(frozen, "cons");
            if connections.contains(&format!("{:x}", kept.client.session().id)) {
                break kept;
            }
            kept.close().await;
        };
        kept.create("/e", CreateMode::Ephemeral).await.unwrap();
        let start = clock.now();
        ensemble.signal(frozen, "STOP");
        kept.expect(Event::Disconnected).await;
        println!("connected server frozen: left after {:?}", clock.now().since(start));
        kept.expect(Event::Connected).await;
        println!("connected server frozen: connected after {:?}", clock.now().since(start));
        assert!(clock.now().since(start) < 6 * SECOND, "within the session");
        let owner = kept.exists("/e", false).await.unwrap().ephemeral_owner;
        assert_eq!(owner, kept.client.session().id);
        kept.set("/e", "x", None).await.unwrap();
        ensemble.signal(frozen, "CONT");
    });
}

/// Runs a client in a process of its own, which does what `what` says and prints what it sees.
fn process(what: &str, servers: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client_process", "--include-ignored", "--nocapture"])
        .env("CLIENT_PROCESS", format!("{what} {servers}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test of its own: see [`process`].
#[test]
fn client_process() {
    let Ok(task) = std::env::var("CLIENT_PROCESS") else { return };
    let (what, servers) = task.split_once(' ').unwrap();
    run(async {
        let mut own = session(servers, 2 * SECOND).await;
        own.create(&format!("/{what}-{}", std::process::id()), CreateMode::Ephemeral)
            .await
            .unwrap();
        println!("ready");
        if what == "close" {
            own.close().await;
            std::process::exit(0);
        }
        loop {
            let event = within(own.events.recv()).await.unwrap();
            println!("{event:?}");
            if event == Event::Expired {
                println!("{:?}", own.create("/late", CreateMode::Persistent).await);
                return;
            }
        }
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_client_that_was_frozen_too_long_hears_that_its_session_is_over() {
    let ensemble = Ensemble::start(1, &[]);
    run(async {
        let mut observer = session(&ensemble.connect_string(), 10 * SECOND).await;
        let mut child = process("frozen", &ensemble.connect_string());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("ready")));
        let path = format!("/frozen-{}", child.id());
        observer.exists(&path, true).await.expect("there while its owner lives");
        ensemble::send_signal(&child.id().to_string(), "STOP");
        observer.expect(watched(Change::Deleted, &path)).await;
        ensemble::send_signal(&child.id().to_string(), "CONT");
        // To its end: it could not print otherwise.
        let seen: Vec<String> = lines.collect();
        assert!(child.wait().unwrap().success());
        let expired = seen.iter().position(|line| line == "Expired").expect("told so");
        assert!(
            seen[..expired].iter().all(|line| ["Disconnected", "Lapsed"].contains(&line.as_str())),
            "{seen:?}"
        );
        assert_eq!(seen[expired + 1], "Err(SessionExpired)");
        assert_eq!(observer.exists("/late", false).await, None);
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_process_may_exit_right_after_closing() {
    let ensemble = Ensemble::start(1, &[]);
    run(async {
        let observer = session(&ensemble.connect_string(), 10 * SECOND).await;
        for _ in 0..10 {
            let mut child = process("close", &ensemble.connect_string());
            assert!(child.wait().unwrap().success());
            let left = observer.exists(&format!("/close-{}", child.id()), false).await;
            assert_eq!(left, None, "gone with its session, not with its timeout");
        }
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn names_and_passwords_are_checked_both_ways() {
    let jaas = tempfile::NamedTempFile::new().unwrap();
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    std::fs::write(jaas.path(), format!("Server {{ {module} user_kafka=\"pass \\\" word\"; }};"))
        .unwrap();
    let ensemble = Ensemble::start(
        1,
        &[
            "--jaas",
            jaas.path().to_str().unwrap(),
            "--set",
            "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        ],
    );
    run(async {
        let login = |password: &str| Settings {
            login: Some(Login { username: "kafka".into(), password: password.into() }),
            ..settings(4 * SECOND)
        };
        let servers = ensemble.connect_string();
        let wrong = open(&servers, login("wrong")).await.err();
        assert!(matches!(wrong, Some(Error::AuthenticationFailed(_))), "{wrong:?}");
        let own = open(&servers, login("pass \" word")).await.unwrap();
        let acl = vec![Acl::creator(), Acl::world(Acl::READ)];
        own.create_with("/a", CreateMode::Persistent, acl).await.unwrap();
        own.set("/a", "x", None).await.unwrap();
        let acl = own.client.call(Call::GetAcl { path: "/a".into() }).await.unwrap();
        let Answer::Acl(acl, _) = acl else { panic!("{acl:?}") };
        assert_eq!((acl[0].scheme.as_str(), acl[0].id.as_str()), ("sasl", "kafka"));
        let other = session(&servers, 4 * SECOND).await;
        assert!(other.get("/a", false).await.is_ok());
        assert_eq!(other.set("/a", "y", None).await, refused(Refusal::NoAuth));
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn an_outage_of_the_whole_ensemble_ends_no_session() {
    let ensemble = Ensemble::start(1, &[]);
    run(async {
        let mut kept = session(&ensemble.connect_string(), 2 * SECOND).await;
        kept.create("/e", CreateMode::Ephemeral).await.unwrap();
        ensemble.signal(1, "KILL");
        kept.expect(Event::Disconnected).await;
        kept.expect(Event::Lapsed).await;
        let waiting = kept.client.call(set("/e", "x", None));
        assert_eq!(within(waiting).await, Err(Error::Disconnected));
        ensemble.run();
        kept.expect(Event::Connected).await;
        let owner = kept.exists("/e", false).await.unwrap().ephemeral_owner;
        assert_eq!(owner, kept.client.session().id);
    });
}

/// A client that trusts the ensemble's authority and shows the certificate in `key_store`, one of keytool's files.
fn tls(ensemble: &Ensemble, key_store: Option<&str>, versions: &[TlsVersion]) -> TlsClient {
    let file = |name: &str| StoreFile {
        path: ensemble.tls_file(name),
        password: name.ends_with(".p12").then(|| TLS_PASSWORD.into()),
        kind: None,
    };
    let settings = TlsClientSettings {
        trust_store: file(if key_store.is_some() { "trust.p12" } else { "authority.pem" }),
        key_store: key_store.map(file),
        versions: versions.to_vec(),
        cipher_suites: Vec::new(),
        check_host_name: true,
    };
    TlsClient::new(&settings).unwrap()
}

const TLS: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

fn tls_settings(tls: TlsClient) -> Settings {
    Settings { tls: Some(tls), ..settings(10 * SECOND) }
}

#[test]
#[ignore = "needs Java and Maven"]
fn tls_does_what_plain_connections_do() {
    let ensemble = Ensemble::start(1, &["--tls"]);
    run(async {
        for version in TLS {
            let tls = tls(&ensemble, Some("client.p12"), &[version]);
            let servers = ensemble.secure_connect_string("127.0.0.1");
            everything_below(&format!("{version:?}"), &servers, tls_settings(tls)).await;
        }
        // The certificate is who the client is.
        let servers = ensemble.secure_connect_string("localhost");
        let known = tls(&ensemble, Some("client.p12"), &TLS);
        let one = within(open(&servers, tls_settings(known))).await.unwrap();
        one.create_with("/mine", CreateMode::Persistent, vec![Acl::creator()]).await.unwrap();
        let Answer::Acl(acl, _) =
            one.client.call(Call::GetAcl { path: "/mine".into() }).await.unwrap()
        else {
            panic!("no ACL")
        };
        assert_eq!((acl[0].scheme.as_str(), acl[0].id.as_str()), ("x509", "CN=client"));
        let stranger = session(&ensemble.connect_string(), 6 * SECOND).await;
        assert_eq!(stranger.get("/mine", false).await.err(), refused::<()>(Refusal::NoAuth).err());
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_session_survives_its_tls_connection_and_its_server() {
    // A server that was just started takes seconds for its first handshake on a busy machine.
    let ensemble = Ensemble::start(1, &["--tls", "--tick-ms", "2000"]);
    let proxy = Proxy::to(ensemble.ports()[0] + SECURE);
    run(async {
        let servers = format!("localhost:{}", proxy.port());
        let tls = tls(&ensemble, Some("client.p12"), &TLS);
        let long = Settings { session_timeout: 40 * SECOND, ..tls_settings(tls) };
        let mut one = within(open(&servers, long)).await.unwrap();
        let id = one.client.session().id;
        one.create("/here", CreateMode::Ephemeral).await.unwrap();
        assert!(one.exists("/later", true).await.is_none());
        let plain = session(&ensemble.connect_string(), 10 * SECOND).await;
        proxy.cut();
        assert_eq!(within(one.events.recv()).await, Some(Event::Disconnected));
        plain.create("/later", CreateMode::Persistent).await.unwrap();
        proxy.heal();
        assert_eq!(within(one.events.recv()).await, Some(Event::Connected));
        assert_eq!(within(one.events.recv()).await, Some(watched(Change::Created, "/later")));
        ensemble.signal(1, "KILL");
        assert_eq!(within(one.events.recv()).await, Some(Event::Disconnected));
        ensemble.run();
        loop {
            match within(one.events.recv()).await {
                Some(Event::Connected) => break,
                Some(Event::Lapsed) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(one.exists("/here", false).await.unwrap().ephemeral_owner, id);
    });
}

#[test]
#[ignore = "needs Java and Maven"]
fn what_keeps_tls_from_being_spoken_is_named_in_time() {
    let ensemble = Ensemble::start(1, &["--tls"]);
    let failure = async |servers: String, tls: Option<TlsClient>| {
        // One try may take half of the session: a server that is busy takes seconds for its first handshake.
        let settings = Settings { tls, connection_timeout: 15 * SECOND, ..settings(20 * SECOND) };
        match within(open(&servers, settings)).await {
            Err(Error::Unreachable(why)) if why.starts_with(&servers) => why,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("{servers} was connected to"),
        }
    };
    run(async {
        let secure = ensemble.secure_connect_string("localhost");
        let tls = |key_store, version| Some(tls(&ensemble, key_store, &[version]));
        let found = tokio::join!(
            failure(secure.clone(), tls(None, TlsVersion::Tls12)),
            failure(secure.clone(), tls(None, TlsVersion::Tls13)),
            failure(secure.clone(), tls(Some("stranger.p12"), TlsVersion::Tls13)),
            failure(ensemble.connect_string(), tls(Some("client.p12"), TlsVersion::Tls12)),
            failure(secure, None),
        );
        let found: [String; 5] = found.into();
        let expected =
            ["key store", "key store", "key store", "port without TLS", "a port for TLS"];
        for (why, says) in found.iter().zip(expected) {
            assert!(why.contains(says), "{why}");
        }
    });
}
