"""Hold every cell of a screen that was left open against the truth, each second, for as long as is asked.

One machine with two simulated cards, and a training that is watched on it, is looked at in three ways at once: by a
screen of its own, over three agents, and over a relay of these. What a screen would show is compared with the truth:
NVML and /proc read here four times a second, the clock, and the count that the training itself keeps. A cell that is
blank, or that says what was not so within twice its period and the time that an answer takes to come, is one that
fails.

Run it on simulated cards: `python tests/simgpu/run.py --devices 2 -- python benchmarks/screen_truth.py --seconds 3600`.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pynvml

from gputune.feeds.local import LocalFeed
from gputune.feeds.rows import DeviceRow, Feed, Node, RunRow
from gputune.nodes.feed import NodesFeed
from gputune.recording import lean
from gputune.tui.store import Store
from gputune.wire.address import several

AGENTS = ("m1", "m2", "m3")
SETTLED = 15.0  # s until all of it runs
LOOK = 0.25  # s between readings of the truth
WAY = {"local": 1.0, "agents": 3.0, "relay": 5.0}  # s that a reading takes to come: a beat of each that passes it on
ALMOST = 0.02  # of a value: floats of 32 bits, and cards that are read at another moment
JUDGED = 60.0  # s
PATIENCE = 60.0  # s
Truth: TypeAlias = dict[str, float]
TRAINING = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import torch
from simgpu import Device
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(8)

if __name__ == "__main__":
    gpu = Device()
    gpu.alloc(6 << 30)
    for count, batch in enumerate(DataLoader(Noise(), batch_size=16, num_workers=2), 1):
        gpu.launch(0.05 if count // 500 % 2 else 0.02)
        gpu.synchronize()
        Path(sys.argv[2]).write_text(str(count))
"""


class Cell(NamedTuple):
    """One figure on the screen: its period (s), how it is read off a row, and the name of its truth (none: there)."""

    period: float
    read: Callable[[object], float | None]
    truth: str = ""


DEVICE = {
    "busy": Cell(1.0, lambda d: d.busy),
    "memory used": Cell(1.0, lambda d: d.memory_used, "used"),
    "memory total": Cell(30.0, lambda d: d.memory_total, "total"),
    "power": Cell(2.0, lambda d: d.power),
    "power limit": Cell(30.0, lambda d: d.power_limit, "limit"),
    "temperature": Cell(5.0, lambda d: d.temperature, "temperature"),
    "clock": Cell(2.0, lambda d: d.clock, "clock"),
    "highest clock": Cell(30.0, lambda d: d.clock_max, "clock max"),
}
NODE = {
    "cpus": Cell(10.0, lambda n: n.cpus, "cpus"),
    "cpu": Cell(1.0, lambda n: n.cpu),
    "cores": Cell(1.0, lambda n: len(n.cores) or None, "cpus"),
    "idle for storage": Cell(1.0, lambda n: n.iowait),
    "host memory": Cell(1.0, lambda n: n.memory_total, "memory"),
    "host memory used": Cell(1.0, lambda n: n.memory_used),
    "/dev/shm": Cell(1.0, lambda n: n.shm_total, "shm"),
    "pressure": Cell(1.0, lambda n: n.pressure.io),
    "wait": Cell(1.0, lambda n: n.wait),
    "samples/s": Cell(1.0, lambda n: n.rate),
}


class Witness:
    """What is so: read here, and kept for as long as a cell may be old."""

    def __init__(self, counted: Path) -> None:
        pynvml.nvmlInit()
        self._cards = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount())]
        self._counted = counted
        self._seen: deque[tuple[float, Truth]] = deque(maxlen=round(120 / LOOK))

    def look(self) -> None:
        """Read everything once."""
        shm = os.statvfs("/dev/shm")
        told: Truth = {
            "cpus": float(len(os.sched_getaffinity(0))),
            "memory": 1024.0 * int(Path("/proc/meminfo").read_text().split()[1]),
            "shm": float(shm.f_blocks * shm.f_frsize),
        }
        with contextlib.suppress(OSError, ValueError):
            told["batches"] = float(self._counted.read_text())
        for index, card in enumerate(self._cards):
            about = pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)
            told |= {
                f"{index} used": float(about.used),
                f"{index} total": float(about.total),
                f"{index} limit": pynvml.nvmlDeviceGetEnforcedPowerLimit(card) / 1e3,
                f"{index} temperature": float(pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU)),
                f"{index} clock": pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM) * 1e6,
                f"{index} clock max": pynvml.nvmlDeviceGetMaxClockInfo(card, pynvml.NVML_CLOCK_SM) * 1e6,
            }
        self._seen.append((time.monotonic(), told))

    def was(self, name: str, value: float, within: float) -> bool:
        """Return whether a value lies among those that were so within the last seconds."""
        known = [t[name] for at, t in self._seen if name in t and time.monotonic() - at <= within + LOOK]
        return not known or min(known) * (1 - ALMOST) <= value <= max(known) * (1 + ALMOST)


