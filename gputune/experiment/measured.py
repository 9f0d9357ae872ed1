"""How fast something was, and how many times as fast something else: rates of blocks of rounds, drawn again and again.

What is compared runs in turn, so that what the machine does meanwhile is in both. A block is a part of so many rounds
of the loop, long enough that neighbours are hardly alike; what its visits or starts differ by beyond their blocks
(`noise`) comes on top.
"""

import functools
import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gputune.core.figures import standard_error
from gputune.core.finding import Speedup

DRAWS = 1000  # of the blocks: an end of an interval is known to a twelfth of a standard error then
PRECISION = 0.03  # relative, of the mean of the batch times of a trial or a visit, with a certainty of 95 %
SURE_SIGMA = 2.0  # standard errors to either side: 95 %
OUTSIDE = 1 - statistics.NormalDist().cdf(SURE_SIGMA)  # share of the draws beyond either end

Side = TypeVar("Side")
Rates = Sequence[float]


def scatter(parts: Rates) -> float:
    """Return the relative standard error of the harmonic mean of some rates, 0 of less than two.

    Rates of equally many batches: it is their times that have an ordinary mean.
    """
    return standard_error([1 / part for part in parts])


@dataclass(slots=True, kw_only=True)
class Measured:
    """All that was measured of one thing: rates (samples/s) of parts of equally many batches, visit by visit.

    `noise` is the relative standard error of a whole visit, or start, which its own parts do not show.
    """

    noise: float
    visits: list[Rates] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return samples over seconds, visits weighing alike."""
        return statistics.harmonic_mean(statistics.harmonic_mean(visit) for visit in self.visits)

    @property
    def error(self) -> float:
        """Return the relative standard error of the rate: of its parts, and of visits by their number."""
        parts = [part for visit in self.visits for part in visit]
        return math.hypot(scatter(parts), self.noise / math.sqrt(len(self.visits)))

    @property
    def low(self) -> float:
        """Return the lower end of the rate's 95 % interval."""
        return self.rate * _ends(self._drawn(1))[0]

    @property
    def high(self) -> float:
        """Return its upper end."""
        return self.rate * _ends(self._drawn(1))[1]

    def _drawn(self, seed: int) -> tuple[float, ...]:
        """Return rates as they might have been as well, over that which was measured."""
        return _draws(tuple(map(tuple, self.visits)), self.noise, seed)


@functools.lru_cache(maxsize=256)
def _draws(visits: tuple[tuple[float, ...], ...], noise: float, seed: int) -> tuple[float, ...]:
    """Return the relative rates of DRAWS draws of all blocks; of one less than there are, for it is their mean's."""
    chance = random.Random(seed)  # noqa: S311 - draws, and no secret: the same for the same measurement
    middle = statistics.fmean(1 / part for visit in visits for part in visit)
    times = [1 / part / middle for visit in visits for part in visit]
    noise /= math.sqrt(len(visits))
    few = max(1, len(times) - 1)
    means = (math.fsum(chance.choices(times, k=few)) / few for _ in range(DRAWS))
    return tuple(math.exp(noise * chance.gauss(0.0, 1.0)) / mean for mean in means)


def _ends(draws: Iterable[float]) -> tuple[float, float]:
    """Return between what 95 % of them lie."""
    ordered = sorted(draws)
    beyond = round(OUTSIDE * len(ordered))
    return ordered[beyond], ordered[-1 - beyond]


def unsteadiness(measured: Iterable[Measured]) -> float:
    """Return by how much visits to one thing differ (relative standard deviation), 0 where none was gone back to.

    The machine is not the same from one visit to the next, whatever is measured: all are pooled.
    """
    off, freedom = 0.0, 0
    for each in measured:
        rates = [statistics.harmonic_mean(visit) for visit in each.visits]
        off += sum((rate / statistics.fmean(rates) - 1) ** 2 for rate in rates)
        freedom += len(rates) - 1
    return math.sqrt(off / freedom) if freedom else 0.0


def gain(now: Measured, then: Measured) -> Speedup:
    """Return how many times as fast `then` is, with its 95 % interval."""
    likely = then.rate / now.rate
    if then is now:
        return Speedup(low=likely, likely=likely, high=likely)
    pairs = zip(then._drawn(1), now._drawn(2), strict=True)
    low, high = _ends(b / a for b, a in pairs)
    return Speedup(low=likely * min(1.0, low), likely=likely, high=likely * max(1.0, high))


def in_turn(one: Side, other: Side) -> Iterator[tuple[Side, Side]]:
    """Yield both without end, A B, B A, B A, A B, …: what drifts, however it does, is in both alike."""
    pair = 0
    while True:
        yield (other, one) if pair.bit_count() % 2 else (one, other)
        pair += 1
