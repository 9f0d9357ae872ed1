"""The memory probe."""

import pytest

from gputune.probes import memory

MiB = 1 << 20
INFO = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"


def size(machine, pid: int, role: str, *, pss: int, resident: int = 0) -> None:
    """A process whose proportional share is `pss` bytes and whose resident set is that large, a tenth shared."""
    machine.process(pid, role)
    pages = max(resident, pss) // memory.PAGE
    machine.write(f"proc/{pid}/statm", f"{2 * pages} {pages} {pages // 10} 1 0 {3 * pages} 0\n")
    text = f"55 ---p 00000000 00:00 0 [rollup]\nRss: 9 kB\nPss: {pss // 1024} kB\nPss_Dirty: 1 kB\n"
    machine.write(f"proc/{pid}/smaps_rollup", text)


@pytest.fixture
def ticks(machine, clock):
    clock.of("gputune.probes.memory")
    machine.write("proc/meminfo", INFO)
    machine.process(100)
    return memory.attach(machine.target())


def test_reads_the_machine_in_bytes(ticks, values) -> None:
    seen = values(next(ticks))
    assert seen["memory.total"] == 1000 * 1024
    assert seen["memory.available"] == 400 * 1024
    assert seen["memory.swapped"] == 30 * 1024
    assert seen["shm.total"] >= seen["shm.free"]
    assert "memory.limit" not in seen


def test_the_tree_is_summed_up_after_a_while(machine, clock, ticks, values) -> None:
    size(machine, 100, "main", pss=100 * MiB)
    size(machine, 101, "worker", pss=30 * MiB)
    size(machine, 102, "worker", pss=50 * MiB)
    assert "memory.job" not in values(next(ticks))
    clock.turn(memory.FIRST_ROUND)
    seen: dict[str, float] = {}
    for _ in range(3):  # a slow machine may need more than one tick for it
        seen |= values(next(ticks))
    assert seen["memory.job"] == 180 * MiB
    assert seen["memory.worker"] == 40 * MiB
    clock.turn(1.0)
    assert "memory.job" not in values(next(ticks))


def test_workers_that_a_dear_round_has_missed_are_met_soon(machine, clock, ticks, values, monkeypatch) -> None:
    monkeypatch.setattr(memory, "DEAREST", 1e-12)  # the next round would be due in hours
    size(machine, 100, "main", pss=100 * MiB)
    next(ticks)
    clock.turn(memory.FIRST_ROUND)
    assert values(next(ticks))["memory.job"] == 100 * MiB
    clock.turn(memory.ROUND_BEAT)
    assert "memory.job" not in values(next(ticks))
    size(machine, 101, "worker", pss=30 * MiB)
    seen: dict[str, float] = {}
    for _ in range(3):  # a slow machine may need more than one tick for it
        seen |= values(next(ticks))
    assert seen["memory.worker"] == 30 * MiB
    clock.turn(memory.ROUND_BEAT)
    assert "memory.job" not in values(next(ticks))


def test_a_process_too_large_to_ask_is_estimated(machine, clock, ticks, values) -> None:
    size(machine, 100, "main", pss=MiB, resident=1000 * MiB)
    next(ticks)
    clock.turn(memory.FIRST_ROUND)
    assert values(next(ticks))["memory.job"] == pytest.approx(900 * MiB, rel=0.01)


def test_what_is_a_training_processs_own_is_read_on_every_tick(machine, ticks) -> None:
    size(machine, 100, "main", pss=80 * MiB, resident=100 * MiB)
    size(machine, 101, "main", pss=40 * MiB, resident=40 * MiB)
    size(machine, 102, "worker", pss=40 * MiB)
    read = next(ticks)
    own = {r.instance: r.value for r in read if r.metric.name == "memory.main"}
    assert own == {"100": pytest.approx(90 * MiB, rel=0.01), "101": pytest.approx(36 * MiB, rel=0.01)}
    asked = {r.instance: r.value for r in read if r.metric.name == "memory.mapped"}
    assert asked == {"100": pytest.approx(300 * MiB, rel=0.01), "101": pytest.approx(120 * MiB, rel=0.01)}


def test_a_limit_comes_with_what_counts_against_it(machine, ticks, values) -> None:
    machine.write("proc/100/cgroup", "4:memory:/box/job\n")
    machine.write("proc/100/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{(1 << 63) - 4096}\n")
    machine.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "5000\n")
    machine.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "3000\n")
    machine.write("sys/fs/cgroup/memory/box/memory.stat", "cache 9\ntotal_inactive_file 1000\n")
    machine.write("sys/fs/cgroup/memory/box/job/memory.limit_in_bytes", "7000\n")
    seen = values(next(ticks))
    assert (seen["memory.limit"], seen["memory.limited"]) == (5000, 2000)
