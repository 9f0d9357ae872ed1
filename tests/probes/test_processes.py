"""The process probe: CPU and bytes by role, and nothing lost when a process ends."""

from dataclasses import replace

import pytest

from gputune.probes import processes


@pytest.fixture
def ticks(machine, clock):
    clock.of("gputune.probes.processes")
    machine.process(100, "main", parent=1)
    machine.process(101, "worker", parent=100)
    return processes.attach(machine.target())


def test_waits_at_sockets_are_read_only_where_no_guest_tells_them(machine, clock, values) -> None:
    clock.of("gputune.probes.processes")
    machine.process(100, "main", parent=1)
    machine.process(101, "main", parent=1)
    machine.write("proc/100/syscall", "running\n")
    heard = processes.attach(machine.target())
    next(heard)
    assert not any(name.startswith("main.network") for name in values(next(heard)))
    outside = processes.attach(replace(machine.target(), heard=False))
    next(outside)
    clock.turn(0.2)
    seen = values(next(outside))
    assert seen["main.network[100]"] == 0.0
    assert "main.network[101]" not in seen  # which may not be looked at


def test_what_was_used_before_it_began_does_not_count(machine, ticks, values) -> None:
    machine.process(100, "main", cpu=5000, read=10**9)
    first = values(next(ticks))
    assert "cpu.job" not in first
    assert first["job.read"] == 0


def test_cpu_is_told_apart_by_role(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(100, "main", cpu=10)
    machine.process(101, "worker", parent=100, cpu=20)
    clock.turn(0.2)
    seen = values(next(ticks))
    assert seen["cpu.main"] == pytest.approx(0.5)
    assert seen["cpu.workers"] == pytest.approx(1.0)
    assert seen["cpu.job"] == pytest.approx(1.5)


def test_a_process_that_began_in_between_counts_from_its_start(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(102, "worker", parent=100, cpu=20, started=10**9)
    clock.turn(0.2)
    assert values(next(ticks))["cpu.workers"] == pytest.approx(1.0)


def test_what_an_ended_worker_used_last_comes_through_its_parent(machine, clock, ticks, values) -> None:
    machine.process(101, "worker", parent=100, cpu=30)
    next(ticks)
    machine.end(101)
    machine.process(100, "main", waited=50)
    clock.turn(0.2)
    seen = values(next(ticks))
    assert seen["cpu.workers"] == pytest.approx(1.0)
    assert seen["cpu.main"] == 0


def test_an_end_that_the_parent_notes_later_is_not_counted_twice(machine, clock, ticks, values) -> None:
    machine.process(101, "worker", parent=100, cpu=30)
    next(ticks)
    machine.end(101)
    clock.turn(0.2)
    assert values(next(ticks))["cpu.job"] == 0
    machine.process(100, "main", waited=30)
    clock.turn(0.2)
    assert values(next(ticks))["cpu.job"] == 0


def test_a_child_and_grandchild_that_end_together_are_counted_once(machine, clock, ticks, values) -> None:
    machine.process(101, "other", parent=100, cpu=30)
    machine.process(102, "other", parent=101, cpu=40)
    next(ticks)
    machine.end(101)
    machine.end(102)
    machine.process(100, "main", waited=70)
    clock.turn(0.2)
    assert values(next(ticks))["cpu.job"] == 0


def test_a_child_that_nobody_met_counts_as_the_rest(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(100, "main", waited=10)
    clock.turn(0.2)
    assert values(next(ticks))["cpu.rest"] == pytest.approx(0.5)


def test_bytes_grow_and_survive_the_end_of_a_process(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(100, "main", read=1000)
    machine.process(101, "worker", parent=100, read=500, asked=700, written=3)
    clock.turn(1.0)
    seen = values(next(ticks))
    assert (seen["job.read"], seen["job.asked"], seen["job.written"]) == (1500, 700, 3)
    machine.end(101)
    machine.process(100, "main", read=1000 + 600, asked=700, written=3)  # with those of the child it waited for
    clock.turn(1.0)
    seen = values(next(ticks))
    assert (seen["job.read"], seen["job.asked"], seen["job.written"]) == (1600, 700, 3)


def test_blocked_and_running_workers_are_shares(machine, ticks, values) -> None:
    machine.process(101, "worker", state="D")
    machine.process(102, "worker", state="R")
    machine.process(103, "worker", state="S")
    machine.process(104, "worker", state="D")
    seen = values(next(ticks))
    assert (seen["workers.count"], seen["workers.blocked"], seen["workers.running"]) == (4, 0.5, 0.25)


def test_waiting_for_a_cpu_is_counted_by_role(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.process(101, "worker", parent=100, queued=250_000_000)
    clock.turn(1.0)
    seen = values(next(ticks))
    assert seen["cpu.queued.workers"] == pytest.approx(0.25)
    assert seen["cpu.queued.main"] == 0


def test_others_are_what_the_job_did_not_use_and_never_negative(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.stat((100, 0), (50, 0))
    machine.process(100, "main", cpu=60)
    clock.turn(1.0)
    assert values(next(ticks))["cpu.others"] == pytest.approx(0.9)
    machine.process(100, "main", cpu=200)
    clock.turn(1.0)
    assert values(next(ticks))["cpu.others"] == 0


def test_what_the_host_of_a_virtual_machine_takes_is_no_others_here(machine, clock, ticks, values) -> None:
    next(ticks)
    machine.stat((100, 0, 40), (50, 0, 40))
    machine.process(100, "main", cpu=60)
    clock.turn(1.0)
    assert values(next(ticks))["cpu.others"] == pytest.approx(0.9)


def test_a_process_of_another_user_has_no_bytes_and_still_a_cpu(machine, clock, values) -> None:
    clock.of("gputune.probes.processes")
    machine.process(100, "main")
    (machine.proc / "100" / "io").unlink()
    ticks = processes.attach(machine.target())
    assert "job.read" not in values(next(ticks))


def test_each_of_several_training_processes_is_read_by_itself(machine, clock, values) -> None:
    clock.of("gputune.probes.processes")
    machine.process(100, "main")
    machine.process(101, "main")
    ticks = processes.attach(machine.target())
    next(ticks)
    machine.process(100, "main", cpu=100, queued=10**8)
    machine.process(101, "main", cpu=50, queued=5 * 10**8)
    clock.turn(1.0)
    seen = values(next(ticks))
    assert (seen["main.cpu[100]"], seen["main.cpu[101]"]) == pytest.approx((1.0, 0.5))
    assert (seen["main.queued[100]"], seen["main.queued[101]"]) == pytest.approx((0.1, 0.5))
    assert seen["cpu.main"] == pytest.approx(1.5)


def test_one_alone_is_not_read_twice(clock, ticks, values) -> None:
    next(ticks)
    clock.turn(1.0)
    assert not any(name.startswith(("main.cpu", "main.queued")) for name in values(next(ticks)))
