"""How the batches of a loader were made, and in what company: how many others were being made meanwhile."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from gputune.core.events import Record
from gputune.core.units import NS
from gputune.features import Fetch

Span: TypeAlias = tuple[int, int]  # from, to (ns)


class Made(NamedTuple):
    """A batch that was made, in which place, by which worker (-1 none) as its how manieth; `alone`: by one thread."""

    place: tuple[int, ...]
    record: Record
    worker: int
    age: int
    alone: bool

    def fetch(self) -> Fetch:
        """Return what that took: worked out where it is asked for, for of a fast loop most are never asked for."""
        record = self.record
        wall, cpu = (record.t1 - record.t0) / NS, record.a / NS
        # Both clocks are read a little apart from the times: a queue there is not one of the making.
        # A part of the CPU time may run beside it where the worker has threads.
        room = max(0.0, wall - cpu) if self.alone else wall
        return Fetch(
            wall=wall,
            cpu=cpu,
            queued=min(room, max(0, record.b) / NS),
            collate=record.d / NS,
            samples=record.c,
            worker=self.worker,
            age=self.age,
        )


class Fetches:
    """The latest `kept` of them, which come worker by worker, and when they and those before them were under way."""

    def __init__(self, kept: int) -> None:
        self._kept: deque[Made] = deque(maxlen=kept)
        self._spans: deque[Span] = deque(maxlen=2 * kept)

    def under_way(self, t0: int, t1: int) -> None:
        """Take when any batch was made, be it one that is not kept."""
        self._spans.append((t0, t1))

    def append(self, made: Made) -> None:
        """Take how a batch was made."""
        self._kept.append(made)

    def in_order(self, *, alone: bool) -> tuple[tuple[Fetch, ...], tuple[float, ...], tuple[int, ...]]:
        """Return them in the order of their delivery, and what `in_flight` has of them; nothing of who works alone."""
        kept = sorted(self._kept, key=itemgetter(0))
        company = ((), ()) if alone else in_flight([(made.record.t0, made.record.t1) for made in kept], self._spans)
        return tuple(made.fetch() for made in kept), *company


def in_flight(of: Sequence[Span], spans: Iterable[Span]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return for each how many of `spans` were under way meanwhile, on average, and how many were as it began.

    It is one of them itself.
    """
    known = list(spans)
    begun, ended = (_Since(sorted(moments)) for moments in ([t0 for t0, _ in known], [t1 for _, t1 in known]))

    def under_way(t: int) -> int:
        return begun.total(t) - ended.total(t)

    meanwhile = tuple((under_way(t1) - under_way(t0)) / max(1, t1 - t0) for t0, t1 in of)
    return meanwhile, tuple(begun.count(t0) - ended.count(t0) for t0, _ in of)


class _Since:
    """Some moments, in order, and how long ago all of them were together."""

    def __init__(self, moments: Sequence[int]) -> None:
        self._moments = moments
        self._sums = [0, *accumulate(moments)]

    def count(self, t: int) -> int:
        """Return how many of them came up to `t`."""
        return bisect_right(self._moments, t)

    def total(self, t: int) -> int:
        """Return the ns that passed since each of those, added up."""
        count = self.count(t)
        return count * t - self._sums[count]
