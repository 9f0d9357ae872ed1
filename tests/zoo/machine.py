"""How much of this machine there was while something was timed: what others used of it, and what its host took away.

A virtual CPU shares its core with strangers: the same work took 30 to 68 ms of CPU time within two seconds, and whole
trainings a quarter longer than a minute before. What the host takes away altogether is counted (steal, up to a third of
what was wanted); that a core is shared shows only in how long work takes. Timing short fixed work all the while does
not tell it: on CPUs that idle in between it takes up to a third longer, and how much they idle is the script's.
"""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BURN = "while True: pass"


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


def stolen_since(then: tuple[float, float]) -> float:
    """Return the share of the CPU time wanted since `then`, as `wanted_s` told it, that the host gave to others."""
    wanted, stolen = (now - before for now, before in zip(wanted_s(), then, strict=True))
    return stolen / max(1.0, wanted)
