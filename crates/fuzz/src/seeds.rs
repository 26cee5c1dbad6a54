//! Inputs to begin with: what a fuzzer would hardly find by itself. Made from the other crates' goldens, which are real
//! Kafka's bytes, and from our own writers.

use crate::targets::{files, messages, nodes};
use protocol::arbitrary::{Arbitrary, Random};
use protocol::messages::{
    GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue,
};
use protocol::{Message, RecordKey, encode_record_key, encode_versioned};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The longest seed: a fuzzer is the slower the longer its inputs are.
const LONGEST: usize = 16 << 10;

/// The inputs for the target `name`.
///
/// # Errors
/// If the goldens cannot be read: the sources have to be there.
pub fn seeds(name: &str) -> io::Result<Vec<Vec<u8>>> {
    let found = match name {
        "message" => messages::seeds(),
        "request" => requests()?,
        "batches" => segments(&[0])?,
        "produce" => segments(&[0, 5])?,
        "file" => single_files()?,
        "recovery" => partitions()?,
        "store" => nodes::store_seeds(),
        "nodes" => nodes::node_seeds(),
        "groups" => groups(),
        "zookeeper" => conversations(),
        "connect-string" => texts(&["localhost:2181", "a:1,[::1]:2,c/chroot/of", "::1"]),
        "config" => texts(&[
            "log.retention.ms=5\nlisteners=A://h:1,B://:2\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\ninter.broker.listener.name=A\n\n\
             log.flush.interval.ms=1\n\ncleanup.policy=compact,delete\ncompression.type=zstd",
            "zookeeper.connect=z:2181/c\nbroker.rack=r\n\nmin.insync.replicas=2\n\nretention.ms=-1",
        ]),
        _ => Vec::new(),
    };
    Ok(found.into_iter().filter(|seed| seed.len() <= LONGEST).collect())
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A golden of another crate.
fn golden(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(of)
}

/// The files below `directory`, sorted.
fn below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

fn requests() -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for path in below(&golden("protocol/tests/golden"))? {
        if path.extension().is_some_and(|extension| extension == "hex") {
            let text = fs::read_to_string(&path)?;
            let lines = text.lines().filter_map(|line| line.strip_prefix("request "));
            found.extend(lines.filter_map(from_hex));
        }
    }
    Ok(found)
}

fn segments(prefix: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for path in below(&golden("storage/tests/golden"))? {
        if path.extension().is_some_and(|extension| extension == "log") {
            found.push([prefix, &fs::read(&path)?].concat());
        }
    }
    Ok(found)
}

/// Which of [`files::NAMES`] has this file's kind.
fn kind_of(path: &Path) -> Option<u8> {
    let (file, extension) = (path.file_name()?, path.extension());
    let at = files::NAMES.iter().map(Path::new).position(|name| {
        name.as_os_str() == file || extension.is_some() && name.extension() == extension
    })?;
    u8::try_from(at).ok()
}

fn single_files() -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for path in below(&golden("storage/tests/golden"))? {
        if let Some(kind) = kind_of(&path) {
            found.push([&[kind, 0], &*fs::read(&path)?].concat());
        }
    }
    Ok(found)
}

fn part(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_le_bytes()[..], &bytes[..usize::from(length)]].concat()
}

/// Of each golden directory the files that begin at offset 0, and those without an offset.
fn partitions() -> io::Result<Vec<Vec<u8>>> {
    let mut found = std::collections::BTreeMap::<PathBuf, Vec<u8>>::new();
    for path in below(&golden("storage/tests/golden"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_first = !name.starts_with(|c: char| c.is_ascii_digit())
            || name.starts_with("00000000000000000000");
        if let (Some(kind), Some(directory), true) = (kind_of(&path), path.parent(), is_first) {
            let seed = found.entry(directory.to_owned()).or_insert_with(|| vec![0]);
            seed.push(kind);
            seed.extend(part(&fs::read(&path)?));
        }
    }
    Ok(found.into_values().collect())
}

fn groups() -> Vec<Vec<u8>> {
    fn records<K: Arbitrary + RecordKey, V: Arbitrary + Message>(random: &mut Random) -> Vec<u8> {
        let mut seed = Vec::new();
        for version in V::VERSIONS {
            let key = encode_record_key(&K::arbitrary(random, 0));
            let value = encode_versioned(&V::arbitrary(random, version), version);
            if let (Ok(key), Ok(value)) = (key, value) {
                seed.push(0);
                seed.extend(part(&key));
                seed.extend(part(&value));
            }
        }
        seed
    }
    let mut random = Random::new(1);
    (0..8)
        .flat_map(|_| {
            [
                records::<OffsetCommitKey, OffsetCommitValue>(&mut random),
                records::<GroupMetadataKey, GroupMetadataValue>(&mut random),
            ]
        })
        .collect()
}

/// A session that is opened, and an answer to each kind of call.
fn conversations() -> Vec<Vec<u8>> {
    let opening = [
        &0_i32.to_be_bytes()[..],
        &18_000_i32.to_be_bytes(),
        &77_i64.to_be_bytes(),
        &16_i32.to_be_bytes(),
        &[9; 16],
        &[0],
    ]
    .concat();
    let answer = |xid: i32, error: i32, body: &[u8]| {
        [&xid.to_be_bytes()[..], &5_i64.to_be_bytes(), &error.to_be_bytes(), body].concat()
    };
    let stat = [0; 68];
    let data = [&3_i32.to_be_bytes()[..], b"abc", &stat].concat();
    let children = [&1_i32.to_be_bytes()[..], &1_i32.to_be_bytes(), b"a"].concat();
    let event =
        [&1_i32.to_be_bytes()[..], &3_i32.to_be_bytes(), &2_i32.to_be_bytes(), b"/a"].concat();
    let begin = [&[0, 5][..], &part(&opening)].concat();
    let mut found = vec![begin.clone()];
    for (call, body) in [(0, &data), (1, &children), (2, &stat.to_vec()), (5, &event)] {
        for error in [0, -101, -112] {
            let answered = part(&answer(1, error, body));
            found.push([&begin[..], &[1, call, 5], &answered, &[0, 2, 0, 3]].concat());
        }
    }
    found.push([&begin[..], &[1, 0, 5], &part(&answer(-1, 0, &event))].concat());
    found
}
