"""Whether a batch takes a worker longer the more others are being made: what they wait for is then shared.

Workers that each wait for something of their own take as long whoever else is at work. Where they stand in line for one
server, lock or connection, what the line gives in a second stays the same, and the time of each grows with their
number. No experiment is needed for that where their number changes by itself: after an evaluation, as a pass begins and
ends, while one of them is held up, and where batches are made one by one.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gputune.core.figures import TINY, mean
from gputune.features import SURE, Loader
from gputune.model.measured_loop import MeasuredLoop
from gputune.model.minimum_samples import LEAST_SAMPLED
from gputune.model.workload import entangled


class WaitGrowth(NamedTuple):
    """How the waiting of workers grows with their number: the share of it that goes with that, and its error.

    `number` of them were at work, on average, and a batch waited `usual` s; where one is made alone that is `alone`.
    """

    share: float
    error: float
    number: float
    usual: float
    alone: float

    @property
    def least(self) -> float:
        """Return what it is at the least."""
        return min(1.0, max(0.0, self.share - SURE * self.error))

    @property
    def most(self) -> float:
        """Return what it is at the most."""
        return min(1.0, max(0.0, self.share + SURE * self.error))


@lru_cache(maxsize=8)  # two advisors ask the same, and more than once
def company(loop: MeasuredLoop) -> WaitGrowth | None:
    """Return how the waiting of a loader's workers grows with their number, None where that was not looked at.

    By how many were made as a batch was begun, as in a line, or meanwhile, as where all are served in turns: by what
    tells more of it.
    """
    loader = loop.loader
    if len(loader.in_flight) != len(loader.fetches):
        return None
    whole = _whole(loader)
    waited = [loader.fetches[place].blocked for place in whole]
    if len(waited) < LEAST_SAMPLED or mean(waited) <= 0:
        return None
    if entangled(loop.run, loader) or loop.run.machine.ranks > 1:
        return None  # what others do meanwhile, threads of its own or ranks, was not counted
    found = [_line(waited, [numbers[place] for place in whole]) for numbers in (loader.in_flight, loader.ahead)]
    return min(found, key=lambda each: each[0])[1]


def _whole(loader: Loader) -> Sequence[int]:
    """Return the places of the batches that are as large as a batch of the loader's.

    The last one of a worker's part is smaller, and made as others come to their end: by itself it takes less time.
    """
    least = loader.batch_size or 0
    return [place for place, fetch in enumerate(loader.fetches) if not 0 < fetch.samples < least]


def _line(waited: Sequence[float], numbers: Sequence[float]) -> tuple[float, WaitGrowth]:
    """Return what a line through these leaves unexplained, and what it says.

    Its error allows for single batches far from all others (HC3): as a rule there are few that had less company.
    """
    usual, number = mean(waited), mean(numbers)
    spread = sum((each - number) ** 2 for each in numbers)
    if spread <= TINY:
        return math.inf, WaitGrowth(0.0, math.inf, number, usual, usual)
    slope = sum((n - number) * (w - usual) for n, w in zip(numbers, waited, strict=True)) / spread
    unexplained = squares = 0.0
    for n, w in zip(numbers, waited, strict=True):
        reach = 1 / len(waited) + (n - number) ** 2 / spread
        left = w - usual - slope * (n - number)
        unexplained += left * left
        squares += ((n - number) * left / max(TINY, 1 - reach)) ** 2
    scale = number / usual
    error = math.sqrt(squares) / spread * scale
    return unexplained, WaitGrowth(slope * scale, error, number, usual, max(0.0, usual - slope * (number - 1)))
