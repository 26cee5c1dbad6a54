//! What a crash may leave of a disk.
//!
//! A killed process leaves everything. A power cut leaves what was synced, and of the rest whatever the
//! seed says, within what a file system may do to a program that relies on POSIX alone:
//!
//! - a sector (512 or 4096 bytes) of a file is as it was after any of the writes since the last sync, each
//!   sector by itself; so a write may be torn, and of two writes the later one alone may be there;
//! - a file's length is any that it had since the last sync, or lies between two of them; what is beyond
//!   the data that came is zeros;
//! - a change of a name that was not followed by a sync of its directory may be there or not, whatever
//!   became of the others; a rename is there whole or not at all. Half of the images keep the order of the
//!   changes of names, as journalling file systems do;
//! - a sync of a file does not make its name durable.

use crate::dice::Dice;
use crate::tree::{Id, Node, Operation, Tree, overwrite};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct FileTrack {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    SetLength(usize),
}

#[derive(Debug, Default)]
struct DirectoryTrack {
    durable: BTreeMap<String, Id>,
    /// With their numbers in the order of all changes of names.
    pending: Vec<(u64, NameChange)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Put(String, Id),
    Remove(String),
    Rename(String, String, Id),
}

impl NameChange {
    fn apply(&self, entries: &mut BTreeMap<String, Id>) {
        match self {
            Self::Put(name, id) => drop(entries.insert(name.clone(), *id)),
            Self::Remove(name) => drop(entries.remove(name)),
            Self::Rename(from, to, id) => {
                // What has the old name by now, if the change that gave it another was lost, keeps it not:
                // the rename took that name away.
                entries.remove(from);
                entries.insert(to.clone(), *id);
            }
        }
    }
}

/// Follows operations and knows what of them is durable.
#[derive(Debug)]
pub struct Tracker {
    live: Tree,
    files: BTreeMap<Id, FileTrack>,
    directories: BTreeMap<Id, DirectoryTrack>,
    changes_of_names: u64,
    /// With a journal, so many changes of names are durable.
    synced_names: u64,
}

impl Tracker {
    /// Begins with a disk all of whose content is durable.
    #[must_use]
    pub fn new(base: &Tree) -> Self {
        let mut tracker = Self {
            live: base.clone(),
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            changes_of_names: 0,
            synced_names: 0,
        };
        tracker.settle();
        tracker
    }

    fn settle(&mut self) {
        self.files.clear();
        self.directories.clear();
        for (id, node) in &self.live.nodes {
            match node {
                Node::File(bytes) => {
                    let track = FileTrack { durable: bytes.clone(), pending: Vec::new() };
                    self.files.insert(*id, track);
                }
                Node::Directory(entries) => {
                    let track = DirectoryTrack { durable: entries.clone(), pending: Vec::new() };
                    self.directories.insert(*id, track);
                }
            }
        }
        self.synced_names = self.changes_of_names;
    }

    fn name_changed(&mut self, directory: Id, change: NameChange) {
        self.changes_of_names += 1;
        let number = self.changes_of_names;
        self.directories.entry(directory).or_default().pending.push((number, change));
    }

