"""What clients of a cluster saw while it suffered, and what is wrong with it afterwards.

Each value says who sent it and is its how-manyeth: `plain-3:17`. After the faults a partition is read as a whole, by a
client of its own, and compared with all that was acknowledged, sent, and read on the way."""
import os, random, struct, subprocess, sys, tempfile, threading, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import *

DUPLICATE_SEQUENCE, NOT_ENOUGH_AFTER_APPEND = 46, 20


class Client(threading.Thread):
    """Finds the leader of one partition again and again, and works with it over one connection as long as that goes."""
    # Shorter than any session timeout here: who waits longer sees a new leader late.
    ANSWER, CONNECT = 3, 1

    def __init__(self, cluster, topic, partition, name, host=None):
        super().__init__(daemon=True, name=name)
        self.cluster, self.topic, self.partition, self.host = cluster, topic, partition, host
        self.ending, self.trouble, self.dice = False, [], random.Random(name)

    def run(self):
        if self.host:
            self.host.move_this_thread()
        while not self.ending:
            try:
                with self.find().wire(self.CONNECT) as wire:
                    wire.socket.settimeout(self.ANSWER)
                    self.work(wire)
            except (OSError, LookupError, struct.error):
                pass
            except AssertionError as violation:
                self.trouble.append(f"{self.name} of {self.topic}-{self.partition}: {violation}")
            time.sleep(0.02)

    def find(self):
        """As any one broker says, a different one each time: the one that was asked last time may be cut off."""
        brokers = self.cluster.up()
        if not brokers:
            raise LookupError("no broker is up")
        leader = self.dice.choice(brokers).metadata(self.CONNECT)["topics"][self.topic][self.partition]["leader"]
        if leader not in self.cluster.brokers or not self.cluster[leader].serves():
            raise LookupError("no leader")
        return self.cluster[leader]

    def work(self, wire):
        raise NotImplementedError

    def finish(self):
        self.ending = True
        self.join(60)
        if self.is_alive():
            self.trouble.append(f"{self.name} of {self.topic}-{self.partition} hangs")


class Producer(Client):
    """One record at a time with acks=all. A plain one takes a new number once it does not know what became of the last; an
    idempotent one sends the same batch until it is acknowledged."""

    def __init__(self, *arguments, idempotent=False, pause=0.03):
        super().__init__(*arguments)
        self.idempotent, self.pause = idempotent, pause
        self.number, self.identity, self.acknowledged, self.times = 0, (-1, -1), [], []

    def work(self, wire):
        if self.idempotent and self.identity == (-1, -1):
            answer = Answer(wire.ask(request(22, 0, text(None) + i32(60_000))) or b"")
            _, error = answer.take("i"), answer.take("h")
            if error:
                return
            self.identity = answer.take("q"), answer.take("h")
        while not self.ending:
            number = self.number
            if not self.idempotent:
                self.number += 1
            producer = (*self.identity, number if self.idempotent else -1)
            value = b"%s:%d" % (self.name.encode(), number)
            reply = wire.ask(produce(self.topic, batch(record(value), 1, producer=producer), partition=self.partition))
            if reply is None:
                return
            error, offset = produce_result(reply)
            if error == DUPLICATE_SEQUENCE and self.idempotent:
                error, offset = 0, None
            if error:
                assert error in RETRIABLE, f"error {error} for number {number}"
                return
            self.acknowledged.append((offset, number))
            self.times.append(time.monotonic())
            if self.idempotent:
                self.number += 1
            time.sleep(self.pause)


