//! Brokers that keep their metadata in a real ZooKeeper. Needs Java and Maven:
//! `cargo test -p cli --test zookeeper -- --ignored --test-threads=1`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../zookeeper/tests/ensemble/mod.rs"]
mod ensemble;

use ensemble::{Ensemble, Proxy, TLS_PASSWORD, send_signal};
use platform::Clock;
use platform::clock::SystemClock;
use platform::random::SystemRandom;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use tempfile::TempDir;
use zookeeper::{Acl, Answer, Call, Client, Environment, Login, Settings, Stat};

const BARNABAS: &str = env!("CARGO_BIN_EXE_barnabas");
const SECOND: Duration = Duration::from_secs(1);
/// No single wait of a test takes longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running `barnabas serve`; killed with the test.
struct Broker {
    process: Child,
    log: Receiver<Value>,
    /// What it said before it was ready.
    starting: Vec<String>,
    address: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn serve(data: &TempDir, servers: &str, settings: &[&str]) -> Command {
    let mut command = Command::new(BARNABAS);
    command
        .args(["serve", "--log-format", "json", "--set", "listeners=PLAINTEXT://127.0.0.1:0"])
        .args(["--set", "offsets.topic.num.partitions=1"])
        .args(["--set", "zookeeper.session.timeout.ms=4000"])
        .args(["--set", "zookeeper.connection.timeout.ms=60000"])
        .arg("--set")
        .arg(format!("zookeeper.connect={servers}"))
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .arg("--data")
        .arg(data.path())
        .stderr(Stdio::piped());
    command
}

impl Broker {
    fn start(data: &TempDir, servers: &str, settings: &[&str]) -> Self {
        Self::launch(serve(data, servers, settings))
    }

