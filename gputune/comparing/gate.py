"""`--fail-if-slower 5%`: whether the second side is slower by that much for sure, may be, or is not."""

import math
from typing import Literal

import msgspec

from gputune.comparing.interval import Between
from gputune.comparing.student import runs_for

State = Literal["slower", "unsure", "passed", "unknown"]


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `limit` is a share; `slower`: the whole interval lies beyond it; `unknown`: not comparable.

    `runs` is how many a side, run in turn, would settle what is unsure; null where it is settled, or none would.
    """

    limit: float
    state: State
    runs: int | None = None


def gate(limit: float, found: Between | None) -> GateResult:
    """Return what `--fail-if-slower` comes to; `found` is None where nothing can be compared."""
    if found is None:
        return GateResult(limit=limit, state="unknown")
    least = 1 - limit
    if found.ratio.high < least:
        return GateResult(limit=limit, state="slower")
    if found.ratio.low >= least:
        return GateResult(limit=limit, state="passed")
    return GateResult(limit=limit, state="unsure", runs=runs_for(found.spread, math.log(found.ratio.likely / least)))
