"""The interval holds what lies between runs."""

import math
import random

import pytest

from gputune.comparing.interval import FLOOR, Rate, between, in_turn, pairs
from gputune.comparing.student import MOST_RUNS, PAIRS, half_width_of_pairs, runs_for, student

QUIET = 0.02  # between runs


def rates(*values: float, first: float = 0.0) -> list[Rate]:
    """Runs that began an hour apart, the first of them at hour `first`."""
    return [Rate(value=value, at=first + n) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("freedom", "times"),
    [(1, 31.821), (2, 6.965), (3, 4.541), (4, 3.747), (5, 3.365), (6, 3.143), (10, 2.764), (30, 2.457), (60, 2.390)],
)
def test_students_t_is_that_of_the_tables(freedom: int, times: float) -> None:
    assert student(freedom) == pytest.approx(times, abs=6e-4)


def test_of_one_run_a_side_a_difference_within_the_floor_is_none() -> None:
    found = between(rates(100.0), rates(100.0 * (1 + FLOOR / 2)))
    assert found.ratio.low < 1 < found.ratio.high
    assert found.basis == "floor"
    assert between(rates(100.0), rates(100.0 * (1 + 2 * FLOOR))).ratio.low > 1


def test_a_run_that_was_not_steady_itself_widens_it() -> None:
    plain = between([Rate(value=100.0)], [Rate(value=120.0)])
    short = between([Rate(value=100.0, error=0.1)], [Rate(value=120.0)])
    assert short.ratio.low < 1 < plain.ratio.low


def test_several_runs_a_side_give_it_themselves() -> None:
    steady = between(rates(100.0, 100.2, 99.8), rates(103.0, 103.2, 102.8, first=0.5))
    assert steady.ratio.low > 1
    assert steady.ratio.high - steady.ratio.low < FLOOR
    unsteady = between(rates(100.0, 130.0, 80.0), rates(136.0, 100.0, 150.0, first=0.5))
    assert unsteady.ratio.low < 1 < unsteady.ratio.high


def test_a_single_run_is_held_against_what_several_differ_by() -> None:
    before = rates(100.0, 102.0, 98.0, 101.0)
    assert between(before, rates(97.0, first=1.5)).ratio.high > 1
    assert between(before, rates(85.0, first=1.5)).ratio.high < 1


def test_sides_that_were_not_run_in_turn_differ_by_the_time_of_day_as_well() -> None:
    before, after = (100.0, 100.1, 99.9), (103.0, 103.1, 102.9)
    assert between(rates(*before), rates(*after, first=0.5)).ratio.low > 1
    assert between(rates(*before), rates(*after, first=5)).ratio.low < 1
    assert not in_turn(rates(*before), [Rate(value=1.0)])


def test_what_strangers_took_of_one_run_may_all_have_been_its_own() -> None:
    disturbed = between([Rate(value=100.0)], [Rate(value=100.0, taken=0.5)]).ratio
    alone = between([Rate(value=100.0)], [Rate(value=100.0)]).ratio
    assert disturbed.low == pytest.approx(alone.low)
    assert disturbed.high == pytest.approx(2 * alone.high)
    assert between([Rate(value=100.0, taken=0.8)], [Rate(value=100.0, taken=0.8)]).says_nothing


def test_of_several_runs_strangers_count_only_where_they_were_all_on_one_side() -> None:
    calm, busy = ([Rate(value=100.0 + n, taken=t + n / 100, at=float(n)) for n in range(3)] for t in (0.1, 0.5))
    assert between(calm, calm).strangers == 0
    assert between(calm, busy).strangers == pytest.approx(math.log((1 - 0.11) / (1 - 0.51)), rel=0.01)
    assert between(calm, busy).ratio.high > between(calm, calm).ratio.high
    assert between(calm, busy).ratio.low == pytest.approx(between(calm, calm).ratio.low)
    assert between(busy, calm).ratio.low < between(calm, calm).ratio.low


@pytest.mark.parametrize("runs", [2, 3, PAIRS, 6])
def test_of_equal_sides_one_in_fifty_is_called_different(runs: int) -> None:
    """By lot, always the same one: 2,000 pairs."""
    chance, wrong = random.Random(1), 0
    for _ in range(2000):
        a, b = ([math.exp(chance.gauss(0, QUIET)) for _ in range(runs)] for _ in range(2))
        ratio = between(rates(*a), rates(*b, first=0.5)).ratio
        wrong += ratio.low > 1 or ratio.high < 1
    assert wrong / 2000 == pytest.approx(0.02, abs=0.01)


def test_runs_that_took_turns_are_pairs() -> None:
    """Each run is 10 % slower than the one before, as the machine fills up: B is 3 % faster all the same."""
    order = [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]
    sides: tuple[list[Rate], list[Rate]] = ([], [])
    for n, side in enumerate(order):
        sides[side].append(Rate(value=100 * 0.9**n * 1.03**side, at=float(n)))
    assert pairs(*sides) == pytest.approx([math.log(1.03) + sign * math.log(0.9) for sign in (1, -1, 1, -1, 1)])
    steps = [
        [Rate(value=(200 - 20 * n) * faster, at=2 * n + part) for n in range(6)] for part, faster in ((0, 1), (1, 1.03))
    ]
    assert between(*steps).ratio.low > 1  # each pair on a step of its own
    assert between(*steps).basis == "pairs"


def test_runs_that_took_no_turns_are_no_pairs() -> None:
    some = rates(1, 2, 3, 4, 5)
    assert pairs(some, rates(1, 2, 3, 4, 5, first=0.5)) != []
    assert pairs(some, rates(1, 2, 3, 4, 5, first=1.5)) == []
    assert pairs(some, rates(1, 2, 3, first=0.5)) == []
    assert pairs(some[:3], rates(1, 2, 3, first=0.5)) == []
    assert pairs(some, [Rate(value=1.0)] * 5) == []


@pytest.mark.parametrize(("runs", "noise"), [(6, 0.035), (10, 0.05)])
def test_a_change_of_a_tenth_is_found_nine_times_of_ten(runs: int, noise: float) -> None:
    """By lot, always the same one, on a machine that gets slower by a third meanwhile: 1,000 pairs of sides."""
    chance, found = random.Random(2), 0
    for _ in range(1000):
        a, b = (
            [Rate(value=0.94**n * slower * math.exp(chance.gauss(0, noise)), at=2.0 * n + part) for n in range(runs)]
            for part, slower in ((0, 1.0), (1, 0.9))
        )
        found += between(a, b).ratio.high < 1
    assert found >= 900


def test_as_many_runs_are_asked_for_as_tell_the_difference() -> None:
    count = runs_for(QUIET, math.log(1.03))
    assert count is not None
    assert half_width_of_pairs(QUIET, count) < math.log(1.03) <= half_width_of_pairs(QUIET, count - 1)
    assert runs_for(QUIET, math.log(1.5)) == 2
    assert runs_for(QUIET, 0.0) is None
    assert runs_for(QUIET, math.log(1.0001)) is None
    assert count <= MOST_RUNS
