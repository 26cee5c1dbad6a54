//! Which partition of `__consumer_offsets` holds a group.

/// Java's `String.hashCode`: over UTF-16 code units, in wrapping arithmetic.
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition, out of `count`, that holds `group`.
///
/// The absolute value of `i32::MIN` counts as 0. Source: `GroupMetadataManager.partitionFor`, `Utils.abs`.
#[must_use]
pub fn partition_for(group: &str, count: i32) -> i32 {
    java_hash(group).checked_abs().unwrap_or(0).checked_rem(count).unwrap_or(0)
}

#[test]
fn a_group_is_hashed_as_java_hashes_it() {
    assert_eq!(java_hash(""), 0);
    assert_eq!(java_hash("hello"), 99_162_322);
    assert_eq!(java_hash("polygenelubricants"), i32::MIN);
    assert_eq!(partition_for("polygenelubricants", 50), 0);
    assert_eq!(java_hash("😀"), 0xd83d * 31 + 0xde00, "two UTF-16 code units");
    assert_eq!(partition_for("hello", 0), 0, "a topic without partitions is nobody's fault");
}
