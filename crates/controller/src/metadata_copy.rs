//! A cluster's metadata as a list of nodes, to be taken from one store to another.
//!
//! What is taken along are the persistent nodes, with their data: ids, topics, partitions' states, settings, producer
//! ids, `/controller_epoch`. What is not: registrations and whatever else ends with a session, notifications (their
//! numbers count per store), lists of eligible leaders, and marks of an earlier copy.
//!
//! Non-obvious:
//! - Until the last node is there, `/barnabas/importing` is, and `/cluster/id` is not: no broker of ours joins, and
//!   Apache's find that their directories belong to another cluster. So a copy that was cut short can only be finished.
//! - Broker epochs are numbers of a store's changes, and directories remember since which of them they are complete
//!   (decision 10). In another store every partition would look younger than its log. `/barnabas/imported` is made
//!   last: what is not younger than it came along, and counts as older than anything.

use crate::znodes;
use bytes::Bytes;
use coordination::{Op, Read, ReadResult, SessionHandle, Stat, StoreError};
use std::collections::BTreeMap;

/// Children of these are news for whoever watches, not state.
const NEWS: [&str; 4] =
    [znodes::CONFIG_CHANGES, znodes::ISR_CHANGES, znodes::LOG_DIR_EVENTS, znodes::SUSPICIONS];
/// Children of these go with versions of nodes and numbers of changes, which another store counts anew.
const OF_ONE_STORE: [&str; 2] = [znodes::ELIGIBLE, znodes::APPLIED_SETTINGS];
/// ZooKeeper's own nodes, at the root.
const OF_ZOOKEEPER: &str = "/zookeeper";
/// So many nodes are read, or written in one transaction, at once.
const BATCH: usize = 200;
/// ZooKeeper takes a megabyte in one request.
const BATCH_BYTES: usize = 256 << 10;
/// A version is reached by setting a node so often; nobody generated more broker ids.
const HIGHEST_VERSION: i32 = 1_000_000;

/// ZooKeeper's `jute.maxbuffer` is 1,048,575 bytes for a whole request.
const MOST_NODE_BYTES: usize = 1_000_000;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataNode {
    /// Where it is.
    pub path: String,
    /// What it holds; null and empty differ.
    pub data: Option<Bytes>,
    /// How often its data was set. Only that of `/brokers/seqid` means something to another store.
    pub version: i32,
}

/// All that a cluster's brokers agree on and that outlives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataCopy {
    /// The highest number of a change that was seen: no broker epoch was higher.
    pub last_change: i64,
    /// By path, parents before their children.
    pub nodes: Vec<MetadataNode>,
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// It was written, so many nodes of it now; the others were there.
    Written(usize),
    /// All of it was there, and nothing else.
    AlreadyThere,
}

/// Why metadata were not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The store does not do what was asked of it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody uses the store.
    #[error(
        "brokers are registered ({0}): stop them first, and wait for the sessions of those that were killed to expire"
    )]
    InUse(String),
    /// There is no cluster in it.
    #[error("it holds no cluster: there is no {}", znodes::CLUSTER_ID)]
    NoCluster,
    /// There is another one in it.
    #[error(
        "it holds metadata already: {0}; choose an empty chroot or directory, or remove what is there"
    )]
    Occupied(String),
    /// An import into it was not finished.
    #[error(
        "an import of other metadata was not finished there: finish it with the same file, or remove what it wrote ({0})"
    )]
    Unfinished(String),
    /// The copy is none.
    #[error("{0}")]
    Malformed(String),
}

