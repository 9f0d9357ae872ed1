"""Readings to the series of a run."""

import pytest

from gputune.core.events import BatchCode, Event, Kind, Record
from gputune.core.sample import Metric, Sample
from gputune.feeds.history import Historian
from gputune.feeds.rows import POINTS

NS = 10**9
BUSY = Metric("gpu.busy", "ratio", "Busy.", per="gpu")


def batch(t0: float, t1: float, *, samples: int = 16, ready: int = -1, process: int = 0, code: int = 0) -> Event:
    """Return a wait for a batch, in s."""
    return Event(process, Record(Kind.BATCH, code, int(t0 * NS), int(t1 * NS), 1, 0, ready, 0, samples))


def step(t: float) -> Event:
    """Return the end of an optimizer's step."""
    return Event(0, Record(Kind.STEP, 0, int(t * NS), int(t * NS), 1, 0, 0, 0, 0))


def test_a_second_is_a_point_with_means_shares_and_rates() -> None:
    historian = Historian(0)
    historian.take([Sample(BUSY, NS // 2, 0.2, "0"), Sample(BUSY, NS // 2, 0.4, "1")])
    historian.take([batch(1.0, 1.25, ready=2), batch(1.5, 1.75, ready=0), batch(2.0, 2.0)])
    history = historian.history()
    assert history.busy == (pytest.approx(0.3), None)
    assert history.wait == (None, 0.5)
    assert history.rate == (None, 32.0)
    assert history.queue == (None, 1.0)


def test_a_second_that_is_not_over_says_nothing_yet() -> None:
    historian = Historian(0)
    historian.take([batch(t / 10, t / 10) for t in range(10, 26)])
    assert historian.history().rate == (None, 160.0)  # and not the six batches of half a second
    historian.take([batch(3.0, 3.0)])
    assert historian.history().rate == (None, 160.0, 96.0)


def test_when_nothing_could_be_read_is_a_gap_and_no_zero() -> None:
    historian = Historian(0)
    for second in (*range(5), *range(45, 50)):
        historian.take([Sample(BUSY, second * NS, 0.5, "0"), batch(second, second + 0.5)])
    history = historian.history()
    assert history.gaps == ((4.0, 41.0),)
    assert history.rate[5:45] == history.wait[5:45] == history.busy[5:45] == (None,) * 40
    assert history.rate[:5] == (16.0,) * 5
    assert history.wait[45:] == (0.5,) * 4


def test_batches_that_were_made_in_a_gap_and_told_afterwards_stand_in_it() -> None:
    historian = Historian(0)
    historian.take([Sample(BUSY, 0, 0.5, "0"), batch(0.0, 0.5)])
    historian.take([batch(t, t + 0.25) for t in range(1, 20)])
    historian.take([Sample(BUSY, 20 * NS, 0.5, "0")])
    assert historian.history().gaps == ((0.0, 20.0),)
    assert historian.history().rate == (16.0,) * 20


def test_a_long_wait_lies_in_every_point_it_covers() -> None:
    historian = Historian(0)
    historian.take([batch(0.5, 3.5), batch(4.0, 4.0)])
    assert historian.history().wait == pytest.approx((0.5, 1.0, 1.0, 0.5))


def test_waits_are_a_share_of_all_that_train() -> None:
    historian = Historian(0)
    historian.take([batch(0.0, 1.0, process=0), batch(0.0, 0.0, process=1), batch(1.5, 2.0, process=1)])
    assert historian.history().wait[0] == 0.5


def test_where_no_batch_has_a_size_the_pace_is_of_steps() -> None:
    historian = Historian(0)
    historian.take([step(0.2), step(0.4), step(1.0)])
    history = historian.history()
    assert (history.unit, history.rate[0]) == ("steps/s", 2.0)


def test_the_end_of_an_iterator_is_no_batch() -> None:
    historian = Historian(0)
    historian.take([batch(0.0, 0.5, code=BatchCode.END)])
    assert historian.history().busy == ()


def test_points_are_merged_and_never_too_many() -> None:
    historian = Historian(0)
    for second in range(3 * POINTS):
        historian.take([Sample(BUSY, second * NS, second % 2, "0"), batch(second, second + 0.25)])
    history = historian.history()
    assert len(history.busy) <= POINTS
    assert history.step == 4.0
    assert set(history.busy[:-1]) == {0.5}
    assert history.wait[:-1] == pytest.approx([0.25] * (len(history.wait) - 1))
    assert history.rate[0] == 16.0


def test_a_wait_of_hours_costs_no_memory() -> None:
    historian = Historian(0)
    historian.take([batch(0.0, 1e6)])
    history = historian.history()
    assert len(history.wait) <= POINTS
    assert min(w for w in history.wait[:-1] if w is not None) == pytest.approx(1.0)