class Watcher(Client):
    """Reads at the leader, goes back a little whenever it finds another one, and remembers each value and its offset."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.seen, self.offset, self.high, self.went_back = {}, 0, 0, 0

    def work(self, wire):
        at = max(0, self.offset - 50)
        while not self.ending:
            reply = wire.ask(fetch(self.topic, at, partition=self.partition, wait=500, minimum=2000))
            if reply is None:
                return
            error, high, data = fetch_result(reply)
            assert error != OFFSET_OUT_OF_RANGE, f"{at} is out of range, and was read up to {self.offset}"
            if error:
                return
            self.went_back += high < self.high
            self.high = high
            for offset, value in plain_values(data).items():
                if offset < at:
                    continue
                before = self.seen.setdefault(offset, value)
                assert before == value, f"at {offset} was {before!r} and is {value!r}"
                at = offset + 1
            self.offset = max(self.offset, at)


class Kcat(threading.Thread):
    """Numbers through one idempotent producer of librdkafka, five requests in flight, to any partition of a topic."""

    def __init__(self, cluster, topic, host=None, pause=0.01):
        super().__init__(daemon=True)
        self.topic, self.number, self.ending, self.pause = topic, 0, False, pause
        # It complains of each connection that is lost, and stops for good where nobody reads that.
        self.said = tempfile.TemporaryFile()
        address = ",".join(f"{b.host}:{b.port}" for b in cluster.brokers.values())
        # With a shorter socket.timeout.ms than its minute librdkafka 2.0 sends on before it has sent again what timed out, and gives up.
        settings = ["enable.idempotence=true", "message.timeout.ms=0", "linger.ms=5", "reconnect.backoff.max.ms=1000",
                    "topic.metadata.refresh.interval.ms=5000"]
        self.process = subprocess.Popen([*(host.enter if host else []), "kcat", "-E", "-b", address, "-P", "-t", topic, *(w for s in settings for w in ("-X", s))],
                                        stdin=subprocess.PIPE, stderr=self.said)

    def run(self):
        try:
            while not self.ending:
                self.process.stdin.write(b"kcat:%d\n" % self.number)
                self.process.stdin.flush()
                self.number += 1
                time.sleep(self.pause)
            self.process.stdin.close()
        except OSError:
            pass

    def finish(self):
        """What it complains of; nothing if everything was acknowledged."""
        self.ending = True
        try:
            code = self.process.wait(timeout=180)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "nothing: it does not get rid of its records"
        self.join(60)
        self.said.seek(0)
        lines = [line for line in self.said.read().decode(errors="replace").splitlines() if "FATAL" in line or "Failed to" in line]
        return [f"kcat ended with {code}: {lines[:2]}"] if code else []


def anomalies(found, producers, watchers, sent_once=None):
    """What is wrong with one partition, by kind, each with the first cases in words. `found`: what is read in the end, by
    offset; `sent_once`: of a producer whose acknowledgements were not seen, only that all was acknowledged."""
    wrong = {kind: [] for kind in ("missing", "twice", "moved", "order", "vanished", "unknown")}
    by_value = {}
    for offset, value in found.items():
        if value in by_value:
            wrong["twice"].append(f"{value!r} at {by_value[value]} and {offset}")
        by_value.setdefault(value, offset)
    known = {producer.name: producer for producer in producers}
    numbers = {}
    for offset, value in sorted(found.items()):
        name, _, number = value.decode(errors="replace").rpartition(":")
        numbers.setdefault(name, []).append((int(number) if number.isdigit() else -1, offset))
        last = known[name].number if name in known else sent_once if name == "kcat" else None
        if last is None or not 0 <= numbers[name][-1][0] <= last:
            wrong["unknown"].append(f"{value!r} at {offset}")
    for producer in producers:
        before = -1
        for offset, number in producer.acknowledged:
            at = by_value.get(b"%s:%d" % (producer.name.encode(), number))
            if at is None:
                wrong["missing"].append(f"{producer.name}:{number}, acknowledged at {offset}")
            elif offset is not None and at != offset:
                wrong["moved"].append(f"{producer.name}:{number}, acknowledged at {offset}, is at {at}")
            if at is not None:
                if at <= before:
                    wrong["order"].append(f"{producer.name}:{number} at {at}, and an earlier one at {before}")
                before = at
    for name, sequence in numbers.items():
        # Who sends again what it does not know to be there must not overtake itself.
        if name == "kcat" or name in known and known[name].idempotent:
            for (a, _), (b, offset) in zip(sequence, sequence[1:]):
                if b < a or b > a + 1 and name != "kcat":
                    wrong["order"].append(f"{name}:{b} at {offset} after {name}:{a}")
    for watcher in watchers:
        for offset, value in watcher.seen.items():
            if found.get(offset) != value:
                wrong["vanished"].append(f"{value!r} was read at {offset}, where {found.get(offset)!r} is now")
    return wrong


def gaps(times, longer_than=1.0):
    """(begin, end) of each time without an acknowledgement."""
    times = sorted(times)
    return [(a, b) for a, b in zip(times, times[1:]) if b - a > longer_than]
