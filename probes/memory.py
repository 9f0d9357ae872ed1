"""How much memory there is, what a control group leaves of it, and what the job holds."""

import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gputune.core.sample import Metric, Reading, Role, Sample, Target, Ticks, Unavailable, now
from gputune.host.cgroup import memory_limit, memory_used
from gputune.host.procfs import OpenProcFile, read_bytes

PERIOD = 1.0  # s
TOTAL = Metric("memory.total", "B", "The machine's memory.")
AVAILABLE = Metric("memory.available", "B", "What could be had without swapping, by the kernel's estimate.")
SWAPPED = Metric("memory.swapped", "B", "The machine's swap that is in use.")
LIMIT = Metric("memory.limit", "B", "The tightest limit of the job's control groups; absent without one.")
LIMITED = Metric("memory.limited", "B", "What counts against that limit, inactive page cache left out.")
JOB = Metric("memory.job", "B", "Memory of the process tree, shared pages counted once (PSS).")
MAIN = Metric("memory.main", "B", "Resident memory of a training process that is its own, no file's (anonymous).")
MAPPED = Metric("memory.mapped", "B", "Memory that a training process has asked for as its own, used yet or not.")
WORKER = Metric("memory.worker", "B", "Mean memory of a DataLoader worker, its share of shared pages included (PSS).")
SHM_TOTAL = Metric("shm.total", "B", "Size of /dev/shm as the job sees it.")
SHM_FREE = Metric("shm.free", "B", "Free bytes of /dev/shm as the job sees it.")
METRICS = (TOTAL, AVAILABLE, SWAPPED, LIMIT, LIMITED, JOB, MAIN, MAPPED, WORKER, SHM_TOTAL, SHM_FREE)

ROUND_BEAT = 10.0  # s between sums over the tree: adding up a large process's pages takes the kernel milliseconds
FIRST_ROUND = 2.0  # s; soon enough for a short run, late enough to find its workers
LARGEST_SUMMED_B = (
    512 << 20
)  # B resident; adding up costs 10 ms a GiB, in which a fault of that process may have to wait
DEAREST = 0.0002  # of a core, on average: a round that was dear is followed by a longer pause
SHM = "/dev/shm"  # noqa: S108 - it is what we measure


def attach(target: Target) -> Ticks:
    """Read `/proc/meminfo`, the control group and `/dev/shm`; on a slow beat, process by process, the tree's PSS."""
    try:
        info = OpenProcFile(target.proc / "meminfo", 8192)  # bytes; more than a /proc/meminfo has
    except OSError as reason:
        raise Unavailable(f"`{target.proc / 'meminfo'}` cannot be read: {reason.strerror}") from reason
    pages = _Round(target, time.monotonic() + FIRST_ROUND)
    mains = _Mains(target)
    limit_due, shm = 0.0, ""
    try:
        while True:
            at = time.monotonic()
            readings = _machine(info.read())
            if at >= limit_due:
                limit_due = at + 5.0  # s between looks at the control group, and at which /dev/shm is the job's
                readings += _limit(target)
                shm = _shm_of(target)
            yield readings + _shm(shm) + mains.tick() + pages.tick(at)
    finally:
        info.close()
        mains.close()


def _machine(data: bytes) -> list[Reading]:
    """Pick from `MemTotal:  131072 kB` and its like."""
    t = now()
    available = _row(data, b"MemAvailable:")
    return [
        Sample(TOTAL, t, _row(data, b"MemTotal:")),
        Sample(AVAILABLE, t, available or _row(data, b"MemFree:")),
        Sample(SWAPPED, t, _row(data, b"SwapTotal:") - _row(data, b"SwapFree:")),
    ]


def _row(data: bytes, name: bytes) -> int:
    """Return the bytes in one row, 0 where there is none; of fifty rows four are wanted, so the others stay text."""
    at = data.find(name)
    return int(data[at + len(name) : data.index(b"kB", at)]) * 1024 if at >= 0 else 0


def _shm_of(target: Target) -> str:
    """Return where the command's own /dev/shm is: a container started by it may have a smaller one than we."""
    theirs = f"{target.proc}/{target.root_pid}/root{SHM}"
    try:
        same = os.stat(theirs).st_dev == os.stat(SHM).st_dev  # noqa: PTH116 - they are joined as text for statvfs
    except OSError:  # of another user, ended, or without one
        same = True
    return SHM if same else theirs  # the way to theirs takes longer


