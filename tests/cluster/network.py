"""Hosts of a run's own: namespaces of the network on one bridge, and what is cut between them.

Everything is in a namespace that this process has entered for itself, so nothing outside sees it or is changed by it, and
all of it goes when the processes go. Needs root, ip, tc, nsenter and unshare (iproute2, util-linux), and nft (nftables).
"""
import contextlib, ctypes, json, os, shutil, subprocess

NEW_NETWORK = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def what_is_missing():
    """Why there can be no such network here, or nothing."""
    if os.geteuid() != 0:
        return "hosts of their own need root"
    missing = [tool for tool in ("ip", "tc", "nsenter", "unshare", "nft") if not shutil.which(tool)]
    return f"{', '.join(missing)} not found (packages iproute2, util-linux, nftables)" if missing else None


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run(*command, stdin=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, input=stdin)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


class Host:
    """A namespace with one interface on the bridge. It lives until its holder's standard input closes."""

    def __init__(self, network, name, number):
        self.name, self.address, self.port = name, f"10.77.0.{10 + number}", f"to{number}"
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.holder.stdout.readline()
        self.enter = ["nsenter", "--net", "--target", str(self.holder.pid), "--"]
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        run("ip", "link", "set", self.port, "master", "bridge0", "up")
        run(*self.enter, "ip", "link", "set", "lo", "up")
        run(*self.enter, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.enter, "ip", "link", "set", "eth0", "up")

    def move_this_thread(self):
        """From here on, connections that the calling thread opens begin at this host."""
        with open(f"/proc/{self.holder.pid}/ns/net") as namespace:
            checked(LIBC.setns(namespace.fileno(), NEW_NETWORK))

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()


class Network:
    """Hosts by name, and who watches all of them from a place that is never cut off: this process."""
    WATCHER = "10.77.0.1"

    def __init__(self, *names):
        missing = what_is_missing()
        if missing:
            raise OSError(missing)
        checked(LIBC.unshare(NEW_NETWORK))
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge0", "type", "bridge")
        run("ip", "address", "add", f"{self.WATCHER}/24", "dev", "bridge0")
        run("ip", "link", "set", "bridge0", "up")
        run("nft", "add table bridge faults; add chain bridge faults cuts { type filter hook forward priority 0; }")
        self.hosts = {name: Host(self, name, number) for number, name in enumerate(names)}

    def __getitem__(self, name):
        return self.hosts[name]

    def close(self):
        for host in self.hosts.values():
            host.close()

    @contextlib.contextmanager
    def cut(self, pairs, percent=100):
        """No packet, or so many in a hundred fewer, from the first to the second of each pair; how many were dropped is in the list."""
        chance = "" if percent >= 100 else f"numgen random mod 100 < {percent} "
        rules = "".join(f"add rule bridge faults cuts ip saddr {self[a].address} ip daddr {self[b].address} {chance}counter drop\n" for a, b in pairs)
        dropped = [0]
        run("nft", "-f", "-", stdin=rules.encode())
        try:
            yield dropped
        finally:
            found = json.loads(run("nft", "-j", "list", "chain", "bridge", "faults", "cuts"))
            dropped[0] = sum(e["counter"]["packets"] for rule in found["nftables"] if "rule" in rule for e in rule["rule"]["expr"] if "counter" in e)
            run("nft", "flush", "chain", "bridge", "faults", "cuts")

    @contextlib.contextmanager
    def slow(self, name, rate="96kbit", wait="1s"):
        """What leaves the host, and what it gets, waits in a queue up to `wait` and is dropped beyond it; how many packets waited or were dropped."""
        host, waited = self[name], [0]
        ends = [([], host.port), (host.enter, "eth0")]
        for enter, device in ends:
            run(*enter, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "4kb", "latency", wait)
        try:
            yield waited
        finally:
            for enter, device in ends:
                for queue in json.loads(run(*enter, "tc", "-s", "-j", "qdisc", "show", "dev", device)):
                    waited[0] += queue.get("overlimits", 0) + queue.get("drops", 0) if queue["kind"] == "tbf" else 0
                run(*enter, "tc", "qdisc", "del", "dev", device, "root")


def both(ones, others):
    return [pair for a in ones for b in others if a != b for pair in ((a, b), (b, a))]


def one_way(ones, others):
    return [(a, b) for a in ones for b in others if a != b]