    /// Takes the next operation.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { directory, name, id, is_directory } => {
                match is_directory {
                    true => drop(self.directories.insert(*id, DirectoryTrack::default())),
                    false => drop(self.files.insert(*id, FileTrack::default())),
                }
                self.name_changed(*directory, NameChange::Put(name.clone(), *id));
            }
            Operation::Rename { directory, from, to } => {
                let entries = self.live.entries(*directory).expect("a directory");
                if let Some(&id) = entries.get(from) {
                    let change = NameChange::Rename(from.clone(), to.clone(), id);
                    self.name_changed(*directory, change);
                }
            }
            Operation::Remove { directory, name } => {
                self.name_changed(*directory, NameChange::Remove(name.clone()));
            }
            Operation::Write { id, position, bytes } => {
                let change = Change::Write { position: *position, bytes: bytes.clone() };
                self.files.get_mut(id).expect("a file").pending.push(change);
            }
            Operation::SetLength { id, length } => {
                self.files.get_mut(id).expect("a file").pending.push(Change::SetLength(*length));
            }
            Operation::Sync(id) => {
                let bytes = self.live.bytes(*id).expect("a file").clone();
                self.files.insert(*id, FileTrack { durable: bytes, pending: Vec::new() });
            }
            Operation::SyncDirectory(id) => {
                let track = self.directories.get_mut(id).expect("a directory");
                if let Some((number, _)) = track.pending.last() {
                    self.synced_names = self.synced_names.max(*number);
                }
                track.pending.clear();
                track.durable = self.live.entries(*id).expect("a directory").clone();
            }
            Operation::SyncEverything => self.settle(),
        }
        self.live.apply(operation);
    }

    /// What a killed process leaves.
    #[must_use]
    pub fn killed(&self) -> Tree {
        Tree::of(self.live.nodes.clone(), self.live.next_id())
    }

    /// What a power cut leaves, by `seed`.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> Tree {
        let dice = Dice::new(seed);
        let mut nodes = BTreeMap::new();
        let names = match dice.below(6) {
            0 => Names::All,
            1 => Names::None,
            2 | 3 => {
                let most = i64::try_from(self.changes_of_names).expect("few changes");
                let least = i64::try_from(self.synced_names).expect("few changes");
                Names::Upto(dice.between(least, most).unsigned_abs())
            }
            _ => Names::Some(*dice.pick(&[1, 4, 7])),
        };
        for (id, track) in &self.directories {
            let mut entries = track.durable.clone();
            for (number, change) in &track.pending {
                let is_kept = match names {
                    Names::All => true,
                    Names::None => false,
                    Names::Upto(last) => *number <= last,
                    Names::Some(eighths) => dice.chance(eighths, 8),
                };
                if is_kept {
                    change.apply(&mut entries);
                }
            }
            nodes.insert(*id, Node::Directory(entries));
        }
        let mode = dice.below(7);
        for (id, track) in &self.files {
            let mode = if mode == 6 { dice.below(6) } else { mode };
            let bytes = if track.pending.is_empty() {
                track.durable.clone()
            } else {
                match mode {
                    0 => self.live.bytes(*id).expect("a file").clone(),
                    1 => track.durable.clone(),
                    2 => track.torn_prefix(&dice),
                    3 => track.sectors(&dice, 4096),
                    _ => track.sectors(&dice, 512),
                }
            };
            nodes.insert(*id, Node::File(bytes));
        }
        Tree::of(nodes, self.live.next_id())
    }
}

/// Which changes of names a crash keeps.
#[derive(Clone, Copy, Debug)]
enum Names {
    All,
    None,
    Upto(u64),
    /// Each with so many chances in eight.
    Some(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes: written } => overwrite(bytes, *position, written),
            Self::SetLength(length) => bytes.resize(*length, 0),
        }
    }
}

impl FileTrack {
    /// The first changes, and a part of the next.
    fn torn_prefix(&self, dice: &Dice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let kept = dice.below(self.pending.len() + 1);
        self.pending[..kept].iter().for_each(|change| change.apply(&mut bytes));
        if let Some(Change::Write { position, bytes: written }) = self.pending.get(kept) {
            let part = dice.below(written.len() + 1);
            overwrite(&mut bytes, *position, &written[..part]);
        }
        bytes
    }

