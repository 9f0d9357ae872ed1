"""Rates of runs to a ratio, with an interval that holds what lies between runs.

Several runs a side tell by themselves how much runs of one training differ: Student's t on the logarithms of their
rates. Where both sides took turns often enough, neighbours in time are pairs, and what the machine did in the course of
them is in both; else the variance is pooled over both sides (a side of one run has none of its own, and takes the
other's). One run a side tells nothing of that. Then what two runs of one training differ by elsewhere stands for it,
and what strangers took of the CPUs may all have been this run's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal, TypeAlias

from gputune.comparing.student import PAIRS, half_width, half_width_of_pairs
from gputune.core.figures import NORMAL
from gputune.core.finding import ERROR, Speedup

FLOOR = ERROR  # relative, either way: what two runs of one training differ by on a quiet machine, at the most
Basis: TypeAlias = Literal["pairs", "runs", "floor"]
NOTHING = 2.0  # times either way: an interval as wide as that tells nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast one run was, in whatever both sides count, and what may have moved it.

    `error` is the relative standard error of its own pace, `taken` the share of the CPUs that strangers took where they
    were scarce, or that was stolen from the machine; `at` when it began, in s of Unix time.
    """

    value: float
    error: float = 0.0
    taken: float = 0.0
    at: float | None = None

    @property
    def log(self) -> float:
        """Return its logarithm: what differs by a factor differs by a sum."""
        return math.log(self.value)

    @property
    def held_back(self) -> float:
        """Return by how much it might have been faster without strangers, at the most, as a logarithm."""
        return -math.log1p(-min(self.taken, 0.99))


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """How many times as fast the second side was. `spread` is the standard deviation between runs, relative.

    `basis` is where that comes from: `pairs` of neighbours, all `runs`, or the `floor` of one run a side; `in_turn`
    that both sides ran at the same time of day; `strangers` is what of the interval is for them, as a logarithm.
    """

    ratio: Speedup
    spread: float
    basis: Basis
    in_turn: bool
    strangers: float

    @property
    def says_nothing(self) -> bool:
        """Return whether its interval is so wide that no difference would show."""
        return self.ratio.high / self.ratio.low > NOTHING**2


def between(a: Sequence[Rate], b: Sequence[Rate]) -> Between:
    """Return how many times as fast `b` was as `a`, each of one run at least."""
    likely = fmean(rate.log for rate in b) - fmean(rate.log for rate in a)
    basis, spread, half = _spread(a, b)
    down, up = _strangers(a, b)
    return Between(
        ratio=Speedup(low=math.exp(likely - half - down), likely=math.exp(likely), high=math.exp(likely + half + up)),
        spread=spread,
        basis=basis,
        in_turn=in_turn(a, b),
        strangers=down + up,
    )


def _spread(a: Sequence[Rate], b: Sequence[Rate]) -> tuple[Basis, float, float]:
    """Return where the interval comes from, the deviation between runs, and half of the interval, as logarithms."""
    differences = pairs(a, b)
    if differences:
        spread = stdev(differences) / math.sqrt(2)
        return "pairs", spread, half_width_of_pairs(spread, len(differences))
    if len(a) == len(b) == 1:
        half = math.hypot(FLOOR, NORMAL * math.hypot(a[0].error, b[0].error))
        return "floor", half / NORMAL / math.sqrt(2), half
    spread = math.sqrt((_scatter(a) + _scatter(b)) / (len(a) + len(b) - 2))
    return "runs", spread, math.hypot(half_width(spread, len(a), len(b)), 0.0 if in_turn(a, b) else FLOOR)


def _scatter(side: Sequence[Rate]) -> float:
    middle = fmean(rate.log for rate in side)
    return sum((rate.log - middle) ** 2 for rate in side)


def pairs(a: Sequence[Rate], b: Sequence[Rate]) -> list[float]:
    """Return by how much the second of each pair of neighbours was faster, as logarithms; none where there are none.

    The first two runs are a pair, and so on (A B, B A, …), where each is of one run of either side.
    """
    if len(a) != len(b) or len(a) < PAIRS or any(rate.at is None for rate in (*a, *b)):
        return []
    order = sorted([(rate.at or 0.0, -1, rate.log) for rate in a] + [(rate.at or 0.0, 1, rate.log) for rate in b])
    found = list(zip(order[::2], order[1::2], strict=True))
    if any(one[1] == other[1] for one, other in found):
        return []
    return [one[1] * one[2] + other[1] * other[2] for one, other in found]


def in_turn(a: Sequence[Rate], b: Sequence[Rate]) -> bool:
    """Return whether neither side was over before the other began: then what the machine did meanwhile is in both."""
    first, second = ([rate.at for rate in side if rate.at is not None] for side in (a, b))
    if len(first) < len(a) or len(second) < len(b):
        return False
    return max(first) > min(second) and max(second) > min(first)


def _strangers(a: Sequence[Rate], b: Sequence[Rate]) -> tuple[float, float]:
    """Return by how much strangers widen the interval downwards and upwards, as logarithms.

    Of one run a side all that they took may have been its own. Of several the spread between runs holds it, unless
    they took more of every run of one side than of any of the other.
    """
    first, second = sorted(rate.held_back for rate in a), sorted(rate.held_back for rate in b)
    if len(a) == len(b) == 1:
        return first[0], second[0]
    more = fmean(second) - fmean(first)
    if first[-1] < second[0]:
        return 0.0, more
    return (-more, 0.0) if second[-1] < first[0] else (0.0, 0.0)
