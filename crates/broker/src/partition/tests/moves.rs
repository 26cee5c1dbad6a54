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

/// What could be: a topic was deleted while its log moved, the broker was killed before the copy went, and the copy
/// was taken for that of the next topic of the name.
#[test]
fn the_copy_of_another_topics_log_is_deleted() {
    let mut world = World::new();
    world.topic_id = Some(TopicId([7; 16]));
    world.lead(&[0], &[0], 0, &[]);
    world.append(&batch(), true);
    let [_, to] = directories(&world);
    let interrupted = world.partition().move_to(&to).unwrap().unwrap();
    assert!(matches!(interrupted.run(|| true), Ended::Interrupted));
    let is_copys = |path: &std::path::Path| path.to_string_lossy().contains("-future/");
    let files = world.disk.files();
    let metadata = files.iter().map(|(path, _)| path);
    let metadata = metadata.filter(|path| is_copys(path) && path.ends_with("partition.metadata"));
    let metadata = metadata.collect::<Vec<_>>();
    assert_eq!(metadata.len(), 1);
    let other = format!("version: 0\ntopic_id: {}", TopicId([9; 16]));
    world.disk.put(metadata[0], other.as_bytes());
    let mut restarted = world.restarted();
    restarted.topic_id = world.topic_id;
    restarted.lead(&[0], &[0], 1, &[]);
    assert!(restarted.partition().move_progress().is_none());
    assert!(!restarted.disk.files().iter().any(|(path, _)| is_copys(path)));
    assert_eq!(restarted.contents().len(), 1);
}
