"""How busy the CPUs are that this job may use, by anyone, and how many they are."""

import time

from gputune.core.sample import Metric, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.core.units import NS
from gputune.host.cgroup import cpu_quota
from gputune.host.counters import CpuClocks
from gputune.host.procfs import CLOCK_TICKS, Clocks, affinity

SETTLED = 10.0  # s between looks at what is allowed; before that at once and after 1 s: `taskset` acts after its start
ALLOWED = Metric("cpu.allowed", "cores", "CPUs this job may use: affinity and the tightest cgroup quota.", beat=SETTLED)
COUNT = Metric("cpu.count", "1", "CPUs of the machine that are online, allowed or not.", beat=SETTLED)
BUSY = Metric("cpu.busy", "cores", "CPUs in use by anyone (or stolen by the hypervisor), of those in the affinity.")
STOLEN = Metric("cpu.stolen", "cores", "Of these, what the host of this virtual machine gave to others.")
IOWAIT = Metric("cpu.iowait", "ratio", "Share of time those CPUs idled while a task of theirs waited for storage.")
CORE = Metric("cpu.core", "ratio", "Share of time one CPU was in use.", per="cpu")
METRICS = (ALLOWED, COUNT, BUSY, STOLEN, IOWAIT, CORE)

PERIOD = 0.5  # s; the kernel counts CPU time in 10 ms, so a tenth of a second would be a tenth rounding
LATER = 1.0  # s; what is wanted are means, and they come out the same
SHORT = 0.05  # s; a shorter interval, as before the last tick of a run, is left out
DEAREST = 0.001  # of a core: where /proc/stat is slow to read (many CPUs and interrupts) it is read less often


def attach(target: Target) -> Ticks:
    """Read `/proc/stat`, and the affinity and control group of the processes that train (of the command before)."""
    try:
        stat = CpuClocks(target.proc)
    except OSError as reason:
        raise Unavailable(f"`{target.proc / 'stat'}` cannot be read: {reason.strerror}") from reason
    cores = _Cores(target, stat)
    try:
        while True:
            yield cores.tick()
    finally:
        stat.close()


class _Cores:
    """The CPUs of the job between two readings of the kernel's clocks."""

    def __init__(self, target: Target, stat: CpuClocks) -> None:
        self._target = target
        self._stat = stat
        self._cpus: frozenset[int] = frozenset()
        self._allowed_due = self._stat_due = 0.0
        self._looks = 0
        self._last: Clocks = {}
        self._cores_last: Clocks = {}
        self._t = self._cores_t = 0  # ns; when those were read

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
            clocks = self._stat.read()
            self._stat_due = at + (time.thread_time() - before) / DEAREST - SHORT
            readings += self._busy(now(), clocks)
        return readings

    def _allowed(self) -> list[Reading]:
        """Look up affinity and quota. Several training processes may be bound to different CPUs: all of them count."""
        target = self._target
        mains = [pid for pid, role in target.pids().items() if role == "main"] or [target.root_pid]
        online = self._stat.read().keys()
        cpus = affinity(target.proc, mains) & online or frozenset(online)
        if cpus != self._cpus:
            self._cpus, self._last = cpus, {}
        quotas = [cpu_quota(pid, target.proc, target.sys) for pid in mains]
        cores = min(float(len(cpus)), max((q for q in quotas if q is not None), default=float("inf")))
        t = now()
        return [Sample(ALLOWED, t, cores), Sample(COUNT, t, len(online))]

    def _busy(self, t: int, clocks: Clocks) -> list[Reading]:
        last, passed = self._last, t - self._t
        if not last:
            self._last = self._cores_last = clocks
            self._t = self._cores_t = t
            return []
        if passed < SHORT * NS:
            return []
        self._last, self._t = clocks, t
        room = passed / NS * CLOCK_TICKS  # ticks that one CPU had
        cpus = self._cpus & last.keys() & clocks.keys()  # one of them may have gone offline
        busy = waiting = stolen = 0
        for cpu in cpus:
            (used, waited, taken), (used_before, waited_before, taken_before) = clocks[cpu], last[cpu]
            busy += used - used_before
            waiting += max(0, waited - waited_before)  # the kernel's iowait may step back
            stolen += max(0, taken - taken_before)
        count = max(1, len(cpus))
        return [
            Sample(BUSY, t, min(max(0.0, (busy + stolen) / room), count)),
            *([Sample(STOLEN, t, min(stolen / room, count))] if any(clocks[cpu][2] for cpu in cpus) else []),
            Sample(IOWAIT, t, min(1.0, waiting / room / count)),
            *self._each(t, clocks),
        ]

    def _each(self, t: int, clocks: Clocks) -> list[Reading]:
        last, passed = self._cores_last, t - self._cores_t
        # 1.0 s between readings of single cores
        # 64: above it single cores are left out: nobody reads them, and they would fill the recording
        if len(self._cpus) > 64 or passed < 1.0 * NS:
            return []
        self._cores_last, self._cores_t = clocks, t
        room = passed / NS * CLOCK_TICKS
        cpus = sorted(self._cpus & last.keys() & clocks.keys())
        return [Sample(CORE, t, min(1.0, max(0, _taken(clocks[c]) - _taken(last[c])) / room), str(c)) for c in cpus]


def _taken(clock: tuple[int, int, int]) -> int:
    """Return the ticks for which a CPU was in use or stolen."""
    return clock[0] + clock[2]
