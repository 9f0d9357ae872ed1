"""How busy the CPUs are that this job may use, by anyone, and how many they are."""

import time
from dataclasses import dataclass

from gputune.cgroup import cpu_quota
from gputune.procfs import CLOCK_TICKS, Kept, cpu_list, read_text
from gputune.sample import Metric, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.units import NS

ALLOWED = Metric("cpu.allowed", "cores", "CPUs this job may use: affinity and the tightest cgroup quota.")
COUNT = Metric("cpu.count", "1", "CPUs of the machine that are online, allowed or not.")
BUSY = Metric("cpu.busy", "cores", "CPUs in use by anyone (or stolen by the hypervisor), of those in the affinity.")
IOWAIT = Metric("cpu.iowait", "ratio", "Share of time those CPUs idled while a task of theirs waited for storage.")
CORE = Metric("cpu.core", "ratio", "Share of time one CPU was in use.", per="cpu")
METRICS = (ALLOWED, COUNT, BUSY, IOWAIT, CORE)

SHORT = 0.05  # s; the kernel counts in 10 ms, so a shorter interval is mostly rounding
CORES_BEAT = 1.0  # s between readings of single cores
MOST_CORES = 64  # above it single cores are left out: nobody reads them, and they would fill the recording
SETTLED = 5.0  # s between looks at what is allowed; before that at once and after 1 s: `taskset` acts after its start
DEAREST = 0.001  # of a core: where /proc/stat is slow to read (many CPUs and interrupts) it is read less often


def attach(target: Target) -> Ticks:
    """Read `/proc/stat`, and the affinity and control group of the processes that train (of the command before).

    Source: proc_stat(5). Guest time is part of user time there, so it is not added again.
    """
    try:
        stat = Kept(target.proc / "stat")
    except OSError as reason:
        raise Unavailable(f"`{target.proc / 'stat'}` cannot be read: {reason.strerror}") from reason
    cores = _Cores(target, stat)
    try:
        while True:
            yield cores.tick()
    finally:
        stat.close()


@dataclass(frozen=True, slots=True)
class _Clock:
    """Clock ticks since boot of each CPU: in use, and idle while waiting for storage."""

    t: int
    busy: dict[int, int]
    iowait: dict[int, int]


class _Cores:
    """The CPUs of the job between two readings of the kernel's clocks."""

    def __init__(self, target: Target, stat: Kept) -> None:
        self._target = target
        self._stat = stat
        self._cpus: frozenset[int] = frozenset()
        self._allowed_due = self._stat_due = 0.0
        self._looks = 0
        self._last: _Clock | None = None
        self._cores_last: _Clock | None = None

    def tick(self) -> list[Reading]:
        """Return what is due."""
        at = time.monotonic()
        readings: list[Reading] = []
        if at >= self._allowed_due:
            self._looks += 1
            self._allowed_due = at + (SETTLED if self._looks > 1 else 1.0)
            readings += self._allowed()
        if at >= self._stat_due:
            before = time.thread_time()
            clock = self._clock()
            self._stat_due = at + (time.thread_time() - before) / DEAREST - SHORT
            readings += self._busy(clock)
        return readings

    def _allowed(self) -> list[Reading]:
        """Look up affinity and quota. Several training processes may be bound to different CPUs: all of them count."""
        target = self._target
        mains = [pid for pid, role in target.pids().items() if role == "main"] or [target.root_pid]
        online = self._clock().busy.keys()
        cpus = frozenset[int]().union(*(_affinity(target, pid) for pid in mains)) & online or frozenset(online)
        if cpus != self._cpus:
            self._cpus, self._last, self._cores_last = cpus, None, None
        quotas = [cpu_quota(pid, target.proc, target.sys) for pid in mains]
        cores = min(float(len(cpus)), max((q for q in quotas if q is not None), default=float("inf")))
        t = now()
        return [Sample(ALLOWED, t, cores), Sample(COUNT, t, len(online))]

    def _clock(self) -> _Clock:
        """Read the lines `cpuN user nice system idle iowait irq softirq steal …`; they come first in the file."""
        clock = _Clock(now(), {}, {})
        for line in self._stat.read().split(b"\n"):
            if line[:3] != b"cpu":
                break
            if line[3:4] == b" ":
                continue
            words = line.split(None, 9)
            cpu = int(words[0][3:])
            user, nice, system, _idle, iowait, irq, softirq, steal = map(int, words[1:9])
            clock.busy[cpu] = user + nice + system + irq + softirq + steal
            clock.iowait[cpu] = iowait
        return clock

    def _busy(self, clock: _Clock) -> list[Reading]:
        last = self._last
        if last is None:
            self._last = self._cores_last = clock
            return []
        if clock.t - last.t < SHORT * NS:
            return []
        self._last = clock
        room = (clock.t - last.t) / NS * CLOCK_TICKS  # ticks that one CPU had
        cpus = self._cpus & last.busy.keys() & clock.busy.keys()  # one of them may have gone offline
        busy = sum(clock.busy[c] - last.busy[c] for c in cpus) / room
        waiting = sum(max(0, clock.iowait[c] - last.iowait[c]) for c in cpus) / room
        count = max(1, len(cpus))
        return [
            Sample(BUSY, clock.t, min(max(0.0, busy), count)),
            Sample(IOWAIT, clock.t, min(1.0, waiting / count)),
            *self._each(clock),
        ]

    def _each(self, clock: _Clock) -> list[Reading]:
        last = self._cores_last
        if last is None or len(self._cpus) > MOST_CORES or clock.t - last.t < CORES_BEAT * NS:
            return []
        self._cores_last = clock
        room = (clock.t - last.t) / NS * CLOCK_TICKS
        cpus = sorted(self._cpus & last.busy.keys() & clock.busy.keys())
        return [Sample(CORE, clock.t, min(1.0, max(0, clock.busy[c] - last.busy[c]) / room), str(c)) for c in cpus]


def _affinity(target: Target, pid: int) -> frozenset[int]:
    for line in (read_text(target.proc / str(pid) / "status") or "").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return cpu_list(line.partition(":")[2])
    return frozenset()
