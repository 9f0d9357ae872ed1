"""loader-memory speaks when workers fill the memory, now or soon."""

from dataclasses import replace

import pytest

from gputune.advisors.loader_memory import advise
from gputune.core.finding import Severity
from gputune.features import Features, Trend

GB = 1_000_000_000


def holding(
    run,
    *,
    worker: int,
    left: int,
    limit: int = 100 * GB,
    growth: float = 0.0,
    epochs: int = 2,
    workers: int = 8,
    exit_code: int = 0,
    kills: int = 0,
) -> Features:
    """Workers that hold so much each, grow by so many B/s, and leave so much of the machine's memory."""
    trend = Trend(rate=growth, low=growth, high=growth, first=worker, last=worker + 60 * growth, seconds=60.0)
    told = run(num_workers=workers, blocked=0.010, epochs=epochs)
    machine = replace(told.machine, memory_total=limit, memory_free=left)
    changes = {"worker_memory": worker, "worker_growth": trend}
    loops = tuple(replace(p, loaders=(replace(p.loaders[0], **changes),)) for p in told.processes)
    return replace(told, machine=machine, processes=loops, exit_code=exit_code, oom_kills=(kills, "machine"))


def test_is_silent_while_there_is_room(run) -> None:
    assert list(advise(holding(run, worker=8 * GB, left=30 * GB))) == []
    assert list(advise(run(num_workers=8, blocked=0.010))) == []


def test_is_silent_where_others_fill_the_memory(run) -> None:
    assert list(advise(holding(run, worker=GB, left=2 * GB))) == []


def test_is_silent_about_growth_that_takes_longer_than_a_day(run) -> None:
    assert list(advise(holding(run, worker=GB, left=90 * GB, growth=10_000.0))) == []


def test_names_workers_that_leave_nothing(run) -> None:
    (finding,) = advise(holding(run, worker=11 * GB, left=5 * GB))
    assert finding.id == "loader-memory"
    assert "8 workers hold 11 GB each, 88 GB in all; 5 GB are left of 100 GB" in finding.says
    assert finding.due is None
    assert finding.change == {"num_workers": 4}
    assert finding.effect == "same-order"


def test_names_when_workers_that_grow_will_have_taken_it(run) -> None:
    (finding,) = advise(holding(run, worker=GB, left=48 * GB, growth=5_000_000.0))
    assert finding.due == pytest.approx(1200.0)
    assert finding.severity is Severity.HIGH
    assert "20 min" in finding.risk


def test_the_limit_of_a_container_counts(run) -> None:
    told = holding(run, worker=GB, left=48 * GB)
    machine = replace(told.machine, memory_limit=10 * GB, memory_limited=95 * GB // 10)
    (finding,) = advise(replace(told, machine=machine))
    assert finding.evidence["limit_bytes"] == 10 * GB


def test_a_run_that_was_killed_with_nothing_left_has_come_to_its_end(run) -> None:
    (finding,) = advise(holding(run, worker=11 * GB, left=2 * GB, exit_code=137, kills=1))
    assert finding.due == 0.0
    assert "was killed" in finding.risk


def test_a_kill_that_the_kernel_did_not_count_may_be_anybodys(run) -> None:
    (finding,) = advise(holding(run, worker=11 * GB, left=2 * GB, exit_code=137))
    assert finding.due is None
    assert "may kill" in finding.risk


def test_of_one_worker_no_fewer_are_advised(run) -> None:
    (finding,) = advise(holding(run, worker=80 * GB, left=5 * GB, workers=1))
    assert finding.do == "keep the dataset in arrays instead of Python objects"
    assert (finding.change, finding.effect) == ({}, "identical")
