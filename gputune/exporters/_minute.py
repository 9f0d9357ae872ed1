"""Which minute of a run is looked at where nobody says: the one in which its training waited most for batches."""

from pathlib import Path
from typing import NamedTuple

from gputune import recording

MINUTE = 60  # s
WAIT = "loader.wait"  # read once a second


class Worst(NamedTuple):
    """A minute: when it begins, s after the run's start, and how much of it was waited (s, mean of the processes)."""

    begins: float
    waited: float


def worst(folder: Path, length: float, lost: dict[str, str]) -> Worst | None:
    """Return the minute with most waiting of a run that lasted so long; None where nobody waited."""
    found = recording.series(folder, [WAIT], max(1, round(length)), lost=lost)
    if WAIT not in found.columns:
        return None
    shares = [share or 0.0 for share in found.columns[WAIT].mean]
    many = max(1, round(MINUTE / found.step))
    waited = sum(shares[:many])
    best, place = waited, 0
    for end in range(many, len(shares)):
        waited += shares[end] - shares[end - many]
        if waited > best:
            best, place = waited, end - many + 1
    return Worst(found.times[place], best * found.step) if best > 0 else None
