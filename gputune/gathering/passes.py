"""What lies between two passes over the data: from the end of one until the next one begins.

Steps are told late (docs/ring.md), and so is that an evaluation is over: how long it was is settled with the third
batch of the next pass. A fetcher that reads ahead has its last step still to come when its batches end.
"""

from collections import deque
from typing import NamedTuple

SETTLED = 3  # batches of the next pass, with which all is told that came before it


class PassGap(NamedTuple):
    """When a pass had ended and the next one began, in ns."""

    t0: int
    t1: int


class Passes:
    """Listens to the passes of one process's training."""

    def __init__(self) -> None:
        # 1024 of the latest ones that are kept
        self.owns = deque[float](maxlen=1024)  # s of each gap that no span covers
        self._ended = self._began = 0  # the latest end of a pass, and the first begin since; 0: none
        self._stepped = 0  # the latest step before that begin
        self._batches = 0  # since then
        self._resumed = 0  # when the latest pass that another one came before began

    def ended(self, at: int) -> PassGap | None:
        """Take the end of a pass (ns). Return the gap before it, where that was not settled yet."""
        gap = self._settled()
        self._ended, self._began = at, 0
        return gap

    def began(self, at: int) -> None:
        """Take the begin of a pass."""
        if self._ended and not self._began:
            self._began = self._resumed = at
            self._batches = 0

    def stepped(self, at: int) -> None:
        """Take a step of the optimizer that ended at `at` (ns)."""
        if not self._began or at <= self._began:
            self._stepped = at

    def between(self, t0: int, t1: int) -> bool:
        """Return whether the latest of such passes began between two times, in ns."""
        return t0 < self._resumed <= t1

    def batch(self) -> PassGap | None:
        """Take a batch. Return the gap that is known by now; none lies before one of a pass that went on meanwhile."""
        if not self._began:
            self._ended = 0
            return None
        self._batches += 1
        return self._settled() if self._batches == SETTLED else None

    def _settled(self) -> PassGap | None:
        if not self._began:
            return None
        gap = PassGap(min(self._began, max(self._ended, self._stepped)), self._began)
        self._ended = self._began = 0
        return gap
