"""slow-producer speaks where a training waits at a queue of its own."""

from dataclasses import replace

from gputune.advisors.preprocessing_in_loop import advise as preprocessing
from gputune.advisors.slow_producer import advise
from gputune.core.finding import Finding
from gputune.features import Interpreted
from gputune.model.loaderless import unattended
from gputune.verdict.judging import judge


def fed(plain, share: float, stacks: int = 240):
    """Steps of 20 ms without a DataLoader, that wait at a queue for a share of them before the model."""
    line = Interpreted(where="feed.py:9", function="Feeder.next", share=share)
    process = replace(
        plain.processes[0], loaders=(), batches=0, samples=0, optimizer_steps=400, loop=8.0, cpu=1.0,
        batch_gotten=False, before_forward=(0.020 * share + 0.0005,) * 30, on_weights=0.0,
        queues=(line,), looked=stacks,
    )  # fmt: skip
    return replace(plain, processes=(process,))


def test_is_silent_of_a_queue_that_is_full(run) -> None:
    assert list(advise(run())) == []
    assert list(advise(fed(run(), 0.1))) == []
    assert list(advise(fed(run(), 0.6, stacks=20))) == []


def test_says_where_it_waits_and_for_how_long(run) -> None:
    (finding,) = advise(fed(run(), 0.6))
    assert "waits 60% of the loop at feed.py:9 (in Feeder.next)" in finding.says
    assert finding.speedup.low < 1.5 < finding.speedup.high
    assert finding.where == "feed.py:9"


def test_waiting_at_a_queue_is_no_work_of_the_loops_own(run) -> None:
    assert unattended(fed(run(), 0.6).processes[0]) < 0.001
    assert list(preprocessing(fed(run(), 0.6))) == []


def test_no_more_is_promised_than_the_cpus_can_make(run) -> None:
    plain = fed(run(), 0.6)
    (ample,) = advise(replace(plain, machine=replace(plain.machine, cpus=8.0, job=1.2, others=0.0)))
    (two,) = advise(replace(plain, machine=replace(plain.machine, cpus=2.0, job=1.25, others=0.0)))
    assert two.speedup.likely <= 2.0 / 1.25 < ample.speedup.likely
    assert two.speedup.low < 1.35
    assert "several processes" in two.do
    (full,) = advise(replace(plain, machine=replace(plain.machine, cpus=2.0, job=1.25, others=0.7)))
    assert "hardly a CPU is left" in full.do


def test_a_loop_that_does_nothing_but_wait_is_not_promised_one_that_never_does(run) -> None:
    """97 % of waiting are x33 at the most; two or four who fill the queue make two or four times the batches."""
    plain = fed(run(), 0.97)
    for cpus, others, likely in ((4.0, 0.0, 4.0), (2.0, 1.9, 2.0)):
        (finding,) = advise(replace(plain, machine=replace(plain.machine, cpus=cpus, job=0.1, others=others)))
        assert finding.speedup.likely == likely
        assert finding.speedup.low < 2
        assert finding.speedup.high > 4


def test_of_several_who_fill_it_nobody_has_seen_whether_more_are_better(run) -> None:
    plain = fed(run(), 0.97)
    loops = tuple(replace(process, fillers=6) for process in plain.processes)
    (finding,) = advise(replace(plain, processes=loops))
    assert "6 threads are at work beside it" in finding.says
    assert "help as far as it serves several at a time" in finding.do
    perhaps: list[Finding] = []
    assert judge(replace(plain, processes=loops), perhaps=perhaps) == []
    assert [each.id for each in perhaps] == ["slow-producer"]
