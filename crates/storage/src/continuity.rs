//! Since when a broker's log directories are complete: every log that was created later is still in one
//! of them.
//!
//! A disk that is not mounted, or that was emptied, looks like a new one; a partition whose log was there
//! would start again at offset 0, and a leader without its log would have all others cut theirs. So each
//! directory remembers which others belong to it, and from which of the broker's registrations on (its
//! broker epoch) nothing can be missing. A partition's state in the store is older or younger than that.
//!
//! It also remembers in which run of the operating system it was last written to. What was not synced is there
//! as long as that runs; after a power failure the ends of logs are gone.
//!
//! Non-obvious:
//! - The file is written before `meta.properties` is: a start that was interrupted must not look like one of a
//!   directory that was always there.
//! - Directories without the file, but with `meta.properties` or with logs, are Apache Kafka's or from before
//!   the file: they are taken for complete, as Kafka takes them.

use crate::checkpoint::{self, Durability};
use crate::error::DiskError;
use platform::{Disk, Random};
use std::collections::BTreeSet;
use std::path::Path;

/// A plain file in each log directory: Kafka ignores those.
pub(crate) const FILE_NAME: &str = "barnabas-logs";

/// What one directory remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The directory's own name among the others.
    pub(crate) id: String,
    /// The directories that must be there for the broker to have all its logs, itself included.
    pub(crate) known: BTreeSet<String>,
    /// The broker epoch since when they are complete; absent until the broker has registered.
    pub(crate) complete_since: Option<i64>,
    /// The run of the operating system in which the broker last registered; absent if that cannot be told.
    pub(crate) boot: Option<String>,
}

impl Record {
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim())
        };
        let since = value("complete.since")?;
        let id = value("id")?.to_owned();
        let known = value("directories")?.split(',').map(str::to_owned);
        Some(Self {
            known: known.chain([id.clone()]).collect(),
            id,
            complete_since: (since != "unknown").then(|| since.parse()).transpose().ok()?,
            boot: value("boot").filter(|boot| !boot.is_empty()).map(str::to_owned),
        })
    }

    fn print(&self) -> String {
        let known = self.known.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let since = self.complete_since.map_or_else(|| "unknown".to_owned(), |e| e.to_string());
        let boot = self.boot.as_ref().map_or_else(String::new, |boot| format!("boot={boot}\n"));
        format!("id={}\ndirectories={known}\ncomplete.since={since}\n{boot}", self.id)
    }

    /// The record in `directory`; the inner `None` if it cannot be understood.
    pub(crate) fn read(
        disk: &dyn Disk,
        directory: &Path,
    ) -> Result<Option<Option<Self>>, DiskError> {
        let bytes = checkpoint::read_file(disk, &directory.join(FILE_NAME))?;
        Ok(bytes.map(|bytes| Self::parse(std::str::from_utf8(&bytes).ok()?)))
    }

    pub(crate) fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), DiskError> {
        let path = directory.join(FILE_NAME);
        checkpoint::replace(disk, &path, self.print().as_bytes(), Durability::Synced)
    }
}

/// What was found in one directory that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its record; none if there is none that can be understood.
    pub(crate) record: Option<Record>,
    /// Whether it can be told from one that never was a log directory.
    pub(crate) was_used: bool,
}

/// The records that the directories are to have now, in order.
pub(crate) fn judge(found: &[Found], offline: usize, random: &dyn Random) -> Vec<Record> {
    let records = || found.iter().filter_map(|found| found.record.as_ref());
    let mut known: BTreeSet<String> = records().flat_map(|record| &record.known).cloned().collect();
    let present: BTreeSet<&String> = records().map(|record| &record.id).collect();
    let missing = known.iter().filter(|id| !present.contains(id)).count();
    let is_complete = missing <= offline
        && present.len() == records().count()
        && found.iter().all(|found| found.was_used)
        && records().all(|record| record.complete_since.is_some());
    // What none of them remembers was always so.
    let since = records().filter_map(|record| record.complete_since).max().unwrap_or(-1);
    let ids: Vec<String> = found
        .iter()
        .map(|found| found.record.as_ref().map_or_else(|| unique(random), |r| r.id.clone()))
        .collect();
    if !is_complete {
        // What is missing now is accounted for; it is not to be missed at every start.
        known.clear();
    }
    known.extend(ids.iter().cloned());
    let boots = found.iter().map(|found| found.record.as_ref().and_then(|r| r.boot.clone()));
    ids.into_iter()
        .zip(boots)
        .map(|(id, boot)| Record {
            id,
            known: known.clone(),
            complete_since: is_complete.then_some(since),
            boot,
        })
        .collect()
}

