"""The process tree of the watched command: who belongs to it, and what each one does there.

A process that was seen once stays in the tree when its parent ends and init adopts it. The kernel lists
the children of a thread in /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN); without that file the parents of all
processes are read.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputune.core.events import Event, Kind
from gputune.core.sample import Guest, Reading, Role, now
from gputune.core.units import NS
from gputune.host.procfs import PAGE, OpenProcFile, children_of, read_bytes, stat_of

TRAINING = frozenset({Kind.BATCH, Kind.STEP, Kind.BACKWARD, Kind.ITERATOR})  # records that only a training writes
TELLING = frozenset({Event, Guest})
PATIENCE = 10 * NS  # a process with torch and no such record is taken for a training after that: it has its own loop
THOROUGH = 16  # every that many refreshes all threads are asked for children, not only the first of each process


class _Kin:
    """The children of a process's first thread, where the kernel lists them."""

    def __init__(self, folder: str, pid: int) -> None:
        self._life = OpenProcFile(f"{folder}/comm", PAGE)
        try:
            self._list = OpenProcFile(f"{folder}/task/{pid}/children")
        except OSError:
            self._life.close()
            raise

    def children(self) -> list[int]:
        """Return them; none if the process has ended."""
        try:
            return [int(pid) for pid in self._list.read().split()]
        except OSError:
            return []

    def lives(self) -> bool:
        """Return whether the process is there: its list of children would merely be empty."""
        try:
            return bool(self._life.read())
        except OSError:
            return False

    def close(self) -> None:
        """Let go of its files."""
        self._life.close()
        self._list.close()


class _Births:
    """Whether any process or thread of the machine began or ended, from one file: `0.20 0.18 0.12 1/80 11206`.

    The last two numbers are how many threads there are and the pid that was given last (proc_loadavg(5)): as long as
    both stand, nobody came, and so nobody left. Some make the file up: lxcfs in a container (it is a mount then),
    gVisor (zeros). It is not believed there, nor once somebody came or went of whom it had not told.
    """

    def __init__(self, proc: Path) -> None:
        self._file: OpenProcFile | None = None
        self._last = b""
        try:
            if (proc / "loadavg").stat().st_dev == (proc / "self").lstat().st_dev:
                self._file = OpenProcFile(proc / "loadavg", PAGE)
        except OSError:  # a folder that is no whole /proc
            return

    def none(self) -> bool:
        """Return whether nobody began or ended since the last call, for sure."""
        if self._file is None:
            return False
        try:
            _, _, _, threads, last_pid = self._file.read().split()
        except (OSError, ValueError):
            self.close()
            return False
        before, self._last = self._last, threads.rpartition(b"/")[2] + b" " + last_pid
        return before == self._last and last_pid != b"0"

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(slots=True)
class _Member:
    """One process of the tree. Its open files, or its start time in a scan, tell it from a later one of that pid."""

    started: int  # clock ticks since boot
    kin: _Kin | None
    role: Role = "other"


