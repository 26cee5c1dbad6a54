"""What tests with real clients and Apache's brokers share: brokers of both kinds, commands, things fetched once."""
import argparse, os, pathlib, shutil, signal, socket, subprocess, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path.home() / ".cache" / "barnabas-tests"
PEER = ROOT / "tools" / "kafka-peer"
# What the command was called with; `binary` is used here.
OPTIONS = argparse.Namespace()


class Broker:
    """A `barnabas serve` in a folder; its configuration and data survive `stop` and `kill`."""

    def __init__(self, folder, *settings, port=None):
        self.folder, self.port, self.process = pathlib.Path(folder), port or free_port(), None
        self.settings = [f"listeners=PLAINTEXT://127.0.0.1:{self.port}", f"log.dirs={self.folder}/data",
                         "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4", *settings]
        self.address = f"127.0.0.1:{self.port}"

    def start(self):
        command = [OPTIONS.binary, "serve", *[word for s in self.settings for word in ("--set", s)]]
        self.log = open(self.folder / "broker.log", "ab")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, cwd=self.folder)
        wait_until(lambda: self.answers(), f"the broker to listen on {self.address}")
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the broker ended with {self.process.returncode}: {tail(self.folder / 'broker.log')}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"SIGTERM ended the broker with {code}: {tail(self.folder / 'broker.log')}"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tail(path, lines=12):
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def wait_until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def run(*command, stdin=None, seconds=180, check=True, env=None):
    done = subprocess.run([str(c) for c in command], input=stdin, capture_output=True, timeout=seconds, env=env)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))[:400]} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')[-2000:]}{done.stdout.decode(errors='replace')[-800:]}")
    return done.stdout


def once(name, build):
    folder = CACHE / name
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build(folder)
        (folder / "done").touch()
    return folder


def tool(version, name, *arguments, **options):
    return run(PEER, "tool", version, name, *arguments, **options)
