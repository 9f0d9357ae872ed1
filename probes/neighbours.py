"""Who else uses the job's GPUs and the CPUs: processes that are neither the command's nor gputune's.

On the GPUs these are the processes that NVML lists (`gputune/nvml/process.py`). On the CPUs a slow scan of /proc
finds whoever used a fifth of a core or more since the last one; small ones together show in `cpu.others` only, and so
do those that are bound to other CPUs than the job's.
"""

import os
import time
from pathlib import Path

from gputune.core.hygiene import clean
from gputune.core.sample import Metric, Note, Reading, Sample, Target, Ticks, now
from gputune.host.procfs import CLOCK_TICKS, children_of, read_bytes, stat_of
from gputune.nvml.devices import Owners
from gputune.nvml.process import Answer, Subscription, subscribe

PERIOD = 1.0  # s; NVML's lists of processes have this beat
MOST_NEIGHBOURS = 16  # neighbours told of in one scan
MPS = b"nvidia-cuda-mps"  # -server or -control, cut by the kernel

GPU_BUSY = Metric("gpu.others.busy", "ratio", "SM time of processes that are not the job's.", per="gpu")
GPU_MEMORY = Metric("gpu.others.memory", "B", "Device memory of processes that are not the job's.", per="gpu")
GPU_COUNT = Metric("gpu.others.count", "1", "Processes on the device that are not the job's.", per="gpu")
GPU_ONE = Metric("gpu.other.busy", "ratio", "SM time of one process that is not the job's (`GPU:PID`).", per="gpu:pid")
CPU_ONE = Metric("cpu.neighbour", "cores", "CPU of one process that is not the job's, 0.2 cores or more.", per="pid")
METRICS = (GPU_BUSY, GPU_MEMORY, GPU_COUNT, GPU_ONE, CPU_ONE)


def attach(target: Target) -> Ticks:
    """Share in the NVML process, where there is one, and scan `/proc`."""
    subscription = subscribe()
    gpus, cpus = _Gpus(target, subscription), _Cpus(target)
    try:
        while True:
            readings: list[Reading] = []
            for answer in subscription.read():
                readings += gpus.take(answer)
            yield readings + cpus.scan()
    finally:
        subscription.close()


class _Names:
    """Tells a neighbour's name once."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._told: set[int] = set()

    def tell(self, pid: int) -> list[Reading]:
        """Return a note on `pid` if there was none; one without a place in /proc is in another container."""
        if pid in self._told:
            return []
        self._told.add(pid)
        name = read_bytes(f"{self._proc}/{pid}/comm").decode(errors="replace").strip()
        return [Note(-1, {"n": "neighbour", "pid": pid, "name": clean(name, 32) or "unknown"})]  # characters of a name


class _Gpus:
    """Strangers on the job's devices."""

    def __init__(self, target: Target, subscription: Subscription) -> None:
        self._owners = Owners(target)
        self._subscription = subscription
        self._minors: dict[int, int] = {}
        self._names = _Names(target.proc)
        self._proc = target.proc

    def take(self, answer: Answer) -> list[Reading]:
        """Return who is on the chosen devices and not of the job; nothing where that cannot be told."""
        self._minors.update({device.index: device.minor for device in answer.devices})
        readings: list[Reading] = []
        for index in self._subscription.chosen:
            people = answer.people.get(index)
            split = self._owners.split(people, self._minors.get(index, index)) if people is not None else None
            if split is None:
                continue
            others = [person for person in split[1] if not self._serves(person[0])]
            name = str(index)
            shares = [(pid, share) for pid, _, share in others if share is not None]
            if len(shares) == len(others):
                readings.append(Sample(GPU_BUSY, answer.t, min(1.0, sum(share for _, share in shares)), name))
                readings += [
                    Sample(GPU_ONE, answer.t, share, f"{index}:{pid}") for pid, share in shares[:MOST_NEIGHBOURS]
                ]
            memory = [taken for _, taken, _ in others if taken is not None]
            if len(memory) == len(others):
                readings.append(Sample(GPU_MEMORY, answer.t, float(sum(memory)), name))
            readings.append(Sample(GPU_COUNT, answer.t, float(len(others)), name))
            for pid, _, _ in others[:MOST_NEIGHBOURS]:
                readings += self._names.tell(pid)
        return readings

    def _serves(self, pid: int) -> bool:
        """Tell whether this is the MPS server: it is on the card for its clients, who are listed beside it."""
        return read_bytes(f"{self._proc}/{pid}/comm").startswith(MPS)


class _Cpus:
    """CPU time of everybody, between two scans."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._names = _Names(target.proc)
        self._at = self._due = 0.0
        self._scans = 0
        self._last: dict[tuple[int, int], int] = {}  # pid and its start to CPU time, in clock ticks

    def scan(self) -> list[Reading]:
        """Return the neighbours that used most since the last scan, when one is due."""
        at = time.monotonic()
        if at < self._due:
            return []
        before = time.thread_time()
        used = self._used()
        seconds, self._at = at - self._at, at
        first, last, self._last = not self._last, self._last, used
        readings = [] if first else self._notable(used, last, seconds)
        self._scans += 1
        # s between scans of /proc, the first four and later ones: a neighbour that matters stays for minutes
        pause = 5.0 if self._scans < 4 else 20.0
        # 0.0001 of a core: where a scan is slow (thousands of processes) they are further apart
        self._due = at + max(pause, (time.thread_time() - before) / 0.0001)
        return readings

    def _used(self) -> dict[tuple[int, int], int]:
        job = self._target.pids()
        ours = {os.getpid(), os.getppid(), *children_of(f"{self._target.proc}/self")}
        used: dict[tuple[int, int], int] = {}
        for name in os.listdir(self._target.proc):  # noqa: PTH208 - a Path for each process costs more than the reading
            if name.isdigit() and (pid := int(name)) not in job and pid not in ours:
                stat = stat_of(read_bytes(f"{self._target.proc}/{name}/stat"))
                if stat is not None:
                    used[pid, stat.started] = stat.own
        return used

    def _notable(
        self, used: dict[tuple[int, int], int], last: dict[tuple[int, int], int], seconds: float
    ) -> list[Reading]:
        cores = {key[0]: (ticks - last.get(key, ticks)) / CLOCK_TICKS / seconds for key, ticks in used.items()}
        proc = self._target.proc
        ours = _allowed(proc, self._target.root_pid)
        # 0.2 cores; below it a process takes no worker's place
        heavy = [pid for pid, share in cores.items() if share >= 0.2 and _shared(ours, _allowed(proc, pid))]
        heavy = sorted(heavy, key=lambda pid: -cores[pid])[:MOST_NEIGHBOURS]
        readings: list[Reading] = []
        for pid in heavy:
            readings.append(Sample(CPU_ONE, now(), cores[pid], str(pid)))
            readings += self._names.tell(pid)
        return readings


def _allowed(proc: Path, pid: int) -> int:
    """Return the CPUs that a process may use as a bit mask, 0 where that cannot be told."""
    _, _, rest = read_bytes(f"{proc}/{pid}/status").partition(b"Cpus_allowed:")
    mask = rest.partition(b"\n")[0].strip().replace(b",", b"")
    return int(mask, 16) if mask else 0


def _shared(ours: int, theirs: int) -> bool:
    """Tell whether two processes may meet on a CPU; where it is not known, they may."""
    return not ours or not theirs or bool(ours & theirs)
