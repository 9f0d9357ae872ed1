"""The history of a run elsewhere, from samples that were pulled: as far back as its newest segment goes.

What the node's own screen counts batch by batch comes here once a second: how busy its devices were, what share of the
last second its processes waited, and how many samples were handed out by then.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gputune.core.sample import Reading, Sample
from gputune.core.units import NS
from gputune.feeds.history import GAP
from gputune.feeds.present import BATCHES, SAMPLES, WAIT, Recent
from gputune.feeds.rows import POINTS, History, Present

BUSY = "gpu.busy"
METRICS = (BUSY, WAIT, SAMPLES, BATCHES)
DIGITS = 4  # of a share: all of them would be most of what a relay says of a run


@dataclass(slots=True)
class _Point:
    """What was seen in one stretch of time. `covered` are the s of it that counters tell of."""

    busy: float = 0.0  # sum over `readings`
    readings: int = 0
    waited: float = 0.0  # s
    samples: float = 0.0
    batches: float = 0.0
    covered: float = 0.0

    def add(self, other: "_Point") -> None:
        """Take what another one has seen."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Trace:
    """Builds the history of a run that began at `started` (Unix time) while its samples come in."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._step = 1.0  # s of a point at first
        self._first = 0  # number of the first point, in steps since the start
        self._points: list[_Point] = []
        self._counts: dict[str, tuple[float, float]] = {}  # counters as they were last read, and when
        self._waits: float | None = None  # when `loader.wait` was last read
        self._read: float | None = None  # when anything was
        self._gaps: deque[tuple[float, float]] = deque(maxlen=POINTS)
        self._recent = Recent()

    def take(self, ticks: Iterable[list[Reading]], clocks: int) -> None:
        """Take ticks whose times are ns of a clock that `clocks` ns turn into Unix time."""
        for tick in ticks:
            self._recent.take(tick, clocks, self._started)
            for sample in tick:
                if isinstance(sample, Sample):
                    self._sample(sample, max(0.0, (sample.t + clocks) / NS - self._started))

    def present(self, told: int, told_at: float | None) -> Present | None:
        """Return how it goes now."""
        return self._recent.present(told, told_at)

    def _sample(self, sample: Sample, at: float) -> None:
        before = at if self._read is None else self._read
        if at - before > GAP / NS:
            self._gaps.append((before, at - before))
        self._read = max(before, at)
        name = sample.metric.name
        if name == BUSY:
            point = self._at(at)
            point.busy, point.readings = point.busy + sample.value, point.readings + 1
        elif name == WAIT:
            since, self._waits = self._waits, at
            if since is not None:
                self._spread(since, at, waited=sample.value * (at - since), covered=at - since)
        elif name in {SAMPLES, BATCHES}:
            value, since = self._counts.get(name, (sample.value, at))
            self._counts[name] = (sample.value, at)
            more = max(0.0, sample.value - value)
            self._spread(since, at, **{"samples" if name == SAMPLES else "batches": more})

    def _spread(self, t0: float, t1: float, **amounts: float) -> None:
        """Count what came between two readings in each of the points that lie between; nothing over a gap."""
        if t1 - t0 > GAP / NS:
            return
        self._at(t1)  # so that no merging comes between
        last = int(t1 / self._step)
        for place in range(max(self._first, int(t0 / self._step)), last + 1):
            here = max(0.0, min(t1, (place + 1) * self._step) - max(t0, place * self._step))
            part = here / (t1 - t0) if t1 > t0 else float(place == last)
            point = self._points[place - self._first]
            for name, amount in amounts.items():
                setattr(point, name, getattr(point, name) + part * amount)

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
        """Return the series so far, of the points that are over."""
        points = self._points[: max(0, int((self._read or 0.0) / self._step) - self._first)]
        counted = any(point.samples for point in self._points)
        pace = [point.samples if counted else point.batches for point in points]
        return History(
            began=self._first * self._step,
            step=self._step,
            unit="samples/s" if counted else "batches/s",
            busy=tuple(round(p.busy / p.readings, DIGITS) if p.readings else None for p in points),
            wait=tuple(min(1.0, round(p.waited / p.covered, DIGITS)) if p.covered else None for p in points),
            rate=tuple(round(n / p.covered, DIGITS) if p.covered else None for n, p in zip(pace, points, strict=True)),
            queue=(None,) * len(points),
            gaps=tuple(self._gaps),
        )
