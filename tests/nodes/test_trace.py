"""The history of a run elsewhere, made of samples that come once a second."""

import pytest

from gputune.core.sample import Metric, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.rows import POINTS
from gputune.nodes.trace import BATCHES, BUSY, SAMPLES, WAIT, Trace

CLOCKS = 5 * NS
METRICS = {name: Metric(name, "1", "") for name in (BUSY, WAIT, SAMPLES, BATCHES)}


def second(k: int, **values: float) -> list[Reading]:
    """Return the tick of second k of a run that began at Unix time 100."""
    names = {"busy": BUSY, "wait": WAIT, "samples": SAMPLES, "batches": BATCHES}
    return [Sample(METRICS[names[name]], (100 + k) * NS - CLOCKS, value) for name, value in values.items()]


def test_each_second_is_a_point() -> None:
    trace = Trace(100.0)
    trace.take([second(k, busy=0.5, wait=0.25, samples=64.0 * k) for k in range(4)], CLOCKS)
    history = trace.history()
    assert (history.began, history.step, history.unit) == (0.0, 1.0, "samples/s")
    assert history.busy == (0.5,) * 3  # the second that has just begun is not over
    assert history.wait == (0.25,) * 3
    assert history.rate == (64.0,) * 3


def test_samples_that_come_now_early_now_late_make_no_zigzag() -> None:
    trace = Trace(100.0)
    for at in (0.0, 1.02, 1.98, 3.04, 3.97, 5.01, 6.0):
        found = second(0, wait=0.5, samples=100.0 * at)
        trace.take([[Sample(s.metric, s.t + int(at * NS), s.value) for s in found if isinstance(s, Sample)]], CLOCKS)
    assert trace.history().rate == pytest.approx((100.0,) * 6, abs=0.01)
    assert trace.history().wait == (0.5,) * 6


def test_a_time_when_nothing_came_is_a_gap_with_its_length() -> None:
    trace = Trace(100.0)
    trace.take([second(k, busy=0.5, wait=0.5, samples=10.0 * k) for k in (*range(4), *range(44, 48))], CLOCKS)
    history = trace.history()
    assert history.gaps == ((3.0, 41.0),)
    assert history.rate[4:44] == (None,) * 40
    assert history.wait[:3] == history.wait[44:] == (0.5,) * 3


def test_what_goes_on_now_is_counted_on_from_the_verdict() -> None:
    trace = Trace(100.0)
    trace.take([second(k, wait=0.5 if k > 80 else 0.0, samples=160.0 * k, batches=10.0 * k) for k in range(91)], CLOCKS)
    present = trace.present(600, 60.0)
    assert present is not None
    assert (present.at, present.rate, present.wait, present.batches) == (90.0, 160.0, 0.5, 900)


def test_two_devices_are_averaged_and_nothing_measured_is_no_zero() -> None:
    trace = Trace(100.0)
    trace.take([second(0, busy=1.0), second(0, busy=0.5), second(2, busy=0.0), second(3)], CLOCKS)
    trace.take([second(3, busy=0.5)], CLOCKS)
    assert trace.history().busy == (0.75, None, 0.0)
    assert trace.history().rate == (None, None, None)


def test_batches_are_counted_where_samples_are_not() -> None:
    trace = Trace(100.0)
    trace.take([second(k, wait=0.0, batches=2.0 * k, samples=0.0) for k in range(3)], CLOCKS)
    assert trace.history().unit == "batches/s"
    assert trace.history().rate == (2.0, 2.0)


@pytest.mark.parametrize("start", [0, 7])
def test_a_long_run_keeps_its_points_on_the_grid_of_its_start(start: int) -> None:
    trace = Trace(100.0)
    trace.take([second(k, wait=0.5, samples=10.0 * k) for k in range(start, start + 3 * POINTS)], CLOCKS)
    history = trace.history()
    assert history.step == 4.0
    assert history.began == start // 4 * 4
    assert len(history.rate) <= POINTS
    assert history.rate[5:-1] == (10.0,) * (len(history.rate) - 6)


def test_a_counter_that_began_anew_is_no_pace() -> None:
    trace = Trace(100.0)
    trace.take([second(0, wait=0.0, samples=500.0), second(1, wait=0.0, samples=10.0)], CLOCKS)
    assert trace.history().rate == (0.0,)
