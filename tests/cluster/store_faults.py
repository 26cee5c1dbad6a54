"""What the store does to brokers, and brokers to each other through it: sessions that end, answers that are lost, servers
that are behind, junk in nodes, controllers that die between two writes. Rows of docs/faults.md. Run by `run`."""
import contextlib, json, os, re, shutil, signal, struct, subprocess, tempfile, threading, time
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
        assert claims(cluster) == cluster.nodes.controller_epoch(), f"{claims(cluster)} elections, epoch {cluster.nodes.controller_epoch()}"
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
        tap, before = taps[follower.id], registered(cluster, follower.id)
        tap.when_made(1, tap.cut)
        tap.end_session()
        assert tap.reached.wait(PATIENCE), "it does not register"
        wait_for(lambda: registered(cluster, follower.id) not in (0, before), "its registration")
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
        cluster.controller()
        took = time.monotonic() - begin
        assert took < 9, f"a controller after {took:.1f} s, and sessions last 10 s"
        # Operations: what clients are told may be that it is not known; what is there is whole, and there once.
        wait_for(lambda: create_many(cluster.controller(), ["moves"], replicas=2, check=False) in (0, TOPIC_ALREADY_EXISTS), "a topic")
        lost = 0
        for n in (1, 2, 3):
            for name, act in ((f"created{n}", lambda c: create_many(c, [f"created{n}"], partitions=2, check=False)),
                              ("moves", lambda c: reassign(c, "moves", 0, [[1, 2], [2, 3], [3, 1]][n % 3]))):
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
                for partition in range(2 if name.startswith("created") else 1):
                    cluster.must_send(name, [b"x"], partition=partition)
        nobody_left_anything(cluster)
        settled(cluster, "moves")
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


def settled(cluster, topic, away=()):
    """Its reassignment is over: replicas, ISR and directories are the same brokers, but for those that were away when it
    ended: what they had stays, as with Kafka."""
    def over():
        node = cluster.nodes.json(f"/brokers/topics/{topic}")
        state = cluster.nodes.json(f"/brokers/topics/{topic}/partitions/0/state")
        replicas = node["partitions"]["0"]
        have = {b.id for b in cluster.brokers.values() if b.id not in away and (b.data / f"{topic}-0").is_dir()}
        return not node["adding_replicas"] and not node["removing_replicas"] and set(state["isr"]) == set(replicas) and have == set(replicas) - set(away) and state["leader"] in replicas
    wait_for(over, f"{topic} to be settled: {cluster.nodes.json(f'/brokers/topics/{topic}')}")


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
    said = "".join(b.text() for b in cluster.brokers.values())
    named = {"/brokers/topics/node": "node=/brokers/topics/node", "/brokers/topics/id": "node=/brokers/topics/id", "/brokers/topics/never": "node=/brokers/topics/never", "/config/topics/settings": "node=/config/topics/settings",
             "/admin/reassign_partitions": "node=/admin/reassign_partitions", "/admin/preferred_replica_election": "node=/admin/preferred_replica_election", "/brokers/ids/77": "broker=77"}
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said).replace('"', "")
    silent = [path for path, line in named.items() if line not in plain]
    assert not silent, f"nobody says that {silent} cannot be read"
    of_new = re.sub(r"\x1b\[[0-9;]*m", "", new.text()).replace('"', "")
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
        nodes.set("/controller_epoch", JUNK)
        nodes.delete("/controller")
        wait_for(lambda: all("cannot stand for election" in b.text() and "/controller_epoch" in b.text() for b in cluster.up()), "all to say what is in the way")
        load.wait_for_more()
        # What is in the way now belongs to no broker.
        nodes.create("/controller", JUNK)
        nodes.set("/controller_epoch", b"%d" % epoch)
        wait_for(lambda: any("was not made by a broker" in b.text() for b in cluster.up()), "somebody to say that the node is in the way")
        assert nodes.get("/controller")[0] == JUNK
        load.wait_for_more()
        nodes.delete("/controller")
        cluster.controller()
        assert nodes.controller_epoch() == epoch + 1
        load.wait_for_more()
    load.nothing_is_missing()
    cluster.create("later", 3)


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
            code = broker.process.wait(PATIENCE)
            assert code not in (0, None), f"broker {broker.id} starts on a store that was restored"
            for said in ("/controller_epoch is 1", f"seen {epoch}", f"set /controller_epoch {epoch}"):
                assert said in broker.tail(), f"does not say {said!r}: {broker.tail()}"
        assert cluster.nodes.text("/controller_epoch") == "1"
        assert "create /barnabas/raise_leader_epochs 1000" in cluster[1].tail()
        cluster.nodes.set("/controller_epoch", b"%d" % epoch)
        cluster.nodes.create("/barnabas/raise_leader_epochs", b"1000")
        cluster.start()
        cluster.controller()
        assert cluster.nodes.controller_epoch() == epoch + 1
        cluster.wait_in_sync("t")
        assert b"x" in cluster.read("t").values()
        # By hand, while all live: nobody leads with less than it has seen.
        low, last = b"2", cluster.nodes.controller_epoch()
        cluster.nodes.set("/controller_epoch", low)
        cluster.nodes.delete("/controller")
        wait_for(lambda: all("cannot stand for election" in b.text() for b in cluster.up()), "all to refuse to lead")
        assert cluster.nodes.controller() is None
        cluster.nodes.set("/controller_epoch", b"%d" % last)
        cluster.controller()
        assert cluster.nodes.controller_epoch() == last + 1
        return f"epoch 1 in the copy, {epoch} seen"
    finally:
        alone.stop()


