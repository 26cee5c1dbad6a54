"""Several `barnabas serve`, or brokers of Apache Kafka beside them, on a real ZooKeeper ensemble, and what is asked of them."""
import argparse, json, os, pathlib, random, signal, socket, struct, subprocess, sys, threading, time
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "abuse"))
from wire import *

PEER = ROOT / "tools" / "kafka-peer"
NOT_ENOUGH_REPLICAS, INVALID_REPLICATION_FACTOR, OFFSET_OUT_OF_RANGE = 19, 38, 1
# What a client tries again: no leader, another leader, time out, too few replicas, a leader that is no longer one.
RETRIABLE = {3, 5, 6, 7, 8, 9, 13, 19, 20, 56, 74, 75, 76, 100}
PATIENCE = 60
SESSION_MS = 4000
# What `run` was called with, and the tests that it runs.
OPTIONS, TESTS = argparse.Namespace(), {}
# Ports that somebody has, or is about to take.
GIVEN, GIVING = set(), threading.Lock()


def test(function):
    TESTS[function.__name__] = function
    return function


def wait_until_stopped(pid):
    """SIGSTOP returns before the threads that run have stopped."""
    def states():
        return {line.rpartition(")")[2].split()[0] for line in (stat.read_text() for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))}
    wait_for(lambda: states() <= {"T", "Z", "X"}, f"process {pid} to be stopped", 10, 0.001)


def wait_for(look, what, seconds=PATIENCE, every=0.02):
    """The first true answer of `look`; what it said last is in the complaint."""
    deadline, last = time.monotonic() + seconds, None
    while True:
        try:
            found = look()
            if found:
                return found
            last = found
        except (OSError, LookupError, struct.error) as error:
            last = error
        now = time.monotonic()
        assert now < deadline, f"waited {seconds} s for {what}: {last!r}"
        time.sleep(every)
        overslept = time.monotonic() - now - every
        if overslept > 1:
            # The machine stood still; so did they that are waited for.
            deadline += overslept


def free_ports(count):
    """None of those that the system gives to whoever connects somewhere: one of these might be taken while its broker is
    away. Not given twice."""
    ports = []
    while len(ports) < count:
        port = random.randrange(27_500, 32_700)
        with GIVING, socket.socket() as s:
            if port in GIVEN:
                continue
            GIVEN.add(port)
            try:
                s.bind(("127.0.0.1", port))
                ports.append(port)
            except OSError:
                pass
    return ports


# ZooKeeper ----------------------------------------------------------------------------------------------

