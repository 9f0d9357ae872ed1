"""How much of this machine there was while something was timed: what others used of it, and how fast its CPUs were.

A virtual CPU shares its core with strangers: the same work took 30 to 68 ms of CPU time within two seconds, and whole
trainings a quarter longer than a minute before. What the host takes away altogether is counted (steal, up to a third of
what was wanted); that a core is shared shows only in how long work takes. So short fixed work is timed all the while,
and only runs that had an equally fast machine are held against each other.
"""

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

BURN = "while True: pass"
BEAT_S = 0.1  # between two pulses
WORK = range(15_000)  # summed, in about 0.5 ms: small enough to stay in the fastest cache


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Have so many busy processes of somebody else, one on each CPU in turn."""
    cpus = sorted(os.sched_getaffinity(0))
    burning = [subprocess.Popen([sys.executable, "-I", "-c", BURN]) for _ in range(count)]
    try:
        for number, process in enumerate(burning):
            os.sched_setaffinity(process.pid, {cpus[number % len(cpus)]})
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def busy_s() -> float:
    """Return the CPU seconds since boot on this machine, of anybody but us and our children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return wanted_s()[0] - sum(u.ru_utime + u.ru_stime for u in used)


def wanted_s() -> tuple[float, float]:
    """Return the CPU seconds since boot that anybody here wanted, and those of them that the host gave to others."""
    user, nice, system, _idle, _iowait, irq, softirq, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / tick, steal / tick


class Pulse:
    """Times fixed work again and again in a thread, at one percent of a core, until it is left."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._began = self._ended = (0.0, 0.0)

    def __enter__(self) -> "Pulse":
        self._began = wanted_s()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._ended = wanted_s()

    @property
    def stolen(self) -> float:
        """Return the share of the CPU time wanted here that a virtual machine's host gave to others (steal)."""
        (wanted_before, stolen_before), (wanted, stolen) = self._began, self._ended
        return (stolen - stolen_before) / max(1.0, wanted - wanted_before)

    @property
    def slowness(self) -> float:
        """Return the mean CPU s that the work took: the higher, the slower was the machine."""
        return mean(self._times)

    def _beat(self) -> None:
        while True:
            sum(WORK)  # what was in the caches was somebody else's
            began = time.thread_time()
            sum(WORK)
            self._times.append(time.thread_time() - began)
            if self._over.wait(BEAT_S):
                return
