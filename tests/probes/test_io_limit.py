"""The probe of how fast the job may read."""

from gputune.probes import io_limit

UNIFIED = "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"


def limits(ticks) -> list[tuple[str, float | None, float | None]]:
    return [(n.fields["device"], n.fields["rate"], n.fields["requests"]) for n in next(ticks)]


def test_a_limit_is_told_when_it_comes_and_when_it_changes(machine, clock) -> None:
    clock.of("gputune.probes.io_limit")
    machine.process(100)
    machine.write("proc/100/cgroup", "0::/job\n")
    machine.write("proc/100/mountinfo", UNIFIED)
    ticks = io_limit.attach(machine.target(100))
    assert limits(ticks) == []
    clock.turn(io_limit.AGAIN)
    machine.write("sys/fs/cgroup/job/io.max", "254:0 rbps=60000000 wbps=max riops=max\n8:0 rbps=max riops=9\n")
    assert limits(ticks) == [("254:0", 6e7, None), ("8:0", None, 9.0)]
    assert limits(ticks) == []
    machine.write("sys/fs/cgroup/job/io.max", "254:0 rbps=30000000 riops=max\n")
    clock.turn(io_limit.AGAIN)
    assert limits(ticks) == [("254:0", 3e7, None)]


def test_the_training_may_be_in_a_group_of_its_own(machine) -> None:
    machine.process(100)
    machine.process(101, "main")
    for pid, group in ((100, "/"), (101, "/slow")):
        machine.write(f"proc/{pid}/cgroup", f"7:blkio:{group}\n0::/\n")
        machine.write(f"proc/{pid}/mountinfo", "38 31 0:35 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n")
    machine.write("sys/fs/cgroup/blkio/slow/blkio.throttle.read_bps_device", "254:0 52428800\n")
    machine.write("sys/fs/cgroup/blkio/slow/blkio.throttle.read_iops_device", "254:0 500\n")
    assert limits(io_limit.attach(machine.target(100))) == [("254:0", 52428800.0, 500.0)]


def test_a_group_that_is_entered_later_is_looked_at_at_once(machine) -> None:
    machine.process(100)
    machine.write("proc/100/cgroup", "0::/\n")
    machine.write("proc/100/mountinfo", UNIFIED)
    machine.write("sys/fs/cgroup/slow/io.max", "254:0 rbps=60000000\n")
    ticks = io_limit.attach(machine.target(100))
    assert limits(ticks) == []
    machine.write("proc/100/cgroup", "0::/slow\n")
    assert limits(ticks) == [("254:0", 6e7, None)]


def test_a_process_that_has_gone_has_no_limit(machine) -> None:
    assert next(io_limit.attach(machine.target(100))) == []
