"""Rates that were measured, with their intervals, and which of two settings is the better one.

A tie goes to the cheaper setting. A setting that cannot be told from the script's own is no reason to change it.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gputune.finding import Speedup
from gputune.sweep.settings import Setting

SURE = 2.0  # standard errors to either side: 95 %
TIE = 0.01  # relative: the cheaper one of two that are this close
LOOSE = 0.03  # relative: and of two that cannot be told apart, if they are no further from each other than this
SHARP = 0.025  # half a width of the interval of a ratio below which two settings that are not apart tie


class Order(Enum):
    """How one setting's rate stands to another's."""

    FASTER = "faster"
    SLOWER = "slower"
    TIE = "tie"
    UNDECIDED = "undecided"


@dataclass(slots=True, kw_only=True)
class Tally:
    """All that was measured of one setting: rates (samples/s) of parts, visit by visit.

    `noise` is the relative standard error of a whole visit, which its own parts do not show.
    """

    setting: Setting
    noise: float
    visits: list[Sequence[float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the mean rate, visits weighing alike."""
        return statistics.fmean(statistics.fmean(visit) for visit in self.visits)

    @property
    def error(self) -> float:
        """Return the relative standard error of the rate: of its parts, and of visits by their number."""
        parts = [part for visit in self.visits for part in visit]
        within = statistics.stdev(parts) / statistics.fmean(parts) / math.sqrt(len(parts)) if len(parts) > 1 else 0.0
        return math.hypot(within, self.noise / math.sqrt(len(self.visits)))

    @property
    def low(self) -> float:
        """Return the lower end of the rate's 95 % interval."""
        return self.rate * max(0.0, 1 - SURE * self.error)

    @property
    def high(self) -> float:
        """Return its upper end."""
        return self.rate * (1 + SURE * self.error)


def unsteadiness(tallies: Iterable[Tally]) -> float:
    """Return by how much visits to one setting differ (relative standard deviation), 0 where none was gone back to.

    The machine is not the same from one visit to the next, whatever the setting: all are pooled.
    """
    off, freedom = 0.0, 0
    for tally in tallies:
        rates = [statistics.fmean(visit) for visit in tally.visits]
        off += sum((rate / statistics.fmean(rates) - 1) ** 2 for rate in rates)
        freedom += len(rates) - 1
    return math.sqrt(off / freedom) if freedom else 0.0


def gain(now: Tally, then: Tally) -> Speedup:
    """Return how many times as fast `then` is, with its 95 % interval."""
    likely = then.rate / now.rate
    width = min(0.9, SURE * math.hypot(now.error, then.error)) if then is not now else 0.0
    return Speedup(low=likely * (1 - width), likely=likely, high=likely * (1 + width))


def order(one: Tally, other: Tally) -> Order:
    """Return how `one` stands to `other`."""
    found = gain(other, one)
    if found.low > 1:
        return Order.FASTER
    if found.high < 1:
        return Order.SLOWER
    return Order.TIE if found.high - found.low <= 2 * SHARP * found.likely else Order.UNDECIDED


def best(tallies: Iterable[Tally], script: Setting) -> Tally:
    """Return the cheapest of those that are about as fast as the fastest.

    The script's own settings are left only for what is surely faster, or costs less and is sure to be about as fast.
    """
    found = list(tallies)
    fastest = max(found, key=lambda tally: tally.rate)
    close = [tally for tally in found if _ties(tally, fastest)]
    chosen = min(close, key=lambda tally: tally.setting.cost(script))
    own = next((tally for tally in found if tally.setting == script), None)
    if own is None or chosen is own:
        return chosen
    stands = order(chosen, own)
    cheaper = chosen.setting.cost(script) < script.cost(script)
    return chosen if stands is Order.FASTER or (cheaper and stands is Order.TIE) else own


def _ties(tally: Tally, fastest: Tally) -> bool:
    """Return whether a setting is about as fast as the fastest, or a little slower, and perhaps by chance."""
    if tally.rate >= fastest.rate * (1 - TIE):
        return True
    return tally.rate >= fastest.rate * (1 - LOOSE) and order(tally, fastest) is not Order.SLOWER
