"""Kafka's protocol by hand, right or wrong on purpose; nothing but Python's standard library."""
import gzip, socket, struct, zlib


def i8(n): return struct.pack(">b", n)
def i16(n): return struct.pack(">h", n)
def i32(n): return struct.pack(">i", n)
def i64(n): return struct.pack(">q", n)
def text(s): return i16(-1) if s is None else i16(len(s)) + s.encode()
def frame(payload): return i32(len(payload)) + payload


def uvarint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def varint(n): return uvarint((n << 1) ^ (n >> 63))


def header(api, version, correlation=1, client="abuse", flexible=False):
    return i16(api) + i16(version) + i32(correlation) + text(client) + (b"\0" if flexible else b"")


def request(api, version, body, **options):
    return frame(header(api, version, **options) + body)


_CRC32C = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    _CRC32C.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def record(value, delta=0, key=None, headers=b"\0"):
    body = b"\0" + varint(0) + varint(delta) + (varint(-1) if key is None else varint(len(key)) + key) + varint(len(value)) + value + headers
    return varint(len(body)) + body


def batch(payload, count, codec=0, attributes=0, crc=None, last_delta=None, length=None, magic=2, now=None, producer=(-1, -1, -1)):
    import time
    now = int(time.time() * 1000) if now is None else now
    tail = i16(attributes | codec) + i32(count - 1 if last_delta is None else last_delta) + i64(now) + i64(now)
    tail += i64(producer[0]) + i16(producer[1]) + i32(producer[2]) + i32(count) + payload
    crc = crc32c(tail) if crc is None else crc
    rest = i32(0) + i8(magic) + struct.pack(">I", crc) + tail
    return i64(0) + i32(len(rest) if length is None else length) + rest


def legacy(value, magic=1, codec=0, offset=0, crc=None):
    body = i8(magic) + i8(codec) + (i64(1_600_000_000_000) if magic else b"") + i32(-1) + i32(len(value)) + value
    crc = zlib.crc32(body) if crc is None else crc
    return i64(offset) + i32(4 + len(body)) + struct.pack(">I", crc) + body


def produce(topic, records, version=7, acks=-1, partition=0, **options):
    body = (text(None) if version >= 3 else b"") + i16(acks) + i32(5000) + i32(1) + text(topic) + i32(1) + i32(partition) + i32(len(records)) + records
    return request(0, version, body, **options)


def fetch(topic, offset, version=4, max_bytes=50 << 20, wait=100, minimum=1, partition=0, **options):
    body = i32(-1) + i32(wait) + i32(minimum) + i32(max_bytes) + i8(0) + i32(1) + text(topic) + i32(1) + i32(partition) + i64(offset) + i32(max_bytes)
    return request(1, version, body, **options)


def create_topic(topic, partitions=1, configs={}):
    body = i32(1) + text(topic) + i32(partitions) + i16(1) + i32(0) + i32(len(configs))
    body += b"".join(text(k) + text(v) for k, v in configs.items()) + i32(30000)
    return request(19, 0, body)


API_VERSIONS = request(18, 0, b"")


# Decompression bombs: a few bytes that become many ---------------------------------------------------

def huge_record(size):
    """The first bytes of a record with a value of `size` bytes; all that follows may be zeros."""
    start = b"\0" + varint(0) + varint(0) + varint(-1) + varint(size)
    return varint(len(start) + size + 1) + start


def gzip_bomb(size, start=b""):
    packer = zlib.compressobj(1, wbits=31)
    parts = [packer.compress(start)]
    zeros = bytes(1 << 20)
    parts += [packer.compress(zeros) for _ in range(size >> 20)]
    return b"".join(parts) + packer.compress(b"\0") + packer.flush()


def zstd_bomb(size, start=b""):
    block = 128 << 10
    out = bytearray(struct.pack("<I", 0xFD2FB528) + bytes([0, (17 - 10) << 3]))
    if start:
        out += (len(start) << 3).to_bytes(3, "little") + start
    count = size // block
    for at in range(count):
        out += (block << 3 | 1 << 1 | (at == count - 1)).to_bytes(3, "little") + b"\0"
    return bytes(out)


