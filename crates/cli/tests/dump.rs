//! `barnabas data dump` on files that Apache Kafka wrote, and on files that nobody wrote.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const BARNABAS: &str = env!("CARGO_BIN_EXE_barnabas");

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Partition directories of real Kafka; what is in each says the `.json` beside it.
fn goldens(which: &str) -> Vec<PathBuf> {
    let directory = crates().join("storage/tests/golden").join(which);
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    assert!(!found.is_empty());
    found
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    found.sort();
    found
}

fn dump(arguments: &[&str], files: &[PathBuf]) -> Output {
    Command::new(BARNABAS).args(["data", "dump"]).args(arguments).args(files).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no panic and no signal")
}

/// The one line on standard error.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn lines(output: &Output, kind: &str) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    text.lines().map(parse).filter(|line| line["type"] == kind).collect()
}

/// What the JSON beside the directory says.
fn expected(directory: &Path) -> Value {
    let path = format!("{}.json", directory.display());
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn with_extension(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = files(directory);
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found
}

#[test]
fn every_file_of_kafka_is_good() {
    for directory in ["clean", "recovered", "compacted"].into_iter().flat_map(goldens) {
        let output = dump(&["--verify", "--quiet"], &files(&directory));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((code(&output), output.stdout.len()), (0, 0), "{}: {said}", directory.display());
    }
}

#[test]
fn batches_and_records_are_what_kafka_says() {
    let same = |ours: &Value, theirs: &Value, names: &[(&str, &str)], place: &str| {
        for (our_name, their_name) in names {
            if let Some(theirs) = theirs.get(*their_name) {
                assert_eq!(&ours[*our_name], theirs, "{place}: {our_name} of {ours}");
            }
        }
    };
    for directory in goldens("clean") {
        let place = directory.display().to_string();
        let expected = expected(&directory);
        let output = dump(&["--json", "--records"], &with_extension(&directory, "log"));
        assert_eq!(code(&output), 0, "{place}");
        let batches = lines(&output, "batch");
        let theirs = expected["batches"].as_array().unwrap();
        assert_eq!(batches.len(), theirs.len(), "{place}");
        for (ours, theirs) in batches.iter().zip(theirs) {
            assert_eq!(ours["valid"], true, "{place}");
            // The last offset of a message set is all that its head tells.
            let names = [
                ("base_offset", "base"),
                ("last_offset", "last"),
                ("size", "bytes"),
                ("crc", "crc"),
                ("compression", "codec"),
                ("count", "count"),
                ("leader_epoch", "epoch"),
                ("attributes", "attributes"),
                ("producer_id", "producer_id"),
                ("producer_epoch", "producer_epoch"),
                ("base_sequence", "base_sequence"),
                ("base_timestamp", "base_timestamp"),
            ];
            let is_legacy = ours["magic"] != 2;
            same(ours, theirs, if is_legacy { &names[..5] } else { &names }, &place);
        }
        let records = lines(&output, "record");
        let (control, plain): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| record.get("control").is_some());
        let theirs = expected["records"].as_array().unwrap();
        assert_eq!(plain.len(), theirs.len(), "{place}");
        for (ours, theirs) in plain.iter().zip(theirs) {
            assert_eq!(ours["offset"], theirs["offset"], "{place}");
            // Of some directories Kafka was asked for offsets alone.
            for field in ["timestamp", "key", "value"] {
                let is_comparable = match field {
                    "timestamp" => ours[field].is_number() && theirs[field].is_number(),
                    _ => ours[field].is_string() && theirs[field].is_string(),
                };
                if is_comparable {
                    assert_eq!(ours[field], theirs[field], "{place}");
                }
            }
        }
        let theirs = expected["control_records"].as_array().unwrap();
        assert_eq!(control.len(), theirs.len(), "{place}");
        for (ours, theirs) in control.iter().zip(theirs) {
            let names = [
                ("offset", "offset"),
                ("control", "type"),
                ("coordinator_epoch", "coordinator_epoch"),
            ];
            same(ours, theirs, &names, &place);
        }
    }
}