class Ensemble:
    """Three servers, made once for all tests: each test has a path of its own."""

    def __init__(self, folder, servers=3, network=None):
        self.folder, self.network = pathlib.Path(folder), network
        first = free_row(servers)
        self.ports = list(range(first, first + servers))
        # Where each is reached: on loopback, or on a host of its own in `network`.
        self.addresses = [(network[f"zookeeper{n + 1}"].address if network else "127.0.0.1", port) for n, port in enumerate(self.ports)]
        self.servers = ",".join(f"{host}:{port}" for host, port in self.addresses)
        self.start()

    def start(self):
        # Otherwise no session is longer than 20 ticks, ten seconds, whatever a test asks for.
        command = [PEER, "zookeeper", self.folder, "--port", str(self.ports[0]), "--servers", str(len(self.ports)), "--set", "maxSessionTimeout=60000"]
        if self.network:
            command += ["--hosts", ",".join(host for host, _ in self.addresses)]
            starts = [[*self.network[f"zookeeper{n + 1}"].enter, *command, "--only", str(n + 1)] for n in range(len(self.ports))]
        else:
            starts = [command]
        starts = [subprocess.Popen(list(map(str, start)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for start in starts]
        for start in starts:
            _, said = start.communicate()
            if start.returncode:
                self.stop()
                raise AssertionError(said.decode(errors="replace"))

    def stop(self):
        subprocess.run([PEER, "kill", self.folder])

    def kill(self, name):
        """Kills one server; what starts it again as it was."""
        pid = int((self.folder / f"{name}.pid").read_text())
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
        subprocess.run([PEER, "kill", self.folder, name], check=True)
        if self.network:
            command = [*self.network[name.replace("server", "zookeeper")].enter, *command]

        def again():
            with open(self.folder / f"{name}.log", "ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
            (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")
        return again

    def nodes(self, root):
        return Nodes(self.addresses, root)

    def ask(self, n, word):
        """What server `n`, counted from 0, answers to a word of four letters; nothing if it does not."""
        try:
            return four_letter(self.ports[n], word, self.addresses[n][0])
        except OSError:
            return b""

    def watches(self, root):
        """What each session watches below `root`: paths by session, asked from the servers themselves."""
        found = {}
        for port in self.ports:
            session = None
            for line in four_letter(port, b"wchc").decode().splitlines():
                if line.startswith("0x"):
                    session = int(line, 16)
                elif line.strip().startswith(root + "/"):
                    found.setdefault(session, set()).add(line.strip()[len(root):])
        return found

    def watch_count(self):
        """All watches, of children too."""
        return sum(int(line.split()[1]) for port in self.ports for line in four_letter(port, b"mntr").decode().splitlines() if line.startswith("zk_watch_count"))


def free_row(servers):
    """A port from which on the clients', and 1000 and 2000 higher the servers' own ports are free; not given twice, since
    the servers take them a moment later."""
    # Not where another run looks first that was started a moment before.
    for first in range(24500 + os.getpid() * 37 % 100 * 4, 25400, 4):
        with GIVING:
            if first in GIVEN:
                continue
            GIVEN.add(first)
        try:
            for port in (first + n + offset for n in range(servers) for offset in (0, 1000, 2000)):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise AssertionError("no free ports for ZooKeeper")


def four_letter(port, word, host="127.0.0.1"):
    with socket.create_connection((host, port), 10) as s:
        s.sendall(word)
        parts = []
        while part := s.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


class Nodes:
    """A look at ZooKeeper's nodes from outside, with a session for each question."""

    def __init__(self, addresses, root):
        self.addresses, self.root = addresses, root

    def ask(self, operation, path, tail=b"\0"):
        last = None
        for address in self.addresses:
            try:
                with socket.create_connection(address, 10) as s:
                    s.sendall(frame(i32(0) + i64(0) + i32(10_000) + i64(0) + i32(16) + bytes(16) + b"\0"))
                    answer(s)
                    # What this server has may be old: sync first.
                    s.sendall(frame(i32(1) + i32(9) + text32(self.root + path)))
                    answer(s)
                    s.sendall(frame(i32(2) + i32(operation) + text32(self.root + path) + tail))
                    reply = answer(s)
                    s.sendall(frame(i32(3) + i32(-11)))
                error = struct.unpack_from(">i", reply, 12)[0]
                if error == -101:
                    return None
                assert error == 0, f"ZooKeeper answers {error} for {path}"
                return reply[16:]
            except OSError as error:
                last = error
        raise last

    def get(self, path):
        """(data, the session that the node belongs to or 0); None if there is no such node."""
        reply = self.ask(4, path)
        if reply is None:
            return None
        length = struct.unpack_from(">i", reply)[0]
        data, stat = reply[4:4 + max(length, 0)], reply[4 + max(length, 0):]
        return data, struct.unpack_from(">qqqqiiiqiiq", stat)[7] & (2**64 - 1)

    def created(self, path):
        """The number of the change that made the node; nothing if there is no such node. Another one with the same path has another."""
        reply = self.ask(4, path)
        return reply and struct.unpack_from(">q", reply, 4 + max(struct.unpack_from(">i", reply)[0], 0))[0]

    def all(self, path=""):
        """Everything below `path`: (data or `None`, whether it is ephemeral, data version) by path."""
        found = {}
        for name in self.children(path) or []:
            below = f"{path}/{name}"
            reply = self.ask(4, below)
            if reply is None:
                continue
            length = struct.unpack_from(">i", reply)[0]
            stat = struct.unpack_from(">qqqqiiiqiiq", reply, 4 + max(length, 0))
            found[below] = (None if length < 0 else reply[4:4 + length].decode(), stat[7] != 0, stat[4])
            found.update(self.all(below))
        return found

    def text(self, path):
        found = self.get(path)
        return found and found[0].decode()

    def json(self, path):
        found = self.get(path)
        return found and json.loads(found[0])

    def children(self, path):
        reply = self.ask(8, path)
        if reply is None:
            return None
        names, at = [], 4
        for _ in range(struct.unpack_from(">i", reply)[0]):
            length = struct.unpack_from(">i", reply, at)[0]
            names.append(reply[at + 4:at + 4 + length].decode())
            at += 4 + length
        return names

    def dump(self):
        """Brokers, controller and partitions' states, for a complaint."""
        try:
            return self.state()
        except OSError as error:
            return f"does not answer: {error!r}"

    def state(self):
        lines = [f"{path}: {self.text(path)}" for path in ("/controller", "/controller_epoch")]
        lines += [f"/brokers/ids/{id}: session {self.get(f'/brokers/ids/{id}')[1]:x}" for id in self.children("/brokers/ids") or []]
        for topic in (self.children("/brokers/topics") or [])[:10]:
            for partition in (self.children(f"/brokers/topics/{topic}/partitions") or [])[:10]:
                lines.append(f"{topic}-{partition}: {self.text(f'/brokers/topics/{topic}/partitions/{partition}/state')}")
        return "\n".join(lines)

    def delete(self, path):
        return self.ask(2, path, i32(-1)) is not None

    def create(self, path, data):
        """A persistent node that anybody may change."""
        assert self.ask(1, path, buffer(data) + i32(1) + i32(31) + text32("world") + text32("anyone") + i32(0)) is not None, f"no parent of {path}"

    def set(self, path, data):
        assert self.ask(5, path, buffer(data) + i32(-1)) is not None, f"no {path}"

    def put(self, path, data):
        (self.create if self.get(path) is None else self.set)(path, data)

    def controller(self):
        found = self.json("/controller")
        return found and found["brokerid"]

    def controller_epoch(self):
        return int(self.text("/controller_epoch"))


def text32(s): return i32(len(s)) + s.encode()
def buffer(data): return i32(len(data)) + data


def answer(s):
    def exactly(count):
        data = b""
        while len(data) < count:
            part = s.recv(count - len(data))
            if not part:
                raise ConnectionError("ZooKeeper closed the connection")
            data += part
        return data
    return exactly(struct.unpack(">i", exactly(4))[0])


class Door:
    """The way to ZooKeeper for one broker, which can be shut."""

    def __init__(self, port):
        self.target, self.open, self.pairs = port, True, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self.pairs += [near, far]
            if not self.open:
                self.cut()
                continue
            self.connect(near, far)

    def connect(self, near, far):
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        try:
            self.pass_on(source, sink)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def pass_on(self, source, sink):
        while data := source.recv(1 << 16):
            sink.sendall(data)

    def cut(self):
        for s in list(self.pairs):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.pairs.clear()

    def shut(self):
        self.open = False
        self.cut()

    def unlock(self):
        self.open = True

    def close(self):
        self.shut()
        self.listener.close()


class Tap(Door):
    """A door that reads along: it knows the session, counts writes, and does something when the n-th was made or is to be made."""
    # create, delete, setData, multi, create2
    WRITES = {1, 2, 5, 14, 15}

    def __init__(self, port):
        self.session = self.password = self.fault = self.holding = None
        self.reached, self.released, self.lock, self.left = threading.Event(), threading.Event(), threading.Lock(), 0
        # How many writes were answered.
        self.made = 0
        self.looks = {}
        super().__init__(port)

    def connect(self, near, far):
        writes = set()
        for source, sink, look in ((near, far, self.asked), (far, near, self.answered)):
            threading.Thread(target=self.carry_frames, args=(source, sink, look, writes), daemon=True).start()

    def carry_frames(self, source, sink, look, writes):
        self.looks[source] = (look, writes)
        self.carry(source, sink)

    def pass_on(self, source, sink):
        look, writes = self.looks[source]
        is_first = True
        while True:
            data = answer(source)
            if not look(data, writes, is_first):
                return
            is_first = False
            sink.sendall(frame(data))

    def asked(self, data, writes, is_first):
        if not is_first:
            xid, kind = struct.unpack_from(">ii", data)
            if kind in self.WRITES:
                with self.lock:
                    writes.add(xid)
                    if self.holding == "next":
                        self.holding = "now"
                        self.reached.set()
            if self.holding == "now":
                self.released.wait()
        return True

    def answered(self, data, writes, is_first):
        """Whether it is passed on."""
        if is_first:
            _, _, self.session, length = struct.unpack_from(">iiqi", data)
            self.password = data[20:20 + length]
            return True
        if self.holding == "now":
            self.released.wait()
        xid, = struct.unpack_from(">i", data)
        with self.lock:
            if xid not in writes:
                return True
            writes.remove(xid)
            self.made += 1
            self.left -= 1
            if self.fault is None or self.left != 0:
                return True
            fault, self.fault = self.fault, None
        # ZooKeeper has made the change and says so; nobody hears it.
        fault()
        self.reached.set()
        return False

    def when_made(self, count, fault):
        """Calls `fault` when the `count`-th write from now on was made, whose answer is lost with the connection."""
        with self.lock:
            self.left, self.fault = count, fault
            self.reached.clear()

    def forget(self):
        with self.lock:
            self.fault = None

    def hold_next_write(self):
        """It and everything after it, in both directions, until `release`."""
        self.reached.clear(), self.released.clear()
        self.holding = "next"

    def release(self):
        self.holding = None
        self.released.set()

    def close(self):
        self.release()
        super().close()

    def end_session(self):
        """As if it had expired: whoever knows a session's password may attach to it, and end it."""
        # Otherwise the broker would attach to it again in between.
        self.shut()
        try:
            self.attach_and_end()
        finally:
            self.unlock()

    def attach_and_end(self):
        with socket.create_connection(("127.0.0.1", self.target), 10) as s:
            s.sendall(frame(i32(0) + i64(0) + i32(10_000) + struct.pack(">q", self.session) + i32(len(self.password)) + self.password + b"\0"))
            _, _, session = struct.unpack_from(">iiq", answer(s))
            if session == 0:
                return
            s.sendall(frame(i32(1) + i32(-11)))
            try:
                answer(s)
            except OSError:
                pass


class Gate:
    """The way to one broker, as it advertises itself, which can refuse: then only connections that replicas fetch on live
    on, and later none."""
    FETCH = 1

    def __init__(self, port):
        self.target, self.pairs, self.listener, self.port = port, {}, None, free_ports(1)[0]
        self.listen()

    def listen(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                return
            far.settimeout(None)
            pair = (near, far)
            self.pairs[pair] = None
            threading.Thread(target=self.carry, args=(pair, near, far), daemon=True).start()
            threading.Thread(target=self.carry, args=(pair, far, near), daemon=True).start()

    def carry(self, pair, source, sink):
        try:
            while data := source.recv(1 << 16):
                if source is pair[0] and self.pairs.get(pair, 0) is None and len(data) >= 6:
                    self.pairs[pair] = struct.unpack_from(">h", data, 4)[0]
                sink.sendall(data)
        except OSError:
            pass
        self.end(pair)

    def end(self, pair):
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.pairs.pop(pair, None)

    def refuse(self, fetches):
        """New connections are refused, and existing ones closed: those of fetches too if `fetches`."""
        if self.listener:
            # A thread that waits in accept() would take one more.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        for pair, first in list(self.pairs.items()):
            if fetches or first != self.FETCH:
                self.end(pair)

    def close(self):
        self.refuse(fetches=True)


# Brokers ------------------------------------------------------------------------------------------------

class Broker:
    """One process. Its configuration and data survive `stop` and `kill`."""

    def __init__(self, cluster, id, port, settings, file=None):
        self.cluster, self.id, self.port, self.settings, self.file, self.process = cluster, id, port, settings, file, None
        self.frozen = False
        # On loopback, or on a host of its own in the cluster's network; and how a command gets there.
        self.host, self.enter = (cluster.network[f"broker{id}"].address, cluster.network[f"broker{id}"].enter) if cluster.network else ("127.0.0.1", [])
        self.folder = cluster.folder / f"broker{id}"
        self.folder.mkdir()
        self.log, self.data = self.folder / "broker.log", self.folder / "data"

    def launch(self, *more):
        settings = [f"broker.id={self.id}", f"listeners=PLAINTEXT://{self.host}:{self.port}", f"log.dirs={self.data}", *self.settings, *more]
        command = [*self.enter, self.cluster.binary, "serve", *([str(self.file)] if self.file else []), *(w for s in settings for w in ("--set", s))]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)

    def start(self, *more):
        self.launch(*more)
        self.wait_until_ready()
        return self

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, f"broker {self.id} ended with {self.process.returncode}: {self.tail()}"
            # It is one of those that it names: the controller has told it about the cluster.
            return self.id in self.metadata()["brokers"]
        wait_for(ready, f"broker {self.id} to be ready")

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def serves(self):
        return self.is_up() and not self.frozen

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=PATIENCE):
        self.process.send_signal(signal.SIGTERM)
        self.ended(seconds)

    def ended(self, seconds=PATIENCE):
        code = self.process.wait(timeout=seconds)
        assert code == 0, f"SIGTERM ended broker {self.id} with {code}: {self.tail()}"

    def freeze(self):
        self.frozen = True
        self.process.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.process.pid)

    def thaw(self):
        self.frozen = False
        self.process.send_signal(signal.SIGCONT)

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines=12):
        return "\n".join(self.text().splitlines()[-lines:])

    def wire(self, timeout=20):
        return Wire(self.port, timeout=timeout, host=self.host)

    def ask(self, data, timeout=20):
        with self.wire(timeout) as wire:
            reply = wire.ask(data)
            if reply is None:
                raise ConnectionError(f"broker {self.id} closed the connection")
            return Answer(reply)

    def metadata(self, timeout=20):
        """What this broker knows: brokers, controller, and topics' partitions as dictionaries."""
        reply = self.ask(request(3, 7, i32(-1) + b"\0"), timeout)
        reply.take("i")
        brokers = {}
        for _ in range(reply.take("i")):
            id, _, port, _ = reply.take("i"), reply.text(), reply.take("i"), reply.text()
            brokers[id] = port
        reply.text()
        controller, topics = reply.take("i"), {}
        for _ in range(reply.take("i")):
            error, name, _ = reply.take("h"), reply.text(), reply.take("b")
            partitions = topics[name] = {}
            for _ in range(reply.take("i")):
                _, number, leader, epoch = reply.take("h"), reply.take("i"), reply.take("i"), reply.take("i")
                partitions[number] = {"leader": leader, "epoch": epoch, "replicas": reply.ints(), "isr": reply.ints(), "offline": reply.ints()}
        return {"brokers": brokers, "controller": controller, "topics": topics}


class ApacheBroker(Broker):
    """A broker of Apache Kafka 3.9.2, in a process that is no child of ours."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.pid, self.log, self.data = None, self.folder / f"node{self.id}.log", self.folder / f"node{self.id}"
        self.heap = "512m"

    def launch(self, *more):
        if self.process is not None and self.process.poll() is None:
            return
        # Its start ends with an error while the registration of its last life is there.
        wait_for(lambda: str(self.id) not in (self.cluster.nodes.children("/brokers/ids") or []), f"the last registration of broker {self.id} to expire")
        connect = next(s for s in self.settings if s.startswith("zookeeper.connect=")).partition("=")[2]
        command = [*self.enter, PEER, "kafka", self.folder, "--version", "3.9.2", "--host", self.host, "--zookeeper", connect, "--first-id", self.id, "--port", self.port, "--heap", self.heap,
                   *(w for s in (*self.settings, *more) if not s.startswith("zookeeper.connect=") for w in ("--set", s))]
        # Whoever asks meanwhile must not find the process of its last life.
        self.process = None
        (self.folder / f"node{self.id}.pid").unlink(missing_ok=True)
        self.pid = None
        with open(self.folder / "peer.log", "ab") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_up(self):
        if self.pid is None:
            # The peer ends once the broker listens.
            process = self.process
            if process is None or process.poll() != 0:
                return False
            self.pid = int((self.folder / f"node{self.id}.pid").read_text())
        try:
            return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() in (None, 0), f"broker {self.id} does not start: {(self.folder / 'peer.log').read_text()} {self.tail()}"
            if not self.is_up():
                assert self.pid is None, f"broker {self.id} ended: {self.tail()}"
                return False
            return self.id in self.metadata()["brokers"]
        wait_for(ready, f"broker {self.id} to be ready", 2 * PATIENCE)

    def signal(self, number):
        if self.is_up():
            os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.ended()

    def stop(self, seconds=PATIENCE):
        self.signal(signal.SIGTERM)
        self.ended(seconds)

    def ended(self, seconds=PATIENCE):
        wait_for(lambda: not self.is_up(), f"broker {self.id} to end", seconds)

    def freeze(self):
        self.frozen = True
        self.signal(signal.SIGSTOP)
        wait_until_stopped(self.process.pid)

    def thaw(self):
        self.frozen = False
        self.signal(signal.SIGCONT)


class SmallDisk:
    """A file system of 64 MB for a broker's second log directory. Needs root."""

    def __init__(self, broker, kind):
        self.place, image = broker.folder / "small", broker.folder / "small.img"
        self.place.mkdir()
        if kind == "ext4":
            with open(image, "wb") as file:
                file.truncate(64 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
            subprocess.run(["mount", "-o", "loop", image, self.place], check=True)
        else:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.place], check=True)
        (self.place / "data").mkdir()
        broker.settings = [*broker.settings, f"log.dirs={broker.folder}/data,{self.place}/data"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.place])