def _shm(folder: str) -> list[Reading]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return []
    t = now()
    return [
        Sample(SHM_TOTAL, t, found.f_blocks * found.f_frsize),
        Sample(SHM_FREE, t, found.f_bavail * found.f_frsize),
    ]


class _Mains:
    """What each training process holds itself, counted by the kernel: asking costs a few µs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._roles: Mapping[int, Role] = {}  # when they were last looked through
        self._files: dict[int, OpenProcFile] = {}

    def tick(self) -> list[Reading]:
        """Return the memory of those that live."""
        roles = self._target.pids()
        if roles is not self._roles:
            self._roles = roles
            self._follow({pid for pid, role in roles.items() if role == "main"})
        readings: list[Reading] = []
        for pid, file in self._files.items():
            try:
                _, resident, shared, _, _, data, _ = map(int, file.read().split())
            except (OSError, ValueError):  # it has ended
                continue
            t = now()
            readings.append(Sample(MAIN, t, (resident - shared) * PAGE, str(pid)))
            readings.append(Sample(MAPPED, t, data * PAGE, str(pid)))
        return readings

    def _follow(self, mains: set[int]) -> None:
        for pid in self._files.keys() - mains:
            self._files.pop(pid).close()
        for pid in mains - self._files.keys():
            with suppress(OSError):
                # 256 bytes; more than a /proc/PID/statm has
                self._files[pid] = OpenProcFile(self._target.proc / str(pid) / "statm", 256)

    def close(self) -> None:
        """Let go of every file."""
        self._follow(set())


def _limit(target: Target) -> list[Reading]:
    found = memory_limit(target.root_pid, target.proc, target.sys)
    if found is None:
        return []
    limit, folder = found
    used = memory_used(folder)
    t = now()
    readings: list[Reading] = [Sample(LIMIT, t, limit)]
    if used is not None:
        readings.append(Sample(LIMITED, t, used))
    return readings


@dataclass(slots=True)
class _Round:
    """One sum over the tree's processes at a time, a few of them each tick."""

    target: Target
    due: float
    soonest: float = math.inf  # for one before it is due, once, where there are workers and none was met so far
    again: bool = True  # whether there may be such a one
    left: list[tuple[int, Role]] = field(default_factory=list)
    total: int = 0
    workers: list[int] = field(default_factory=list)
    cost: float = 0.0

    def tick(self, at: float) -> list[Reading]:
        """Go on with the round that is under way, or begin one when it is time."""
        if not self.left:
            if at < self.due and not self._has_news(at):
                return []
            self.total, self.workers, self.cost = 0, [], 0.0
            self.left = list(self.target.pids().items())
        began = time.thread_time()
        # 0.002 s of CPU that a tick may spend on adding up pages; at least one process is done
        while self.left and time.thread_time() - began < 0.002:
            self._take(*self.left.pop())
        self.cost += time.thread_time() - began
        if self.left:
            return []
        self.due = at + max(ROUND_BEAT, self.cost / DEAREST)
        self.again = self.again and not self.workers
        self.soonest = at + ROUND_BEAT if self.again else math.inf
        return self._sum()

    def _has_news(self, at: float) -> bool:
        """Return whether there are workers, and no round so far has met any."""
        if at < self.soonest or "worker" not in self.target.pids().values():
            return False
        self.again = False
        return True

    def _take(self, pid: int, role: Role) -> None:
        size = held(f"{self.target.proc}/{pid}")
        self.total += size
        if role == "worker" and size:
            self.workers.append(size)

    def _sum(self) -> list[Reading]:
        t = now()
        readings: list[Reading] = [Sample(JOB, t, self.total)] if self.total else []
        if self.workers:
            readings.append(Sample(WORKER, t, sum(self.workers) / len(self.workers)))
        return readings


def held(folder: str) -> int:
    """Return the bytes of memory that a process answers for; 0 where it has ended.

    Source: `Pss` of /proc/PID/smaps_rollup. Where that is refused, or the process so large that asking would slow it,
    its resident pages that are no file's, from /proc/PID/statm: pages shared by fork then count in full.
    """
    statm = read_bytes(f"{folder}/statm").split()
    if len(statm) < 3:
        return 0
    resident, shared = (int(pages) * PAGE for pages in statm[1:3])
    rollup = read_bytes(f"{folder}/smaps_rollup") if resident <= LARGEST_SUMMED_B else b""
    at = rollup.find(b"\nPss:")
    return int(rollup[at + 5 :].split(None, 1)[0]) * 1024 if at >= 0 else resident - shared


PAGE = os.sysconf("SC_PAGE_SIZE")
