"""What the store does to brokers, and brokers to each other through it: sessions that end, answers that are lost, servers
that are behind, junk in nodes, controllers that die between two writes. Rows of docs/faults.md. Run by `run`."""
import contextlib, dataclasses, itertools, json, os, random, re, shutil, signal, struct, subprocess, tempfile, threading, time, typing
from cluster import *

NOT_LEADER, STALE_CONTROLLER_EPOCH, TOPIC_ALREADY_EXISTS, STALE_BROKER_EPOCH, ELECTION_NOT_NEEDED = 6, 11, 36, 77, 84


@contextlib.contextmanager
def tapped(start, *settings, ids=(1, 2, 3), ensemble=None, count=3):
    """A cluster of which the brokers `ids` reach ZooKeeper through taps only, each its own server; and the taps."""
    cluster = start(*settings, start=False, count=count, **({"ensemble": ensemble} if ensemble else {}))
    ports = cluster.ensemble.ports
    taps = {id: Tap(ports[id % len(ports)]) for id in ids}
    for id, tap in taps.items():
        at = f"zookeeper.connect=127.0.0.1:{tap.port}{cluster.root}"
        cluster[id].settings = [at if s.startswith("zookeeper.connect=") else s for s in cluster[id].settings]
    try:
        cluster.start()
        yield cluster, taps
    finally:
        for tap in taps.values():
            tap.close()


def registered(cluster, id):
    """The session of its registration; 0 if there is none."""
    found = cluster.nodes.get(f"/brokers/ids/{id}")
    return found[1] if found else 0


def nobody_left_anything(cluster):
    """Every ephemeral node belongs to the session of a registered broker."""
    def looks():
        sessions = {registered(cluster, id) for id in cluster.brokers}
        owners = {path: cluster.nodes.get(path) for path, (_, ephemeral, _) in cluster.nodes.all().items() if ephemeral}
        return not [path for path, found in owners.items() if found and found[1] not in sessions]
    wait_for(looks, "ephemeral nodes of ended sessions to be gone")


def registrations(broker):
    return sum("broker_epoch" in line and " registered " in line for line in plain(broker).splitlines())


def plain(broker):
    """What it has logged, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", broker.text())


def claims(cluster):
    return sum(b.text().count("elected controller") for b in cluster.brokers.values())


# Sessions -----------------------------------------------------------------------------------------------

@test
def a_session_that_the_store_ended_is_replaced_and_its_controller_is_no_longer_one(start):
    with tapped(start) as (cluster, taps):
        create_assigned(cluster.controller(), "t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        for partition in range(3):
            cluster.wait_in_sync("t", partition=partition)
        loads = [Load(cluster, "t", partition=partition) for partition in range(3)]
        with contextlib.ExitStack() as running:
            for load in loads:
                running.enter_context(load)
            controller = cluster.controller()
            follower = next(b for b in cluster.up() if b is not controller)
            for victim, changes in ((follower, 0), (controller, 1)):
                epoch, before = cluster.nodes.controller_epoch(), registered(cluster, victim.id)
                taps[victim.id].end_session()
                wait_for(lambda: registered(cluster, victim.id) not in (0, before), "the broker to register with another session")
                cluster.controller()
                assert cluster.nodes.controller_epoch() == epoch + changes, f"epoch {epoch} became {cluster.nodes.controller_epoch()}"
                for partition in range(3):
                    cluster.wait_in_sync("t", partition=partition)
                    loads[partition].wait_for_more()
                nobody_left_anything(cluster)
        count = sum(load.nothing_is_missing() for load in loads)
        for partition in range(3):
            cluster.batches_are_equal("t", partition)
        return f"{count} records, longest gap {max(load.longest_gap() for load in loads):.1f} s"


@test
def when_all_sessions_end_at_once_one_controller_is_elected_for_each_epoch(start):
    with tapped(start) as (cluster, taps):
        cluster.create("t", 3)
        for _ in range(3):
            cluster.controller()
            before = {id: registered(cluster, id) for id in cluster.brokers}
            ends = [threading.Thread(target=tap.end_session) for tap in taps.values()]
            for end in ends:
                end.start()
            for end in ends:
                end.join()
            wait_for(lambda: all(registered(cluster, id) not in (0, session) for id, session in before.items()), "all to register with other sessions")
            cluster.controller()
            nobody_left_anything(cluster)
        for partition in range(3):
            cluster.wait_in_sync("t", partition=partition)
        cluster.must_send("t", [b"x"])
        # An epoch that rises without an election was raised by somebody who lost, or in a step of its own.
        assert claims(cluster) == cluster.nodes.controller_epoch(), f"{claims(cluster)} brokers say that they were elected, and the epoch is {cluster.nodes.controller_epoch()}: it rises with each election, and with nothing else"
        return f"epoch {cluster.nodes.controller_epoch()} after all sessions ended three times"


@test
def a_leader_cut_from_zookeeper_alone_changes_no_isr_and_is_replaced_once(start):
    """Its clients and followers reach it all the time."""
    cluster = start(start=False)
    door = Door(cluster.ensemble.ports[0])
    try:
        cluster[3].settings = [f"zookeeper.connect=127.0.0.1:{door.port}{cluster.root}" if s.startswith("zookeeper.connect=") else s for s in cluster[3].settings]
        cluster[1].start(), cluster[2].start()
        cluster.start()
        create_assigned(cluster.controller(), "t", [3, 1, 2])
        cluster.wait_in_sync("t")
        others = [cluster[1], cluster[2]]

        def version():
            return cluster.nodes.all("/brokers/topics/t/partitions/0")["/brokers/topics/t/partitions/0/state"][2]
        before = version()
        with Load(cluster, "t") as load:
            begin = time.monotonic()
            door.shut()
            # The first of its followers to hear of the next leader fetches no more from it: its lease ends then.
            wait_for(lambda: all(cluster.view("t", 0, b)["leader"] in (1, 2) for b in others), "another leader")
            wait_for(lambda: cluster.send("t", [b"-1"], acks=1, leader=cluster[3])[0] == NOT_LEADER, "the old leader to say that it is none")
            took = time.monotonic() - begin
            state = cluster.nodes.json("/brokers/topics/t/partitions/0/state")
            assert set(state["isr"]) == {1, 2} and state["leader_epoch"] == 1 and version() == before + 1, f"{state}, version {before} became {version()}"
            load.wait_for_more()
            door.unlock()
            cluster.wait_in_sync("t")
            load.wait_for_more()
        # Taken out with its session, its leadership with it; back in the ISR. Nothing tried in vain again and again.
        assert version() <= before + 4, f"version {before} became {version()}"
        count = load.nothing_is_missing()
        cluster.batches_are_equal("t")
        return f"{count} records; no longer leader after {took:.1f} s, longest gap {load.longest_gap():.1f} s, session {SESSION_MS / 1000:.0f} s"
    finally:
        door.close()


# Late and lost ------------------------------------------------------------------------------------------

@test
def a_write_that_a_replaced_controller_had_sent_comes_too_late(start):
    """It is on its way when its sender's node goes and another is elected; then it arrives, in a session that lives."""
    with tapped(start, "zookeeper.session.timeout.ms=20000") as (cluster, taps):
        cluster.create("t", 1)
        old, epoch = cluster.controller(), cluster.nodes.controller_epoch()
        tap = taps[old.id]
        tap.hold_next_write()
        asking = threading.Thread(target=lambda: create_many(old, ["late"], check=False), daemon=True)
        asking.start()
        assert tap.reached.wait(PATIENCE), "the controller writes nothing"
        assert cluster.nodes.delete("/controller")
        wait_for(lambda: cluster.nodes.controller() not in (None, old.id), "another controller")
        new = cluster[cluster.nodes.controller()]
        create_many(new, ["by-the-next"], replicas=2)
        tap.release()
        assert cluster.controller() is new
        assert cluster.nodes.controller_epoch() == epoch + 1
        asking.join(PATIENCE)
        assert set(cluster.nodes.children("/brokers/topics")) == {"t", "by-the-next"}, "an old controller created a topic"
        nobody_left_anything(cluster)
        cluster.create("late", 1)
        cluster.must_send("late", [b"x"])


