"""How far a device is behind at the end of a loop."""

import sys
from pathlib import Path

import pytest

from gputune.core.events import Kind, Record
from gputune.core.units import NS
from gputune.gathering.backlog import Backlog

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


MS = 1_000_000  # ns
KEY = ("evaluation", "train.py:7", "evaluation")


def gap(ended: int, behind: int) -> Record:
    """A step that the host ended at so many ms, with the device as many behind."""
    return Record(Kind.GAP, 0, ended * MS, ended * MS, 0, 0, 0, 0, behind * 1000 + 1)


def paused(behind: int, took: int, after: int) -> float:
    """The ms that a pause of so many stood for what was queued before it; a step of 20 ms follows, then that lag."""
    found = Backlog()
    found.note({"n": "device"})
    for ended in (900, 1000):
        found.looped(ended * MS)
        found.take(gap(ended, behind))
    found.paused(KEY, 1000 * MS, (1000 + took) * MS)
    assert found.stood(KEY) == 0  # nothing is known of its end yet
    found.take(gap(1020 + took, after))
    assert found.stood_in("evaluation") == found.stood(KEY)
    assert found.stood_in("checkpoint") == 0
    return found.stood(KEY) / MS


def test_a_pause_that_reads_from_the_device_stands_there_for_what_was_queued_before() -> None:
    assert paused(behind=300, took=500, after=10) == pytest.approx(300, abs=25)


def test_a_pause_that_leaves_the_queue_as_it_is_stands_for_nothing() -> None:
    assert paused(behind=300, took=100, after=300) == 0


def test_a_pause_after_which_more_is_queued_is_none_the_shorter() -> None:
    assert paused(behind=10, took=100, after=300) == 0


def test_a_pause_behind_a_read_waits_for_nothing_more() -> None:
    """`v = loss.item(); log(v)`: what was queued is waited for in the former, and told as that."""
    found = Backlog()
    found.note({"n": "device"})
    for ended in (900, 1000):
        found.looped(ended * MS)
        found.take(gap(ended, 300))
    found.met(1300 * MS)
    found.paused(KEY, 1301 * MS, 1800 * MS)
    found.met(1820 * MS)
    found.take(gap(1830, 5))
    assert found.stood(KEY) == 0


def test_without_a_device_a_pause_stands_for_nothing() -> None:
    found = Backlog()
    found.looped(NS)
    found.paused(KEY, NS, 2 * NS)
    assert found.stood(KEY) == 0


def test_a_mean_step_is_one_of_those_behind_the_first_and_pauses_are_told_beside() -> None:
    """Two steps of a second, and ten of 10 ms, the device 30 ms behind; in the seventh something is written for 50."""
    found = Backlog()
    found.note({"n": "device"})
    assert found.mean_step is None
    t, pauses = 0, 0
    for number, took in enumerate([1000, 1000, 10, 10, 10, 10, 60, 10, 10, 10, 10, 10]):
        t, pauses = t + took, pauses + (took - 10 if took == 60 else 0)
        found.take(gap(t, 30))
        if number == 1:
            found.settled(t * MS)
        found.looped(t * MS - 1)  # the optimizer's step, where batches are what counts
        found.looped(t * MS, number + 1, pauses * MS)
    assert found.mean_step == pytest.approx((10 * MS, 5 * MS))
