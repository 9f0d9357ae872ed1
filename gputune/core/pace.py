"""How fast something went, as everything here tells it: in samples a second, or what could be counted instead."""

from collections.abc import Iterable
from dataclasses import dataclass

SAMPLES, BATCHES, STEPS = "samples/s", "batches/s", "steps/s"


@dataclass(frozen=True, slots=True)
class Pace:
    """So much of `unit` a second: one of those above, or that of a metric. Of all training processes together.

    `parts` are the rates of parts of equally many batches, whose harmonic mean it is; `batches` and `seconds` are those
    of the process that had most. Nothing and 0 where it was not timed by batches.
    """

    rate: float
    unit: str = SAMPLES
    parts: tuple[float, ...] = ()
    batches: int = 0
    seconds: float = 0.0


def pace(seconds: float, *, samples: int, batches: int, steps: int) -> Pace | None:
    """Return the pace over so many s in the first of these units that was counted, None where none was."""
    for done, unit in ((samples, SAMPLES), (batches, BATCHES), (steps, STEPS)):
        if done > 0 and seconds > 0:
            return Pace(done / seconds, unit)
    return None


def together(paces: Iterable[Pace | None]) -> Pace | None:
    """Return the sum of paces, None where one of them is not known or of another unit."""
    found = list(paces)
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or len({one.unit for one in known}) > 1:
        return None
    return Pace(sum(one.rate for one in known), known[0].unit)
