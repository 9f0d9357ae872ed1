"""How fast a recorded run was, by the clock alone: samples over seconds, from one batch to a later one.

The clock is the device's, where there is one (`gputune/gathering/device_time.py`).
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gputune import recording
from gputune.core.events import APART, Event, Kind
from gputune.core.sample import Json, Note, Reading
from gputune.core.units import NS
from gputune.gathering import device_time
from gputune.gathering.device_time import DeviceTime, Moments, drained

BLOCKS = 10  # parts of a recording whose paces are compared with each other
LEAST = 8  # batches (or steps) beyond the warm-up: fewer give no pace


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one recording. `unit` is `samples/s`, or what could be counted instead: `batches/s`, `steps/s`."""

    rate: float  # all training processes together
    unit: str
    batches: int  # of the process that had most, warm-up left out
    seconds: float
    blocks: tuple[float, ...] = ()  # rates of the parts, of that process


@dataclass(slots=True)
class _Line(Moments):
    """What one process did and when, and how many samples that was."""

    samples: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, t: int, samples: int) -> None:
        self.samples.append(samples)
        self.came(t)

    @property
    def last(self) -> int:
        """Return the number of the last batch that has a time."""
        return self.known - 1

    def clock(self, first: int) -> "array[int]":
        """Return the times by which all from number `first` on is measured."""
        host, device = self.ends, self.caught
        if not device or drained(host[self.last] - host[first], device[-1] - device[first], self.last - first):
            return host
        return device

    def rate(self, first: int, last: int, clock: "array[int]", *, counted: bool) -> float:
        """Return what was done per second after the end of number `first`, until the end of number `last`."""
        done = sum(self.samples[first + 1 : last + 1]) if counted else last - first
        return done / max(1, clock[last] - clock[first]) * NS

    def paces(self, first: int, *, counted: bool) -> Iterable[float]:
        """Yield the rates of up to BLOCKS parts of equally many batches."""
        clock, last = self.clock(first), self.last
        number = min(BLOCKS, (last - first) // 2)
        edges = [first + (last - first) * n // number for n in range(number + 1)] if number else []
        for begin, end in pairwise(edges):
            yield self.rate(begin, end, clock, counted=counted)


class Counter:
    """Takes the readings of a recording, and counts what its training processes did."""

    def __init__(self, where: str = "") -> None:
        self.notes: list[dict[str, Json]] = []  # what the guest said of overrides and of the trial
        self._where = where
        self._places: dict[tuple[int, int], str] = {}
        self._training: dict[tuple[int, int], int] = {}  # (process, iterator) to loader
        self._batches: dict[int, _Line] = {}
        self._steps: dict[int, _Line] = {}
        self._times: dict[int, DeviceTime] = {}

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick."""
        for reading in readings:
            if isinstance(reading, Event):
                self._event(reading)
            elif isinstance(reading, Note):
                self._note(reading)

    def _note(self, note: Note) -> None:
        kind, number = note.fields.get("n"), note.fields.get("id")
        if kind == "loader" and isinstance(number, int):
            self._places[note.process, number] = str(note.fields.get("where"))
        elif kind == device_time.TOLD:
            self._time(note.process).expect()
        elif kind in {"override", "trial"}:
            self.notes.append(note.fields)

    def _event(self, event: Event) -> None:
        record = event.record
        if record.kind == Kind.ITERATOR and record.e:
            self._training[event.process, record.a] = record.b
        elif record.kind == Kind.STEP:
            self._line(self._steps, event.process).add(record.t1, 0)
        elif record.kind == Kind.GAP:
            self._time(event.process).take(record)
            for lines in (self._batches, self._steps):
                if event.process in lines:
                    lines[event.process].catch_up()
        elif record.kind == Kind.BATCH and not record.code & ~APART:
            loader = self._training.get((event.process, record.a))
            place = self._places.get((event.process, loader or 0), "")
            if loader is not None and (not self._where or not place or place == self._where):
                self._line(self._batches, event.process).add(record.t1, record.c)

    def _time(self, process: int) -> DeviceTime:
        return self._times.setdefault(process, DeviceTime())

    def _line(self, lines: dict[int, _Line], process: int) -> _Line:
        return lines.setdefault(process, _Line(self._time(process)))

    def pace(self, skip: int) -> Pace | None:
        """Return the pace after the first `skip` batches of each process; None where too little is left."""
        lines = [line for line in self._batches.values() if line.last >= skip + LEAST - 1]
        kind = "batches/s"
        if not self._batches:
            lines = [line for line in self._steps.values() if line.last >= skip + LEAST - 1]
            kind = "steps/s"
        if not lines:
            return None
        counted = all(all(line.samples) for line in lines)
        first = max(0, skip - 1)
        longest = max(lines, key=lambda line: line.last)
        last, clock = longest.last, longest.clock(first)
        return Pace(
            sum(line.rate(first, line.last, line.clock(first), counted=counted) for line in lines),
            "samples/s" if counted else kind,
            last - first,
            (clock[last] - clock[first]) / NS,
            tuple(longest.paces(first, counted=counted)),
        )


def counted(folder: Path, where: str = "") -> Counter:
    """Return what was counted in a run folder, of the loader built at `where` or of all. Raises as reading it does."""
    counter = Counter(where)
    for readings in recording.readings(folder):
        counter.take(readings)
    return counter
