"""The CPU probe, on a machine that is a folder."""

import pytest

from gputune.core.sample import Unavailable
from gputune.probes import cpu


@pytest.fixture
def ticks(machine, clock, monkeypatch):
    monkeypatch.setattr(cpu, "DEAREST", float("inf"))  # a slow test machine would read less often
    clock.of("gputune.probes.cpu")
    machine.process(100)
    return cpu.attach(machine.target())


def test_says_what_is_allowed_before_anything_is_measured(ticks, values) -> None:
    assert values(next(ticks)) == {"cpu.allowed": 2.0, "cpu.count": 2.0}


def test_a_cpu_in_use_for_the_whole_interval_is_one_core(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.stat((20, 0), (0, 5))
    clock.turn(0.2)
    assert values(next(ticks)) == pytest.approx({"cpu.busy": 1.0, "cpu.iowait": 0.125})


def test_what_a_host_gives_to_others_was_wanted_here(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.stat((10, 0, 5), (0, 0, 2))
    clock.turn(0.2)
    assert values(next(ticks)) == pytest.approx({"cpu.busy": 0.85, "cpu.stolen": 0.35, "cpu.iowait": 0.0})


def test_only_cpus_of_the_affinity_count(machine, clock, ticks, values) -> None:
    machine.process(100, cpus="1")
    assert values(next(ticks))["cpu.allowed"] == 1.0
    machine.stat((20, 0), (5, 0))
    clock.turn(0.2)
    assert values(next(ticks))["cpu.busy"] == pytest.approx(0.25)


def test_an_affinity_set_after_the_start_is_seen(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(100, cpus="1")
    clock.turn(1.0)
    assert values(next(ticks))["cpu.allowed"] == 1.0


def test_ranks_bound_to_different_cpus_count_together(machine, ticks, values) -> None:
    machine.process(101, "main", cpus="0")
    machine.process(102, "main", cpus="1")
    machine.process(100, cpus="0")
    assert values(next(ticks))["cpu.allowed"] == 2.0


def test_a_quota_is_tighter_than_the_affinity(machine, ticks, values) -> None:
    machine.write("proc/100/cgroup", "0::/job\n")
    machine.write("proc/100/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    machine.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n")
    assert values(next(ticks))["cpu.allowed"] == 1.5


def test_single_cores_come_once_a_second(machine, clock, ticks, values) -> None:
    next(ticks)
    seen = []
    for _ in range(10):
        clock.turn(0.2)
        seen.append("cpu.core[0]" in values(next(ticks)))
    assert seen.count(True) == 2


def test_an_interval_too_short_to_measure_is_left_out(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.stat((1, 0), (0, 0))
    clock.turn(0.005)
    assert "cpu.busy" not in values(next(ticks))


def test_a_machine_without_stat_is_said(machine) -> None:
    (machine.proc / "stat").unlink()
    with pytest.raises(Unavailable, match="cannot be read"):
        next(cpu.attach(machine.target()))