fn unique(random: &dyn Random) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::MemoryDisk;
    use platform::random::SeededRandom;

    fn found(record: Option<&Record>) -> Found {
        Found { record: record.cloned(), was_used: true }
    }

    fn judged(found: &[Found], offline: usize) -> Vec<Record> {
        judge(found, offline, &SeededRandom::new(7))
    }

    fn registered(mut records: Vec<Record>, epoch: i64) -> Vec<Record> {
        for record in &mut records {
            record.complete_since.get_or_insert(epoch);
        }
        records
    }

    #[test]
    fn new_directories_are_complete_since_the_first_registration() {
        let new = Found { record: None, was_used: false };
        let two = judged(&[new.clone(), new], 0);
        assert_eq!(two.iter().map(|r| r.complete_since).collect::<Vec<_>>(), [None, None]);
        assert_ne!(two[0].id, two[1].id);
        let two = registered(two, 17);
        assert_eq!(judged(&[found(Some(&two[0])), found(Some(&two[1]))], 0), two, "and stay so");
    }

    #[test]
    fn a_directory_that_is_missing_or_came_back_empty_makes_the_past_uncertain() {
        let new = Found { record: None, was_used: false };
        let two = registered(judged(&[new.clone(), new.clone()], 0), 17);
        let first = found(Some(&two[0]));
        assert_eq!(judged(&[first.clone(), new], 0)[0].complete_since, None, "came back empty");
        let alone = judged(std::slice::from_ref(&first), 0);
        assert_eq!(alone[0].complete_since, None, "is missing");
        let alone = registered(alone, 30);
        assert_eq!(judged(&[found(Some(&alone[0]))], 0), alone, "and is not missed again");
        let both = judged(&[found(Some(&alone[0])), found(Some(&two[1]))], 0);
        assert_eq!(both[0].complete_since, Some(30), "came back");
        assert_eq!(judged(&[first], 1)[0].complete_since, Some(17), "is known to be offline");
    }

    #[test]
    fn a_registration_that_never_came_leaves_the_past_uncertain() {
        let new = Found { record: None, was_used: false };
        let one = judged(&[new], 0);
        assert_eq!(judged(&[found(Some(&one[0]))], 0)[0].complete_since, None);
    }

    #[test]
    fn apaches_directories_are_taken_for_complete() {
        assert_eq!(judged(&[found(None), found(None)], 0)[0].complete_since, Some(-1));
    }

    #[test]
    fn a_record_reads_as_it_was_written_and_junk_does_not() {
        let disk = MemoryDisk::new();
        let path = Path::new("/d");
        disk.create_directories(path).unwrap();
        assert_eq!(Record::read(&disk, path).unwrap(), None);
        for (complete_since, boot) in [(None, None), (Some(5), Some("b-1".to_owned()))] {
            let known = ["a", "b"].map(str::to_owned).into();
            let record = Record { id: "a".to_owned(), known, complete_since, boot };
            record.write(&disk, path).unwrap();
            assert_eq!(Record::read(&disk, path).unwrap(), Some(Some(record)));
        }
        for junk in ["", "id=a\n", "id=a\ndirectories=a\ncomplete.since=x\n", "\u{0}\u{0}"] {
            disk.put(&path.join(FILE_NAME), junk.as_bytes());
            assert_eq!(Record::read(&disk, path).unwrap(), Some(None), "{junk:?}");
        }
    }
}
