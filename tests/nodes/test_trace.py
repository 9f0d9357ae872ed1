"""The history of a run elsewhere, made of samples that come once a second."""

import pytest

from gputune.nodes.trace import BATCHES, BUSY, SAMPLES, WAIT, Trace
from gputune.sample import Metric, Reading, Sample
from gputune.scene import POINTS
from gputune.units import NS

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
    assert history.busy == (0.5,) * 4
    assert history.wait == (0.25,) * 4
    assert history.rate == (0.0, 64.0, 64.0, 64.0)


def test_two_devices_are_averaged_and_nothing_measured_is_no_zero() -> None:
    trace = Trace(100.0)
    trace.take([second(0, busy=1.0), second(0, busy=0.5), second(2, busy=0.0)], CLOCKS)
    assert trace.history().busy == (0.75, None, 0.0)
    assert trace.history().rate == (None, None, None)


def test_batches_are_counted_where_samples_are_not() -> None:
    trace = Trace(100.0)
    trace.take([second(k, wait=0.0, batches=2.0 * k, samples=0.0) for k in range(3)], CLOCKS)
    assert trace.history().unit == "batches/s"
    assert trace.history().rate == (0.0, 2.0, 2.0)


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
    assert trace.history().rate == (0.0, 0.0)
