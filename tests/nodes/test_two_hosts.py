"""One job on two hosts, each a network namespace with a name and a /dev/shm of its own, and a desk that looks on.

desk  10.77.0.1  bridge ── m8  10.77.0.8
                        └─ m9  10.77.0.9
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from gputune.feeds.rows import RunRow
from gputune.tui.lines import Canvas
from gputune.tui.pages.run import run_page
from gputune.wire import credentials

HOSTS = {"desk": "10.77.0.1", "m8": "10.77.0.8", "m9": "10.77.0.9"}
PORT = "7070"
HOLD = 'hostname "$0" && mount -t tmpfs none /dev/shm && ip link set lo up && echo ready && exec cat'
PACE = 25e6  # B/s of the narrow link: 200 Mbit/s
TRAIN = """
import fcntl, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Store(Dataset):  # it serves one request at a time, and rank 1's is slow: more readers only queue longer
    def __init__(self, seconds, gate): self.seconds, self.gate = seconds, gate
    def __len__(self): return 8 * 80
    def __getitem__(self, index):
        with open(self.gate, "w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            time.sleep(self.seconds)
        return torch.full((64,), index / len(self))

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Store(0.016 if rank else 0.0005, f"gate-{rank}"), 8, num_workers=2)
dist.barrier()
for x in loader:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
Wait = Callable[[Callable[[], object]], None]
pytestmark = pytest.mark.long