#[test]
fn indexes_snapshots_and_epochs_are_what_kafka_says() {
    for directory in goldens("clean") {
        let place = directory.display().to_string();
        let expected = expected(&directory);
        let of = |extension: &str, kind: &str| {
            let files = with_extension(&directory, extension);
            if files.is_empty() {
                return Vec::new();
            }
            lines(&dump(&["--json"], &files), kind)
        };
        let pairs = |found: Vec<Value>, names: [&str; 2]| -> Vec<Value> {
            found.iter().map(|line| names.map(|name| line[name].clone()).into()).collect()
        };
        let segments = expected["segments"].as_array().unwrap();
        let all = |name: &str| -> Vec<Value> {
            segments.iter().flat_map(|s| s[name].as_array().unwrap().clone()).collect()
        };
        assert_eq!(pairs(of("index", "offset"), ["offset", "position"]), all("index"), "{place}");
        assert_eq!(
            pairs(of("timeindex", "time"), ["timestamp", "offset"]),
            all("timeindex"),
            "{place}"
        );
        let aborted = of("txnindex", "aborted");
        assert_eq!(
            aborted.len(),
            expected["aborted_transactions"].as_array().unwrap().len(),
            "{place}"
        );
        for (offset, theirs) in expected["snapshots"].as_object().unwrap() {
            let file = directory.join(format!("{:020}.snapshot", offset.parse::<i64>().unwrap()));
            let ours = lines(&dump(&["--json"], &[file]), "producer");
            let theirs = theirs.as_array().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{place}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                for (our_name, their_name) in [
                    ("producer_id", "producer_id"),
                    ("producer_epoch", "epoch"),
                    ("last_sequence", "last_sequence"),
                    ("last_offset", "last_offset"),
                    ("offset_delta", "offset_delta"),
                    ("timestamp", "timestamp"),
                    ("coordinator_epoch", "coordinator_epoch"),
                    ("transaction_first_offset", "current_txn_first_offset"),
                ] {
                    assert_eq!(ours[our_name], theirs[their_name], "{place}: {our_name}");
                }
            }
        }
        let epochs = directory.join("leader-epoch-checkpoint");
        if epochs.exists() {
            let ours = lines(&dump(&["--json"], &[epochs]), "epoch");
            let theirs = expected["leader_epochs"].as_array().unwrap();
            assert_eq!(&pairs(ours, ["leader_epoch", "start_offset"]), theirs, "{place}");
        }
        let metadata = directory.join("partition.metadata");
        if metadata.exists() {
            let ours = lines(&dump(&["--json"], &[metadata]), "topic_id");
            assert_eq!(ours[0]["topic_id"], expected["topic_id"], "{place}");
        }
    }
}

