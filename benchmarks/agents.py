"""What agents cost, how many a screen can ask, and whether anything is lost when links are cut and agents are killed.

Every agent is a process of its own, and so is its NVML with 8 simulated devices; it has a port of its own on loopback,
TLS and a token. A feed like a screen's asks all of them itself, then two `gputune agent --relay` that ask half each.
A link is cut by what passes its bytes on in between: connections are reset, and refused for up to two seconds.
An agent is killed with -9 and started again. Cuts and kills hit agents at random moments, several at once. In the end
what was pulled is compared, tick by tick, with what each agent has on its disk.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil
from all import row
from common import Figure, emit, figure
from recorder_cost import cpu_of

from gputune.core.sample import Sample
from gputune.feeds.rows import Update
from gputune.nodes import onray
from gputune.nodes.feed import NodesFeed
from gputune.recording import lean, readings
from gputune.wire import credentials
from gputune.wire.address import Address, parse
from gputune.wire.client import AgentClient
from gputune.wire.credentials import Credentials
from gputune.wire.keeping import NodeKeeper
from gputune.wire.messages import Since

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "simgpu"))
import simgpu

# Runs that others record on this machine are none of this: an agent would follow them. As root they can be hidden.
HIDDEN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")
ALONE = HIDDEN if subprocess.run([*HIDDEN, "true"], capture_output=True, check=False).returncode == 0 else ()
HEAD = """# Agents

Made by `make bench-agents`. {doc}

