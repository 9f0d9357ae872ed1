"""Readings to the row of a node."""

import json
import subprocess
import sys

import pytest

from gputune.core.sample import Metric, Note, Sample
from gputune.feeds.board import MISSED, Board, beat
from gputune.probes import nvml

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
            Note(-1, {"n": "device", "index": "0", "name": "H200", "uuid": "GPU-1"}),
            Sample(BUSY, NS, 0.9, "0"),
            Sample(MASK, NS, 4.0, "0"),
        ]
    )
    (device,) = board.node("m8", "local").devices
    assert (device.index, device.name, device.busy, device.held) == ("0", "H200", 0.9, "power cap")
    assert device.uuid == "GPU-1"
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
    board.take([Sample(CORE, NS + round(MISSED * BUSY.beat * NS) + 1, 0.25, "0")])
    node = board.node("m8", "local")
    assert node.devices[0].busy is None
    assert node.cores == (0.25,)


@pytest.mark.parametrize(
    ("metric", "field"),
    [
        ("gpu.memory.total", "memory_total"),
        ("gpu.power.limit", "power_limit"),
        ("gpu.clock.sm.max", "clock_max"),
    ],
)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_constant_that_is_read_every_half_a_minute_is_known_on_every_second(metric, field, recorded) -> None:
    """As declared by the probe, and as a recording tells it, which has no word for periods."""
    board = Board()
    known = next(each for each in nvml.METRICS if each.name == metric)
    column = Metric(known.name, known.unit, known.says, known.kind, known.per) if recorded else known
    for second in range(200):
        readings = [Sample(BUSY, second * NS, 0.5, "0")]
        board.take(readings + ([Sample(column, second * NS, 700.0, "0")] if second % 31 == 0 else []))
        assert getattr(board.node("m8", "local").devices[0], field) == 700.0, second
    for second in range(200, 300):
        board.take([Sample(BUSY, second * NS, 0.5, "0")])
    assert getattr(board.node("m8", "local").devices[0], field) is None  # it is not read any more


def test_every_field_of_a_device_is_known_for_as_long_as_nvml_is_asked_for_it(simgpu) -> None:
    """What `nvml_fields` reads seldom, `probes/nvml.py` declares so."""
    simgpu()
    script = (
        "import pynvml, gputune.nvml.fields as f, json; pynvml.nvmlInit();"
        "c = f.DeviceFields(0, pynvml.nvmlDeviceGetHandleByIndex(0), 'x', '', 0, False);"
        "read = lambda field: [name for name, _ in field.read(c)];"
        "print(json.dumps({n: max(field.beat, f.CONSTANT if n in {'gpu.memory.total', 'gpu.memory.reserved'} else 0)"
        " for field in f.FIELDS for n in read(field)}))"
    )
    told = json.loads(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert {"gpu.memory.total", "gpu.power.limit"} <= told.keys()
    declared = {metric.name: metric.beat for metric in nvml.METRICS}
    assert {name for name, seconds in told.items() if declared[name] < seconds} == set()


def test_a_recording_does_not_tell_periods_and_they_are_known_all_the_same() -> None:
    assert beat(Metric("cpu.allowed", "cores", "")) == 10.0
    assert beat(Metric("nobody.knows", "1", "")) == Metric("x", "1", "").beat


def test_what_cannot_be_measured_is_told_until_it_can() -> None:
    board = Board()
    board.take([Note(-1, {"n": "unavailable", "probe": "nvml", "why": "device 0 is lost"})])
    assert board.node("m8", "local", {"disk": "none"}).unavailable == {"nvml": "device 0 is lost", "disk": "none"}
    board.take([Note(-1, {"n": "unavailable", "probe": "nvml", "why": ""})])
    assert board.node("m8", "local").unavailable == {}
