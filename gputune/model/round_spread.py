"""How well the mean round of a run is known: by the means of parts of it, for rounds in a row are alike."""

from collections.abc import Sequence
from itertools import pairwise

from gputune.core.figures import mean, standard_error

PARTS = 10  # whose means say how sure the mean of all is: as many as `gputune/experiment/line.py` has


def error_of_mean(series: Sequence[float]) -> float | None:
    """Return the relative standard error of a series' mean, by means of its parts; None where it has too few.

    By parts, because neighbours in a series are alike: what is slow for a second slows dozens of them.
    """
    count = min(PARTS, len(series) // 5)  # rounds in one
    if count < 4:  # of them, below which nobody knows
        return None
    ends = [len(series) * number // count for number in range(count + 1)]
    parts = [mean(series[start:end]) for start, end in pairwise(ends)]
    return standard_error(parts) if mean(parts) > 0 else None
