"""How fast a recorded run was, by the clock alone: samples over seconds, from one batch to a later one."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gputune import recording
from gputune.events import APART, Event, Kind
from gputune.sample import Json, Note, Reading
from gputune.units import NS

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
class _Line:
    """What one process did and when: ns, and how many samples that was."""

    ends: "array[int]" = field(default_factory=lambda: array("q"))
    samples: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, t: int, samples: int) -> None:
        self.ends.append(t)
        self.samples.append(samples)

    def rate(self, first: int, last: int, *, counted: bool) -> float:
        """Return what was done per second after the end of number `first`, until the end of number `last`."""
        done = sum(self.samples[first + 1 : last + 1]) if counted else last - first
        return done / max(1, self.ends[last] - self.ends[first]) * NS


class Counter:
    """Takes the readings of a recording, and counts what its training processes did."""

    def __init__(self, where: str = "") -> None:
        self.notes: list[dict[str, Json]] = []  # what the guest said of overrides and of the trial
        self._where = where
        self._places: dict[tuple[int, int], str] = {}
        self._training: dict[tuple[int, int], int] = {}  # (process, iterator) to loader
        self._batches: dict[int, _Line] = {}
        self._steps: dict[int, _Line] = {}

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
        elif kind in {"override", "trial"}:
            self.notes.append(note.fields)

    def _event(self, event: Event) -> None:
        record = event.record
        if record.kind == Kind.ITERATOR and record.e:
            self._training[event.process, record.a] = record.b
        elif record.kind == Kind.STEP:
            self._steps.setdefault(event.process, _Line()).add(record.t1, 0)
        elif record.kind == Kind.BATCH and not record.code & ~APART:
            loader = self._training.get((event.process, record.a))
            place = self._places.get((event.process, loader or 0), "")
            if loader is not None and (not self._where or not place or place == self._where):
                self._batches.setdefault(event.process, _Line()).add(record.t1, record.c)

    def pace(self, skip: int) -> Pace | None:
        """Return the pace after the first `skip` batches of each process; None where too little is left."""
        lines = [line for line in self._batches.values() if len(line.ends) >= skip + LEAST]
        kind = "batches/s"
        if not self._batches:
            lines = [line for line in self._steps.values() if len(line.ends) >= skip + LEAST]
            kind = "steps/s"
        if not lines:
            return None
        counted = all(all(line.samples) for line in lines)
        first = max(0, skip - 1)
        longest = max(lines, key=lambda line: len(line.ends))
        last = len(longest.ends) - 1
        return Pace(
            sum(line.rate(first, len(line.ends) - 1, counted=counted) for line in lines),
            "samples/s" if counted else kind,
            last - first,
            (longest.ends[last] - longest.ends[first]) / NS,
            tuple(_parts(longest, first, last, counted=counted)),
        )


def _parts(line: _Line, first: int, last: int, *, counted: bool) -> Iterable[float]:
    """Yield the rates of up to BLOCKS parts of equally many batches."""
    number = min(BLOCKS, (last - first) // 2)
    edges = [first + (last - first) * n // number for n in range(number + 1)] if number else []
    for begin, end in pairwise(edges):
        yield line.rate(begin, end, counted=counted)


def counted(folder: Path, where: str = "") -> Counter:
    """Return what was counted in a run folder, of the loader built at `where` or of all. Raises as reading it does."""
    counter = Counter(where)
    for readings in recording.readings(folder):
        counter.take(readings)
    return counter
