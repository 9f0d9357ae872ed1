"""What it does to the pace of a loop that its workers are held up for a moment, all at about the same time."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import median

from gputune.events import Record
from gputune.features import Slope
from gputune.figures import mean
from gputune.units import NS

CAME = 16384  # batches whose times are kept, the latest: records of workers may come some s later, or before
PENDING = 64  # moments that are not judged yet, the latest
SETTLES = 2  # rounds of all workers after which a delay shows, beside those that lie in the queue
ODD = 0.5  # of a window that one round may take: longer is a pause of the loop's own, or an epoch's end
APART = 1024  # batches between two looks at what can be judged
AROUND = 8  # windows before, and after, by which it is told how much they differ by themselves
SIGMA = 1.4826 / sqrt(2)  # standard deviations in a median difference of two windows
BESIDE = 1.5  # times the variance of a window: it is compared with the mean of two others


class Delays:
    """The moments at which all workers of a loader were held up, and by how much its batches came later."""

    def __init__(self, workers: int, prefetch: int) -> None:
        self._workers = workers
        self._window = workers * (prefetch + SETTLES)
        self._times: deque[int] = deque(maxlen=CAME)
        self._moments: dict[int, dict[int, tuple[int, int]]] = {}  # to each worker's delay, in ns
        self._later: list[float] = []  # ns by which the batches came later, and
        self._delays: list[float] = []  # by which their makers were held up
        self._unlike: deque[float] = deque(maxlen=CAME)  # ns by which windows differ where nobody was held up
        self._count = 0
        self._seen: set[int] = set()
        self._held = 0  # ns of all workers

    def came(self, t: int) -> None:
        """Take when a batch came (ns)."""
        self._times.append(t)
        self._count += 1
        if self._moments and self._count % APART == 0:
            self._judge()

    def delayed(self, worker: int, record: Record) -> None:
        """Take a DELAY of a worker."""
        if record.a not in self._moments and len(self._moments) >= PENDING:
            self._moments.pop(next(iter(self._moments)))
        self._moments.setdefault(record.a, {})[worker] = record.t0, record.t1
        self._seen.add(record.a)
        self._held += record.t1 - record.t0

    @property
    def held(self) -> tuple[int, float]:
        """Return at how many moments workers were held up, and for how many s each of them was in all."""
        return len(self._seen), self._held / max(1, self._workers) / NS

    @property
    def told(self) -> Slope | None:
        """Return what was found so far, None while nothing was."""
        self._judge()
        if not self._later or not self._unlike:
            return None
        delay = mean(self._delays)
        spread = SIGMA * median(abs(each) for each in self._unlike)
        error = spread * sqrt(BESIDE / len(self._later)) / delay
        return Slope(value=mean(self._later) / delay, error=error, count=len(self._later), delay=delay / NS)

    def _judge(self) -> None:
        """Judge the moments whose batches have come. Those of which some delays are not known may still be told."""
        times = list(self._times)
        begins = sorted(min(t0 for t0, _ in each.values()) for each in self._moments.values())
        for moment, each in sorted(self._moments.items()):
            at = bisect_right(times, min(t0 for t0, _ in each.values())) - 1
            if at + 2 * self._window < len(times) and len(each) == self._workers:
                del self._moments[moment]
                self._compare(times, at, [t1 - t0 for t0, t1 in each.values()], begins)

    def _compare(self, times: Sequence[int], at: int, delays: Sequence[int], begins: Sequence[int]) -> None:
        """Hold the batches after the one that came last before a moment against those around them."""
        size = self._window
        marks = range(at % size, len(times), size)  # where windows begin and end
        here = marks.index(at)
        around = marks[max(0, here - AROUND) : here + AROUND + 2]
        spans = {mark: _span(times[mark : mark + size + 1], begins) for mark in around[:-1]}
        spans[at] = _span(times[at : at + size + 1], ())
        before, during, after = (spans.get(at + where * size) for where in (-1, 0, 1))
        if before is None or during is None or after is None:
            return
        self._later.append(during - (before + after) / 2)
        self._delays.append(mean(delays))
        calm = [span for mark, span in spans.items() if mark != at]
        self._unlike += [b - a for a, b in pairwise(calm) if a is not None and b is not None]


def _span(times: Sequence[int], begins: Sequence[int]) -> int | None:
    """Return the ns of a window; None where somebody was held up in it, or the loop itself paused."""
    span = times[-1] - times[0]
    if any(times[0] <= begin < times[-1] for begin in begins):
        return None
    return None if max(b - a for a, b in pairwise(times)) > ODD * span else span
