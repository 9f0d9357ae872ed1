"""What it does to the pace of a loop that its workers are held up for a moment, all at about the same time."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import median

from gputune.core.events import Record
from gputune.core.figures import mean
from gputune.core.units import NS
from gputune.features import Slope

PENDING = 128  # moments, the latest
DIFFERENCES_KEPT = 512  # differences, the latest
SETTLES = 5  # rounds of all workers after which a delay shows, beside those that lie in the queue
ODD = 0.5  # of a window that one round may take: longer is a pause of the loop's own, or an epoch's end
MIN_WINDOWS = 3  # windows that have to follow a moment
REACH = 3  # windows before, and after a window that a delay needs to settle, through which lines are laid
AROUND = 8  # windows before, and after, at which it is told how far such lines are apart by themselves


class Delays:
    """The moments at which all workers of a loader were held up, and by how much its batches came later."""

    def __init__(self, workers: int, prefetch: int) -> None:
        self._workers = workers
        self._window = workers * (prefetch + SETTLES)
        # 16384 batches whose times are kept, the latest: records of workers may come some s later, or before
        self._times: deque[int] = deque(maxlen=16384)
        self._moments: dict[int, dict[int, tuple[int, int]]] = {}  # to each worker's delay, in ns
        self._judged: set[int] = set()  # of these
        self._later: deque[float] = deque(maxlen=DIFFERENCES_KEPT)  # ns by which the batches came later, and
        self._delays: deque[float] = deque(maxlen=DIFFERENCES_KEPT)  # by which their makers were held up
        self._unlike: deque[float] = deque(
            maxlen=DIFFERENCES_KEPT
        )  # ns by which batches came later where nobody was held up
        self._stands: deque[int] = deque(maxlen=PENDING)  # ns; when the training itself was held up
        self._count = 0
        self._seen = 0
        self._held = 0  # ns of all workers

    def came(self, t: int) -> None:
        """Take when a batch came (ns)."""
        if self._workers < 2:  # nobody holds them up
            return
        self._times.append(t)
        self._count += 1
        if self._count % 1024 == 0:  # batches between two looks at what can be judged
            self._judge()

    def stood(self, record: Record) -> None:
        """Take that the training was held up itself: the batches around that tell nothing of a delay."""
        if record.t1 > record.t0:
            self._stands.append(record.t0)

    def delayed(self, worker: int, record: Record) -> None:
        """Take a DELAY of a worker."""
        if record.a not in self._moments:
            self._seen += 1
            if len(self._moments) >= PENDING:
                oldest = next(iter(self._moments))
                del self._moments[oldest]
                self._judged.discard(oldest)
        self._moments.setdefault(record.a, {})[worker] = record.t0, record.t1
        self._held += record.t1 - record.t0

    @property
    def held(self) -> tuple[int, float]:
        """Return at how many moments workers were held up, and for how many s each of them was in all."""
        return self._seen, self._held / max(1, self._workers) / NS

    @property
    def told(self) -> Slope | None:
        """Return what was found so far, None while nothing was."""
        self._judge()
        if not self._later or not self._unlike:
            return None
        delay = mean(self._delays)
        spread = 1.4826 * median(abs(each) for each in self._unlike)  # standard deviations in a median distance
        error = 1.2533 * spread / sqrt(len(self._later)) / delay  # times as far off as a mean
        return Slope(value=median(self._later) / delay, error=error, count=len(self._later), delay=delay / NS)

    def _judge(self) -> None:
        """Judge the moments whose batches have come. Those of which some delays are not known may still be told."""
        if len(self._judged) == len(self._moments):
            return
        times = list(self._times)
        begun = {m: bisect_right(times, min(t0 for t0, _ in each.values())) - 1 for m, each in self._moments.items()}
        others = sorted([*begun.values(), *(bisect_right(times, t) - 1 for t in self._stands)])
        for moment, each in sorted(self._moments.items()):
            if moment in self._judged or len(each) < self._workers:
                continue
            if begun[moment] + MIN_WINDOWS * self._window < len(times):
                self._judged.add(moment)
                delay = mean(t1 - t0 for t0, t1 in each.values())
                self._compare(times, begun[moment], delay, others)

    def _compare(self, times: Sequence[int], at: int, delay: float, begun: Sequence[int]) -> None:
        """Hold the batches after a moment, which comes after the one at `at`, against those before."""
        later = self._offset(times, at, begun)
        if later is None:
            return
        self._later.append(later)
        self._delays.append(delay)
        around = (at + where * self._window for where in range(-AROUND, AROUND + 1) if where)
        calm = (self._offset(times, here, begun, calm=True) for here in around)
        self._unlike += (each for each in calm if each is not None)

    def _offset(self, times: Sequence[int], at: int, begun: Sequence[int], *, calm: bool = False) -> float | None:
        """Return by how many ns the batches that come a window after one are later than those up to it promise.

        Both sides are as straight a line as they can be. None where others were held up, or the loop paused, too near;
        `calm`: nobody was held up here.
        """
        size = self._window
        before = max([-1, *(b + size for b in begun if b < at)])
        after = min([len(times), *(b + 1 for b in begun if b > at or (calm and b == at))])
        first, last = max(before, at - REACH * size) + 1, min(after, at + (1 + REACH) * size)
        left, right = range(first, at + 1), range(at + size, last)
        if at < 0 or min(len(left), len(right)) < size:
            return None
        usual = (times[last - 1] - times[first]) / (last - first)
        if max(b - a for a, b in pairwise(times[first:last])) > ODD * size * usual:
            return None
        return _apart(times, left, right)


def _apart(times: Sequence[int], left: range, right: range) -> float:
    """Return by how much one of two lines of the same slope lies above the other."""
    middles = [(mean(side), mean(times[n] for n in side)) for side in (left, right)]
    whole = [(n - x, times[n] - y) for side, (x, y) in zip((left, right), middles, strict=True) for n in side]
    slope = sum(n * t for n, t in whole) / sum(n * n for n, _ in whole)
    return middles[1][1] - middles[0][1] - slope * (middles[1][0] - middles[0][0])
