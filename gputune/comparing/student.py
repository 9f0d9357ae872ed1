"""How far a difference of means may be off: Student's t, for so many runs a side."""

import math

PAIRS = 5  # of neighbours: from so many on their differences tell more than all runs together, where the machine drifts
MOST_RUNS = 50  # a side: nobody makes more of them to settle what then is so small a difference


def half_width(spread: float, first: int, second: int) -> float:
    """Return half of the interval of a difference of means of so many runs each, as a logarithm.

    `spread` is the standard deviation between runs, one for both sides.
    """
    return student(first + second - 2) * spread * math.sqrt(1 / first + 1 / second)


def half_width_of_pairs(spread: float, count: int) -> float:
    """Return the same of so many pairs of neighbours; `spread` is that of one run beside its neighbour."""
    return student(count - 1) * spread * math.sqrt(2 / count)


def runs_for(spread: float, gap: float) -> int | None:
    """Return how many runs a side tell a difference of `gap` (a logarithm), run in turn; None where none do."""
    enough = (n for n in range(2, MOST_RUNS + 1) if _in_turn(spread, n) < abs(gap))
    return next(enough, None)


def _in_turn(spread: float, count: int) -> float:
    return half_width_of_pairs(spread, count) if count >= PAIRS else half_width(spread, count, count)


def student(freedom: int) -> float:
    """Return between which multiples of its standard error a mean lies with 98 %, for so many degrees of freedom."""
    low, high = 0.0, 100.0
    for _ in range(60):  # of a bisection: to the last digit
        middle = (low + high) / 2
        # 0.98: by 95 % one in twenty pairs of equals is called different, and one in four times it is more than one
        low, high = (middle, high) if _within(middle, freedom) < 0.98 else (low, middle)
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
