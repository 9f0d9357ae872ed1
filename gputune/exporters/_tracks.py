"""Tracks of a trace in Chrome's format: a training process is a process of it, its workers and threads are its threads.

Numbers of processes and threads are our own: ranks of two nodes may have the same pid.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
MACHINE = -1  # in the place of a process: counters


class Tracks:
    """Numbers each track when it is first asked for; `told` yields what names those that are new."""

    def __init__(self) -> None:
        self._processes: dict[object, int] = {}
        self._threads: dict[tuple[int, object], int] = {}
        self._new: list[Event] = []
        self._flows = 0

    def process(self, key: object, name: str, order: int = 0) -> int:
        """Return the number of a process; the one of the smallest `order` is shown first."""
        if key not in self._processes:
            pid = self._processes[key] = len(self._processes) + 1
            self._name(pid, 0, "process_name", {"name": name})
            self._name(pid, 0, "process_sort_index", {"sort_index": order})
        return self._processes[key]

    def thread(self, pid: int, key: object, name: str, order: int = 0) -> int:
        """Return the number of a thread of a process, likewise."""
        if (pid, key) not in self._threads:
            tid = self._threads[pid, key] = len(self._threads) + 1
            self._name(pid, tid, "thread_name", {"name": name})
            self._name(pid, tid, "thread_sort_index", {"sort_index": order})
        return self._threads[pid, key]

    def _name(self, pid: int, tid: int, what: str, args: Mapping[str, object]) -> None:
        self._new.append({"ph": "M", "ts": 0, "pid": pid, "tid": tid, "name": what, "args": args})

    def number(self) -> int:
        """Return a number for an arrow."""
        self._flows += 1
        return self._flows

    def told(self) -> Iterator[Event]:
        """Yield what names the tracks that are new."""
        new, self._new = self._new, []
        yield from new


def lasting(at: tuple[int, int], name: str, t: int, seconds: float, args: Mapping[str, object]) -> Event:
    """Return something that lasts, on a track (process, thread), from `t` (µs) on."""
    known = {key: value for key, value in args.items() if value is not None}
    return {**_at(at, "X", name, t), "cat": name.partition(".")[0], "dur": round(seconds * 1e6), "args": known}


def moment(at: tuple[int, int], name: str, t: int, args: Mapping[str, object]) -> Event:
    """Return something that has no length."""
    return {**_at(at, "i", name, t), "cat": name.partition(".")[0], "s": "t", "args": dict(args)}


def counter(pid: int, name: str, t: int, values: Mapping[str, float]) -> Event:
    """Return what is read at a moment."""
    return {**_at((pid, 0), "C", name, t), "args": dict(values)}


def flow(at: tuple[int, int], number: int, t: int, *, ends: bool) -> Event:
    """Return an end of an arrow: its beginning, or where it leads to, each within something that lasts."""
    event = {**_at(at, "f" if ends else "s", "batch", t), "cat": "batch", "id": number}
    return {**event, "bp": "e"} if ends else event


def _at(at: tuple[int, int], kind: str, name: str, t: int) -> Event:
    pid, tid = at
    return {"ph": kind, "name": name, "ts": t, "pid": pid, "tid": tid}
