"""Paces to a realised speed-up, and whether the predicted one has held."""

import math
import statistics
from collections.abc import Sequence
from enum import Enum

from gputune.core.finding import Speedup
from gputune.experiment.pace import Pace

NOISE = 0.02  # relative: two short runs of one training differ by this much on a quiet machine


class State(Enum):
    """What became of a prediction."""

    HELD = "held"
    SHORT = "short"
    MORE = "more"
    UNDECIDED = "undecided"
    MEASURED = "measured"  # nothing was predicted
    NOT_MADE = "not-made"  # the loader is set as it was: whatever came, it did not come of the change

    @property
    def holds(self) -> bool:
        """Return whether whoever acts on the prediction gets what they were promised."""
        return self not in {State.SHORT, State.UNDECIDED, State.NOT_MADE}


def of_pairs(before: Sequence[float], after: Sequence[float]) -> Speedup:
    """Return what runs in pairs (as it is, changed) realised: the median of their ratios, and their spread."""
    ratios = sorted(b / a for a, b in zip(before, after, strict=False))
    likely = statistics.median(ratios)
    return Speedup(
        low=min(ratios[0], likely / (1 + NOISE)),
        likely=likely,
        high=max(ratios[-1], likely * (1 + NOISE)),
    )


def of_the_run(loop: Speedup, elsewhere: float) -> Speedup:
    """Return what it brings the run that one of its loops gets faster, where a share of it lies in others."""
    low, likely, high = (1 / (elsewhere + (1 - elsewhere) / end) for end in (loop.low, loop.likely, loop.high))
    return Speedup(low=low, likely=likely, high=high)


def error_of(pace: Pace) -> float:
    """Return the relative standard error of a pace, by its parts."""
    if len(pace.blocks) < 2 or not pace.rate:
        return 0.0
    mean = statistics.fmean(pace.blocks)
    return statistics.stdev(pace.blocks) / math.sqrt(len(pace.blocks)) / mean if mean else 0.0


def state(predicted: Speedup | None, realised: Speedup) -> State:
    """Return the word for a realised speed-up.

    What could as well be no gain at all has not held, where a gain was certain; but it has not failed either.
    """
    if predicted is None:
        return State.MEASURED
    if realised.high < predicted.low:
        return State.SHORT
    if realised.low > predicted.high:
        return State.MORE
    if realised.low <= 1.0 < predicted.low:
        return State.UNDECIDED
    return State.HELD
