"""When batches of each loader came, as the guests tell it while the script runs: rates by the clock.

Evaluations and checkpoints are left out, and what workers make ready in them: that is not the doing of the setting into
whose time they fall. Only where whole runs are held against each other they stay in. All is told by the device's time,
where there is one (`gputune/gathering/device_time.py`).
"""

import statistics
from collections.abc import Iterable, Mapping

from gputune.core.events import BatchCode, Event, Kind, Record, SpanCode
from gputune.core.pace import BATCHES, SAMPLES, STEPS, Pace
from gputune.core.sample import Guest, Json, Note, Open, Reading
from gputune.experiment.line import BLOCKS, BatchTimes
from gputune.features.concurrent_loaders import ALONE, Companions, Company
from gputune.gathering import device_time
from gputune.gathering.device_time import DeviceTime
from gputune.model.replay import TYPICAL_PREFETCH

WARM_UP = 5  # batches until allocators, caches and autotuning have settled
PASSES = 3  # over the data: fewer do not tell by how much they differ
TOLD = frozenset({"override", "trial", "steer"})
PAUSES = frozenset({SpanCode.CHECKPOINT, SpanCode.EVALUATION})
FOREVER = 1 << 62  # batches


class Timeline:
    """Takes the readings of a run, and knows its loaders, their batches, and what guests said of our wishes.

    `whole`: pauses count like everything else, and steps where there are no batches.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._left_out = frozenset[int]() if whole else PAUSES
        self._steps: dict[int, BatchTimes] | None = {} if whole else None  # process to its optimizer's steps
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
        self._lines: dict[str, dict[int, BatchTimes]] = {}
        self._companions: dict[tuple[int, str], Companions] = {}  # (process, where loaders were built)
        self._ended: set[int] = set()
        self._passed: set[str] = set()  # places whose loader came to the end of a pass
        self._again: set[str] = set()  # and was iterated again
        self._times: dict[int, DeviceTime] = {}  # process to its device's
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
        if kind == "loader" and isinstance(number, int):
            where = str(note.fields.get("where"))
            self._places[note.process, number] = where
            if note.fields.get("framework") is not None:
                return
            self._told[note.process, number] = note.fields
            self._data.setdefault(where, set()).add((note.fields.get("dataset"), note.fields.get("samples")))
            beside, idle = note.fields.get("beside"), note.fields.get("idle")
            self._beside(note.process, where).told(_count(beside), _count(idle))
            if where not in self._trained:
                self.loaders[where] = note.fields
        elif kind == device_time.TOLD:
            self._time(note.process).expect()
        elif kind in TOLD:
            self.notes.append((note.process, note.fields))

    def _event(self, event: Event) -> None:
        record = event.record
        self._go_on(event)
        if record.kind == Kind.ITERATOR:
            self._iterator(event.process, record)
        elif record.kind == Kind.SPAN and record.code in self._left_out and not record.e:
            self._pauses += 1
            self._pause(event.process, record)
        elif record.kind == Kind.GAP:
            self._time(event.process).take(record)
            for lines in (*self._lines.values(), self._steps or {}):
                if event.process in lines:
                    lines[event.process].catch_up()
        elif record.kind == Kind.STEP and self._steps is not None:
            line = self._steps.setdefault(event.process, BatchTimes(self._time(event.process)))
            line.add(record.t1, 0, 0, first=True)
        elif record.kind == Kind.BATCH and record.code & BatchCode.END:
            self._passed.add(self._places.get((event.process, self._training.get((event.process, record.a), -1)), ""))
        elif record.kind == Kind.BATCH and not record.code & BatchCode.FAILED:
            self._batch(event.process, record)

    def _iterator(self, process: int, record: Record) -> None:
        (self._training if record.e else self._apart)[process, record.a] = record.b
        place = self._places.get((process, record.b), "")
        self._beside(process, place).begin(record.a, trains=bool(record.e))
        if not record.e:
            return
        self._begun.add((process, record.a))
        self._again |= {place} & self._passed
        told = self._told.get((process, record.b))
        if told is not None:
            where = str(told.get("where"))
            self._trained.add(where)
            self.loaders[where] = told

    def _batch(self, process: int, record: Record) -> None:
        iterator = process, record.a
        loader, apart = self._training.get(iterator), self._apart.get(iterator)
        if apart is not None:
            where = self._places.get((process, apart), "")
            self.apart[where] = self.apart.get(where, 0) + 1
            self._beside(process, where).batch(record.a)
        elif loader is not None:
            where = self._places.get((process, loader), "")
            lines = self._lines.setdefault(where, {})
            line = lines.setdefault(process, BatchTimes(self._time(process)))
            paused, first = self._paused.get(process, (0, 0))[0], iterator in self._begun
            self._begun.discard(iterator)
            line.add(record.t1, paused, record.c, record.t1 - record.t0, first=first)
            self._beside(process, where).batch(record.a)

    def _pause(self, process: int, record: Record) -> None:
        paused, last = self._paused.get(process, (0, 0))
        began = max(record.t0, last)
        if record.t1 > began:
            self._time(process).pause(began, record.t1)
        self._paused[process] = paused + max(0, record.t1 - began), max(record.t1, last)

    def _time(self, process: int) -> DeviceTime:
        return self._times.setdefault(process, DeviceTime())

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

    def came_to(self, where: str) -> int:
        """Return the same; where steps count, and no batches are asked for, these."""
        return self.batches(where) or (0 if where else max(map(len, (self._steps or {}).values()), default=0))

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
        return min((line.ends[max(0, line.known - count)] for line in lines), default=1) - 1

    def caught_up(self, where: str, moment: int) -> int | None:
        """Return when (ns) devices were through with what had been queued by a `moment`, None while that is not known.

        Of the processes that live, the last: from there on all that is done is of what came after the moment.
        """
        times = [self._time(process) for process in self.living(where)]
        if not all(time.knows(moment) for time in times):
            return None
        return max((time.at(moment) for time in times), default=moment)

    def queue(self, where: str) -> int:
        """Return how many batches the loader at `where` has under way, as its settings were told."""
        told = self.loaders.get(where, {})
        workers, prefetch = told.get("num_workers"), told.get("prefetch_factor")
        if not isinstance(workers, int) or not workers:
            return 0
        return workers * (prefetch if isinstance(prefetch, int) else TYPICAL_PREFETCH)

    def delivered(self, where: str) -> bool:
        """Return whether more batches came of the loader at `where` than its workers make ahead: all are at work then.

        Without a place, of the loader that most batches came of.
        """
        place = where or max(self._lines, key=self.batches, default="")
        return self.batches(place) > self.queue(place)

    def counted(self, where: str, begin: int) -> int:
        """Return how many batches came since `begin` (ns), to the process that had fewest of those that live.

        Only those count with which its device has begun, where it has one.
        """
        lines = [self._lines[where][process] for process in self.living(where)]
        return min((line.since(begin) for line in lines), default=0)

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

    def pace(self, where: str, skip: int, begin: int, epoch: int) -> Pace | None:
        """Return the pace from `begin` on (ns) as `rates` does, of whole passes of `epoch` batches.

        As many batches as whole passes have hold the start of as many, wherever in one they begin. Of all batches where
        no whole pass came, or `epoch` is 0.
        """
        lines = self._lines.get(where, {})
        living = self.living(where) or lines.keys()
        came = min((lines[each].since(begin) for each in living), default=0)
        passes = max(0, came - skip) // epoch if epoch else 0
        if not passes:
            return self._pace(where, skip, begin, FOREVER, BLOCKS)
        return self._pace(where, skip, begin, skip + passes * epoch, passes if passes >= PASSES else BLOCKS)

    def passes(self, where: str, skip: int, begin: int, epoch: int) -> tuple[float, ...]:
        """Return the rates of the parts of that pace, nothing where too few batches came."""
        found = self.pace(where, skip, begin, epoch)
        return found.parts if found is not None else ()

    def rates(
        self, where: str, skip: int, begin: int = 0, *, most: int = FOREVER, blocks: int = BLOCKS
    ) -> tuple[float, ...]:
        """Return samples/s of parts of the time from `begin` on (ns), all ranks together; of `most` batches of each.

        Their harmonic mean is the rate of the whole time. Nothing where too few batches came. `skip` are left out, and
        as many after a pause. Where a batch's size is known by nobody it counts as one sample.
        """
        found = self._pace(where, skip, begin, most, blocks)
        return found.parts if found is not None else ()

    def _pace(self, where: str, skip: int, begin: int, most: int, blocks: int) -> Pace | None:
        told = self.loaders.get(where, {}).get("batch_size")
        size = told if isinstance(told, int) and told > 0 else 0
        came = self._lines.get(where, {}) if self._lines else self._steps or {}
        lines = [line.after(begin, most) for line in came.values()]
        timed = [(parts, line) for line in lines if (parts := line.parts(skip, size or 1, blocks))]
        if not timed:
            return None
        parts, longest = max(timed, key=lambda found: len(found[0]))
        rate = sum(statistics.harmonic_mean(found) for found, _ in timed)
        scale = rate / statistics.harmonic_mean(parts)
        sized = size or all(all(line.samples) for _, line in timed)
        unit = SAMPLES if sized else BATCHES if self._lines else STEPS
        return Pace(rate, unit, tuple(part * scale for part in parts), *longest.extent(skip))


def _count(told: object) -> int:
    """Return a number as a note has it, 0 where it has none."""
    return told if isinstance(told, int) else 0