def has_no_disks_of_its_own():
    return "skipped: disks of its own need root" if os.geteuid() or not os.path.ismount("/proc") else None


class Answer:
    """Reads an answer from front to back."""

    def __init__(self, data):
        self.data, self.at = data, 4

    def take(self, kind):
        value = struct.unpack_from(">" + kind, self.data, self.at)[0]
        self.at += struct.calcsize(">" + kind)
        return value

    def text(self):
        length = self.take("h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def ints(self):
        return [self.take("i") for _ in range(self.take("i"))]


class Cluster:
    """Brokers 1 to `count` on a path of their own in the ensemble; those with an id in `apache` are Apache Kafka's."""

    def __init__(self, ensemble, folder, binary, *settings, count=3, file=None, ids=None, start=True, apache=(), network=None):
        self.folder, self.binary, self.root = pathlib.Path(folder), binary, "/" + pathlib.Path(folder).name
        self.network = network
        self.ensemble, self.nodes = ensemble, ensemble.nodes("/" + pathlib.Path(folder).name)
        self.settings = [f"zookeeper.connect={ensemble.servers}{self.root}", f"zookeeper.session.timeout.ms={SESSION_MS}",
                         "offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
                         # Leaders move when a test says so, and not five seconds after an election too.
                         "auto.leader.rebalance.enable=false", *settings]
        ids = ids or range(1, count + 1)
        self.brokers = {id: (ApacheBroker if id in apache else Broker)(self, id, port, self.settings, file) for id, port in zip(ids, free_ports(len(ids)))}
        if start:
            self.start()

    def __getitem__(self, id):
        return self.brokers[id]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for broker in self.brokers.values():
            if broker.is_up():
                broker.kill()
                broker.frozen = False

    def up(self):
        """Those that run and are not frozen."""
        return [broker for broker in self.brokers.values() if broker.serves()]

    def start(self):
        for broker in self.brokers.values():
            if not broker.is_up():
                broker.launch()
        for broker in self.brokers.values():
            broker.wait_until_ready()
        wanted = set(self.brokers)
        wait_for(lambda: all(set(b.metadata()["brokers"]) == wanted for b in self.up()), "every broker to know all others")

    def controller(self):
        """The one that ZooKeeper and all brokers name."""
        def agreed():
            id = self.nodes.controller()
            return id is not None and self[id].is_up() and all(b.metadata()["controller"] == id for b in self.up()) and id
        return self[wait_for(agreed, "a controller that all name")]

    def view(self, topic, partition=0, broker=None):
        """The partition as some living broker sees it."""
        return (broker or self.up()[0]).metadata()["topics"][topic][partition]

    def wait(self, topic, what, condition, partition=0, seconds=PATIENCE):
        """Until `condition` holds for the partition in every living broker's metadata; what the first of them sees."""
        return wait_for(lambda: all(condition(self.view(topic, partition, b)) for b in self.up()) and self.view(topic, partition),
                        f"{what} of {topic}-{partition}; seen by {[b.id for b in self.up()]}", seconds)

    def wait_in_sync(self, topic, wanted=None, partition=0):
        wanted = set(wanted or self.brokers)
        return self.wait(topic, f"ISR {sorted(wanted)}", lambda p: set(p["isr"]) == wanted and p["leader"] in wanted, partition)

    def cli(self, *arguments, check=True, stdin=None, asked=None, seconds=90):
        at = ",".join(f"{b.host}:{b.port}" for b in ([asked] if asked else self.up()))
        done = subprocess.run([self.binary, *map(str, arguments), "--broker", at], capture_output=True, timeout=seconds, input=stdin)
        assert not check or done.returncode == 0, f"{arguments}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode() if check else done

    def create(self, topic, partitions=1, replicas=3, **configs):
        extra = [w for key, value in configs.items() for w in ("--config", f"{key.replace('_', '.')}={value}")]
        self.cli("topic", "create", topic, "--partitions", partitions, "--replication-factor", replicas, *extra)
        wait_for(lambda: all(len(b.metadata()["topics"].get(topic, {})) == partitions for b in self.up()), f"{topic} to be known")

    def leader(self, topic, partition=0):
        return self[self.wait(topic, "a living leader", lambda p: p["leader"] in self.brokers and self[p["leader"]].serves(), partition)["leader"]]

    def send(self, topic, values, acks=-1, partition=0, leader=None):
        """One attempt at the leader: (error code, base offset); None for acks=0, which is not answered."""
        records = b"".join(record(value, n) for n, value in enumerate(values))
        with (leader or self.leader(topic, partition)).wire() as wire:
            data = produce(topic, batch(records, len(values)), acks=acks, partition=partition)
            if acks == 0:
                assert wire.send(data)
                # The next answer is that of the next request: this one had none.
                assert wire.ask(API_VERSIONS)
                return None
            reply = wire.ask(data)
            if reply is None:
                raise ConnectionError("closed instead of answered")
            return produce_result(reply)

    def must_send(self, topic, values, acks=-1, partition=0, seconds=PATIENCE):
        """Until it is acknowledged; the base offset."""
        def acknowledged():
            error, offset = self.send(topic, values, acks, partition)
            assert error == 0 or error in RETRIABLE, f"error {error}"
            return error == 0 and (offset,)
        return wait_for(acknowledged, f"{topic}-{partition} to take records", seconds)[0]

    def end(self, topic, partition=0, broker=None):
        """The high watermark at the leader."""
        error, high, _ = fetch_result((broker or self.leader(topic, partition)).ask(fetch(topic, 0, partition=partition, wait=0, max_bytes=1)).data)
        assert error == 0, f"{topic}-{partition}: error {error}"
        return high

    def latest(self, topic, partition=0):
        """(error, the offset where records that can be read end). Unlike what a fetch says it never goes back: who has come to lead
        and has not yet found out how much was committed before says that it does not know."""
        answer = Answer(self.leader(topic, partition).ask(request(2, 1, i32(-1) + i32(1) + text(topic) + i32(1) + i32(partition) + i64(-1))).data)
        assert answer.take("i") == 1 and answer.text() == topic and answer.take("i") == 1 and answer.take("i") == partition
        error, _, offset = answer.take("h"), answer.take("q"), answer.take("q")
        return error, offset

    def read(self, topic, partition=0, start=0):
        """Every record that was committed: values by offset."""
        found, offset, deadline = {}, start, time.monotonic() + 5 * PATIENCE
        while True:
            assert time.monotonic() < deadline, f"{topic}-{partition} is read up to {offset} in {5 * PATIENCE} s"
            error, high, data = fetch_result(self.leader(topic, partition).ask(fetch(topic, offset, partition=partition, wait=0)).data)
            if error in RETRIABLE:
                continue
            assert error == 0, f"{topic}-{partition} at {offset}: error {error}"
            got = {at: value for at, value in plain_values(data).items() if at >= offset}
            found.update(got)
            if not got and offset >= high:
                error, latest = self.latest(topic, partition)
                assert error == 0 or error in RETRIABLE, f"where {topic}-{partition} ends: error {error}"
                if error == 0 and offset >= latest:
                    return found
                continue
            assert got or offset < high
            offset = max(got) + 1 if got else offset

    def replicas_are_equal(self, topic, partition=0):
        """Waits until the logs of all replicas are the same bytes."""
        def logs():
            return {b.id: b"".join(p.read_bytes().rstrip(b"\0") for p in sorted((b.data / f"{topic}-{partition}").glob("*.log"))) for b in self.brokers.values()}
        wait_for(lambda: len(set(logs().values())) == 1, f"equal replicas of {topic}-{partition}")

    def batches_are_equal(self, topic, partition=0):
        """All replicas hold the same batches, byte by byte, below the high watermark, and nothing is left out between them;
        how many. Waits for followers, and not for a difference to go."""
        high = self.end(topic, partition)
        replicas = self.view(topic, partition)["replicas"]
        def held():
            return {id: [b for b in batches(self[id].data / f"{topic}-{partition}") if b[0] < high] for id in replicas}
        wait_for(lambda: all(high == 0 or b and b[-1][1] >= high for b in held().values()), f"all replicas of {topic}-{partition} to hold what is below {high}")
        found = held()
        for id, mine in found.items():
            for (start, end, _), (following, _, _) in zip(mine, mine[1:]):
                assert end == following, f"{topic}-{partition} on broker {id}: {following} follows {end}"
            for a, b in zip(mine, found[replicas[0]]):
                assert a == b, f"{topic}-{partition} at {a[0]}: broker {id} has {a[2].hex()}, broker {replicas[0]} {b[0]} {b[2].hex()}"
            assert len(mine) == len(found[replicas[0]])
        return len(found[replicas[0]])


def batches(folder):
    """(first offset, offset after the last, bytes) of each batch in a partition's folder."""
    found = []
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, at)
            if length < 49 or at + 12 + length > len(data):
                break
            found.append((base, base + 1 + struct.unpack_from(">i", data, at + 23)[0], data[at:at + 12 + length]))
            at += 12 + length
    return found


