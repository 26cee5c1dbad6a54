//! The hash that spreads keys over partitions, as every Kafka client must compute it.

/// Murmur2 with the seed of Kafka's Java client.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    #[expect(clippy::cast_possible_truncation, reason = "keys are shorter than 4 GiB")]
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("chunks of 4")).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition, of `count`, that a key belongs to.
#[must_use]
pub fn partition_of(key: &[u8], count: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % count.max(1)
}

#[test]
fn hashes_are_those_of_the_java_client() {
    // From Kafka's own test of its hash.
    for (key, expected) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
    }
}