def leader_and_isr(controller, epoch, broker_epoch, topic, leader, leader_epoch, isr):
    state = i32(0) + i32(epoch) + i32(leader) + i32(leader_epoch) + i32(len(isr)) + b"".join(map(i32, isr)) + i32(1000) + i32(len(isr)) + b"".join(map(i32, isr)) + b"\0"
    return request(4, 2, i32(controller) + i32(epoch) + struct.pack(">q", broker_epoch) + i32(1) + text(topic) + i32(1) + state + i32(0))


def stop_replica(controller, epoch, broker_epoch, topic):
    return request(5, 1, i32(controller) + i32(epoch) + struct.pack(">q", broker_epoch) + b"\1" + i32(1) + text(topic) + i32(1) + i32(0))


def update_metadata(controller, epoch, broker_epoch, topic, leader, leader_epoch, isr):
    state = i32(0) + i32(epoch) + i32(leader) + i32(leader_epoch) + i32(len(isr)) + b"".join(map(i32, isr)) + i32(1000) + i32(len(isr)) + b"".join(map(i32, isr)) + i32(0)
    return request(6, 5, i32(controller) + i32(epoch) + struct.pack(">q", broker_epoch) + i32(1) + text(topic) + i32(1) + state + i32(0))


@test
def what_an_old_controller_says_late_is_refused(start):
    """Also what the present one says to an earlier registration of a broker."""
    cluster = start()
    cluster.create("t", 1)
    old = cluster.controller()
    old_epoch = cluster.nodes.controller_epoch()
    old.stop(), old.start()
    new = cluster.controller()
    epoch = cluster.nodes.controller_epoch()
    assert epoch == old_epoch + 1
    before = cluster.wait_in_sync("t")
    cluster.must_send("t", [b"x"])

    def say(broker, epoch, broker_epoch, controller):
        usurper, leader_epoch = broker.id, before["epoch"] + 10
        return [broker.ask(data).take("h") for data in (
            leader_and_isr(controller, epoch, broker_epoch, "t", usurper, leader_epoch, [usurper]),
            update_metadata(controller, epoch, broker_epoch, "t", usurper, leader_epoch, [usurper]),
            stop_replica(controller, epoch, broker_epoch, "t"))]
    for broker in cluster.brokers.values():
        errors = say(broker, old_epoch, -1, old.id)
        assert errors == [STALE_CONTROLLER_EPOCH] * 3, f"broker {broker.id} answers {errors}"
    restarted = next(b for b in cluster.up() if b is not new)
    restarted.kill(), restarted.start()
    cluster.wait_in_sync("t")
    before = cluster.view("t")
    errors = say(restarted, epoch, 1, new.id)
    assert errors == [STALE_BROKER_EPOCH] * 3, f"what is meant for its last life it answers with {errors}"
    for broker in cluster.brokers.values():
        assert cluster.view("t", 0, broker) == before, f"broker {broker.id} sees {cluster.view('t', 0, broker)}, before {before}"
        assert (broker.data / "t-0").is_dir(), f"broker {broker.id} deleted its replica"
    cluster.must_send("t", [b"y"])
    cluster.replicas_are_equal("t")


