"""How long the sweep may still take, and whether another start of the script fits into that."""

import time
from dataclasses import dataclass, field

from gputune.core.figures import duration


@dataclass(slots=True)
class Budget:
    """`total` s from now on, None for as long as it takes; `spent` s were spent before, by a sweep that is resumed."""

    total: float | None = None
    spent: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _startup: float = 5.0  # s that a start is believed to take before one was seen

    @property
    def seconds(self) -> float:
        """Return the s that the sweep has taken by now."""
        return self.spent + time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Return the s that are left, endless without a limit."""
        return float("inf") if self.total is None else self.total + self.spent - self.seconds

    @property
    def over(self) -> bool:
        """Return whether what still goes on is to be cut off."""
        # 0.1 relative: what was begun in time may take so much longer than believed, and is cut off then
        return self.total is not None and self.left < -0.1 * self.total

    def words(self) -> str:
        """Return in words that it is over."""
        return f"the budget of {duration(self.total or 0.0)} was over"

    def learn(self, whole: float, looped: float) -> None:
        """Learn what a start takes beside its batches, from one that took `whole` s, `looped` of them in batches."""
        self._startup = max(0.1, whole - looped)

    def start_of(self, looping: float) -> float:
        """Return the s that a start with so many s of batches takes."""
        return self._startup + looping

    def allows(self, looping: float) -> bool:
        """Return whether a start with so many s of batches ends in time."""
        return self.start_of(looping) <= self.left