    /// Each sector as it was after some change, the length as after another.
    fn sectors(&self, dice: &Dice, sector: usize) -> Vec<u8> {
        let count = self.pending.len();
        let mut lengths = vec![self.durable.len()];
        for change in &self.pending {
            let last = *lengths.last().expect("not empty");
            lengths.push(match change {
                Change::Write { position, bytes } => last.max(position + bytes.len()),
                Change::SetLength(length) => *length,
            });
        }
        let of_length = dice.below(count + 1);
        let mut length = lengths[of_length];
        if let Some(&next) = lengths.get(of_length + 1)
            && next > length
            && dice.chance(1, 4)
        {
            // A write that grows the file grows it page by page.
            length = (length + dice.below(next - length + 1)).next_multiple_of(sector).min(next);
        }
        let most = lengths.iter().copied().max().expect("not empty");
        let eighths = *dice.pick(&[1, 4, 7]);
        let versions = (0..most.div_ceil(sector)).map(|at| {
            let (mut low, mut high) = (0, count);
            for (number, change) in self.pending.iter().enumerate() {
                // A cut frees the sector: with the cut there is nothing of before, without it nothing of after.
                if let Change::SetLength(cut) = change
                    && *cut <= at * sector
                    && lengths[number] > *cut
                {
                    if number < of_length {
                        low = number + 1;
                    } else {
                        high = high.min(number);
                    }
                }
            }
            let is_newest = dice.chance(eighths, 8);
            let any = low + dice.below(high - low + 1);
            match (is_newest, dice.chance(1, 2)) {
                (true, _) => high,
                (false, true) => low,
                (false, false) => any,
            }
        });
        let versions = versions.collect::<Vec<_>>();
        let mut found = vec![0; most.next_multiple_of(sector)];
        let mut bytes = self.durable.clone();
        for version in 0..=count {
            if version > 0 {
                self.pending[version - 1].apply(&mut bytes);
            }
            for at in (0..versions.len()).filter(|&at| versions[at] == version) {
                let range = at * sector..((at + 1) * sector).min(bytes.len());
                if let Some(source) = bytes.get(range.clone()) {
                    found[range].copy_from_slice(source);
                }
            }
        }
        found.resize(length, 0);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;
    use std::collections::BTreeSet;

    fn create(name: &str, id: Id) -> Operation {
        Operation::Create { directory: ROOT, name: name.to_owned(), id, is_directory: false }
    }

    fn write(id: Id, position: usize, byte: u8, count: usize) -> Operation {
        Operation::Write { id, position, bytes: vec![byte; count] }
    }

    fn images(operations: &[Operation]) -> BTreeSet<Vec<(String, Vec<u8>)>> {
        let mut tracker = Tracker::new(&Tree::default());
        operations.iter().for_each(|operation| tracker.apply(operation));
        (0..3000).map(|seed| tracker.power_cut(seed).files().into_iter().collect()).collect()
    }

    #[test]
    fn what_was_synced_stays_and_of_the_rest_everything_is_possible() {
        let synced = [create("a", 1), write(1, 0, 1, 700), Operation::Sync(1)];
        let synced = [&synced[..], &[Operation::SyncDirectory(ROOT)]].concat();
        assert_eq!(images(&synced).len(), 1);

        let later = [write(1, 700, 2, 700), write(1, 600, 3, 100)];
        let found = images(&[&synced[..], &later].concat());
        assert!(found.iter().all(|files| files[0].1[..600] == [1; 600]));
        let tail = |files: &Vec<(String, Vec<u8>)>| files[0].1.get(600..).map(<[u8]>::to_vec);
        let tails = found.iter().filter_map(tail).collect::<BTreeSet<_>>();
        assert!(tails.contains(&vec![1; 100]), "nothing came");
        assert!(tails.contains(&[vec![3; 100], vec![2; 700]].concat()), "all came");
        assert!(tails.contains(&[vec![1; 100], vec![2; 700]].concat()), "the first alone");
        let zeros = [vec![3; 100], vec![2; 324], vec![0; 376]].concat();
        assert!(tails.contains(&zeros), "the length and not all data");
        assert!(tails.contains(&[vec![1; 100], vec![2; 324]].concat()), "a sector is missing");
    }

    #[test]
    fn names_that_were_not_synced_come_in_any_selection() {
        let rename = |from: &str, to: &str| Operation::Rename {
            directory: ROOT,
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let operations = [create("a", 1), Operation::SyncDirectory(ROOT), rename("a", "b")];
        let found = images(&[&operations[..], &[create("a", 2), write(2, 0, 1, 1)]].concat());
        let named = |files: &Vec<(String, Vec<u8>)>| {
            files.iter().map(|file| file.0.clone()).collect::<Vec<_>>().join("")
        };
        let names = found.iter().map(named).collect::<BTreeSet<_>>();
        assert_eq!(names, ["/a", "/b", "/a/b"].map(str::to_owned).into());
    }

    #[test]
    fn what_was_cut_off_does_not_come_back_with_what_came_after() {
        let operations = [create("a", 1), write(1, 0, 1, 1024), Operation::Sync(1)];
        let operations = [&operations[..], &[Operation::SyncDirectory(ROOT)]].concat();
        let cut = Operation::SetLength { id: 1, length: 0 };
        let found = images(&[&operations[..], &[cut, write(1, 0, 2, 512)]].concat());
        let contents = found.into_iter().map(|mut files| files.remove(0).1);
        let contents = contents.collect::<BTreeSet<_>>();
        let allowed = [vec![1; 1024], vec![], vec![2; 512], vec![0; 512]];
        assert!(allowed.iter().all(|allowed| contents.contains(allowed)), "{contents:?}");
        let other = contents.iter().find(|content| {
            let whole = allowed.contains(content);
            !(whole || content.len() < 512 && content.iter().all(|&byte| byte == 2))
        });
        assert_eq!(other, None);
    }
}
