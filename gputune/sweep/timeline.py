"""When batches of each loader came, as the guests tell it while the script runs: rates by the clock.

Evaluations and checkpoints are left out, and what workers make ready in them: that is not the doing of the setting into
whose time they fall.
"""

import statistics
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gputune.company import ALONE, Companions, Company
from gputune.events import END, FAILED, Event, Kind, SpanCode
from gputune.replay import TYPICAL_PREFETCH
from gputune.sample import Guest, Json, Note, Open, Reading
from gputune.units import NS

WARM_UP = 5  # batches until allocators, caches and autotuning have settled
BLOCKS = 10  # parts of a stretch whose rates are compared with each other
PASSES = 3  # over the data: fewer do not tell by how much they differ
LEAST = 8  # batches beyond the warm-up: fewer give no rate
WAITED = 0.1  # of the time that a batch takes on average: one that lies ready is there sooner
KEEPS_UP = 0.01  # of the time: a loop that waits for less is not held up by its loader
DRAINED = 20  # times a queue: of so many batches without a wait those made in a pause before are a twentieth at most
TOLD = frozenset({"override", "trial", "steer"})
PAUSES = frozenset({SpanCode.CHECKPOINT, SpanCode.EVALUATION})
FOREVER = 1 << 62  # batches
KEPT = 1 << 16  # batches of a loader in a process whose times are kept; the older half of more goes