def acknowledged_again(cluster, topic, partition=0, seconds=PATIENCE):
    """When the first record of a connection of its own was acknowledged by all in sync; asks until then."""
    def acknowledged():
        for broker in cluster.up():
            leader = broker.metadata()["topics"][topic][partition]["leader"]
            if leader in cluster.brokers and cluster[leader].serves():
                error, _ = cluster.send(topic, [b"-1"], partition=partition, leader=cluster[leader])
                return error == 0 and time.monotonic()
    return wait_for(acknowledged, f"{topic}-{partition} to take records again", seconds, 0.005)


class Load(threading.Thread):
    """Sends numbered records one by one, as often as it takes, and remembers which were acknowledged and when."""

    def __init__(self, cluster, topic, acks=-1, partition=0, pause=0.002):
        super().__init__(daemon=True)
        self.cluster, self.topic, self.acks, self.partition, self.pause = cluster, topic, acks, partition, pause
        self.acknowledged, self.times, self.number, self.ending, self.failure = [], [], 0, False, None

    def run(self):
        leader = None
        while not self.ending:
            try:
                leader = self.cluster[self.find()]
                with leader.wire(timeout=3) as wire:
                    while not self.ending:
                        reply = wire.ask(produce(self.topic, batch(record(b"%d" % self.number), 1), acks=self.acks, partition=self.partition))
                        if reply is None:
                            break
                        error, _ = produce_result(reply)
                        if error:
                            if error not in RETRIABLE:
                                self.failure = f"error {error}"
                                return
                            break
                        self.acknowledged.append(self.number)
                        self.times.append(time.monotonic())
                        self.number += 1
                        time.sleep(self.pause)
            except (OSError, LookupError, struct.error):
                pass
            # A number that may or may not be written is not used again.
            self.number += 1
            time.sleep(0.01)

    def find(self):
        for broker in self.cluster.up():
            try:
                leader = broker.metadata()["topics"][self.topic][self.partition]["leader"]
                if leader in self.cluster.brokers and self.cluster[leader].serves():
                    return leader
            except OSError:
                continue
        raise LookupError("no leader")

    def __enter__(self):
        self.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_):
        self.ending = True
        self.join(30)

    def wait_for_more(self, count=20, seconds=PATIENCE):
        wanted = len(self.acknowledged) + count
        wait_for(lambda: self.failure or len(self.acknowledged) >= wanted, f"{count} more acknowledged records", seconds)
        assert not self.failure, self.failure

    def longest_gap(self):
        return max((b - a for a, b in zip(self.times, self.times[1:])), default=0.0)

    def nothing_is_missing(self):
        found = {int(value) for value in self.cluster.read(self.topic, self.partition).values()}
        missing = [n for n in self.acknowledged if n not in found]
        assert not missing, f"{len(missing)} of {len(self.acknowledged)} acknowledged records are missing: {missing[:10]}"
        return len(self.acknowledged)


