"""Whether the predicted speed-up has held, by the realised one."""

from enum import Enum

from gputune.core.finding import Speedup


class Proven(Enum):
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
        return self not in {Proven.SHORT, Proven.UNDECIDED, Proven.NOT_MADE}


def of_the_run(loop: Speedup, elsewhere: float) -> Speedup:
    """Return what it brings the run that one of its loops gets faster, where a share of it lies in others."""
    low, likely, high = (1 / (elsewhere + (1 - elsewhere) / end) for end in (loop.low, loop.likely, loop.high))
    return Speedup(low=low, likely=likely, high=high)


def state(predicted: Speedup | None, realised: Speedup) -> Proven:
    """Return the word for a realised speed-up.

    What could as well be no gain at all has not held, where a gain was certain; but it has not failed either.
    """
    if predicted is None:
        return Proven.MEASURED
    if realised.high < predicted.low:
        return Proven.SHORT
    if realised.low > predicted.high:
        return Proven.MORE
    if realised.low <= 1.0 < predicted.low:
        return Proven.UNDECIDED
    return Proven.HELD
