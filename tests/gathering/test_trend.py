"""A trend is a slope that is sure: what levels off, jumps once or swings is none."""

import random

import pytest

from gputune.features import Trend
from gputune.gathering.trend import READINGS_KEPT, AmountSeries


def trend(values: list[float], since: float = 0.0) -> Trend | None:
    """Return the trend of these readings, one a second."""
    series = AmountSeries()
    for at, value in enumerate(values):
        series.add(float(at), value)
    return series.trend(since, float(len(values)))


def test_a_handful_of_readings_is_no_trend() -> None:
    assert trend([1.0, 2.0, 3.0, 4.0]) is None


def test_what_stays_as_it_is_has_no_slope() -> None:
    found = trend([5.0] * 40)
    assert (found.rate, found.low, found.high) == (0.0, 0.0, 0.0)


def test_steady_growth_is_measured_through_noise() -> None:
    noise = random.Random(1)
    found = trend([100.0 + 3.0 * at + noise.gauss(0, 5) for at in range(60)])
    assert found.low > 1.5
    assert found.low <= found.rate <= found.high
    assert found.rate == pytest.approx(3.0, rel=0.2)


@pytest.mark.parametrize(
    "values",
    [
        [100.0 * min(at, 12) for at in range(60)],  # a cache that fills
        [10.0] * 30 + [500.0] * 30,  # a validation set that is loaded once
        [100.0 * (at % 10) for at in range(60)],  # an epoch's list, thrown away at its end
        [500.0 - 3.0 * at for at in range(60)],
    ],
)
def test_what_levels_off_jumps_once_or_swings_does_not_grow(values: list[float]) -> None:
    assert trend(values).low <= 0.0


def test_only_the_time_that_was_asked_for_counts() -> None:
    assert trend([900.0 - 30 * at for at in range(30)] + [2.0 * at for at in range(40)], since=30.0).rate > 0


def test_a_long_run_is_kept_thinned_and_whole() -> None:
    series = AmountSeries()
    for at in range(20_000):
        series.add(float(at), 2.0 * at)
    found = series.trend(0.0, 20_000.0)
    assert found.rate == pytest.approx(2.0)
    assert found.seconds > 19_000
    assert len(series._points) <= READINGS_KEPT
