//! Paths: absolute, no empty, `.` or `..` segments, no control characters, as in ZooKeeper.

use crate::StoreError;

/// So many names a path may have. Deeper trees than any that Kafka's paths make are refused, so that what
/// reads one back cannot exhaust the stack.
pub(crate) const MAX_NAMES: usize = 256;

/// Whether a node could have this path in every store.
#[must_use]
pub fn is_valid(path: &str) -> bool {
    validate(path).is_ok() && segments(path).count() <= MAX_NAMES
}

/// Checks a path that a request names; the root is one.
pub(crate) fn validate(path: &str) -> Result<(), StoreError> {
    let bad = || StoreError::BadArguments(path.chars().take(256).collect());
    let Some(rest) = path.strip_prefix('/') else { return Err(bad()) };
    if rest.is_empty() {
        return Ok(());
    }
    let forbidden = |c: char| matches!(c, '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    if rest.split('/').any(|s| s.is_empty() || s == "." || s == "..") || rest.contains(forbidden) {
        return Err(bad());
    }
    Ok(())
}

/// The names on the way from the root to `path`, which must be valid.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// The parent of a valid path and the name in it; `None` for the root.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    match (parent, name) {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        both => Some(both),
    }
}
