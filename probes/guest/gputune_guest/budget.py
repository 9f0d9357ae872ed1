"""How much of a training's time may go into trying what holding something back does: what `watch --perturb` says."""

import os

USUAL, MOST = 0.003, 0.03  # of the time: without a word, and whatever is said


def share():
    """Return that share; 0 where it may not be done at all, as in a trial, whose times are compared."""
    if os.environ.get("GPUTUNE_TRIAL"):
        return 0.0
    try:
        return min(MOST, max(0.0, float(os.environ.get("GPUTUNE_GUEST_PERTURB") or USUAL)))
    except ValueError:
        return USUAL
