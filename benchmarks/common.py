"""What the benchmarks share: paired differences with a bootstrap interval, and one line of JSON per figure."""

import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One row of benchmarks/results.md. `high` is the upper end of the 95 % interval: it is what meets the budget."""

    name: str
    unit: str
    value: float
    low: float
    high: float
    budget: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the budget is kept at the upper end of the interval."""
        return self.budget is None or self.high <= self.budget


def interval(values: Sequence[float], rounds: int = 2000, seed: int = 1) -> tuple[float, float, float]:
    """Return the median and its bootstrap 95 % interval."""
    chance = random.Random(seed)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds))
    return statistics.median(values), medians[int(0.025 * rounds)], medians[int(0.975 * rounds) - 1]


def figure(name: str, unit: str, values: Sequence[float], budget: float | None = None, note: str = "") -> Figure:
    """Return the figure of a list of (paired) values."""
    value, low, high = interval(values)
    return Figure(name, unit, value, low, high, budget, note)


def emit(figures: Sequence[Figure]) -> None:
    """Print each figure as a line of JSON."""
    for one in figures:
        print(json.dumps(asdict(one)), flush=True)