impl MetadataCopy {
    /// Reads a store that no broker uses.
    ///
    /// # Errors
    /// [`CopyError`].
    pub async fn read(session: &SessionHandle) -> Result<Self, CopyError> {
        nobody_is_registered(session).await?;
        let found = tree(session).await?;
        if found.contains_key(znodes::IMPORTING) {
            return Err(CopyError::Unfinished(znodes::IMPORTING.to_owned()));
        }
        let copy = Self {
            last_change: found.values().map(|(_, stat)| last_change(stat)).max().unwrap_or(0),
            nodes: found
                .into_iter()
                .filter(|(path, (_, stat))| stat.ephemeral_owner.is_none() && is_copied(path))
                .map(|(path, (data, stat))| MetadataNode { path, data, version: stat.version })
                .collect(),
        };
        copy.cluster_id().ok_or(CopyError::NoCluster)?;
        Ok(copy)
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> Option<String> {
        let node = self.nodes.iter().find(|node| node.path == znodes::CLUSTER_ID)?;
        znodes::parse_cluster_id(node.data.as_deref()?)
    }

    /// Forgets which sessions brokers registered with: where the sessions of the two stores are counted apart,
    /// brokers would take their directories for old copies.
    pub fn forget_sessions(&mut self) {
        let below = format!("{}/", znodes::INCARNATIONS);
        self.nodes.retain(|node| !node.path.starts_with(&below));
    }

    /// Writes the copy into a store that no broker uses and that is empty, or holds a part of this copy that an earlier
    /// attempt wrote. May be done again.
    ///
    /// # Errors
    /// [`CopyError`]. After a failure that is the store's the next attempt goes on.
    pub async fn write(&self, session: &SessionHandle) -> Result<Copied, CopyError> {
        self.check()?;
        nobody_is_registered(session).await?;
        let mark = self.mark();
        let found = tree(session).await?;
        let begun = match found.get(znodes::IMPORTING) {
            Some((data, _)) if data.as_deref() != Some(mark.as_bytes()) => {
                return Err(CopyError::Unfinished(znodes::IMPORTING.to_owned()));
            }
            other => other.is_some(),
        };
        let is_there = self.compare(&found, begun)?;
        if is_there == Presence::Whole {
            return Ok(Copied::AlreadyThere);
        }
        if !begun {
            session.create_parents("/barnabas").await?;
            session.multi(vec![Op::create(znodes::IMPORTING, mark)]).await?;
        }
        let is_last = |node: &&MetadataNode| node.path == znodes::CLUSTER_ID;
        let missing = self.nodes.iter().filter(|node| !found.contains_key(&node.path));
        let (mut batch, mut bytes, mut written) = (Vec::new(), 0, 1);
        for node in missing.filter(|node| !is_last(node) && node.path != "/barnabas") {
            let op = create(node);
            bytes += op.size();
            if batch.len() == BATCH || (bytes > BATCH_BYTES && !batch.is_empty()) {
                session.multi(std::mem::take(&mut batch)).await?;
                bytes = op.size();
            }
            batch.push(op);
            written += 1;
        }
        if !batch.is_empty() {
            session.multi(batch).await?;
        }
        for node in self.nodes.iter().filter(|node| node.path == znodes::BROKER_ID_SEQUENCE) {
            raise_version(session, node).await?;
        }
        let mut last: Vec<_> = self.nodes.iter().filter(is_last).map(create).collect();
        last.push(Op::create_null(znodes::IMPORTED));
        last.push(Op::delete(znodes::IMPORTING));
        session.multi(last).await?;
        Ok(Copied::Written(written))
    }

    /// Whether it is a tree with a cluster in it.
    fn check(&self) -> Result<(), CopyError> {
        let mut known = std::collections::BTreeSet::new();
        for node in &self.nodes {
            let path = node.path.as_str();
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            let is_path = parent.is_some_and(|parent| parent.is_empty() || known.contains(parent));
            if !is_path || path.ends_with('/') || !is_copied(path) || !known.insert(path) {
                return Err(CopyError::Malformed(format!(
                    "node {path}: it is there twice, has no parent before it, or is none that is copied"
                )));
            }
            if !coordination::is_valid_path(path) {
                return Err(CopyError::Malformed(format!(
                    "node {path:?}: no node can have such a path"
                )));
            }
            let size = create(node).size();
            if size > MOST_NODE_BYTES {
                return Err(CopyError::Malformed(format!(
                    "node {path}: its {size} bytes are more than the {MOST_NODE_BYTES} that ZooKeeper takes at once"
                )));
            }
            let epoch = node.data.as_deref().map(znodes::parse_controller_epoch);
            if path == znodes::CONTROLLER_EPOCH
                && !epoch.flatten().is_some_and(|epoch| (0..i32::MAX).contains(&epoch.0))
            {
                return Err(CopyError::Malformed(format!(
                    "node {path}: no controller could be elected after what it says"
                )));
            }
        }
        self.cluster_id().map(drop).ok_or(CopyError::NoCluster)
    }

    /// What tells this copy from another one.
    fn mark(&self) -> String {
        // FNV-1a: it only has to tell files apart that people mix up.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for node in &self.nodes {
            add(node.path.as_bytes());
            add(&[u8::from(node.data.is_some())]);
            add(node.data.as_deref().unwrap_or_default());
            add(&[0]);
        }
        format!("{{\"version\":1,\"nodes\":{},\"hash\":\"{hash:016x}\"}}", self.nodes.len())
    }

