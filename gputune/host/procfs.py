"""Reading /proc cheaply: files that stay open are read again with one system call each."""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from os import pread
from pathlib import Path
from typing import NamedTuple, TypeAlias

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")  # units of CPU time in a second, in /proc/stat and /proc/PID/stat
TICK_NS = 1_000_000_000 // CLOCK_TICKS
WHOLE = 65536  # bytes; more than any file that is kept open here has, but for /proc/stat on very large machines
PAGE = 4096  # bytes; more than any file of a single process that is kept open here has

# Fields of /proc/PID/stat that are looked at, counted from the state: field 3 in proc_pid_stat(5).
_STATE, _PPID, _UTIME, _STIME, _CUTIME, _CSTIME, _THREADS, _STARTED = 0, 1, 11, 12, 13, 14, 17, 19

PYTHONS = ("python", "pypy")  # how the programs are named that are one

Clocks: TypeAlias = Mapping[int, tuple[int, int, int]]


class OpenProcFile:
    """A file of /proc that stays open.

    A descriptor of /proc/PID belongs to that process, never to a later one that got the same pid: once it has ended,
    reading raises `ProcessLookupError`.
    """

    __slots__ = ("_size", "fd")

    def __init__(self, path: Path | str, size: int = WHOLE) -> None:
        """Open it. Of more than `size` bytes the rest is left out; room for many costs time on every reading."""
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        """Return its present content, from the start."""
        return pread(self.fd, self._size, 0)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ProcessStat(NamedTuple):
    """What a /proc/PID/stat says. Times are in clock ticks.

    `parent` is a pid, `own` its CPU time and `waited` that of children it waited for. `started` counts from boot: it
    tells a pid's users apart.
    """

    state: bytes
    parent: int
    own: int
    waited: int
    threads: int
    started: int


def stat_of(text: bytes) -> ProcessStat | None:
    """Take a /proc/PID/stat apart; None where it is empty or broken off, because the process has ended."""
    fields = text[text.rfind(b") ") + 2 :].split(None, _STARTED + 1)  # the name before may hold spaces and brackets
    if len(fields) <= _STARTED:
        return None
    return ProcessStat(
        fields[_STATE],
        int(fields[_PPID]),
        int(fields[_UTIME]) + int(fields[_STIME]),
        int(fields[_CUTIME]) + int(fields[_CSTIME]),
        int(fields[_THREADS]),
        int(fields[_STARTED]),
    )


def monotonic_of(ticks: int) -> int:
    """Turn clock ticks since boot (suspended time included) into ns of CLOCK_MONOTONIC, right to one tick."""
    asleep = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return ticks * TICK_NS - asleep


def children_of(folder: str) -> list[int]:
    """Return the children of all threads of the process whose folder is `/proc/PID`; none where it has ended."""
    try:
        threads = os.listdir(f"{folder}/task")  # noqa: PTH208 - a Path for each thread costs more than the reading
    except OSError:
        return []
    found = b" ".join(read_bytes(f"{folder}/task/{thread}/children") for thread in threads)
    return [int(pid) for pid in found.split()]


def read_bytes(path: str) -> bytes:
    """Return a small file's content, nothing where it is missing or may not be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, WHOLE)
    except OSError:  # the process ended between the two calls
        return b""
    finally:
        os.close(file)


def read_text(path: Path) -> str | None:
    """Return a small file's text, None where it is missing or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def is_python(proc: Path, pid: int) -> bool:
    """Return whether a process is a Python: by its program's name, or by the library of an embedded one."""
    with suppress(OSError):
        if (proc / str(pid) / "exe").readlink().name.startswith(PYTHONS):
            return True
    return maps(proc, pid, b"libpython")


def maps(proc: Path, pid: int, word: bytes) -> bool:
    """Return whether a process has mapped a file with that in its name."""
    try:
        with (proc / str(pid) / "maps").open("rb") as mapped:
            return any(word in line for line in mapped)
    except OSError:
        return False


def cpu_list(text: str) -> frozenset[int]:
    """Return the numbers in a list as the kernel writes it: `0-3,8` is 0, 1, 2, 3 and 8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def affinity(proc: Path, pids: Iterable[int]) -> frozenset[int]:
    """Return the CPUs that at least one of these processes may run on; none where all of them have ended."""
    found: set[int] = set()
    for pid in pids:
        status = read_bytes(f"{proc}/{pid}/status").decode(errors="replace")
        _, _, rest = status.partition("Cpus_allowed_list:")
        found |= cpu_list(rest.partition("\n")[0])
    return frozenset(found)


def cpu_clocks(stat: bytes) -> dict[int, tuple[int, int, int]]:
    """Return (in use, idle but waiting for storage, stolen) of each CPU, in ticks since boot.

    Its first lines are `cpuN user nice system idle iowait irq softirq steal guest …`; guest time is part of user time.
    Stolen is what somebody here wanted and the host of this virtual machine gave to others. Source: proc_stat(5).
    """
    clocks: dict[int, tuple[int, int, int]] = {}
    for line in stat.split(b"\n"):
        if line[:3] != b"cpu":
            break
        number, user, nice, system, _idle, iowait, irq, softirq, steal, *_ = line.split(None, 9)
        if number != b"cpu":
            used = int(user) + int(nice) + int(system) + int(irq) + int(softirq)
            clocks[int(number[3:])] = (used, int(iowait), int(steal))
    return clocks
