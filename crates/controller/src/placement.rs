//! Where new partitions go. Pure: randomness is passed in.
//!
//! Two formulas: Apache's own (`AdminUtils`), which starts anywhere, shifts and minds racks, and the
//! classic one, in which a partition's number alone says where it is.

use crate::ApiError;
use model::BrokerId;
use protocol::ErrorCode;
use std::collections::BTreeMap;

/// Where the replicas of a new topic go (`barnabas.replica.placement`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Kafka's: from a random broker on, replicas shifted, racks alternated.
    #[default]
    Kafka,
    /// Partition `i` on broker `i mod n`, its replica `j` on broker `(i + j) mod n`, brokers by id.
    Classic,
}

/// A live broker, as far as placement cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: BrokerId,
    pub(crate) rack: Option<String>,
}

/// Where a run of Kafka's formula starts: random for a new topic, fixed for an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Index of the first replica of partition 0.
    pub(crate) index: usize,
    /// Distance between first and second replica, less one.
    pub(crate) shift: usize,
    /// The first partition to place.
    pub(crate) partition: usize,
}

/// Places `count` partitions with `replication_factor` replicas on `brokers`, which are sorted by id.
///
/// # Errors
/// `INVALID_PARTITIONS`, `INVALID_REPLICATION_FACTOR`, or `UNKNOWN_SERVER_ERROR` if only some brokers
/// have a rack and Kafka's formula would have to mind them.
pub(crate) fn place(
    placement: Placement,
    brokers: &[Candidate],
    count: i32,
    replication_factor: i16,
    start: Start,
) -> Result<Vec<Vec<BrokerId>>, ApiError> {
    let count = positive(count.into()).ok_or_else(|| {
        ApiError::new(ErrorCode::InvalidPartitions, "Number of partitions must be larger than 0.")
    })?;
    let replicas = check_replication_factor(brokers.len(), replication_factor)?;
    check_room(count, 0)?;
    let partitions = start.partition..start.partition.saturating_add(count);
    if placement == Placement::Classic {
        return Ok(place_classically(brokers, partitions, replicas));
    }
    let with_rack = brokers.iter().filter(|b| b.rack.is_some()).count();
    if with_rack == 0 {
        return Ok(place_without_racks(brokers, partitions, replicas, start));
    }
    if with_rack < brokers.len() {
        return Err(ApiError::new(
            ErrorCode::UnknownServerError,
            "Not all brokers have rack information for replica rack aware assignment.",
        ));
    }
    Ok(place_by_rack(brokers, partitions, replicas, start))
}

/// The most partitions that one request may make, as in Kafka from 4.0 on: 3.9 takes any number and runs
/// out of memory.
pub(crate) const MOST_PARTITIONS: usize = 10_000;

/// Refuses `count` more partitions after the `planned` ones of the same request.
///
/// # Errors
/// `POLICY_VIOLATION`.
pub(crate) fn check_room(count: usize, planned: usize) -> Result<(), ApiError> {
    if count.saturating_add(planned) > MOST_PARTITIONS {
        let message = format!("One request makes at most {MOST_PARTITIONS} partitions.");
        return Err(ApiError::new(ErrorCode::PolicyViolation, message));
    }
    Ok(())
}

/// The replication factor as a count, if so many brokers live.
pub(crate) fn check_replication_factor(brokers: usize, factor: i16) -> Result<usize, ApiError> {
    let error = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
    match positive(factor.into()) {
        None => error("Replication factor must be larger than 0.".into()),
        Some(replicas) if replicas > brokers => {
            error(format!("Replication factor: {factor} larger than available brokers: {brokers}."))
        }
        Some(replicas) => Ok(replicas),
    }
}

fn positive(number: i64) -> Option<usize> {
    usize::try_from(number).ok().filter(|&n| n > 0)
}

fn place_classically(
    brokers: &[Candidate],
    partitions: std::ops::Range<usize>,
    replicas: usize,
) -> Vec<Vec<BrokerId>> {
    let on = |partition: usize, replica: usize| brokers[(partition + replica) % brokers.len()].id;
    partitions
        .map(|partition| (0..replicas).map(|replica| on(partition, replica)).collect())
        .collect()
}

fn place_without_racks(
    brokers: &[Candidate],
    partitions: std::ops::Range<usize>,
    replicas: usize,
    start: Start,
) -> Vec<Vec<BrokerId>> {
    let n = brokers.len();
    let mut shift = start.shift;
    partitions
        .map(|partition| {
            if partition > 0 && partition % n == 0 {
                shift += 1;
            }
            let first = (partition + start.index) % n;
            let rest = (0..replicas - 1).map(|j| replica_index(first, shift, j, n));
            std::iter::once(first).chain(rest).map(|at| brokers[at].id).collect()
        })
        .collect()
}