| what | value | 95 % interval | budget | holds | measured |
|---|---|---|---|---|---|
"""
DEVICES = 8
WINDOW = 10.0  # s
PATIENCE = 120.0  # s
AT_ONCE = 8  # cuts and kills under way
LONGEST_CUT = 2.0  # s
KILLS = 0.2  # of the events
SLOW = 5.0  # s; whoever is not back by then is told of
RELAYS = 2
RACKS, IN_A_RACK = 4, 40
PARTS = {  # to how their rows begin
    "cost": r"\| agent(: | with )",
    "many": r"\| \d+ agents[: ]",
    "racks": r"\| \d+ nodes ",
    "cuts": r"\| links cut ",
    "ray": r"\| Ray cluster ",
}


@dataclass
class Agent:
    """One agent and its simulated cards. With `relay` it speaks for these instead."""

    folder: Path
    number: int
    known: Path
    process: "subprocess.Popen[bytes] | None" = None
    port: int = 0
    told: dict[str, str] = field(default_factory=dict)
    relay: "Sequence[Agent]" = ()

    def __post_init__(self) -> None:
        """Make its folder and its cards."""
        self.folder.mkdir(mode=0o700)
        simgpu.create(self.folder / "cards", DEVICES)

    def start(self) -> None:
        """Start it, on the port that it had before."""
        announced = self.folder / "announced"
        announced.unlink(missing_ok=True)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        environ |= {"LD_LIBRARY_PATH": str(simgpu.build()), "SIMGPU_STATE": str(self.folder / "cards")}
        words = [
            "--name",
            f"m{self.number}",
            "--state",
            self.folder / "state",
            "--socket",
            self.folder / "s" / "a.sock",
        ]
        words += ["--listen", f"127.0.0.1:{self.port}", "--credentials", self.known, "--announce", announced, "--quiet"]
        words += ["--until-eof"]  # it ends with this process, however that does
        if self.relay:
            words += ["--relay", ",".join(f"m{each.number}=127.0.0.1:{each.port}" for each in self.relay)]
        self.process = subprocess.Popen(
            [*ALONE, sys.executable, "-m", "gputune", "agent", *map(str, words)],
            env=environ,
            cwd=self.folder,
            stdin=subprocess.PIPE,
        )
        until = time.monotonic() + PATIENCE
        while not announced.exists():
            if self.process.poll() is not None and time.monotonic() < until:
                time.sleep(0.5)  # a connection of somebody has had its port for a moment
                self.start()
                return
            if time.monotonic() > until:
                raise SystemExit(f"agent {self.number} did not start")
            time.sleep(0.01)
        self.told = json.loads(announced.read_text())
        self.port = int(self.told["listen"].rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.communicate(timeout=PATIENCE)
            self.process = None


class Relay:
    """Passes bytes on to an agent's port, until it is cut."""

    def __init__(self, to: Agent) -> None:
        self._to = to
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._begin()

    def _begin(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", self._to.port), 5)
            except OSError:
                if listener.fileno() < 0:
                    return
                with contextlib.suppress(UnboundLocalError):
                    here.close()
                continue
            self._open |= {here, there}
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open -= {source, sink}

    def cut(self, seconds: float) -> None:
        """Reset all connections, and refuse new ones for so long."""
        self.close()
        time.sleep(seconds)
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._begin()

    def close(self) -> None:
        """Listen no more, and reset who is connected."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                each.shutdown(socket.SHUT_RDWR)


def started(folder: Path, count: int, stack: ExitStack) -> list[Agent]:
    """Return so many running agents."""
    credentials.make(folder / "credentials", ["127.0.0.1"])
    agents = [Agent(folder / f"m{number}", number, folder / "credentials") for number in range(count)]
    for agent in agents:
        agent.start()
        stack.callback(agent.end)
    return agents


def addresses(ports: Sequence[int]) -> list[Address]:
    """Return loopback's addresses of these ports."""
    return [parse(f"m{number}=127.0.0.1:{port}") for number, port in enumerate(ports)]


def pss(pid: int) -> float:
    """Return what a process holds, its share of shared pages included, B."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024.0
    return 0.0


def rss(pid: int) -> float:
    """Return resident memory, B."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cost(folder: Path, windows: int) -> Iterator[Figure]:
    """One agent that one screen asks once a second."""
    with ExitStack() as stack:
        (agent,) = started(folder, 1, stack)
        known = credentials.read(folder / "credentials", credentials.CLIENT)
        feed = NodesFeed(addresses([agent.port]), known)
        stack.callback(feed.close)
        assert agent.process is not None
        pid = agent.process.pid
        time.sleep(12)  # it looks more closely at first
        shares, memory = [], []
        for _ in range(windows):
            before, at = cpu_of(pid), time.monotonic()
            time.sleep(WINDOW)
            shares.append((cpu_of(pid) - before) / (time.monotonic() - at))
            memory.append(rss(pid))
    yield figure(f"agent with {DEVICES} devices, asked once a second: CPU with its NVML process", "ratio", shares, 0.01)
    yield figure("agent: resident memory", "MB", [m / 1e6 for m in memory], 80.0)


def many(folder: Path, count: int, windows: int) -> Iterator[Figure]:
    """Ask many real agents as a screen does: each of them, and then two relays that ask half of them each."""
    with ExitStack() as stack:
        agents = started(folder, count, stack)
        known = credentials.read(folder / "credentials", credentials.CLIENT)
        yield from asked(f"{count} agents", addresses([agent.port for agent in agents]), agents, known, windows)
        held = [pss(agent.process.pid) / 1e6 for agent in agents if agent.process]
        yield figure(f"{count} agents: memory of each (PSS)", "MB", held)
        relays = [
            Agent(folder / f"rack{number}", count + number, folder / "credentials", relay=agents[number::RELAYS])
            for number in range(RELAYS)
        ]
        for relay in relays:
            relay.start()
            stack.callback(relay.end)
        name = f"{count} agents through {RELAYS} relays"
        yield from asked(name, addresses([relay.port for relay in relays]), relays, known, windows, nodes=count)


def asked(  # noqa: PLR0913, PLR0917 - who is asked, and how long
    name: str, there: list[Address], whom: "Sequence[Agent | Rack]", known: Credentials, windows: int, nodes: int = 0
) -> Iterator[Figure]:
    """Yield what a screen's feed of these addresses costs it and whom it asks, of `nodes` nodes in all."""
    wanted = nodes or len(there)
    began = time.monotonic()
    feed = NodesFeed(there, known)
    try:
        while sum(node.link == "up" for node in feed.poll(0).nodes) < wanted:
            if time.monotonic() - began > PATIENCE:
                raise SystemExit("not all agents answer")
            time.sleep(0.01)
        up = time.monotonic() - began
        update, shares, ages, theirs = feed.poll(0), [], [], []
        for _ in range(windows):
            before, at = time.process_time(), time.monotonic()
            used = sum(cpu_of(agent.process.pid) for agent in whom if agent.process)
            for _ in range(int(WINDOW)):
                time.sleep(1)
                update = feed.poll(update.until)
                now = time.time()
                ages += [now - node.seen for each in feed.rounds for node in each.rows()]
            passed = time.monotonic() - at
            shares.append((time.process_time() - before) / passed)
            used = sum(cpu_of(agent.process.pid) for agent in whom if agent.process) - used
            theirs.append(used / len(whom) / passed)
        lost = sum(node.link != "up" for node in feed.poll(0).nodes)
    finally:
        feed.close()
    who = "CPU of each relay" if nodes else "CPU of each, all at once on this machine"
    yield Figure(f"{name}: until all of them have answered", "s", up, up, up)
    yield figure(f"{name}: the screen's feed, CPU", "ratio", shares)
    if isinstance(whom[0], Agent):  # what a made-up relay costs is mostly to make things up
        yield figure(f"{name}: {who}", "ratio", theirs)
    yield figure(f"{name}: age of a node's last news", "s", sorted(ages)[:: max(1, len(ages) // 500)])
    yield Figure(f"{name}: links that were not up at the end", "1", lost, lost, lost, 0)


@dataclass
class Rack:
    """A relay of made-up nodes (`agents_rack.py`), a process of its own."""

    process: "subprocess.Popen[str]"
    port: int

    @classmethod
    def start(cls, number: int, nodes: int, folder: Path, known: Path) -> "Rack":
        """Start it, and wait until it listens."""
        words = [sys.executable, Path(__file__).with_name("agents_rack.py"), number, nodes, folder, known]
        process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert process.stdout is not None
        return cls(process, int(process.stdout.readline()))

    def end(self) -> None:
        """End it."""
        self.process.communicate(timeout=PATIENCE)


def racks(folder: Path, windows: int) -> Iterator[Figure]:
    """Ask relays of made-up nodes, each with a live run, over TLS: what a screen of them has to take in."""
    known = folder / "credentials"
    credentials.make(known, ["127.0.0.1"])
    with ExitStack() as stack:
        found = []
        for number in range(RACKS):
            found.append(Rack.start(number, IN_A_RACK, folder, known))
            stack.callback(found[-1].end)
        nodes = RACKS * IN_A_RACK
        name = f"{nodes} nodes with live runs through {RACKS} relays"
        client = credentials.read(known, credentials.CLIENT)
        there = addresses([rack.port for rack in found])
        yield from asked(name, there, found, client, windows, nodes=nodes)
        sizes = [told(address, client) for address in there[:5]]
        yield figure(f"{name}: what a relay has to say each second", "MB", [size / 1e6 for size in sizes])


def told(address: Address, known: Credentials) -> float:
    """Return the bytes of all news of an agent."""
    far, since, size = AgentClient(address, known), Since(), 0
    while True:
        news = far.news(since)
        update = msgspec.json.decode(news.update, type=Update)
        size += len(news.update)
        since = Since(until=update.until, life=news.life)
        if not update.more:
            far.close()
            return float(size)


class Disturber:
    """Cuts links and kills agents at random; `waits` are (killed, seconds until rows came and the screen had news)."""

    def __init__(self, folder: Path, count: int, events: int, stack: ExitStack) -> None:
        self.agents = started(folder, count, stack)
        self.relays = [Relay(agent) for agent in self.agents]
        known = credentials.read(folder / "credentials", credentials.CLIENT)
        there = addresses([relay.port for relay in self.relays])
        self.keepers = [NodeKeeper(address, known, folder / "kept" / address.name) for address in there]
        self.waits: list[tuple[bool, float]] = []
        self._feed = NodesFeed(there, known)
        stack.callback(self._feed.close)
        self._left = events
        self.failed: list[BaseException] = []
        self._chance = random.Random(4)
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do it all, then read what is left."""
        for keeper in self.keepers:
            keeper.start()
        parts = [range(len(self.agents))[part::AT_ONCE] for part in range(AT_ONCE)]
        threads = [threading.Thread(target=self._guarded, args=(part,)) for part in parts if part]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(3)
        for keeper in self.keepers:
            keeper.end()
        for keeper in self.keepers:
            keeper.join()
        for agent, relay in zip(self.agents, self.relays, strict=True):
            agent.end()
            relay.close()

    def _guarded(self, mine: Sequence[int]) -> None:
        try:
            self._disturb(mine)
        except BaseException as error:  # noqa: BLE001 - a thread's end is silent else
            self.failed.append(error)

    def _disturb(self, mine: Sequence[int]) -> None:
        while True:
            with self._lock:
                if not self._left:
                    return
                self._left -= 1
                number = self._chance.choice(mine)
                kill, pause = self._chance.random() < KILLS, self._chance.uniform(0, LONGEST_CUT)
            if kill:
                self.agents[number].end(signal.SIGKILL)
                time.sleep(pause / 4)
                self.agents[number].start()
            else:
                self.relays[number].cut(pause)
            wait = self._until_back(number)
            with self._lock:
                self.waits.append((kill, wait))
            time.sleep(pause / 4)

    def _until_back(self, number: int) -> float:
        """Return how long it takes until rows and news have come."""
        began, keeper, asked = time.monotonic(), self.keepers[number], self._feed.rounds[number]
        rows, at = keeper.reader.rows, dict[str, float]()
        while len(at) < 2:
            if keeper.reader.rows > rows:
                at.setdefault("rows", time.monotonic() - began)
            if asked.answers:
                at.setdefault("news", time.monotonic() - began)
            if time.monotonic() - began > PATIENCE:
                raise SystemExit(f"agent {number} is not back: {keeper.trouble}, {asked.why}")
            time.sleep(0.005)
        if max(at.values()) > SLOW:
            print(f"{at}, load {os.getloadavg()[0]:.0f}", file=sys.stderr)
        return max(at.values())


def times(folder: Path) -> list[int]:
    """Return the times of all ticks of a recording in µs, which is what Parquet has."""
    found = ([s.t for s in tick if isinstance(s, Sample)] for tick in readings(folder))
    return [max(tick) // 1000 for tick in found if tick]


def cuts(folder: Path, count: int, events: int) -> Iterator[Figure]:
    """Yield what was lost, and how long it took to be back."""
    with ExitStack() as stack:
        disturber = Disturber(folder, count, events, stack)
        disturber.run()
    if disturber.failed:
        raise SystemExit(f"{len(disturber.failed)} threads failed: {disturber.failed[0]}")
    lost = doubled = rows = 0
    for agent, keeper in zip(disturber.agents, disturber.keepers, strict=True):
        pulled, written = times(folder / "kept" / keeper.address.name), times(agent.folder / "state" / "machine")
        there = Counter(t for t in written if t <= max(pulled))
        lost += (there - Counter(pulled)).total()
        doubled += (Counter(pulled) - there).total()
        rows += len(pulled)
    slow = sorted(wait for _, wait in disturber.waits)
    kills = sum(kill for kill, _ in disturber.waits)
    note = f"{len(slow) - kills} cuts, {kills} kills, {rows} rows of {count} agents"
    name = "links cut and agents killed"
    yield Figure(f"{name}: rows that were lost", "1", lost, lost, lost, 0, note)
    yield Figure(f"{name}: rows that came twice", "1", doubled, doubled, doubled, 0)
    late = f"{sum(wait > SLOW for wait in slow)} took longer" if slow[-1] > SLOW else ""
    yield Figure(f"{name}: until rows and news come again, the longest", "s", slow[-1], slow[-1], slow[-1], SLOW, late)
    edge = len(slow) // 40
    yield Figure(f"{name}: the median of it", "s", statistics.median(slow), slow[edge], slow[-1 - edge])


def kill_all(raylet: int) -> None:
    """Kill a node of a cluster on one machine as if it lost its power: its raylet, its workers, and their agents."""
    tree = psutil.Process(raylet)
    for process in (tree, *tree.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def ray_nodes(folder: Path, kills: int) -> Iterator[Figure]:
    """Kill nodes of a real Ray cluster, one after the other, and yield how long it takes until each is marked."""
    from ray.cluster_utils import Cluster as Real  # noqa: PLC0415 - the user's own, and only for this

    real = Real(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [real.add_node(num_cpus=1) for _ in range(2)]
    ray = onray.connect(real.address)
    told: list[str] = []
    waits: list[float] = []
    cluster = onray.ClusterAgents(ray, folder / "credentials", told.append)

    def look(done: Callable[[Counter[str]], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not done(Counter(member.state for member in cluster.members.values())):
            if time.monotonic() > until:
                raise SystemExit(f"the cluster's agents do not come to that: {told}")
            time.sleep(onray.LOOK_S)
            cluster.look()

    try:
        look(lambda states: states["up"] == 3)
        for _ in range(kills):
            gone = nodes.pop(0)
            kill_all(gone.all_processes["raylet"][0].process.pid)
            began = time.monotonic()
            look(lambda states: states["up"] == 2)
            waits.append(time.monotonic() - began)
            look(lambda states: states["silent"] == 0)
            nodes.append(real.add_node(num_cpus=1))
            look(lambda states: states["up"] == 3)
        cluster.close()
    finally:
        ray.shutdown()
        real.shutdown()
    yield figure(f"Ray cluster of three nodes: a killed node is marked after ({kills} kills)", "s", waits, 5.0)


def table(file: Path, found: dict[str, list[Figure]]) -> str:
    """Return the file anew: rows of the parts that were measured; the others, and the words below, as they stand."""
    old = file.read_text().splitlines() if file.exists() else []
    rows = {part: [line for line in old if re.match(words, line)] for part, words in PARTS.items()}
    day = time.strftime("%Y-%m-%d")
    for part, figures in found.items():
        rows[part] = [row(one, None).rstrip().removesuffix("|").rstrip() + f" {day} |" for one in figures]
    last = max((number for number, line in enumerate(old) if line.startswith("|")), default=len(old))
    lines = [line for part in rows.values() for line in part] + old[last + 1 :]
    return HEAD.format(doc=" ".join((__doc__ or "").split())) + "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--agents", type=int, default=64)
    options.add_argument("--cuts", type=int, default=1000)
    options.add_argument("--disturbed", type=int, default=16, help="agents that links are cut of")
    options.add_argument("--windows", type=int, default=6)
    options.add_argument("--only", choices=list(PARTS), action="append")
    options.add_argument("--markdown", type=Path, help="put the figures into this file too")
    chosen = options.parse_args()
    lean()
    wanted = chosen.only or ["cost", "many", "racks", "cuts", *(["ray"] if find_spec("ray") else [])]
    parts: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="gputune-agents-") as folder:
        base = Path(folder)
        for name in wanted:
            (base / name).mkdir()
            if name == "cost":
                found = list(cost(base / name, chosen.windows))
            elif name == "many":
                found = list(many(base / name, chosen.agents, chosen.windows))
            elif name == "racks":
                found = list(racks(base / name, chosen.windows))
            elif name == "ray":
                found = list(ray_nodes(base / name, 5))
            else:
                found = list(cuts(base / name, chosen.disturbed, chosen.cuts))
            emit(found)
            parts[name] = found
    if chosen.markdown:
        chosen.markdown.write_text(table(chosen.markdown, parts))


if __name__ == "__main__":
    main()
