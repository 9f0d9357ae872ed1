"""Readings to the series of a run: points of one length each, that are merged by twos when there are too many."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gputune.core.events import BatchCode, Event, Kind
from gputune.core.pace import SAMPLES, STEPS
from gputune.core.sample import Reading, Sample
from gputune.core.units import NS
from gputune.feeds.rows import POINTS, History

FINEST = NS  # ns of a point at first
GAP = 5 * NS  # ns between two readings, of which some come every second: nothing could be read meanwhile


@dataclass(slots=True)
class _Point:
    """What was seen in one stretch of time."""

    busy: float = 0.0  # sum of readings
    readings: int = 0
    waited: int = 0  # ns, all training processes together
    samples: int = 0
    steps: int = 0
    batches: int = 0
    ready: int = 0  # sum over `asked`
    asked: int = 0

    def add(self, other: "_Point") -> None:
        """Take what another one has seen."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Historian:
    """Builds a run's history while it is read. `started` is the run's start, ns."""

    def __init__(self, started: int) -> None:
        self.started = started
        self.last = started  # the latest moment of any reading
        self._step = FINEST
        self._points: list[_Point] = []
        self._training: dict[int, int] = {}  # process to when it was last heard of
        self._read: int | None = None  # ns: when something was last read
        self._gaps: deque[tuple[int, int]] = deque(maxlen=POINTS)

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick."""
        for reading in readings:
            if isinstance(reading, Sample):
                self._reads(reading.t)
                self.last = max(self.last, reading.t)
                if reading.metric.name == "gpu.busy":
                    point = self._at(reading.t)
                    point.busy += reading.value
                    point.readings += 1
            elif isinstance(reading, Event):
                self._event(reading)

    def _reads(self, t: int) -> None:
        """Note when something was read, and for how long nothing was."""
        before = t if self._read is None else self._read
        if t - before > GAP:
            self._gaps.append((before, t))
        self._read = max(before, t)

    def _event(self, event: Event) -> None:
        record = event.record
        if record.kind == Kind.STEP:
            self._at(record.t1).steps += 1
            self._training[event.process] = record.t1
        elif record.kind == Kind.BATCH and not record.code & BatchCode.END:
            self._training[event.process] = record.t1
            point = self._at(record.t1)
            point.batches += 1
            point.samples += record.c
            if record.d >= 0:
                point.ready += record.d
                point.asked += 1
            if not record.code & (BatchCode.UNTIMED | BatchCode.APART):
                self._wait(record.t0, record.t1)
        self.last = max(self.last, record.t1)

    def _wait(self, t0: int, t1: int) -> None:
        """Count a wait in each of the points that it lies in; a long one lies in many."""
        t0 = max(t0, self.started)
        while t0 < t1:
            self._at(t1)  # so that no merging comes between
            point = self._at(t0)
            until = min(t1, self.started + ((t0 - self.started) // self._step + 1) * self._step)
            point.waited += until - t0
            t0 = until

    def _at(self, t: int) -> _Point:
        index = max(0, t - self.started) // self._step
        while index >= POINTS:
            self._merge()
            index = max(0, t - self.started) // self._step
        while len(self._points) <= index:
            self._points.append(_Point())
        return self._points[index]

    def _merge(self) -> None:
        self._step *= 2
        merged = self._points[::2]
        for point, other in zip(merged, self._points[1::2], strict=False):
            point.add(other)
        self._points = merged

    def history(self) -> History:
        """Return the series so far, of the points that are over: what a part of one comes to is mostly chance."""
        points = self._points[: max(0, self.last - self.started) // self._step]
        known = self._known(points)
        trainers = max(1, len(self._training))
        counted = any(point.samples for point in self._points)
        whole = self._step / NS
        pace = [(p.samples if counted else p.steps or p.batches) for p in points]
        return History(
            step=whole,
            unit=SAMPLES if counted else STEPS,
            busy=tuple(p.busy / p.readings if p.readings else None for p in points),
            wait=tuple(
                min(1.0, p.waited / self._step / trainers) if k else None for p, k in zip(points, known, strict=True)
            ),
            rate=tuple(n / whole if k else None for n, k in zip(pace, known, strict=True)),
            queue=tuple(p.ready / p.asked if p.asked else None for p in points),
            gaps=tuple(((t0 - self.started) / NS, (t1 - t0) / NS) for t0, t1 in self._gaps),
        )

    def _known(self, points: Sequence[_Point]) -> list[bool]:
        """Return of each point whether the training is known in it: neither before it, nor while nothing was read."""
        trains = [bool(p.batches or p.steps or p.waited) for p in points]
        first = trains.index(True) if True in trains else len(points)
        return [trains[k] or (k > first and not self._unread(k)) for k in range(len(points))]

    def _unread(self, index: int) -> bool:
        t = self.started + index * self._step
        return any(t0 < t + self._step and t < t1 - self._step // 2 for t0, t1 in self._gaps)