@test
def a_write_whose_answer_is_lost_is_recognised_as_ones_own(start):
    """The connection goes when ZooKeeper has made the change: at registration, at election, and in each write of operations."""
    with tapped(start, "zookeeper.session.timeout.ms=10000") as (cluster, taps):
        # Registration: the other brokers see it once.
        follower = next(b for b in cluster.up() if b is not cluster.controller())
        tap, before, said, made, own = taps[follower.id], registered(cluster, follower.id), registrations(follower), [], f"/brokers/ids/{follower.id}"

        def lose_the_answer():
            made.append(cluster.nodes.created(own))
            tap.cut()
        tap.when_made(1, lose_the_answer)
        tap.end_session()
        assert tap.reached.wait(PATIENCE), "it does not register"
        wait_for(lambda: registrations(follower) > said, f"broker {follower.id} to know for its own the registration that it made, though the answer was lost; it says {follower.tail(3)}", 9)
        assert made[0] and cluster.nodes.created(own) == made[0], f"broker {follower.id} registered twice: change {made[0]} made {own}, and its answer was lost; now it is there since {cluster.nodes.created(own)}"
        assert registered(cluster, follower.id) != before
        cluster.controller()
        assert cluster.nodes.controller_epoch() == 1
        # Election: whoever wins does not take its own node for another's, and wait for a session that does not end.
        for tap in taps.values():
            tap.when_made(1, tap.cut)
        begin = time.monotonic()
        # An answer that is lost may make it stand down and be elected again.
        assert cluster.nodes.delete("/controller")
        wait_for(lambda: any(tap.reached.is_set() for tap in taps.values()), "somebody to stand for election")
        wait_for(lambda: cluster.nodes.controller() is not None, "a controller")
        for tap in taps.values():
            tap.forget()

        def acts():
            holder = cluster.nodes.controller()
            return holder is not None and all(b.metadata()["controller"] == holder for b in cluster.up())
        wait_for(acts, "whoever made /controller to act as controller: the answer to its election was lost, does it take its own node for another's?", 9)
        took = time.monotonic() - begin
        # Operations: what clients are told may be that it is not known; what is there is whole, and there once.
        wait_for(lambda: create_many(cluster.controller(), ["moves"], replicas=2, check=False) in (0, TOPIC_ALREADY_EXISTS), "a topic")
        lost, targets = 0, [[1, 2], [2, 3], [3, 1]]
        for n in (1, 2, 3):
            for name, act in ((f"created{n}", lambda c: create_many(c, [f"created{n}"], partitions=2, check=False)),
                              ("moves", lambda c: reassign(c, "moves", 0, targets[n % 3]))):
                controller = cluster.controller()
                tap = taps[controller.id]
                tap.when_made(n, tap.cut)
                asking = threading.Thread(target=quietly(act), args=(controller,), daemon=True)
                asking.start()
                asking.join(PATIENCE)
                lost += tap.reached.is_set()
                tap.forget()
                wait_for(lambda: len(cluster.nodes.children("/brokers/ids")) == 3, "all to be registered")
                cluster.controller()
                if name.startswith("created"):
                    wait_for(lambda: create_many(cluster.controller(), [name], partitions=2, check=False) in (0, TOPIC_ALREADY_EXISTS), f"{name} to be there")
                else:
                    # It was begun: whoever is not sure of what it wrote reads everything again, and goes on from there.
                    settled(cluster, "moves", wanted=targets[n % 3])
                for partition in range(2 if name.startswith("created") else 1):
                    cluster.must_send(name, [b"x"], partition=partition)
        nobody_left_anything(cluster)
        assert lost >= 3, f"only {lost} answers were lost"
        return f"a controller {took:.1f} s after the answer to its election was lost; {lost} answers to operations lost"


def quietly(act):
    """Whatever comes of it: the broker that is asked may be gone."""
    def calm(*arguments):
        try:
            act(*arguments)
        except (OSError, AssertionError, struct.error, IndexError, subprocess.SubprocessError):
            pass
    return calm


def settled(cluster, topic, away=(), wanted=None):
    """Its reassignment is over: replicas, ISR and directories are the same brokers, but for those that were away when it
    ended: what they had stays, as with Kafka."""
    def over():
        node = cluster.nodes.json(f"/brokers/topics/{topic}")
        state = cluster.nodes.json(f"/brokers/topics/{topic}/partitions/0/state")
        replicas = node["partitions"]["0"]
        have = {b.id for b in cluster.brokers.values() if b.id not in away and (b.data / f"{topic}-0").is_dir()}
        is_over = not node["adding_replicas"] and not node["removing_replicas"] and replicas == (wanted or replicas)
        if not is_over or set(state["isr"]) != set(replicas) or have != set(replicas) - set(away) or state["leader"] not in replicas:
            raise LookupError(f"the node is {node}, the state {state}, directories are on {have}, away were {set(away)}")
        return True
    wait_for(over, f"the reassignment of {topic} to be over" + (f", on {wanted}" if wanted else ""))


