use super::*;

const LAG_MAX: Duration = Duration::from_secs(30);

fn at(second: u64) -> Instant {
    Instant(Duration::from_secs(second))
}

fn ids(raw: &[i32]) -> Vec<BrokerId> {
    raw.iter().copied().map(BrokerId).collect()
}

/// A leader of replicas 1, 2 and 3, itself being 1, with the actions of each step.
struct Scenario {
    leader: Leader,
    now: Instant,
}

impl Scenario {
    fn new(isr: &[i32], min_isr: usize, high_watermark: i64, log_end: i64) -> Self {
        let leader = Leader::new(
            at(0),
            term(&[1, 2, 3], isr, 5),
            LeaderSettings { min_isr, lag_max: LAG_MAX },
            Offset(high_watermark),
            Offset(log_end),
            None,
        );
        Self { leader, now: at(0) }
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.leader.step(self.now, event, &mut actions);
        actions
    }

    fn append(&mut self, log_end: i64) -> Vec<Action> {
        self.step(Event::Appended(Offset(log_end)))
    }

    fn fetch(&mut self, follower: i32, offset: i64) -> Vec<Action> {
        self.step(Event::Fetched(FollowerFetch {
            follower: BrokerId(follower),
            broker_epoch: Some(BrokerEpoch(i64::from(follower) * 10)),
            offset: Offset(offset),
            log_start_offset: Offset(0),
            leader_log_end_offset: self.leader.log_end_offset,
        }))
    }

    fn commit(&mut self, isr: &[i32], partition_epoch: i32) -> Vec<Action> {
        self.step(Event::IsrCommitted {
            leader_epoch: self.leader.leader_epoch,
            partition_epoch: PartitionEpoch(partition_epoch),
            isr: ids(isr),
        })
    }
}

fn term(replicas: &[i32], isr: &[i32], leader_epoch: i32) -> LeaderTerm {
    LeaderTerm {
        id: BrokerId(1),
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(7),
        replicas: ids(replicas),
        isr: ids(isr),
    }
}

fn advance(to: i64) -> Vec<Action> {
    vec![Action::AdvanceHighWatermark(Offset(to))]
}

fn proposed(actions: &[Action]) -> Option<Vec<i32>> {
    actions.iter().find_map(|action| match action {
        Action::ProposeIsr { isr, .. } => Some(isr.iter().map(|(id, _)| id.0).collect()),
        Action::AdvanceHighWatermark(_) => None,
    })
}

#[test]
fn alone_everything_is_committed_when_appended() {
    let settings = LeaderSettings { min_isr: 2, lag_max: LAG_MAX };
    let alone = term(&[1], &[1], 0);
    let mut leader = Leader::new(at(0), alone, settings, Offset(3), Offset(8), None);
    let mut actions = Vec::new();
    leader.step(at(0), Event::Tick, &mut actions);
    assert_eq!(actions, advance(8), "an ISR of one commits what the log holds");
    assert!(leader.has_enough_replicas(), "min.insync.replicas is capped by the replica count");
    actions.clear();
    leader.step(at(0), Event::Appended(Offset(9)), &mut actions);
    assert_eq!(actions, advance(9));
    assert_eq!(leader.next_deadline(), None, "nothing to tick for");
}

#[test]
fn the_watermark_is_the_least_end_of_the_isr() {
    let mut s = Scenario::new(&[1, 2, 3], 1, 0, 0);
    assert_eq!(s.append(10), []);
    assert_eq!(s.fetch(2, 10), [], "3 is unheard of");
    assert_eq!(s.fetch(3, 4), advance(4));
    assert_eq!(s.fetch(3, 4), [], "nothing new");
    assert_eq!(s.fetch(3, 10), advance(10));
}

#[test]
fn below_min_isr_nothing_is_committed() {
    let mut s = Scenario::new(&[1], 2, 0, 0);
    s.now = at(100);
    assert!(!s.leader.has_enough_replicas());
    assert_eq!(s.append(10), []);
    assert_eq!(proposed(&s.fetch(2, 10)), Some(vec![1, 2]));
    assert_eq!(s.leader.high_watermark(), Offset(0), "a proposal does not count yet");
    assert_eq!(s.commit(&[1, 2], 8), advance(10));
}

#[test]
fn a_member_being_added_holds_the_watermark() {
    let mut s = Scenario::new(&[1], 1, 10, 10);
    s.now = at(100);
    assert_eq!(proposed(&s.fetch(2, 10)), Some(vec![1, 2]));
    assert_eq!(s.append(20), [], "2 may already be in the ISR");
    assert_eq!(s.fetch(2, 15), advance(15));
    assert_eq!(s.step(Event::IsrRefused(IsrRefusal::Refused)), []);
    s.now = at(200);
    assert_eq!(s.step(Event::Tick), advance(20), "neither in the ISR nor caught up");
}