    fn compare(&self, found: &Tree, begun: bool) -> Result<Presence, CopyError> {
        let mine: BTreeMap<_, _> = self.nodes.iter().map(|node| (&node.path, &node.data)).collect();
        let occupied = || CopyError::Occupied(describe(found));
        for (path, (data, _)) in found {
            let same = mine.get(path).is_some_and(|mine| *mine == data);
            // What every broker makes first, before there is a cluster.
            let is_empty = data.is_none() && mine.get(path).is_none_or(|mine| mine.is_none());
            if is_copied(path) && !same && !is_empty {
                return Err(occupied());
            }
        }
        let is_whole = mine.keys().all(|path| found.contains_key(*path));
        match (begun, found.contains_key(znodes::CLUSTER_ID)) {
            (false, true) if is_whole => Ok(Presence::Whole),
            (false, true) => Err(occupied()),
            // Without its mark a part of a cluster is nobody's.
            (false, false)
                if found.iter().any(|(path, node)| is_copied(path) && node.0.is_some()) =>
            {
                Err(occupied())
            }
            (_, _) => Ok(Presence::Part),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Whole,
    Part,
}

type Tree = BTreeMap<String, (Option<Bytes>, Stat)>;

fn last_change(stat: &Stat) -> i64 {
    stat.czxid.max(stat.mzxid).max(stat.pzxid).0
}

fn is_copied(path: &str) -> bool {
    let is_below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    !(NEWS.into_iter().any(is_below)
        || OF_ONE_STORE.into_iter().any(is_below)
        || is_below(znodes::BROKER_IDS)
        || path == OF_ZOOKEEPER
        || is_below(OF_ZOOKEEPER)
        || [znodes::CONTROLLER, znodes::IMPORTING, znodes::IMPORTED].contains(&path))
}

fn create(node: &MetadataNode) -> Op {
    match &node.data {
        Some(data) => Op::create(&node.path, data.clone()),
        None => Op::create_null(&node.path),
    }
}

/// What is in a store, in words.
fn describe(found: &Tree) -> String {
    let id = found.get(znodes::CLUSTER_ID).and_then(|(data, _)| data.as_deref());
    let id = id.and_then(znodes::parse_cluster_id);
    let prefix = format!("{}/", znodes::TOPICS);
    let topics: Vec<_> = found
        .keys()
        .filter_map(|path| path.strip_prefix(&prefix))
        .filter(|rest| !rest.contains('/'))
        .collect();
    let cluster = id.map_or_else(|| "no cluster id".to_owned(), |id| format!("cluster {id}"));
    let some = topics.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    match topics.len() {
        0 => {
            let paths = found.keys().filter(|path| is_copied(path)).take(3);
            let paths = paths.map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("{cluster}, no topics, nodes such as {paths}")
        }
        count => format!("{cluster}, {count} topics such as {some}"),
    }
}

async fn nobody_is_registered(session: &SessionHandle) -> Result<(), CopyError> {
    match session.children(znodes::BROKER_IDS, false).await {
        Ok(brokers) if brokers.is_empty() => Ok(()),
        Ok(brokers) => Err(CopyError::InUse(brokers.join(", "))),
        Err(StoreError::NoNode(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Every node but the root and ZooKeeper's own.
async fn tree(session: &SessionHandle) -> Result<Tree, CopyError> {
    let mut found = Tree::new();
    let mut level = vec![String::new()];
    while !level.is_empty() {
        let mut next = Vec::new();
        for paths in level.chunks(BATCH) {
            let root = |path: &String| if path.is_empty() { "/".to_owned() } else { path.clone() };
            let reads = paths.iter().map(|path| Read::children(root(path))).collect();
            for (path, children) in paths.iter().zip(session.read_all(reads).await?) {
                if let ReadResult::Children(names, _) = children? {
                    next.extend(names.iter().map(|name| format!("{path}/{name}")));
                }
            }
        }
        next.retain(|path| path != OF_ZOOKEEPER);
        for paths in next.chunks(BATCH) {
            let reads = paths.iter().map(Read::data).collect();
            for (path, data) in paths.iter().zip(session.read_all(reads).await?) {
                if let ReadResult::Data(data, stat) = data? {
                    found.insert(path.clone(), (data, stat));
                }
            }
        }
        level = next;
    }
    Ok(found)
}

/// Sets a node until it has at least the version of the copy.
async fn raise_version(session: &SessionHandle, node: &MetadataNode) -> Result<(), CopyError> {
    if node.version > HIGHEST_VERSION {
        return Err(CopyError::Malformed(format!(
            "node {} has version {}, which takes too long to reach",
            node.path, node.version
        )));
    }
    loop {
        let version = session.exists(&node.path, false).await?.map_or(0, |stat| stat.version);
        let missing = usize::try_from(node.version.saturating_sub(version)).unwrap_or(0);
        if missing == 0 {
            return Ok(());
        }
        let data = node.data.clone();
        let op = Op::Set { path: node.path.clone(), data, version: None };
        session.multi(vec![op; missing.min(BATCH)]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordination::local::LocalStore;
    use coordination::{CreateMode, Store};
    use platform::MemoryDisk;
    use platform::clock::ManualClock;
    use std::path::Path;
    use std::sync::Arc;

    async fn store() -> SessionHandle {
        let clock = Arc::new(ManualClock::at(model::Timestamp(5)));
        let store = LocalStore::open_inline(Arc::new(MemoryDisk::new()), Path::new("/d"), clock);
        // The session keeps the store's queue.
        store.unwrap().open_session().await.unwrap().0
    }

    async fn cluster() -> SessionHandle {
        let session = store().await;
        for path in [
            "/brokers/ids",
            "/brokers/topics/t/partitions",
            "/brokers/seqid",
            "/config/changes",
            "/cluster",
            "/barnabas/incarnations",
        ] {
            session.create_parents(path).await.unwrap();
        }
        let ops = vec![
            Op::create("/cluster/id", r#"{"version":"1","id":"abc"}"#),
            Op::create("/controller_epoch", "7"),
            Op::create("/config/changes/config_change_0000000000", "x"),
            Op::create("/barnabas/incarnations/1", "9"),
            Op::create("/brokers/topics/t/partitions/0", ""),
            Op::create_ephemeral("/controller", None),
        ];
        session.multi(ops).await.unwrap();
        session.multi(vec![Op::set("/brokers/seqid", ""); 450]).await.unwrap();
        session
    }

    #[tokio::test]
    async fn what_outlives_brokers_is_copied_and_nothing_else() {
        let copy = MetadataCopy::read(&cluster().await).await.unwrap();
        assert_eq!(copy.cluster_id().as_deref(), Some("abc"));
        let target = store().await;
        assert_eq!(copy.write(&target).await.unwrap(), Copied::Written(copy.nodes.len() - 1));
        let again = MetadataCopy::read(&target).await.unwrap();
        assert_eq!(
            again.nodes.iter().map(|n| (&n.path, &n.data)).collect::<Vec<_>>(),
            copy.nodes.iter().map(|n| (&n.path, &n.data)).collect::<Vec<_>>()
        );
        assert_eq!(target.exists("/brokers/seqid", false).await.unwrap().unwrap().version, 450);
        assert!(target.exists("/controller", false).await.unwrap().is_none());
        assert!(target.children("/config/changes", false).await.unwrap().is_empty());
        assert_eq!(target.get("/controller_epoch", false).await.unwrap().0.unwrap(), "7");
        let imported = target.exists(znodes::IMPORTED, false).await.unwrap().unwrap();
        let topic = target.exists("/brokers/topics/t", false).await.unwrap().unwrap();
        assert!(imported.czxid > topic.czxid, "made last");
        assert_eq!(copy.write(&target).await.unwrap(), Copied::AlreadyThere);
        let mut without = copy.clone();
        without.forget_sessions();
        assert_eq!(without.nodes.len() + 1, copy.nodes.len());
    }

    #[tokio::test]
    async fn a_store_with_something_else_is_refused_by_name() {
        let copy = MetadataCopy::read(&cluster().await).await.unwrap();
        let other = cluster().await;
        other.set("/controller_epoch", "8", None).await.unwrap();
        let error = copy.write(&other).await.unwrap_err().to_string();
        assert!(error.contains("cluster abc, 1 topics such as t"), "{error}");
        let other = cluster().await;
        other.create("/brokers/topics/u", Some("{}".into()), CreateMode::Persistent).await.unwrap();
        copy.write(&other).await.unwrap_err();
        let other = store().await;
        other.create("/mine", Some("1".into()), CreateMode::Persistent).await.unwrap();
        let error = copy.write(&other).await.unwrap_err().to_string();
        assert!(error.contains("/mine"), "{error}");
        let used = cluster().await;
        used.multi(vec![Op::create_ephemeral("/brokers/ids/4", None)]).await.unwrap();
        for error in
            [copy.write(&used).await.unwrap_err(), MetadataCopy::read(&used).await.unwrap_err()]
        {
            assert!(error.to_string().contains("brokers are registered (4)"), "{error}");
        }
        assert!(matches!(MetadataCopy::read(&store().await).await, Err(CopyError::NoCluster)));
    }

    #[tokio::test]
    async fn what_was_cut_short_is_finished_and_only_by_the_same() {
        let copy = MetadataCopy::read(&cluster().await).await.unwrap();
        let target = store().await;
        // As a process that was killed leaves it: its mark, and some of the nodes.
        target.create_parents("/barnabas").await.unwrap();
        target.multi(vec![Op::create(znodes::IMPORTING, copy.mark())]).await.unwrap();
        target.multi(vec![Op::create_null("/brokers")]).await.unwrap();
        target.multi(vec![Op::create("/controller_epoch", "7")]).await.unwrap();
        assert!(matches!(MetadataCopy::read(&target).await, Err(CopyError::Unfinished(_))));
        let mut other = copy.clone();
        other.nodes.retain(|node| node.path != "/controller_epoch");
        assert!(matches!(other.write(&target).await, Err(CopyError::Unfinished(_))));
        assert!(matches!(copy.write(&target).await, Ok(Copied::Written(_))));
        assert!(target.exists(znodes::IMPORTING, false).await.unwrap().is_none());
        assert_eq!(copy.write(&target).await.unwrap(), Copied::AlreadyThere);
    }

    #[tokio::test]
    async fn a_file_that_is_no_tree_is_refused_before_anything_is_written() {
        let copy = MetadataCopy::read(&cluster().await).await.unwrap();
        let node = |path: &str| MetadataNode { path: path.into(), data: None, version: 0 };
        let sized =
            |bytes: usize| MetadataNode { data: Some(vec![b'x'; bytes].into()), ..node("/x") };
        let epoch = |text: &'static str| {
            let mut nodes = copy.nodes.clone();
            let found = nodes.iter_mut().find(|node| node.path == znodes::CONTROLLER_EPOCH);
            match found {
                Some(found) => found.data = Some(text.into()),
                None => {
                    nodes.push(MetadataNode {
                        data: Some(text.into()),
                        ..node(znodes::CONTROLLER_EPOCH)
                    });
                }
            }
            MetadataCopy { nodes, ..copy.clone() }
        };
        let mut deep = copy.clone();
        deep.nodes.extend((1..300).map(|depth| node(&"/x".repeat(depth))));
        let mut large = copy.clone();
        large.nodes.push(sized(2 << 20));
        let wrong = [deep, large, epoch("2147483647"), epoch("-1"), epoch("many")];
        for broken in wrong {
            let target = store().await;
            assert!(matches!(broken.write(&target).await, Err(CopyError::Malformed(_))));
            assert!(target.children("/", false).await.unwrap().is_empty());
        }
        for path in
            ["", "x", "/a/b", "/a/", "/cluster", "/controller", "/brokers/ids/1", "/..", "/a\u{1}"]
        {
            let mut broken = copy.clone();
            broken.nodes.push(node(path));
            let target = store().await;
            assert!(matches!(broken.write(&target).await, Err(CopyError::Malformed(_))), "{path}");
            assert!(target.children("/", false).await.unwrap().is_empty());
        }
        let nothing = MetadataCopy::default();
        assert!(matches!(nothing.write(&store().await).await, Err(CopyError::NoCluster)));
    }
}
