"""After how many rounds of its loop a training comes back to each of its pauses: as it was set, not as a mean."""

from collections import Counter
from collections.abc import Hashable

from gputune.core.figures import MOSTLY

MIN_DISTANCES = 2  # distances, below which one alone would tell


class Intervals:
    """Counts the rounds between pauses, place by place. A round is told later than the pause that came before it."""

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}  # ns: pauses of which it is not known yet which round they came before
        self._last: dict[Hashable, int] = {}
        self._distances: dict[Hashable, Counter[int]] = {}

    def paused(self, place: Hashable, at: int) -> None:
        """Take a pause at a place, begun at `at` (ns)."""
        self._due.setdefault(place, at)

    @property
    def open(self) -> bool:
        """Return whether a pause waits for its round."""
        return bool(self._due)

    def round(self, at: int, done: int) -> None:
        """Take that a round ended at `at` (ns), before which there were `done`. Not needed while none is `open`."""
        for place in [place for place, paused in self._due.items() if paused <= at]:
            del self._due[place]
            distance = done - self._last.get(place, done)
            self._last[place] = done
            known = self._distances.setdefault(place, Counter())
            # 64 different ones kept of a place: more of them are no setting
            if distance > 0 and (distance in known or len(known) < 64):
                known[distance] += 1

    def of(self, place: Hashable) -> int | None:
        """Return after how many rounds it came back, None where that differed, or was seen too seldom."""
        known = self._distances.get(place, Counter())
        whole = sum(known.values())
        rounds, times = max(known.items(), key=lambda item: item[1], default=(0, 0))
        # most of the distances: as many are alike where a script counts its rounds
        return rounds if times >= MIN_DISTANCES and times >= MOSTLY * whole else None