#[test]
fn a_member_being_removed_holds_the_watermark_until_committed() {
    let mut s = Scenario::new(&[1, 2, 3], 1, 0, 0);
    s.append(10);
    s.fetch(2, 10);
    assert_eq!(s.leader.next_deadline(), Some(at(30)), "3 was heard of last when the epoch began");
    s.now = at(31);
    assert_eq!(proposed(&s.step(Event::Tick)), Some(vec![1, 2]));
    assert_eq!(s.leader.high_watermark(), Offset(0));
    assert_eq!(s.step(Event::Tick), [], "one change at a time");
    assert_eq!(s.leader.next_deadline(), None);
    assert_eq!(s.commit(&[1, 2], 8), advance(10));
}

#[test]
fn joining_needs_the_watermark_and_this_epochs_start() {
    let mut s = Scenario::new(&[1, 3], 1, 5, 10);
    s.now = at(100);
    assert_eq!(s.fetch(2, 4), [], "below the watermark");
    assert_eq!(s.fetch(2, 9), [], "above the watermark but below the epoch's start");
    s.step(Event::LivenessChanged { follower: BrokerId(2), is_live: false });
    assert_eq!(s.fetch(2, 10), [], "its broker is gone");
    assert_eq!(
        s.step(Event::LivenessChanged { follower: BrokerId(2), is_live: true }),
        [Action::ProposeIsr {
            isr: vec![
                (BrokerId(1), None),
                (BrokerId(3), None),
                (BrokerId(2), Some(BrokerEpoch(20)))
            ],
            leader_epoch: LeaderEpoch(5),
            partition_epoch: PartitionEpoch(7),
        }]
    );
}

#[test]
fn a_stale_answer_changes_nothing_and_an_unanswered_proposal_is_repeated() {
    let mut s = Scenario::new(&[1], 1, 10, 10);
    s.now = at(100);
    s.fetch(2, 10);
    s.step(Event::IsrRefused(IsrRefusal::Stale));
    assert!(s.leader.isr().is_changing(), "until the controller's word comes");
    assert_eq!(proposed(&s.step(Event::IsrRefused(IsrRefusal::Unanswered))), Some(vec![1, 2]));
    let stale = Event::IsrCommitted {
        leader_epoch: LeaderEpoch(4),
        partition_epoch: PartitionEpoch(9),
        isr: ids(&[1, 3]),
    };
    s.step(stale);
    assert_eq!(s.leader.isr().committed(), ids(&[1]));
    s.commit(&[1, 2], 6);
    assert_eq!(s.leader.isr().committed(), ids(&[1]), "an older version");
    s.commit(&[1, 2], 8);
    assert_eq!(s.leader.isr().committed(), ids(&[1, 2]));
    assert_eq!(s.leader.partition_epoch(), PartitionEpoch(8));
}

#[test]
fn a_leader_that_stays_keeps_what_it_knows_of_its_followers() {
    let mut s = Scenario::new(&[1, 2, 3], 1, 0, 10);
    s.fetch(2, 10);
    s.fetch(3, 10);
    let again = term(&[1, 2, 3], &[1, 2, 3], 6);
    let settings = s.leader.settings;
    let next = Leader::new(at(5), again.clone(), settings, Offset(10), Offset(12), Some(&s.leader));
    s = Scenario { leader: next, now: at(5) };
    assert_eq!(s.leader.epoch_start_offset(), Offset(12));
    assert_eq!(s.fetch(2, 12), [], "3 is known to hold 10, which is committed");
    assert_eq!(s.fetch(3, 11), advance(11));
    let same_epoch = Leader::new(at(6), again, settings, Offset(11), Offset(15), Some(&s.leader));
    assert_eq!(same_epoch.epoch_start_offset(), Offset(12), "a new version is no new epoch");
}

#[test]
fn the_low_watermark_waits_for_live_followers() {
    let mut s = Scenario::new(&[1, 2, 3], 1, 0, 10);
    assert_eq!(s.leader.low_watermark(Offset(6)), Offset(0), "followers are unheard of");
    for follower in [2, 3] {
        s.step(Event::Fetched(FollowerFetch {
            follower: BrokerId(follower),
            broker_epoch: None,
            offset: Offset(10),
            log_start_offset: Offset(i64::from(follower)),
            leader_log_end_offset: Offset(10),
        }));
    }
    assert_eq!(s.leader.low_watermark(Offset(6)), Offset(2));
    s.step(Event::LivenessChanged { follower: BrokerId(2), is_live: false });
    assert_eq!(s.leader.low_watermark(Offset(6)), Offset(3));
}

#[test]
fn a_session_that_goes_on_fetching_keeps_its_partitions_in_sync() {
    let mut s = Scenario::new(&[1, 2, 3], 1, 10, 10);
    s.fetch(2, 10);
    s.fetch(3, 10);
    s.now = at(1_000);
    s.step(Event::StoodAtEnd { follower: BrokerId(2), at: at(999) });
    s.append(11);
    assert_eq!(proposed(&s.step(Event::Tick)), Some(vec![1, 2]), "3 was last heard of long ago");
    s.commit(&[1, 2], 8);
    s.now = at(1_030);
    s.step(Event::StoodAtEnd { follower: BrokerId(2), at: at(1_030) });
    assert_eq!(
        proposed(&s.step(Event::Tick)),
        Some(vec![1]),
        "it does not stand at the end any more"
    );
}

