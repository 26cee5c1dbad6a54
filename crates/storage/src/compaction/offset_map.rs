//! The newest offset of each key, in bounded memory.
//!
//! Keys are known by 128 bits of a hash with a secret seed: whoever could choose keys with equal hashes
//! could make others' records disappear. Open addressing; no entry is ever removed.

use model::Offset;
use twox_hash::XxHash3_128;

/// Bytes of one slot: Kafka's, so that the same buffer takes as many keys.
pub(crate) const SLOT_BYTES: u64 = 24;

/// All zeros if it is free, so that memory that is never used is never touched.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    high: u64,
    low: u64,
    /// The offset plus one.
    next_offset: u64,
}

#[derive(Debug)]
pub(crate) struct OffsetMap {
    slots: Vec<Slot>,
    seed: u64,
    used: usize,
    most: usize,
}

impl OffsetMap {
    /// A map in at most `bytes` that takes keys until it is full to `load_factor`; smaller if it cannot
    /// see more than `keys` keys.
    pub(crate) fn new(bytes: u64, load_factor: f64, keys: u64, seed: u64) -> Self {
        let load_factor = if load_factor.is_finite() { load_factor.clamp(0.01, 0.99) } else { 0.9 };
        let count = |number: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "bounded by the number of slots, which is a usize"
            )]
            let count = number as usize;
            count
        };
        let allowed = usize::try_from(bytes / SLOT_BYTES).unwrap_or(usize::MAX);
        #[expect(clippy::cast_precision_loss, reason = "a few slots more or less do not matter")]
        let needed = count((keys as f64 / load_factor).min(allowed as f64)).saturating_add(2);
        let slots = allowed.min(needed);
        #[expect(clippy::cast_precision_loss, reason = "a few slots more or less do not matter")]
        let most = count(slots as f64 * load_factor);
        Self { slots: vec![Slot::default(); slots], seed, used: 0, most }
    }

    /// Whether it takes no more keys.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.most
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Notes that `key` is at `offset`, which is above all offsets before. The map must not be full.
    pub(crate) fn put(&mut self, key: &[u8], offset: Offset) {
        let Ok(number) = u64::try_from(offset.0) else { return };
        let (high, low) = self.hash(key);
        let at = self.find(high, low).expect("a map that is not full has a free slot");
        self.used += usize::from(self.slots[at].next_offset == 0);
        self.slots[at] = Slot { high, low, next_offset: number + 1 };
    }

    /// The newest offset of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Offset> {
        let (high, low) = self.hash(key);
        let found = self.slots.get(self.find(high, low)?)?.next_offset.checked_sub(1)?;
        i64::try_from(found).ok().map(Offset)
    }

    fn hash(&self, key: &[u8]) -> (u64, u64) {
        let hash = XxHash3_128::oneshot_with_seed(self.seed, key);
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("masked");
        (half(hash >> 64), half(hash))
    }

    /// The slot of a hash, or the free one that it would get.
    fn find(&self, high: u64, low: u64) -> Option<usize> {
        let count = self.slots.len();
        let first = (u128::from(high) * count as u128) >> 64;
        let first = usize::try_from(first).expect("below the number of slots");
        (first..count).chain(0..first).find(|&at| {
            let slot = &self.slots[at];
            slot.next_offset == 0 || (slot.high, slot.low) == (high, low)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_offset_of_each_key_is_found_until_the_map_is_full() {
        let mut map = OffsetMap::new(SLOT_BYTES * 100, 0.9, u64::MAX, 7);
        let mut next = 0;
        while !map.is_full() {
            map.put(&(next % 200_u64).to_be_bytes(), Offset(i64::try_from(next).unwrap()));
            map.put(b"again", Offset(i64::try_from(next).unwrap()));
            next += 1;
        }
        assert_eq!((map.len(), next), (90, 89));
        for key in 0..next {
            let offset = Offset(i64::try_from(key).unwrap());
            assert_eq!(map.get(&key.to_be_bytes()), Some(offset));
        }
        assert_eq!(map.get(b"again"), Some(Offset(88)));
        assert_eq!(map.get(b"never"), None);
    }

    #[test]
    fn it_is_no_larger_than_what_it_can_see() {
        let map = OffsetMap::new(128 << 20, 0.9, 9, 7);
        assert!(map.slots.len() <= 12 && !map.is_full());
        assert!(map.most >= 9);
        for bytes in [0, 1, SLOT_BYTES] {
            let map = OffsetMap::new(bytes, 0.9, 9, 7);
            assert!(map.is_full());
            assert_eq!(map.get(b"k"), None);
        }
        assert!(!OffsetMap::new(1 << 10, f64::NAN, 9, 7).is_full());
    }
}
