"""The part of the gatherer that listens to the device's own clock: what a step is made of there.

How long kernels take without the gaps between them is known of parts of steps only, those that the device worked off
in one go (SEGMENT): it was behind, or was held back for a moment. A step's work is the sum of its parts.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from gputune.core.events import Kind, Record, SegmentCode
from gputune.core.figures import mean
from gputune.core.units import NS
from gputune.features import DeviceStep
from gputune.gathering.queueing import Queue

MIN_STEPS = 8  # timed steps: of fewer nothing is said
WARM_UP = 5  # timed steps left out: allocators, caches and autotuning settle in them
TIMINGS_KEPT = 512  # measurements kept of each part, the latest
SHAPES = 64  # kinds of steps, by which of their parts hold work, that are told apart
PARTS = 32  # bits of a record's field
Part: TypeAlias = tuple[int, int]  # structure of the step, which part


@dataclass(slots=True)
class _Parts:
    """What steps consist of: how many there were of each kind, and the ns of work in each part that was measured."""

    shapes: Counter[int] = field(default_factory=Counter)
    found: dict[Part, "deque[int]"] = field(default_factory=dict)
    behind: dict[Part, "deque[int]"] = field(default_factory=dict)  # the same of what came behind the backward pass

    def step(self, shape: int) -> None:
        """Take a step; `shape` has a bit for each part that holds work."""
        if shape in self.shapes or len(self.shapes) < SHAPES:
            self.shapes[shape] += 1

    def part(self, shape: int, number: int, took: int, behind: int | None) -> None:
        """Take the ns of work in a part of such a step, and of that `behind` the backward pass if that is known."""
        key = _structure(shape), number
        if key not in self.found and len(self.found) >= SHAPES * PARTS:
            return
        self.found.setdefault(key, deque(maxlen=TIMINGS_KEPT)).append(took)
        if behind is not None:
            self.behind.setdefault(key, deque(maxlen=TIMINGS_KEPT)).append(behind)

    @property
    def compute(self) -> float | None:
        """Return the s of kernels in a step: the sum over its parts, kinds of steps weighed by how often they came."""
        return self._mean(self.found)

    @property
    def update(self) -> float | None:
        """Return the s of kernels in a step that came behind its backward pass."""
        return self._mean(self.behind)

    def _mean(self, series: "dict[Part, deque[int]]") -> float | None:
        known = {shape: _whole(shape, series) for shape in self.shapes if shape}
        sums = [(self.shapes[shape], whole) for shape, whole in known.items() if whole is not None]
        counted = sum(count for count, _ in sums)
        # 0.8 of the steps must be of kinds whose parts were all measured: then they speak for the rest
        if not counted or counted < 0.8 * sum(self.shapes.values()):
            return None
        return sum(count * whole for count, whole in sums) / counted / NS


def _whole(shape: int, series: "dict[Part, deque[int]]") -> float | None:
    """Return the ns of work in a step with these parts, None unless each of them was measured."""
    found = [series.get((_structure(shape), part)) for part in range(PARTS) if shape >> part & 1]
    return None if not all(found) else sum(mean(each) for each in found if each)


def _structure(shape: int) -> int:
    """Return what steps have in common in which the same parts follow each other, whether or not each holds work."""
    return shape.bit_length()


class Clocked:
    """The timed steps of one process. Memory is bounded."""

    def __init__(self) -> None:
        self._gaps = self._steps = 0
        self._idle = self._work = 0  # ns
        self._copied = self._read = self._stood = self._crossed = self._met = 0  # ns
        self._lags: deque[int] = deque(
            maxlen=TIMINGS_KEPT
        )  # us that the device was behind at the end of a step, where known
        self._parts = _Parts()
        self._divided = _Parts()  # of steps that were divided further, since parts of the others hold too much
        self._queue = Queue()
        self._holds = self._held = 0  # ns

    def take(self, record: Record) -> None:
        """Take a GAP, DEVICE, CROSSED or SEGMENT record."""
        if record.kind == Kind.SEGMENT:
            self._part(record)
        elif record.kind == Kind.CROSSED:
            self._beside(record)
        elif record.kind == Kind.DEVICE and record.code & SegmentCode.DIVIDED:
            self._divided.step(record.c)
        else:
            self._queue.take(record)
            self._timed(record)

    def _beside(self, record: Record) -> None:
        """Take for how long the device stood for others in a step."""
        if self._steps > WARM_UP and not record.code & SegmentCode.DIVIDED:
            self._crossed += record.a
            self._met += record.b

    def _part(self, record: Record) -> None:
        behind = record.d - 1 if record.d else None
        self._holds += record.e > 0
        self._held += record.e
        if record.code & SegmentCode.DIVIDED:
            self._divided.part(record.c, record.b, record.a, behind)
        elif self._steps >= WARM_UP:
            self._parts.part(record.c, record.b, record.a, behind)

    def _timed(self, record: Record) -> None:
        """Take how long an ordinary step took the device and the host."""
        if record.kind == Kind.GAP:
            self._gaps += 1
            if self.warm:
                self._idle += record.a
                self._work += record.b
                if record.c:
                    self._lags.append(record.c - 1)
            return
        self._steps += 1
        if self._steps > WARM_UP:
            self._copied += record.a
            self._read += record.b
            self._stood += record.d
            self._parts.step(record.c)

    @property
    def settles(self) -> bool:
        """Return whether the step told last is the last one of those that do not speak."""
        return self._gaps == WARM_UP

    @property
    def warm(self) -> bool:
        """Return whether the step told last is of those that speak: the first ones load libraries and kernels."""
        return self._gaps > WARM_UP

    @property
    def held(self) -> tuple[int, float]:
        """Return how often the device was held back, and for how many s in all."""
        return self._holds, self._held / NS

    @property
    def told(self) -> DeviceStep | None:
        """Return the mean step, None where too few were timed."""
        gaps, steps = self._gaps - WARM_UP, self._steps - WARM_UP
        if min(gaps, steps) < MIN_STEPS:
            return None
        parts, stood = self._parts if self._parts.compute is not None else self._divided, self._queue.stood
        return DeviceStep(
            timed=steps,
            whole=(self._idle + self._work) / gaps / NS,
            starved=self._idle / gaps / NS,
            copying=self._copied / steps / NS,
            crossing=self._crossed / steps / NS,
            standing=self._met / steps / NS,
            compute=parts.compute,
            update=parts.update,
            read_waits=self._read / steps / NS,
            copy_waits=self._stood / steps / NS,
            launch_waits=None if stood is None else stood / NS,
            lag=median(self._lags) * 1000 / NS if self._lags else None,
        )
