"""Consumers that stall in the middle of an answer while leaders move: whatever they got is in the log, or above the high watermark that they were told."""
import hashlib
from cluster import *

TOPIC = "flips"
# An answer that fits into no socket's buffers: most of it is sent after the leader has moved.
ANSWER_BYTES, RECORD_BYTES, RECORDS = 400_000, 1500, 4
WAYS = ["elect", "elect", "elect", "kill", "freeze"]


class Flipping:
    """A topic of `partitions` over three brokers, its load and its consumers."""

    def __init__(self, cluster, partitions=3, seed=1):
        self.cluster, self.partitions, self.random = cluster, range(partitions), random.Random(seed)
        self.moved, self.changed = [0] * partitions, threading.Condition()
        self.ending, self.failures = False, []
        self.acknowledged = [{} for _ in self.partitions]  # the first value by base offset, of acks=all
        self.ends = [0] * partitions
        # (partition, base, end, digest of the bytes, high watermark told)
        self.received, self.stalls, self.cut_short = [], 0, 0
        cluster.create(TOPIC, partitions, segment_bytes=1_000_000)
        for p in self.partitions:
            cluster.wait_in_sync(TOPIC, partition=p)
        self.threads = [threading.Thread(target=self.guarded, args=(work, p), daemon=True) for p in self.partitions
                        for work in (lambda p: self.write(p, -1), lambda p: self.write(p, 1), self.consume, self.consume)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        with self.changed:
            self.changed.notify_all()
        for thread in self.threads:
            thread.join(60)

    def guarded(self, work, partition):
        try:
            while not self.ending:
                try:
                    work(partition)
                except (OSError, LookupError, struct.error, AttributeError):
                    # Whoever is asked for the leader may have just been killed.
                    time.sleep(0.02)
        except AssertionError as failure:
            self.failures.append(str(failure))

    def find(self, partition):
        for broker in self.cluster.up():
            try:
                leader = broker.metadata(timeout=3)["topics"][TOPIC][partition]["leader"]
            except OSError:
                continue
            if leader in self.cluster.brokers and self.cluster[leader].serves():
                return self.cluster[leader]
        raise LookupError("no leader")

    def write(self, partition, acks):
        with self.find(partition).wire(timeout=3) as wire:
            while not self.ending:
                name = b"%d/%d:%d " % (partition, acks, random.getrandbits(60))
                values = [name + bytes([n]) * RECORD_BYTES for n in range(RECORDS)]
                data = batch(b"".join(record(value, n) for n, value in enumerate(values)), RECORDS)
                reply = wire.ask(produce(TOPIC, data, acks=acks, partition=partition))
                if reply is None:
                    return
                error, base = produce_result(reply)
                assert error == 0 or error in RETRIABLE, f"error {error}"
                if error:
                    time.sleep(0.02)
                    return
                self.ends[partition] = base + RECORDS
                if acks == -1:
                    self.acknowledged[partition][base] = values[0]
                time.sleep(0.01)

    def consume(self, partition):
        """One answer: its beginning, and the rest when the leader has moved."""
        start = max(0, self.ends[partition] - ANSWER_BYTES // RECORD_BYTES)
        leader = self.find(partition)
        with Wire(leader.port, timeout=5, receive_buffer=4096, host=leader.host) as wire:
            wire.send(fetch(TOPIC, start, partition=partition, max_bytes=ANSWER_BYTES, wait=200))
            head = wire.exactly(4)
            if head is None:
                return
            length = struct.unpack(">i", head)[0]
            # Header, topic and partition, up to the records.
            first = wire.exactly(min(length, 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 18 + 4 + 4 + random.choice([0, 1, 61, 5000, 30_000])))
            if first is None:
                return
            with self.changed:
                seen = self.moved[partition]
                # Sometimes nothing moves: then it reads on, and asks again.
                has_moved = self.changed.wait_for(lambda: self.ending or self.moved[partition] > seen, 10)
            rest, wire_ended = bytearray(), False
            while len(rest) < length - len(first):
                try:
                    part = wire.socket.recv(min(length - len(first) - len(rest), 1 << 16))
                except OSError:
                    part = b""
                if not part:
                    wire_ended = True
                    break
                rest += part
        self.keep(partition, first + rest)
        self.stalls += bool(has_moved and not self.ending and length > 100_000)
        self.cut_short += wire_ended

    def keep(self, partition, data):
        """Every whole batch of an answer, of which the end may be missing."""
        if len(data) < 54:
            return
        error, high, records = fetch_result(data + bytes(8))
        assert error == 0 or error in RETRIABLE or error == OFFSET_OUT_OF_RANGE, f"a fetch: error {error}"
        at = 0
        while error == 0 and at + 61 <= len(records):
            base, size = struct.unpack_from(">qi", records, at)
            assert 49 <= size < 100_000, f"what follows offset {self.received[-1:]} of partition {partition} is no batch: {records[at:at + 61].hex()}"
            end = at + 12 + size
            # What was appended above is no part of it.
            if end > len(records) or end > len(data) - 8:
                break
            last = base + struct.unpack_from(">i", records, at + 23)[0]
            self.received.append((partition, base, last + 1, hashlib.sha1(records[at:end]).digest(), high))
            at = end

    # Moves ---------------------------------------------------------------------------------------------

    def flip(self, count):
        """Moves leaders until `count` partitions have another one than before; by way, how many."""
        # From then on answers are large enough to stall in.
        wait_for(lambda: min(self.ends) * RECORD_BYTES > ANSWER_BYTES / 2, "records to read")
        moves = dict.fromkeys(WAYS, 0)
        while sum(moves.values()) < count:
            assert not self.failures, self.failures
            before = [self.cluster.wait(TOPIC, "a leader", lambda p: p["leader"] in self.cluster.brokers, p)["leader"] for p in self.partitions]
            way = self.random.choice(WAYS)
            victim = self.cluster[self.random.choice(before)]
            if way == "elect":
                self.elect(before)
            elif way == "kill":
                victim.kill()
            else:
                victim.freeze()
            if way != "elect":
                for p in self.partitions:
                    self.cluster.wait(TOPIC, "another leader", lambda at: at["leader"] in self.cluster.brokers and at["leader"] != victim.id, p)
            after = [self.cluster.view(TOPIC, p)["leader"] for p in self.partitions]
            with self.changed:
                for p in self.partitions:
                    if after[p] != before[p]:
                        self.moved[p] += 1
                        moves[way] += 1
                self.changed.notify_all()
            if way == "kill":
                self.restart(victim)
            elif way == "freeze":
                victim.thaw()
            for p in self.partitions:
                self.cluster.wait_in_sync(TOPIC, partition=p)
        return moves

    @staticmethod
    def restart(victim):
        """As who supervises it does: on a busy machine ZooKeeper may not answer a start in time."""
        deadline = time.monotonic() + 5 * PATIENCE
        while True:
            try:
                victim.start()
                return
            except AssertionError:
                if victim.is_up() or time.monotonic() > deadline:
                    raise

    def elect(self, before):
        """Each partition's next replica is preferred, and elected."""
        for p in self.partitions:
            replicas = self.cluster.view(TOPIC, p)["replicas"]
            start = replicas.index(before[p]) + 1
            wanted = [replicas[(start + n) % len(replicas)] for n in range(len(replicas))]
            # Whoever was the controller may have been killed a moment ago.
            wait_for(lambda: reassign(self.cluster.controller(), TOPIC, p, wanted) == 0, f"a reassignment of {TOPIC}-{p}")
        for p in self.partitions:
            def elected():
                elect_leaders(self.cluster.controller(), TOPIC, unclean=False, partition=p)
                at = self.cluster.view(TOPIC, p)
                return at["leader"] == at["replicas"][0]
            wait_for(elected, f"the preferred leader of {TOPIC}-{p}")

    # What it comes to -----------------------------------------------------------------------------------

    def judge(self):
        """What was received against the final log; says what there was of it. To be called after the load has ended."""
        assert not self.failures, self.failures
        final, high = {}, {}
        for p in self.partitions:
            self.cluster.wait_in_sync(TOPIC, partition=p)
            self.cluster.batches_are_equal(TOPIC, p)
            leader = self.cluster.leader(TOPIC, p)
            high[p] = self.cluster.end(TOPIC, p)
            for base, end, data in batches(leader.data / f"{TOPIC}-{p}"):
                final[p, base] = (end, hashlib.sha1(data).digest(), data)
        below = above = 0
        for p, base, end, digest, told in self.received:
            if base >= told:
                above += 1
                continue
            below += 1
            assert (p, base) in final, f"partition {p}: a batch at {base} was received below {told}, and is not in the log"
            assert final[p, base][:2] == (end, digest), f"partition {p}: the batch at {base}, received below {told}, is another one in the log"
        assert below > 0 and self.stalls > 0, f"too little happened: {self.stalls} stalls, {below} batches"
        count = 0
        for p in self.partitions:
            for base, value in self.acknowledged[p].items():
                assert (p, base) in final and value in final[p, base][2], f"partition {p}: what was acknowledged at {base} is missing"
                count += 1
        return f"{self.stalls} answers were in the middle when the leader moved, {self.cut_short} of all ended there; {below} batches received below the high watermark, {above} above; {count} acknowledged by all"
