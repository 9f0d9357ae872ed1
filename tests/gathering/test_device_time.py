"""When a device was through with what its host had queued."""

import pytest

from gputune.core.events import Kind, Record
from gputune.gathering.device_time import MOMENTS_KEPT, SILENT, SILENT_NS, DeviceTime, drained, elapsed

MS = 1_000_000


def gap(t0: int, behind: int | None, t1: int = 0) -> Record:
    """At `t0` ms the device was so many ms behind; next() returned at `t1`."""
    c = 0 if behind is None else 1 + behind * 1000
    return Record(Kind.GAP, 0, t0 * MS, (t1 or t0) * MS, 0, 0, 0, 1, c)


def time(*gaps: Record, first: int = 1000) -> DeviceTime:
    found = DeviceTime()
    found.came(first * MS)
    for one in gaps:
        found.take(one)
    return found


def test_without_a_device_the_moments_are_the_hosts() -> None:
    found = time(gap(1010, None))
    assert found.knows(5000 * MS)
    assert (found.at(5000 * MS), found.there) == (5000 * MS, False)


def test_before_its_first_word_nothing_is_known_of_a_device_that_is_timed() -> None:
    found = DeviceTime()
    found.expect()
    found.came(1000 * MS)
    assert not found.knows(1000 * MS)
    for n in range(SILENT):
        found.came(1001 * MS + n * SILENT_NS // (SILENT - 1))
    assert found.knows(2000 * MS)  # its clock has failed
    assert found.at(2000 * MS) == 2000 * MS


def test_between_two_words_of_the_device_it_went_on_evenly() -> None:
    found = time(gap(1100, 100), gap(1200, 300))
    assert found.at(1100 * MS) == 1200 * MS
    assert found.at(1150 * MS) == 1350 * MS
    assert found.at(1050 * MS) == 1100 * MS  # from the first batch on, where it had nothing to do


def test_what_it_has_not_come_to_is_not_known() -> None:
    found = time(gap(1100, 100))
    assert found.knows(1100 * MS)
    assert not found.knows(1101 * MS)


def test_a_batch_that_comes_late_is_there_when_it_comes() -> None:
    found = time(gap(1100, 5, t1=1150))
    assert found.at(1150 * MS) == 1150 * MS


def test_a_device_that_says_no_more_is_believed_to_stay_as_far_behind() -> None:
    found = time(gap(1100, 100))
    for n in range(1, SILENT + 1):
        found.came(1000 * MS + n * SILENT_NS // SILENT)
        assert not found.knows(2000 * MS)
    found.came(1001 * MS + SILENT_NS)
    assert found.knows(2000 * MS)
    assert found.at(2000 * MS) == 2100 * MS


def test_pauses_are_shorter_for_a_device_that_has_work_left() -> None:
    found = time(gap(1100, 100))
    found.pause(1100 * MS, 1500 * MS)
    found.take(gap(1500, 0))
    assert found.paused(1499 * MS) == 0
    assert found.paused(1500 * MS) == 300 * MS


def test_only_so_much_is_kept() -> None:
    found = time(*(gap(1000 + n, 10) for n in range(1, 2 * MOMENTS_KEPT)))
    assert len(found._moments) <= MOMENTS_KEPT
    assert found.at((999 + 2 * MOMENTS_KEPT) * MS) == (1009 + 2 * MOMENTS_KEPT) * MS


@pytest.mark.parametrize(("host", "device", "slower"), [(10.0, 10.0, 10.0), (8.0, 10.0, 10.0), (15.0, 10.0, 15.0)])
def test_the_slower_of_both_sets_the_pace(host: float, device: float, slower: float) -> None:
    assert elapsed(host, device, 20) == slower


def test_a_batch_more_or_less_in_the_queue_is_chance() -> None:
    assert not drained(10.9, 10.0, 20)
    assert drained(11.1, 10.0, 20)
