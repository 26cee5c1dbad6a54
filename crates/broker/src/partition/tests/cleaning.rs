//! Compaction beside everything else that happens to a partition.

use super::*;
use crate::cleaner::CleaningControl;
use std::sync::mpsc;
use storage::{CleaningBuffers, Interrupted, Pace};

const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "1000"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("file.delete.delay.ms", "0"),
];

const BUFFERS: CleaningBuffers =
    CleaningBuffers { dedupe_bytes: 1 << 20, dedupe_load_factor: 0.9, io_bytes: 300 };

/// Does something at every step of a compaction; ends it when it is called off.
struct Between<F>(Arc<CleaningControl>, F);

impl<F: FnMut(usize)> Pace for Between<F> {
    fn moved(&mut self, bytes: u64) -> Result<(), Interrupted> {
        (self.1)(usize::try_from(bytes).unwrap());
        if self.0.is_called_off() { Err(Interrupted) } else { Ok(()) }
    }
}

impl World {
    fn compacted() -> Self {
        let world = Self::new();
        world.lead(&[0], &[0], 0, &COMPACTED);
        world
    }

    fn put(&self, key: &str, count: usize) {
        for _ in 0..count {
            let mut builder = RecordBatchBuilder::new();
            let time = self.clock.timestamp();
            builder.append(Some(time), Some(key.as_bytes()), Some(&[b'v'; 200])).unwrap();
            assert!(self.append(&builder.build().unwrap(), true).offset().is_some());
        }
    }

    fn clean(&self, between: impl FnMut(usize)) -> bool {
        let partition = self.partition();
        let control = Arc::new(CleaningControl::default());
        // A cleaner looks first, which flushes what is complete.
        partition.cleaning_due(self.clock.timestamp());
        partition.reserve_cleaning(&control, self.clock.timestamp())
            && partition.clean(BUFFERS, 1, &mut Between(control, between))
    }

    fn offsets(&self) -> Vec<i64> {
        let mut found = Vec::new();
        let opened = |state: &State| state.log.opened().map_or(0, |log| log.log_start_offset().0);
        let mut next = opened(&self.partition().state.lock());
        loop {
            let bytes = self.read(next, Isolation::LogEnd, None).records.to_bytes().unwrap();
            if bytes.is_empty() {
                return found;
            }
            for batch in Batches::new(&bytes) {
                let batch = batch.unwrap();
                found.push(batch.last_offset().0);
                next = batch.last_offset().0 + 1;
            }
        }
    }

    fn is_due(&self) -> bool {
        self.partition().cleaning_due(self.clock.timestamp()).is_some()
    }
}

#[test]
fn a_policy_takes_effect_on_a_live_topic() {
    let world = World::new();
    let mut settings = COMPACTED;
    settings[0].1 = "delete";
    world.lead(&[0], &[0], 0, &settings);
    world.put("k", 20);
    assert!(!world.is_due() && !world.clean(|_| {}));
    world.partitions.set_settings("t", &settings_of(&COMPACTED));
    assert!(world.is_due());
    assert!(world.clean(|_| {}));
    let compacted = world.offsets();
    assert!(compacted.len() < 8, "{compacted:?}");
    assert!(!world.is_due() && !world.clean(|_| {}), "nothing is dirty any more");

    // Both: what is too old goes as well.
    settings[0].1 = "compact,delete";
    let mut both = settings.to_vec();
    both.push(("retention.ms", "5000"));
    world.partitions.set_settings("t", &settings_of(&both));
    world.clock.advance(Duration::from_secs(6));
    world.put("k", 20);
    world.partition().apply_retention(world.clock.timestamp());
    let rest = world.offsets();
    assert!(!rest.contains(&compacted[0]), "{rest:?}");
    assert!(world.clean(|_| {}));
    assert!(world.offsets().len() < rest.len());

    // And back: nothing is lost for that there are gaps.
    settings[0].1 = "delete";
    let wanted = world.offsets();
    world.partitions.set_settings("t", &settings_of(&settings));
    let restarted = world.restarted();
    restarted.lead(&[0], &[0], 1, &settings);
    restarted.put("k", 1);
    assert_eq!(restarted.offsets()[..wanted.len()], wanted);
}

fn settings_of(overrides: &[(&str, &str)]) -> PartitionSettings {
    let overrides: BTreeMap<_, _> =
        overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let config = BrokerConfig::load(None, &[]).unwrap().config;
    PartitionSettings::new(&config.topic_config(&overrides), config.log.record_validation)
}

#[test]
fn appends_reads_and_retention_go_on_meanwhile() {
    let world = World::compacted();
    world.put("k", 30);
    let mut steps = 0;
    let mut last = 29;
    assert!(world.clean(|_| {
        steps += 1;
        world.put("k", 1);
        last += 1;
        assert_eq!(*world.offsets().last().unwrap(), last);
        world.partition().apply_retention(world.clock.timestamp());
        world.partition().release_if_idle();
        assert!(!world.clean(|_| {}), "one compaction at a time");
    }));
    assert!(steps > 20, "{steps}");
    let offsets = world.offsets();
    assert!(offsets.len() < steps + 10 && offsets.contains(&29), "{offsets:?}");
    let restarted = world.restarted();
    restarted.lead(&[0], &[0], 1, &COMPACTED);
    assert_eq!(restarted.offsets(), offsets);
}

