"""The disk probe."""

import pytest

from gputune.core.sample import Note, Unavailable
from gputune.probes import disk

ROW = "  {reads} 1 {read} {reading} 20 2 {written} 9 0 {busy} 14 0 0 0 0 0 0\n"


def disks(machine, *, read: int = 0, busy: int = 0, reads: int = 10, reading: int = 4) -> None:
    """One disk of its own with a partition, and a loop device."""
    (machine.sys / "block/vda/device").mkdir(parents=True, exist_ok=True)
    row = ROW.format(read=read, written=8, busy=busy, reads=reads, reading=reading)
    for device in ("vda", "vda/vda1", "loop0"):
        machine.write(f"sys/block/{device}/stat", row)


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


def test_requests_under_way_and_their_size_are_of_the_interval(machine, clock, values) -> None:
    clock.of("gputune.probes.disk")
    disks(machine)
    ticks = disk.attach(machine.target())
    next(ticks)
    disks(machine, reads=30, read=20 * 256, reading=4 + 6000)
    clock.turn(2.0)
    seen = values(next(ticks))
    assert seen["disk.queue[vda]"] == pytest.approx(3.0)  # 6 s of waiting in 2 s
    assert seen["disk.request[vda]"] == 256 * 512
    clock.turn(1.0)
    assert "disk.request[vda]" not in values(next(ticks))  # nobody read


def test_turning_platters_are_told_once(machine) -> None:
    disks(machine)
    machine.write("sys/block/vda/queue/rotational", "1\n")
    ticks = disk.attach(machine.target())
    notes = [reading for reading in next(ticks) if isinstance(reading, Note)]
    assert notes == [Note(-1, {"n": "disk", "disk": "vda", "rotational": True, "parts": ["vda"]})]
    assert not any(isinstance(reading, Note) for reading in next(ticks))


def test_what_lies_on_a_disk_is_told_by_number_and_name(machine) -> None:
    disks(machine)
    block = machine.sys / "block"
    machine.write("sys/block/vda/queue/rotational", "0\n")
    machine.write("sys/block/vda/dev", "254:0\n")
    machine.write("sys/block/vda/vda1/dev", "254:1\n")
    machine.write("sys/block/vda/vda1/partition", "1\n")
    machine.write("sys/block/dm-0/dev", "253:0\n")
    machine.write("sys/block/dm-0/dm/name", "vg-data\n")
    for above in ("vda", "vda/vda1", "dm-0"):
        (block / above / "holders").mkdir()
    (block / "vda/vda1/holders/dm-0").symlink_to(block / "dm-0")
    (note,) = (reading for reading in next(disk.attach(machine.target())) if isinstance(reading, Note))
    assert note.fields["parts"] == ["254:0", "vda", "254:1", "vda1", "253:0", "dm-0", "vg-data"]


def test_a_container_without_disks_is_said(machine) -> None:
    with pytest.raises(Unavailable, match="no disk"):
        next(disk.attach(machine.target()))


def test_a_disk_whose_counters_cannot_be_read_is_none(machine) -> None:
    (machine.sys / "block/vda/device").mkdir(parents=True)
    with pytest.raises(Unavailable, match="no disk"):
        next(disk.attach(machine.target()))