@dataclass(slots=True)
class Line:
    """Batches of one loader in one process: when each was there (ns), and how many samples it held.

    `clock` is the same time without the pauses before it, `waits` (ns) what the loop waited for it. `resumed` is 1 of
    the first batch after a pause through which its iterator went on: workers have filled their queues meanwhile.
    `ahead`: so they had before the first of these batches, and were not seen empty since.
    """

    ends: "array[int]" = field(default_factory=lambda: array("q"))
    clock: "array[int]" = field(default_factory=lambda: array("q"))
    samples: "array[int]" = field(default_factory=lambda: array("q"))
    waits: "array[int]" = field(default_factory=lambda: array("q"))
    resumed: "array[int]" = field(default_factory=lambda: array("b"))
    gone: int = 0  # batches that are not kept any more
    ahead: bool = False

    def __len__(self) -> int:
        """Return how many batches came."""
        return self.gone + len(self.ends)

    def add(self, t: int, paused: int, samples: int, wait: int = 0, *, first: bool = False) -> None:
        """Take one batch that was there at `t` (ns), `paused` ns of pauses behind it; the `first` of its iterator."""
        if len(self.ends) >= KEPT:
            self.gone += KEPT // 2
            for series in (self.ends, self.clock, self.samples, self.waits, self.resumed):
                del series[: KEPT // 2]
        before = self.ends[-1] - self.clock[-1] if self.ends else paused
        self.ends.append(t)
        self.clock.append(t - paused)
        self.samples.append(samples)
        self.waits.append(wait)
        self.resumed.append(int(paused != before and not first))

    def after(self, begin: int, most: int) -> "Line":
        """Return the first `most` batches that came after `begin` (ns)."""
        first = bisect_right(self.ends, begin)
        kept = slice(first, first + most)
        found = Line(self.ends[kept], self.clock[kept], self.samples[kept], self.waits[kept], self.resumed[kept])
        found.ahead = len(found) > 0 and self._is_ahead(first)
        if found.ahead:
            found.resumed[0] = 1
        return found

    def _is_ahead(self, first: int) -> bool:
        """Return whether a pause lies before a batch, and since it none was waited for."""
        paused = self.resumed[:first].tobytes().rfind(b"\x01")
        return paused >= 0 and max(self.waits[paused:first]) <= self._long

    @property
    def _long(self) -> float:
        """Return the ns from which on a wait is one for a batch that does not lie ready."""
        return WAITED * (self.clock[-1] - self.clock[0]) / len(self.clock)

    def rate(self, among: Sequence[int], size: int) -> float:
        """Return samples/s of these batches, each timed from the one before it; `size` is that of one not counted."""
        done = sum(self.samples[n] or size for n in among)
        return done / max(1, self._took(among)) * NS

    def parts(self, skip: int, size: int, blocks: int = BLOCKS) -> list[float]:
        """Return the rates of up to so many parts of equally many batches, the first `skip` left out.

        Their harmonic mean is the rate of them all: samples over seconds.
        """
        timed = self._timed(skip)
        number = min(blocks, len(timed) // 2)
        if len(timed) < LEAST:
            return []
        edges = [len(timed) * n // number for n in range(number + 1)]
        rates = [self.rate(timed[begin:end], size) for begin, end in pairwise(edges)]
        scale = self.rate(timed, size) / statistics.harmonic_mean(rates)
        return [rate * scale for rate in rates]

    def settled(self, skip: int) -> bool:
        """Return whether enough batches are there beside those that were made in pauses."""
        if self.ahead and max(self.waits) <= self._long and len(self.ends) < DRAINED * skip:
            return False
        return 1 not in self.resumed or len(self._fresh(skip)) >= LEAST

    def _timed(self, skip: int) -> Sequence[int]:
        """Return which batches are timed: without those made in pauses, as far as there are enough others.

        Where there are not, pauses come so often that no queue runs dry between them: that is how the training goes on.
        """
        fresh = self._fresh(skip) if 1 in self.resumed else ()
        return fresh if len(fresh) >= LEAST else range(max(1, skip), len(self.ends))

    def _fresh(self, skip: int) -> list[int]:
        """Return which batches are timed between pauses, so that as many were made in that time as came."""
        long = self._long
        begins = [n for n, resumed in enumerate(self.resumed) if resumed]
        found = list(range(max(1, skip), begins[0])) if begins else []
        for begin, end in pairwise([*begins, len(self.ends)]):
            found += self._between(range(max(1, skip, begin + skip), end), long)
        return found

    def _between(self, rest: Sequence[int], long: float) -> Sequence[int]:
        """Return which batches of the `rest` after a pause are timed: from one moment of empty queues to another.

        Queues are empty where the loop had to wait (`long` ns). Where it hardly waits, its loader keeps up: all are.
        """
        waited = [n for n in rest if self.waits[n] > long]
        if not waited or sum(self.waits[n] for n in waited) < KEEPS_UP * self._took(rest):
            return rest
        return range(waited[0] + 1, waited[-1] + 1)

    def _took(self, among: Sequence[int]) -> int:
        """Return the ns from the batch before each of these to it, pauses left out."""
        return sum(self.clock[n] - self.clock[n - 1] for n in among)


class Timeline:
    """Takes the readings of a run, and knows its loaders, their batches, and what guests said of our wishes."""

    def __init__(self) -> None:
        self.notes: list[tuple[int, Mapping[str, Json]]] = []  # (process, note)
        self.loaders: dict[str, Mapping[str, Json]] = {}  # where a loader was built to its settings, as last told
        self.pids: dict[int, int] = {}  # process to its pid, of those that live
        self._places: dict[tuple[int, int], str] = {}
        self._told: dict[tuple[int, int], Mapping[str, Json]] = {}  # (process, loader) to its settings
        self._trained: set[str] = set()  # places whose loader is known to train: its settings are those in `loaders`
        self._data: dict[str, set[object]] = {}  # where loaders were built to what each of them loads
        self._training: dict[tuple[int, int], int] = {}  # (process, iterator) to loader
        self._begun: set[tuple[int, int]] = set()  # iterators that have given no batch yet
        self._apart: dict[tuple[int, int], int] = {}  # the same of iterators made with gradients off
        self.apart: dict[str, int] = {}  # where a loader was built to its batches with gradients off
        self._lines: dict[str, dict[int, Line]] = {}
        self._companions: dict[tuple[int, str], Companions] = {}  # (process, where loaders were built)
        self._ended: set[int] = set()
        self._passed: set[str] = set()  # places whose loader came to the end of a pass
        self._again: set[str] = set()  # and was iterated again
        self._paused: dict[int, tuple[int, int]] = {}  # process to ns in pauses so far, and the end of the last one
        self._pauses = 0  # that have ended
        self._open: dict[int, Open] = {}  # process to what it was last told to be in the middle of

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick."""
        for reading in readings:
            if isinstance(reading, Event):
                self._event(reading)
            elif isinstance(reading, Note):
                self._note(reading)
            elif isinstance(reading, Open):
                self._open[reading.process] = reading
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
            self._told[note.process, number] = note.fields
            self._data.setdefault(where, set()).add((note.fields.get("dataset"), note.fields.get("samples")))
            beside, idle = note.fields.get("beside"), note.fields.get("idle")
            self._beside(note.process, where).told(_count(beside), _count(idle))
            if where not in self._trained:
                self.loaders[where] = note.fields
        elif kind in TOLD:
            self.notes.append((note.process, note.fields))

    def _event(self, event: Event) -> None:
        record = event.record
        self._go_on(event)
        if record.kind == Kind.ITERATOR:
            (self._training if record.e else self._apart)[event.process, record.a] = record.b
            place = self._places.get((event.process, record.b), "")
            self._beside(event.process, place).begin(record.a, trains=bool(record.e))
            if record.e:
                self._begun.add((event.process, record.a))
                self._again |= {place} & self._passed
            told = self._told.get((event.process, record.b))
            if record.e and told is not None:
                where = str(told.get("where"))
                self._trained.add(where)
                self.loaders[where] = told
        elif record.kind == Kind.SPAN and record.code in PAUSES and not record.e:
            self._pauses += 1
            paused, last = self._paused.get(event.process, (0, 0))
            self._paused[event.process] = paused + max(0, record.t1 - max(record.t0, last)), max(record.t1, last)
        elif record.kind == Kind.BATCH and record.code & END:
            self._passed.add(self._places.get((event.process, self._training.get((event.process, record.a), -1)), ""))
        elif record.kind == Kind.BATCH and not record.code & FAILED:
            iterator = event.process, record.a
            loader, apart = self._training.get(iterator), self._apart.get(iterator)
            if apart is not None:
                where = self._places.get((event.process, apart), "")
                self.apart[where] = self.apart.get(where, 0) + 1
                self._beside(event.process, where).batch(record.a)
            elif loader is not None:
                where = self._places.get((event.process, loader), "")
                line = self._lines.setdefault(where, {}).setdefault(event.process, Line())
                paused, first = self._paused.get(event.process, (0, 0))[0], iterator in self._begun
                self._begun.discard(iterator)
                line.add(record.t1, paused, record.c, record.t1 - record.t0, first=first)
                self._beside(event.process, where).batch(record.a)

    def _go_on(self, event: Event) -> None:
        """Forget what a process was in the middle of, once it is over: that is told only where nothing moves."""
        opened, record = self._open.get(event.process), event.record
        if opened is not None and opened.kind and (record.kind == Kind.BATCH or record.t0 == opened.t0):
            self._open[event.process] = opened._replace(kind=0)

    def _beside(self, process: int, where: str) -> Companions:
        return self._companions.setdefault((process, where), Companions())

    def batches(self, where: str = "") -> int:
        """Return how many batches came of the loader built at `where` (of any) to the process that had most."""
        places = [where] if where else list(self._lines)
        lines = [line for place in places for line in self._lines.get(place, {}).values()]
        return max((len(line) for line in lines), default=0)

    def shared(self, where: str) -> bool:
        """Return whether loaders of other data are built at `where` as well."""
        beside = (told.get("beside") for told in self._told.values() if told.get("where") == where)
        return len(self._data.get(where, ())) > 1 or any(beside)

    def company(self, where: str) -> Company:
        """Return how many loaders that are built at `where` live at once, in the process that has most of them."""
        found = ALONE
        for (_, place), companions in self._companions.items():
            found = found.merged(companions.company) if place == where else found
        return found

    def living(self, where: str) -> set[int]:
        """Return the processes that had batches of the loader built at `where`, and have not ended."""
        return {process for process in self._lines.get(where, {}) if process not in self._ended}

    def trainings(self) -> set[int]:
        """Return the processes that had batches of any loader, and have not ended."""
        return {process for lines in self._lines.values() for process in lines} - self._ended

    def behind(self) -> set[int]:
        """Return the processes that had batches and did not say that their trial is over, once another one did."""
        over = {process for process, note in self.notes if note.get("n") == "trial" and "batches" in note}
        return {process for lines in self._lines.values() for process in lines} - over if over else set()

    def came(self, processes: Iterable[int]) -> int:
        """Return how many batches of any loader came to these processes."""
        return sum(len(lines[each]) for lines in self._lines.values() for each in processes if each in lines)

    def life(self, where: str = "") -> int:
        """Return a number that grows with each batch of the loader built at `where` (of any) and of evaluations.

        And with each pause that ends.
        """
        return self.batches(where) + sum(self.apart.values()) + self._pauses

    def paused(self) -> bool:
        """Return whether a training is in the middle of an evaluation or a checkpoint, as far as was told.

        Not where it waits for a batch of the evaluation: a loader that gives none has no pause.
        """
        found = [self._open[process] for process in self.trainings() & self._open.keys()]
        saving = Kind.SPAN, SpanCode.CHECKPOINT
        return any((x.kind, x.code) == saving or (x.since and x.kind != Kind.BATCH) for x in found)

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

    def settled(self, where: str, skip: int, begin: int) -> bool:
        """Return whether, of those that live, enough batches came since `begin` (ns) that were not made in pauses."""
        lines = [self._lines[where][process] for process in self.living(where)]
        return all(line.after(begin, FOREVER).settled(skip) for line in lines)

    def again(self, where: str) -> bool:
        """Return whether a training went on with the loader built at `where` after it had been iterated to its end."""
        return where in self._again

    def length(self, where: str) -> int:
        """Return how many batches a pass over the loader at `where` has, as it was told; 0 where it was not."""
        return _count(self.loaders.get(where, {}).get("length"))

    def passes(self, where: str, skip: int, begin: int, epoch: int) -> tuple[float, ...]:
        """Return samples/s of the time from `begin` on (ns) as `rates` does, of whole passes of `epoch` batches.

        As many batches as whole passes have hold the start of as many, wherever in one they begin. Of all batches where
        no whole pass came, or `epoch` is 0.
        """
        lines = self._lines.get(where, {})
        living = self.living(where) or lines.keys()
        came = min((len(lines[each].ends) - bisect_right(lines[each].ends, begin) for each in living), default=0)
        passes = max(0, came - skip) // epoch if epoch else 0
        if not passes:
            return self.rates(where, skip, begin)
        blocks = passes if passes >= PASSES else BLOCKS
        return self.rates(where, skip, begin, most=skip + passes * epoch, blocks=blocks)

    def rates(
        self, where: str, skip: int, begin: int = 0, *, most: int = FOREVER, blocks: int = BLOCKS
    ) -> tuple[float, ...]:
        """Return samples/s of parts of the time from `begin` on (ns), all ranks together; of `most` batches of each.

        Their harmonic mean is the rate of the whole time. Nothing where too few batches came. `skip` are left out, and
        as many after a pause. Where a batch's size is known by nobody it counts as one sample.
        """
        told = self.loaders.get(where, {}).get("batch_size")
        size = told if isinstance(told, int) and told > 0 else 1
        lines = [line.after(begin, most) for line in self._lines.get(where, {}).values()]
        parts = [found for line in lines if (found := line.parts(skip, size, blocks))]
        if not parts:
            return ()
        longest = max(parts, key=len)
        whole = sum(statistics.harmonic_mean(found) for found in parts)
        scale = whole / statistics.harmonic_mean(longest)
        return tuple(rate * scale for rate in longest)


def _count(told: object) -> int:
    """Return a number as a note has it, 0 where it has none."""
    return told if isinstance(told, int) else 0
