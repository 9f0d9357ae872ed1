"""What the benchmarks share: paired differences with a bootstrap interval, and one line of JSON per figure."""

import json
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

ROUNDS = 2000  # of the bootstrap
SEED = 1
YARDSTICK = "`python -I -S -c pass`: how fast this machine is"
PLAIN = "`python -c pass`"
Value = TypeVar("Value")


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


def trimmed(values: Sequence[float]) -> float:
    """Return the mean of the middle three fifths: nearly as sharp as the mean, and nearly as robust as the median."""
    cut = len(values) // 5
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def interval(
    values: Sequence[Value], centre: Callable[[Sequence[Any]], float] = statistics.median
) -> tuple[float, float, float]:
    """Return the centre of the values (numbers, or what `centre` takes) and its bootstrap 95 % interval."""
    chance = random.Random(SEED)
    centres = sorted(centre(chance.choices(values, k=len(values))) for _ in range(ROUNDS))
    return centre(values), centres[int(0.025 * ROUNDS)], centres[int(0.975 * ROUNDS) - 1]


def figure(name: str, unit: str, values: Sequence[float], budget: float | None = None, note: str = "") -> Figure:
    """Return the figure of a list of (paired) values: their median."""
    return Figure(name, unit, *interval(values), budget, note)


def emit(figures: Sequence[Figure]) -> None:
    """Print each figure as a line of JSON."""
    for one in figures:
        print(json.dumps(asdict(one)), flush=True)
