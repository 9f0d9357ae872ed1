"""How far a device is behind at the end of a loop."""

import sys
from pathlib import Path

import pytest

from gputune.events import Kind
from gputune.gathering.backlog import Backlog
from gputune.units import NS

sys.path.insert(0, str(Path(__file__).parents[1]))
from queued import Loop, steady


def backlog(loop: Loop, batches: int) -> float:
    """The s of the device beyond the loop's last batch."""
    found = Backlog()
    found.note({"n": "device"})
    for event in loop.events(batches):
        if event.record.kind == Kind.GAP:
            found.take(event.record)
        else:
            found.looped(event.record.t1)
    return found.left(round(loop.there[-1] * NS)) / NS


def test_a_loop_without_a_device_leaves_nothing() -> None:
    found = Backlog()
    found.looped(NS)
    found.looped(2 * NS)
    assert found.left(2 * NS) == 0


@pytest.mark.parametrize("batches", [60, 400])
def test_what_was_queued_and_is_not_done_is_left(batches: int) -> None:
    loop = steady(make=0.001, work=0.030)
    assert backlog(loop, batches) == pytest.approx(loop.done[-2] - loop.there[-1], abs=0.05)


def test_a_loop_that_waits_for_its_loader_leaves_next_to_nothing() -> None:
    assert backlog(steady(make=0.040, work=0.010), 200) < 0.1
