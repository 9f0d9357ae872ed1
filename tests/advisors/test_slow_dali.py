"""slow-dali speaks where DALI is waited for and has fewer threads than CPUs."""

from dataclasses import replace

import pytest

from gputune.advisors.slow_dali import advise
from gputune.features import Features
from gputune.features.stages import Pipeline


def dali(run, *, threads: int, waits: float, cpus: float = 8.0) -> Features:
    """A loop of 10 ms steps that waits so many s for each batch of DALI."""
    made = run(waits=(waits,), steps=[0.010], cpus=cpus)
    (process,) = made.processes
    loaders = tuple(
        replace(loader, num_workers=0, pipeline=Pipeline(framework="dali", threads=threads, depth=2))
        for loader in process.loaders
    )
    return replace(made, processes=(replace(process, loaders=loaders),))


def test_is_silent_about_a_dataloader(run) -> None:
    assert list(advise(run(waits=(0.010,), steps=[0.010]))) == []


def test_is_silent_where_batches_come_in_time(run) -> None:
    assert list(advise(dali(run, threads=2, waits=0.0002))) == []


def test_is_silent_where_every_cpu_has_its_thread(run) -> None:
    assert list(advise(dali(run, threads=8, waits=0.010))) == []


@pytest.mark.parametrize(("threads", "likely"), [(2, 2.0), (6, 8 / 6)])
def test_names_threads_and_queue_and_promises_nothing(run, threads, likely) -> None:
    (finding,) = advise(dali(run, threads=threads, waits=0.010))
    assert f"has {threads} threads on 8 CPUs and makes 2 batches ahead" in finding.says
    assert "num_threads=8" in finding.do
    assert "prefetch_queue_depth=4" in finding.do
    assert finding.change == {"num_threads": 8}
    assert finding.speedup.likely == pytest.approx(likely, rel=0.05)
    assert not finding.speedup.promised