class Reader(threading.Thread):
    """Reads a partition at its leader, over one connection, and remembers every answer that was none, and the longest wait for one."""

    def __init__(self, cluster, topic, partition=0):
        super().__init__(daemon=True)
        self.cluster, self.topic, self.partition = cluster, topic, partition
        self.offset, self.troubles, self.slowest, self.ending = 0, [], 0.0, False

    def run(self):
        while not self.ending:
            try:
                with self.cluster.leader(self.topic, self.partition).wire() as wire:
                    while not self.ending:
                        begin = time.monotonic()
                        reply = wire.ask(fetch(self.topic, self.offset, partition=self.partition))
                        if reply is None:
                            raise ConnectionError("closed instead of answered")
                        error, _, data = fetch_result(reply)
                        assert error == 0, f"error {error}"
                        self.slowest = max(self.slowest, time.monotonic() - begin)
                        self.offset = max([self.offset - 1, *plain_values(data)]) + 1
            except (OSError, LookupError, AssertionError, struct.error) as trouble:
                self.troubles.append(repr(trouble))
                time.sleep(0.1)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        self.join(30)


# Requests that the command line does not make -----------------------------------------------------------

def create_many(broker, names, partitions=1, replicas=3, check=True):
    body = i32(len(names)) + b"".join(text(n) + i32(partitions) + i16(replicas) + i32(0) + i32(0) for n in names) + i32(60_000) + b"\0"
    reply = broker.ask(request(19, 4, body), timeout=90)
    reply.take("i")
    errors = []
    for _ in range(reply.take("i")):
        name, error, _ = reply.text(), reply.take("h"), reply.text()
        assert not check or error == 0, f"{name}: error {error}"
        errors.append(error)
    return errors[0] if errors else 0


