//! What a topic may be called and how its replicas may be assigned. Pure.

use crate::ApiError;
use model::BrokerId;
use protocol::ErrorCode;
use std::collections::{BTreeMap, BTreeSet};

/// Kafka's limit, so that `name-partition` and its suffixes fit into a file name.
const MAX_NAME_LENGTH: usize = 249;

/// Whether a topic may be called `name`.
///
/// # Errors
/// `INVALID_TOPIC_EXCEPTION`.
pub fn validate_topic_name(name: &str) -> Result<(), ApiError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = match name {
        "" => "the empty string is not allowed".to_owned(),
        "." | ".." => format!("'{name}' is not allowed"),
        // Kafka counts UTF-16 units; a name of other than one-byte characters is refused either way.
        _ if name.encode_utf16().count() > MAX_NAME_LENGTH => format!(
            "the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
        ),
        _ if !name.chars().all(legal) => format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ),
        _ => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::InvalidTopicException, format!("Topic name is invalid: {why}")))
}

/// Whether two different names would share the name of a metric, in which `.` and `_` are one.
#[must_use]
pub fn collide(a: &str, b: &str) -> bool {
    let unified = |c: char| if c == '.' { '_' } else { c };
    a.chars().map(unified).eq(b.chars().map(unified))
}

pub(crate) fn may_collide(name: &str) -> bool {
    name.contains(['.', '_'])
}

/// Checks an assignment that the client chose for a new topic. Unknown brokers are fine, as in Kafka:
/// such a partition waits for its brokers.
pub(crate) fn check_new_assignment(
    assignment: &BTreeMap<i32, Vec<BrokerId>>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    let sizes: BTreeSet<usize> = assignment.values().map(Vec::len).collect();
    if sizes.len() != 1 {
        return refuse("All partitions should have the same number of replicas".into());
    }
    if assignment.values().any(|replicas| has_duplicates(replicas)) {
        return refuse(format!(
            "Duplicate replica assignment found: HashMap({})",
            print(assignment)
        ));
    }
    if !assignment.keys().copied().eq((0..).take(assignment.len())) {
        return refuse("partitions should be a consecutive 0-based integer sequence".into());
    }
    if sizes.contains(&0) {
        return refuse("Cannot have replication factor of 0.".into());
    }
    Ok(())
}

/// Checks the assignments that the client chose for partitions `existing..` of a topic.
pub(crate) fn check_added_assignment(
    added: &[Vec<BrokerId>],
    existing: usize,
    increment: usize,
    replication_factor: usize,
    live: &BTreeSet<BrokerId>,
) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    let unknown: BTreeSet<_> = added.iter().flatten().filter(|id| !live.contains(id)).collect();
    if !unknown.is_empty() {
        return refuse(format!("Unknown broker(s) in replica assignment: {}.", join(unknown)));
    }
    if added.len() != increment {
        return refuse(format!(
            "Increasing the number of partitions by {increment} but {} assignments provided.",
            added.len()
        ));
    }
    for (partition, replicas) in (existing..).zip(added) {
        if replicas.is_empty() {
            return refuse(format!(
                "Cannot have replication factor of 0 for partition id {partition}."
            ));
        }
        if has_duplicates(replicas) {
            return refuse(format!(
                "Duplicate brokers not allowed in replica assignment: {} for partition id {partition}.",
                join(replicas)
            ));
        }
    }
    let bad: Vec<_> =
        (existing..).zip(added).filter(|(_, r)| r.len() != replication_factor).collect();
    if !bad.is_empty() {
        return refuse(format!(
            "Inconsistent replication factor between partitions, partition 0 has \
             {replication_factor} while partitions [{}] have replication factors [{}], respectively.",
            join(bad.iter().map(|(partition, _)| partition)),
            join(bad.iter().map(|(_, replicas)| replicas.len())),
        ));
    }
    Ok(())
}

pub(crate) fn has_duplicates(replicas: &[BrokerId]) -> bool {
    replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len()
}

pub(crate) fn join(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

fn print(assignment: &BTreeMap<i32, Vec<BrokerId>>) -> String {
    join(assignment.iter().map(|(p, replicas)| format!("{p} -> ArrayBuffer({})", join(replicas))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        for good in ["a", "A.b_c-9", &"x".repeat(249), "__consumer_offsets", "..."] {
            assert_eq!(validate_topic_name(good), Ok(()));
        }
        for bad in ["", ".", "..", &"x".repeat(250), "a b", "a/b", "\u{e4}", "a\0"] {
            let error = validate_topic_name(bad).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidTopicException, "{bad:?}");
        }
    }

    #[test]
    fn dots_and_underscores_are_one_to_metrics() {
        assert!(collide("a.b", "a_b") && collide("a.b_c", "a_b.c") && !collide("a.b", "a-b"));
    }

    #[test]
    fn an_assignment_is_dense_even_and_without_duplicates() {
        let check = |partitions: &[(i32, &[i32])]| {
            let assignment = partitions
                .iter()
                .map(|(p, replicas)| (*p, replicas.iter().map(|&id| BrokerId(id)).collect()))
                .collect();
            check_new_assignment(&assignment).map_err(|e| e.code)
        };
        let refused = Err(ErrorCode::InvalidReplicaAssignment);
        assert_eq!(check(&[(0, &[1, 2]), (1, &[7, 9])]), Ok(()));
        assert_eq!(check(&[(0, &[1, 2]), (1, &[1])]), refused);
        assert_eq!(check(&[(0, &[1, 1])]), refused);
        assert_eq!(check(&[(0, &[1]), (2, &[1])]), refused);
        assert_eq!(check(&[(0, &[])]), refused);
    }
}
