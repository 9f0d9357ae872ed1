"""What the command's processes use, by role: CPU, storage, and how often they wait for a CPU."""

from collections.abc import Mapping

from gputune.core.sample import Metric, Reading, Role, Sample, Target, Ticks, now
from gputune.core.units import NS
from gputune.host.counters import CpuClocks, moved, stats
from gputune.host.procfs import CLOCK_TICKS, Clocks, affinity, monotonic_of
from gputune.host.sockets import Sockets
from gputune.host.usage import NOTHING, Bytes, Usage

JOB = Metric("cpu.job", "cores", "CPU used by the process tree.")
BY_ROLE: dict[Role, Metric] = {
    "main": Metric("cpu.main", "cores", "CPU used by the processes that train, all their threads."),
    "worker": Metric("cpu.workers", "cores", "CPU used by DataLoader workers."),
    "other": Metric("cpu.rest", "cores", "CPU used by the tree's other processes, those never met included."),
}
OTHERS = Metric("cpu.others", "cores", "CPU used by anybody outside of the tree, on the CPUs this job may use.")
QUEUED: dict[Role, Metric] = {
    "main": Metric(
        "cpu.queued.main", "cores", "Training processes whose first thread wanted a CPU and had none, mean."
    ),
    "worker": Metric("cpu.queued.workers", "cores", "Workers whose first thread wanted a CPU and had none, mean."),
}
COUNT = Metric("workers.count", "1", "DataLoader workers that live.")
RUNNING = Metric("workers.running", "ratio", "Share of the workers that were running or wanted to.")
BLOCKED = Metric("workers.blocked", "ratio", "Share of the workers in uninterruptible sleep, as a rule on storage.")
STUCK = Metric("main.blocked", "ratio", "Share of the training processes in uninterruptible sleep, likewise.")
NETWORK = Metric(
    "main.network",
    "ratio",
    "Whether the first thread of a training process waits at a socket of the internet; only where no guest tells it.",
    per="pid",
)
THREADED = Metric("job.threads", "1", "Threads of the process tree.")
EACH_CPU = Metric(
    "main.cpu", "cores", "CPU used by one training process, all its threads; only where there are several.", per="pid"
)
EACH_QUEUED = Metric(
    "main.queued", "cores", "How long its first thread wanted a CPU and had none, likewise.", per="pid"
)
READ = Metric("job.read", "B", "Bytes that the tree had storage read for it; page cache hits are not in it.", "counter")
WRITTEN = Metric("job.written", "B", "Bytes that the tree had written to storage.", "counter")
ASKED = Metric("job.asked", "B", "Bytes that read() and its like returned to the tree, cached or not.", "counter")
METRICS = (
    JOB,
    *BY_ROLE.values(),
    OTHERS,
    *QUEUED.values(),
    COUNT,
    RUNNING,
    BLOCKED,
    STUCK,
    NETWORK,
    EACH_CPU,
    EACH_QUEUED,
    THREADED,
    READ,
    WRITTEN,
    ASKED,
)

PERIOD = 0.2  # s; the kernel counts CPU time in 10 ms: a twentieth of rounding, of which the mean keeps nothing
LATER = 1.0  # s; what is wanted are means over the training loop, and they come out the same
SHORT = 0.05  # s; a shorter interval, as before the last tick of a run, is left out
SLOW_BEAT = 0.35  # s between readings of `io` and of the machine: not worth one more system call a process each tick
QUEUE_BEAT = 0.35  # s between readings of `schedstat`, as above


def attach(target: Target) -> Ticks:
    """Read `stat` of each process on every tick, `io` and `schedstat` on a slow beat. Source: proc_pid_stat(5).

    Five times a second at first, the slow ones every other time; once a second when the run is no longer young.
    """
    job = _Job(target)
    try:
        while True:
            yield job.tick()
    finally:
        job.close()


def _machine(target: Target) -> CpuClocks | None:
    try:
        return CpuClocks(target.proc)
    except OSError:
        return None


def _by_role() -> dict[Role, int]:
    return {"main": 0, "worker": 0, "other": 0}