a_store_restored_from_an_old_copy_is_refused_until_its_epoch_is_raised.expected = "cannot stand for election|restored from an old copy|cannot start|/controller_epoch is"


# The controller dies between two writes -----------------------------------------------------------------

def dies_after(cluster, taps, count, act):
    """Asks the controller for something, which dies when ZooKeeper has made its `count`-th write from then on; whether it
    came to that. Its session ends with it, and another takes over."""
    controller = cluster.controller()
    tap = taps[controller.id]
    tap.when_made(count, controller.process.kill)
    asking = threading.Thread(target=quietly(act), args=(controller,), daemon=True)
    asking.start()
    wait_for(lambda: tap.reached.is_set() or not asking.is_alive(), "the operation to end, or its controller")
    # What it does after it has answered counts too, if it comes at once.
    has_died = tap.reached.wait(0.3)
    tap.forget()
    if not has_died:
        return False
    controller.process.wait()
    tap.end_session()
    assert cluster.controller() is not controller
    return controller


def is_whole(cluster, topic):
    """Every partition is led by a living broker, in sync, and takes records."""
    for partition in map(int, cluster.nodes.json(f"/brokers/topics/{topic}")["partitions"]):
        cluster.wait(topic, "a leader that lives", lambda p: p["leader"] in {b.id for b in cluster.up()}, partition)
        cluster.must_send(topic, [b"x"], partition=partition)


def sweep(cluster, taps, operations, deaths=3):
    """Each operation with the controller dying after its first, second, ... write, as long as there is one; how often."""
    died = {}
    for name, act, check in operations:
        for count in range(1, deaths + 1):
            dead = dies_after(cluster, taps, count, lambda controller: act(controller, count))
            if not dead:
                check(count)
                break
            died[name] = count
            check(count)
            cluster.start()
            cluster.controller()
            nobody_left_anything(cluster)
    return ", ".join(f"{name} {count}" for name, count in died.items())


