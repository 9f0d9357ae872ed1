"""heavy-preprocessing speaks when the CPUs set the pace and more workers cannot help."""

import pytest

from gputune.advisors.heavy_preprocessing import advise

# Two CPUs, 40 ms of CPU a batch, a step of 5 ms: 20 ms a batch at best.
FULL = {"num_workers": 2, "cpu": 0.040, "step": 0.005, "cpus": 2}


def test_is_silent_while_the_cpus_have_room(run) -> None:
    assert list(advise(run(num_workers=4, cpu=0.020, step=0.010, cpus=8))) == []


def test_is_silent_when_the_loop_does_not_wait_though_the_cpus_are_full(run) -> None:
    assert list(advise(run(num_workers=2, cpu=0.020, step=0.0105, cpus=2))) == []


def test_leaves_it_to_more_workers_while_they_would_help(run) -> None:
    assert list(advise(run(num_workers=1, cpu=0.040, step=0.005, cpus=4))) == []


def test_is_silent_when_workers_wait_for_storage_instead(run) -> None:
    assert list(advise(run(num_workers=2, cpu=0.002, blocked=0.040, step=0.005, cpus=2))) == []


def test_says_how_much_cpu_a_batch_takes_and_that_workers_cannot_help(run) -> None:
    (finding,) = advise(run(**FULL))
    assert finding.id == "heavy-preprocessing"
    assert "40 ms of CPU" in finding.says
    assert "2 CPUs" in finding.says
    assert finding.change == {}
    assert finding.evidence["cpus_full"] == pytest.approx(1.0, abs=0.1)


def test_promises_at_least_a_quarter_of_the_work_and_at_most_a_loop_that_never_waits(run) -> None:
    (finding,) = advise(run(**FULL))
    assert finding.speedup.low == pytest.approx(2.6, rel=0.2)
    assert finding.speedup.likely == pytest.approx(4.0, rel=0.2)
    assert finding.speedup.high >= finding.speedup.likely


def test_a_busy_device_bounds_what_it_promises(run, device) -> None:
    (finding,) = advise(run(**FULL, devices=(device(busy=0.5),)))
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)


def test_never_promises_the_moon_to_a_loop_that_does_nothing_else(run) -> None:
    (finding,) = advise(run(num_workers=2, cpu=0.400, step=0.0001, cpus=2))
    assert finding.speedup.high <= 100


def test_cpus_that_others_use_are_full_too(run) -> None:
    """Two CPUs, of which others use one: alone, two workers would fill both."""
    crowd = {"num_workers": 2, "cpu": 0.030, "queued": 0.030, "step": 0.004, "step_cpu": 0.004, "waits": (0.026,)}
    (finding,) = advise(run(**crowd, cpus=2, others=1.0))
    assert "full without the others, who use 1 of them" in finding.says


def test_cpus_that_only_others_fill_are_theirs(run) -> None:
    """Two CPUs, of which others use one: a step of 14 ms hides most of the 16 that two batches take alone."""
    crowd = {"num_workers": 2, "cpu": 0.016, "queued": 0.010, "step": 0.018, "step_cpu": 0.006, "waits": (0.004,)}
    assert list(advise(run(**crowd, cpus=2, others=1.0))) == []


def test_workers_whose_threads_crowd_the_cpus_are_another_matter(run) -> None:
    crowd = {"num_workers": 4, "cpu": 0.040, "queued": 0.040, "step": 0.004, "waits": (0.018,), "cpus": 2}
    assert list(advise(run(**crowd))) != []
    assert list(advise(run(**crowd, worker_threads=4))) == []


def test_a_little_of_others_that_batches_do_not_wait_for_silences_nothing(run) -> None:
    (finding,) = advise(run(**FULL, others=0.3))
    assert "others" not in finding.says


def test_others_are_in_the_way_as_far_as_batches_stand_in_line(run) -> None:
    """Two CPUs, half of one used by others: batches queue for a quarter of their time, or not at all."""
    crowd = {"num_workers": 2, "cpu": 0.160, "step": 0.009, "step_cpu": 0.009, "waits": (0.110,), "cpus": 2}
    (finding,) = advise(run(**crowd, queued=0.064, others=0.53))
    assert 0.75 < finding.evidence["cpus_full"] < 1.0
    assert list(advise(run(**crowd, queued=0.0, others=0.53))) == []
