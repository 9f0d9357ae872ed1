"""Stretches of a run differ in pace because the CPUs do; what rounds vary by anyway is no unsteadiness."""

import random

import pytest

from gputune.features import Features, Fetch, Loader, Machine, Process
from gputune.model.cpu_jitter import apart, error_of_mean, unsteadiness
from gputune.model.prediction import UNSTEADY, interval, unsteady
from gputune.verdict.judging import WORTH_SAYING

SLOW = [1.0, 1.0, 1.2, 1.2, 1.0, 0.9, 1.1, 1.0]  # of eight stretches
EVEN = [1.0] * 8


def series(paces: list[float], *, varying: float = 0.05, each: int = 40) -> list[float]:
    """Times of about 10 ms, of eight stretches, by chance a little longer or shorter."""
    chance = random.Random(7)
    return [0.01 * pace * chance.uniform(1 - varying, 1 + varying) for pace in paces for _ in range(each)]


def loader(waits: list[float], steps: list[float], cpus: list[float]) -> Loader:
    """A loader of which so much was measured."""
    return Loader(
        where="a.py:1", num_workers=2, prefetch_factor=2, pin_memory=False, persistent_workers=False, batch_size=8,
        batches=len(waits), waits=tuple(waits), steps=tuple(steps),
        fetches=tuple(Fetch(wall=cpu, cpu=cpu, queued=0.0, collate=0.0, samples=8) for cpu in cpus),
        wait_total=sum(waits),
    )  # fmt: skip


def test_rounds_that_vary_by_chance_are_steady() -> None:
    assert apart(series(EVEN, varying=0.3)) < 0.05
    assert apart([0.01] * 400) == 0.0
    assert apart([]) == 0.0
    assert apart([0.0] * 400) == 0.0


def test_stretches_that_differ_are_not() -> None:
    assert apart(series(SLOW)) == pytest.approx(0.105, abs=0.03)


def test_a_loop_whose_cpus_keep_their_pace_is_steady_however_its_waits_drift() -> None:
    assert unsteadiness(loader(series(SLOW), series(EVEN), series(EVEN))) < 0.02
    assert unsteadiness(loader(series(EVEN), series(SLOW), series(SLOW))) > 0.03


def test_the_interval_is_wider_and_the_cause_no_less_told() -> None:
    calm, wide = interval(1.2, 0.06), interval(1.2, 0.06, 0.1)
    assert wide.low < WORTH_SAYING < wide.sure == calm.low
    assert wide.high > calm.high


def test_no_prediction_is_less_sure_than_by_a_fifth() -> None:
    wild = series([0.2, 3.0] * 4)
    process = Process(
        pid=1, rank=None, wall=100.0, ledger={}, inclusive={}, loop=90.0, in_loop={}, batches=320, samples=2560,
        optimizer_steps=320, loaders=(loader(wild, wild, wild),),
    )  # fmt: skip
    run = Features(command=("t",), wall=100.0, machine=Machine(cpus=8, cpus_seen=8), processes=(process,))
    assert unsteady(run) == UNSTEADY


def test_the_error_of_a_mean_counts_parts_that_are_alike_as_one() -> None:
    """Ten parts that each keep one pace: 300 rounds say no more of the mean than ten."""
    chance = random.Random(1)
    paces = [chance.gauss(1.0, 0.1) for _ in range(10)]
    assert error_of_mean([pace for pace in paces for _ in range(30)]) == pytest.approx(0.1 / 10**0.5, rel=0.35)
    assert error_of_mean([chance.gauss(1.0, 0.1) for _ in range(300)]) == pytest.approx(0.1 / 300**0.5, rel=0.5)
    assert error_of_mean([1.0] * 5) is None
    assert error_of_mean([1.0] * 100) == 0.0
