"""oversubscribed-workers speaks when workers stand in each other's way, and only then."""

from dataclasses import replace

import pytest

from gputune.advisors.oversubscribed_workers import advise
from gputune.model.prediction import Setting, outlooks
from gputune.verdict.judging import judge

CROWD = {"num_workers": 16, "cpu": 0.010, "queued": 0.060, "step": 0.010, "cpus": 2}


def test_is_silent_while_every_worker_finds_a_cpu(run) -> None:
    assert judge(run(num_workers=8, cpu=0.010, cpus=8)) == []


def test_is_silent_about_many_workers_that_only_wait_for_storage(run) -> None:
    assert judge(run(num_workers=32, cpu=0.001, blocked=0.100, step=0.005, cpus=2)) == []


def test_is_silent_when_workers_queue_though_there_are_few_of_them(run) -> None:
    assert judge(run(num_workers=2, cpu=0.010, queued=0.020, cpus=2)) == []


def test_names_the_number_that_the_cpus_can_keep_running(run) -> None:
    (finding,) = advise(run(**CROWD))
    assert finding.id == "oversubscribed-workers"
    assert finding.change == {"num_workers": 2}
    assert finding.evidence["queued"] == pytest.approx(6 / 7)
    assert finding.evidence["cpus"] == 2


def test_does_not_take_the_turns_of_others_for_its_workers_own(run) -> None:
    """A neighbour on each CPU: light workers queue for these, and fewer workers would queue as long."""
    light = run(num_workers=4, cpu=0.002, queued=0.003, step=0.001, cpus=2, others=1.2)
    assert outlooks(light)[0].queued == pytest.approx(0.6)
    assert list(advise(replace(light, machine=replace(light.machine, job=1.0)))) == []
    crowd = run(**CROWD, others=0.4)
    (finding,) = advise(replace(crowd, machine=replace(crowd.machine, job=1.6)))
    assert finding.change == {"num_workers": 2}


def test_promises_what_the_crowd_costs(run) -> None:
    """Two CPUs make a batch in 5 ms; as measured the loop takes 15 ms a batch, 10 of them the step, 1.1 the way."""
    (finding,) = advise(run(**{**CROWD, "waits": (0.005,)}))
    assert finding.speedup.likely == pytest.approx(15 / 11.1, rel=0.05)


def test_does_not_blame_the_crowd_for_an_evaluation_between_epochs(run) -> None:
    alone = next(iter(advise(run(**{**CROWD, "waits": (0.005,)}))))
    with_evaluation = next(iter(advise(run(**{**CROWD, "waits": (0.005,)}, between={"evaluation": 6.0}))))
    assert with_evaluation.speedup.likely < alone.speedup.likely


def test_ranks_share_the_cpus(run) -> None:
    findings = list(advise(run(num_workers=4, cpu=0.010, queued=0.030, cpus=4, ranks=2)))
    assert {f.change["num_workers"] for f in findings} == {2}


def test_threads_in_workers_are_named_where_there_are_several(run) -> None:
    (finding,) = advise(run(**CROWD, worker_threads=4))
    assert "one thread in each" in finding.do
    assert (finding.settable, finding.part) == ({"num_workers": finding.change["num_workers"]}, None)


def test_threads_of_workers_that_wait_for_each_other_are_no_storage(run) -> None:
    """Eight workers of four threads on one CPU: what looks blocked is waiting for one's own other threads."""
    crowd = {"num_workers": 8, "cpu": 0.010, "blocked": 0.050, "queued": 0.060, "waits": (0.015,), "cpus": 1}
    assert list(advise(run(**{**crowd, "queued": 0.0}))) == []
    (finding,) = advise(run(**crowd, worker_threads=4))
    assert finding.change == {"num_workers": 1, "worker_threads": 1}
    assert finding.evidence["queued"] == pytest.approx(11 / 12)
    assert "one thread in each" in finding.do
    assert (finding.settable, finding.part) == ({"num_workers": finding.change["num_workers"]}, None)
    assert finding.speedup.low >= 1.1
    assert finding.speedup.likely >= 2


def test_workers_that_cost_more_than_they_spare_are_told_as_a_sweep_has_them(run) -> None:
    """As makemore: four workers on two CPUs make small batches for short steps, and hand them over."""
    run = run(num_workers=4, cpu=0.0002, queued=0.00005, step=0.001, cpus=2, step_cpu=0.001, waits=(0.0011,))
    (outlook,), (finding,) = outlooks(run), advise(run)
    assert finding.change == {"num_workers": 0}
    assert 1.3 < finding.speedup.likely <= outlook.gain(Setting(0, 2, persistent=False)).likely
    assert "4 workers on 2 CPUs cost more than they spare" in finding.says
    assert [f.id for f in judge(run)] == ["oversubscribed-workers"]


def test_what_fewer_workers_bring_is_told_only_where_it_is_sure(run) -> None:
    assert judge(run(num_workers=8, cpu=0.010, cpus=8)) == []
    assert judge(run(num_workers=8, cpu=0.0005, step=0.010, cpus=8)) == []


def test_workers_that_start_late_once_cost_a_loop_of_one_pass_nothing(run) -> None:
    """A training that is bound by its step, whose first batch came after two seconds of seventeen."""
    late = {"num_workers": 1, "cpu": 0.0003, "step": 0.042, "cpus": 2, "waits": (0.0013,), "start": 0.6}
    (once,) = outlooks(run(**late, first_wait=2.0))
    (often,) = outlooks(run(**late, first_wait=2.0, epochs=8))
    assert once.gain(Setting(0, 2, persistent=False)).likely > 1.1
    assert judge(run(**late, first_wait=2.0)) == []
    found, often = once.fewer_workers(), often.fewer_workers()
    assert found is None or found[1].likely < 1.05
    assert often is not None
    assert often[1].likely > 1.1


def test_where_more_workers_are_better_fewer_are_no_advice(run) -> None:
    (outlook,) = outlooks(run(num_workers=2, cpu=0.050, step=0.005, cpus=16))
    assert outlook.fewer_workers() is None
