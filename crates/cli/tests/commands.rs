//! The commands against a broker, both as people run them: the binary itself, over loopback.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use tempfile::TempDir;

const BARNABAS: &str = env!("CARGO_BIN_EXE_barnabas");

/// A running `barnabas serve`; killed with the test.
struct Broker {
    process: Child,
    log: BufReader<ChildStderr>,
    address: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Broker {
    fn start(data: &TempDir) -> Self {
        Self::start_with(&[&format!("log.dirs={}", data.path().display())])
    }

    fn start_with(settings: &[&str]) -> Self {
        let mut process = Command::new(BARNABAS)
            .args(["serve", "--log-format", "json", "--set", "listeners=PLAINTEXT://127.0.0.1:0"])
            .args(["--set", "offsets.topic.num.partitions=1"])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "the broker ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "listening" {
                break line["advertised"].as_str().unwrap().to_owned();
            }
        };
        Self { process, log, address }
    }

    /// SIGTERM; the rest of the log.
    fn stop(mut self) -> String {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.process.wait().unwrap().success(), "{log}");
        log
    }

    fn output(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut process = Command::new(BARNABAS)
            .args(arguments)
            .args(["--broker", &self.address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(input).unwrap();
        process.wait_with_output().unwrap()
    }

    /// Standard output of a command that has to succeed.
    fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.output(arguments, input);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        output.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.run(arguments, b"")).unwrap()
    }

    /// Exit code and standard error of a command.
    fn fail(&self, arguments: &[&str], input: &[u8]) -> (i32, String) {
        let output = self.output(arguments, input);
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

fn lines(count: u32) -> Vec<u8> {
    (0..count).flat_map(|i| format!("line {i} {}\n", i % 7).into_bytes()).collect()
}

/// A start may wait for a long time, for ZooKeeper or for recovery.
#[test]
fn a_signal_ends_a_broker_that_is_not_up_yet() {
    let data = TempDir::new().unwrap();
    for signal in ["-TERM", "-INT"] {
        // Takes connections and never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let zookeeper = format!("zookeeper.connect={}", silent.local_addr().unwrap());
        let mut process = Command::new(BARNABAS)
            .args(["serve", "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", &zookeeper])
            .args(["--set", "zookeeper.connection.timeout.ms=600000", "--data"])
            .arg(data.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It asks for a session.
        drop(silent.accept().unwrap());
        let id = process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let mut log = String::new();
        process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(process.wait().unwrap().success(), "{log}");
        assert!(log.contains("its start is cut short"), "{log}");
    }
}

#[test]
fn a_level_that_does_not_exist_is_refused_instead_of_silencing_the_log() {
    let data = TempDir::new().unwrap();
    for level in ["bogus", "bogus=", "info,broker=loud"] {
        let output = Command::new(BARNABAS)
            .args(["serve", "--log-level", level, "--data"])
            .arg(data.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("is no level"), "{said}");
    }
}

#[test]
fn what_is_piped_in_comes_out_in_every_codec_and_after_a_restart() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    let text = lines(30_000);
    let codecs = ["none", "gzip", "snappy", "lz4", "zstd"];
    for codec in codecs {
        broker.run(&["produce", codec, "-z", codec, "-q"], &text);
        let back = broker.run(&["consume", codec, "--from-beginning", "--exit"], b"");
        assert!(back == text, "{codec}");
        let recoded = format!("to-{codec}");
        let target = match codec {
            "none" => "compression.type=uncompressed".to_owned(),
            codec => format!("compression.type={codec}"),
        };
        broker.run(&["topic", "create", &recoded, "--config", &target], b"");
        broker.run(&["produce", &recoded, "-z", "lz4", "-q"], &text);
    }
    let log = broker.stop();
    assert!(!log.contains("\"WARN\"") && !log.contains("\"ERROR\""), "{log}");

    let broker = Broker::start(&data);
    for topic in codecs.into_iter().flat_map(|codec| [codec.to_owned(), format!("to-{codec}")]) {
        let back = broker.run(&["consume", &topic, "-B", "-e"], b"");
        assert!(back == text, "{topic}");
    }
}

#[test]
fn keys_headers_partitions_and_nulls_are_what_was_said() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    broker.run(&["topic", "create", "t", "--partitions", "3"], b"");
    let sent = ["produce", "t", "-K", ":", "-Z", "-p", "1", "-H", "a=b", "-H", "a=c", "-q"];
    broker.run(&sent, b"k:v:w\nnokey\nk2:\n");
    let format = "%t-%p@%o %k/%K=%s/%S [%h]\\n";
    let back = broker.run(&["consume", "t", "-B", "-e", "-f", format], b"");
    let expected = "t-1@0 k/1=v:w/3 [a=b,a=c]\n\
                    t-1@1 /-1=nokey/5 [a=b,a=c]\n\
                    t-1@2 k2/2=/-1 [a=b,a=c]\n";
    assert_eq!(String::from_utf8(back).unwrap(), expected);
    let last = broker.json(&["consume", "t", "-o", "-1", "-p", "1", "-e", "--json"]);
    assert_eq!(
        (&last["key"], &last["value"], &last["offset"]),
        (&"k2".into(), &Value::Null, &2.into())
    );
}

