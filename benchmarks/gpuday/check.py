"""One row of the day's table: what was checked, what came out, and whether that is what gputune promises."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

HELD: Final = "held"
NOT_HELD: Final = "NOT held"
TOLD: Final = "told"  # a figure without a bar: to be compared, never green
NOT_RUN: Final = "not run"
VERDICTS: Final = (HELD, NOT_HELD, TOLD, NOT_RUN)


class Failed(Exception):  # noqa: N818 - its text says it
    """A check cannot be made; the text is a sentence that says why."""


@dataclass(frozen=True)
class Check:
    """What came of one check. `value` is in `unit`, `bar` likewise: at most so much, of either sign. None: not run."""

    part: str
    name: str
    unit: str
    value: float | str | None
    verdict: str
    bar: float | None = None
    note: str = ""

    def row(self) -> dict[str, object]:
        """Return it as a row of JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Step:
    """Some checks that are made together: their names, and the least s that making them takes."""

    names: Sequence[str]
    seconds: float
    make: object  # a function of the part's Day that yields what `told`, `held` and `truth` return


def told(name: str, unit: str, value: float | str, note: str = "") -> Check:
    """Return a figure that nothing is promised of."""
    return Check("", name, unit, value, TOLD, None, note)


def held(name: str, unit: str, value: float, bar: float, note: str = "") -> Check:
    """Return a figure that may be `bar` at most, of either sign."""
    return Check("", name, unit, value, HELD if abs(value) <= bar else NOT_HELD, bar, note)


def truth(name: str, says: str, note: str = "", *, right: bool) -> Check:
    """Return what is either so or not."""
    return Check("", name, "", says, HELD if right else NOT_HELD, None, note)


def not_run(name: str, why: str) -> Check:
    """Return a check that could not be made, and why."""
    return Check("", name, "", None, NOT_RUN, None, " ".join(why.split())[:300])


def read(row: dict[str, object]) -> Check:
    """Return the check that `row` wrote. Raises TypeError or ValueError of what is none."""
    made = Check(**row)  # type: ignore[arg-type]
    if made.verdict not in VERDICTS:
        raise ValueError(f"a verdict that nobody gives: {made.verdict!r}")
    return made
