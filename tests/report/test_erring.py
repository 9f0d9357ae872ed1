"""A command that failed is told with the error that ended it, and with what had grown where memory ran out."""

from collections.abc import Callable
from dataclasses import replace

from gputune.features import Failure, Features, OutOfMemory, Process, Raised, Trend
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, build
from gputune.verdict.erring import error, growth

Make = Callable[..., Features]
FIRST = Raised(pid=1, rank=0, what="ValueError: no", where="train.py:31", started=1, ended=9, trained=True)
GROWTH = Trend(rate=50e6, low=45e6, high=55e6, first=1e9, last=3e9, seconds=40.0)


def said(run: Features) -> str:
    """Return the verdict as it is printed, in one line."""
    return " ".join(render(build(run, [], overhead=Overhead()), width=100).split())


def test_the_error_that_ended_it_is_told_with_its_line(features: Make) -> None:
    run = features(exit_code=1, raised=(FIRST,))
    assert "ended by ValueError: no, at train.py:31 on rank 0" in said(run)
    assert "ended by" not in said(replace(run, exit_code=0))
    assert "ended by" not in said(replace(run, exit_code=None))


def test_of_ranks_the_first_to_end_is_the_cause_and_a_launcher_never_is(features: Make) -> None:
    late = replace(FIRST, pid=2, rank=1, what="RuntimeError: connection closed", ended=12)
    launcher = replace(FIRST, pid=3, rank=None, what="ChildFailedError:", started=0, ended=11)
    found = error(features(exit_code=1, raised=(launcher, late, FIRST)))
    assert found is not None
    assert (found.pid, found.others) == (1, 1)
    assert error(features(exit_code=1, raised=(launcher,))) is not None
    lost = Failure(gpu="1", pid=2, rank=1, what="CUDA error: lost", where="train.py:33", ended=True)
    assert error(features(exit_code=1, raised=(launcher,), failures=(lost,))) is None  # it is told as such
    assert error(features(exit_code=1, raised=(launcher,), failures=(replace(lost, ended=False),))) is not None


def test_of_scripts_one_after_the_other_the_last_one_is(features: Make) -> None:
    later = replace(FIRST, pid=2, started=20, ended=30)
    found = error(features(exit_code=1, raised=(FIRST, later)))
    assert found is not None
    assert (found.pid, found.others) == (2, 0)


def test_memory_that_ran_out_is_told_with_the_growth_before(features: Make, process: Callable[..., Process]) -> None:
    growing = process(rising=GROWTH)
    run = features(processes=(growing,), exit_code=1, raised=(replace(FIRST, what="MemoryError"),))
    grown = "the training process's own memory had grown from 1 GB to 3 GB in the 40.0 s before"
    assert f"ended by MemoryError, at train.py:31 on rank 0; {grown}" in said(run)
    killed = replace(run, raised=(), exit_code=137, oom_kills=(1, "machine"))
    assert f"for want of memory during the run; {grown}" in said(killed)
    assert growth(replace(run, raised=(FIRST,))) is None  # another error: what grew is not the reason
    flat = process(rising=replace(GROWTH, low=0.0))
    assert growth(replace(killed, processes=(flat,))) is None


def test_of_a_command_that_somebody_killed_what_grew_while_it_trained_is_told(
    features: Make, process: Callable[..., Process]
) -> None:
    run = features(processes=(process(rising=GROWTH, memory=GROWTH),), exit_code=137)
    text = said(run)
    assert "SIGKILL (137): often the out-of-memory killer, or a batch system; the training process's own memory" in text
    assert "had grown from 1 GB to 3 GB in the 40.0 s before, 3 GB a minute" in text
    assert growth(replace(run, exit_code=143)) is None
    imports = process(rising=GROWTH, memory=replace(GROWTH, low=1e3))  # grew before its loop, and not in it
    assert growth(replace(run, processes=(imports,))) is None


def test_a_loop_that_hung_says_for_how_long(features: Make, process: Callable[..., Process]) -> None:
    run = features(processes=(process(stood=500.0),), exit_code=130)
    assert "the loop stood still for the last 8 min 20 s until it was ended" in said(run)


def test_an_error_that_another_sentence_has_is_not_told_twice(features: Make) -> None:
    ran_out = OutOfMemory(
        gpu="0", index="0", pid=1, rank=0, where="train.py:31", asked=2**30, live=0, reserved=0, free=0, total=2**34
    )
    text = said(features(exit_code=1, raised=(FIRST,), out_of_memory=(ran_out,)))
    assert "out of memory on GPU 0" in text
    assert "ended by" not in text
