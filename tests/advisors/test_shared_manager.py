"""shared-manager speaks where batches are made by way of a Manager's process."""

from dataclasses import replace

import pytest

from gputune.advisors.shared_manager import advise
from gputune.features import Doing, Features
from gputune.verdict.judging import judge

CALL = Doing(kind="served", what="a Manager", where="data.py:24", share=0.6)
OWN = Doing(kind="own", what="Photos.__getitem__", where="data.py:27", share=0.4)
# four workers on two CPUs, a batch takes each of them 20 ms, 12 of which they wait for the Manager
SERVED = {"num_workers": 4, "cpu": 0.008, "blocked": 0.012, "step": 0.004, "waits": (0.003,), "cpus": 2}


def served(plain: Features, share: float = 0.6, stacks: int = 100) -> Features:
    (process,) = plain.processes
    making = (replace(CALL, share=share), replace(OWN, share=1 - share))
    return replace(plain, processes=(replace(process, making=making, making_stacks=stacks),))


def test_is_silent_where_no_batch_or_hardly_any_goes_through_one(run) -> None:
    assert list(advise(run(**SERVED))) == []
    assert list(advise(served(run(**SERVED), 0.05))) == []
    assert list(advise(served(run(**SERVED), stacks=12))) == []


def test_says_where_it_is_called_and_what_the_batches_are_worth_without(run) -> None:
    (finding,) = advise(served(run(**SERVED)))
    assert "inside of calls to a multiprocessing.Manager for 60% of the time" in finding.says
    assert finding.where == "data.py:24"
    assert finding.speedup.likely > 1.2


def test_what_the_manager_computes_is_won_as_well(run) -> None:
    plain = served(run(**SERVED))
    (without,) = advise(plain)
    used = (0.008 + 0.004 + 0.006) / (plain.processes[0].loop / plain.processes[0].loaders[0].batches)
    (found,) = advise(replace(plain, machine=replace(plain.machine, job=used)))
    assert found.evidence["manager_cpu_s"] == pytest.approx(0.010)  # this training computes nothing
    assert found.speedup.likely > without.speedup.likely


def test_it_speaks_for_the_loaders_other_causes(run) -> None:
    assert next(f.id for f in judge(served(run(**SERVED)))) == "shared-manager"
