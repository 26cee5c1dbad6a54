//! Stories of groups, told against a log that the test holds in its hands.

#![expect(clippy::cast_possible_truncation, reason = "small numbers made here")]
#![expect(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test")]

use super::*;
use crate::request::{Joined, OffsetToCommit, Protocol, Synced};
use bytes::Bytes;

struct World {
    shard: GroupShard,
    log: Vec<(i64, Bytes, Option<Bytes>)>,
    now: Now,
    tickets: u64,
    answers: BTreeMap<Ticket, Answer>,
    /// Appends fail with this.
    broken: Option<WriteError>,
    /// Appends succeed, but nothing is committed.
    lagging: bool,
}

fn world() -> World {
    world_with(GroupConfig::default())
}

fn world_with(config: GroupConfig) -> World {
    let now = Now { instant: Instant(Duration::from_secs(1000)), wall: Timestamp(1_000_000) };
    let mut shard = GroupShard::new(config);
    shard.loaded(now, &mut Vec::new());
    let (log, answers) = (Vec::new(), BTreeMap::new());
    World { shard, log, now, tickets: 0, answers, broken: None, lagging: false }
}

const RANGE: &[(&str, &[u8])] = &[("range", b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff")];

fn protocols(list: &[(&str, &[u8])]) -> Vec<Protocol> {
    let protocol = |(name, metadata): &(&str, &[u8])| Protocol {
        name: (*name).into(),
        metadata: Bytes::copy_from_slice(metadata),
    };
    list.iter().map(protocol).collect()
}

fn joining() -> Join {
    Join {
        group: "g".into(),
        member: None,
        instance: None,
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout: 10_000,
        rebalance_timeout: 60_000,
        protocol_type: "consumer".into(),
        protocols: protocols(RANGE),
        needs_known_member_id: false,
        can_skip_assignment: false,
        uuid: 0,
        reason: None,
    }
}

fn is_static(instance: &str) -> Join {
    Join { instance: Some(instance.into()), ..joining() }
}

fn rejoining(joined: &Joined) -> Join {
    Join { member: Some(joined.member.clone()), ..joining() }
}

fn speaker(joined: &Joined) -> Speaker<'_> {
    Speaker { member: &joined.member, instance: None, generation: joined.generation }
}

impl World {
    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Appends and commits what there is, and takes the answers.
    fn settle(&mut self, mut actions: Vec<Action>) {
        loop {
            let base = self.log.len() as i64;
            let Some((id, records)) = self.shard.next_batch() else { break };
            if let Some(error) = self.broken {
                self.shard.append_failed(self.now, id, error, &mut actions);
                continue;
            }
            self.log.extend(records.iter().map(|r| (base, r.encode_key(), r.encode_value())));
            let end = self.log.len() as i64;
            self.shard.appended(id, Offset(base), Offset(end - 1));
            if !self.lagging {
                self.shard.committed(self.now, Offset(end), &mut actions);
            }
        }
        for action in actions {
            if let Action::Answer(ticket, answer) = action {
                assert!(
                    self.answers.insert(ticket, answer).is_none(),
                    "{ticket:?} is answered twice"
                );
            }
        }
    }

    fn catch_up(&mut self) {
        let mut actions = Vec::new();
        self.shard.committed(self.now, Offset(self.log.len() as i64), &mut actions);
        self.settle(actions);
    }

    fn wait(&mut self, millis: u64) {
        let end = self.now.instant + Duration::from_millis(millis);
        while let Some(at) = self.shard.next_deadline().filter(|&at| at <= end) {
            self.move_clock(at.max(self.now.instant));
            let mut actions = Vec::new();
            self.shard.tick(self.now, &mut actions);
            self.settle(actions);
        }
        self.move_clock(end);
    }

    fn move_clock(&mut self, to: Instant) {
        let passed = to.since(self.now.instant);
        self.now =
            Now { instant: to, wall: Timestamp(self.now.wall.0 + passed.as_millis() as i64) };
    }

    fn join(&mut self, join: Join) -> Ticket {
        let ticket = self.ticket();
        let mut actions = Vec::new();
        self.shard.join(
            self.now,
            ticket,
            Join { uuid: u128::from(ticket.0), ..join },
            &mut actions,
        );
        self.settle(actions);
        ticket
    }

    fn sync(&mut self, joined: &Joined, assignments: &[(&str, &'static [u8])]) -> Ticket {
        let ticket = self.ticket();
        let sync = Sync {
            group: "g",
            generation: joined.generation,
            member: &joined.member,
            instance: None,
            protocol_type: None,
            protocol: None,
            assignments: assignments.iter().map(|&(id, a)| (id, Bytes::from_static(a))).collect(),
        };
        let mut actions = Vec::new();
        self.shard.sync(self.now, ticket, sync, &mut actions);
        self.settle(actions);
        ticket
    }

    fn heartbeat(&mut self, speaker: Speaker<'_>) -> Result<(), Error> {
        let mut actions = Vec::new();
        let result = self.shard.heartbeat(self.now, "g", speaker, &mut actions);
        self.settle(actions);
        result
    }

    fn leave(&mut self, member: &str, instance: Option<&str>) -> Result<(), Error> {
        let mut actions = Vec::new();
        let leaver = Leaver { member, instance, reason: None };
        let results = self.shard.leave(self.now, "g", &[leaver], &mut actions);
        self.settle(actions);
        results.unwrap()[0]
    }

    fn commit_to(&mut self, group: &str, speaker: Speaker<'_>, topic: &str, offset: i64) -> Ticket {
        let ticket = self.ticket();
        let offset = OffsetToCommit {
            topic: topic.into(),
            partition: 0,
            topic_id: None,
            offset,
            leader_epoch: None,
            metadata: "".into(),
            commit_timestamp: None,
        };
        let mut actions = Vec::new();
        let commit = Commit { group, speaker, retention: None, offsets: vec![offset] };
        self.shard.commit(self.now, ticket, commit, &mut actions);
        self.settle(actions);
        ticket
    }

    fn commit(&mut self, speaker: Speaker<'_>, topic: &str, offset: i64) -> Option<Error> {
        let ticket = self.commit_to("g", speaker, topic, offset);
        match &self.answers[&ticket] {
            Answer::Commit(results) => results[0],
            other => panic!("{other:?}"),
        }
    }

    fn offset(&self, topic: &str) -> Option<i64> {
        match self.shard.offsets("g", false).get(topic, 0, None) {
            FetchedOffset::Committed(value) => Some(value.offset),
            FetchedOffset::None => None,
            FetchedOffset::Unstable => panic!("not asked for"),
        }
    }

    fn joined(&self, ticket: Ticket) -> Joined {
        match self.answers.get(&ticket) {
            Some(Answer::Join(Ok(joined))) => joined.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn refused(&self, ticket: Ticket) -> JoinRefused {
        match self.answers.get(&ticket) {
            Some(Answer::Join(Err(refused))) => refused.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn synced(&self, ticket: Ticket) -> Result<Synced, Error> {
        match self.answers.get(&ticket) {
            Some(Answer::Sync(result)) => result.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn assignment(&self, ticket: Ticket) -> Bytes {
        self.synced(ticket).unwrap().assignment
    }

    fn waits(&self, ticket: Ticket) -> bool {
        !self.answers.contains_key(&ticket)
    }

    fn state(&self) -> &'static str {
        self.shard.describe("g").map_or("Dead", |d| d.state)
    }

    /// A stable group of these members, each assigned its place in the list.
    fn stable(&mut self, members: &[Join]) -> Vec<Joined> {
        let tickets = members.iter().map(|m| self.join(m.clone())).collect::<Vec<_>>();
        self.wait(6000);
        let joined = tickets.iter().map(|&t| self.joined(t)).collect::<Vec<_>>();
        let shares: [&'static [u8]; 4] = [b"0", b"1", b"2", b"3"];
        let shares =
            joined.iter().zip(shares).map(|(j, share)| (&*j.member, share)).collect::<Vec<_>>();
        for member in &joined {
            let is_leader = member.member == member.leader;
            self.sync(member, if is_leader { &shares } else { &[] });
        }
        assert_eq!(self.state(), "Stable");
        joined
    }

    /// What a new coordinator makes of the log.
    fn reloaded(&self) -> World {
        let mut shard = GroupShard::new(GroupConfig::default());
        for (base, key, value) in &self.log {
            let origin = Origin { base_offset: Offset(*base), transaction: None };
            shard.load(origin, key, value.as_deref()).unwrap();
        }
        shard.loaded(self.now, &mut Vec::new());
        let answers = BTreeMap::new();
        World { shard, log: self.log.clone(), answers, ..world() }
    }

    /// What must be the same before and after a restart, of groups that are not rebalancing.
    fn durable(&self) -> Vec<String> {
        let groups = self.shard.log.state().groups.values();
        let settled = groups.filter(|g| matches!(g.state, State::Empty | State::Stable));
        let show = |g: &Group| {
            let members = g
                .members
                .values()
                .map(|m| (&m.id, &m.instance, m.metadata(g.protocol.as_deref()), &m.assignment));
            let members = members.collect::<Vec<_>>();
            let metadata = g.is_stored.then_some((
                g.generation,
                &g.protocol_type,
                &g.protocol,
                &g.leader,
                members,
            ));
            (metadata.is_some() || !g.offsets.is_empty())
                .then(|| format!("{} {metadata:?} {:?}", g.id, g.offsets))
        };
        settled.filter_map(show).collect()
    }
}

#[test]
fn two_members_form_a_group_and_share_the_work() {
    let mut w = world();
    let a = w.join(joining());
    w.wait(1000);
    let b = w.join(joining());
    w.wait(1999);
    assert!(w.waits(a), "the first rebalance waits for more members");
    w.wait(1);
    assert!(w.waits(a), "another came: it waits once more");
    w.wait(3000);
    let (a, b) = (w.joined(a), w.joined(b));
    assert_eq!((a.generation, b.generation), (1, 1));
    assert_eq!(a.leader, a.member);
    assert_eq!(b.leader, a.member);
    assert_eq!((a.members.len(), b.members.len()), (2, 0), "only the leader sees everyone");
    assert_eq!(a.member.len(), "c-".len() + 36);

    let follower = w.sync(&b, &[]);
    assert!(w.waits(follower));
    assert_eq!(w.heartbeat(speaker(&b)), Ok(()), "heartbeats are fine while the leader thinks");
    let leader = w.sync(&a, &[(&a.member, b"A"), (&b.member, b"B")]);
    assert_eq!(w.assignment(leader), "A");
    assert_eq!(w.assignment(follower), "B");
    assert_eq!(w.state(), "Stable");
    assert_eq!(w.reloaded().durable(), w.durable());
    assert_eq!(w.reloaded().state(), "Stable");
}

#[test]
fn a_new_member_rebalances_and_the_old_ones_learn_it_from_heartbeats() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    let b = w.join(joining());
    assert_eq!(w.heartbeat(speaker(&a)), Err(Error::RebalanceInProgress));
    assert_eq!(w.commit(speaker(&a), "t", 5), None, "the old generation may still commit");
    let again = w.join(rejoining(&a));
    let (a2, b) = (w.joined(again), w.joined(b));
    assert_eq!((a2.generation, b.generation), (2, 2), "all are here: no need to wait");
    assert_eq!(w.heartbeat(speaker(&a)), Err(Error::IllegalGeneration));
    assert_eq!(
        w.commit(speaker(&a2), "t", 6),
        Some(Error::RebalanceInProgress),
        "joined, not synced"
    );
    let follower = w.sync(&b, &[]);
    w.sync(&a2, &[(&b.member, b"B")]);
    assert_eq!(w.assignment(follower), "B");
    assert_eq!(w.commit(speaker(&a2), "t", 7), None);
    assert_eq!(w.offset("t"), Some(7));
}

#[test]
fn a_follower_that_joins_again_unchanged_disturbs_nobody_and_a_leader_does() {
    let mut w = world();
    let members = w.stable(&[joining(), joining()]);
    let again = w.join(rejoining(&members[1]));
    assert_eq!(w.joined(again).generation, 1);
    assert_eq!(w.state(), "Stable");
    w.join(rejoining(&members[0]));
    assert_eq!(w.state(), "PreparingRebalance");
    // Cooperative members join a second time with what they own: changed metadata.
    let mut w = world();
    let members = w.stable(&[joining(), joining()]);
    w.join(Join { protocols: protocols(&[("range", b"owned")]), ..rejoining(&members[1]) });
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn a_new_client_must_come_back_with_the_id_it_is_given() {
    let mut w = world();
    let first = w.join(Join { needs_known_member_id: true, ..joining() });
    let refused = w.refused(first);
    assert_eq!(refused.error, Error::MemberIdRequired);
    let second = w.join(Join {
        member: Some(refused.member.clone()),
        needs_known_member_id: true,
        ..joining()
    });
    w.wait(3000);
    assert_eq!(w.joined(second).member, refused.member);

    let stranger = w.join(Join { member: Some("made-up".into()), ..joining() });
    assert_eq!(w.refused(stranger).error, Error::UnknownMemberId);
    let pending = w.join(Join { needs_known_member_id: true, ..joining() });
    let pending = w.refused(pending).member;
    w.wait(10_001);
    let late = w.join(Join { member: Some(pending), ..joining() });
    assert_eq!(w.refused(late).error, Error::UnknownMemberId, "the id was kept for one session");
}

#[test]
fn a_rebalance_waits_for_an_id_that_was_given_out() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    let pending = w.join(Join { needs_known_member_id: true, ..joining() });
    let pending = w.refused(pending).member;
    assert_eq!(w.state(), "Stable", "an id is not a member");
    let a = w.join(rejoining(&a));
    assert!(w.waits(a), "whoever got an id is about to join");
    let b = w.join(Join { member: Some(pending), ..joining() });
    assert_eq!(w.joined(a).generation, w.joined(b).generation);
}

#[test]
fn a_silent_member_is_removed_after_its_session() {
    let mut w = world();
    let members = w.stable(&[joining(), joining()]);
    w.wait(9_000);
    assert_eq!(w.heartbeat(speaker(&members[0])), Ok(()));
    w.wait(2_000);
    assert_eq!(w.heartbeat(speaker(&members[0])), Err(Error::RebalanceInProgress));
    assert_eq!(w.heartbeat(speaker(&members[1])), Err(Error::UnknownMemberId));
    let a = w.join(rejoining(&members[0]));
    assert_eq!(w.joined(a).members.len(), 1);
}

#[test]
fn a_member_that_joins_but_never_syncs_is_removed_after_the_rebalance_timeout() {
    let mut w = world();
    let (a, b) = (w.join(joining()), w.join(joining()));
    w.wait(6000);
    let (a, b) = (w.joined(a), w.joined(b));
    w.sync(&a, &[(&a.member, b"A"), (&b.member, b"B")]);
    for _ in 0..11 {
        w.wait(5_000);
        assert_eq!(w.heartbeat(speaker(&a)), Ok(()));
        assert_eq!(w.heartbeat(speaker(&b)), Ok(()), "it is alive, it only never syncs");
    }
    w.wait(5_001);
    assert_eq!(w.heartbeat(speaker(&b)), Err(Error::UnknownMemberId));
    assert_eq!(w.heartbeat(speaker(&a)), Err(Error::RebalanceInProgress));
}

#[test]
fn a_member_that_does_not_rejoin_in_time_is_left_behind() {
    let mut w = world();
    let members = w.stable(&[joining(), joining()]);
    let a = w.join(rejoining(&members[0]));
    for _ in 0..11 {
        w.wait(5_000);
        assert_eq!(w.heartbeat(speaker(&members[1])), Err(Error::RebalanceInProgress));
        assert!(w.waits(a));
    }
    w.wait(5_000);
    let a = w.joined(a);
    assert_eq!((a.generation, a.members.len()), (2, 1));
}

#[test]
fn the_last_member_to_leave_leaves_an_empty_group_with_its_offsets() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    assert_eq!(w.commit(speaker(&a), "t", 9), None);
    assert_eq!(w.leave(&a.member, None), Ok(()));
    assert_eq!(w.leave(&a.member, None), Err(Error::UnknownMemberId));
    assert_eq!(w.state(), "Empty");
    let reloaded = w.reloaded();
    assert_eq!((reloaded.state(), reloaded.offset("t")), ("Empty", Some(9)));
    assert_eq!(reloaded.durable(), w.durable());
    let b = w.join(joining());
    w.wait(3000);
    assert_eq!(w.joined(b).generation, 3);
}

#[test]
fn a_static_member_restarts_without_a_rebalance_and_the_old_id_is_fenced() {
    let mut w = world();
    let members = w.stable(&[is_static("x"), is_static("y")]);
    let again =
        w.join(Join { session_timeout: 20_000, can_skip_assignment: true, ..is_static("x") });
    let again = w.joined(again);
    assert_eq!((again.generation, w.state()), (1, "Stable"));
    assert!(again.skip_assignment, "it leads, and what was assigned stands");
    assert_eq!((&again.leader, again.members.len()), (&again.member, 2));
    assert_ne!(again.member, members[0].member);
    let old = Speaker { instance: Some("x"), ..speaker(&members[0]) };
    assert_eq!(w.heartbeat(old), Err(Error::FencedInstanceId));
    assert_eq!(w.heartbeat(Speaker { instance: None, ..old }), Err(Error::UnknownMemberId));
    assert_eq!(w.commit(old, "t", 1), Some(Error::FencedInstanceId));
    let sync = w.sync(&again, &[]);
    assert_eq!(w.assignment(sync), "0", "it goes on where it was");
    assert_eq!(w.reloaded().durable(), w.durable());
    w.wait(9_000);
    assert_eq!(w.heartbeat(Speaker { instance: Some("y"), ..speaker(&members[1]) }), Ok(()));
    w.wait(9_000);
    assert_eq!(
        w.heartbeat(Speaker { instance: Some("x"), ..speaker(&again) }),
        Ok(()),
        "the new timeout counts"
    );
    // Older clients are told the old leader, so that they do not assign.
    let older = w.join(is_static("x"));
    let older = w.joined(older);
    assert_eq!(
        (older.leader, older.members.len(), older.skip_assignment),
        (again.member, 0, false)
    );
}

#[test]
fn a_static_member_that_restarts_during_a_rebalance_takes_its_place_in_it() {
    let mut w = world();
    let members = w.stable(&[is_static("x"), is_static("y")]);
    let first = w.join(Join { member: Some(members[0].member.clone()), ..is_static("x") });
    assert_eq!(w.state(), "PreparingRebalance", "a leader that rejoins wants to assign");
    let second = w.join(is_static("x"));
    assert_eq!(
        w.refused(first),
        JoinRefused { error: Error::FencedInstanceId, member: members[0].member.clone() }
    );
    w.join(Join { member: Some(members[1].member.clone()), ..is_static("y") });
    let second = w.joined(second);
    assert_eq!((second.generation, second.members.len()), (2, 2));
    // And while the leader assigns: the new id is not in its hands, so it must do so again.
    w.join(is_static("y"));
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn a_static_member_whose_new_id_cannot_be_stored_keeps_the_old_one() {
    let mut w = world();
    let members = w.stable(&[is_static("x"), is_static("y")]);
    w.broken = Some(WriteError::Storage);
    let again = w.join(is_static("x"));
    assert_eq!(w.refused(again), JoinRefused { error: Error::NotCoordinator, member: "".into() });
    w.broken = None;
    assert_eq!(w.heartbeat(Speaker { instance: Some("x"), ..speaker(&members[0]) }), Ok(()));
    assert_eq!(w.state(), "Stable");
}

#[test]
fn a_static_member_survives_a_rebalance_that_it_misses_and_can_be_removed_by_its_name() {
    let mut w = world();
    let long = |join: Join| Join { session_timeout: 1_000_000, rebalance_timeout: 5_000, ..join };
    let members = w.stable(&[long(joining()), long(is_static("x"))]);
    let a = w.join(Join { rebalance_timeout: 5_000, ..rejoining(&members[0]) });
    w.wait(5_000);
    assert_eq!(w.joined(a).members.len(), 2, "it may be restarting");
    assert_eq!(w.leave("", Some("z")), Err(Error::UnknownMemberId));
    assert_eq!(w.leave("other", Some("x")), Err(Error::FencedInstanceId));
    assert_eq!(w.leave("", Some("x")), Ok(()));
    assert_eq!(w.shard.describe("g").unwrap().members.len(), 1);
}

/// Nobody rejoins a rebalance but, in the end, the static member of the two.
fn static_member_is_waited_for(rebalance_timeout: i32) {
    let mut w = world();
    let member = Join { session_timeout: 100_000, rebalance_timeout, ..is_static("x") };
    w.stable(&[member.clone(), Join { session_timeout: 100_000, ..joining() }]);
    let other = w.shard.describe("g").unwrap().members;
    let dynamic = other.iter().find(|m| m.instance.is_none()).unwrap();
    assert_eq!(w.leave(&dynamic.id, None), Ok(()));
    w.wait(20_000);
    assert_eq!(w.state(), "PreparingRebalance");
    let again = w.join(member);
    assert_eq!(w.joined(again).generation, 2);
}

#[test]
fn if_nobody_rejoins_static_members_are_waited_for() {
    static_member_is_waited_for(5_000);
}

/// A fuzzer found the coordinator busy for ever: the wait was due again as soon as it began.
#[test]
fn a_static_member_that_gives_a_rebalance_no_time_is_waited_for_all_the_same() {
    static_member_is_waited_for(0);
}

#[test]
fn the_protocol_with_the_most_first_votes_that_all_support_is_chosen() {
    let mut w = world();
    let with = |list: &[&str]| Join {
        protocols: protocols(&list.iter().map(|&name| (name, b"m" as &[u8])).collect::<Vec<_>>()),
        ..joining()
    };
    let a = w.join(with(&["roundrobin", "range", "sticky"]));
    w.join(with(&["range", "roundrobin"]));
    w.join(with(&["sticky", "range", "roundrobin"]));
    w.wait(9_000);
    let a = w.joined(a);
    assert_eq!(a.protocol.as_deref(), Some("range"));
    assert_eq!(a.members[0].metadata, "m");
    let stranger = w.join(with(&["sticky"]));
    assert_eq!(w.refused(stranger).error, Error::InconsistentGroupProtocol);
    let other_type = w.join(Join { protocol_type: "connect".into(), ..joining() });
    assert_eq!(w.refused(other_type).error, Error::InconsistentGroupProtocol);
    let nothing = w.join(Join { group: "h".into(), ..with(&[]) });
    assert_eq!(w.refused(nothing).error, Error::InconsistentGroupProtocol);
}

#[test]
fn a_session_timeout_out_of_bounds_and_a_full_group_are_refused() {
    let mut w = world_with(GroupConfig { max_size: 2, ..GroupConfig::default() });
    for session_timeout in [5_999, 1_800_001, -1] {
        let refused = w.join(Join { session_timeout, ..joining() });
        assert_eq!(w.refused(refused).error, Error::InvalidSessionTimeout);
    }
    let members = w.stable(&[joining(), joining()]);
    let third = w.join(joining());
    assert_eq!(
        w.refused(third),
        JoinRefused { error: Error::GroupMaxSizeReached, member: "".into() }
    );
    let again = w.join(rejoining(&members[1]));
    assert_eq!(w.joined(again).generation, 1, "whoever is in stays in");
}

#[test]
fn an_assignment_that_cannot_be_stored_reaches_nobody() {
    let mut w = world();
    let (a, b) = (w.join(joining()), w.join(joining()));
    w.wait(6000);
    let (a, b) = (w.joined(a), w.joined(b));
    let follower = w.sync(&b, &[]);
    w.broken = Some(WriteError::NotEnoughReplicas);
    let leader = w.sync(&a, &[(&a.member, b"A")]);
    assert_eq!(w.synced(leader), Err(Error::CoordinatorNotAvailable));
    assert_eq!(w.synced(follower), Err(Error::CoordinatorNotAvailable));
    assert_eq!(w.state(), "PreparingRebalance");
}

#[test]
fn nothing_is_answered_before_it_is_committed() {
    let mut w = world();
    let a = w.join(joining());
    w.wait(3000);
    let a = w.joined(a);
    w.lagging = true;
    let sync = w.sync(&a, &[(&a.member, b"A")]);
    let retry = w.sync(&a, &[(&a.member, b"other")]);
    assert_eq!(w.synced(sync), Err(Error::RebalanceInProgress), "the same member asks anew");
    assert!(w.waits(retry));
    assert_eq!(w.state(), "CompletingRebalance");
    w.catch_up();
    assert_eq!(w.assignment(retry), "A", "what was stored counts");
    let commit = w.commit_to("g", speaker(&a), "t", 3);
    assert!(w.waits(commit));
    assert_eq!(w.offset("t"), None);
    assert_eq!(w.shard.offsets("g", true).get("t", 0, None), FetchedOffset::Unstable);
    w.wait(5_000);
    assert_eq!(w.answers[&commit], Answer::Commit(vec![Some(Error::CoordinatorNotAvailable)]));
    w.catch_up();
    assert_eq!(w.offset("t"), Some(3), "committed late, as a restart would find it");
    assert_eq!(w.reloaded().offset("t"), Some(3));
}

#[test]
fn a_rebalance_during_the_write_of_an_assignment_makes_it_void() {
    let mut w = world();
    let a = w.join(joining());
    w.wait(3000);
    let a = w.joined(a);
    w.lagging = true;
    let sync = w.sync(&a, &[(&a.member, b"A")]);
    let b = w.join(joining());
    assert_eq!(w.synced(sync), Err(Error::RebalanceInProgress));
    w.lagging = false;
    w.catch_up();
    assert_eq!(w.state(), "PreparingRebalance");
    w.join(rejoining(&a));
    assert_eq!(w.joined(b).generation, 2);
}

#[test]
fn sync_with_another_protocol_than_the_chosen_is_refused() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    let mut ask = |protocol_type, protocol| {
        let ticket = w.ticket();
        let (member, generation) = (&*a.member, a.generation);
        let assignments = Vec::new();
        let sync = Sync {
            group: "g",
            generation,
            member,
            instance: None,
            protocol_type,
            protocol,
            assignments,
        };
        let mut actions = Vec::new();
        w.shard.sync(w.now, ticket, sync, &mut actions);
        w.settle(actions);
        w.synced(ticket).map(|s| s.assignment)
    };
    assert_eq!(ask(Some("consumer"), Some("range")), Ok(Bytes::from_static(b"0")));
    assert_eq!(ask(Some("connect"), Some("range")), Err(Error::InconsistentGroupProtocol));
    assert_eq!(ask(Some("consumer"), Some("sticky")), Err(Error::InconsistentGroupProtocol));
}

#[test]
fn who_may_commit() {
    let mut w = world();
    let nobody = Speaker { member: "", instance: None, generation: -1 };
    assert_eq!(
        w.commit(Speaker { generation: 3, ..nobody }, "t", 1),
        Some(Error::IllegalGeneration),
        "no such group"
    );
    assert_eq!(w.commit(nobody, "t", 1), None, "a consumer without group management");
    assert_eq!(w.commit(Speaker { instance: Some("x"), ..nobody }, "t", 2), None, "KAFKA-14201");
    assert_eq!(w.commit(Speaker { generation: 0, ..nobody }, "t", 2), Some(Error::UnknownMemberId));
    let a = w.stable(&[joining()]).remove(0);
    assert_eq!(
        w.commit(nobody, "t", 3),
        Some(Error::UnknownMemberId),
        "only members of a group that has some"
    );
    assert_eq!(
        w.commit(Speaker { generation: 7, ..speaker(&a) }, "t", 3),
        Some(Error::IllegalGeneration)
    );
    assert_eq!(
        w.commit(Speaker { instance: Some("x"), ..speaker(&a) }, "t", 3),
        Some(Error::UnknownMemberId)
    );
    assert_eq!(w.commit(speaker(&a), "t", 3), None);
    assert_eq!(w.offset("t"), Some(3));
    assert_eq!(w.reloaded().durable(), w.durable());
}

#[test]
fn metadata_is_limited_in_utf16_units_and_one_bad_offset_spares_the_others() {
    let mut w = world();
    let offset = |topic: &str, metadata: String| OffsetToCommit {
        topic: topic.into(),
        partition: 0,
        topic_id: None,
        offset: 1,
        leader_epoch: Some(2),
        metadata: metadata.into(),
        commit_timestamp: None,
    };
    let offsets = vec![
        offset("a", "é".repeat(4096)),
        offset("b", "😀".repeat(2049)),
        offset("c", String::new()),
    ];
    let speaker = Speaker { generation: -1, ..Speaker::default() };
    let mut actions = Vec::new();
    w.shard.commit(
        w.now,
        Ticket(1),
        Commit { group: "g", speaker, retention: None, offsets },
        &mut actions,
    );
    w.settle(actions);
    assert_eq!(
        w.answers[&Ticket(1)],
        Answer::Commit(vec![None, Some(Error::OffsetMetadataTooLarge), None])
    );
    assert_eq!((w.offset("a"), w.offset("b"), w.offset("c")), (Some(1), None, Some(1)));
}

#[test]
fn an_offset_for_another_incarnation_of_the_topic_is_no_offset() {
    let mut w = world();
    let offset = OffsetToCommit {
        topic: "t".into(),
        partition: 0,
        topic_id: Some(TopicId([1; 16])),
        offset: 7,
        leader_epoch: None,
        metadata: "".into(),
        commit_timestamp: None,
    };
    let speaker = Speaker { generation: -1, ..Speaker::default() };
    let mut actions = Vec::new();
    let commit = Commit { group: "g", speaker, retention: None, offsets: vec![offset] };
    w.shard.commit(w.now, Ticket(1), commit, &mut actions);
    w.settle(actions);
    for w in [&w, &w.reloaded()] {
        let get = |id| w.shard.offsets("g", true).get("t", 0, id);
        assert!(matches!(get(Some(TopicId([1; 16]))), FetchedOffset::Committed(_)));
        assert_eq!(get(Some(TopicId([2; 16]))), FetchedOffset::None);
        assert!(matches!(get(None), FetchedOffset::Committed(_)), "older clients do not say");
    }
}

fn delete(w: &mut World, groups: &[&str]) -> Ticket {
    let ticket = w.ticket();
    let mut actions = Vec::new();
    w.shard.delete_groups(w.now, ticket, groups, &mut actions);
    w.settle(actions);
    ticket
}

#[test]
fn only_an_empty_group_can_be_deleted_and_then_nothing_is_left_of_it() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    w.commit(speaker(&a), "t", 1);
    let refused = delete(&mut w, &["g", "unknown"]);
    let errors = vec![Some(Error::NonEmptyGroup), Some(Error::GroupIdNotFound)];
    assert_eq!(w.answers[&refused], Answer::DeleteGroups(errors));
    w.leave(&a.member, None).unwrap();
    w.lagging = true;
    let deleted = delete(&mut w, &["g"]);
    assert!(w.waits(deleted));
    let meanwhile = w.join(joining());
    assert_eq!(w.refused(meanwhile).error, Error::CoordinatorNotAvailable);
    w.lagging = false;
    w.catch_up();
    assert_eq!(w.answers[&deleted], Answer::DeleteGroups(vec![None]));
    assert_eq!((w.state(), w.offset("t"), w.shard.list().count()), ("Dead", None, 0));
    assert_eq!(w.reloaded().shard.list().count(), 0);
    assert!(w.log.iter().rev().take(2).all(|(_, _, value)| value.is_none()), "two tombstones");
}

#[test]
fn a_deletion_that_cannot_be_written_leaves_the_group_alive() {
    let mut w = world();
    w.commit(Speaker { generation: -1, ..Speaker::default() }, "t", 1);
    w.broken = Some(WriteError::Storage);
    let failed = delete(&mut w, &["g"]);
    assert_eq!(w.answers[&failed], Answer::DeleteGroups(vec![Some(Error::NotCoordinator)]));
    w.broken = None;
    assert_eq!((w.state(), w.offset("t")), ("Empty", Some(1)));
    let done = delete(&mut w, &["g"]);
    assert_eq!(w.answers[&done], Answer::DeleteGroups(vec![None]));
    assert_eq!(w.state(), "Dead");
}

#[test]
fn deleting_a_topic_deletes_its_offsets_those_being_written_too() {
    let mut w = world();
    let nobody = Speaker { generation: -1, ..Speaker::default() };
    w.commit(nobody, "t", 1000);
    w.commit(nobody, "kept", 5);
    w.commit_to("only-t", nobody, "t", 1);
    w.lagging = true;
    let late = w.commit_to("g", nobody, "t", 1001);
    let mut actions = Vec::new();
    w.shard.topics_deleted(w.now, &["t".into()], &mut actions);
    w.lagging = false;
    w.settle(actions);
    assert_eq!(w.answers[&late], Answer::Commit(vec![None]));
    assert_eq!((w.offset("t"), w.offset("kept")), (None, Some(5)));
    assert_eq!(w.shard.list().count(), 1, "a group that stored nothing else is gone");
    assert_eq!(w.reloaded().durable(), w.durable());
}

#[test]
fn an_empty_group_without_offsets_lasts_until_somebody_cleans_up() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    w.leave(&a.member, None).unwrap();
    let mut actions = Vec::new();
    w.shard.topics_deleted(w.now, &[], &mut actions);
    w.settle(actions);
    assert_eq!((w.state(), w.reloaded().state()), ("Empty", "Empty"));
    w.wait(600_000);
    assert_eq!((w.state(), w.reloaded().state()), ("Dead", "Dead"));
}

#[test]
fn offsets_of_a_topic_that_members_read_cannot_be_deleted() {
    let mut w = world();
    let a = w.stable(&[joining()]).remove(0);
    w.commit(speaker(&a), "t", 1);
    w.commit(speaker(&a), "u", 2);
    let ask = |w: &mut World, group: &str| {
        let ticket = w.ticket();
        let mut actions = Vec::new();
        w.shard.delete_offsets(
            w.now,
            ticket,
            group,
            &[("t".into(), 0), ("u".into(), 0)],
            &mut actions,
        );
        w.settle(actions);
        w.answers[&ticket].clone()
    };
    let subscribed = Some(Error::GroupSubscribedToTopic);
    assert_eq!(ask(&mut w, "g"), Answer::OffsetDelete(Ok(vec![subscribed, None])));
    assert_eq!((w.offset("t"), w.offset("u")), (Some(1), None));
    assert_eq!(ask(&mut w, "unknown"), Answer::OffsetDelete(Err(Error::GroupIdNotFound)));
    w.leave(&a.member, None).unwrap();
    assert_eq!(ask(&mut w, "g"), Answer::OffsetDelete(Ok(vec![None, None])));
    assert_eq!(w.state(), "Dead", "empty, and without offsets");
    w.stable(&[Join { protocol_type: "connect".into(), ..joining() }]);
    assert_eq!(ask(&mut w, "g"), Answer::OffsetDelete(Err(Error::NonEmptyGroup)));
}

const DAY: u64 = 24 * 60 * 60 * 1000;

#[test]
fn offsets_of_a_simple_group_expire_a_week_after_the_commit() {
    let mut w = world();
    w.commit(Speaker { generation: -1, ..Speaker::default() }, "t", 1);
    w.wait(6 * DAY);
    assert_eq!(w.offset("t"), Some(1));
    w.wait(DAY + 600_000);
    assert_eq!((w.offset("t"), w.state()), (None, "Dead"));
    assert_eq!(w.reloaded().shard.list().count(), 0);
}

#[test]
fn offsets_of_a_group_expire_a_week_after_its_last_member_left() {
    let mut w = world();
    let a = w.stable(&[Join { session_timeout: 1_800_000, ..joining() }]).remove(0);
    w.commit(speaker(&a), "t", 1);
    w.commit(speaker(&a), "unsubscribed", 1);
    let beat = |w: &mut World| {
        w.wait(1_000_000);
        assert_eq!(w.heartbeat(speaker(&a)), Ok(()));
    };
    (0..8 * DAY / 1_000_000).for_each(|_| beat(&mut w));
    assert_eq!(
        (w.offset("t"), w.offset("unsubscribed")),
        (Some(1), None),
        "what a member reads is kept"
    );
    w.leave(&a.member, None).unwrap();
    w.wait(6 * DAY);
    assert_eq!(w.offset("t"), Some(1));
    assert_eq!(w.reloaded().offset("t"), Some(1));
    w.wait(2 * DAY);
    assert_eq!(w.state(), "Dead");
    assert!(
        w.log.last().is_some_and(|(_, key, value)| key[1] == 2 && value.is_none()),
        "a tombstone of the group"
    );
}

#[test]
fn the_clients_own_retention_goes_before_the_brokers() {
    let mut w = world();
    let offset = OffsetToCommit {
        topic: "t".into(),
        partition: 0,
        topic_id: None,
        offset: 1,
        leader_epoch: None,
        metadata: "".into(),
        commit_timestamp: None,
    };
    let speaker = Speaker { generation: -1, ..Speaker::default() };
    let mut actions = Vec::new();
    let commit = Commit { group: "g", speaker, retention: Some(1000), offsets: vec![offset] };
    w.shard.commit(w.now, Ticket(1), commit, &mut actions);
    w.settle(actions);
    assert_eq!(w.log[0].2.as_ref().unwrap()[..2], [0, 1], "version 1 keeps the time");
    w.wait(600_000);
    assert_eq!(w.offset("t"), None);
}

#[test]
fn a_transactions_offsets_count_when_it_commits_unless_newer_ones_came() {
    let mut shard = GroupShard::new(GroupConfig::default());
    let load =
        |shard: &mut GroupShard, base: i64, transaction: Option<i64>, topic: &str, offset: i64| {
            let value = CommittedOffset {
                offset,
                leader_epoch: None,
                metadata: None,
                commit_timestamp: Timestamp(0),
                expire_timestamp: None,
                topic_id: None,
                appended_at: Offset(0),
            };
            let record = Record::Offset {
                group: "g".into(),
                topic: topic.into(),
                partition: 0,
                value: Some(value),
            };
            let origin =
                Origin { base_offset: Offset(base), transaction: transaction.map(ProducerId) };
            shard.load(origin, &record.encode_key(), record.encode_value().as_deref()).unwrap();
        };
    load(&mut shard, 0, Some(1), "t", 10);
    load(&mut shard, 1, Some(2), "u", 20);
    load(&mut shard, 2, Some(3), "v", 30);
    load(&mut shard, 3, Some(1), "w", 40);
    load(&mut shard, 4, None, "w", 41);
    shard.load_marker(ProducerId(1), true);
    shard.load_marker(ProducerId(2), false);
    shard.loaded(Now::default(), &mut Vec::new());
    let offsets = shard.offsets("g", true);
    let get = |topic| match offsets.get(topic, 0, None) {
        FetchedOffset::Committed(o) => o.offset,
        FetchedOffset::None => -1,
        FetchedOffset::Unstable => -2,
    };
    assert_eq!(["t", "u", "v", "w"].map(get), [10, -1, -2, 41]);
}

#[test]
fn a_loaded_group_goes_on_and_its_members_have_one_session_to_be_heard() {
    let mut w = world();
    let members = w.stable(&[joining(), joining()]);
    let mut w = w.reloaded();
    w.now.instant = w.now.instant + Duration::from_secs(8);
    assert_eq!(w.heartbeat(speaker(&members[0])), Ok(()));
    let sync = w.sync(&members[1], &[]);
    assert_eq!(w.assignment(sync), "1");
    w.wait(9_000);
    assert_eq!(w.heartbeat(speaker(&members[0])), Ok(()));
    w.wait(2_000);
    assert_eq!(w.heartbeat(speaker(&members[1])), Err(Error::UnknownMemberId));
}

#[test]
fn whoever_waits_is_told_when_the_coordinator_moves() {
    let mut w = world();
    let a = w.join(joining());
    w.lagging = true;
    let commit = w.commit_to("h", Speaker { generation: -1, ..Speaker::default() }, "t", 1);
    let mut actions = Vec::new();
    w.shard.unload(w.now, &mut actions);
    w.settle(actions);
    assert_eq!(w.refused(a).error, Error::NotCoordinator);
    assert_eq!(w.answers[&commit], Answer::Commit(vec![Some(Error::NotCoordinator)]));
}

/// Random clients, failing and late writes: after every step each ticket is answered at most once (`settle` asserts
/// it), the log rebuilds what memory holds, and in the end nobody is left waiting.
#[test]
fn the_log_rebuilds_memory_whatever_clients_do() {
    for seed in 0..60u64 {
        let mut w = world();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut waiting = Vec::new();
        for _ in 0..150 {
            let known = w.answers.values().filter_map(|a| match a {
                Answer::Join(Ok(joined)) => Some(joined.clone()),
                _ => None,
            });
            let known = known.collect::<Vec<_>>();
            let member = if known.is_empty() {
                None
            } else {
                known.get(roll(known.len() as u64) as usize).cloned()
            };
            match (roll(12), member) {
                (0, _) => waiting.push(w.join(joining())),
                (1, _) => waiting.push(w.join(is_static(["x", "y"][roll(2) as usize]))),
                (2 | 3, Some(m)) => waiting.push(w.join(rejoining(&m))),
                (4 | 5, Some(m)) => waiting.push(w.sync(&m, &[(&m.member, b"mine")])),
                (6, Some(m)) => _ = w.heartbeat(speaker(&m)),
                (7, Some(m)) => _ = w.leave(&m.member, None),
                (8, Some(m)) => _ = w.commit_to("g", speaker(&m), "t", roll(100) as i64),
                (9, _) => w.broken = (roll(3) == 0).then_some(WriteError::Storage),
                (10, _) => _ = delete(&mut w, &["g", "h"]),
                _ => {
                    let speaker = Speaker { generation: -1, ..Speaker::default() };
                    w.commit_to("h", speaker, ["t", "u"][roll(2) as usize], 1);
                    w.wait(roll(20_000));
                }
            }
            if seed % 2 == 0 {
                w.broken = None;
                let (memory, log) = (w.durable(), w.reloaded().durable());
                assert!(
                    memory.iter().all(|g| log.contains(g)),
                    "seed {seed}: {memory:#?} against {log:#?}"
                );
            }
        }
        w.broken = None;
        w.wait(2_000_000);
        assert!(waiting.iter().all(|&t| !w.waits(t)), "seed {seed}: somebody waits for ever");
        delete(&mut w, &["h"]);
        assert!(["Dead", "Empty"].contains(&w.state()), "seed {seed}: everybody is silent");
    }
}
