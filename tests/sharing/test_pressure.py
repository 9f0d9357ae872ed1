"""The guard acts on memory that ends, not on memory that is merely full."""

import itertools

import pytest

from gputune.nvml.process import NvmlDevice
from gputune.sharing import pressure
from gputune.sharing.cards import SharedDevice
from gputune.sharing.pressure import Action, MemoryPressure

HOST = (100e9, 50e9)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch):
    """Return what the guard says to a course of device memory in use, of 100 B, one look a second."""

    def run(used: list[float], guard: str = "pause", host: list[float] | None = None) -> list[Action | None]:
        clock = itertools.count(1000.0)
        monkeypatch.setattr(pressure.time, "monotonic", lambda: next(clock))
        card = SharedDevice(NvmlDevice(0, "Card", "GPU-1", 0, False), total=100.0)
        left = iter(host or [50e9] * len(used))
        guarded = MemoryPressure(guard, lambda: (100e9, next(left)))
        found = []
        for value in used:
            card.used = value
            found.append(next((step.action for step in guarded.look([card])), None))
        return found

    return run


def test_a_full_card_that_stays_as_it_is_is_left_alone(looks) -> None:
    assert set(looks([99.0] * 30)) == {None}


def test_a_card_that_fills_up_stops_the_newest(looks) -> None:
    found = looks([80.0, 90.0, 96.0, 98.0, 99.0])
    assert found == [None, None, None, "pause", None]
    assert looks([80.0, 98.0], "end") == [None, "end"]
    assert looks([80.0, 98.0], "off") == [None, None]


def test_what_was_paused_goes_on_once_there_is_room(looks) -> None:
    found = looks([80.0, 98.0, *[98.0] * 12, *[50.0] * 3])
    assert found[1] == "pause"
    assert "resume" in found[14:]
    assert found[2:14] == [None] * 12


def test_the_hosts_memory_counts_as_well(looks) -> None:
    assert looks([10.0] * 3, host=[50e9, 10e9, 3e9])[-1] == "pause"
    assert set(looks([10.0] * 30, host=[3e9] * 30)) == {None}