class Host:
    """A network namespace, held by a process that ends with its input."""

    def __init__(self, name: str) -> None:
        self.name, self.ip = name, HOSTS[name]
        own = ["unshare", "--net", "--uts", "--mount", "sh", "-c", HOLD, name]
        self.holder = subprocess.Popen(
            own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline().strip() != "ready":
            _, said = self.holder.communicate(timeout=60)
            pytest.skip(f"no namespaces of one's own here: {said.strip()}")

    def words(self, *command: object) -> list[str]:
        """Return a command line that runs a command there."""
        where = ["--target", str(self.holder.pid), "--net", "--uts", "--mount"]
        return ["nsenter", *where, "--", *map(str, command)]

    def do(self, *command: object, check: bool = True) -> str:
        """Run a command there and return what it prints."""
        done = subprocess.run(
            self.words(*command), capture_output=True, text=True, timeout=120, check=False, env=plain()
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def close(self) -> None:
        self.holder.communicate(timeout=60)


def plain(**more: str) -> dict[str, str]:
    """Return an environment in which no launcher and no gputune has said anything."""
    launchers = ("RANK", "LOCAL_", "OMPI_", "SLURM_", "GPUTUNE_", "MPI_", "MASTER_", "TORCHELASTIC_", "GROUP_", "ROLE_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith((*launchers, "WORLD_SIZE"))}
    return {**kept, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", **more}


@pytest.fixture
def hosts() -> Iterator[SimpleNamespace]:
    """Three hosts on one bridge; skipped where that is not allowed."""
    missing = [name for name in ("unshare", "nsenter", "ip", "hostname") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"{', '.join(missing)} is missing here" if missing else "only root makes network namespaces")
    made: list[Host] = []
    try:
        made.extend(map(Host, HOSTS))
        desk, *nodes = made
        try:
            desk.do("ip", "link", "add", "br0", "type", "bridge")
            desk.do("ip", "address", "add", f"{desk.ip}/24", "dev", "br0")
            desk.do("ip", "link", "set", "br0", "up")
            for node in nodes:
                peer = ["peer", "name", "eth0", "netns", str(node.holder.pid)]
                desk.do("ip", "link", "add", node.name, "type", "veth", *peer)
                desk.do("ip", "link", "set", node.name, "master", "br0", "up")
                node.do("ip", "address", "add", f"{node.ip}/24", "dev", "eth0")
                node.do("ip", "link", "set", "eth0", "up")
        except AssertionError as error:
            pytest.skip(f"this kernel makes no bridge: {error}")
        yield SimpleNamespace(desk=desk, m8=nodes[0], m9=nodes[1], nodes=nodes)
    finally:
        for each in reversed(made):
            each.close()


@pytest.fixture
def seen(hosts: SimpleNamespace, tmp_path: Path, eventually: Wait) -> Iterator[Callable[..., str]]:
    """Return what runs `gputune` at the desk with the credentials for the agents that serve both nodes."""
    known = tmp_path / "c"
    credentials.make(known, [node.ip for node in hosts.nodes])
    running = []
    for node in hosts.nodes:
        folder = tmp_path / node.name
        folder.mkdir(mode=0o700)
        words = ["--name", node.name, "--listen", f"{node.ip}:{PORT}", "--credentials", known]
        words += ["--state", folder / "state", "--socket", folder / "a.sock"]
        words += ["--announce", folder / "announced", "--quiet", "--until-eof"]
        command = node.words(sys.executable, "-m", "gputune", "agent", *words)
        running.append(subprocess.Popen(command, env=plain(), stdin=subprocess.PIPE))
        eventually((folder / "announced").exists)

    def gputune(*words: object) -> str:
        return hosts.desk.do(sys.executable, "-m", "gputune", *words, "--credentials", known)

    yield gputune
    for process in running:
        process.communicate(timeout=60)


def rank(hosts: SimpleNamespace, number: int, folder: Path) -> "subprocess.Popen[str]":
    """Start one node's half of a job of two ranks, as a user does: torchrun there, and a watch around the rank."""
    launcher = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number)]
    launcher += ["--master-addr", hosts.m8.ip, "--master-port", "29500", "--no-python"]
    watch = [sys.executable, "-m", "gputune", "watch", "--out", folder / "job", "--", sys.executable]
    return subprocess.Popen(
        hosts.nodes[number].words(sys.executable, *launcher, *watch, folder / "train.py"),
        env=plain(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


ADDRESSES = f"m8={HOSTS['m8']}:{PORT},m9={HOSTS['m9']}:{PORT}"


def test_a_slow_rank_on_another_host_is_named_once_with_its_cause_and_on_the_screen(
    hosts: SimpleNamespace, seen: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "train.py").write_text(TRAIN)
    ranks = [rank(hosts, number, tmp_path) for number in range(2)]
    said = [process.communicate(timeout=180)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said
    if any("the verdict is without" in text for text in said):
        pytest.skip("this machine was so busy that one watch did not wait for the other")
    findings = {row["id"]: row for row in json.loads((tmp_path / "job" / "findings.json").read_text())["findings"]}
    named = findings["straggling-rank"]
    assert named["evidence"]["rank"] == 1.0
    assert named["says"].startswith("rank 1 needs ")
    assert "the difference is input" in named["says"]
    assert ["rank 1 needs" in text for text in said].count(True) == 1  # the verdict is printed once

    document = json.loads(seen("tui", "--nodes", ADDRESSES, "--json"))
    assert {node["name"]: node["link"] for node in document["nodes"]} == {"m8": "up", "m9": "up"}
    rows = msgspec.convert(document["runs"], list[RunRow])
    (job,) = [row for row in rows if row.id == "m8/job"]
    page = run_page(job, Canvas(120, 40))
    text = "\n".join([each.text for each in page.head] + [page.line(k).text for k in range(len(page))])
    assert "straggling-rank" in text
    assert "rank 1 needs" in text
    assert "m9" in text


def test_a_narrow_link_between_two_hosts_is_measured_as_it_is(hosts: SimpleNamespace, seen: Callable[..., str]) -> None:
    if shutil.which("tc") is None:
        pytest.skip("there is no tc here")
    for node in hosts.nodes:
        limit = ["rate", f"{PACE * 8 / 1e6:.0f}mbit", "burst", "64kb", "latency", "50ms"]
        node.do("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
    began = time.monotonic()
    both = (f"m8={HOSTS['m8']}:{PORT}", f"m9={HOSTS['m9']}:{PORT}")
    report = json.loads(seen("doctor", "--network", *both, "--json"))
    assert time.monotonic() - began < 60
    assert (report["source"], report["target"]) == ("m8", "m9")
    for way in ("sent", "received"):
        assert 0.5 * PACE < report["link"][way] < 1.05 * PACE  # of it, some 5 % are headers of TCP and TLS
        assert not report["link"][f"{way}_at_least"]
    assert report["exchanges"] == []
