//! Each rule says no to what breaks it.

use super::*;
use crate::facts::PartitionFacts;
use crate::scheduler::ProcessId;
use broker::{LogView, ReplicaView, RoleView};
use coordination::SessionId;
use model::{BrokerId, LeaderEpoch, Offset, PartitionEpoch};
use std::time::Duration;

const TWO: [LoggedRecord; 2] = [
    LoggedRecord { id: 7, epoch: 1, producer: None },
    LoggedRecord { id: 8, epoch: 1, producer: None },
];

fn state(leader: i32, leader_epoch: i64, isr: &[i32]) -> PartitionState {
    PartitionState { controller_epoch: 3, leader, leader_epoch, isr: isr.to_vec() }
}

/// Partition 0 of three replicas, led by 1 in epoch 1, with two records.
fn facts() -> Facts {
    let partition = PartitionFacts {
        committed: TWO.to_vec(),
        committed_in: vec![1, 1],
        state: Some(state(1, 1, &[1, 2])),
        eligible: Vec::new(),
        eligible_before: Vec::new(),
        eligible_with: (0, Vec::new()),
        isr_sizes: vec![(Duration::ZERO, 1), (Duration::from_secs(5), 2)],
        isr_sizes_led: Vec::new(),
        replicas: vec![1, 2, 3],
    };
    Facts {
        now: Duration::from_secs(9),
        min_insync: 2,
        partitions: [(0, partition)].into(),
        controller_epoch: 3,
        ..Facts::default()
    }
}

fn view(role: RoleView, leader_epoch: i32, high_watermark: i64, end: i64) -> ReplicaView {
    ReplicaView {
        role,
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(1),
        isr: Vec::new(),
        log: Some(LogView {
            log_start_offset: Offset(0),
            high_watermark: Offset(high_watermark),
            durable_offset: Offset(0),
            log_end_offset: Offset(end),
            epochs: vec![(LeaderEpoch(1), Offset(0))],
        }),
    }
}

fn leader(epoch: i32, high_watermark: i64, end: i64) -> ReplicaView {
    let role = RoleView::Leader { epoch_start_offset: Offset(end) };
    view(role, epoch, high_watermark, end)
}

fn follower(high_watermark: i64, end: i64) -> ReplicaView {
    view(RoleView::Follower(None), 1, high_watermark, end)
}

/// Which rules break when `tell` is told to all of them.
fn broken(mut tell: impl FnMut(&mut dyn Invariant) -> Verdict) -> Vec<&'static str> {
    let names = all().into_iter().filter_map(|mut invariant| {
        let verdict = tell(&mut *invariant);
        verdict.err().map(|_| invariant.name().split(':').next().unwrap_or_default())
    });
    names.collect()
}

/// A replica of partition 0 of which nothing else can be read.
fn step<'a>(
    broker: i32,
    before: Option<&'a ReplicaView>,
    after: &'a ReplicaView,
) -> ReplicaStep<'a> {
    ReplicaStep { broker, partition: 0, before, after, read: &|_, _| None, producers: &|| None }
}

fn records_of(log: &[LoggedRecord], from: i64, to: i64) -> Vec<(i64, LoggedRecord)> {
    (0..).zip(log.iter().copied()).filter(|(at, _)| (from..to).contains(at)).collect()
}

fn after_step(
    before: Option<&ReplicaView>,
    after: &ReplicaView,
    log: &[LoggedRecord],
) -> Vec<&'static str> {
    let read = |from: i64, to: i64| Some(records_of(log, from, to));
    let step = ReplicaStep { read: &read, ..step(2, before, after) };
    broken(|invariant| invariant.replica(&facts(), &step))
}

fn after_seen(seen: &Seen) -> Vec<&'static str> {
    broken(|invariant| invariant.seen(&facts(), seen))
}

fn after_state(written: &PartitionState) -> Vec<&'static str> {
    broken(|invariant| invariant.state_written(&facts(), 0, written))
}

fn acked(offset: i64, record: u64, sent_at: u64) -> Seen {
    let sent_at = Duration::from_secs(sent_at);
    Seen::Acked { partition: 0, offset, records: vec![record], acks: -1, sent_at }
}

