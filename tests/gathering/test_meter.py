"""Seconds, joules and watts of one device, from readings that may be rare, late or missing."""

import pytest

from gputune.core.units import NS
from gputune.gathering.meter import Meter


def metered(busy: list[tuple[float, float]], power=(), energy=()) -> Meter:
    """Return a meter that was told these readings, of (s, value), in the order of their times."""
    meter = Meter()
    told = [("gpu.busy", *x) for x in busy] + [("gpu.power", *x) for x in power] + [("gpu.energy", *x) for x in energy]
    for name, t, value in sorted(told, key=lambda reading: reading[1]):
        meter.take(name, round(t * NS), value)
    return meter


def test_nothing_is_known_of_a_device_that_was_never_read() -> None:
    meter = Meter()
    assert (meter.idle(0, NS), meter.energy(NS), meter.idle_power) == (None, None, None)


def test_it_waits_until_it_is_the_jobs_and_when_no_kernel_runs() -> None:
    meter = metered([(10, 1.0), (11, 1.0), (12, 0.5), (13, 0.5), (14, 1.0)])
    assert meter.idle(0, 14 * NS) == pytest.approx(10 + 1.0)


def test_a_gap_is_taken_for_what_the_rest_was_like() -> None:
    meter = metered([(0.001, 0.5), *((t, 0.5) for t in range(1, 86)), (100, 0.5)])
    assert meter.idle(0, 100 * NS) == pytest.approx(50, rel=1e-3)


def test_the_first_seconds_are_not_taken_for_a_run_whose_device_was_read_no_more() -> None:
    """Power and energy may be refused while utilisation still is read, and the other way round."""
    power = [(t, 300.0) for t in range(1, 12)]
    meter = metered([(t, 1.0) for t in range(1, 60)], power, energy=[(1, 1000.0), (6, 2000.0), (11, 3000.0)])
    assert meter.energy(12 * NS) == pytest.approx(2000 + 1 * 300)
    assert meter.energy(60 * NS) is None
    assert meter.idle(0, 60 * NS) is not None
    assert meter.idle(0, 200 * NS) is None
    counted = metered([(1, 1.0)], power, energy=[(t, 1000.0 * t) for t in range(1, 61)])
    assert counted.energy(60 * NS) == pytest.approx(59_000)


def test_the_energy_counter_is_believed_and_power_fills_what_it_leaves_out() -> None:
    power = [(t, 300.0) for t in range(1, 13)]
    meter = metered([(1, 1.0), (11, 1.0)], power, energy=[(1, 1000.0), (6, 2000.0), (11, 3000.0)])
    assert meter.energy(13 * NS) == pytest.approx(2000 + 2 * 300)


def test_without_a_counter_energy_is_power_times_time() -> None:
    meter = metered([(1, 1.0), (2, 1.0)], [(1, 100.0), (2, 200.0), (3, 200.0)])
    assert meter.energy(3 * NS) == pytest.approx(400)


def test_a_counter_that_begins_anew_is_not_believed() -> None:
    meter = metered([(1, 1.0)], [(1, 100.0), (2, 100.0)], energy=[(1, 5000.0), (2, 10.0)])
    assert meter.energy(2 * NS) == pytest.approx(100)


def test_idle_power_is_that_of_readings_without_a_kernel_else_the_least() -> None:
    assert metered([(1, 0.0), (3, 0.9)], [(2, 80.0), (4, 400.0)]).idle_power == 80
    assert metered([(1, 0.9), (3, 0.9)], [(2, 390.0), (4, 400.0)]).idle_power == 390
