"""What disks do to replicas: bits that flip, directories that are empty at a start. Rows of docs/rot.md. Run by `run`."""
import os, pathlib, re, shutil, struct
from cluster import *

CORRUPT_MESSAGE = 2
# Everything is looked at again and again, a moment after the start.
SCRUB = ("barnabas.log.scrub.interval.ms=200", "barnabas.log.scrub.max.bytes.per.second=1000000000", "log.initial.task.delay.ms=200")
# What a broker must say of damage, and nothing else.
DAMAGE = r"damaged batches start in this part of the file"


def flip(path, position, mask=1):
    """Behind the back of whoever has the file: it looks as if nobody had written to it."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def segments(broker, topic, partition=0):
    """The files of batches that are not appended to any more."""
    return sorted((broker.data / f"{topic}-{partition}").glob("*.log"))[:-1]


def fill(cluster, topic, partition=0, count=60):
    """Several segments of several batches; the values by offset."""
    sent = {}
    for n in range(count):
        values = [b"%d-%d" % (n, k) + b"." * 300 for k in range(3)]
        first = cluster.must_send(topic, values, partition=partition)
        sent.update(enumerate(values, first))
    return sent


def whole(broker, topic, partition=0):
    """All bytes of a partition's batches."""
    return b"".join(bytes for _, _, bytes in batches(broker.data / f"{topic}-{partition}"))


def wait_until_mended(cluster, topic, bytes, partition=0):
    def differing():
        return [b.id for b in cluster.brokers.values() if whole(b, topic, partition) != bytes]
    wait_for(lambda: not differing(), f"replicas of {topic}-{partition} to be mended", 2 * PATIENCE, 0.2)


@test
def a_flipped_bit_is_repaired_by_the_others(start):
    """In cold segments of a follower, of the leader (both running, two different segments), and of a replica that is stopped."""
    cluster = start(*SCRUB)
    cluster.create("t", 1, 3, segment_bytes=10_000)
    cluster.wait_in_sync("t")
    sent = fill(cluster, "t")
    cluster.batches_are_equal("t")
    leader = cluster.leader("t")
    follower, other = [b for b in cluster.up() if b is not leader]
    bytes = whole(leader, "t")
    cold = segments(leader, "t")
    assert len(cold) >= 4, f"{len(cold)} segments are complete"
    # The leader epoch, which no checksum of Kafka's covers.
    flip(segments(follower, "t")[0], 15)
    wait_until_mended(cluster, "t", bytes)
    assert cluster.leader("t") is leader, "followers are mended without a change of leaders"
    assert set(cluster.view("t")["isr"]) == set(cluster.brokers), "a damaged replica stays in sync"
    # A record.
    flip(cold[1], 100)
    wait_until_mended(cluster, "t", bytes)
    cluster.wait_in_sync("t")
    assert cluster.leader("t") is not leader, "who is damaged hands over"
    assert cluster.read("t") == sent
    # Both a follower and the leader, in different places.
    leader = cluster.leader("t")
    follower = next(b for b in cluster.up() if b is not leader)
    flip(segments(leader, "t")[2], 100), flip(segments(follower, "t")[3], 100)
    wait_until_mended(cluster, "t", bytes)
    cluster.wait_in_sync("t")
    # A length, in one that is stopped, and that leads again.
    other.stop()
    flip(segments(other, "t")[0], 10)
    other.start()
    wait_until_mended(cluster, "t", bytes)
    cluster.wait_in_sync("t")
    assert cluster.read("t") == sent
    assert cluster.must_send("t", [b"more"]) == max(sent) + 1
    mended = sum(len(re.findall("mended: what was damaged", b.text())) for b in cluster.brokers.values())
    return f"{len(cold)} segments, mended {mended} times"
a_flipped_bit_is_repaired_by_the_others.expected = DAMAGE


# Where the fields of a batch are; the byte that flips is their last.
FIELDS = {"base offset": 7, "length": 11, "leader epoch": 15, "magic": 16, "checksum": 20, "attributes": 22, "last offset delta": 26,
          "base timestamp": 34, "largest timestamp": 42, "producer id": 50, "producer epoch": 52, "base sequence": 56, "record count": 60,
          "a record": 100}
# Files beside the first segment, or the second: there is no snapshot where a log begins.
BESIDE = {"offset index": "index", "time index": "timeindex", "checksums": "checksums", "producer snapshot": "snapshot"}
TABLE = ROOT / "docs" / "rot.md"
BEGIN, END = "<!-- written by tests/cluster/run -->\n", "<!-- to here -->\n"


