"""How far each task has come, from the rings of its guests: read beside the recorder, which consumes them.

Only counters are kept: a pace between two moments is a difference of two `TaskCounts`s. A batch counts once its time is
known: the device's, where there is one (`gputune/gathering/device_time.py`).
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gputune.core.events import BatchCode, Event, Kind, Record
from gputune.core.pace import Pace, pace
from gputune.core.units import NS
from gputune.gathering.device_time import TOLD, DeviceTime, elapsed
from gputune.probes.loader import Foreign, Ring


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """What a task has done so far: batches, samples, optimizer steps, and when the last of them ended (s).

    `at` is by the device's time, where there is one, and `host` by the host's.
    """

    batches: int = 0
    samples: int = 0
    steps: int = 0
    at: float = 0.0
    host: float = 0.0
    unsized: bool = False  # some batches had no known size


def between(before: TaskCounts, after: TaskCounts) -> Pace | None:
    """Return the pace from one count to a later one, None where nothing was done in between."""
    batches, steps = after.batches - before.batches, after.steps - before.steps
    seconds = elapsed(after.host - before.host, after.at - before.at, batches or steps) if before.at else 0.0
    samples = 0 if after.unsized else after.samples - before.samples
    return pace(seconds, samples=samples, batches=batches, steps=steps)


class Peeked(Ring):
    """A ring that somebody else consumes: read from its start, and nothing is written into it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read = 0
        self.recent.clear()
        self.training: set[int] = set()  # iterators that hand out batches to a loop with gradients
        self.time = DeviceTime()
        self.queued: deque[Record] = deque()  # batches and steps of which the device's time is not known yet

    def _consumed(self) -> None:
        """Leave the file as it is."""


class Progress:
    """The rings of one folder, by the task that they belong to. `slot_of` tells whose a process is."""

    def __init__(self, folder: Path, slot_of: Callable[[int], int]) -> None:
        self._folder = folder
        self._slot_of = slot_of
        self._rings: dict[str, tuple[int, Peeked]] = {}
        self._seen: set[str] = set()
        self._counts: dict[int, TaskCounts] = {}
        self._firsts: dict[int, TaskCounts] = {}
        self._made: dict[int, int] = {}
        self._scan_at = 0.0
        self.moved: dict[int, float] = {}  # slot to when anything was last heard of it, s

    def count(self, slot: int) -> TaskCounts:
        """Return what a task has done so far."""
        return self._counts.get(slot, TaskCounts())

    def made(self, slot: int) -> int:
        """Return how many batches a task has had so far, those included that its device may not have come to yet."""
        return self._made.get(slot, 0)

    def first(self, slot: int) -> TaskCounts | None:
        """Return the count right after the first batch or step of a task, None where there was none."""
        return self._firsts.get(slot)

    def has_ring(self, slot: int) -> bool:
        """Return whether a process of this task writes records: it has imported torch or TensorFlow."""
        return any(owner == slot for owner, _ring in self._rings.values())

    def forget(self) -> None:
        """Begin anew: what ran so far were trials, and their slots are given again."""
        self.close()
        self._counts.clear()
        self._firsts.clear()
        self._made.clear()
        self.moved.clear()

    def look(self, *, now: bool = False) -> None:
        """Read what is new."""
        at = time.monotonic()
        if now or at >= self._scan_at:
            self._scan_at = at + 0.5  # s between looks for new rings
            self._scan()
        for slot, ring in self._rings.values():
            for event in self._drained(slot, ring):
                self._take(slot, ring, event)
                self.moved[slot] = at

    @staticmethod
    def _drained(slot: int, ring: Peeked) -> list[Event]:
        """Return what a ring has that is new; what its guest said once is known before."""
        events = ring.drain(slot)
        if any(note.get("n") == TOLD for note in ring.notes()):
            ring.time.expect()
        return events

    def _scan(self) -> None:
        try:
            names = {entry.name: entry for entry in self._folder.iterdir()}
        except OSError:
            return
        for name in [name for name in self._rings if name not in names]:  # its process is gone, and was read
            slot, ring = self._rings.pop(name)
            for event in self._drained(slot, ring):
                self._take(slot, ring, event)
            ring.close()
        self._seen &= names.keys()
        for name in names.keys() - self._seen:
            pid = name.partition(".")[0].partition("-")[0]
            slot = self._slot_of(int(pid)) if pid.isdigit() else -1
            self._meet(names[name], slot)

    def _meet(self, path: Path, slot: int) -> None:
        if path.suffix != ".ring":
            self._seen.add(path.name)
        elif slot >= 0:
            with contextlib.suppress(OSError, ValueError, Foreign):  # it is being made: the next look finds it
                ring = Peeked(path)
                self._seen.add(path.name)
                self._rings[path.name] = (slot, ring)

    def _take(self, slot: int, ring: Peeked, event: Event) -> None:
        record = event.record
        if record.kind == Kind.ITERATOR and record.e:
            ring.training.add(record.a)
            return
        if record.kind == Kind.GAP:
            ring.time.take(record)
        elif record.kind == Kind.STEP or (
            record.kind == Kind.BATCH
            and record.a in ring.training
            and not record.code & (BatchCode.END | BatchCode.FAILED)
        ):
            self._made[slot] = self._made.get(slot, 0) + (record.kind == Kind.BATCH)
            ring.time.came(record.t1)
            ring.queued.append(record)
        else:
            return
        while ring.queued and ring.time.knows(ring.queued[0].t1):
            self._count(slot, ring.queued.popleft(), ring.time)

    def _count(self, slot: int, record: Record, time: DeviceTime) -> None:
        """Count a batch or a step, now that its time is known."""
        old = self._counts.get(slot, TaskCounts())
        at, host = time.at(record.t1) / NS, record.t1 / NS
        if record.kind == Kind.STEP:
            if old.batches:
                at, host = old.at, old.host
            done = TaskCounts(old.batches, old.samples, old.steps + 1, at, host, old.unsized)
        else:
            unsized = old.unsized or not record.c
            done = TaskCounts(old.batches + 1, old.samples + record.c, old.steps, at, host, unsized)
        self._counts[slot] = done
        if slot not in self._firsts:
            self._firsts[slot] = done

    def close(self) -> None:
        """Give every ring back."""
        for _slot, ring in self._rings.values():
            ring.close()
        self._rings.clear()
