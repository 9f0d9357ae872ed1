"""Rates of runs to a ratio, with an interval that holds what lies between runs.

Several runs a side tell by themselves how much runs of one training differ: Student's t on the logarithms of their
rates, the variance pooled over both sides (a side of one run has none of its own, and takes the other's). One run a
side tells nothing of that. Then what two runs of one training differ by elsewhere stands for it, and what strangers
took of the CPUs may all have been this run's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gputune.figures import NORMAL
from gputune.finding import ERROR, Speedup

SURE = 0.95
FLOOR = ERROR  # relative, either way: what two runs of one training differ by on a quiet machine, at the most
NOTHING = 2.0  # times either way: an interval as wide as that tells nothing
MOST_RUNS = 50  # a side: nobody makes more of them to settle what then is so small a difference
STEPS = 60  # of a bisection: to the last digit


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

    `freedom` is how many runs tell it beyond one a side (0: nobody measured it, the floor stands for it); `in_turn`
    that both sides ran at the same time of day; `strangers` is what of the interval is for them, as a logarithm.
    """

    ratio: Speedup
    spread: float
    freedom: int
    in_turn: bool
    strangers: float

    @property
    def says_nothing(self) -> bool:
        """Return whether its interval is so wide that no difference would show."""
        return self.ratio.high / self.ratio.low > NOTHING**2


def between(a: Sequence[Rate], b: Sequence[Rate]) -> Between:
    """Return how many times as fast `b` was as `a`, each of one run at least."""
    likely = fmean(rate.log for rate in b) - fmean(rate.log for rate in a)
    freedom, turns = len(a) + len(b) - 2, in_turn(a, b)
    if freedom:
        spread = math.sqrt((_scatter(a) + _scatter(b)) / freedom)
        half = math.hypot(half_width(spread, freedom, len(a), len(b)), 0.0 if turns else FLOOR)
    else:
        half = math.hypot(FLOOR, NORMAL * math.hypot(a[0].error, b[0].error))
        spread = half / NORMAL / math.sqrt(2)
    down, up = _strangers(a, b)
    return Between(
        ratio=Speedup(low=math.exp(likely - half - down), likely=math.exp(likely), high=math.exp(likely + half + up)),
        spread=spread,
        freedom=freedom,
        in_turn=turns,
        strangers=down + up,
    )


def _scatter(side: Sequence[Rate]) -> float:
    middle = fmean(rate.log for rate in side)
    return sum((rate.log - middle) ** 2 for rate in side)


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


def half_width(spread: float, freedom: int, first: int, second: int) -> float:
    """Return half of the interval of a difference of means of so many runs each, as a logarithm."""
    return student(freedom) * spread * math.sqrt(1 / first + 1 / second)


def runs_for(spread: float, gap: float) -> int | None:
    """Return how many runs a side tell a difference of `gap` (a logarithm), run in turn; None where none do."""
    enough = (n for n in range(2, MOST_RUNS + 1) if half_width(spread, 2 * n - 2, n, n) < abs(gap))
    return next(enough, None)


def student(freedom: int) -> float:
    """Return between which multiples of its standard error a mean lies with 95 %, for so many degrees of freedom."""
    low, high = 0.0, 100.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < SURE else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return the share of Student's t that lies within `t` of 0.

    Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for n in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * ((n - 1) / n)
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))
