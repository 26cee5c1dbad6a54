//! The watches that a client has on its server, so that it can ask the next server for them again.

use crate::protocol::{Change, WatchedPaths, full_path};
use std::collections::BTreeSet;

/// What kind of watch a read leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On a node that is there: its data and its deletion.
    Data,
    /// On a node that is not there: its creation.
    Exists,
    /// On a node's list of children, and its deletion.
    Children,
}

/// All watches, by the client's own paths. A watch is spent by its first event.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: BTreeSet<String>,
    exists: BTreeSet<String>,
    children: BTreeSet<String>,
}

impl Watches {
    pub(crate) fn arm(&mut self, kind: Kind, path: &str) {
        let paths = match kind {
            Kind::Data => &mut self.data,
            Kind::Exists => &mut self.exists,
            Kind::Children => &mut self.children,
        };
        if !paths.contains(path) {
            paths.insert(path.to_owned());
        }
    }

    /// Spends the watches that a change sets off; whether there were any.
    pub(crate) fn fire(&mut self, change: Change, path: &str) -> bool {
        match change {
            Change::Created | Change::Data => self.data.remove(path) | self.exists.remove(path),
            Change::Children => self.children.remove(path),
            Change::Deleted => {
                self.data.remove(path) | self.exists.remove(path) | self.children.remove(path)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.exists.len() + self.children.len()
    }

    /// All of them, in portions of at most about `bytes` of paths as the server knows them.
    pub(crate) fn portions(&self, chroot: &str, bytes: usize) -> Vec<WatchedPaths> {
        let mut portions: Vec<WatchedPaths> = Vec::new();
        let mut size = usize::MAX;
        for (kind, paths) in [
            (Kind::Data, &self.data),
            (Kind::Exists, &self.exists),
            (Kind::Children, &self.children),
        ] {
            for path in paths {
                let path = full_path(chroot, path);
                if size.saturating_add(path.len() + 4) > bytes {
                    portions.push(WatchedPaths::default());
                    size = 0;
                }
                size += path.len() + 4;
                let portion = portions.last_mut().expect("pushed above");
                match kind {
                    Kind::Data => portion.data.push(path),
                    Kind::Exists => portion.exists.push(path),
                    Kind::Children => portion.children.push(path),
                }
            }
        }
        portions
    }
}

#[test]
fn portions_hold_every_watch_once_and_stay_small() {
    let mut watches = Watches::default();
    for i in 0..1000 {
        watches.arm(Kind::Data, &format!("/data/{i}"));
        watches.arm(Kind::Exists, &format!("/exists/{i}"));
        watches.arm(Kind::Children, &format!("/children/{i}"));
    }
    let portions = watches.portions("/chroot", 4096);
    let mut seen = 0;
    for portion in &portions {
        let all = portion.data.iter().chain(&portion.exists).chain(&portion.children);
        assert!(all.clone().map(|path| path.len() + 4).sum::<usize>() <= 4096);
        assert!(all.clone().all(|path| path.starts_with("/chroot/")));
        seen += all.count();
    }
    assert_eq!((seen, watches.len()), (3000, 3000));
    assert!(Watches::default().portions("", 4096).is_empty());
}
