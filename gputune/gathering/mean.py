"""A running mean, with the extremes and the last value."""

from dataclasses import dataclass


@dataclass(slots=True)
class Mean:
    """The mean of the values so far."""

    total: float = 0.0
    count: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    last: float = 0.0

    def add(self, value: float) -> None:
        """Take one value."""
        self.total += value
        self.count += 1
        self.least = min(self.least, value)
        self.most = max(self.most, value)
        self.last = value

    @property
    def value(self) -> float | None:
        """Return the mean, or None where nothing was measured."""
        return self.total / self.count if self.count else None
