"""How steady the machine was: whether stretches of a run differ in pace because the CPUs themselves do.

A virtual CPU shares its core with strangers whom nothing here can see. Work that is always the same then takes a
quarter longer for some seconds, and a run that is compared with this one may have had the better minutes. Stretches of
one run tell by how much: what they differ by beyond what their rounds vary by anyway.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median, stdev

from gputune.core.figures import mean
from gputune.features import Loader

STRETCHES, SHORTEST = 8, 5  # of a run, and rounds in one: about a second each in a run that has just been long enough
PARTS = 10  # whose means say how sure the mean of all is: as many as `gputune/experiment/pace.py` has
OF_MEDIANS = 1.25  # times the standard error of a mean: that of a median
TYPICAL = 1.48  # times the median of the deviations: a standard deviation that rare long rounds do not move


def unsteadiness(loader: Loader) -> float:
    """Return the relative standard deviation between stretches of a loop, as far as work on the CPUs shows it too.

    Rounds are taken without their pauses. A loop that waits for something else, or whose first epoch reads from disk,
    is no less steady for that: the smaller of what its rounds and what its CPU times say counts.
    """
    pauses = [sum(each) for each in zip(*loader.pauses.values(), strict=True)] or [0.0] * len(loader.waits)
    rounds = [w + s - p for w, s, p in zip(loader.waits, loader.steps, pauses, strict=True)]
    cpus = max(apart(loader.step_cpus), apart([fetch.cpu for fetch in loader.fetches]))
    return min(apart(rounds), cpus)


def apart(series: Sequence[float]) -> float:
    """Return the relative standard deviation between stretches of a series, beyond what chance explains."""
    count = min(STRETCHES, len(series) // SHORTEST)
    if count < STRETCHES // 2:
        return 0.0
    ends = [len(series) * number // count for number in range(count + 1)]
    parts = [series[start:end] for start, end in pairwise(ends)]
    middles = [median(part) for part in parts]
    chance = mean([(OF_MEDIANS * TYPICAL * _deviation(part)) ** 2 / len(part) for part in parts])
    middle = mean(middles)
    return math.sqrt(max(0.0, stdev(middles) ** 2 - chance)) / middle if middle > 0 else 0.0


def error_of_mean(series: Sequence[float]) -> float | None:
    """Return the relative standard error of a series' mean, by means of its parts; None where it has too few.

    By parts, because neighbours in a series are alike: what is slow for a second slows dozens of them.
    """
    count = min(PARTS, len(series) // SHORTEST)
    if count < STRETCHES // 2:
        return None
    ends = [len(series) * number // count for number in range(count + 1)]
    parts = [mean(series[start:end]) for start, end in pairwise(ends)]
    middle = mean(parts)
    return stdev(parts) / math.sqrt(count) / middle if middle > 0 else None


def _deviation(part: Sequence[float]) -> float:
    """Return the median distance from the median."""
    middle = median(part)
    return median(abs(value - middle) for value in part)
