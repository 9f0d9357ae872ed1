"""Which minute of a run is looked at where nobody says: the one in which its training waited most for batches."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

MINUTE = 60_000_000  # µs
LONGEST = 5_000_000  # µs that a reading counts for at the most, as in docs/architecture.md


class Worst(NamedTuple):
    """A minute: when it begins (µs), and how much of it was waited (s, the mean of the training processes)."""

    begins: int
    waited: float


def worst(readings: Iterable[tuple[int, float]]) -> Worst | None:
    """Return the minute with most waiting; None where nobody waited. `readings`: the share since the one before."""
    held: deque[tuple[int, int, float]] = deque()  # from and to, µs, and the share
    total, best, before = 0.0, None, None
    for t, share in readings:
        since = t - LONGEST if before is None else max(before, t - LONGEST)
        before = t
        held.append((since, t, share))
        total += (t - since) * share
        while held[0][1] <= t - MINUTE:
            begun, ended, old = held.popleft()
            total -= (ended - begun) * old
        waited = total / 1e6
        if waited > 0 and (best is None or waited > best.waited):
            best = Worst(held[0][0], waited)
    return best