/// A file of that name and content.
fn file(directory: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

fn segment_of(partition: &str, directory: &TempDir, source: &str) -> PathBuf {
    let content = fs::read(crates().join(source)).unwrap();
    file(directory, &format!("{partition}/00000000000000000000.log"), &content)
}

#[test]
fn records_of_groups_and_transactions_are_told_by_their_fields() {
    let directory = TempDir::new().unwrap();
    let source = "broker/src/groups/golden/kafka-3.9.2.log";
    let groups = segment_of("__consumer_offsets-0", &directory, source);
    let records = lines(&dump(&["--json", "--records"], std::slice::from_ref(&groups)), "record");
    let key = |record: &Value| record["key"]["name"].as_str().map(str::to_owned);
    let commit = records.iter().find(|r| r["value"]["metadata"] == "meta-héllo").unwrap();
    assert_eq!(key(commit).unwrap(), "OffsetCommitKey");
    assert_eq!(
        (&commit["key"]["group"], &commit["key"]["topic"]),
        (&"classic-a".into(), &"gdata".into())
    );
    assert_eq!((&commit["value"]["offset"], &commit["value"]["version"]), (&3.into(), &3.into()));
    let group = records.iter().find(|r| r["key"]["group"] == "classic-static").unwrap();
    let member = &group["value"]["members"][0];
    assert_eq!(member["group_instance_id"], "inst-1");
    assert_eq!(member["subscription"]["topics"][0], "gdata");
    assert_eq!(
        member["assignment"]["assigned_partitions"][0]["partitions"].as_array().unwrap().len(),
        3
    );
    let mut removed = records.iter().filter(|record| record["key"]["group"] == "todelete");
    assert_eq!(removed.next_back().unwrap()["value"], Value::Null);

    let newer =
        segment_of("__consumer_offsets-1", &directory, "broker/src/groups/golden/kafka-4.3.1.log");
    let records = lines(&dump(&["--json", "--records"], &[newer]), "record");
    let plain = records.iter().filter(|record| record.get("control").is_none());
    assert!(plain.clone().all(|record| key(record).is_some()), "all types are known");
    assert!(plain.clone().all(|record| record["value"].get("undecodable").is_none()));
    assert!(plain.clone().any(|r| key(r).unwrap() == "ConsumerGroupCurrentMemberAssignmentKey"));

    let source = "cli/tests/golden/transactions-4.3.1.log";
    let transactions = segment_of("__transaction_state-0", &directory, source);
    let records =
        lines(&dump(&["--json", "--records"], std::slice::from_ref(&transactions)), "record");
    let last = records.last().unwrap();
    assert_eq!(
        (&last["offset"], &last["key"]["transactional_id"]),
        (&74.into(), &"tv2-one".into())
    );
    let value = &last["value"];
    assert_eq!((&value["version"], &value["producer_id"]), (&1.into(), &5.into()));
    assert_eq!(
        (&value["previous_producer_id"], &value["client_transaction_version"]),
        (&5.into(), &2.into())
    );
    assert_eq!(value["transaction_status"], 5);

    let plain = lines(&dump(&["--json", "--records", "--decode", "none"], &[groups]), "record");
    assert!(plain.iter().all(|record| key(record).is_none()));
    // A record of another topic is shown as it is.
    let other = dump(&["--json", "--records", "--decode", "offsets"], &[transactions]);
    assert_eq!(code(&other), 0);
}

#[test]
fn what_a_crash_leaves_is_one_line_and_its_own_code() {
    for (name, wrong) in
        [("qtorn", "cut off"), ("qzero", "3000 zero bytes"), ("qpre", "zero bytes")]
    {
        let directory = crates().join("storage/tests/golden/crashed").join(name);
        let last = with_extension(&directory, "log").pop().unwrap();
        let output = dump(&[], std::slice::from_ref(&last));
        assert_eq!(code(&output), 3, "{name}");
        assert!(complaint(&output).contains(wrong), "{name}: {}", complaint(&output));
        assert!(output.stdout.starts_with(last.display().to_string().as_bytes()));
    }
    let directory = TempDir::new().unwrap();
    let alone = crates().join("storage/tests/golden/clean/3.9.2-txn-0/00000000000000000012.index");
    let alone = file(&directory, "00000000000000000012.index", &fs::read(alone).unwrap());
    let output = dump(&["--verify"], std::slice::from_ref(&alone));
    assert_eq!(code(&output), 3);
    assert!(complaint(&output).contains("cannot be checked"), "{}", complaint(&output));
    assert_eq!(code(&dump(&[], &[alone])), 0);
}

/// Copies a clean log, changes one file, and verifies all.
fn damaged(log: &str, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Output {
    let directory = TempDir::new().unwrap();
    for path in files(&crates().join("storage/tests/golden/clean").join(log)) {
        let name = path.file_name().unwrap().to_str().unwrap();
        file(&directory, name, &fs::read(&path).unwrap());
    }
    let path = directory.path().join(name);
    let mut content = fs::read(&path).unwrap();
    change(&mut content);
    fs::write(&path, content).unwrap();
    dump(&["--verify", "--quiet"], &files(directory.path()))
}

#[test]
fn verify_finds_what_was_changed() {
    let found = |log: &str, name: &str, at: usize, wanted: &str| {
        let output = damaged(log, name, |content| content[at] ^= 4);
        assert_eq!(code(&output), 3, "{name} byte {at}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(wanted) && said.contains(name), "{name} byte {at}: {said}");
    };
    let log = "3.9.2-txn-0";
    found(log, "00000000000000000012.log", 70, "checksum");
    // The checksum does not cover the base offset and the length.
    found(log, "00000000000000000012.log", 7, "that is due");
    found(log, "00000000000000000012.log", 11, "checksum");
    found(log, "00000000000000000012.index", 3, "ends at offset");
    found(log, "00000000000000000012.index", 7, "no batch starts at position");
    found(log, "00000000000000000012.timeindex", 7, "timestamp");
    found(log, "00000000000000000012.timeindex", 11, "offset");
    found(log, "00000000000000000012.txnindex", 25, "marker");
    found(log, "00000000000000000012.snapshot", 20, "checksum");
    found("3.9.2-codecs-0", "leader-epoch-checkpoint", 0, "version");
    // Another topic id is a topic id; another version or a letter that is none is not.
    found(log, "partition.metadata", 0, "topic id");
    let output = damaged(log, "00000000000000000012.timeindex", |content| content.truncate(13));
    assert!(complaint(&output).contains("no whole entry"), "{}", complaint(&output));
    // The second batch again after itself: its checksum is right, its place is not.
    let output = damaged("legacy-oldmix-0", "00000000000000000000.log", |content| {
        let again = content.clone();
        content.extend(again);
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("00000000000000000000.log") && said.contains("that is due"), "{said}");
}

#[test]
fn strange_files_end_with_a_line_and_no_more() {
    const NAMES: [&str; 9] = [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000000.snapshot",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "partition.metadata",
        "meta.properties",
    ];
    let mut seed = 7u64;
    let mut garbage = |len: usize| -> Vec<u8> {
        std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        })
        .take(len)
        .collect()
    };
    for name in NAMES {
        let directory = TempDir::new().unwrap();
        for content in [garbage(1), garbage(61), garbage(5000), vec![0xff; 4096], vec![0; 4096]] {
            let path = file(&directory, name, &content);
            let output = dump(&["--verify", "--records"], &[path]);
            let is_padding = content.iter().all(|&byte| byte == 0) && name.ends_with("index");
            // An index of zeros is one that was allocated whole, though its batches are missing.
            let without_log = is_padding.then_some("cannot be checked");
            assert_eq!(code(&output), 3, "{name}, {} bytes", content.len());
            assert!(complaint(&output).contains(without_log.unwrap_or(name)));
        }
        // A terabyte of nothing: neither read nor held.
        let path = directory.path().join(name);
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let output = dump(&["--quiet"], &[path]);
        assert_eq!(code(&output), if name.ends_with("index") { 0 } else { 3 }, "{name}");
    }
    let directory = TempDir::new().unwrap();
    // A batch that says that it has two gigabytes, in a file that has them.
    let mut head = vec![0; 61];
    head[8..12].copy_from_slice(&0x7fff_0000_i32.to_be_bytes());
    head[16] = 2;
    let path = file(&directory, NAMES[0], &head);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 32).unwrap();
    let output = dump(&["--limit", "1048576"], &[path]);
    assert!(complaint(&output).contains("the limit is 1048576"), "{}", complaint(&output));
    for name in ["notes.txt", "1.log", "99999999999999999999.log", "x.index"] {
        let output = dump(&[], &[file(&directory, name, b"x")]);
        assert_eq!(code(&output), 1, "{name}");
        assert!(complaint(&output).contains("not a file of a log directory"), "{name}");
    }
    let pipe = directory.path().join("00000000000000000007.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(code(&dump(&[], &[pipe])), 1, "nobody waits for a pipe");
    assert_eq!(code(&dump(&[], &[directory.path().join("00000000000000000008.log")])), 1);
}
