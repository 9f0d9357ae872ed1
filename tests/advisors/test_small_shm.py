"""small-shm speaks when a full queue has no room in /dev/shm, or when the run has died of that."""

from dataclasses import replace

import pytest

from gputune.advisors.small_shm import advise
from gputune.core.finding import Severity
from gputune.features import Features

MB = 1_000_000


def queue(run, *, batch: int, free: int, least: int | None = None, exit_code: int = 0, **differs: object) -> Features:
    """Four workers with two batches each of so many bytes, in so much shared memory."""
    told = run(num_workers=4, blocked=0.010, batch_bytes=batch)
    machine = replace(told.machine, shm_most=free, shm_least=free if least is None else least)
    changes = {"batch_bytes_most": batch, **differs}
    loops = tuple(replace(p, loaders=(replace(p.loaders[0], **changes),)) for p in told.processes)
    return replace(told, machine=machine, processes=loops, exit_code=exit_code)


def test_is_silent_while_a_full_queue_fits(run) -> None:
    assert list(advise(queue(run, batch=10 * MB, free=100 * MB))) == []


def test_is_silent_where_the_size_of_a_batch_or_of_shared_memory_is_not_known(run) -> None:
    assert list(advise(run(num_workers=4, blocked=0.010))) == []
    assert list(advise(queue(run, batch=0, free=100 * MB))) == []


def test_is_silent_without_workers(run) -> None:
    assert list(advise(queue(run, batch=90 * MB, free=64 * MB, num_workers=0))) == []


def starved(run, *, free: int, **differs: object) -> Features:
    """A loop without workers that waits 30 ms for batches of 90 MB, for steps of 10."""
    told = run(num_workers=0, blocked=0.030, step=0.010, batch_bytes=90 * MB, **differs)
    loops = tuple(replace(p, loaders=(replace(p.loaders[0], batch_bytes_most=90 * MB),)) for p in told.processes)
    machine = replace(told.machine, shm_free=free, shm_most=free, shm_least=free)
    return replace(told, machine=machine, processes=loops)


def test_says_that_more_workers_would_help_if_there_were_room(run) -> None:
    (finding,) = advise(starved(run, free=64 * MB))
    assert "would help, but 64 MB of /dev/shm are free" in finding.says
    assert finding.do.startswith("give /dev/shm ")
    assert "then set num_workers=" in finding.do
    assert finding.speedup.likely > 1.5
    assert finding.change == {}  # none that could be tried here


def test_where_there_is_room_or_nothing_is_waited_for_that_is_left_unsaid(run) -> None:
    assert list(advise(starved(run, free=64_000 * MB))) == []
    assert list(advise(starved(run, free=64 * MB, waits=(0.0001,)))) == []


def test_is_silent_about_batches_that_come_through_a_pipe(run) -> None:
    assert list(advise(queue(run, batch=90 * MB, free=64 * MB, batch_shared=False))) == []


def test_names_the_need_and_a_queue_that_fits(run) -> None:
    (finding,) = advise(queue(run, batch=10 * MB, free=64 * MB))
    assert finding.id == "small-shm"
    assert "8 batches of up to 10 MB" in finding.says
    assert "80 MB" in finding.says
    assert "a worker dies" in finding.risk
    assert finding.due is None
    assert finding.severity is Severity.MEDIUM
    assert finding.change == {"prefetch_factor": 1}
    assert "100 MB" in finding.do
    assert finding.speedup.likely == 1.0


def test_a_queue_that_cannot_be_short_enough_needs_fewer_workers(run) -> None:
    (finding,) = advise(queue(run, batch=30 * MB, free=80 * MB))
    assert finding.change == {"num_workers": 2, "prefetch_factor": 1}


def test_a_batch_that_does_not_fit_at_all_needs_more_memory(run) -> None:
    (finding,) = advise(queue(run, batch=90 * MB, free=64 * MB))
    assert finding.change == {}
    assert "--shm-size" in finding.do


def test_a_run_that_died_before_its_first_batch_died_of_it(run) -> None:
    (finding,) = advise(queue(run, batch=90 * MB, free=64 * MB, batches=0, exit_code=1))
    assert finding.due == 0.0
    assert finding.severity is Severity.HIGH
    assert "status 1" in finding.risk


def test_a_run_that_failed_with_room_left_did_not_die_of_it(run) -> None:
    (finding,) = advise(queue(run, batch=10 * MB, free=64 * MB, least=30 * MB, exit_code=1))
    assert finding.due is None


def test_ranks_of_one_machine_share_its_memory(run) -> None:
    told = queue(run, batch=6 * MB, free=64 * MB)
    assert list(advise(told)) == []
    shared = replace(told, machine=replace(told.machine, ranks=2), processes=told.processes * 2)
    (finding,) = advise(shared)
    assert finding.evidence["needed_bytes"] == pytest.approx(96 * MB)
