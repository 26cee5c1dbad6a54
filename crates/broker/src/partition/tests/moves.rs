//! Moves of logs between directories.

use super::*;

/// Where the partition's log is, and another directory.
fn directories(world: &World) -> [Arc<storage::LogDirectory>; 2] {
    let own = world.partition().replica_size().unwrap().directory;
    let mut all = world.partitions.environment().logs.directories().to_vec();
    all.sort_by_key(|directory| directory.path() != own);
    [Arc::clone(&all[0]), Arc::clone(&all[1])]
}

/// What was seen: after DeleteRecords into a batch each move ended with an error.
#[test]
fn a_log_that_begins_within_a_batch_moves() {
    let world = World::new();
    world.lead(&[0], &[0], 0, &[]);
    let mut three = RecordBatchBuilder::new();
    for _ in 0..3 {
        three.append(Some(Timestamp(1_000_000)), None, Some(b"v")).unwrap();
    }
    world.append(&three.build().unwrap(), true);
    let partition = world.partition();
    partition.delete_before(Timestamp(0), Some(Offset(1))).unwrap();
    let [_, to] = directories(&world);
    let mover = &world.partitions.environment().mover;
    mover.ask(partition.move_to(&to).unwrap().unwrap());
    mover.run_once();
    assert_eq!(partition.replica_size().unwrap().directory, to.path());
    assert_eq!(partition.log_start_offset(), 1);
    assert_eq!(world.append(&batch(), true).offset(), Some(3));
}