class _Job:
    """The tree between two readings."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[int, Usage] = {}
        self._files: tuple[list[int], list[int]] | None = None  # descriptors of their `stat` and `io`, in that order
        self._roles: Mapping[
            int, Role
        ] = {}  # when they were last looked through; a new mapping is made when they change
        self._began = now()
        self._last = self._slow_last = self._queued_last = 0
        self._bytes = NOTHING
        self._used = self._used_last = 0  # clock ticks of the job since we began, now and at the slow beat before
        self._machine: Clocks = {}
        self._stat = _machine(target)
        self._cpus: frozenset[int] = frozenset()
        self._cpus_due = 0
        self._overdrawn = 0  # clock ticks that the job had more than the machine: rounding, made up for the next time
        self._sockets: dict[int, Sockets | None] = {}  # of training processes; None: it may not be looked at

    def tick(self) -> list[Reading]:
        """Return what is due. The first tick only learns where everybody stands."""
        t = now()
        if self._last and t - self._last < SHORT * NS:
            return []
        slow, queues = t - self._slow_last >= SLOW_BEAT * NS, t - self._queued_last >= QUEUE_BEAT * NS
        used = self._cpu(io=slow, queue=queues)
        job = sum(used.values())
        self._used += job
        readings: list[Reading] = []
        if self._last:
            room = (t - self._last) / NS * CLOCK_TICKS
            readings.append(Sample(JOB, t, job / room))
            readings += [Sample(metric, t, used[role] / room) for role, metric in BY_ROLE.items()]
            readings += [Sample(EACH_CPU, t, each.ran / room, str(each.pid)) for each in self._ranks()]
        self._last = t
        readings += self._workers(t)
        if not self._target.heard:
            readings += self._network(t)
        if slow:
            readings += self._slow(t)
            self._slow_last = t
        if queues:
            readings += self._queued(t)
        return readings

    def close(self) -> None:
        """Let go of every file."""
        for process in self._known.values():
            process.close()
        for sockets in self._sockets.values():
            if sockets is not None:
                sockets.close()
        if self._stat is not None:
            self._stat.close()

    def _cpu(self, *, io: bool, queue: bool) -> dict[Role, int]:
        """Return the clock ticks used since the last reading, by role."""
        roles = self._target.pids()
        gone = self._read(roles, io=io, queue=queue)
        for process in gone.values():
            self._bury(process, gone)
        if roles is not self._roles:
            for pid in roles.keys() - self._known.keys():
                self._meet(pid)
            for pid, process in self._known.items():
                process.role = roles[pid]
            self._roles = roles
        used = _by_role()
        for process in self._known.values():
            used[process.role] += process.ran
            if process.inherited:
                used[process.heir] += process.settled()
        return used

    def _read(self, roles: Mapping[int, Role], *, io: bool, queue: bool) -> dict[int, Usage]:
        """Read every process that is known and return those that have ended or left."""
        if self._files is None:
            known = self._known.values()
            self._files = ([p.stat.fd for p in known], [-1 if p.io is None else p.io.fd for p in known])
        files, ios = self._files
        gone: dict[int, Usage] = {}
        for process, stat in zip(self._known.values(), stats(files), strict=True):
            if stat is None or process.pid not in roles:
                gone[process.pid] = process
            else:
                process.count(stat)
        if io:  # at once, while the kernel has the processes at hand
            for process, carried in zip(self._known.values(), moved(ios), strict=True):
                process.carried(carried)
        if queue:
            for process in self._known.values():
                process.queue()
        return gone

    def _meet(self, pid: int) -> None:
        """Take a process in. One that began after us counts from its start, an older one from now."""
        try:
            process = Usage(self._target.proc, pid)
        except OSError:
            return
        (stat,) = stats([process.stat.fd])
        if stat is None:
            process.close()
            return
        process.count(stat)
        if process.io is not None:
            process.carried(moved([process.io.fd])[0])
        process.queue()
        if monotonic_of(process.started) < self._began:
            process.forget()
        self._known[pid] = process
        self._files = None

    def _bury(self, process: Usage, gone: Mapping[int, Usage]) -> None:
        """Let a process go that has ended. What it used was counted; an ancestor that lives will inherit it."""
        del self._known[process.pid]
        self._files = None
        process.close()
        parent = process.parent
        while parent in gone:
            parent = gone[parent].parent
        heir = self._known.get(parent)
        if heir is not None:
            heir.owed += process.cpu + process.waited
            heir.owed_bytes = _sum(heir.owed_bytes, process.bytes)
            heir.heir = process.role

    def _workers(self, t: int) -> list[Reading]:
        states = [p.state for p in self._known.values() if p.role == "worker"]
        readings: list[Reading] = [Sample(COUNT, t, len(states))]
        if states:
            readings.append(Sample(RUNNING, t, states.count(b"R") / len(states)))
            readings.append(Sample(BLOCKED, t, states.count(b"D") / len(states)))
        mains = [p.state for p in self._known.values() if p.role == "main"]
        if mains:
            readings.append(Sample(STUCK, t, mains.count(b"D") / len(mains)))
        return readings

    def _network(self, t: int) -> list[Reading]:
        mains = [p.pid for p in self._known.values() if p.role == "main"]
        return [Sample(NETWORK, t, float(waits), str(pid)) for pid in mains if (waits := self._waits(pid)) is not None]

    def _waits(self, pid: int) -> bool | None:
        """Return whether it waits at a socket of the internet, None where that is not to be known."""
        sockets = None
        try:
            sockets = self._sockets[pid] if pid in self._sockets else Sockets(self._target.proc, pid)
            self._sockets[pid] = sockets
            return None if sockets is None else sockets.waits()
        except OSError:
            self._sockets[pid] = None
            if sockets is not None:
                sockets.close()
            return None

    def _slow(self, t: int) -> list[Reading]:
        threads = 0
        read, written, asked = self._bytes
        for process in self._known.values():
            moved = process.moved()
            if moved is not NOTHING:
                read, written, asked = read + moved[0], written + moved[1], asked + moved[2]
            threads += process.threads
        self._bytes = (read, written, asked)
        readings: list[Reading] = [Sample(THREADED, t, threads)]
        if any(p.io is not None for p in self._known.values()):
            readings += [Sample(READ, t, read), Sample(WRITTEN, t, written), Sample(ASKED, t, asked)]
        return readings + self._others(t)

    def _queued(self, t: int) -> list[Reading]:
        queued, waited = _by_role(), dict[int, int]()
        for process in self._known.values():
            waited[process.pid] = process.waited_for_cpu()
            queued[process.role] += waited[process.pid]
        before, self._queued_last = self._queued_last, t
        if not before:
            return []
        all_of_them = [Sample(metric, t, queued[role] / (t - before)) for role, metric in QUEUED.items()]
        each = [Sample(EACH_QUEUED, t, waited[one.pid] / (t - before), str(one.pid)) for one in self._ranks()]
        return [*all_of_them, *each]

    def _ranks(self) -> list[Usage]:
        """Return the training processes where there are several: what one alone uses is what all of them do."""
        mains = [process for process in self._known.values() if process.role == "main"]
        return mains if len(mains) > 1 else []

    def _others(self, t: int) -> list[Reading]:
        """Return what the machine used on the job's CPUs and the job did not. Both are read at nearly the same time."""
        if self._stat is None:
            return []
        before, self._machine = self._machine, self._stat.read()
        mine, self._used_last = self._used - self._used_last, self._used
        if not before or not self._slow_last:
            return []
        if t >= self._cpus_due:
            self._cpus_due = t + 10 * NS  # s between looks at which CPUs the job may use
            mains = [p.pid for p in self._known.values() if p.role == "main"] or [self._target.root_pid]
            self._cpus = affinity(self._target.proc, mains) or frozenset(self._machine)
        cpus = self._cpus & self._machine.keys() & before.keys()
        foreign = sum(self._machine[c][0] - before[c][0] for c in cpus) - mine + self._overdrawn
        self._overdrawn = min(0, foreign)
        return [Sample(OTHERS, t, max(0, foreign) / ((t - self._slow_last) / NS * CLOCK_TICKS))]


def _sum(a: Bytes, b: Bytes) -> Bytes:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])
