"""Paces become a realised speed-up, and a realised speed-up becomes a word."""

import pytest

from gputune.core.finding import Speedup
from gputune.experiment.pace import Pace
from gputune.proving.comparing import NOISE, State, error_of, of_pairs, of_the_run, state

PROMISED = Speedup(low=1.8, likely=2.0, high=2.2)
EXACT = 1 + NOISE


def pace(rate: float, *blocks: float) -> Pace:
    return Pace(rate, "samples/s", 100, 10.0, blocks)


def test_what_one_of_two_loops_realised_brings_the_run_only_its_share() -> None:
    """Two loops of 4 and 2 s: the first becomes four times as fast, 1 s; a run of 6 s takes 3."""
    told = of_the_run(Speedup(low=2.0, likely=4.0, high=8.0), elsewhere=1 / 3)
    assert (told.low, told.likely, told.high) == pytest.approx((6 / 4, 6 / 3, 6 / 2.5))
    assert of_the_run(PROMISED, 0.0).low == pytest.approx(PROMISED.low)


@pytest.mark.parametrize(
    ("before", "after", "low", "likely", "high"),
    [
        ([100.0], [200.0], 2.0 / EXACT, 2.0, 2.0 * EXACT),
        ([100.0, 100.0], [180.0, 220.0], 1.8, 2.0, 2.2),
        ([100.0, 50.0, 100.0], [200.0, 100.0, 400.0], 2.0 / EXACT, 2.0, 4.0),
    ],
)
def test_pairs_realise_the_median_of_their_ratios_and_spread_as_far_as_they_do(
    before, after, low, likely, high
) -> None:
    realised = of_pairs(before, after)
    assert (realised.low, realised.likely, realised.high) == pytest.approx((low, likely, high))


def test_the_error_of_a_pace_is_that_of_its_parts() -> None:
    assert error_of(pace(100.0, *[100.0] * 10)) == 0.0
    assert error_of(pace(100.0, *[50.0, 150.0] * 5)) == pytest.approx(0.5 * (10 / 9) ** 0.5 / 10**0.5)
    assert error_of(pace(100.0)) == 0.0


@pytest.mark.parametrize(
    ("realised", "word", "holds"),
    [
        ((1.9, 2.0, 2.1), State.HELD, True),
        ((1.5, 1.7, 1.85), State.HELD, True),
        ((1.4, 1.5, 1.6), State.SHORT, False),
        ((2.5, 2.6, 2.7), State.MORE, True),
        ((0.9, 1.6, 2.5), State.UNDECIDED, False),
    ],
)
def test_a_prediction_holds_where_both_intervals_meet_and_some_gain_is_certain(realised, word, holds) -> None:
    low, likely, high = realised
    found = state(PROMISED, Speedup(low=low, likely=likely, high=high))
    assert (found, found.holds) == (word, holds)


def test_a_change_that_was_not_made_has_not_held() -> None:
    assert not State.NOT_MADE.holds


def test_where_nothing_was_predicted_nothing_fails() -> None:
    assert state(None, PROMISED) is State.MEASURED
    assert State.MEASURED.holds