class Tree:
    """The command's process and its descendants. `root_pid` need not exist yet, or any more."""

    def __init__(self, root_pid: int, proc: Path = Path("/proc")) -> None:
        self.root_pid = root_pid
        self._proc = proc
        self._members: dict[int, _Member] = {}
        self._roles: dict[int, Role] = {}
        self._lists_children = (proc / "self/task").exists() and any(proc.glob("self/task/*/children"))
        self._births = _Births(proc)
        self._refreshes = 0
        self._root_seen = False
        self._told: dict[int, Role] = {}
        self._guests: dict[int, Guest] = {}
        self._silent: dict[int, int] = {}  # pid to when it was first heard of: torch is there, no training yet

    def pids(self) -> Mapping[int, Role]:
        """Return pid to role as of the last `refresh`. A new mapping is made when it changes: safe to iterate."""
        return self._roles

    def refresh(self) -> None:
        """Look for processes that came or went. About 3 µs a process; all of /proc where it must be scanned.

        Nobody is asked where the kernel says that nobody came, but now and then, to see whether that is to be believed.
        """
        self._refreshes += 1
        thorough = self._refreshes % THOROUGH == 0
        quiet = self._births.none() and self._root_seen and not self._told
        if quiet and not thorough:
            return
        before = set(self._members)
        children = self._ask_children(thorough=thorough) if self._lists_children else self._scan()
        queue = [*self._told, *children]
        if not self._root_seen:
            queue.insert(0, self.root_pid)  # once: after its end its pid may come to mean another process
        for pid in queue:
            if pid not in self._members and self._enter(pid) and self._lists_children:
                queue.extend(children_of(f"{self._proc}/{pid}"))
        self._root_seen = self._root_seen or self.root_pid in self._members
        for pid in [p for p in self._told if p not in self._members]:
            del self._told[pid]
        if quiet and self._members.keys() != before:
            self._births.close()
        self._publish()

    def workers(self, pids: Iterable[int]) -> None:
        """Learn that these are DataLoader workers of the job."""
        self._tell(pids, "worker")

    def trainers(self, pids: Iterable[int]) -> None:
        """Learn that these train."""
        self._tell(pids, "main")

    def learn(self, readings: Sequence[Reading]) -> None:
        """Take from the readings of a tick who trains and who loads."""
        if not TELLING.isdisjoint(map(type, readings)):
            for reading in readings:
                if isinstance(reading, Event):
                    self._event(reading)
                elif isinstance(reading, Guest):
                    self._guest(reading)
        if self._silent:
            due = [pid for pid, since in self._silent.items() if now() - since > PATIENCE]
            for pid in due:
                del self._silent[pid]
            self.trainers(due)

    def close(self) -> None:
        """Let go of every open file."""
        self._births.close()
        for pid in list(self._members):
            self._drop(pid)

    def _event(self, event: Event) -> None:
        kind = event.record.kind
        if kind == Kind.MEMBER:
            self.workers([event.record.b])
        elif kind in TRAINING:
            guest = self._guests.get(event.process)
            if guest is not None and guest.role == "main":
                del self._guests[event.process]
                self._silent.pop(guest.pid, None)
                self.trainers([guest.pid])

    def _guest(self, guest: Guest) -> None:
        if guest.ended:
            self._guests.pop(guest.process, None)
            self._silent.pop(guest.pid, None)
        elif guest.role == "worker":
            self.workers([guest.pid])
        elif guest.state == "none" and not (guest.role == "other" and self._is_worker(guest.pid)):
            self._tell([guest.pid], guest.role)  # whom the training has named meanwhile is one of its workers
        elif guest.role == "main" and self._roles.get(guest.pid) != "main":
            self._guests[guest.process] = guest
            if guest.state == "ring":
                self._silent.setdefault(guest.pid, now())

    def _is_worker(self, pid: int) -> bool:
        member = self._members.get(pid)
        return (self._told.get(pid) if member is None else member.role) == "worker"

    def _tell(self, pids: Iterable[int], role: Role) -> None:
        new = [pid for pid in pids if self._roles.get(pid) != role]
        for pid in new:
            member = self._members.get(pid)
            if member is not None:
                member.role = role
            else:
                self._told[pid] = role  # it spoke before it was found: it enters with the next refresh
        if new:
            self._publish()

    def _publish(self) -> None:
        roles = {pid: member.role for pid, member in self._members.items()}
        if roles != self._roles:
            self._roles = roles

    def _enter(self, pid: int) -> bool:
        """Take a process in; False if it has ended already or must not be looked at."""
        folder = f"{self._proc}/{pid}"
        stat = stat_of(read_bytes(f"{folder}/stat"))
        if stat is None:
            return False
        try:
            kin = _Kin(folder, pid) if self._lists_children else None
        except OSError:
            return False
        self._members[pid] = _Member(stat.started, kin, self._told.pop(pid, "other"))
        return True

    def _drop(self, pid: int) -> None:
        kin = self._members.pop(pid).kin
        if kin is not None:
            kin.close()

    def _ask_children(self, *, thorough: bool) -> list[int]:
        """Drop who has ended, and return the children of the others."""
        found: list[int] = []
        for pid, member in self._members.items():
            if member.kin is not None:
                found += children_of(f"{self._proc}/{pid}") if thorough else member.kin.children()
        listed = set() if thorough else set(found)  # whom a parent lists is there, or his pid is a new child's by now
        for pid in self._members.keys() - listed:
            kin = self._members[pid].kin
            if kin is None or not kin.lives():
                self._drop(pid)
        return found

    def _scan(self) -> list[int]:
        """Read every process's parent. Drops who has ended or whose pid belongs to another one by now."""
        parents: dict[int, list[int]] = {}
        started: dict[int, int] = {}
        for name in os.listdir(self._proc):  # noqa: PTH208 - a Path for each process costs more than the reading
            stat = stat_of(read_bytes(f"{self._proc}/{name}/stat")) if name.isdigit() else None
            if stat is not None:
                started[int(name)] = stat.started
                parents.setdefault(stat.parent, []).append(int(name))
        for pid, member in list(self._members.items()):
            if started.get(pid) != member.started:
                self._drop(pid)
        found = [*self._members] if self._root_seen else [self.root_pid]
        for pid in found:
            found.extend(parents.get(pid, ()))
        return found