def create_assigned(broker, topic, *partitions, **configs):
    """With the replicas of each."""
    placed = b"".join(i32(n) + i32(len(replicas)) + b"".join(map(i32, replicas)) for n, replicas in enumerate(partitions))
    body = i32(1) + text(topic) + i32(-1) + i16(-1) + i32(len(partitions)) + placed + i32(len(configs))
    body += b"".join(text(key.replace("_", ".")) + text(str(value)) for key, value in configs.items()) + i32(60_000) + b"\0"
    reply = broker.ask(request(19, 4, body), timeout=90)
    reply.take("i"), reply.take("i"), reply.text()
    error = reply.take("h")
    assert error == 0, f"{topic}: error {error}"


def delete(broker, topic):
    """Asks for it, and does not wait for its end."""
    broker.ask(request(20, 1, i32(1) + text(topic) + i32(1)))


def elect_leaders(broker, topic, unclean, partition=0):
    reply = broker.ask(request(43, 1, i8(1 if unclean else 0) + i32(1) + text(topic) + i32(1) + i32(partition) + i32(30_000)), timeout=60)
    reply.take("i")
    error = reply.take("h")
    if error:
        return error
    assert reply.take("i") == 1 and reply.text() == topic and reply.take("i") == 1 and reply.take("i") == partition
    return reply.take("h")


