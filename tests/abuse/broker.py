"""A `barnabas serve` that is about to have trouble."""
import pathlib, re, signal, socket, subprocess, time
from wire import *


NOT_LEADER_OR_FOLLOWER = 6


class Broker:
    """Its configuration and data survive `stop` and `kill`."""

    def __init__(self, folder, binary, *settings):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.folder, self.binary, self.log = pathlib.Path(folder), str(pathlib.Path(binary).resolve()), pathlib.Path(folder) / "broker.log"
        if not any(s.startswith("log.dirs=") for s in settings):
            settings = (f"log.dirs={folder}/data", *settings)
        self.settings = [f"listeners=PLAINTEXT://127.0.0.1:{self.port}", "max.connections=4000", *settings]
        self.start()

    def command(self, *settings):
        return [self.binary, "serve", *[w for s in (*self.settings, *settings) for w in ("--set", s)]]

    def start(self, seconds=30):
        self.process = subprocess.Popen(self.command(), stdout=open(self.log, "ab"), stderr=subprocess.STDOUT, cwd=self.folder)
        begin = time.monotonic()
        while True:
            assert self.process.poll() is None and time.monotonic() < begin + seconds, f"no start: {self.tail()}"
            try:
                with self.wire() as wire:
                    if wire.ask(API_VERSIONS):
                        return time.monotonic() - begin
            except OSError:
                pass
            time.sleep(0.005)

    def stop(self, seconds=60):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=seconds)
        assert code == 0, f"SIGTERM ended the broker with {code}: {self.tail()}"
        return time.monotonic() - begin

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tail(self, lines=15):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def resident(self):
        """MiB."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def refusals(self):
        return [line for line in self.log.read_text(errors="replace").splitlines() if "refused" in line]

    def wire(self, **options):
        return Wire(self.port, **options)

    def create(self, topic, partitions=1, configs={}):
        with self.wire(timeout=60) as wire:
            answer = wire.ask(create_topic(topic, partitions, configs))
            code = struct.unpack_from(">h", answer, len(answer) - 2)[0]
            assert code == 0, f"{topic}: error {code}"

    def read_all(self, topic, partition=0):
        """Every record's value by offset. Waits for a log that is being recovered."""
        offset, found, deadline = 0, {}, time.monotonic() + 120
        with self.wire(timeout=60) as wire:
            while True:
                error, high, data = fetch_result(wire.ask(fetch(topic, offset, partition=partition, wait=0)))
                if error == NOT_LEADER_OR_FOLLOWER and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                assert error == 0, f"{topic}-{partition} at {offset}: error {error}"
                got = plain_values(data)
                found.update(got)
                if not got or offset >= high:
                    return found
                offset = max(got) + 1
