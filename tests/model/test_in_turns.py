"""What is measured of batches and steps that nobody is in the way of says what a loop is without workers."""

from dataclasses import replace

import pytest

from gputune.features import Alone, Features
from gputune.model.prediction import outlooks
from gputune.verdict.judging import judge
from tests.advisors.conftest import pretend as run


def measured(run: Features, making: float, step: float, count: int = 20) -> Features:
    """Have so many batches of a run been made in so many s, and steps likewise, by themselves."""
    process = run.processes[0]
    (loader,) = process.loaders
    alone = Alone(makings=(making,) * count, waits=(2 * making,) * count, steps=(step,) * count)
    return replace(run, processes=(replace(process, loaders=(replace(loader, alone=alone),)),))


@pytest.fixture
def crowded() -> Features:
    """Four workers on two CPUs: as measured a round takes 1.4 ms, 0.6 of them a step."""
    return run(num_workers=4, cpu=0.0006, queued=0.0001, waits=(0.0008,), step=0.0006, step_cpu=0.0006, cpus=2)


def test_what_is_left_of_a_round_is_the_making_and_the_step(crowded: Features) -> None:
    (found,) = judge(measured(crowded, 0.0003, 0.0002))
    assert found.id == "oversubscribed-workers"
    assert found.change == {"num_workers": 0}
    assert found.speedup.low == pytest.approx(1.4 / 0.5, rel=0.06)
    assert found.speedup.at_least
    assert found.basis.startswith("measured")


def test_that_is_more_than_could_be_told_without(crowded: Features) -> None:
    assert max((found.speedup.likely for found in judge(crowded)), default=1.0) < 2.0


@pytest.mark.parametrize(("count", "known"), [(9, False), (10, True)])
def test_a_few_tell_nothing(crowded: Features, count: int, known: bool) -> None:
    (outlook,) = outlooks(measured(crowded, 0.0003, 0.0002, count))
    assert (outlook.in_turns is not None) is known


def test_where_workers_help_more_of_them_are_told_as_before() -> None:
    """Batches take 10 ms to make, on eight CPUs, for steps of 2: in turn with these, that is slower than now."""
    heavy = run(num_workers=2, cpu=0.010, waits=(0.003,), step=0.002, cpus=8)
    (free,), (found,) = judge(heavy), judge(measured(heavy, 0.010, 0.002))
    assert (found.id, found.change, found.speedup) == (free.id, free.change, free.speedup)
    assert found.id == "few-workers"


def test_none_at_all_is_never_promised_against_what_was_measured() -> None:
    """By the replay these four cost more than they spare; tried, a batch in turn with its step takes as long as now."""
    loop = run(num_workers=4, cpu=0.0002, queued=0.00005, step=0.001, cpus=2, step_cpu=0.001, waits=(0.0011,))
    assert [found.change for found in judge(loop)] == [{"num_workers": 0}]
    assert {"num_workers": 0} not in [found.change for found in judge(measured(loop, 0.0002, 0.0019))]


def test_a_healthy_loop_stays_silent() -> None:
    """Steps of 20 ms, for which batches lie ready."""
    assert judge(measured(run(num_workers=2, cpu=0.002, step=0.020, cpus=8), 0.002, 0.019)) == []


def test_strangers_on_the_cpus_stretch_what_works_on_and_on(crowded: Features) -> None:
    quiet, busy = (
        outlooks(measured(each, 0.0003, 0.0002))[0].in_turns
        for each in (crowded, replace(crowded, machine=replace(crowded.machine, others=1.8)))
    )
    assert quiet is not None
    assert busy is not None
    assert busy.likely < quiet.likely


def test_workers_that_start_again_and_again_are_spared_as_well() -> None:
    loop = {"num_workers": 2, "cpu": 0.001, "waits": (0.0005,), "step": 0.001, "cpus": 2}
    once, often = (
        outlooks(measured(run(**loop, start=0.05, first_wait=0.02, shutdown=0.02, epochs=number), 0.0006, 0.0008))[0]
        for number in (1, 10)
    )
    assert once.in_turns is not None
    assert often.in_turns is not None
    assert often.in_turns.likely > 1.3 * once.in_turns.likely