#[test]
fn replicas() {
    let none: [&str; 0] = [];
    assert_eq!(after_step(None, &follower(2, 2), &TWO), none);
    let other = [TWO[0], LoggedRecord { id: 9, ..TWO[1] }];
    assert_eq!(after_step(None, &follower(2, 2), &other), ["S3"]);
    assert_eq!(after_step(None, &follower(1, 2), &other), none, "not said to be committed");
    assert_eq!(after_step(None, &follower(3, 3), &TWO), ["S3"]);
    assert_eq!(after_step(None, &leader(2, 0, 1), &TWO), ["S4"], "too short");
    assert_eq!(after_step(None, &leader(2, 0, 2), &other), ["S4"]);
    assert_eq!(after_step(None, &leader(1, 0, 1), &TWO), none, "it heard late");
    assert_eq!(after_step(Some(&leader(1, 2, 2)), &leader(1, 1, 2), &TWO), ["S5"]);
    let unknown = [TWO[0], LoggedRecord { epoch: 2, ..TWO[1] }];
    assert_eq!(after_step(None, &follower(1, 2), &unknown), ["S8"]);
    assert_eq!(after_step(Some(&leader(2, 2, 2)), &follower(2, 2), &TWO), ["S11"]);
}

#[test]
fn high_watermarks_and_isrs() {
    let led = |high_watermark, isr: &[i32]| {
        let isr = isr.iter().copied().map(BrokerId).collect();
        ReplicaView { isr, ..leader(1, high_watermark, 2) }
    };
    // Broker 1 leads; whoever else is there has fetched as far as is said.
    let moved = |end_of_2: i64, isr: &[i32]| {
        let (before, after) = (led(1, isr), led(2, isr));
        broken(|invariant| {
            let fetched = follower(1, end_of_2);
            invariant.replica(&facts(), &step(2, None, &fetched))?;
            invariant.replica(&facts(), &step(1, Some(&before), &after))
        })
    };
    let none: [&str; 0] = [];
    assert_eq!(moved(2, &[1, 2]), none);
    assert_eq!(moved(1, &[1, 2]), ["S12"], "2 is in the ISR, and lacks it");
    assert_eq!(moved(2, &[1]), ["S12"], "too few for min.insync.replicas");
    let joined = |end_of_3: i64| {
        let mut facts = facts();
        facts.registered.insert(3, SessionId(1));
        broken(|invariant| {
            let fetched = follower(1, end_of_3);
            invariant.replica(&facts, &step(3, None, &fetched))?;
            invariant.state_written(&facts, 0, &state(1, 1, &[1, 2, 3]))
        })
    };
    assert_eq!(joined(2), none);
    assert_eq!(joined(1), ["S12"], "3 comes into the ISR, and lacks what is committed");
}

#[test]
fn what_a_start_finds() {
    let none: [&str; 0] = [];
    let durable = |end: i64, durable_offset: i64| {
        let mut view = follower(0, end);
        view.log.as_mut().unwrap().durable_offset = Offset(durable_offset);
        view
    };
    let started_again = |end: i64, log: &[LoggedRecord]| {
        broken(|invariant| {
            let (before, after) = (durable(2, 2), durable(end, 0));
            let read = |from, to| Some(records_of(&TWO, from, to));
            invariant.replica(&facts(), &ReplicaStep { read: &read, ..step(2, None, &before) })?;
            let read = |from, to| Some(records_of(log, from, to));
            invariant.replica(&facts(), &ReplicaStep { read: &read, ..step(2, None, &after) })
        })
    };
    assert_eq!(started_again(2, &TWO), none);
    assert_eq!(started_again(1, &TWO[..1]), ["D1"]);
    assert_eq!(started_again(2, &[TWO[0], LoggedRecord { id: 9, ..TWO[1] }]), ["D1"]);
    let knows = |known: &[(i64, i16, i32)]| {
        let stamped = LoggedRecord { producer: Some((5, 0, 3)), ..TWO[0] };
        let (read, view) = (|_, _| Some(vec![(0, stamped)]), follower(0, 1));
        let producers = || Some(known.to_vec());
        let step = ReplicaStep { read: &read, producers: &producers, ..step(2, None, &view) };
        broken(|invariant| invariant.replica(&facts(), &step))
    };
    assert_eq!(knows(&[(5, 0, 3)]), none);
    assert_eq!(knows(&[(5, 0, 2)]), ["I1"]);
    assert_eq!(knows(&[]), ["I1"]);
}