fn place_by_rack(
    brokers: &[Candidate],
    partitions: std::ops::Range<usize>,
    replicas: usize,
    start: Start,
) -> Vec<Vec<BrokerId>> {
    let arranged = alternate_racks(brokers);
    let n = arranged.len();
    let racks: std::collections::BTreeSet<_> = arranged.iter().map(|b| &b.rack).collect();
    let mut shift = start.shift;
    partitions
        .map(|partition| {
            if partition > 0 && partition % n == 0 {
                shift += 1;
            }
            let first = (partition + start.index) % n;
            let mut chosen = vec![arranged[first]];
            let mut candidates =
                (0..).map(|k| arranged[replica_index(first, shift * racks.len(), k, n)]);
            while chosen.len() < replicas {
                let candidate = candidates.next().expect("the iterator has no end");
                let same_rack = chosen.iter().any(|b| b.rack == candidate.rack);
                let racks_used: std::collections::BTreeSet<_> =
                    chosen.iter().map(|b| &b.rack).collect();
                let used = chosen.iter().any(|b| b.id == candidate.id);
                if (!same_rack || racks_used.len() == racks.len()) && (!used || chosen.len() == n) {
                    chosen.push(candidate);
                }
            }
            chosen.into_iter().map(|broker| broker.id).collect()
        })
        .collect()
}

fn replica_index(first: usize, shift: usize, replica: usize, brokers: usize) -> usize {
    (first + 1 + (shift + replica) % (brokers - 1)) % brokers
}

/// One broker of each rack in turn, racks by name, brokers by id, racks that have no more skipped.
fn alternate_racks(brokers: &[Candidate]) -> Vec<&Candidate> {
    let mut by_rack: BTreeMap<&Option<String>, Vec<&Candidate>> = BTreeMap::new();
    for broker in brokers {
        by_rack.entry(&broker.rack).or_default().push(broker);
    }
    let longest = by_rack.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|turn| by_rack.values().filter_map(move |rack| rack.get(turn).copied()))
        .collect()
}

/// Where an expansion starts: at the first broker whose id is at least that of the first replica of
/// partition 0, as in Kafka.
pub(crate) fn expansion_start(
    brokers: &[Candidate],
    first: Option<BrokerId>,
    existing: usize,
) -> Start {
    let index = brokers.iter().position(|b| Some(b.id) >= first).unwrap_or(0);
    Start { index, shift: index, partition: existing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(racks: &[Option<&str>]) -> Vec<Candidate> {
        let id = |at| BrokerId(i32::try_from(at).unwrap());
        let candidate = |(at, rack): (usize, &Option<&str>)| Candidate {
            id: id(at),
            rack: rack.map(str::to_owned),
        };
        racks.iter().enumerate().map(candidate).collect()
    }

    fn placed(brokers: &[Candidate], count: i32, factor: i16, start: Start) -> Vec<Vec<i32>> {
        let placed = place(Placement::Kafka, brokers, count, factor, start).unwrap();
        placed.into_iter().map(|replicas| replicas.into_iter().map(|id| id.0).collect()).collect()
    }

    const AT_0: Start = Start { index: 0, shift: 0, partition: 0 };

    #[test]
    fn classically_a_partitions_number_says_where_it_is() {
        let brokers = brokers(&[Some("r1"), None, Some("r2")]);
        let start = Start { partition: 4, ..AT_0 };
        let placed = place(Placement::Classic, &brokers, 3, 2, start).unwrap();
        let ids = placed.into_iter().map(|replicas| replicas.into_iter().map(|b| b.0).collect());
        assert_eq!(ids.collect::<Vec<Vec<i32>>>(), [[1, 2], [2, 0], [0, 1]]);
    }

    #[test]
    fn the_distance_grows_with_every_round_over_the_brokers() {
        let placed = placed(&brokers(&[None; 5]), 7, 3, AT_0);
        assert_eq!(placed[0], [0, 1, 2]);
        assert_eq!(placed[4], [4, 0, 1]);
        assert_eq!(placed[5..], [[0, 2, 3], [1, 3, 4]], "not plain round robin any more");
    }

    #[test]
    fn replicas_spread_over_racks() {
        let racks = ["r1", "r3", "r3", "r2", "r2", "r1"].map(Some);
        let expected =
            [[0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2]];
        assert_eq!(placed(&brokers(&racks), 7, 3, AT_0), expected);
    }

    #[test]
    fn an_expansion_goes_on_as_kafka_was_seen_to() {
        // Live 3.9.2, brokers 1-3 with a rack each: 1,2,3 / 2,3,1 / 3,1,2, then 1,3,2 / 2,1,3.
        let mut three = brokers(&[Some("r1"), Some("r2"), Some("r3")]);
        three.iter_mut().for_each(|b| b.id.0 += 1);
        let start = expansion_start(&three, Some(BrokerId(1)), 3);
        assert_eq!(placed(&three, 2, 3, start), [[1, 3, 2], [2, 1, 3]]);
    }

    #[test]
    fn what_cannot_be_placed_is_refused_with_kafkas_words() {
        let refuse = |brokers: &[Candidate], count, factor| {
            let error = place(Placement::Kafka, brokers, count, factor, AT_0).unwrap_err();
            (error.code, error.message.unwrap())
        };
        let one = brokers(&[None]);
        assert_eq!(refuse(&one, 0, 1).0, ErrorCode::InvalidPartitions);
        assert_eq!(refuse(&one, i32::MAX, 1).0, ErrorCode::PolicyViolation, "no memory is taken");
        assert_eq!(refuse(&one, 1, 0).0, ErrorCode::InvalidReplicationFactor);
        assert_eq!(refuse(&one, 1, 2).1, "Replication factor: 2 larger than available brokers: 1.");
        assert_eq!(refuse(&brokers(&[None, Some("r")]), 1, 1).0, ErrorCode::UnknownServerError);
        assert_eq!(placed(&one, 3, 1, AT_0), [[0], [0], [0]]);
    }
}
