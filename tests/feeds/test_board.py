"""Readings to the row of a node."""

from gputune.feeds.board import STALE, Board
from gputune.sample import Metric, Note, Sample

NS = 10**9
BUSY = Metric("gpu.busy", "ratio", "Busy.", per="gpu")
MASK = Metric("gpu.throttle", "1", "Mask.", per="gpu")
READ = Metric("disk.read", "B", "Read.", "counter", per="disk")
STALL = Metric("pressure.io", "us", "Stalled.", "counter")
CORE = Metric("cpu.core", "ratio", "Core.", per="cpu")
TOTAL = Metric("memory.total", "B", "Memory.")
LEFT = Metric("memory.available", "B", "Available.")


def test_a_device_has_a_name_a_load_and_what_holds_it() -> None:
    board = Board()
    board.take(
        [
            Note(-1, {"n": "device", "index": "0", "name": "H200"}),
            Sample(BUSY, NS, 0.9, "0"),
            Sample(MASK, NS, 4.0, "0"),
        ]
    )
    (device,) = board.node("m8", "local").devices
    assert (device.index, device.name, device.busy, device.held) == ("0", "H200", 0.9, "power cap")
    board.take([Sample(BUSY, 2 * NS, 0.0, "0")])
    assert board.node("m8", "local").devices[0].held == ""  # it idles: nothing holds it back


def test_devices_come_in_the_order_of_their_numbers() -> None:
    board = Board()
    board.take([Sample(BUSY, NS, 0.5, index) for index in ("10", "2", "0")])
    assert [device.index for device in board.node("m8", "local").devices] == ["0", "2", "10"]


def test_counters_become_rates() -> None:
    board = Board()
    board.take([Sample(READ, NS, 1000, "sda"), Sample(STALL, NS, 0)])
    assert board.node("m8", "local").disks == ()
    board.take([Sample(READ, 3 * NS, 5000, "sda"), Sample(STALL, 3 * NS, 500_000)])
    node = board.node("m8", "local")
    assert node.disks[0].read == 2000.0
    assert node.pressure.io == 0.25


def test_memory_in_use_is_what_is_not_available() -> None:
    board = Board()
    board.take([Sample(TOTAL, NS, 100.0), Sample(LEFT, NS, 30.0)])
    assert board.node("m8", "local").memory_used == 70.0


def test_what_was_not_read_for_long_is_not_known_any_more() -> None:
    board = Board()
    board.take([Sample(BUSY, NS, 0.5, "0"), Sample(CORE, NS, 0.5, "0")])
    board.take([Sample(CORE, NS + STALE + 1, 0.25, "0")])
    node = board.node("m8", "local")
    assert node.devices[0].busy is None
    assert node.cores == (0.25,)


def test_what_cannot_be_measured_is_told_until_it_can() -> None:
    board = Board()
    board.take([Note(-1, {"n": "unavailable", "probe": "nvml", "why": "device 0 is lost"})])
    assert board.node("m8", "local", {"disk": "none"}).unavailable == {"nvml": "device 0 is lost", "disk": "none"}
    board.take([Note(-1, {"n": "unavailable", "probe": "nvml", "why": ""})])
    assert board.node("m8", "local").unavailable == {}