@test
def a_controller_elected_through_a_zookeeper_server_that_is_behind_acts_on_nothing_old(start):
    """The server freezes; through the others a topic comes, a partition moves, the controller dies. The one broker that is
    left hears of it all when the server thaws, and is elected through it."""
    alone = Ensemble(tempfile.mkdtemp(prefix="zookeeper-behind-", dir=OPTIONS.folder), 3)
    try:
        cluster = start(ensemble=alone, count=2, start=False)
        behind = next(n for n in range(3) if b"Mode: follower" in alone.ask(n, b"srvr"))
        ahead = [n for n in range(3) if n != behind]

        def through(broker, servers, timeout):
            at = ",".join(f"127.0.0.1:{alone.ports[n]}" for n in servers)
            broker.settings = [s for s in broker.settings if not s.startswith("zookeeper.")] + [f"zookeeper.connect={at}{cluster.root}", f"zookeeper.session.timeout.ms={timeout}"]
        through(cluster[1], ahead, SESSION_MS), through(cluster[2], [behind], 30_000)
        cluster[1].start()
        cluster.start()
        assert cluster.controller() is cluster[1]
        create_assigned(cluster[1], "t", [1, 2])
        cluster.wait_in_sync("t")
        pid = int((alone.folder / f"server{behind + 1}.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            create_assigned(cluster[1], "new", [1, 2], [2, 1])
            nodes = Nodes([alone.addresses[n] for n in ahead], cluster.root)
            assert nodes.text("/brokers/topics/new")
            cluster[1].kill()
            wait_for(lambda: nodes.controller() is None, "the controller's session to expire")
            before = nodes.json("/brokers/topics/new/partitions/0/state")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: cluster[2].metadata()["controller"] == 2, "the other to be controller")
        assert cluster.nodes.controller_epoch() == 2
        for topic, partition in (("t", 0), ("new", 0), ("new", 1)):
            wait_for(lambda: cluster.view(topic, partition)["leader"] == 2, f"{topic}-{partition} to be led")
            cluster.must_send(topic, [b"x"], partition=partition)
        after = cluster.nodes.json("/brokers/topics/new/partitions/0/state")
        assert after["leader_epoch"] > before["leader_epoch"] and after["controller_epoch"] == 2, f"{before} became {after}"
    finally:
        alone.stop()


@test
def what_was_read_before_an_election_counts_for_nothing_after_it(start):
    """A broker finds no controller and asks to be one; that takes long. Meanwhile the controller of before makes a change that
    it had sent, and the next time a whole term of another passes."""
    with tapped(start, "zookeeper.session.timeout.ms=60000", ids=(1, 2), count=2) as (cluster, taps):
        cluster.create("t", 1, 2)
        nodes, first = cluster.nodes, cluster.controller()
        second = next(b for b in cluster.up() if b is not first)

        def stand(*brokers):
            """They have read that there is no controller, and their requests to be one are held up."""
            for broker in brokers:
                taps[broker.id].hold_next_write()
            assert nodes.delete("/controller")
            for broker in brokers:
                assert taps[broker.id].reached.wait(PATIENCE), f"broker {broker.id} does not stand for election"
        epoch = nodes.controller_epoch()
        taps[first.id].hold_next_write()
        threading.Thread(target=quietly(lambda: create_many(first, ["meanwhile"], replicas=2)), daemon=True).start()
        assert taps[first.id].reached.wait(PATIENCE), "the controller writes nothing"
        stand(second)
        taps[first.id].when_made(1, first.process.kill)
        taps[first.id].release()
        assert taps[first.id].reached.wait(PATIENCE), "the write that was held up is not made"
        first.process.wait()
        assert nodes.get("/brokers/topics/meanwhile") and nodes.controller() is None
        taps[second.id].release()
        wait_for(lambda: nodes.controller() == second.id, "the election")
        assert nodes.controller_epoch() == epoch + 1
        wait_for(lambda: second.metadata()["topics"].get("meanwhile"), "the new controller to know a topic that was made between its look for a controller and its election")
        taps[first.id].end_session()
        cluster.wait("meanwhile", "a living leader", lambda p: p["leader"] == second.id)
        first.start()
        for topic in ("t", "meanwhile"):
            cluster.wait_in_sync(topic)
        # The same the other way round, and a whole term passes while the request is on its way.
        stand(first, second)
        taps[second.id].release()
        wait_for(lambda: nodes.controller() == second.id, "the other to be elected")
        wait_for(lambda: second.metadata()["controller"] == second.id, "it to know")
        create_many(second, ["in-that-term"], replicas=1)
        term = nodes.controller_epoch()
        assert term == epoch + 2
        second.kill()
        taps[second.id].end_session()
        assert nodes.controller() is None
        taps[first.id].release()
        wait_for(lambda: nodes.controller() == first.id, "the election")
        assert nodes.controller_epoch() == term + 1, f"epoch {term} was that of a controller that came and went while the request to be elected was on its way, and now it is {nodes.controller_epoch()}: the request went by what was read before"
        second.start()
        cluster.controller()
        nobody_left_anything(cluster)
        for topic in ("t", "meanwhile"):
            cluster.wait_in_sync(topic)
            cluster.must_send(topic, [b"x"])


# Junk, and what is old ----------------------------------------------------------------------------------

JUNK = b'{"version":7,"nonsense":[1,'


@test
def junk_in_any_node_takes_that_object_out_and_nothing_else(start):
    cluster = start("barnabas.controller.reconcile.interval.ms=2000")
    nodes = cluster.nodes
    create_assigned(cluster.controller(), "state", [1, 2, 3], [2, 3, 1])
    for topic in ("settings", "node", "id", "fine"):
        create_assigned(cluster.controller(), topic, [1, 2, 3])
        cluster.wait_in_sync(topic)
    cluster.cli("topic", "alter", "settings", "--set", "retention.ms=1000", "--set", "segment.ms=1000")
    cluster.must_send("settings", [b"kept"])
    mended = {path: nodes.get(path)[0] for path in ("/brokers/topics/node", "/brokers/topics/id", "/brokers/topics/state/partitions/0/state", "/config/topics/settings")}
    kept = {**{path: JUNK for path in mended},
            "/brokers/topics/id": re.sub(rb'"topic_id":"[^"]*"', b'"topic_id":"none of ours"', mended["/brokers/topics/id"]),
            "/brokers/topics/state/partitions/0/state": b'{"leader":1,"version":1,"isr":[1]}',
            "/brokers/topics/never": JUNK, "/brokers/ids/77": JUNK, "/brokers/ids/name": JUNK, "/config/topics/never": JUNK,
            "/config/brokers/<default>": JUNK, "/admin/reassign_partitions": JUNK, "/admin/preferred_replica_election": JUNK,
            "/latest_producer_id_block": JUNK, "/feature": JUNK, "/barnabas/incarnations/77": JUNK, "/barnabas/doubts/77": JUNK, "/barnabas/suspicions/name": JUNK,
            "/config/changes/config_change_9999999990": JUNK, "/config/changes/name": JUNK}
    # These are taken out as they are read: nobody else would.
    consumed = ["/isr_change_notification/isr_change_0000009990", "/isr_change_notification/name", "/log_dir_event_notification/log_dir_event_0000009990", "/admin/delete_topics/no such topic"]
    kept.pop("/barnabas/suspicions/name")
    consumed.append("/barnabas/suspicions/name")
    for path, data in kept.items():
        nodes.put(path, data)
    for path in consumed:
        nodes.create(path, JUNK)
    wait_for(lambda: all(nodes.get(path) is None for path in consumed), f"the controller to take out what it cannot read: {[p for p in consumed if nodes.get(p)]}")
    # Another controller has nothing but what it finds.
    old = cluster.controller()
    old.stop()
    new = cluster.controller()
    old.start()
    cluster.controller()
    for topic in ("fine", "settings"):
        cluster.wait_in_sync(topic)
        cluster.must_send(topic, [b"x"])
    cluster.wait_in_sync("state", partition=1)
    cluster.must_send("state", [b"x"], partition=1)
    cluster.create("later", 3)
    cluster.cli("topic", "alter", "fine", "--set", "retention.ms=123456789")
    delete(new, "later")
    wait_for(lambda: "later" not in nodes.children("/brokers/topics"), "a deletion")
    # What cannot be read is not written, also if a client asks for it.
    done = cluster.cli("topic", "alter", "settings", "--set", "retention.ms=2000", check=False)
    assert done.returncode != 0 and b"/config/topics/settings" in done.stderr, done
    assert create_many(new, ["node"], check=False) == TOPIC_ALREADY_EXISTS, "a topic that cannot be read is there all the same"
    error = new.ask(request(22, 0, text(None) + i32(0)))
    error.take("i")
    code = error.take("h")
    assert code != 0, "producer ids from a block that nobody can read"
    for path, data in kept.items():
        found = nodes.get(path)
        assert found and found[0] == data, f"{path} was {data}, is {found}"
    assert b"kept" in cluster.read("settings").values(), "a topic whose settings cannot be read lost its records"
    said = "".join(plain(b) for b in cluster.brokers.values())
    named = {"/brokers/topics/node": "node=/brokers/topics/node", "/brokers/topics/id": "node=/brokers/topics/id", "/brokers/topics/never": "node=/brokers/topics/never", "/config/topics/settings": "node=/config/topics/settings",
             "/admin/reassign_partitions": "node=/admin/reassign_partitions", "/admin/preferred_replica_election": "node=/admin/preferred_replica_election", "/brokers/ids/77": "broker=77"}
    said = said.replace('"', "")
    silent = [path for path, line in named.items() if line not in said]
    assert not silent, f"nobody says that {silent} cannot be read"
    of_new = plain(new).replace('"', "")
    for path in ("/brokers/topics/never", "/admin/reassign_partitions"):
        assert of_new.count(f"node={path}") == 1, f"the controller names {path} {of_new.count(f'node={path}')} times"
    # Mended, all is well, without a start or an election.
    epoch = nodes.controller_epoch()
    for path, data in mended.items():
        nodes.set(path, data)
    for path in set(kept) - set(mended) - {"/feature"}:
        nodes.set(path, b"") if path == "/latest_producer_id_block" else nodes.delete(path)
    for topic in ("state", "node", "id"):
        cluster.wait_in_sync(topic)
        cluster.must_send(topic, [b"y"])
    wait_for(lambda: cluster.cli("topic", "alter", "settings", "--set", "retention.ms=3600000", check=False).returncode == 0, "settings to be taken")
    assert json.loads(nodes.text("/config/topics/settings"))["config"]["segment.ms"] == "1000"

    def given():
        reply = new.ask(request(22, 0, text(None) + i32(0)))
        reply.take("i")
        return reply.take("h") == 0
    wait_for(given, "producer ids")
    assert nodes.controller_epoch() == epoch
    return f"{len(kept)} nodes kept as they were, {len(consumed)} taken out"


@test
def junk_at_the_controllers_nodes_hinders_elections_until_it_is_gone(start):
    cluster = start()
    cluster.create("t", 1)
    cluster.wait_in_sync("t")
    nodes, epoch = cluster.nodes, cluster.nodes.controller_epoch()
    with Load(cluster, "t") as load:
        def hindered(before):
            """All have said once more that no number is in the way; who else would know of it?"""
            def look():
                assert nodes.get("/controller_epoch")[0] == JUNK, f"/controller_epoch held {JUNK}, and somebody made {nodes.text('/controller_epoch')} of it"
                return all(hindrances(b) > before[b.id] for b in cluster.up())
            wait_for(look, "all to say that /controller_epoch is in the way of elections")
            assert nodes.controller() is None
        before = {b.id: hindrances(b) for b in cluster.up()}
        nodes.set("/controller_epoch", JUNK)
        nodes.delete("/controller")
        hindered(before)
        load.wait_for_more()
        # Mended, it is nobody's event: they look again by themselves.
        nodes.set("/controller_epoch", b"%d" % epoch)
        wait_for(lambda: nodes.controller() is not None, "an election after /controller_epoch was mended, of which nobody is told")
        cluster.controller()
        epoch += 1
        assert nodes.controller_epoch() == epoch
        before = {b.id: hindrances(b) for b in cluster.up()}
        nodes.set("/controller_epoch", JUNK)
        nodes.delete("/controller")
        hindered(before)
        # What is in the way now belongs to no broker.
        nodes.create("/controller", JUNK)
        nodes.set("/controller_epoch", b"%d" % epoch)

        def stands_in_the_way():
            found = nodes.get("/controller")
            assert found and found[0] == JUNK, f"/controller held {JUNK} of no broker, and somebody made {found} of it"
            return any("/controller was not made by a broker" in plain(b) for b in cluster.up())
        wait_for(stands_in_the_way, "somebody to say that /controller is no broker's and in the way of elections")
        load.wait_for_more()
        nodes.delete("/controller")
        cluster.controller()
        assert nodes.controller_epoch() == epoch + 1
        load.wait_for_more()
    load.nothing_is_missing()
    cluster.create("later", 3)


def hindrances(broker):
    return sum("cannot stand for election" in line and "/controller_epoch holds no number" in line for line in plain(broker).splitlines())


junk_at_the_controllers_nodes_hinders_elections_until_it_is_gone.expected = "cannot stand for election"


@test
def a_store_restored_from_an_old_copy_is_refused_until_its_epoch_is_raised(start):
    alone = Ensemble(tempfile.mkdtemp(prefix="zookeeper-restored-", dir=OPTIONS.folder), 1)
    try:
        cluster = start(ensemble=alone)
        cluster.create("t", 1)
        cluster.wait_in_sync("t")
        data = next(path for path in alone.folder.iterdir() if path.is_dir() and list(path.rglob("version-2")))
        again = alone.kill("server1")
        shutil.copytree(data, alone.folder / "copy")
        again()
        wait_for(lambda: alone.ask(0, b"srvr"), "ZooKeeper to be back")
        cluster.wait_in_sync("t")
        for _ in range(2):
            old = cluster.controller()
            old.stop(), old.start()
        cluster.controller()
        epoch = cluster.nodes.controller_epoch()
        assert epoch >= 3
        cluster.must_send("t", [b"x"])
        cluster.wait_in_sync("t")
        for broker in cluster.up():
            broker.kill()
        again = alone.kill("server1")
        shutil.rmtree(data)
        shutil.copytree(alone.folder / "copy", data)
        again()
        wait_for(lambda: alone.ask(0, b"srvr"), "ZooKeeper to be back")
        wait_for(lambda: cluster.nodes.text("/controller_epoch") == "1", "the old copy")
        for broker in cluster.brokers.values():
            broker.launch()
            wait_for(lambda: broker.process.poll() is not None, f"broker {broker.id} to refuse to start on a store that was restored from an old copy, whose /controller_epoch is {cluster.nodes.text('/controller_epoch')}; {epoch} was seen", 30)
            assert broker.process.returncode != 0, f"broker {broker.id} ends as if all were well"
            for said in ("/controller_epoch is 1", f"seen {epoch}", f"set /controller_epoch {epoch}"):
                assert said in broker.tail(), f"broker {broker.id} has heard of epoch {epoch} before it was killed, and does not say {said!r}: {broker.tail(2)}"
        assert cluster.nodes.text("/controller_epoch") == "1"
        assert "create /barnabas/raise_leader_epochs 1000" in cluster[1].tail()
        cluster.nodes.set("/controller_epoch", b"%d" % epoch)
        cluster.nodes.create("/barnabas/raise_leader_epochs", b"1000")
        cluster.start()
        cluster.controller()
        assert cluster.nodes.controller_epoch() == epoch + 1
        cluster.wait_in_sync("t")
        assert b"x" in cluster.read("t").values(), f"a record is lost that was acknowledged after the copy was made: were leader epochs raised above those of the logs? {cluster.nodes.text('/brokers/topics/t/partitions/0/state')}"
        # By hand, while all live: nobody leads with less than it has seen.
        low, last = b"2", cluster.nodes.controller_epoch()
        cluster.nodes.set("/controller_epoch", low)
        cluster.nodes.delete("/controller")

        def all_refuse():
            assert cluster.nodes.controller() is None, f"broker {cluster.nodes.controller()} was elected though /controller_epoch was {low.decode()}, now {cluster.nodes.text('/controller_epoch')}, and all have seen {last}"
            return all("cannot stand for election" in b.text() for b in cluster.up())
        wait_for(all_refuse, "all to refuse to lead")
        cluster.nodes.set("/controller_epoch", b"%d" % last)
        cluster.controller()
        assert cluster.nodes.controller_epoch() == last + 1
        return f"epoch 1 in the copy, {epoch} seen"
    finally:
        alone.stop()


a_store_restored_from_an_old_copy_is_refused_until_its_epoch_is_raised.expected = "cannot stand for election|restored from an old copy|cannot start|/controller_epoch is"


# The controller dies between two writes -----------------------------------------------------------------

@dataclasses.dataclass
class Operation:
    """Something that a controller is asked for, and dies of."""
    name: str
    # Asks the controller, and waits for its answer.
    act: typing.Callable
    # What must be so when all who live have done their part: with the dead controller away, or with everybody there.
    check: typing.Callable
    # Everybody is there again.
    after: typing.Callable = lambda: None
    # Before it is asked; it gets the controller.
    prepare: typing.Callable = lambda controller: None
    # Whether the controller, after its answer, has nothing more to write.
    is_over: typing.Callable = lambda: True


def attempt(cluster, taps, operation, count=None):
    """The operation, in which the controller dies when ZooKeeper has made its `count`-th write from then on: its session ends
    with it, and another takes over. How many writes it took, and whether it came to that."""
    operation.prepare(cluster.controller())
    controller = cluster.controller()
    tap = taps[controller.id]
    before = tap.made
    tap.when_made(count or 1 << 30, controller.process.kill)
    asking = threading.Thread(target=quietly(operation.act), args=(controller,), daemon=True)
    asking.start()
    wait_for(lambda: tap.reached.is_set() or not asking.is_alive() and operation.is_over(), f"{operation.name} to be over" + (f", or its controller to have died after write {count}" if count else ""))
    # The answer to its last write may be on its way.
    has_died = tap.reached.wait(0.3)
    tap.forget()
    took = tap.made - before
    if has_died:
        controller.process.wait()
        tap.end_session()
        assert cluster.controller() is not controller
    try:
        operation.check(controller if has_died else None)
        if has_died:
            cluster.start()
            cluster.controller()
            nobody_left_anything(cluster)
        operation.after()
    except AssertionError as wrong:
        died = f"broker {controller.id}, the controller, died after write {count}" if has_died else f"nobody died, {took} writes"
        raise AssertionError(f"{operation.name}, {died}: {wrong}") from wrong
    return took, has_died


def sweep(cluster, taps, operations):
    """Each operation undisturbed, and with the controller dying after its first write, after its last and after one in between:
    or, if `--every-write` asks for it, after every one, until there is none left to die after. What it came to."""
    said, chance = [], random.Random(OPTIONS.seed)
    for operation in operations:
        writes, _ = attempt(cluster, taps, operation)
        assert writes, f"{operation.name} writes nothing"
        deaths = []
        for count in itertools.count(1) if OPTIONS.every_write else sorted({1, chance.randint(1, writes), writes}):
            _, has_died = attempt(cluster, taps, operation, count)
            if has_died:
                deaths.append(count)
            elif count > writes:
                break
        assert deaths, f"no controller died in {operation.name}"
        said.append(f"{operation.name} {','.join(map(str, deaths))} of {writes}")
    return f"{'; '.join(said)}; seed {OPTIONS.seed}"


def is_whole(cluster, topic):
    """Every partition is led by a living broker and takes records."""
    for partition in map(int, cluster.nodes.json(f"/brokers/topics/{topic}")["partitions"]):
        cluster.wait(topic, "a leader that lives", lambda p: p["leader"] in {b.id for b in cluster.up()}, partition)
        cluster.must_send(topic, [b"x"], partition=partition)


def is_in_sync(cluster, topic):
    for partition in map(int, cluster.nodes.json(f"/brokers/topics/{topic}")["partitions"]):
        cluster.wait_in_sync(topic, partition=partition)
    is_whole(cluster, topic)


def others(cluster, controller):
    return [b for b in cluster.brokers.values() if b is not controller]


@test
def a_controller_dies_after_each_write_of_a_creation_or_deletion(start):
    with tapped(start, "log.segment.delete.delay.ms=500") as (cluster, taps):
        nodes, numbers = cluster.nodes, itertools.count(1)
        cluster.create("grows", 1)
        name, size, ids = "", 1, []

        def new_name(_):
            nonlocal name
            name = f"new{next(numbers)}"

        def created(_):
            if nodes.get(f"/brokers/topics/{name}") is None:
                create_many(cluster.controller(), [name], partitions=3)
            is_whole(cluster, name)

        def one_more(_):
            nonlocal size
            size = len(nodes.json("/brokers/topics/grows")["partitions"]) + 1

        def grow(controller):
            cluster.cli("topic", "alter", "grows", "--partitions", size, asked=controller)

        def grown(_):
            if len(nodes.json("/brokers/topics/grows")["partitions"]) == size - 1:
                grow(cluster.controller())
            assert len(nodes.json("/brokers/topics/grows")["partitions"]) == size, nodes.text("/brokers/topics/grows")
            is_whole(cluster, "grows")

        def new_topic(controller):
            new_name(controller)
            create_many(controller, [name], partitions=3)
            is_in_sync(cluster, name)

        def is_gone():
            return name not in nodes.children("/brokers/topics") and name not in nodes.children("/admin/delete_topics") and name not in nodes.children("/config/topics")

        def deletion_goes_on(_):
            if name in nodes.children("/brokers/topics") and name not in nodes.children("/admin/delete_topics"):
                delete(cluster.controller(), name)

        def deleted():
            wait_for(is_gone, f"{name} to be gone, whose deletion was begun: {nodes.children('/brokers/topics')}, marked are {nodes.children('/admin/delete_topics')}")
            wait_for(lambda: not [p for b in cluster.brokers.values() for p in b.data.glob(f"{name}-*")], f"{name}'s logs to be gone")

        def allocate(wire):
            data = wire.ask(request(22, 0, text(None) + i32(0)))
            if data is None:
                raise ConnectionError("closed instead of answered")
            reply = Answer(data)
            reply.take("i")
            error, id, _ = reply.take("h"), reply.take("q"), reply.take("h")
            assert error == 0, f"error {error}"
            ids.append(id)
            return True

        def allocate_block(controller):
            # What is left of its last block needs no write.
            before = taps[controller.id].made
            with controller.wire() as wire:
                while taps[controller.id].made == before:
                    allocate(wire)

        def given():
            for broker in cluster.up():
                with broker.wire() as wire:
                    wait_for(lambda: allocate(wire), "a producer id")

        def allocated(_=None):
            given()
            assert len(ids) == len(set(ids)), f"a producer id was given twice: {sorted(id for id in set(ids) if ids.count(id) > 1)}"
        return sweep(cluster, taps, [
            Operation("creation", lambda c: create_many(c, [name], partitions=3), created, lambda: is_in_sync(cluster, name), new_name),
            Operation("more partitions", grow, grown, lambda: is_in_sync(cluster, "grows"), one_more),
            Operation("deletion", lambda c: delete(c, name), deletion_goes_on, deleted, new_topic, is_gone),
            Operation("producer ids", allocate_block, allocated, allocated)])


@test
def a_controller_dies_after_each_write_of_a_move(start):
    """Which can be over, and must be, while the dead one is away: it has none of the replicas, or one that leaves."""
    with tapped(start, "zookeeper.session.timeout.ms=20000") as (cluster, taps):
        nodes, origin, target, away = cluster.nodes, [], [], set()
        create_assigned(cluster.controller(), "moves", [1, 2])

        def bring_to(replicas):
            error = reassign(cluster.controller(), "moves", 0, replicas)
            assert error == 0, f"error {error}"
            settled(cluster, "moves", away, replicas)
            away.difference_update(replicas)

        def place(controller, from_it=True):
            stays, comes = others(cluster, controller)
            origin[:], target[:] = ([controller.id, stays.id], [stays.id, comes.id]) if from_it else ([stays.id], [comes.id])
            bring_to(origin)

        def is_still():
            node = nodes.json("/brokers/topics/moves")
            return not node["adding_replicas"] and not node["removing_replicas"]

        def may_keep(dead, leaving):
            """Who leaves, and hears it from nobody where the controller dies before the word has reached it."""
            away.update({dead.id, *leaving} if dead else ())

        def over(dead):
            may_keep(dead, set(origin) - set(target))
            if is_still() and nodes.json("/brokers/topics/moves")["partitions"]["0"] == origin:
                # Nothing of it was written: whoever asked asks again.
                assert reassign(cluster.controller(), "moves", 0, target) == 0
            settled(cluster, "moves", away, target)
            away.difference_update(target)
            is_whole(cluster, "moves")

        def begin(controller):
            place(controller)
            cluster[target[1]].freeze()
            # It cannot catch up, so that there is something to cancel.
            assert reassign(controller, "moves", 0, target) == 0
            assert not is_still()

        def cancelled(dead):
            may_keep(dead, set(target) - set(origin))
            if not is_still():
                # Nothing of it was written: whoever asked asks again.
                assert reassign(cluster.controller(), "moves", 0, None) == 0
                wait_for(is_still, "the cancellation")
            # As with Kafka their order is that of the way back.
            replicas = nodes.json("/brokers/topics/moves")["partitions"]["0"]
            assert set(replicas) == set(origin), f"{replicas} after the way from {origin} to {target} was cancelled"
            is_whole(cluster, "moves")
            assert target[1] not in nodes.json("/brokers/topics/moves/partitions/0/state")["isr"]
            cluster[target[1]].thaw()

        def back():
            settled(cluster, "moves", away)
            is_whole(cluster, "moves")
        return sweep(cluster, taps, [
            Operation("reassignment of others", lambda c: reassign(c, "moves", 0, target), over, lambda: settled(cluster, "moves", away, target), lambda c: place(c, False), is_still),
            Operation("reassignment", lambda c: reassign(c, "moves", 0, target), over, lambda: settled(cluster, "moves", away, target), place, is_still),
            Operation("cancellation", lambda c: reassign(c, "moves", 0, None), cancelled, back, begin, is_still)])


@test
def a_controller_dies_after_each_write_of_an_election_or_setting(start):
    with tapped(start) as (cluster, taps):
        nodes, numbers = cluster.nodes, itertools.count(1)
        create_assigned(cluster.controller(), "stays", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        cluster.create("set", 1)
        lone, last, leaver, handed_over = "", None, None, 0
        node, key, settled_over = "/admin/preferred_replica_election", "min.insync.replicas", "what this broker led is led by others"

        def leads_elsewhere(controller):
            """A partition is led by neither its preferred replica nor the controller, whose death alone would change that."""
            is_in_sync(cluster, "stays")
            preferred, another = controller.id % 3 + 1, (controller.id + 1) % 3 + 1
            leader = cluster.view("stays", preferred - 1)["leader"]
            if leader == controller.id:
                assert elect_leaders(controller, "stays", False, preferred - 1) == 0
            if leader != another:
                cluster[preferred].stop(), cluster[preferred].start()
                is_in_sync(cluster, "stays")
            assert cluster.view("stays", preferred - 1)["leader"] == another

        def elect(_):
            nodes.create(node, json.dumps({"version": 1, "partitions": [{"topic": "stays", "partition": p} for p in range(3)]}).encode())

        def elected(_):
            wait_for(lambda: nodes.get(node) is None, f"{node} to be gone: an election that was asked for and that nobody holds")
            for broker in cluster.up():
                cluster.wait("stays", f"its preferred replica {broker.id} to lead, as was asked for,", lambda p: p["leader"] == broker.id, broker.id - 1, 15)

        def knows(broker):
            return key in cluster.cli("topic", "describe", "set", asked=broker)

        def unset(_):
            cluster.cli("topic", "alter", "set", "--unset", key)
            wait_for(lambda: not any(knows(b) for b in cluster.up()), "everybody to have forgotten the setting")

        def alter(controller):
            cluster.cli("topic", "alter", "set", "--set", f"{key}=2", asked=controller)

        def altered(_=None):
            if key not in json.loads(nodes.text("/config/topics/set"))["config"]:
                alter(cluster.controller())
            # Whoever leads goes by it.
            for broker in cluster.up():
                wait_for(lambda: knows(broker), f"broker {broker.id} to know a setting that is stored: was it told?", 15)

        def all_gone_but_one_behind(controller):
            nonlocal lone, last
            lone = f"lone{next(numbers)}"
            behind, last = others(cluster, controller)
            create_assigned(controller, lone, [last.id, behind.id])
            cluster.wait_in_sync(lone, {last.id, behind.id})
            behind.kill()
            cluster.wait_in_sync(lone, {last.id})
            last.kill()
            taps[last.id].end_session()
            behind.start()
            cluster.wait(lone, "nobody who leads", lambda p: p["leader"] == -1)

        def is_led():
            return nodes.json(f"/brokers/topics/{lone}/partitions/0/state")["leader"] not in (-1, last.id)

        def allow(controller):
            cluster.cli("topic", "alter", lone, "--set", "unclean.leader.election.enable=true", asked=controller)

        def allowed(_):
            if "unclean.leader.election.enable" not in json.loads(nodes.text(f"/config/topics/{lone}"))["config"]:
                allow(cluster.controller())
            wait_for(is_led, f"{lone} to be led by a replica that is behind: the setting is stored, {nodes.text(f'/config/topics/{lone}')}", 15)
            is_whole(cluster, lone)

        def all_back():
            cluster.start()
            cluster.wait_in_sync(lone, {last.id, *nodes.json(f"/brokers/topics/{lone}")["partitions"]["0"]})
            # Where its other replica dies, nobody can hand it over.
            delete(cluster.controller(), lone)
            wait_for(lambda: lone not in nodes.children("/brokers/topics"), f"{lone} to be deleted")

        def choose(controller):
            nonlocal leaver, handed_over
            for topic in ("stays", "set"):
                is_in_sync(cluster, topic)
            leaver = others(cluster, controller)[0]
            # It has something to hand over.
            assert elect_leaders(controller, "stays", False, leaver.id - 1) in (0, ELECTION_NOT_NEEDED)
            cluster.wait("stays", "the one that is about to leave to lead", lambda p: p["leader"] == leaver.id, leaver.id - 1)
            handed_over = plain(leaver).count(settled_over)

        def stop(_):
            leaver.process.send_signal(signal.SIGTERM)
            leaver.process.wait(PATIENCE)

        def left(_):
            leaver.ended()
            assert plain(leaver).count(settled_over) == handed_over + 1, f"broker {leaver.id} stopped and had not handed over what it led, as whoever asks the next controller can: {leaver.tail(4)}"
            is_whole(cluster, "stays")

        def returned():
            cluster.start()
            is_in_sync(cluster, "stays")
        return sweep(cluster, taps, [
            Operation("preferred election", elect, elected, lambda: is_in_sync(cluster, "stays"), leads_elsewhere, lambda: nodes.get(node) is None),
            Operation("setting", alter, altered, altered, unset),
            Operation("unclean elections allowed", allow, allowed, all_back, all_gone_but_one_behind, is_led),
            Operation("graceful stop", stop, left, returned, choose)])


@test
def a_controller_dies_while_leaders_of_many_partitions_are_elected(start):
    """Their leader dies. The controller does after each write; and when one broker was told who leads, and another was not."""
    many = 1000 if OPTIONS.every_write else 50
    with tapped(start, "zookeeper.session.timeout.ms=20000", ids=(1, 2, 3, 4), count=4) as (cluster, taps):
        topic, replicas, numbers, begin = "", [], itertools.count(1), 0.0

        def everywhere(what, condition, seconds=2 * PATIENCE):
            def look():
                for broker in cluster.up():
                    partitions = broker.metadata(60)["topics"].get(topic, {})
                    wrong = [n for n in range(many) if n not in partitions or not condition(partitions[n])]
                    if wrong:
                        return f"{len(wrong)} of {many} are not, as broker {broker.id} sees it; {topic}-{wrong[0]}: {partitions.get(wrong[0])}"
                return None
            wait_for(lambda: holds(look()), f"{what} of all partitions of {topic}", seconds, 0.2)

        def holds(trouble):
            if trouble:
                raise LookupError(trouble)
            return True

        def in_sync(ids):
            everywhere(f"ISR {sorted(ids)}, and a leader of it,", lambda p: set(p["isr"]) == set(ids) and p["leader"] in ids)
            for partition in {0, many // 3, many // 2, many - 1}:
                cluster.must_send(topic, [b"x"], partition=partition)

        def place(controller):
            nonlocal topic
            if topic:
                delete(controller, topic)
                wait_for(lambda: topic not in cluster.nodes.children("/brokers/topics"), f"{topic} to be deleted", 2 * PATIENCE)
            topic, replicas[:] = f"many{next(numbers)}", [b.id for b in others(cluster, controller)]
            create_assigned(controller, topic, *[replicas] * many)
            in_sync(replicas)

        def kill_the_leader(_):
            cluster[replicas[0]].kill()

        def is_over():
            seen = cluster[replicas[1]].metadata()["topics"][topic]
            return all(p["leader"] == replicas[1] for p in seen.values())

        def led(_):
            in_sync(replicas[1:])

        def back():
            cluster.start()
            in_sync(replicas)
        said = sweep(cluster, taps, [Operation(f"election of {many}", kill_the_leader, led, back, place, is_over)])
        # Half of them is told: the other is frozen, and what was said to it lies in its sockets when its controller is dead.
        place(cluster.controller())
        controller, told, untold = cluster.controller(), cluster[replicas[1]], cluster[replicas[2]]
        untold.freeze()
        kill_the_leader(controller)
        wait_for(is_over, f"broker {told.id} to be told that it leads", 2 * PATIENCE)
        controller.kill()
        taps[controller.id].end_session()
        wait_for(lambda: told.metadata()["controller"] == told.id, "the next controller")
        untold.thaw()
        begin = time.monotonic()
        led(None)
        took = time.monotonic() - begin
        back()
        return f"{said}; one of two told: all as one {took:.1f} s after the other woke up"