def xxh32(data, seed=0):
    """Of fewer than 16 bytes."""
    mask = 0xFFFFFFFF
    hash = seed + 374761393 + len(data) & mask
    for byte in data:
        hash = hash + byte * 374761393 & mask
        hash = (hash << 11 | hash >> 21) * 2654435761 & mask
    hash = (hash ^ hash >> 15) * 2246822519 & mask
    hash = (hash ^ hash >> 13) * 3266489917 & mask
    return hash ^ hash >> 16


def lz4_bomb(size, start=b""):
    # Independent blocks of 4 MiB, no checksums.
    descriptor = bytes([0x60, 0x70])
    out = bytearray(struct.pack("<I", 0x184D2204) + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]))
    if start:
        out += struct.pack("<I", 1 << 31 | len(start)) + start
    length = (4 << 20) - 1 - 5
    extra = length - 4 - 15
    block = bytes([0x1F]) + b"\0" + struct.pack("<H", 1) + b"\xff" * (extra // 255) + bytes([extra % 255]) + bytes([0x50]) + bytes(5)
    for _ in range(size // (4 << 20)):
        out += struct.pack("<I", len(block)) + block
    return bytes(out + bytes(4))


def snappy_bomb(size, start=b""):
    """Raw snappy: copies of 64 bytes, three bytes each."""
    start = start or b"\0"
    copies = size // 64
    out = uvarint(len(start) + copies * 64) + bytes([(len(start) - 1) << 2]) + start
    return out + (bytes([63 << 2 | 2]) + struct.pack("<H", 1)) * copies


def snappy_that_claims(size):
    return uvarint(size) + b"\0\0" + bytes(60)


# A connection -----------------------------------------------------------------------------------------

class Wire:
    def __init__(self, port, timeout=20, receive_buffer=None, host="127.0.0.1"):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, port))

    def send(self, data):
        """Whether all was taken: a broker may close while we still talk."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)

    def answer(self):
        """The next answer without its length; None if the broker closed."""
        length = self.exactly(4)
        return length and self.exactly(struct.unpack(">i", length)[0])

    def ask(self, data):
        self.send(data)
        return self.answer()

    def is_closed(self):
        return self.answer() is None

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def produce_result(answer):
    """(error, base offset) in the answer to `produce`."""
    at = 4 + 4
    at += 2 + struct.unpack_from(">h", answer, at)[0] + 4 + 4
    return struct.unpack_from(">hq", answer, at)


def produce_error(answer):
    return produce_result(answer)[0]


def fetch_result(answer):
    """(error, high watermark, bytes of records) of a `fetch` of version 4."""
    at = 4 + 4 + 4
    at += 2 + struct.unpack_from(">h", answer, at)[0] + 4 + 4
    error, high, _ = struct.unpack_from(">hqq", answer, at)
    at += 18
    aborted = struct.unpack_from(">i", answer, at)[0]
    at += 4 + 16 * max(aborted, 0)
    return error, high, answer[at + 4:at + 4 + max(0, struct.unpack_from(">i", answer, at)[0])]


def read_varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def plain_values(data):
    """The values by offset of batches that are not compressed, or with gzip."""
    found, at = {}, 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        records = data[at + 61:end]
        if data[at + 22] & 7 == 1:
            records = gzip.decompress(records)
        place = 0
        for _ in range(struct.unpack_from(">i", data, at + 57)[0]):
            size, place = read_varint(records, place)
            following = place + size
            place += 1
            _, place = read_varint(records, place)
            delta, place = read_varint(records, place)
            key, place = read_varint(records, place)
            place += max(key, 0)
            size, place = read_varint(records, place)
            found[base + delta] = records[place:place + size]
            place = following
        at = end
    return found
