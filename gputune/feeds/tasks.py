"""Who uses this machine: the processes of runs, those on devices, and the others that use most of the CPUs."""

import heapq
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gputune.core import opening
from gputune.core.hygiene import clean
from gputune.feeds.rows import TaskRow
from gputune.feeds.typed import typed
from gputune.host.procfs import CLOCK_TICKS, read_bytes, stat_of

SCAN_S = 2.0  # s between scans of /proc
MOST_STRANGERS = 40  # strangers that are told of; a run's own processes and those on a device are told of in any case
RESIDENT = 21  # of /proc/PID/stat, counted from the state: pages in memory
PAGE = os.sysconf("SC_PAGE_SIZE")
NAME_CHARS = 64  # characters
NAMELESS = "no name"  # a process may call itself nothing, or blanks


class Kin(NamedTuple):
    """What is known of a run's processes: its command, those that train, their ranks by pid, and the run's id."""

    run: str
    command: int
    mains: frozenset[int]
    ranks: Mapping[int, int] = MappingProxyType({})


class OnDevice(NamedTuple):
    """What a process holds of the devices it is on, and its part of their SMs' time."""

    devices: tuple[int, ...]
    memory: float | None
    share: float | None = None


class _Seen(NamedTuple):
    name: str
    parent: int
    used: int  # clock ticks of CPU since its start
    resident: int  # pages
    started: int  # clock ticks after boot


class Tasks:
    """Scans /proc on a slow beat of its own."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._due = 0.0
        self._at = 0.0
        self._before: dict[int, _Seen] = {}
        self._rows: tuple[TaskRow, ...] = ()
        self._kin: list[Kin] = []

    def look(self, kin: list[Kin], devices: Mapping[int, OnDevice]) -> tuple[TaskRow, ...]:
        """Return the rows, those that use most first; of the last scan, where none is due."""
        at = time.monotonic()
        if at < self._due and kin == self._kin:  # of a run that has just begun, or ended, nobody should wait for it
            return self._rows
        self._kin = kin
        began = time.thread_time()
        seen = self._scan()
        cores = self._cores(seen, at - self._at)
        self._rows = tuple(_rows(seen, cores, kin, devices, self._about))
        self._before, self._at = seen, at
        # 0.005 of a core: where there are thousands of processes, scans are further apart
        self._due = at + max(SCAN_S, (time.thread_time() - began) / 0.005)
        return self._rows

    def _about(self, pid: int) -> tuple[str, str]:
        """Return whose a process is, and what was typed to start it: read of those alone that are told of."""
        folder = f"{self._proc}/{pid}"
        try:
            user = opening.name_of(os.stat(folder).st_uid)  # noqa: PTH116 - as in `_scan`
        except OSError:  # it has ended
            user = ""
        return clean(user, NAME_CHARS), typed(read_bytes(f"{folder}/cmdline"))

    def _scan(self) -> dict[int, _Seen]:
        found = {}
        for entry in os.listdir(self._proc):  # noqa: PTH208 - a Path for each process costs more than its reading
            seen = _seen(read_bytes(f"{self._proc}/{entry}/stat")) if entry.isdigit() else None
            if seen is not None:
                found[int(entry)] = seen
        return found

    def _cores(self, seen: Mapping[int, _Seen], passed: float) -> dict[int, float]:
        """Return the cores used since the scan before; nothing of what was not there then."""
        room = passed * CLOCK_TICKS
        both = seen.keys() & self._before.keys() if self._before and room > 0 else set[int]()
        return {pid: max(0, seen[pid].used - self._before[pid].used) / room for pid in both}


def _seen(text: bytes) -> _Seen | None:
    """Return what a /proc/PID/stat says; None where the process has ended."""
    stat = stat_of(text)
    if stat is None:
        return None
    end = text.rfind(b") ")
    rest = text[end + 2 :].split(None, RESIDENT + 1)
    resident = int(rest[RESIDENT]) if len(rest) > RESIDENT else 0
    name = text[text.find(b"(") + 1 : end].decode(errors="replace")
    return _Seen(name, stat.parent, stat.own, resident, stat.started)


def _rows(
    seen: Mapping[int, _Seen],
    cores: Mapping[int, float],
    kin: list[Kin],
    devices: Mapping[int, OnDevice],
    about: Callable[[int], tuple[str, str]],
) -> list[TaskRow]:
    roles = {pid: known for pid in seen if (known := _role(pid, seen, kin)) is not None}
    wanted = {pid for pid in {*roles, *devices} if pid in seen}
    # A stranger that uses less than 0.02 cores is nobody's business
    strangers = (pid for pid, used in cores.items() if used >= 0.02 and pid not in wanted)
    wanted.update(heapq.nlargest(MOST_STRANGERS, strangers, key=lambda pid: cores[pid]))
    ranks = {pid: rank for each in kin for pid, rank in each.ranks.items()}
    rows, up = [], time.clock_gettime(time.CLOCK_BOOTTIME)
    for pid in wanted:
        role, run = roles.get(pid, ("foreign", ""))
        on = devices.get(pid, OnDevice((), None))
        user, command = about(pid)
        row = TaskRow(
            pid=pid,
            name=clean(seen[pid].name, NAME_CHARS).strip() or NAMELESS,
            role=role,
            run=run,
            cpu=cores.get(pid),
            memory=float(seen[pid].resident * PAGE),
            started=seen[pid].started,
            device=",".join(map(str, on.devices)),
            device_memory=on.memory,
            user=user,
            command=command,
            rank=ranks.get(pid),
            device_share=on.share,
            age=max(0.0, up - seen[pid].started / CLOCK_TICKS),
            parent=seen[pid].parent,
        )
        rows.append(row)
    # what no process here answers for: another container's, by the host's pids
    rows += [
        TaskRow(
            pid=pid,
            name="(not of this container)",
            device=",".join(map(str, on.devices)),
            device_memory=on.memory,
            device_share=on.share,
        )
        for pid, on in devices.items()
        if pid not in seen
    ]
    return sorted(rows, key=lambda row: (-(row.device_memory or 0), -(row.cpu or 0), row.pid))


def _role(pid: int, seen: Mapping[int, _Seen], kin: list[Kin]) -> tuple[str, str] | None:
    """Return the role of a process and its run, by who stands above it; None where that is no run."""
    at, steps = pid, 0
    while at in seen and steps < 64:  # a chain of parents has an end; a torn scan may not
        for each in kin:
            if at in each.mains:
                return ("main" if at == pid else "worker", each.run)
            if at == each.command:
                return ("other", each.run)
        at, steps = seen[at].parent, steps + 1
    return None
