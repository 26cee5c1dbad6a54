//! A map whose copy shares nearly everything with the original.
//!
//! Copying a map of 10,000 topics for each new topic would make creating them quadratic. Here a change
//! copies one shard of 128 and the list of shards.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

const SHARDS: usize = 128;

/// A key that says in which shard it lives: the same for its borrowed form, on every machine.
pub(crate) trait ShardKey: Ord {
    fn shard_hash(&self) -> u64;
}

impl ShardKey for str {
    fn shard_hash(&self) -> u64 {
        fnv1a(self.as_bytes())
    }
}

impl ShardKey for model::TopicName {
    fn shard_hash(&self) -> u64 {
        fnv1a(self.as_bytes())
    }
}

impl ShardKey for model::TopicId {
    fn shard_hash(&self) -> u64 {
        fnv1a(&self.0)
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[derive(Clone, Debug)]
pub(crate) struct Sharded<K, V> {
    shards: Vec<Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        let empty = Arc::new(BTreeMap::new());
        Self { shards: vec![empty; SHARDS], len: 0 }
    }
}

impl<K: ShardKey + Clone, V: Clone> Sharded<K, V> {
    pub(crate) fn get<Q: ShardKey + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.shards[shard_of(key)].get(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let shard = shard_of(&key);
        if Arc::make_mut(&mut self.shards[shard]).insert(key, value).is_none() {
            self.len += 1;
        }
    }

    pub(crate) fn remove<Q: ShardKey + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        self.len -= 1;
        Arc::make_mut(&mut self.shards[shard_of(key)]).remove(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All entries, in an order that is always the same but means nothing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }
}

fn shard_of<Q: ShardKey + ?Sized>(key: &Q) -> usize {
    let hash = key.shard_hash();
    usize::try_from((hash ^ hash >> 32) % SHARDS as u64).expect("below SHARDS")
}

#[test]
fn a_change_copies_one_shard_only() {
    let mut map = Sharded::<model::TopicName, u32>::default();
    (0..1000).for_each(|i| map.insert(format!("t{i}").into(), i));
    let mut changed = map.clone();
    changed.insert("t7".into(), 70);
    assert_eq!((map.get("t7"), changed.get("t7")), (Some(&7), Some(&70)));
    let copied = map.shards.iter().zip(&changed.shards).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
    assert_eq!(copied, 1);
    assert_eq!((changed.remove("t7"), changed.remove("t7"), changed.len()), (Some(70), None, 999));
    assert_eq!(map.len(), 1000);
}