#[test]
fn who_catches_up_while_the_isr_changes_joins_without_another_fetch() {
    let mut s = Scenario::new(&[1, 2], 2, 10, 10);
    s.fetch(2, 10);
    s.append(11);
    s.now = at(100);
    assert_eq!(proposed(&s.step(Event::Tick)), Some(vec![1]), "2 has not fetched for long");
    assert_eq!(proposed(&s.fetch(2, 11)), None, "one change at a time");
    // From here on its session has no news of the partition: nothing is appended with one replica in sync.
    assert_eq!(proposed(&s.commit(&[1], 8)), Some(vec![1, 2]));
}

#[test]
fn who_fetched_before_its_broker_seemed_live_joins_without_another_fetch() {
    let mut s = Scenario::new(&[1], 2, 10, 10);
    s.step(Event::LivenessChanged { follower: BrokerId(2), is_live: false });
    assert_eq!(proposed(&s.fetch(2, 10)), None);
    let live = Event::LivenessChanged { follower: BrokerId(2), is_live: true };
    assert_eq!(proposed(&s.step(live)), Some(vec![1, 2]));
    assert_eq!(proposed(&s.step(Event::IsrRefused(IsrRefusal::Refused))), None, "not at once");
    assert_eq!(proposed(&s.step(Event::Tick)), Some(vec![1, 2]));
}

#[test]
fn who_has_not_fetched_in_this_epoch_does_not_join_for_what_it_held_before() {
    let mut s = Scenario::new(&[1, 2], 1, 10, 10);
    s.fetch(2, 10);
    let next = term(&[1, 2, 3], &[1], 6);
    let settings = LeaderSettings { min_isr: 1, lag_max: LAG_MAX };
    s.leader = Leader::new(at(1), next, settings, Offset(10), Offset(10), Some(&s.leader));
    assert_eq!(proposed(&s.step(Event::Tick)), None);
    assert_eq!(proposed(&s.fetch(2, 10)), Some(vec![1, 2]));
}

#[test]
fn who_left_because_it_lags_does_not_join_for_what_it_held_then() {
    let mut s = Scenario::new(&[1, 2], 2, 10, 10);
    s.fetch(2, 10);
    s.append(11);
    s.now = at(100);
    assert_eq!(proposed(&s.step(Event::Tick)), Some(vec![1]));
    assert_eq!(
        proposed(&s.commit(&[1], 8)),
        None,
        "though nothing more than it holds is committed"
    );
    assert_eq!(proposed(&s.step(Event::Tick)), None);
}

#[test]
fn what_a_broker_held_before_it_started_again_counts_for_nothing() {
    let mut s = Scenario::new(&[1, 2], 1, 0, 0);
    s.append(10);
    let fetch = |epoch: i64, offset: i64| {
        Event::Fetched(FollowerFetch {
            follower: BrokerId(2),
            broker_epoch: Some(BrokerEpoch(epoch)),
            offset: Offset(offset),
            log_start_offset: Offset(0),
            leader_log_end_offset: Offset(10),
        })
    };
    assert_eq!(s.step(fetch(20, 10)), advance(10));
    s.append(12);
    assert_eq!(s.step(fetch(21, 3)), [], "it has lost what it held");
    assert_eq!(
        proposed(&s.step(Event::Tick)),
        Some(vec![1]),
        "and is not caught up, whenever it was"
    );
    assert!(s.leader.is_superseded(BrokerId(2), Some(BrokerEpoch(20))));
    s.step(fetch(20, 12));
    let view = s.leader.followers().next().unwrap();
    assert_eq!(view.log_end_offset, Some(Offset(3)), "a fetch that was late");
}

#[test]
fn whoever_may_be_eligible_outside_a_small_isr_could_have_been_made_leader() {
    let successors = |scenario: &Scenario| -> Vec<i32> {
        scenario.leader.successors(false).map(|id| id.0).collect()
    };
    assert_eq!(successors(&Scenario::new(&[1, 2], 2, 0, 0)), [2], "two are enough");
    assert_eq!(successors(&Scenario::new(&[1], 1, 0, 0)), [0; 0]);
    assert_eq!(successors(&Scenario::new(&[1, 2], 9, 0, 0)), [2, 3], "at most the replicas");
    let mut alone = Scenario::new(&[1], 2, 0, 0);
    assert_eq!(successors(&alone), [2, 3]);
    alone.step(Event::SettingsChanged(LeaderSettings { min_isr: 1, lag_max: LAG_MAX }));
    assert_eq!(successors(&alone), [2, 3], "one may have been elected before");
    alone.commit(&[1, 2], 8);
    assert_eq!(successors(&alone), [2]);
}
