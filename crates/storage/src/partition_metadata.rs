//! `partition.metadata`: the topic id of a partition's log (KIP-516).

use crate::checkpoint::{self, Durability};
use crate::error::{DiskError, LogError};
use crate::files::PartitionDirectory;
use model::TopicId;

/// The file's name, in the partition's directory.
pub(crate) const FILE_NAME: &str = "partition.metadata";

/// The topic id; `None` if there is no file (Kafka before 2.8), or an empty one (a crash).
pub(crate) fn read(directory: &PartitionDirectory) -> Result<Option<TopicId>, LogError> {
    let path = directory.join(FILE_NAME);
    let Some(bytes) = checkpoint::read_file(directory.disk().as_ref(), &path)? else {
        return Ok(None);
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    let reason = "expected \"version: 0\" and \"topic_id: <id>\"".to_owned();
    parse(&bytes).map(Some).ok_or(LogError::Damaged { path, reason })
}

/// The topic id in the file's bytes.
pub(crate) fn parse(bytes: &[u8]) -> Option<TopicId> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut fields = text.lines().map(|line| line.split_once(':'));
    let (version_key, version) = fields.next()??;
    let (id_key, id) = fields.next()??;
    let version = version.trim().parse::<i32>().ok()?;
    let id = id.trim().parse::<TopicId>().ok()?;
    (version_key == "version" && version >= 0 && id_key == "topic_id" && id.0 != [0; 16])
        .then_some(id)
}

/// Writes the file. It has to be durable before there is a record, or a log of a deleted topic could be taken for
/// that of the next topic of its name.
pub(crate) fn write(
    directory: &PartitionDirectory,
    topic_id: TopicId,
    durability: Durability,
) -> Result<(), DiskError> {
    let text = format!("version: 0\ntopic_id: {topic_id}");
    let path = directory.join(FILE_NAME);
    checkpoint::replace(directory.disk().as_ref(), &path, text.as_bytes(), durability)
}

#[test]
fn the_file_is_kafkas() {
    let disk = platform::MemoryDisk::new();
    disk.put(std::path::Path::new("/d/t-0/x"), b"");
    let cache = crate::files::FileCache::new(std::sync::Arc::new(disk.clone()), 4);
    let directory =
        PartitionDirectory::new(std::sync::Arc::new(cache), std::path::Path::new("/d/t-0"));
    assert_eq!(read(&directory).unwrap(), None);
    let id = TopicId([7; 16]);
    write(&directory, id, Durability::Synced).unwrap();
    assert_eq!(read(&directory).unwrap(), Some(id));
    let text = disk.files().remove(0).1;
    assert_eq!(text, format!("version: 0\ntopic_id: {id}").into_bytes());
    for text in ["version: -1\ntopic_id: x", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "x"] {
        disk.put(&directory.join(FILE_NAME), text.as_bytes());
        read(&directory).unwrap_err();
    }
}
