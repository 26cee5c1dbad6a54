//! What the tree held before: a server that lags answers reads from that, and tells later of what it did not show.

use bytes::Bytes;
use coordination::{
    Change, CreateMode, Event, Kind, Op, OpResult, Read, ReadResult, SessionHandle, SessionId,
    Stat, StoreError,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// A node at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    data: Option<Bytes>,
    stat: Stat,
    children: Vec<String>,
}

/// What nodes were, from when on: those that have changed since the server was started.
#[derive(Debug, Default)]
pub(super) struct Past {
    nodes: BTreeMap<String, Vec<(Instant, Option<Node>)>>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
}

/// What a read finds on a server that lags.
pub(super) struct Stale {
    pub(super) result: Result<ReadResult, StoreError>,
    /// What whoever watches is told when the server has caught up with the next change, which was made then.
    pub(super) event: Option<(Event, Instant)>,
}

/// The nodes that changes concern.
pub(super) fn touched(
    past: &mut Past,
    session: SessionId,
    made: &[(Op, OpResult)],
) -> BTreeSet<String> {
    let mut touched = BTreeSet::new();
    for (op, result) in made {
        let path = match (op, result) {
            (Op::Check { .. }, _) => continue,
            (Op::Create { mode, .. }, OpResult::Created(path)) => {
                if matches!(mode, CreateMode::Ephemeral | CreateMode::EphemeralSequential) {
                    past.ephemerals.entry(session).or_default().insert(path.clone());
                }
                // Before it was created it was not there.
                let states = past.nodes.entry(path.clone()).or_default();
                if states.is_empty() {
                    let long_ago = Instant::now().checked_sub(REMEMBERED);
                    states.push((long_ago.unwrap_or_else(Instant::now), None));
                }
                path.clone()
            }
            (op, _) => op.path().to_owned(),
        };
        add(&mut touched, path);
    }
    touched
}

/// The nodes that the end of a session concerns.
pub(super) fn touched_by_end(past: &mut Past, session: SessionId) -> BTreeSet<String> {
    let mut touched = BTreeSet::new();
    for path in past.ephemerals.remove(&session).unwrap_or_default() {
        add(&mut touched, path);
    }
    touched
}

fn add(touched: &mut BTreeSet<String>, path: String) {
    if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        touched.insert(parent.to_owned());
    }
    touched.insert(path);
}

/// Looks at nodes as they are now.
pub(super) async fn look(
    observer: &SessionHandle,
    touched: BTreeSet<String>,
) -> Vec<(String, Option<NodeNow>)> {
    let mut seen = Vec::new();
    for path in touched {
        let reads = vec![Read::data(path.clone()), Read::children(path.clone())];
        let Ok(found) = observer.read_all(reads).await else { continue };
        let node = match found.as_slice() {
            [Ok(ReadResult::Data(data, stat)), Ok(ReadResult::Children(children, _))] => {
                let (data, stat, children) = (data.clone(), *stat, children.clone());
                Some(NodeNow(Node { data, stat, children }))
            }
            _ => None,
        };
        seen.push((path, node));
    }
    seen
}

/// A node as it is.
pub(super) struct NodeNow(Node);

impl Past {
    /// Remembers what was looked at.
    pub(super) fn note(&mut self, now: Instant, seen: Vec<(String, Option<NodeNow>)>) {
        for (path, node) in seen {
            let node = node.map(|node| node.0);
            let states = self.nodes.entry(path).or_default();
            if states.last().is_none_or(|(_, last)| *last != node) {
                states.push((now, node));
            }
            // The one that held when the time begins that is remembered stays.
            let old = states.partition_point(|(at, _)| now - *at > REMEMBERED);
            states.drain(..old.saturating_sub(1));
        }
    }

    /// What `read` found at `at`, unless that is what it finds now, or not known.
    pub(super) fn read(&self, read: &Read, at: Instant) -> Option<Stale> {
        let states = self.nodes.get(&read.path)?;
        let next = states.partition_point(|(since, _)| *since <= at);
        let (_, was) = states.get(next.checked_sub(1)?)?;
        let (_, last) = states.last()?;
        let result = found(read, was.as_ref());
        if result == found(read, last.as_ref()) {
            return None;
        }
        let (changed_at, is) =
            states.get(next..)?.iter().find(|(_, state)| found(read, state.as_ref()) != result)?;
        let change = match (read.kind, was, is) {
            (_, _, None) => Change::Deleted,
            (Kind::Exists, None, Some(_)) => Change::Created,
            (Kind::Children, ..) => Change::Children,
            (Kind::Exists | Kind::Data, ..) => Change::Data,
        };
        // A missing node leaves no watch but that of its creation.
        let watches = read.watch && (was.is_some() || read.kind == Kind::Exists);
        let event = watches.then(|| (Event::Watched(change, read.path.clone()), *changed_at));
        Some(Stale { result, event })
    }
}

fn found(read: &Read, node: Option<&Node>) -> Result<ReadResult, StoreError> {
    match (read.kind, node) {
        (Kind::Exists, node) => Ok(ReadResult::Exists(node.map(|node| node.stat))),
        (_, None) => Err(StoreError::NoNode(read.path.clone())),
        (Kind::Data, Some(node)) => Ok(ReadResult::Data(node.data.clone(), node.stat)),
        (Kind::Children, Some(node)) => Ok(ReadResult::Children(node.children.clone(), node.stat)),
    }
}
