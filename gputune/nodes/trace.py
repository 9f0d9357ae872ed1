"""The history of a run elsewhere, from samples that were pulled: as far back as its newest segment goes.

What the node's own screen counts batch by batch comes here once a second: how busy its devices were, what share of the
last second its processes waited, and how many samples were handed out by then.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gputune.sample import Reading, Sample
from gputune.scene import POINTS, History
from gputune.units import NS

BUSY, WAIT, SAMPLES, BATCHES = "gpu.busy", "loader.wait", "loader.samples", "loader.batches"
METRICS = (BUSY, WAIT, SAMPLES, BATCHES)
FINEST = 1.0  # s of a point at first
DIGITS = 4  # of a share: all of them would be most of what a relay says of a run


@dataclass(slots=True)
class _Point:
    """What was seen in one stretch of time."""

    busy: float = 0.0  # sum over `readings`
    readings: int = 0
    wait: float = 0.0  # sum over `waits`
    waits: int = 0
    samples: float = 0.0
    batches: float = 0.0

    def add(self, other: "_Point") -> None:
        """Take what another one has seen."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Trace:
    """Builds the history of a run that began at `started` (Unix time) while its samples come in."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._step = FINEST
        self._first = 0  # number of the first point, in steps since the start
        self._points: list[_Point] = []
        self._counts: dict[str, float] = {}  # counters as they were last read

    def take(self, ticks: Iterable[list[Reading]], clocks: int) -> None:
        """Take ticks whose times are ns of a clock that `clocks` ns turn into Unix time."""
        for tick in ticks:
            for sample in tick:
                if isinstance(sample, Sample):
                    self._sample(sample, (sample.t + clocks) / NS - self._started)

    def _sample(self, sample: Sample, at: float) -> None:
        point = self._at(max(0.0, at))
        name = sample.metric.name
        if name == BUSY:
            point.busy, point.readings = point.busy + sample.value, point.readings + 1
        elif name == WAIT:
            point.wait, point.waits = point.wait + sample.value, point.waits + 1
        elif name in {SAMPLES, BATCHES}:
            more = max(0.0, sample.value - self._counts.get(name, sample.value))
            self._counts[name] = sample.value
            if name == SAMPLES:
                point.samples += more
            else:
                point.batches += more

    def _at(self, at: float) -> _Point:
        if not self._points:
            self._first = int(at / self._step)
        while (place := max(0, int(at / self._step) - self._first)) >= POINTS:
            self._merge()
        while len(self._points) <= place:
            self._points.append(_Point())
        return self._points[place]

    def _merge(self) -> None:
        """Make every two points one, on the grid of the run's start."""
        if self._first % 2:
            self._points.insert(0, _Point())
            self._first -= 1
        merged = self._points[::2]
        for point, other in zip(merged, self._points[1::2], strict=False):
            point.add(other)
        self._points, self._first, self._step = merged, self._first // 2, 2 * self._step

    def history(self) -> History:
        """Return the series so far."""
        counted = any(point.samples for point in self._points)
        pace = [point.samples if counted else point.batches for point in self._points]
        return History(
            began=self._first * self._step,
            step=self._step,
            unit="samples/s" if counted else "batches/s",
            busy=tuple(round(p.busy / p.readings, DIGITS) if p.readings else None for p in self._points),
            wait=tuple(min(1.0, round(p.wait / p.waits, DIGITS)) if p.waits else None for p in self._points),
            rate=tuple(count / self._step if p.waits else None for count, p in zip(pace, self._points, strict=True)),
            queue=(None,) * len(self._points),
        )
