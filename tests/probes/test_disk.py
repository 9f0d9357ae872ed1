"""The disk probe."""

import pytest

from gputune.probes import disk
from gputune.sample import Unavailable

ROW = "{major} 0 {name} 10 1 {read} 4 20 2 {written} 9 0 {busy} 14 0 0 0 0 0 0\n"


def disks(machine, *, read: int = 0, busy: int = 0) -> None:
    """One disk of its own with a partition, and a loop device."""
    (machine.sys / "block/vda/device").mkdir(parents=True, exist_ok=True)
    (machine.sys / "block/loop0").mkdir(parents=True, exist_ok=True)
    rows = [ROW.format(major=254, name=name, read=read, written=8, busy=busy) for name in ("vda", "vda1", "loop0")]
    machine.write("proc/diskstats", "".join(rows))


def test_partitions_and_loops_are_not_counted_again(machine, values) -> None:
    disks(machine, read=100)
    assert values(next(disk.attach(machine.target()))) == {"disk.read[vda]": 51200, "disk.write[vda]": 4096}


def test_busy_is_the_share_of_the_interval(machine, clock, values) -> None:
    clock.of("gputune.probes.disk")
    disks(machine, busy=1000)
    ticks = disk.attach(machine.target())
    next(ticks)
    disks(machine, busy=1250)
    clock.turn(1.0)
    assert values(next(ticks))["disk.busy[vda]"] == pytest.approx(0.25)


def test_a_container_without_disks_is_said(machine) -> None:
    with pytest.raises(Unavailable, match="no disk"):
        next(disk.attach(machine.target()))