#[test]
fn groups() {
    let none: [&str; 0] = [];
    let at = Duration::from_secs;
    let stands = |offset, asked_at| Seen::GroupStands { partition: 0, offset, asked_at };
    let after_commit = |then: Seen| {
        broken(|invariant| {
            invariant.seen(&facts(), &Seen::Committing { partition: 0, offset: 7 })?;
            let (generation, sent_at) = (1, at(6));
            let committed = Seen::Committed { generation, partition: 0, offset: 7, sent_at };
            invariant.seen(&facts(), &committed)?;
            invariant.seen(&facts(), &then)
        })
    };
    assert_eq!(after_commit(stands(7, at(10))), none);
    assert_eq!(after_commit(stands(-1, at(8))), none, "it was asked before");
    assert_eq!(after_commit(stands(-1, at(10))), ["G1"]);
    assert_eq!(after_commit(stands(8, at(10))), ["G1"], "nobody committed that");
    let assigned = |generation, member: &str| Seen::Assigned {
        generation,
        member: member.to_owned(),
        partitions: vec![0],
    };
    let after_assigned = |then: Seen| {
        broken(|invariant| {
            invariant.seen(&facts(), &assigned(2, "a"))?;
            invariant.seen(&facts(), &then)
        })
    };
    assert_eq!(after_assigned(assigned(2, "a")), none, "it synced again");
    assert_eq!(after_assigned(assigned(3, "b")), none);
    assert_eq!(after_assigned(assigned(2, "b")), ["G2"]);
    let committed = |generation, sent_at| Seen::Committed {
        generation,
        partition: 0,
        offset: 7,
        sent_at: at(sent_at),
    };
    assert_eq!(after_assigned(committed(1, 8)), none, "it was sent before");
    assert_eq!(after_assigned(committed(1, 10)), ["G2"]);
    assert_eq!(after_seen(&Seen::Fenced { instance: "i".to_owned() }), ["G2"]);
}

#[test]
fn what_clients_are_told_of_leaders() {
    let told = |process, leader_epoch, partition_epoch| Told {
        broker: 1,
        process: ProcessId(process),
        partition: 0,
        leader: 2,
        leader_epoch,
        partition_epoch,
    };
    let second = |second: Told| {
        broken(|invariant| {
            invariant.told(&facts(), &told(1, 5, 9))?;
            invariant.told(&facts(), &second)
        })
    };
    let none: [&str; 0] = [];
    assert_eq!(second(told(1, 5, 10)), none);
    assert_eq!(second(told(1, 5, 8)), ["S11"]);
    assert_eq!(second(told(2, 4, 8)), none, "a process that starts knows nothing");
}

#[test]
fn clients() {
    let none: [&str; 0] = [];
    assert_eq!(after_seen(&acked(1, 8, 6)), none);
    assert_eq!(after_seen(&acked(1, 8, 4)), none, "there were two before it was answered");
    assert_eq!(after_seen(&acked(2, 9, 6)), ["S1"]);
    assert_eq!(after_seen(&acked(1, 9, 6)), ["S2"]);
    let read = |offset, record| Seen::Read { partition: 0, offset, epoch: 1, record };
    assert_eq!(after_seen(&read(0, 7)), none);
    assert_eq!(after_seen(&read(0, 8)), ["S6"]);
    assert_eq!(after_seen(&read(2, 9)), ["S6"]);
    let few = {
        let mut facts = facts();
        facts.partitions.get_mut(&0).unwrap().isr_sizes.truncate(1);
        broken(|invariant| invariant.seen(&facts, &acked(1, 8, 6)))
    };
    assert_eq!(few, ["S13"]);
    let refused_then_committed = broken(|invariant| {
        invariant.seen(&facts(), &Seen::Refused { partition: 0, records: vec![9] })?;
        let record = LoggedRecord { id: 9, ..TWO[0] };
        invariant.committed(&facts(), 0, 2, &record)
    });
    assert_eq!(refused_then_committed, ["S13"]);
    let told_less = broken(|invariant| {
        let told =
            |offset, at| Seen::Latest { partition: 0, offset, asked_at: Duration::from_secs(at) };
        invariant.seen(&facts(), &told(2, 8))?;
        invariant.seen(&facts(), &told(1, 10))
    });
    assert_eq!(told_less, ["S5"]);
    let never_read = broken(|invariant| {
        invariant.seen(&facts(), &acked(1, 8, 6))?;
        invariant.whole(&facts())
    });
    assert_eq!(never_read, ["S1"]);
}

