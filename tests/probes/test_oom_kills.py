"""The probe of the out-of-memory killer: it speaks when somebody was killed, and else not."""

import pytest

from gputune.core.sample import Unavailable
from gputune.probes import oom_kills

UNIFIED = "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
VERSION_1 = "24 1 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def events(machine, kills: int) -> None:
    machine.write(
        "sys/fs/cgroup/job/memory.events", f"low 0\nhigh 0\nmax 7\noom 9\noom_kill {kills}\noom_group_kill 5\n"
    )


@pytest.fixture
def ticks(machine):
    machine.process(100)
    machine.write("proc/100/cgroup", "0::/job\n")
    machine.write("proc/100/mountinfo", UNIFIED)
    machine.write("proc/vmstat", "nr_free_pages 5\noom_kill 40\n")
    events(machine, 3)
    return oom_kills.attach(machine.target(100))


def test_what_was_killed_before_the_run_is_not_of_it(ticks) -> None:
    assert next(ticks) == next(ticks) == []


def test_kills_of_the_run_are_counted_even_when_its_process_has_gone(machine, ticks) -> None:
    next(ticks)
    machine.end(100)
    events(machine, 5)
    assert [n.fields for n in next(ticks)] == [{"n": "oom_kills", "count": 2, "where": "control group"}]
    assert next(ticks) == []


def test_in_the_older_hierarchy_they_stand_elsewhere(machine, ticks) -> None:
    machine.write("proc/100/cgroup", "4:memory:/job\n")
    machine.write("proc/100/mountinfo", VERSION_1)
    machine.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    next(ticks)
    machine.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert [n.fields["count"] for n in next(ticks)] == [1]


def test_without_a_group_the_machine_counts(machine, ticks) -> None:
    machine.write("proc/100/cgroup", "")
    next(ticks)
    machine.write("proc/vmstat", "nr_free_pages 5\noom_kill 41\n")
    assert [n.fields for n in next(ticks)] == [{"n": "oom_kills", "count": 1, "where": "machine"}]


def test_an_old_kernel_does_not_count(machine, ticks) -> None:
    machine.write("proc/100/cgroup", "")
    machine.write("proc/vmstat", "nr_free_pages 5\n")
    with pytest.raises(Unavailable, match="counts whom it kills"):
        next(ticks)
