"""A running mean over time, with the extremes and the last value."""

from dataclasses import dataclass


@dataclass(slots=True)
class Mean:
    """The mean of the values so far, each for as long as it stands for: a probe reads a young run more often."""

    total: float = 0.0  # of values times ns
    span: float = 0.0  # ns
    plain: float = 0.0  # of values
    count: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    last: float = 0.0
    _alone: float | None = None  # the first value, where nothing came before it: it stands for as long as the second

    def add(self, value: float, span: float | None = None) -> None:
        """Take one value, which stands for `span` ns; only of the first one may that be unknown."""
        if span is None:
            self._alone = value
        else:
            known = span if self._alone is None else 2 * span
            self.total += (value + (self._alone or 0.0)) * span
            self.span += known
            self._alone = None
        self.plain += value
        self.count += 1
        self.least = min(self.least, value)
        self.most = max(self.most, value)
        self.last = value

    @property
    def value(self) -> float | None:
        """Return the mean, or None where nothing was measured."""
        if self.span:
            return self.total / self.span
        return self.plain / self.count if self.count else None
