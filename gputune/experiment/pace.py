"""How fast something went, as everything here tells it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLES, BATCHES, STEPS = "samples/s", "batches/s", "steps/s"


@dataclass(frozen=True, slots=True)
class Pace:
    """So much of `unit` a second: samples, or what could be counted instead. Of all training processes together.

    `parts` are the rates of parts of equally many batches, whose harmonic mean it is; `batches` and `seconds` are those
    of the process that had most.
    """

    rate: float
    unit: str = SAMPLES
    parts: tuple[float, ...] = ()
    batches: int = 0
    seconds: float = 0.0


def pace_of(parts: Sequence[float], unit: str, batches: int, seconds: float) -> Pace:
    """Return the pace of so many batches by the rates of their parts."""
    return Pace(statistics.harmonic_mean(parts), unit, tuple(parts), batches, seconds)