def flip_in(broker, topic, partition, what, segment):
    """In a batch in the middle of a segment, or in a file beside it."""
    path = segments(broker, topic, partition)[segment]
    if what in FIELDS:
        data = path.read_bytes()
        flip(path, 12 + struct.unpack_from(">i", data, 8)[0] + FIELDS[what])
    else:
        path = path.with_suffix("." + BESIDE[what])
        flip(path, path.stat().st_size // 2)


def offsets_in(broker, topic, partition, segment):
    """Of the records in a segment."""
    bases = [int(path.stem) for path in segments(broker, topic, partition)[segment:segment + 2]]
    return set(range(*bases))


def damage(broker):
    """What the broker says of damaged files."""
    return "\n".join(line for line in broker.text().splitlines() if re.search(DAMAGE, line))


def refused(cluster, topic, partition, sent):
    """The offsets that cannot be read; what can is as it was sent."""
    found = set()

    def read(offset):
        with cluster.leader(topic, partition).wire() as wire:
            for offset in range(offset, max(sent) + 1):
                error, _, data = fetch_result(wire.ask(fetch(topic, offset, partition=partition, wait=0, max_bytes=4000)))
                if error == CORRUPT_MESSAGE:
                    found.add(offset)
                    continue
                if error in RETRIABLE:
                    return offset
                assert error == 0, f"{topic}-{partition} at {offset}: error {error}"
                got = plain_values(data)
                assert offset in got, f"{topic}-{partition} at {offset}: not there, but {sorted(got)}"
                wrong = {at for at, value in got.items() if sent[at] != value}
                assert not wrong, f"{topic}-{partition}: other records at {sorted(wrong)}"
        return None
    at = 0
    def is_read():
        nonlocal at
        at = read(at)
        return at is None
    wait_for(is_read, f"{topic}-{partition} to be read to its end")
    return found


@test
def whatever_flips_is_refused_or_mended(start):
    """A bit of each field of a batch, and of each file beside the segment; one replica or three; while the broker runs or is stopped.
    What happened is the table of docs/rot.md (UPDATE=1 writes it)."""
    cluster = start(*SCRUB)
    items = [*FIELDS, *BESIDE]
    victim = next(b for b in cluster.up() if b is not cluster.controller())
    others = [b for b in cluster.up() if b is not victim]
    # A partition for each, twice: the second is for when the broker is stopped.
    count = 2 * len(items)
    small = {"segment_bytes": 10_000, "index_interval_bytes": 1000}
    create_assigned(cluster.controller(), "one", *[[victim.id]] * count, **small)
    create_assigned(cluster.controller(), "three", *[[victim.id, others[0].id, others[1].id]] * count, **small)
    sent = {}
    for topic in ("one", "three"):
        for partition in range(count):
            cluster.wait_in_sync(topic, [victim.id] if topic == "one" else None, partition)
            with cluster.leader(topic, partition).wire() as wire:
                values = sent[topic, partition] = {}
                for n in range(14):
                    three = [b"%d-%d" % (n, k) + b"." * 900 for k in range(3)]
                    error, first = produce_result(wire.ask(produce(topic, batch(b"".join(record(v, k) for k, v in enumerate(three)), 3), acks=-1, partition=partition)))
                    assert error == 0, f"{topic}-{partition}: error {error}"
                    values.update(enumerate(three, first))
    for partition in range(count):
        cluster.batches_are_equal("three", partition)
    bytes = {partition: whole(victim, "three", partition) for partition in range(count)}

    def look(first):
        """What became of the partitions from `first` on, in a column for each topic."""
        columns = []
        for topic in ("one", "three"):
            column = {}
            for partition, what in enumerate(items, first):
                values = sent[topic, partition]
                if topic == "three":
                    wait_until_mended(cluster, topic, bytes[partition], partition)
                    cluster.wait_in_sync(topic, partition=partition)
                elif what in FIELDS:
                    # Unlike rot, a write here may be seen in memory before anybody can know.
                    wait_for(lambda: f"/{topic}-{partition}/" in damage(victim), f"{topic}-{partition} to be found damaged: {what}")
                lacks = refused(cluster, topic, partition, values)
                segment = offsets_in(victim, topic, partition, 1)
                assert lacks in (set(), segment), f"{topic}-{partition}, {what}: {sorted(lacks)} cannot be read"
                mended = any(re.search(rf"mended.*partition={topic}-{partition}\b", b.text()) for b in cluster.brokers.values())
                column[what] = "refused" if lacks else "mended" if mended else "as written"
            columns.append(column)
        return columns

    # While all run; of three replicas the leader, and a follower in another segment.
    for partition, what in enumerate(items):
        flip_in(victim, "one", partition, what, 1)
        flip_in(victim, "three", partition, what, 1)
        flip_in(others[0], "three", partition, what, 2)
    running = look(0)
    victim.stop()
    for partition, what in enumerate(items, len(items)):
        flip_in(victim, "one", partition, what, 1)
        flip_in(victim, "three", partition, what, 1)
    victim.start()
    for partition in range(count):
        cluster.wait_in_sync("three", partition=partition)
    stopped = look(len(items))
    columns = [running[0], stopped[0], running[1], stopped[1]]
    lines = ["| what flips | one replica; it runs | is stopped | three; leader and a follower run | one is stopped |", "|---|---|---|---|---|"]
    lines += [f"| {what} | " + " | ".join(column[what] for column in columns) + " |" for what in items]
    table = "\n".join(lines) + "\n"
    before, _, rest = TABLE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    if os.environ.get("UPDATE"):
        TABLE.write_text(before + BEGIN + table + END + after)
    else:
        assert written == table, f"docs/rot.md says otherwise:\n{table}"
whatever_flips_is_refused_or_mended.expected = DAMAGE


whatever_flips_is_refused_or_mended.takes_minutes = True
