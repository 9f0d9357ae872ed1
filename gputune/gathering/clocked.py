"""The part of the gatherer that listens to the device's own clock: what a step is made of there.

How long kernels take without the gaps between them is known of parts of steps only, those that the device worked off
in one go (SEGMENT): it was behind, or was held back for a moment. A step's work is the sum of its parts.
"""

from collections import Counter, deque
from collections.abc import Mapping

from gputune.events import Kind, Record
from gputune.features import DeviceStep
from gputune.figures import mean
from gputune.gathering.queueing import Queue
from gputune.units import NS

LEAST = 8  # timed steps: of fewer nothing is said
WARM_UP = 5  # timed steps left out: allocators, caches and autotuning settle in them
KEPT = 512  # measurements kept of each part, the latest
SHAPES = 64  # kinds of steps, by which of their parts hold work, that are told apart
MOSTLY = 0.8  # of the steps must be of kinds whose parts were all measured: then they speak for the rest
PARTS = 32  # bits of a record's field


class Clocked:
    """The timed steps of one process. Memory is bounded."""

    def __init__(self) -> None:
        self._gaps = self._steps = 0
        self._idle = self._work = 0  # ns
        self._copied = self._read = self._stood = 0  # ns
        self._shapes: Counter[int] = Counter()
        self._parts: dict[tuple[int, int], deque[int]] = {}  # by the structure of the step, and which part of it
        self._queue = Queue()

    def take(self, record: Record) -> None:
        """Take a GAP, DEVICE or SEGMENT record."""
        self._queue.take(record)
        if record.kind == Kind.GAP:
            self._gaps += 1
            if self._gaps > WARM_UP:
                self._idle += record.a
                self._work += record.b
        elif record.kind == Kind.DEVICE:
            self._steps += 1
            if self._steps > WARM_UP:
                self._copied += record.a
                self._read += record.b
                self._stood += record.d
                if record.c in self._shapes or len(self._shapes) < SHAPES:
                    self._shapes[record.c] += 1
        elif record.kind == Kind.SEGMENT and self._steps >= WARM_UP:
            key = _structure(record.c), record.b
            if key in self._parts or len(self._parts) < SHAPES * PARTS:
                self._parts.setdefault(key, deque(maxlen=KEPT)).append(record.a)

    @property
    def told(self) -> DeviceStep | None:
        """Return the mean step, None where too few were timed."""
        gaps, steps = self._gaps - WARM_UP, self._steps - WARM_UP
        if min(gaps, steps) < LEAST:
            return None
        return DeviceStep(
            timed=steps,
            whole=(self._idle + self._work) / gaps / NS,
            starved=self._idle / gaps / NS,
            copying=self._copied / steps / NS,
            compute=_compute(self._shapes, self._parts),
            read_waits=self._read / steps / NS,
            copy_waits=self._stood / steps / NS,
            launch_waits=None if (stood := self._queue.stood) is None else stood / NS,
        )


def _compute(shapes: Mapping[int, int], parts: Mapping[tuple[int, int], deque[int]]) -> float | None:
    """Return the s of kernels in a step: of each kind of step the sum over its parts, weighed by how often it came."""
    known = {shape: _whole(shape, parts) for shape in shapes if shape}
    sums = [(shapes[shape], whole) for shape, whole in known.items() if whole is not None]
    counted = sum(count for count, _ in sums)
    if not counted or counted < MOSTLY * sum(shapes.values()):
        return None
    return sum(count * whole for count, whole in sums) / counted / NS


def _structure(shape: int) -> int:
    """Return what steps have in common in which the same parts follow each other, whether or not each holds work."""
    return shape.bit_length()


def _whole(shape: int, parts: Mapping[tuple[int, int], deque[int]]) -> float | None:
    """Return the ns of work in a step with these parts, None unless each of them was measured."""
    found = [parts.get((_structure(shape), part)) for part in range(PARTS) if shape >> part & 1]
    return None if not all(found) else sum(mean(series) for series in found if series)
