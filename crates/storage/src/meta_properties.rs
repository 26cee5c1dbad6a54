//! `meta.properties`: whose directory it is.

use crate::checkpoint::{self, Durability};
use crate::error::DiskError;
use model::BrokerId;
use platform::Disk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file's name, in the log directory.
pub(crate) const FILE_NAME: &str = "meta.properties";

/// The file's keys and values; empty if there is no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaProperties(BTreeMap<String, String>);

impl MetaProperties {
    pub(crate) fn path(directory: &Path) -> PathBuf {
        directory.join(FILE_NAME)
    }

    /// Reads the file of `directory`.
    ///
    /// # Errors
    /// The inner one says what is wrong with the content.
    pub(crate) fn read(
        disk: &dyn Disk,
        directory: &Path,
    ) -> Result<Result<Self, String>, DiskError> {
        let Some(bytes) = checkpoint::read_file(disk, &Self::path(directory))? else {
            return Ok(Ok(Self::default()));
        };
        Ok(java_properties::read(bytes.as_slice())
            .map(|values| Self(values.into_iter().collect()))
            .map_err(|error| format!("not a properties file: {error}")))
    }

    /// Keys and values, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn cluster_id(&self) -> Option<&str> {
        self.0.get("cluster.id").map(String::as_str)
    }

    /// The broker or node that the directory belongs to: `broker.id` in version 0, `node.id` in version 1.
    pub(crate) fn broker_id(&self) -> Result<Option<BrokerId>, String> {
        let key = match self.0.get("version").map(String::as_str) {
            None | Some("0") => "broker.id",
            Some("1") => "node.id",
            Some(other) => return Err(format!("version {other} is not known")),
        };
        let id = self.0.get(key).map(|id| id.parse().map(BrokerId));
        id.transpose().map_err(|_| format!("{key} is not a number"))
    }

    /// Writes the file, with what it said before and these ids; does nothing if it has them.
    pub(crate) fn write(
        &mut self,
        disk: &dyn Disk,
        directory: &Path,
        broker_id: BrokerId,
        cluster_id: &str,
    ) -> Result<(), DiskError> {
        let mut next = self.0.clone();
        if next.get("version").is_none_or(|version| version == "0") {
            next.insert("version".to_owned(), "0".to_owned());
            next.insert("broker.id".to_owned(), broker_id.to_string());
        }
        next.insert("cluster.id".to_owned(), cluster_id.to_owned());
        if next == self.0 {
            return Ok(());
        }
        let mut text = "#\n".to_owned();
        for (key, value) in &next {
            text.push_str(&format!("{key}={}\n", escape(value)));
        }
        let path = Self::path(directory);
        checkpoint::replace(disk, &path, text.as_bytes(), Durability::Synced)?;
        self.0 = next;
        Ok(())
    }
}

fn escape(value: &str) -> String {
    value.chars().fold(String::new(), |mut text, c| {
        if matches!(c, '\\' | '=' | ':' | '#' | '!') {
            text.push('\\');
        }
        text.push(c);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::MemoryDisk;

    fn read(text: &str) -> Result<MetaProperties, String> {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/meta.properties"), text.as_bytes());
        MetaProperties::read(&disk, Path::new("/d")).unwrap()
    }

    #[test]
    fn both_versions_name_the_broker() {
        let zookeeper =
            read("#\n#Sun Nov 29 16:40:49 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=VPn\n");
        let zookeeper = zookeeper.unwrap();
        assert_eq!(zookeeper.broker_id(), Ok(Some(BrokerId(1))));
        assert_eq!(zookeeper.cluster_id(), Some("VPn"));
        let kraft = read("node.id=7\nversion=1\ncluster.id=a\\=b\ndirectory.id=x").unwrap();
        assert_eq!(kraft.broker_id(), Ok(Some(BrokerId(7))));
        assert_eq!(kraft.cluster_id(), Some("a=b"));
        read("version=2\nnode.id=1").unwrap().broker_id().unwrap_err();
        read("broker.id=x").unwrap().broker_id().unwrap_err();
    }

    #[test]
    fn writing_keeps_what_was_there() {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/meta.properties"), b"directory.id=x\n");
        let mut meta = MetaProperties::read(&disk, Path::new("/d")).unwrap().unwrap();
        meta.write(&disk, Path::new("/d"), BrokerId(3), "id:1=").unwrap();
        let again = MetaProperties::read(&disk, Path::new("/d")).unwrap().unwrap();
        assert_eq!(again, meta);
        assert_eq!(again.cluster_id(), Some("id:1="));
        let changes = disk.changes();
        meta.write(&disk, Path::new("/d"), BrokerId(3), "id:1=").unwrap();
        assert_eq!(disk.changes(), changes, "a start on a full disk writes nothing");
    }
}
