"""When batches of each loader came, as the guests tell it while the script runs: rates by the clock.

Evaluations and checkpoints are left out: one that falls into the time of a setting is not its doing.
"""

import statistics
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from gputune.events import END, FAILED, Event, Kind, SpanCode
from gputune.prediction import TYPICAL_PREFETCH
from gputune.sample import Guest, Json, Note, Reading
from gputune.units import NS

WARM_UP = 5  # batches until allocators, caches and autotuning have settled
BLOCKS = 10  # parts of a stretch whose rates are compared with each other
LEAST = 8  # batches beyond the warm-up: fewer give no rate
TOLD = frozenset({"override", "trial", "steer"})
PAUSES = frozenset({SpanCode.CHECKPOINT, SpanCode.EVALUATION})
FOREVER = 1 << 62  # batches
KEPT = 1 << 16  # batches of a loader in a process whose times are kept; the older half of more goes


@dataclass(slots=True)
class Line:
    """Batches of one loader in one process: when each was there (ns), and how many samples it held.

    `clock` is the same time without the pauses before it.
    """

    ends: "array[int]" = field(default_factory=lambda: array("q"))
    clock: "array[int]" = field(default_factory=lambda: array("q"))
    samples: "array[int]" = field(default_factory=lambda: array("q"))
    gone: int = 0  # batches that are not kept any more

    def __len__(self) -> int:
        """Return how many batches came."""
        return self.gone + len(self.ends)

    def add(self, t: int, paused: int, samples: int) -> None:
        """Take one batch that was there at `t` (ns), `paused` ns of pauses behind it."""
        if len(self.ends) >= KEPT:
            self.gone += KEPT // 2
            for series in (self.ends, self.clock, self.samples):
                del series[: KEPT // 2]
        self.ends.append(t)
        self.clock.append(t - paused)
        self.samples.append(samples)

    def after(self, begin: int, most: int) -> "Line":
        """Return the first `most` batches that came after `begin` (ns)."""
        first = bisect_right(self.ends, begin)
        kept = slice(first, first + most)
        return Line(self.ends[kept], self.clock[kept], self.samples[kept])

    def rate(self, first: int, last: int, size: int) -> float:
        """Return samples/s from the end of number `first` to that of `last`; `size` is that of a batch not counted."""
        done = sum(n or size for n in self.samples[first + 1 : last + 1])
        return done / max(1, self.clock[last] - self.clock[first]) * NS

    def parts(self, skip: int, size: int) -> list[float]:
        """Return the rates of up to BLOCKS parts of equally many batches, the first `skip` left out."""
        first, last = max(0, skip - 1), len(self.ends) - 1
        number = min(BLOCKS, (last - first) // 2)
        if last - first < LEAST:
            return []
        edges = [first + (last - first) * n // number for n in range(number + 1)]
        return [self.rate(begin, end, size) for begin, end in pairwise(edges)]


class Timeline:
    """Takes the readings of a run, and knows its loaders, their batches, and what guests said of our wishes."""

    def __init__(self) -> None:
        self.notes: list[tuple[int, Mapping[str, Json]]] = []  # (process, note)
        self.loaders: dict[str, Mapping[str, Json]] = {}  # where a loader was built to its settings, as last told
        self.pids: dict[int, int] = {}  # process to its pid, of those that live
        self._places: dict[tuple[int, int], str] = {}
        self._training: dict[tuple[int, int], int] = {}  # (process, iterator) to loader
        self._lines: dict[str, dict[int, Line]] = {}
        self._ended: set[int] = set()
        self._paused: dict[int, tuple[int, int]] = {}  # process to ns in pauses so far, and the end of the last one

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick."""
        for reading in readings:
            if isinstance(reading, Event):
                self._event(reading)
            elif isinstance(reading, Note):
                self._note(reading)
            elif isinstance(reading, Guest) and reading.ended:
                self.pids.pop(reading.process, None)
                self._ended.add(reading.process)
            elif isinstance(reading, Guest):
                self.pids[reading.process] = reading.pid

    def _note(self, note: Note) -> None:
        kind, number = note.fields.get("n"), note.fields.get("id")
        if kind == "loader" and isinstance(number, int) and note.fields.get("framework") is None:
            where = str(note.fields.get("where"))
            self._places[note.process, number] = where
            self.loaders[where] = note.fields
        elif kind in TOLD:
            self.notes.append((note.process, note.fields))

    def _event(self, event: Event) -> None:
        record = event.record
        if record.kind == Kind.ITERATOR and record.e:
            self._training[event.process, record.a] = record.b
        elif record.kind == Kind.SPAN and record.code in PAUSES and not record.e:
            paused, last = self._paused.get(event.process, (0, 0))
            self._paused[event.process] = paused + max(0, record.t1 - max(record.t0, last)), max(record.t1, last)
        elif record.kind == Kind.BATCH and not record.code & (END | FAILED):
            loader = self._training.get((event.process, record.a))
            if loader is not None:
                where = self._places.get((event.process, loader), "")
                line = self._lines.setdefault(where, {}).setdefault(event.process, Line())
                line.add(record.t1, self._paused.get(event.process, (0, 0))[0], record.c)

    def batches(self, where: str = "") -> int:
        """Return how many batches came of the loader built at `where` (of any) to the process that had most."""
        places = [where] if where else list(self._lines)
        lines = [line for place in places for line in self._lines.get(place, {}).values()]
        return max((len(line) for line in lines), default=0)

    def living(self, where: str) -> set[int]:
        """Return the processes that had batches of the loader built at `where`, and have not ended."""
        return {process for process in self._lines.get(where, {}) if process not in self._ended}

    def since(self, where: str, count: int) -> int:
        """Return a moment (ns) after which the last `count` batches came, or all that are known, to those that live."""
        lines = [self._lines[where][process] for process in self.living(where)]
        return min((line.ends[max(0, len(line.ends) - count)] for line in lines), default=1) - 1

    def queue(self, where: str) -> int:
        """Return how many batches the loader at `where` has under way, as its settings were told."""
        told = self.loaders.get(where, {})
        workers, prefetch = told.get("num_workers"), told.get("prefetch_factor")
        if not isinstance(workers, int) or not workers:
            return 0
        return workers * (prefetch if isinstance(prefetch, int) else TYPICAL_PREFETCH)

    def counted(self, where: str, begin: int) -> int:
        """Return how many batches came since `begin` (ns), to the process that had fewest of those that live."""
        lines = [self._lines[where][process] for process in self.living(where)]
        return min((len(line.ends) - bisect_right(line.ends, begin) for line in lines), default=0)

    def rates(self, where: str, skip: int, begin: int = 0, *, most: int = FOREVER) -> tuple[float, ...]:
        """Return samples/s of parts of the time from `begin` on (ns), all ranks together; of `most` batches of each.

        Nothing where too few batches came. Where a batch's size is known by nobody it counts as one sample.
        """
        told = self.loaders.get(where, {}).get("batch_size")
        size = told if isinstance(told, int) and told > 0 else 1
        lines = [line.after(begin, most) for line in self._lines.get(where, {}).values()]
        parts = [found for line in lines if (found := line.parts(skip, size))]
        if not parts:
            return ()
        longest = max(parts, key=len)
        whole = sum(statistics.fmean(found) for found in parts)
        scale = whole / statistics.fmean(longest)
        return tuple(rate * scale for rate in longest)
