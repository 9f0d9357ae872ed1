"""The simulated nodes of `tui.py`, and what the process that shows them tells of its own cost through a pipe."""

import json
import os
import random
import resource
import threading
import time
from pathlib import Path

from gputune.feeds.rows import DeviceRow, Node, Update, harmless

PIPE = "GPUTUNE_BENCH_PIPE"  # holds the descriptor
DEVICES = 8


class Simulated:
    """A feed of many nodes, all of which change with every poll.

    `cost`: s of CPU that making them up took; `spent`: all that polls took; `polls`: how many there were.
    """

    def __init__(self, nodes: int) -> None:
        self.cost = self.spent = 0.0
        self.polls = 0
        self._chance = random.Random(1).random
        self._nodes = nodes

    def poll(self, since: int) -> Update:
        """Return all nodes, with other numbers, as if they had come over a network."""
        began = time.thread_time()
        nodes = tuple(map(self._node, range(self._nodes)))
        self.cost += time.thread_time() - began
        self.polls += 1
        update = Update(until=since + 1, nodes=harmless(nodes))
        self.spent += time.thread_time() - began
        return update

    def _node(self, number: int) -> Node:
        chance = self._chance
        return Node(
            name=f"n{number:04}",
            rack=f"r{number // 32:02}",
            job=f"job-{number // 100}",
            cpus=64.0,
            cpu=chance() * 64,
            wait=chance(),
            rate=chance() * 1000,
            finding="few-workers" if number % 3 else "",
            gain=1 + chance(),
            devices=tuple(map(self._device, range(DEVICES))),
        )

    def _device(self, number: int) -> DeviceRow:
        chance = self._chance
        return DeviceRow(
            index=str(number),
            name="NVIDIA H200",
            busy=chance(),
            memory_used=chance() * 1e11,
            memory_total=1.5e11,
            power=700 * chance(),
            power_limit=700.0,
            temperature=60.0,
            clock=1.98e9,
        )

    def look_at(self, node: str, span: int) -> None:
        """Do nothing."""

    def seek(self, run: str, at: float | None) -> None:
        """Do nothing: nothing here has a past."""

    def close(self) -> None:
        """Do nothing: nothing is held."""


def rss() -> int:
    """Return the bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def told(feed: Simulated, empty: int, *, beside: bool) -> None:
    """Tell every second what the process has cost so far, until it is ended. `beside`: polls have their own thread.

    `frame` is the CPU of the main thread: what brings the screen up to date, `polls` times.
    """
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    while True:
        time.sleep(1.0)
        used = resource.getrusage(resource.RUSAGE_SELF)
        whole = used.ru_utime + used.ru_stime - feed.cost
        frame = time.clock_gettime(clock) - (0.0 if beside else feed.spent)
        facts = {"cpu": whole, "at": time.monotonic(), "rss": rss() - empty, "frame": frame, "polls": feed.polls}
        os.write(int(os.environ[PIPE]), json.dumps(facts).encode() + b"\n")
