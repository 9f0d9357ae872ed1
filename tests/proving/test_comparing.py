"""A realised speed-up becomes a word."""

import pytest

from gputune.core.finding import Speedup
from gputune.proving.comparing import Proven, of_the_run, state

PROMISED = Speedup(low=1.8, likely=2.0, high=2.2)


def test_what_one_of_two_loops_realised_brings_the_run_only_its_share() -> None:
    """Two loops of 4 and 2 s: the first becomes four times as fast, 1 s; a run of 6 s takes 3."""
    told = of_the_run(Speedup(low=2.0, likely=4.0, high=8.0), elsewhere=1 / 3)
    assert (told.low, told.likely, told.high) == pytest.approx((6 / 4, 6 / 3, 6 / 2.5))
    assert of_the_run(PROMISED, 0.0).low == pytest.approx(PROMISED.low)


@pytest.mark.parametrize(
    ("realised", "word", "holds"),
    [
        ((1.9, 2.0, 2.1), Proven.HELD, True),
        ((1.5, 1.7, 1.85), Proven.HELD, True),
        ((1.4, 1.5, 1.6), Proven.SHORT, False),
        ((2.5, 2.6, 2.7), Proven.MORE, True),
        ((0.9, 1.6, 2.5), Proven.UNDECIDED, False),
    ],
)
def test_a_prediction_holds_where_both_intervals_meet_and_some_gain_is_certain(realised, word, holds) -> None:
    low, likely, high = realised
    found = state(PROMISED, Speedup(low=low, likely=likely, high=high))
    assert (found, found.holds) == (word, holds)


def test_a_change_that_was_not_made_has_not_held() -> None:
    assert not Proven.NOT_MADE.holds


def test_where_nothing_was_predicted_nothing_fails() -> None:
    assert state(None, PROMISED) is Proven.MEASURED
    assert Proven.MEASURED.holds
