"""Where the recorder's CPU time goes: by probe, tree, recording and gathering, once the run is no longer young.

The recorder's parts run in this process beside a training with 8 workers and a guest in it, as `recorder_cost.py` has
it; each is timed with this thread's clock. Called by `recorder_cost.py --per-probe`: a table to look at, no figures.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gputune import recording
from gputune.core import plugins
from gputune.core.sample import Reading, Target, now
from gputune.gathering import Gatherer
from gputune.host.tree import Tree
from gputune.sampler.ticker import ROOM, YOUNG, Ticker
from gputune.watching.recorder.life import GATHER

HZ = 10.0
SETTLED = YOUNG + 4.0  # s
SECONDS = 40.0  # of measuring: the slowest beat is 20 s
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"


class Clock:
    """CPU time of this thread by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Count what runs inside."""
        before = time.thread_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - before
        self.calls[name] = self.calls.get(name, 0) + 1


def table(job: str) -> None:
    """Run `job` (a script's text) and print a row for each part of the recorder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as rings, tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(job)
        environment = {**os.environ, "GPUTUNE_RINGS": rings, "PYTHONPATH": str(GUEST)}
        training = subprocess.Popen([sys.executable, "-W", "ignore", str(script)], env=environment)
        try:
            _measure(training.pid, Path(rings), Path(folder, "run"))
        finally:
            training.kill()
            training.wait()


def _measure(pid: int, rings: Path, folder: Path) -> None:
    clock = Clock()
    recording.lean()
    run, gatherer = recording.Recording.create(folder, {"command": ["train"]}), Gatherer(("train",), now())

    held: list[Reading] = []
    gathered = now()

    def sink(readings: list[Reading]) -> None:
        nonlocal gathered
        with clock.of("recording"):
            run.take(readings)
            run.beat(now())
        held.extend(readings)
        if now() - gathered >= GATHER:  # together, as the recorder does it
            gathered = now()
            with clock.of("gathering"):
                gatherer.take(held)
            held.clear()

    tree = Tree(pid)
    target = Target(pid, tree.pids, rings=rings, hz=HZ)
    ticker = Ticker(target, hz=HZ, sink=sink, tree=tree, probes=plugins.names(ROOM))
    refresh, tick = tree.refresh, ticker.tick

    def timed_refresh() -> None:
        with clock.of("tree"):
            refresh()

    def timed_tick(*, everything: bool = False) -> None:
        with clock.of("all"):
            tick(everything=everything)

    tree.refresh, ticker.tick = timed_refresh, timed_tick  # type: ignore[method-assign] # the parts as they are, timed
    until = time.monotonic() + SETTLED
    never, _other_end = os.pipe()  # beats on which nothing is due are slept through, as the recorder does
    ticker.run(lambda: time.monotonic() >= until, wakeup=never)
    clock.spent, clock.calls = {}, {}
    before = {name: (cost.ticks, cost.cpu) for name, cost in ticker.cost.items()}
    began, used = time.monotonic(), time.thread_time()
    ticker.run(lambda: time.monotonic() >= began + SECONDS, wakeup=never)
    used, seconds = time.thread_time() - used, time.monotonic() - began
    for name, cost in ticker.cost.items():
        clock.calls[name], clock.spent[name] = cost.ticks - before[name][0], cost.cpu - before[name][1]
    parts = sum(spent for name, spent in clock.spent.items() if name != "all")
    clock.spent["the beat itself"], clock.calls["the beat itself"] = clock.spent["all"] - parts, clock.calls["all"]
    clock.spent["waiting and waking"], clock.calls["waiting and waking"] = used - clock.spent["all"], clock.calls["all"]
    del clock.spent["all"]
    ticker.close()
    _print(clock, used, seconds, len(tree.pids()))
    run.close()


def _print(clock: Clock, used: float, seconds: float, processes: int) -> None:
    print(f"{processes} processes, {HZ:g} Hz, {seconds:.1f} s: {used / seconds:.3%} of a core without child processes")
    print(f"{'part':20s} {'calls/s':>8s} {'µs a call':>10s} {'µs a s':>8s}")
    for name, spent in sorted(clock.spent.items(), key=lambda row: -row[1]):
        calls = clock.calls[name]
        print(f"{name:20s} {calls / seconds:8.2f} {1e6 * spent / max(1, calls):10.1f} {1e6 * spent / seconds:8.1f}")