@test
def a_controller_dies_after_each_write_of_a_creation_or_deletion(start):
    with tapped(start, "log.segment.delete.delay.ms=500") as (cluster, taps):
        nodes = cluster.nodes
        cluster.create("grows", 1)
        ids, taken = [], set()

        def created(count):
            name = f"new{count}"
            if nodes.get(f"/brokers/topics/{name}") is None:
                create_many(cluster.controller(), [name], partitions=3)
            is_whole(cluster, name)

        def grown(count):
            is_whole(cluster, "grows")
            assert len(nodes.json("/brokers/topics/grows")["partitions"]) in (1, 1 + count, *range(1, 5)), nodes.text("/brokers/topics/grows")

        def deleted(count):
            name = f"new{count}"
            if not nodes.children("/admin/delete_topics") and name in nodes.children("/brokers/topics"):
                delete(cluster.controller(), name)
            cluster.start()
            wait_for(lambda: name not in nodes.children("/brokers/topics") and not nodes.children("/admin/delete_topics") and name not in nodes.children("/config/topics"), f"{name} to be gone")
            wait_for(lambda: not [p for b in cluster.brokers.values() for p in b.data.glob(f"{name}-*")], f"{name}'s logs to be gone")

        def allocate(broker):
            reply = broker.ask(request(22, 0, text(None) + i32(0)))
            reply.take("i")
            error, id, _ = reply.take("h"), reply.take("q"), reply.take("h")
            assert error == 0, f"error {error}"
            return id

        def allocated(count):
            for broker in cluster.up():
                ids.append(wait_for(lambda: (allocate(broker),), "a producer id")[0])
            assert len(ids) == len(set(ids)), f"a producer id was given twice: {sorted(ids)}"
        return sweep(cluster, taps, [
            ("creation", lambda c, n: create_many(c, [f"new{n}"], partitions=3), created),
            ("more partitions", lambda c, n: cluster.cli("topic", "alter", "grows", "--partitions", 1 + n, asked=c, check=False), grown),
            ("deletion", lambda c, n: delete(c, f"new{n}"), deleted),
            ("producer ids", lambda c, n: ids.append(allocate(c)), allocated)])


@test
def a_controller_dies_after_each_write_of_a_move_or_election(start):
    with tapped(start) as (cluster, taps):
        nodes = cluster.nodes
        create_assigned(cluster.controller(), "moves", [1, 2])
        cluster.create("stays", 3)
        cluster.create("set", 1)
        targets = [[1, 2], [2, 3], [3, 1]]

        away = set()

        def moved(count):
            away.update(set(cluster.brokers) - {b.id for b in cluster.up()})
            cluster.start()
            # The move is over, or was never begun.
            settled(cluster, "moves", away)
            is_whole(cluster, "moves")

        def elected(count):
            cluster.start()
            cluster.wait_in_sync("stays")
            assert elect_leaders(cluster.controller(), "stays", unclean=False) in (0, ELECTION_NOT_NEEDED)
            first = cluster.view("stays")["replicas"][0]
            cluster.wait("stays", "the preferred leader", lambda p: p["leader"] == first)
            assert nodes.get("/admin/preferred_replica_election") is None

        def elect(controller, _):
            nodes.create("/admin/preferred_replica_election", json.dumps({"version": 1, "partitions": [{"topic": "stays", "partition": p} for p in range(3)]}).encode())

        def altered(count):
            stored = json.loads(nodes.text("/config/topics/set"))["config"]
            if "min.insync.replicas" not in stored:
                wait_for(lambda: cluster.cli("topic", "alter", "set", "--set", "min.insync.replicas=2", check=False).returncode == 0, "the setting")
            # Whoever leads goes by it.
            wait_for(lambda: all("min.insync.replicas" in cluster.cli("topic", "describe", "set", asked=b) for b in cluster.up()), "everybody to know the setting")
            cluster.cli("topic", "alter", "set", "--unset", "min.insync.replicas", check=False)

        def stop(controller, _):
            leaver = next(b for b in cluster.up() if b is not controller)
            leaver.process.send_signal(signal.SIGTERM)
            leaver.process.wait(PATIENCE)

        def left(count):
            for partition in range(3):
                cluster.wait("stays", "a leader that lives", lambda p: p["leader"] in {b.id for b in cluster.up()}, partition)
            wait_for(lambda: len(cluster.up()) <= 2, "the broker to have stopped")
            cluster.start()
            for partition in range(3):
                cluster.wait_in_sync("stays", partition=partition)
                cluster.must_send("stays", [b"x"], partition=partition)
        return sweep(cluster, taps, [
            ("reassignment", lambda c, n: reassign(c, "moves", 0, targets[n % 3]), moved),
            ("preferred election", elect, elected),
            ("setting", lambda c, n: cluster.cli("topic", "alter", "set", "--set", "min.insync.replicas=2", asked=c, check=False), altered),
            ("graceful stop", stop, left)])