#[test]
fn records_that_become_committed() {
    let twice = broken(|invariant| {
        invariant.committed(&facts(), 0, 2, &TWO[0])?;
        invariant.committed(&facts(), 0, 3, &TWO[0])
    });
    assert_eq!(twice, ["I1"]);
    let gap = broken(|invariant| {
        let of = |id, sequence| LoggedRecord { id, epoch: 1, producer: Some((5, 0, sequence)) };
        invariant.committed(&facts(), 0, 2, &of(9, 0))?;
        invariant.committed(&facts(), 0, 3, &of(10, 2))
    });
    assert_eq!(gap, ["I1"]);
    let out_of_order = Seen::OutOfOrder { partition: 0, record: 9, code: 45 };
    assert_eq!(after_seen(&out_of_order), ["I2"]);
    let given_twice = broken(|invariant| {
        invariant.seen(&facts(), &Seen::ProducerId { id: 5, epoch: 0 })?;
        invariant.seen(&facts(), &Seen::ProducerId { id: 5, epoch: 0 })
    });
    assert_eq!(given_twice, ["I2"]);
    let back = broken(|invariant| {
        invariant.committed(&facts(), 0, 2, &LoggedRecord { id: 9, epoch: 2, producer: None })?;
        invariant.committed(&facts(), 0, 3, &LoggedRecord { id: 10, epoch: 1, producer: None })
    });
    assert_eq!(back, ["S8"]);
}

#[test]
fn the_store() {
    let none: [&str; 0] = [];
    assert_eq!(after_state(&state(2, 2, &[2])), none);
    assert_eq!(after_state(&PartitionState { controller_epoch: 2, ..state(2, 2, &[2]) }), ["S9"]);
    assert_eq!(after_state(&state(1, 1, &[1, 4])), ["S10"]);
    assert_eq!(after_state(&state(2, 2, &[1])), ["S10"]);
    assert_eq!(after_state(&state(2, 1, &[2])), ["S11"]);
    assert_eq!(after_state(&state(1, 0, &[1])), ["S11"]);
    assert_eq!(after_state(&state(3, 2, &[3])), ["S14"]);
    let mut eligible = facts();
    eligible.partitions.get_mut(&0).unwrap().eligible_before = vec![3];
    let elected = state(3, 2, &[3]);
    assert_eq!(broken(|rule| rule.state_written(&eligible, 0, &elected)), none, "it was eligible");
    let grown = PartitionState { leader: 1, ..state(1, 1, &[1, 2, 3]) };
    assert_eq!(after_state(&grown), ["S10"], "3 is not registered");
    let mut registered = facts();
    registered.registered.insert(3, SessionId(1));
    assert_eq!(broken(|rule| rule.state_written(&registered, 0, &grown)), none);
    let listed = |isr: &[i32], eligible: &[i32]| {
        let mut facts = facts();
        let partition = facts.partitions.get_mut(&0).unwrap();
        (partition.eligible, partition.eligible_with) = (eligible.to_vec(), (1, isr.to_vec()));
        broken(|rule| rule.state_written(&facts, 0, &state(1, 1, isr)))
    };
    assert_eq!(listed(&[1], &[2]), none);
    assert_eq!(listed(&[1], &[1]), ["S10"], "eligible and in sync");
    assert_eq!(listed(&[1, 2], &[3]), ["S10"], "enough are in sync");
    let epoch = |epoch| broken(|invariant| invariant.controller_epoch_written(&facts(), epoch));
    assert_eq!(epoch(4), none);
    assert_eq!(epoch(3), ["S9"]);
}
