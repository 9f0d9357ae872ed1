"""Readings to the series of a run: points of one length each, that are merged by twos when there are too many."""

from collections.abc import Iterable
from dataclasses import dataclass

from gputune.events import APART, END, UNTIMED, Event, Kind
from gputune.sample import Reading, Sample
from gputune.scene import POINTS, History
from gputune.units import NS

FINEST = NS  # ns of a point at first
SHORTEST = 0.25  # of a point: what a shorter one comes to is mostly chance
SAMPLES, STEPS = "samples/s", "steps/s"


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

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick."""
        for reading in readings:
            if isinstance(reading, Sample):
                self.last = max(self.last, reading.t)
                if reading.metric.name == "gpu.busy":
                    point = self._at(reading.t)
                    point.busy += reading.value
                    point.readings += 1
            elif isinstance(reading, Event):
                self._event(reading)

    def _event(self, event: Event) -> None:
        record = event.record
        if record.kind == Kind.STEP:
            self._at(record.t1).steps += 1
            self._training[event.process] = record.t1
        elif record.kind == Kind.BATCH and not record.code & END:
            self._training[event.process] = record.t1
            point = self._at(record.t1)
            point.batches += 1
            point.samples += record.c
            if record.d >= 0:
                point.ready += record.d
                point.asked += 1
            if not record.code & (UNTIMED | APART):
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
        """Return the series so far."""
        lasts = self._lasts()
        trainers = max(1, len(self._training))
        counted = any(point.samples for point in self._points)
        pace = [(p.samples if counted else p.steps or p.batches) for p in self._points]
        return History(
            step=self._step / NS,
            unit=SAMPLES if counted else STEPS,
            busy=tuple(p.busy / p.readings if p.readings else None for p in self._points),
            wait=tuple(
                min(1.0, p.waited / NS / s / trainers) if s else None for p, s in zip(self._points, lasts, strict=True)
            ),
            rate=tuple(n / s if s else None for n, s in zip(pace, lasts, strict=True)),
            queue=tuple(p.ready / p.asked if p.asked else None for p in self._points),
        )

    def _lasts(self) -> list[float]:
        """Return the s that each point has lasted; 0 before the training, and of a last one too short to tell."""
        whole = self._step / NS
        first = self._first()
        lasts = [0.0 if k < first else whole for k in range(len(self._points))]
        if lasts and lasts[-1]:
            part = (self.last - self.started) / NS - (len(lasts) - 1) * whole
            lasts[-1] = 0.0 if part < SHORTEST * whole else min(whole, part)
        return lasts

    def _first(self) -> int:
        """Return the first point with anything of the training in it: before, nothing waits and nothing is made."""
        return next((k for k, p in enumerate(self._points) if p.batches or p.steps or p.waited), len(self._points))