def reassign(broker, topic, partition, replicas):
    """The error of the partition, or that of the whole request. Without replicas, its reassignment is cancelled."""
    wanted = uvarint(0) if replicas is None else uvarint(len(replicas) + 1) + b"".join(map(i32, replicas))
    body = i32(60_000) + uvarint(2) + uvarint(len(topic) + 1) + topic.encode() + uvarint(2) + i32(partition) + wanted + b"\0\0\0"
    reply = broker.ask(request(45, 0, body, flexible=True), timeout=90)
    reply.take("b"), reply.take("i")
    if error := reply.take("h"):
        return error

    def short():
        value, reply.at = read_uvarint(reply.data, reply.at)
        return value

    def skip():
        length = short()
        reply.at += max(length - 1, 0)
    skip()
    assert short() == 2
    skip()
    assert short() == 2 and reply.take("i") == partition
    return reply.take("h")


def read_uvarint(data, at):
    shift = value = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def alter_brokers(broker, settings, name=""):
    """Of the broker called `name`, or of all; without a value a setting is taken away."""
    body = i32(1) + i8(4) + text(name) + i32(len(settings)) + b"".join(text(k) + i8(v is None) + text(v) for k, v in settings.items()) + b"\0"
    reply = broker.ask(request(44, 0, body))
    reply.take("i"), reply.take("i")
    error, message = reply.take("h"), reply.text()
    assert error == 0, f"error {error}: {message}"


def java_hash(name):
    value = 0
    for letter in name:
        value = value * 31 + ord(letter) & 0x7FFFFFFF
    return value