/// A topic that is deleted does not wait for a compaction to end by itself, but for it to let go.
#[test]
fn a_partition_that_stops_calls_compaction_off() {
    let world = World::compacted();
    world.put("k", 30);
    let partition = world.partition();
    let control = Arc::new(CleaningControl::default());
    assert!(world.is_due());
    assert!(partition.reserve_cleaning(&control, world.clock.timestamp()));
    let (begun, is_begun) = mpsc::channel();
    let cleaner = {
        let (partition, control) = (Arc::clone(&partition), Arc::clone(&control));
        std::thread::spawn(move || {
            let wait = {
                let control = Arc::clone(&control);
                move |_| {
                    begun.send(()).unwrap();
                    while !control.is_called_off() {
                        std::thread::yield_now();
                    }
                }
            };
            partition.clean(BUFFERS, 1, &mut Between(control, wait))
        })
    };
    is_begun.recv().unwrap();
    world.partitions.stop("t", 0, Some(Duration::ZERO)).unwrap();
    assert!(!cleaner.join().unwrap());
    let left = world.disk.files().into_iter().map(|file| file.0);
    assert!(!left.into_iter().any(|path| path.starts_with("/data/t-0")), "nothing came back");
    world.lead(&[0], &[0], 1, &COMPACTED);
    world.put("k", 3);
    assert_eq!(world.offsets(), [0, 1, 2]);
}

#[test]
fn a_log_that_moves_is_not_compacted_and_goes_on_where_it_was() {
    let world = World::compacted();
    world.put("k", 30);
    let environment = Arc::clone(world.partitions.environment());
    let directories = environment.logs.directories();
    let partition = world.partition();
    let current = partition.replica_size().unwrap().directory;
    let to = directories.iter().find(|directory| directory.path() != current).unwrap();
    let mut relocation = None;
    assert!(!world.clean(|_| {
        if relocation.is_none() {
            relocation = partition.move_to(to).unwrap();
        }
    }));
    assert!(!world.is_due(), "not while it moves");
    environment.mover.ask(relocation.unwrap());
    environment.mover.run_once();
    assert_eq!(partition.replica_size().unwrap().directory, to.path());
    assert_eq!(world.offsets(), (0..30).collect::<Vec<_>>());
    assert!(world.clean(|_| {}));
    let name = to.path().join("cleaner-offset-checkpoint");
    let written = world.disk.files().into_iter().find(|file| file.0 == name).unwrap().1;
    let written = String::from_utf8(written).unwrap();
    assert!(written.starts_with("0\n1\nt 0 "), "{written}");

    // It moves back, and its checkpoint with it.
    let back = directories.iter().find(|directory| directory.path() == current).unwrap();
    environment.mover.ask(partition.move_to(back).unwrap().unwrap());
    environment.mover.run_once();
    let moved = back.path().join("cleaner-offset-checkpoint");
    let moved = world.disk.files().into_iter().find(|file| file.0 == moved).unwrap().1;
    assert_eq!(String::from_utf8(moved).unwrap(), written);
    assert!(!world.is_due());
}

#[test]
fn a_damaged_log_is_not_tried_again() {
    let world = World::compacted();
    world.put("k", 30);
    world.partition().flush();
    world.partition().release_if_idle();
    world.partition().release_if_idle();
    let directory = world.partition().replica_size().unwrap().directory;
    let path = directory.join("t-0/00000000000000000000.log");
    let mut content = world.disk.files().into_iter().find(|file| file.0 == path).unwrap().1;
    *content.last_mut().unwrap() ^= 1;
    world.disk.put(&path, &content);
    assert!(world.is_due());
    assert!(!world.clean(|_| {}));
    assert!(!world.is_due() && !world.clean(|_| {}));
    world.put("k", 30);
    assert!(!world.is_due());
    let damaged = world.try_read(0, Isolation::LogEnd, None);
    assert!(matches!(damaged, Err(ReadFailure::Log(storage::ReadError::Corrupt { .. }))));
    assert!(world.read(40, Isolation::LogEnd, None).size > 0, "the rest is served");
}

/// A read that was decided before a swap, and comes when the old file is removed already.
#[test]
fn a_read_whose_file_is_gone_is_decided_anew() {
    let world = World::compacted();
    world.put("k", 30);
    let partition = world.partition();
    let decide = || {
        let request = storage::ReadRequest {
            offset: Offset(3),
            max_bytes: 1 << 20,
            min_one_message: true,
            upper_bound: Offset(30),
            want_aborted: false,
        };
        let state = partition.state.lock();
        (state.log.opened().unwrap().plan_read(request).unwrap(), request)
    };
    partition.flush();
    partition.release_if_idle();
    partition.release_if_idle();
    let (plan, request) = decide();
    assert!(!plan.is_in_memory());
    assert!(world.clean(|_| {}));
    let logs = &world.partitions.environment().logs;
    let later = world.clock.now() + Duration::from_secs(100);
    while logs.delete_step(later).is_some() {}
    let read = partition.run_plan(plan, request).unwrap();
    let bytes = read.records.to_bytes().unwrap();
    let first = Batches::new(&bytes).next().unwrap().unwrap();
    assert!(first.last_offset() > Offset(3));
}

#[test]
fn a_log_that_nobody_opened_is_opened_only_if_there_may_be_something_to_do() {
    let world = World::compacted();
    world.put("k", 30);
    assert!(world.clean(|_| {}));
    let is_closed = || matches!(world.partition().state.lock().log, Log::Closed(_));
    let reopened = |epoch| {
        world.partitions.stop("t", 0, None).unwrap();
        world.lead(&[0], &[0], epoch, &COMPACTED);
        assert!(is_closed());
    };
    reopened(1);
    assert!(!world.is_due(), "clean up to the active segment");
    world.partition().apply_retention(world.clock.timestamp());
    assert!(is_closed() && !world.is_due() && is_closed());
    world.put("k", 30);
    assert!(world.is_due(), "once it is open it is looked at");
    reopened(2);
    assert!(world.is_due() && !is_closed(), "complete segments are dirty");
}
