"""Which trials are hopeless: asynchronous successive halving (ASHA), with a margin.

A trial that comes to a rung tells its rate so far, and goes on if it is among the better half of those that have come
there by then: nobody waits for anybody. The margin is ours: what may still be as good as the best, by what is known of
its rate, is never stopped, for the smallest of those that are about as good is what is looked for.

Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020, <https://arxiv.org/abs/1810.05934>
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gputune.experiment.measured import SURE_SIGMA

HALVING: Final = 2  # of so many that came to a rung one goes on
# part of a trial at which a rung is, to how far behind the best (relative) is hopeless there: early rates err more
RUNGS: Final[Mapping[float, float]] = {0.25: 0.25, 0.5: 0.12}


@dataclass(slots=True)
class Rungs:
    """What was told at each rung so far. One for trials that are compared with each other."""

    _told: dict[float, list[float]] = field(default_factory=dict)

    def goes_on(self, rung: float, rate: float, error: float = 0.0) -> bool:
        """Take the rate (samples/s, and its relative error) of a trial at a rung; return whether it goes on."""
        told = self._told.setdefault(rung, [])
        told.append(rate)
        better = sum(other > rate for other in told)
        if better < math.ceil(len(told) / HALVING):
            return True
        return rate * (1 + SURE_SIGMA * error) >= max(told) * (1 - RUNGS.get(rung, 0.0))