#[test]
fn members_of_a_group_go_on_where_the_group_was() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    let text = lines(2000);
    broker.run(&["produce", "t", "-q"], &text);
    let consume = ["consume", "t", "-g", "g", "-B", "-e"];
    let first = broker.run(&[&consume[..], &["-n", "700"]].concat(), b"");
    let second = broker.run(&consume, b"");
    assert!([first, second].concat() == text);
    let groups = broker.json(&["group", "describe", "g", "--json"]);
    assert_eq!(groups[0]["offsets"][0]["committed"], 2000);
    assert_eq!(groups[0]["offsets"][0]["lag"], 0);
    broker.run(&["group", "reset-offsets", "g", "-t", "t", "--by", "-2"], b"");
    let third = broker.run(&consume, b"");
    assert_eq!(third.iter().filter(|&&byte| byte == b'\n').count(), 2);
    broker.run(&["group", "delete", "g"], b"");
    assert_eq!(broker.json(&["group", "list", "--json"]), Value::Array(Vec::new()));
}

#[test]
fn topics_are_made_altered_trimmed_and_deleted() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    broker.run(&["topic", "create", "t", "-p", "2", "-c", "retention.ms=5000000000"], b"");
    broker.run(&["produce", "t", "-p", "0", "-q"], &lines(10));
    let alter = ["topic", "alter", "t", "-p", "3", "--set", "segment.ms=60000", "--unset"];
    broker.run(&[&alter[..], &["retention.ms"]].concat(), b"");
    broker.run(&["topic", "trim", "t", "-p", "0", "--before", "4"], b"");
    let described = broker.json(&["topic", "describe", "t", "--json"]);
    let topic = &described[0];
    assert_eq!(topic["configs"], serde_json::json!({ "segment.ms": "60000" }));
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(topic["partitions"][0]["log_start_offset"], 4);
    assert_eq!(topic["partitions"][0]["end_offset"], 10);
    broker.run(&["topic", "delete", "t"], b"");
    assert_eq!(broker.json(&["topic", "list", "--json"]), Value::Array(Vec::new()));
}

#[test]
fn exit_codes_tell_failure_from_wrong_usage() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    broker.run(&["topic", "create", "c", "--config", "cleanup.policy=compact"], b"");
    let (code, text) = broker.fail(&["produce", "c", "-K", ":"], b"k:v\nno key\n");
    assert_eq!(code, 1);
    assert!(text.contains("record 1") && text.contains("INVALID_RECORD"), "{text}");
    let (code, text) = broker.fail(&["consume", "nowhere", "-e"], b"");
    assert!(code == 1 && text.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{text}");
    let (code, text) = broker.fail(&["topic", "create", "c"], b"");
    assert!(code == 1 && text.contains("TOPIC_ALREADY_EXISTS"), "{text}");
    assert_eq!(broker.fail(&["topic", "alter", "c"], b"").0, 2);
    assert_eq!(broker.fail(&["consume", "c", "-o", "x"], b"").0, 2);
    let refused = Command::new(BARNABAS)
        .args(["serve", "--set", "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("authorizer.class.name"));
}

#[test]
fn who_waits_for_a_broker_without_room_is_told_why_and_for_no_longer_than_wanted() {
    let data = TempDir::new().unwrap();
    let broker = Broker::start(&data);
    broker.run(&["topic", "create", "full", "-p", "1"], b"");
    broker.run(&["produce", "full"], b"one\n");
    broker.run(&["consume", "full", "-B", "--group", "g", "--exit"], b"");
    broker.stop();
    let directory = format!("log.dirs={}", data.path().display());
    let broker =
        Broker::start_with(&[&directory, "barnabas.disk.reserve.bytes=9223372036854775807"]);
    let (code, said) = broker.fail(&["produce", "full", "--timeout", "4"], b"two\n");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("waiting for 2 s: produce to full-0: "), "{said}");
    assert!(said.lines().last().unwrap().ends_with("(KAFKA_STORAGE_ERROR)"), "{said}");

    let mut member = Command::new(BARNABAS)
        .args(["consume", "full", "--group", "g", "--timeout", "1", "--broker", &broker.address])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(member.stderr.take().unwrap()).read_line(&mut said).unwrap();
    member.kill().unwrap();
    member.wait().unwrap();
    assert!(said.starts_with("barnabas: waiting for 2 s: sync group g: "), "{said}");
}

/// It asked for all leaders anew, for half a minute, before each fetch.
#[test]
fn a_partition_without_a_leader_does_not_hold_up_the_others() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let directories = format!("log.dirs={},{}", one.path().display(), two.path().display());
    let broker = Broker::start_with(&[&directories]);
    broker.run(&["topic", "create", "half", "-p", "2"], b"");
    for partition in ["0", "1"] {
        broker.run(&["produce", "half", "-p", partition], &lines(3));
    }
    broker.stop();
    // The second directory is gone, and with it one of the partitions.
    let gone = two.path().to_owned();
    std::fs::remove_dir_all(&gone).unwrap();
    std::fs::write(&gone, b"not a directory").unwrap();
    let broker = Broker::start_with(&[&directories]);
    let arguments = ["consume", "half", "-o", "0", "-n", "3", "--timeout", "600"];
    assert_eq!(broker.run(&arguments, b""), lines(3));
}
