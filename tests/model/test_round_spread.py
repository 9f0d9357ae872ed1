"""The mean of a run is as sure as the means of its parts agree: rounds in a row are alike."""

import random

import pytest

from gputune.model.round_spread import error_of_mean


def test_the_error_of_a_mean_counts_parts_that_are_alike_as_one() -> None:
    """Ten parts that each keep one pace: 300 rounds say no more of the mean than ten."""
    chance = random.Random(1)
    paces = [chance.gauss(1.0, 0.1) for _ in range(10)]
    assert error_of_mean([pace for pace in paces for _ in range(30)]) == pytest.approx(0.1 / 10**0.5, rel=0.35)
    assert error_of_mean([chance.gauss(1.0, 0.1) for _ in range(300)]) == pytest.approx(0.1 / 300**0.5, rel=0.5)
    assert error_of_mean([1.0] * 5) is None
    assert error_of_mean([1.0] * 100) == 0.0