class Judge:
    """Counts what was looked at, and what was not as it should be."""

    def __init__(self, witness: Witness) -> None:
        self.looked: Counter[str] = Counter()
        self.failed: dict[tuple[str, str, str], list[float]] = {}
        self.gaps: dict[str, list[float]] = {}  # that a run's history says, s: on a busy machine there are some
        self._witness = witness
        self._began = time.monotonic()

    def look(self, way: str, store: Store) -> None:
        """Hold all that a screen knows against the truth."""
        for node in store.nodes.values():
            self._cells(way, node, NODE, "")
            for device in node.devices:
                self._cells(way, device, DEVICE, f"{device.index} ")
        for run in store.runs.values():
            if not Path(run.folder).is_absolute() and run.state == "live":  # else somebody else watches something here
                self._run(way, run)

    def _cells(self, way: str, row: Node | DeviceRow, cells: dict[str, Cell], card: str) -> None:
        for name, cell in cells.items():
            value = cell.read(row)
            within = 2 * cell.period + WAY[way]
            told = value is not None and (not cell.truth or self._witness.was(card + cell.truth, value, within))
            self._note(way, name, "" if told else "blank" if value is None else "not so")

    def _run(self, way: str, run: RunRow) -> None:
        present, now = run.present, time.time() - run.started
        late = 2.0 + WAY[way]
        self._note(way, "run's clock", "" if now - run.length <= late else "old")
        self._note(way, "figures of now", "blank" if present is None else "" if now - present.at <= late else "old")
        count = present.batches if present is not None else None
        so = count is not None and self._witness.was("batches", count, late)
        self._note(way, "batches", "" if so else "blank" if count is None else "not so")
        judged = None if run.judged is None else now - run.judged
        self._note(way, "judged at", "blank" if judged is None else "" if judged <= JUDGED + late else "old")
        self.gaps[way] = [round(seconds, 1) for _, seconds in run.history.gaps]

    def _note(self, way: str, name: str, what: str) -> None:
        self.looked[way] += 1
        if what:
            self.failed.setdefault((way, name, what), []).append(time.monotonic() - self._began)


@contextlib.contextmanager
def started(*command: str, says: str = "", cwd: Path) -> Iterator[None]:
    """Run a command of gputune until the end, once it has said that."""
    log = cwd / f"log-{time.monotonic_ns()}"
    with log.open("w") as output:
        process = subprocess.Popen([sys.executable, "-m", "gputune", *command], stderr=output, stdout=output, cwd=cwd)
    try:
        end = time.monotonic() + PATIENCE
        while says not in log.read_text():
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"{command} does not say {says!r}: {log.read_text()}")
            time.sleep(LOOK)
        yield
    finally:
        process.terminate()
        process.wait()


def feeds(stack: ExitStack, folder: Path) -> dict[str, Feed]:
    """Start a training, agents and a relay; return what a screen of each kind would ask."""
    script = folder / "train.py"
    script.write_text(TRAINING)
    simgpu = Path(__file__).resolve().parents[1] / "tests" / "simgpu"
    training = (sys.executable, str(script), str(simgpu), str(folder / "count"))
    stack.enter_context(started("watch", "--", *training, cwd=folder))
    sockets = {name: folder / f"{name}.sock" for name in (*AGENTS, "relay")}
    for name in AGENTS:
        own = ("--name", name, "--state", str(folder / name), "--socket", str(sockets[name]))
        stack.enter_context(started("agent", *own, says="serves", cwd=folder))
    nodes = [f"{name}=unix:{sockets[name]}" for name in AGENTS]
    relay = ("--relay", ",".join(nodes), "--state", str(folder / "relay"), "--socket", str(sockets["relay"]))
    stack.enter_context(started("agent", *relay, says="serves", cwd=folder))
    os.chdir(folder)
    found: dict[str, Feed] = {
        "local": LocalFeed(),
        "agents": NodesFeed(several(nodes), None),
        "relay": NodesFeed(several([f"unix:{sockets['relay']}"]), None),
    }
    for feed in found.values():
        stack.callback(feed.close)
    return found


def main() -> None:
    """Look for so many seconds, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    lean()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-")))
        witness = Witness(folder / "count")
        judge, stores = Judge(witness), {way: Store() for way in WAY}
        asked = feeds(stack, folder)
        since = dict.fromkeys(asked, 0)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < options.seconds + SETTLED:
            due = began + int(passed / LOOK + 1) * LOOK
            witness.look()
            if int(passed / LOOK) % round(1 / LOOK) == 0:
                for way, feed in asked.items():
                    update = feed.poll(since[way])
                    since[way] = update.until
                    stores[way].take(update)
                    if passed > SETTLED:
                        judge.look(way, stores[way])
            time.sleep(max(0.0, due - time.monotonic()))
    lines = [f"looked for {options.seconds:.0f} s, under a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"]
    lines += [f"{way}: {count:,} cells" for way, count in judge.looked.items()]
    lines += [f"{way}: nothing could be read for {gaps} s" for way, gaps in judge.gaps.items() if gaps]
    for (way, name, what), at in sorted(judge.failed.items()):
        lines.append(f"{way}: {name} {what} {len(at)} times, first after {at[0]:.0f} s, last after {at[-1]:.0f} s")
    sys.stdout.write("\n".join([*lines, "all of them as they should be" if not judge.failed else ""]) + "\n")
    sys.exit(bool(judge.failed))


if __name__ == "__main__":
    main()
