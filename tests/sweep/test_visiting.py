"""A visit times as many batches as tell its rate: few where they are alike, more where they are not, within bounds."""

from types import SimpleNamespace

import pytest

from gputune.sweep.settings import setting
from gputune.sweep.visiting import (
    LONG_S,
    MOST,
    SHORT_S,
    TIMED,
    fewest,
    known,
    length,
    looping,
    most,
    stretch,
    whole,
)

WANTED = setting(4, 2, pin_memory=False, persistent=False, batch_size=8)


def profile(per_batch: float, spread: float = 0.0, epoch: int = 0) -> SimpleNamespace:
    """A loop that takes so many s a batch, whose batches differ by `spread`."""
    return SimpleNamespace(batch=8.0, ranks=1, spread=spread, epoch=epoch, rate=lambda _: 8.0 / per_batch)


@pytest.mark.parametrize(
    ("per_batch", "least", "longest"),
    [(0.010, SHORT_S / 0.010, LONG_S / 0.010), (1.0, TIMED, TIMED), (1e-6, MOST, MOST)],
)
def test_the_bounds_are_times_for_fast_batches_and_numbers_for_slow_ones(per_batch, least, longest) -> None:
    assert fewest(profile(per_batch), WANTED) == pytest.approx(least, abs=1)
    assert most(profile(per_batch), WANTED) == pytest.approx(longest, abs=1)


def test_what_is_expected_lies_between_the_bounds() -> None:
    assert length(profile(0.010), WANTED) == (10, fewest(profile(0.010), WANTED))
    assert length(profile(0.010, spread=2.0), WANTED) == (10, most(profile(0.010), WANTED))


def test_parts_that_are_alike_tell_the_rate() -> None:
    assert known((100.0, 101.0, 99.0, 100.0))
    assert not known((50.0, 150.0, 60.0, 140.0))
    assert not known(())


def test_a_visit_times_whole_epochs_where_these_are_short() -> None:
    short, longer = profile(0.010, epoch=60), profile(0.010, epoch=600)
    found = stretch(short, WANTED)
    assert (found.epoch, found.least, found.longest) == (60, 180, 240)
    found = stretch(longer, WANTED)
    assert (found.epoch, found.least, found.longest) == (0, fewest(longer, WANTED), most(longer, WANTED))
    assert looping(short, WANTED) > looping(longer, WANTED)


def test_one_that_may_last_longer_times_one_of_longer_epochs() -> None:
    longer = profile(0.010, epoch=500)
    found = stretch(longer, WANTED, whole_s=6.0)
    assert (found.epoch, found.least, found.longest) == (500, 500, 500)
    assert stretch(profile(0.010, epoch=60), WANTED, whole_s=0.0).epoch == 0


def test_whole_epochs_hold_as_many_batches_as_are_needed() -> None:
    assert (whole(100, 0), whole(100, 30), whole(10, 30), whole(10, 30, passes=1)) == (100, 120, 90, 30)
