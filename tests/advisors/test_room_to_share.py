"""room-to-share offers what is free on the device of a healthy run, and never calls it a fault."""

from dataclasses import replace

import pytest

from gputune.advisors.room_to_share import advise
from gputune.features import Features

QUARTER = {"busy": 0.22, "memory_used": 10_000_000_000}  # of 80 GB


@pytest.fixture
def light(run, device):
    """A run that uses a quarter of its card and one of eight CPUs."""

    def build(card: dict | None = None, *, cards: int = 1, job: float = 1.0, **differs) -> Features:
        devices = tuple(device(**{**QUARTER, **(card or {}), "index": str(n)}) for n in range(cards))
        found = run(num_workers=4, blocked=0.001, step=0.040, devices=devices, **differs)
        return replace(found, machine=replace(found.machine, job=job))

    return build


@pytest.mark.parametrize(
    "card",
    [
        {"busy": 0.5},
        {"busy": 0.0},
        {"busy": None},
        {"memory_used": 50_000_000_000},
        {"memory_total": None},
        {"others": {4711: 0.2}},
        {"jobs_busy": 0.6},
    ],
)
def test_is_silent_about_a_card_that_is_used_unused_shared_or_not_known(light, card) -> None:
    assert list(advise(light(card))) == []


def test_a_device_whose_steps_were_timed_is_used_however_little(light, clocked) -> None:
    hardly = light({"busy": 0.019, "memory_used": 1_000_000_000})
    assert list(advise(hardly)) == []
    timed = clocked(hardly, 0.019)
    (finding,) = advise(timed)
    assert finding.change["procs"] > 4
    assert list(advise(clocked(light({"busy": 0.0, "memory_used": 1_000_000_000}), 0.0))) == []
    host = replace(timed.processes[0].precision, devices=("cpu",))
    assert list(advise(replace(timed, processes=(replace(timed.processes[0], precision=host),)))) == []


def test_is_silent_about_jobs_of_several_devices_or_processes(light) -> None:
    assert list(advise(light(cards=2))) == []
    assert list(advise(light(ranks=2))) == []


def test_is_silent_where_the_cpus_are_taken(light) -> None:
    assert list(advise(light(job=4.0))) == []
    assert list(advise(light(others=6.0))) == []


def test_is_silent_before_the_warm_up_is_over(light) -> None:
    assert list(advise(light(batches=10))) == []


def test_offers_as_many_as_the_tightest_of_all_limits_holds(light) -> None:
    (finding,) = advise(light())
    assert finding.id == "room-to-share"
    assert finding.offer.startswith("4 such trainings fit on it at once, and together do up to x4 the work")
    assert finding.offer.endswith("device time is the limit")
    assert "busy 22% of the time, takes 12% of its memory" in finding.says
    assert finding.change == {"procs": 4}
    assert finding.speedup.likely == 1.0
    assert not finding.risk


@pytest.mark.parametrize(
    ("card", "job", "fits", "why"),
    [
        ({"busy": 0.1, "memory_used": 23_500_000_000}, 0.5, 3, "device memory is the limit"),
        ({"busy": 0.1}, 3.0, 2, "CPUs is the limit"),
        ({"busy": 0.055, "memory_used": 500_000_000}, 0.1, 16, "device time is the limit"),
        ({"busy": 0.03, "memory_used": 500_000_000}, 0.1, 16, "beyond 16, contexts and launches take the gain"),
    ],
)
def test_each_limit_counts(light, card, job, fits, why) -> None:
    (finding,) = advise(light(card, job=job))
    assert finding.change == {"procs": fits}
    assert finding.offer.endswith(why)


def test_the_hosts_memory_is_a_limit_too(light) -> None:
    found = light()
    machine = replace(found.machine, memory_job=10_000_000_000, memory_free=15_000_000_000)
    (finding,) = advise(replace(found, machine=machine))
    assert finding.change == {"procs": 2}


def test_what_the_devices_clock_says_bounds_it_and_not_what_nvml_calls_busy(light, clocked) -> None:
    (finding,) = advise(clocked(light({"busy": 0.4, "jobs_busy": 0.4}), 0.22))
    assert finding.change == {"procs": 4}
    assert "busy 22% of the time" in finding.says
