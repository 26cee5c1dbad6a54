//! Moves that are about to end: for a moment a partition's log is in two log directories.
//!
//! The copy gets the partition's name before the original loses it, as in Apache Kafka: whatever a crash leaves, the log
//! is there. Before that each of the two directories notes the other (a plain file, which Kafka ignores), so that a
//! start that finds both logs knows which one to go on with, where Kafka's gives up. Until the original is gone they
//! are equal; who goes on with one of them crosses the other out first.
//!
//! | both are there, and noted | the log to go on with |
//! |---|---|
//! | each by the other | the copy: it was flushed |
//! | one, by the other | the one: its directory was used while the other was away |
//! | none | not known: an operator has to tell |

use crate::checkpoint::{self, Durability};
use crate::error::{DiskError, LogError};
use model::TopicPartition;
use platform::Disk;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A plain file in each log directory that takes part in a move.
pub(crate) const FILE_NAME: &str = "barnabas-moves";

/// What one of the two logs is to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Original,
    Copy,
}

/// One side of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// What the log in this directory is.
    pub(crate) role: Role,
    /// The id of the directory that has the other log.
    pub(crate) other: String,
}

/// The moves that a directory takes part in.
pub(crate) type Moves = BTreeMap<TopicPartition, Side>;

struct Line<'a>(&'a TopicPartition, &'a Side);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.1.role {
            Role::Original => "original",
            Role::Copy => "copy",
        };
        write!(f, "{} {} {role} {}", self.0.topic, self.0.partition, self.1.other)
    }
}

fn parse(line: &str) -> Option<(TopicPartition, Side)> {
    let mut fields = line.split(' ');
    let name = TopicPartition::new(fields.next()?, fields.next()?.parse().ok()?);
    let role = match fields.next()? {
        "original" => Role::Original,
        "copy" => Role::Copy,
        _ => return None,
    };
    let other = fields.next()?.to_owned();
    fields.next().is_none().then_some((name, Side { role, other }))
}

/// Reads the moves of a directory.
pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> Result<Moves, LogError> {
    let lines = checkpoint::read(disk, &directory.join(FILE_NAME), parse)?;
    Ok(lines.into_iter().collect())
}

/// Writes the moves of a directory, durably.
pub(crate) fn write(disk: &dyn Disk, directory: &Path, moves: &Moves) -> Result<(), DiskError> {
    let path = directory.join(FILE_NAME);
    let text = checkpoint::encode(moves.iter().map(|(name, side)| Line(name, side)));
    checkpoint::replace(disk, &path, text.as_bytes(), Durability::Synced)
}

#[test]
fn what_was_written_is_read_back() {
    let disk = platform::MemoryDisk::new();
    disk.create_directories(Path::new("/a")).unwrap();
    assert!(read(&disk, Path::new("/a")).unwrap().is_empty());
    let side = |role| Side { role, other: "0123abcd".to_owned() };
    let moves = [("t", Role::Copy), ("u-v", Role::Original)];
    let moves: Moves =
        moves.map(|(topic, role)| (TopicPartition::new(topic, 3), side(role))).into();
    write(&disk, Path::new("/a"), &moves).unwrap();
    assert_eq!(read(&disk, Path::new("/a")).unwrap(), moves);
    disk.put(Path::new("/a/barnabas-moves"), b"0\n1\nt 3 nothing 0123\n");
    read(&disk, Path::new("/a")).unwrap_err();
}
