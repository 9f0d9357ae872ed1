"""The host as the launcher sees it: memory that is left, CPUs that may be used, and what a task's processes take."""

import os
from collections.abc import Iterable
from pathlib import Path

from gputune.core.units import NS
from gputune.host import cgroup
from gputune.host.procfs import CLOCK_TICKS, cpu_list, read_bytes, stat_of
from gputune.probes.memory import held

PROC = Path("/proc")
SYS = Path("/sys")
FRAMEWORKS = (b"libtorch", b"libc10", b"tensorflow")  # in the names of files that they map as they are imported


def memory() -> tuple[float, float]:
    """Return (what there is, what is left) in B: of our control group where it has less left than the machine."""
    rows = dict(row.split(b":", 1) for row in read_bytes("/proc/meminfo").splitlines() if b":" in row)
    total, left = (
        float(rows[name].split()[0]) * 1024 if name in rows else 0.0 for name in (b"MemTotal", b"MemAvailable")
    )
    limit = cgroup.memory_limit(os.getpid(), PROC, SYS)
    if limit is not None:
        used = cgroup.memory_used(limit[1])
        if used is not None and limit[0] - used < left:
            return float(limit[0]), max(0.0, float(limit[0] - used))
    return total, left


def cores() -> float:
    """Return the CPUs that we may use: affinity and the quota of the control group."""
    quota = cgroup.cpu_quota(os.getpid(), PROC, SYS)
    return min(float(len(os.sched_getaffinity(0))), quota or float("inf"))


def nodes() -> list[frozenset[int]]:
    """Return the CPUs that we may use, by NUMA node; one set where the machine tells of none."""
    mine = frozenset(os.sched_getaffinity(0))
    found = []
    for file in sorted((SYS / "devices/system/node").glob("node[0-9]*/cpulist")):
        node = cpu_list(file.read_text()) & mine
        if node:
            found.append(node)
    return found or [mine]


def cpu_time(pids: Iterable[int]) -> float:
    """Return the s of CPU that these processes have used, and the children that they waited for."""
    ticks = 0
    for pid in pids:
        stat = stat_of(read_bytes(f"/proc/{pid}/stat"))
        if stat is not None:
            ticks += stat.own + stat.waited
    return ticks / CLOCK_TICKS


def queued(pids: Iterable[int]) -> float:
    """Return the s that threads of these processes, which live, were runnable without a CPU."""
    waits = (read_bytes(str(file)).split() for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(words[1]) for words in waits if len(words) > 1) / NS


def memory_of(pids: Iterable[int]) -> float:
    """Return the B that these processes hold, what they share counted once (PSS)."""
    return float(sum(held(f"/proc/{pid}") for pid in pids))


def is_loading(pids: Iterable[int]) -> bool:
    """Return whether one of these processes has a framework of ours in its memory, or is about to have it."""
    return any(mark in maps for maps in map(_mapped, pids) for mark in FRAMEWORKS)


def is_python(pids: Iterable[int]) -> bool:
    """Return whether one of these processes is a Python."""
    return any(_program(pid).startswith("python") for pid in pids)


def _mapped(pid: int) -> bytes:
    """Return what a process has mapped: up to some hundred kB, in many small reads."""
    try:
        return Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return b""


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:  # it has ended, or is somebody else's
        return ""
