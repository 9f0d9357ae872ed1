"""What is measured of rounds that wait for no batch bounds what is promised of batches that come sooner."""

from dataclasses import replace

import pytest

from gputune.advisors.few_workers import advise
from gputune.core.finding import Finding
from gputune.features import DeviceStep, Features
from gputune.model.prediction import outlooks
from tests.advisors.conftest import pretend as run


def filled(run: Features, *rounds: float, usual: float = 0.040) -> Features:
    """Have batches lain ready for rounds that took so many s, of a loop whose rounds took `usual` s before each."""
    process = run.processes[0]
    (loader,) = process.loaders
    loader = replace(loader, filled=rounds, unfilled=(usual,) * len(rounds))
    return replace(run, processes=(replace(process, loaders=(loader,)),))


@pytest.fixture
def starved() -> Features:
    """One worker makes batches in 40 ms, for steps of 10."""
    return run(num_workers=1, blocked=0.040, waits=(0.030,), step=0.010)


def told(run: Features) -> Finding:
    (found,) = advise(run)
    return found


def test_no_promise_is_higher_than_what_such_rounds_show(starved: Features) -> None:
    free, bounded = told(starved), told(filled(starved, *(0.020,) * 12))
    assert free.speedup.likely > 3
    assert bounded.speedup.likely == pytest.approx(2.0, rel=0.05)
    assert bounded.speedup.low <= bounded.speedup.likely <= bounded.speedup.high < 2.2
    assert bounded.change == free.change


def test_the_finding_says_what_was_measured(starved: Features) -> None:
    found = told(filled(starved, *(0.020,) * 12))
    assert "12 rounds whose batch lay ready took 20 ms each" in found.basis
    assert found.evidence["ready_rounds"] == 12
    assert found.evidence["ceiling"] == pytest.approx(2.0, rel=0.05)
    assert "ceiling" not in told(starved).evidence


@pytest.mark.parametrize(("rounds", "differs"), [((0.020,) * 9, False), ((0.020,) * 10, True)])
def test_a_few_rounds_bound_nothing(starved: Features, rounds: tuple[float, ...], differs: bool) -> None:
    assert (told(filled(starved, *rounds)).speedup != told(starved).speedup) is differs


def test_rounds_that_differ_leave_the_high_end_where_it_may_be(starved: Features) -> None:
    even, uneven = (told(filled(starved, *rounds)) for rounds in ((0.020,) * 12, (0.010, 0.030) * 6))
    assert uneven.speedup.likely == pytest.approx(even.speedup.likely)
    assert uneven.speedup.high > even.speedup.high


def test_a_loop_that_gains_nothing_without_its_waits_is_promised_nothing(starved: Features) -> None:
    (outlook,) = outlooks(filled(starved, *(0.045,) * 12))
    assert outlook.ceiling is not None
    assert outlook.ceiling.likely < 1.15
    assert told(filled(starved, *(0.045,) * 12)).speedup.likely < 1.15


def test_a_loop_that_changes_its_pace_is_promised_what_was_measured_at_each_pace() -> None:
    """Half of 40 ms was spared at first, when it was tried; now, and for a while only, its rounds take 400."""
    slow = run(num_workers=1, blocked=0.40, waits=(0.390,), step=0.010, batches=4000, kept=200)
    process = slow.processes[0]
    mean_round = (200 * 0.400 + 3800 * 0.040) / 4000
    loader = replace(process.loaders[0], mean_round=mean_round)
    drifted = replace(slow, processes=(replace(process, loop=mean_round * 4000, loaders=(loader,)),))
    (outlook,) = outlooks(filled(drifted, *(0.020,) * 12))
    assert outlook.ceiling is not None
    assert outlook.ceiling.likely == pytest.approx(2.0, rel=0.01)


def test_without_workers_there_is_no_queue_that_fills() -> None:
    (outlook,) = outlooks(filled(run(num_workers=0, blocked=0.030, step=0.010), *(0.02,) * 12))
    assert outlook.ceiling is None


@pytest.mark.parametrize(("lag", "bounds"), [(0.0, True), (0.005, False), (None, False)])
def test_rounds_of_a_host_bound_nothing_while_its_device_is_behind(
    starved: Features, lag: float | None, bounds: bool
) -> None:
    run = filled(starved, *(0.020,) * 12)
    timed = DeviceStep(
        timed=50, whole=0.040, starved=0.030, copying=0.0, compute=0.008, read_waits=0.0, copy_waits=0.0, lag=lag
    )
    process = replace(run.processes[0], device_step=timed, works=(0.008,) * 20)
    (outlook,) = outlooks(replace(run, processes=(process,)))
    assert (outlook.ceiling is not None) is bounds