    /// Of a command that serves.
    fn launch(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (sender, log) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                println!("{line}");
                if let Ok(line) = serde_json::from_str(&line)
                    && sender.send(line).is_err()
                {
                    return;
                }
            }
        });
        let mut broker = Self { process, log, starting: Vec::new(), address: String::new() };
        loop {
            let line = broker.log.recv_timeout(PATIENCE).expect("it starts");
            match line["message"].as_str().unwrap_or_default() {
                "listening" => broker.address = line["advertised"].as_str().unwrap().to_owned(),
                other if other.starts_with("ready") => return broker,
                other => broker.starting.push(other.to_owned()),
            }
        }
    }

    fn stop(&mut self) {
        send_signal(&self.process.id().to_string(), "TERM");
        assert!(self.process.wait().unwrap().success());
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn try_run(&self, arguments: &[&str]) -> Output {
        let command =
            Command::new(BARNABAS).args(arguments).args(["--broker", &self.address]).output();
        command.unwrap()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn create(&self, topic: &str) {
        self.run(&["topic", "create", topic, "--partitions", "2"]);
    }

    fn produce(&self, topic: &str, line: &str) {
        let mut process = Command::new(BARNABAS)
            .args(["produce", topic, "--broker", &self.address])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        assert!(process.wait().unwrap().success(), "produce {line}");
    }

    fn consume(&self, topic: &str) -> Vec<String> {
        let lines = self.run(&["consume", topic, "--from-beginning", "--exit"]);
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// A look at the nodes from outside.
struct Nodes {
    runtime: tokio::runtime::Handle,
    client: Client,
}

impl Nodes {
    fn of(servers: &str) -> Self {
        Self::logged_in(servers, None)
    }

    fn logged_in(servers: &str, login: Option<Login>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        // Heart-beats go on while the test does other things; ends with the process.
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        let runtime = handle;
        let settings = Settings {
            session_timeout: 10 * SECOND,
            connection_timeout: PATIENCE,
            login,
            ..Settings::default()
        };
        let environment =
            Environment { clock: Arc::new(SystemClock::new()), random: Arc::new(SystemRandom) };
        let opened =
            Client::open(servers.parse().unwrap(), settings, environment, Box::new(|_| ()));
        let client = runtime.block_on(opened).unwrap();
        Self { runtime, client }
    }

    fn call(&self, call: Call) -> Result<Answer, zookeeper::Error> {
        self.runtime.block_on(self.client.call(call))
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        match self.call(Call::Exists { path: path.into(), watch: false }) {
            Ok(Answer::Exists(stat)) => stat,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn text(&self, path: &str) -> (Option<String>, Stat) {
        match self.call(Call::GetData { path: path.into(), watch: false }) {
            Ok(Answer::Data(data, stat)) => {
                (data.map(|data| String::from_utf8(data.to_vec()).unwrap()), stat)
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn acl(&self, path: &str) -> Vec<(String, i32)> {
        match self.call(Call::GetAcl { path: path.into() }) {
            Ok(Answer::Acl(acl, _)) => {
                acl.into_iter().map(|a| (format!("{}:{}", a.scheme, a.id), a.permissions)).collect()
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    /// Waits until what `look` finds is what is wanted.
    fn wait<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let clock = SystemClock::new();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(clock.now().0 < PATIENCE, "{what}");
            self.pause();
        }
    }

    /// A round trip, so that whoever looks again and again does not hold everybody up.
    fn pause(&self) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    }
}

fn time<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let clock = SystemClock::new();
    let result = run();
    println!("{what}: {:?}", clock.now().0);
    result
}

#[test]
#[ignore = "needs Java and Maven"]
fn the_nodes_are_kafkas() {
    let ensemble = Ensemble::start(1, &[]);
    let servers = format!("{}/a/chroot", ensemble.connect_string());
    let data = tempfile::tempdir().unwrap();
    let generated = "broker.id=-1";
    let mut broker = Broker::start(&data, &servers, &["broker.rack=r1", generated]);
    broker.create("t");
    broker.run(&["topic", "alter", "t", "--set", "retention.ms=60000"]);
    let nodes = Nodes::of(&servers);
    // As Kafka 3.9.2 left them: path, data version, data.
    let (host, port) = broker.address.rsplit_once(':').unwrap();
    let (registration, stat) = nodes.text("/brokers/ids/1001");
    let registration = registration.unwrap();
    let timestamp =
        &registration[registration.rfind("\"timestamp\":\"").unwrap() + 13..registration.len() - 2];
    assert!(timestamp.len() == 13 && timestamp.bytes().all(|b| b.is_ascii_digit()));
    assert_eq!(
        registration,
        format!(
            "{{\"features\":{{}},\"listener_security_protocol_map\":{{\"PLAINTEXT\":\"PLAINTEXT\"}},\
             \"endpoints\":[\"PLAINTEXT://{host}:{port}\"],\"rack\":\"r1\",\"jmx_port\":-1,\"port\":{port},\
             \"host\":\"{host}\",\"version\":5,\"timestamp\":\"{timestamp}\"}}"
        )
    );
    assert_eq!(stat.version, 1);
    assert_ne!(stat.ephemeral_owner, 0);
    let (controller, controller_stat) = nodes.text("/controller");
    let controller: Value = serde_json::from_str(&controller.unwrap()).unwrap();
    assert_eq!(controller["brokerid"], 1001);
    assert_eq!(controller["kraftControllerEpoch"], -1);
    assert!(controller["timestamp"].is_string() && controller["version"] == 2);
    assert_eq!(controller_stat.ephemeral_owner, stat.ephemeral_owner);
    let plain = |path: &str| {
        let (data, stat) = nodes.text(path);
        assert_eq!(stat.ephemeral_owner, 0, "{path}");
        (data, stat.version)
    };
    assert_eq!(plain("/controller_epoch"), (Some("1".into()), 1));
    assert_eq!(plain("/brokers/seqid"), (Some(String::new()), 1), "the id is 1000 and its version");
    for path in [
        "/consumers",
        "/brokers/ids",
        "/brokers/topics",
        "/config/changes",
        "/admin/delete_topics",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/latest_producer_id_block",
        "/config/topics",
        "/config/clients",
        "/config/users",
        "/config/brokers",
        "/config/ips",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/1",
    ] {
        assert_eq!(plain(path), (None, 0), "{path}");
    }
    let state =
        "{\"controller_epoch\":1,\"leader\":1001,\"version\":1,\"leader_epoch\":0,\"isr\":[1001]}";
    assert_eq!(plain("/brokers/topics/t/partitions/1/state"), (Some(state.into()), 0));
    let topic: Value = serde_json::from_str(&plain("/brokers/topics/t").0.unwrap()).unwrap();
    assert_eq!(topic["partitions"], json!({"0": [1001], "1": [1001]}));
    assert_eq!(topic["version"], 3);
    assert_eq!(topic["topic_id"].as_str().unwrap().len(), 22);
    let config = "{\"version\":1,\"config\":{\"retention.ms\":\"60000\"}}";
    assert_eq!(plain("/config/topics/t"), (Some(config.into()), 1));
    let change = "{\"version\":2,\"entity_path\":\"topics/t\"}";
    assert_eq!(plain("/config/changes/config_change_0000000000"), (Some(change.into()), 0));
    let cluster: Value = serde_json::from_str(&plain("/cluster/id").0.unwrap()).unwrap();
    assert_eq!((&cluster["version"], cluster["id"].as_str().unwrap().len()), (&json!("1"), 22));
    let feature: Value = serde_json::from_str(&plain("/feature").0.unwrap()).unwrap();
    assert_eq!(feature, json!({"features": {}, "version": 2, "status": 1}));

    // A stop takes the registration away at once; the id is remembered.
    broker.stop();
    assert_eq!(nodes.stat("/brokers/ids/1001"), None);
    assert_eq!(nodes.stat("/controller"), None);
    let broker = Broker::start(&data, &servers, &[generated]);
    assert_eq!(nodes.text("/controller_epoch").0.unwrap(), "2");
    assert_eq!(nodes.text("/brokers/seqid").1.version, 1);
    assert!(broker.run(&["topic", "list"]).contains('t'));
    // Another one gets another id.
    let other = tempfile::tempdir().unwrap();
    let process = serve(&other, &servers, &[generated]).spawn().unwrap();
    nodes.wait("a second broker", |nodes| nodes.stat("/brokers/ids/1002"));
    let log = mpsc::channel().1;
    let _killed = Broker { process, log, starting: Vec::new(), address: String::new() };
}

#[test]
#[ignore = "needs Java and Maven"]
fn java_reads_our_registration() {
    let ensemble = Ensemble::start(1, &[]);
    let servers = format!("{}/k", ensemble.connect_string());
    let data = tempfile::tempdir().unwrap();
    let _broker = Broker::start(&data, &servers, &["broker.id=1"]);
    // Kafka reads all registrations when it starts, and ends if it cannot read one.
    let folder = tempfile::tempdir().unwrap();
    let port = ensemble.ports()[0] + 500;
    let started = Command::new(ensemble::script())
        .arg("kafka")
        .arg(folder.path())
        .args(["--version", "3.9.2", "--first-id", "2", "--zookeeper", &servers])
        .args(["--port", &port.to_string(), "--heap", "512m"])
        .status();
    let nodes = Nodes::of(&servers);
    let registered = nodes.stat("/brokers/ids/2").is_some();
    let ended = Command::new(ensemble::script()).arg("kill").arg(folder.path()).status();
    assert!(started.unwrap().success() && ended.unwrap().success() && registered);
}

#[test]
#[ignore = "needs Java and Maven"]
fn sessions_that_are_lost_or_expire_are_made_good() {
    let ensemble = Ensemble::start(1, &[]);
    let proxy = Proxy::to(ensemble.ports()[0]);
    let servers = format!("127.0.0.1:{}", proxy.port());
    let data = tempfile::tempdir().unwrap();
    let broker = Broker::start(&data, &servers, &["broker.id=1"]);
    let nodes = Nodes::of(&ensemble.connect_string());
    broker.create("t");
    broker.produce("t", "one");
    let epoch = |nodes: &Nodes| nodes.text("/controller_epoch").0.unwrap();
    let registered = nodes.stat("/brokers/ids/1").unwrap();

    // The connection is lost and comes back: nobody need know.
    proxy.cut();
    proxy.heal();
    broker.create("after-a-cut");
    let kept = nodes.stat("/brokers/ids/1").unwrap();
    assert_eq!((kept.czxid, epoch(&nodes)), (registered.czxid, "1".to_owned()));

    // It stays away until the session has expired: what needs no metadata goes on.
    proxy.cut();
    broker.produce("t", "two");
    nodes.wait("expiry", |nodes| nodes.stat("/brokers/ids/1").is_none().then_some(()));
    broker.produce("t", "three");
    assert_eq!(nodes.stat("/controller"), None);
    time("registered after an expiry", || {
        proxy.heal();
        let again = nodes.wait("registered again", |nodes| nodes.stat("/brokers/ids/1"));
        assert!(again.czxid > registered.czxid);
    });
    nodes.wait("elected again", |nodes| nodes.stat("/controller"));
    broker.create("after-an-expiry");
    assert_eq!(epoch(&nodes), "2");
    broker.produce("after-an-expiry", "four");
    assert_eq!(broker.consume("t"), ["one", "three", "two"]);

    // The whole ensemble is away for three session timeouts.
    ensemble.signal(1, "KILL");
    let clock = SystemClock::new();
    let mut sent = 0;
    while clock.now().0 < 12 * SECOND {
        // Each of these producers takes an id for itself. The broker has a block of 1,000, and the
        // next one is the store's to give, as with Kafka.
        if sent < 500 {
            broker.produce("after-an-expiry", &format!("outage {sent}"));
            sent += 1;
        }
        assert_eq!(broker.consume("after-an-expiry").len(), sent + 1);
    }
    ensemble.run();
    let nodes = Nodes::of(&ensemble.connect_string());
    nodes.wait("a controller", |nodes| nodes.stat("/controller"));
    nodes.wait("a topic after the outage", |nodes| {
        let created = broker.try_run(&["topic", "create", "after-an-outage", "--if-not-exists"]);
        (created.status.success() && nodes.stat("/brokers/topics/after-an-outage").is_some())
            .then_some(())
    });
    assert_eq!(broker.consume("after-an-expiry").len(), sent + 1);
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_killed_broker_takes_its_registration_over_and_nobody_else_does() {
    let ensemble = Ensemble::start(1, &[]);
    let servers = ensemble.connect_string();
    let long = ["broker.id=1", "zookeeper.session.timeout.ms=40000"];
    let data = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(&data, &servers, &long);
    broker.create("t");
    broker.produce("t", "one");
    let nodes = Nodes::of(&servers);
    let registered = nodes.stat("/brokers/ids/1").unwrap();
    broker.kill();
    let clock = SystemClock::new();
    let broker = time("killed and back", || Broker::start(&data, &servers, &long));
    assert!(clock.now().0 < 10 * SECOND, "it did not wait for its old session's end");
    let again = nodes.stat("/brokers/ids/1").unwrap();
    assert!(again.czxid > registered.czxid);
    let took_over = "takes over the registration of its last run";
    assert!(broker.starting.iter().any(|line| line == took_over), "{:?}", broker.starting);
    assert_eq!(nodes.text("/controller_epoch").0.unwrap(), "2");
    broker.produce("t", "two");
    assert_eq!(broker.consume("t"), ["one", "two"]);

    let other = tempfile::tempdir().unwrap();
    let refused = serve(&other, &servers, &long).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("another broker with id 1"), "{message}");
    assert_eq!(nodes.stat("/brokers/ids/1").unwrap().czxid, again.czxid);
}

#[test]
#[ignore = "needs Java and Maven"]
fn logs_of_another_cluster_are_refused() {
    let ensemble = Ensemble::start(1, &[]);
    let data = tempfile::tempdir().unwrap();
    let mut broker =
        Broker::start(&data, &format!("{}/one", ensemble.connect_string()), &["broker.id=1"]);
    broker.create("t");
    broker.stop();
    let other = format!("{}/other", ensemble.connect_string());
    let refused = serve(&data, &other, &["broker.id=1"]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("belongs to cluster"), "{message}");
    let nowhere = serve(&data, "127.0.0.1:1", &["zookeeper.connection.timeout.ms=1000"]);
    let refused = { nowhere }.output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && message.contains("ZooKeeper servers 127.0.0.1:1"),
        "{message}"
    );
}

#[test]
#[ignore = "needs Java and Maven"]
fn nodes_are_protected_where_that_is_asked_for() {
    let jaas = tempfile::NamedTempFile::new().unwrap();
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    std::fs::write(jaas.path(), format!("Server {{ {module} user_kafka=\"pass\"; }};")).unwrap();
    let provider = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let ensemble =
        Ensemble::start(1, &["--jaas", jaas.path().to_str().unwrap(), "--set", provider]);
    let servers = format!("{}/k", ensemble.connect_string());
    let data = tempfile::tempdir().unwrap();
    let entry =
        format!("barnabas.zookeeper.jaas.config={module} username=\"kafka\" password=\"pass\";");
    let broker = Broker::start(&data, &servers, &["broker.id=1", "zookeeper.set.acl=true", &entry]);
    broker.create("t");
    let login = Login { username: "kafka".into(), password: "pass".into() };
    let nodes = Nodes::logged_in(&servers, Some(login));
    let own = || ("sasl:kafka".to_owned(), Acl::ALL);
    let readable = || ("world:anyone".to_owned(), Acl::READ);
    for path in [
        "/",
        "/brokers/ids/1",
        "/controller",
        "/config/topics/t",
        "/brokers/topics/t/partitions/0/state",
    ] {
        assert_eq!(nodes.acl(path), [own(), readable()], "{path}");
    }
    for path in ["/config/users", "/config/brokers"] {
        assert_eq!(nodes.acl(path), [own()], "{path}");
    }
    assert_eq!(nodes.acl("/consumers"), [("world:anyone".to_owned(), Acl::ALL)]);
    let wrong = "barnabas.zookeeper.jaas.config=org.apache.zookeeper.server.auth.DigestLoginModule \
                 required username=\"kafka\" password=\"wrong\";";
    let other = tempfile::tempdir().unwrap();
    let refused = serve(&other, &servers, &["broker.id=2", wrong]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("wrong name or password"), "{message}");
}

/// The settings of a broker that speaks TLS to ZooKeeper with the certificate in `key_store`.
fn tls_settings(ensemble: &Ensemble, key_store: &str) -> Vec<String> {
    let file = |name: &str| ensemble.tls_file(name).display().to_string();
    vec![
        "zookeeper.ssl.client.enable=true".into(),
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty".into(),
        format!("zookeeper.ssl.keystore.location={}", file(key_store)),
        format!("zookeeper.ssl.keystore.password={TLS_PASSWORD}"),
        format!("zookeeper.ssl.truststore.location={}", file("trust.p12")),
        format!("zookeeper.ssl.truststore.password={TLS_PASSWORD}"),
        "zookeeper.set.acl=true".into(),
    ]
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_broker_works_over_tls_and_keeps_its_session_when_the_server_restarts() {
    // A server that was just started takes seconds for its first handshake on a busy machine.
    let ensemble = Ensemble::start(1, &["--tls", "--tick-ms", "2000"]);
    let servers = ensemble.secure_connect_string("localhost");
    let settings = tls_settings(&ensemble, "client.p12");
    let mut all: Vec<&str> = settings.iter().map(String::as_str).collect();
    all.extend(["broker.id=1", "zookeeper.session.timeout.ms=10000"]);
    let data = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(&data, &servers, &all);
    broker.create("t");
    broker.produce("t", "one");
    let nodes = Nodes::of(&ensemble.connect_string());
    let before = nodes.stat("/brokers/ids/1").unwrap().czxid;
    // Its certificate is who it is.
    let acl = nodes.acl("/brokers/topics/t");
    assert_eq!(
        acl,
        [("x509:CN=client".to_owned(), Acl::ALL), ("world:anyone".to_owned(), Acl::READ)]
    );
    ensemble.signal(1, "KILL");
    ensemble.run();
    let nodes = Nodes::of(&ensemble.connect_string());
    let mut tries = 0;
    let topic = nodes.wait("topics are created again", |_| {
        tries += 1;
        let topic = format!("u{tries}");
        let created = broker.try_run(&["topic", "create", &topic, "--partitions", "1"]);
        created.status.success().then_some(topic)
    });
    broker.produce(&topic, "two");
    assert_eq!(broker.consume(&topic), ["two"]);
    assert_eq!(nodes.stat("/brokers/ids/1").unwrap().czxid, before, "the same registration");
    broker.stop();
    let mut broker = Broker::start(&data, &servers, &all);
    assert_eq!(broker.consume("t"), ["one"]);
    broker.stop();
    // So do the tools: over TLS, with the lists of who may do what.
    let file = data.path().join("cluster.jsonl");
    let copy = format!("{servers}/copy");
    for (verb, servers) in [("export", &servers), ("import", &copy)] {
        let mut arguments = vec![verb, "--zookeeper", servers, file.to_str().unwrap()];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        store(&arguments, true);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let owner = r#"{"id":"CN=client","permissions":"cdrwa","scheme":"x509"}"#;
    assert!(text.lines().any(|line| line.contains("topics/t\"") && line.contains(owner)), "{text}");
    assert_eq!(nodes.acl("/copy/brokers/topics/t"), acl);
}

#[test]
#[ignore = "needs Java and Maven"]
fn a_broker_that_cannot_speak_tls_says_why_and_does_not_start() {
    let ensemble = Ensemble::start(1, &["--tls"]);
    let data = tempfile::tempdir().unwrap();
    let refusal = |servers: &str, key_store: &str, more: &[&str]| {
        let settings = tls_settings(&ensemble, key_store);
        let mut all: Vec<&str> = settings.iter().map(String::as_str).collect();
        all.extend(["zookeeper.connection.timeout.ms=15000", "zookeeper.session.timeout.ms=20000"]);
        all.extend(more);
        let output = serve(&data, servers, &all).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let secure = ensemble.secure_connect_string("localhost");
    let trusted = ensemble.tls_file("other.p12").display().to_string();
    let untrusting = format!("zookeeper.ssl.truststore.location={trusted}");
    for (servers, key_store, more, code, says) in [
        (&secure, "stranger.p12", vec![], 1, "key store"),
        (&secure, "client.p12", vec![untrusting.as_str()], 1, "other.p12"),
        (&secure, "missing.p12", vec![], 2, "missing.p12"),
        (&secure, "client.p12", vec!["zookeeper.ssl.keystore.password=wrong"], 2, "password"),
    ] {
        let (found, text) = refusal(servers, key_store, &more);
        assert!(found == Some(code) && text.contains(says), "{found:?}: {text}");
        let named = if code == 2 { "zookeeper.ssl.keystore.location" } else { servers };
        assert!(text.contains(named), "{text}");
    }
}

/// A single broker, with its metadata in its own store.
fn alone(data: &TempDir) -> Broker {
    let mut command = Command::new(BARNABAS);
    command
        .args(["serve", "--log-format", "json", "--set", "listeners=PLAINTEXT://127.0.0.1:0"])
        .args(["--set", "offsets.topic.num.partitions=1", "--set", "broker.id=1", "--data"])
        .arg(data.path())
        .stderr(Stdio::piped());
    Broker::launch(command)
}

/// `barnabas store`, and whether it is to succeed; what it says.
fn store(arguments: &[&str], succeeds: bool) -> String {
    let output = Command::new(BARNABAS).arg("store").args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(output.status.code(), Some(if succeeds { 0 } else { 1 }), "{arguments:?}: {said}");
    said
}

/// What clients see of a cluster, but for what changes by itself: ids, settings, offsets of a group, records.
fn identity(broker: &Broker) -> Value {
    let json =
        |arguments: &[&str]| -> Value { serde_json::from_str(&broker.run(arguments)).unwrap() };
    let mut group = json(&["group", "describe", "g", "--json"]);
    let mut topics = json(&["topic", "describe", "t", "u", "--json"]);
    // Epochs grow with each start, and who coordinates has another address.
    fn forget(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !key.contains("epoch") && key != "coordinator");
                fields.values_mut().for_each(forget);
            }
            Value::Array(list) => list.iter_mut().for_each(forget),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    forget(&mut group);
    forget(&mut topics);
    json!({
        "cluster": json(&["cluster", "--json"])["cluster_id"],
        "topics": topics,
        "group": group,
        "records": broker.consume("t"),
    })
}

#[test]
#[ignore = "needs Java and Maven"]
fn one_broker_grows_into_a_cluster_and_comes_back() {
    let ensemble = Ensemble::start(1, &[]);
    let servers = format!("{}/grown", ensemble.connect_string());
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let mut broker = alone(&data);
    broker.create("t");
    broker.create("u");
    broker.run(&["topic", "alter", "t", "--set", "retention.ms=7654321"]);
    (0..20).for_each(|at| broker.produce("t", &format!("line {at}")));
    broker.run(&["consume", "t", "--group", "g", "--from-beginning", "--exit"]);
    (20..25).for_each(|at| broker.produce("t", &format!("line {at}")));
    let before = identity(&broker);
    assert_eq!(before["records"].as_array().unwrap().len(), 25);

    // A running broker's store is not read, and nothing is left of the attempt.
    let said = store(&["export", "--data", directory, &file("early")], false);
    assert!(said.contains("stop the broker first"), "{said}");
    broker.stop();
    store(&["export", "--data", directory, &file("alone")], true);
    let said = store(&["export", "--data", directory, &file("alone")], false);
    assert!(said.contains("exists"), "{said}");
    let nodes = Nodes::of(&ensemble.connect_string());

    // An import that was cut short: nobody starts on it, and another file does not finish it.
    let mark = |path: &str, data: &str| {
        nodes.call(Call::Single(zookeeper::Op::Create {
            path: path.into(),
            data: Some(data.to_owned().into()),
            acl: vec![Acl::world(Acl::ALL)],
            mode: zookeeper::CreateMode::Persistent,
        }))
    };
    for path in ["/half", "/half/barnabas", "/half/barnabas/importing"] {
        mark(path, "other").unwrap();
    }
    let half = format!("{}/half", ensemble.connect_string());
    let refused = serve(&data, &half, &["broker.id=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("import was not finished"), "{said}");
    let said = store(&["import", "--zookeeper", &half, &file("alone")], false);
    assert!(said.contains("not finished"), "{said}");

    // There.
    let said = store(&["import", "--zookeeper", &servers, &file("alone")], true);
    assert!(said.contains(before["cluster"].as_str().unwrap()), "{said}");
    let said = store(&["import", "--zookeeper", &servers, &file("alone")], true);
    assert!(said.contains("already"), "{said}");
    let controller_epoch =
        || -> i32 { nodes.text("/grown/controller_epoch").0.unwrap().parse().unwrap() };
    let exported = controller_epoch();
    let mut broker = Broker::start(&data, &servers, &["broker.id=1"]);
    assert!(controller_epoch() > exported, "the next controller's epoch is higher");
    assert_eq!(identity(&broker), before);
    assert!(nodes.stat("/grown/barnabas/doubts/1").is_none(), "its logs are in no doubt");

    // It has grown: a second broker takes a replica.
    let second = tempfile::tempdir().unwrap();
    let mut other = Broker::start(&second, &servers, &["broker.id=2"]);
    broker.run(&["topic", "create", "two", "--replication-factor", "2"]);
    broker.produce("two", "on both");
    broker.run(&["topic", "delete", "two"]);
    other.stop();
    broker.produce("t", "line 25");
    let grown = identity(&broker);
    let said = store(&["export", "--zookeeper", &servers, &file("early")], false);
    assert!(said.contains("brokers are registered (1)"), "{said}");
    broker.stop();
    let said = store(&["import", "--zookeeper", &servers, &file("alone")], false);
    let named = format!("cluster {}, 3 topics such as", before["cluster"].as_str().unwrap());
    assert!(said.contains(&named), "{said}");

    // And back: its former store is in the way until it is moved.
    store(&["export", "--zookeeper", &servers, &file("grown")], true);
    let text = std::fs::read_to_string(file("grown")).unwrap();
    assert!(text.contains(r#""acl":[{"id":"anyone","permissions":"cdrwa","scheme":"world"}]"#));
    assert!(!text.contains("/brokers/ids/"), "no registrations");
    let said = store(&["import", "--data", directory, &file("grown")], false);
    assert!(said.contains(&format!("cluster {}", before["cluster"].as_str().unwrap())), "{said}");
    for entry in std::fs::read_dir(data.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("barnabas-store.") {
            std::fs::remove_file(path).unwrap();
        }
    }
    store(&["import", "--data", directory, &file("grown")], true);
    let mut broker = alone(&data);
    assert_eq!(identity(&broker), grown);
    assert_eq!(grown["records"].as_array().unwrap().len(), 26);
    broker.stop();

    // A log that is gone stays gone, though everything in the new store is younger than the directory.
    store(&["export", "--data", directory, &file("again")], true);
    let lost = format!("{}/lost", ensemble.connect_string());
    store(&["import", "--zookeeper", &lost, &file("again")], true);
    std::fs::remove_dir_all(data.path().join("u-1")).unwrap();
    let checkpoint = data.path().join("replication-offset-checkpoint");
    std::fs::write(checkpoint, "0\n0\n").unwrap();
    let broker = Broker::start(&data, &lost, &["broker.id=1"]);
    let leader = |partition: usize| -> Value {
        let cluster: Value =
            serde_json::from_str(&broker.run(&["cluster", "u", "--json"])).unwrap();
        cluster["partitions"][partition]["leader"].clone()
    };
    nodes.wait("the others lead", |_| (leader(0) == 1).then_some(()));
    nodes.wait("nobody leads", |_| leader(1).is_null().then_some(()));
    assert!(!data.path().join("u-1").exists(), "it is not made anew");
}
