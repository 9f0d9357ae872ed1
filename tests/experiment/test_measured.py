"""Rates that were measured, compared by blocks of rounds: the interval holds the truth as often as it says."""

import random
from itertools import islice

import pytest

from gputune.experiment.measured import Measured, gain, in_turn

NOISE = 0.01
MANY = 200  # comparisons of two things of which one is as much faster as is known


def measured(chance: random.Random, rate: float, *, visits: int, within: float, between: float) -> Measured:
    """Something of this rate, gone to so often; blocks, and visits, differ by these (relative, standard deviation)."""
    middles = [rate * (1 + between * chance.gauss(0, 1)) for _ in range(visits)]
    parts = [[middle * (1 + within * chance.gauss(0, 1)) for _ in range(10)] for middle in middles]
    return Measured(noise=between, visits=[*parts])


@pytest.mark.parametrize(("within", "between", "visits"), [(0.05, 0.001, 1), (0.02, NOISE, 2), (0.001, NOISE, 4)])
def test_the_interval_of_a_gain_holds_the_truth_about_as_often_as_it_says(within, between, visits) -> None:
    chance = random.Random(1)
    held = 0
    for _ in range(MANY):
        now, then = (measured(chance, r, visits=visits, within=within, between=between) for r in (100.0, 130.0))
        found = gain(now, then)
        held += found.low <= 1.3 <= found.high
        assert found.low <= found.likely <= found.high
    assert 0.90 * MANY <= held <= 0.99 * MANY


def test_it_is_as_wide_as_blocks_and_visits_differ() -> None:
    chance = random.Random(2)
    steady, uneven = (measured(chance, 100.0, visits=2, within=w, between=0.001) for w in (0.001, 0.1))
    moody = Measured(noise=0.05, visits=[*steady.visits])
    widths = [
        found.high - found.low
        for found in (gain(each, steady) for each in (Measured(noise=0.001, visits=[[100.0] * 10]), uneven, moody))
    ]
    assert widths[0] < 0.01 < widths[2] < 0.25
    assert widths[0] < 0.03 < widths[1] < 0.15


def test_rates_of_one_thing_lie_around_its_own() -> None:
    one = measured(random.Random(3), 100.0, visits=2, within=0.02, between=NOISE)
    assert one.low < one.rate < one.high
    assert one.high - one.low == pytest.approx(4 * one.error * one.rate, rel=0.15)


def test_one_number_alone_is_as_sure_as_a_visit() -> None:
    found = gain(Measured(noise=NOISE, visits=[[100.0]]), Measured(noise=NOISE, visits=[[200.0]]))
    assert found.likely == 2.0
    assert found.high / found.low == pytest.approx(1 + 4 * NOISE * 2**0.5, rel=0.1)


def test_the_same_measurements_say_the_same_again() -> None:
    now, then = (measured(random.Random(n), 100.0 + n, visits=2, within=0.02, between=NOISE) for n in (1, 2))
    again = Measured(noise=then.noise, visits=[list(visit) for visit in then.visits])
    assert gain(now, then) == gain(now, again)


def test_what_drifts_is_in_both_alike() -> None:
    order = [side for pair in islice(in_turn("A", "B"), 8) for side in pair]
    assert "".join(order) == "ABBABAABBAABABBA"
    for drift in (lambda n: n, lambda n: n * n):  # linear and square: of both there is as much on either side
        first, second = (sum(drift(n) for n, side in enumerate(order) if side == name) for name in "AB")
        assert first == second


def test_a_machine_on_which_nothing_can_be_told_makes_no_gain_endless() -> None:
    now, then = (Measured(noise=0.5, visits=[[rate] * 10]) for rate in (100.0, 200.0))
    found = gain(now, then)
    assert 0.2 < found.low < 1 < found.high < 12
