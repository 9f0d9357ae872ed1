"""What a step is made of on the device's own clock: means over timed steps, and the work in them without its gaps."""

import pytest

from gputune.core.events import Kind, Record, SegmentCode
from gputune.gathering.clocked import MIN_STEPS, WARM_UP, Clocked

MS = 1_000_000


def gap(idle: float, work: float) -> Record:
    return Record(Kind.GAP, 0, 0, 0, int(idle * MS), int(work * MS), 0, 0, 1)


def step(mask: int, copied: float = 0, read: float = 0, stood: float = 0) -> Record:
    return Record(Kind.DEVICE, 0, 0, 0, int(copied * MS), int(read * MS), int(stood * MS), 0, mask)


def crossed(stood: float, code: int = 0, met: float = 0) -> Record:
    return Record(Kind.CROSSED, code, 0, 0, int(stood * MS), int(met * MS), 0, 0, 0)


def part(mask: int, number: int, took: float, behind: float | None = None) -> Record:
    after = 0 if behind is None else 1 + int(behind * MS)
    return Record(Kind.SEGMENT, SegmentCode.HELD, 0, 0, int(took * MS), number, after, MS, mask)


def fed(*records: Record, times: int = WARM_UP + MIN_STEPS) -> Clocked:
    """Return what listened to these records of each of so many steps."""
    clocked = Clocked()
    for _ in range(times):
        for record in records:
            clocked.take(record)
    return clocked


def test_a_few_steps_tell_nothing() -> None:
    assert fed(gap(1, 9), step(1), times=WARM_UP + MIN_STEPS - 1).told is None


def test_the_first_steps_are_left_out_and_the_rest_are_means() -> None:
    clocked = fed(gap(100, 900), step(1, copied=50), times=WARM_UP)
    for _ in range(MIN_STEPS):
        clocked.take(gap(1, 9))
        clocked.take(step(1, copied=2, read=3, stood=4))
    told = clocked.told
    assert told is not None
    assert (told.whole, told.starved, told.copying) == pytest.approx((0.010, 0.001, 0.002))
    assert (told.read_waits, told.copy_waits) == pytest.approx((0.003, 0.004))
    assert told.compute is None


def test_standing_for_other_devices_is_a_mean_of_all_steps_but_divided_ones() -> None:
    clocked = fed(gap(0, 10), step(1), crossed(100), times=WARM_UP)
    for n in range(MIN_STEPS):
        clocked.take(gap(0, 10))
        clocked.take(step(1))
        clocked.take(crossed(8, code=SegmentCode.DIVIDED if n % 4 else 0))
    assert clocked.told is not None
    assert clocked.told.crossing == pytest.approx(0.002)


def test_standing_for_other_ranks_is_work_on_the_devices_clock_and_no_kernel() -> None:
    told = fed(gap(0, 10), step(1), part(1, 0, took=5), crossed(1, met=4)).told
    assert told is not None
    assert (told.compute, told.crossing, told.standing) == pytest.approx((0.005, 0.001, 0.004))
    assert told.works == pytest.approx(0.010)


def test_work_is_the_sum_of_the_parts_of_a_step_once_each_was_measured() -> None:
    clocked = fed(gap(0, 10), step(0b101))
    clocked.take(part(0b101, 0, 2))
    assert clocked.told is not None
    assert clocked.told.compute is None
    clocked.take(part(0b101, 2, 3))
    assert clocked.told.compute == pytest.approx(0.005)


def test_what_came_behind_the_backward_pass_is_known_once_each_part_has_told_it() -> None:
    clocked = fed(gap(0, 10), step(0b11), part(0b11, 0, 2), part(0b11, 1, 3, behind=2))
    assert clocked.told is not None
    assert (clocked.told.compute, clocked.told.update) == (pytest.approx(0.005), None)
    clocked.take(part(0b11, 0, 2, behind=0))
    assert clocked.told.update == pytest.approx(0.002)


def test_kinds_of_steps_weigh_as_often_as_they_come_and_rare_ones_need_not_be_known() -> None:
    clocked = fed(gap(0, 10), step(0b1), part(0b1, 0, 2), times=WARM_UP + 30)
    for _ in range(10):
        clocked.take(step(0b11))
    assert clocked.told is not None
    assert clocked.told.compute is None  # a quarter of the steps is of another kind
    for number in (0, 1):
        clocked.take(part(0b11, number, 3))
    assert clocked.told.compute == pytest.approx((30 * 0.002 + 10 * 0.006) / 40)


def test_steps_of_one_structure_share_their_parts_whether_or_not_each_holds_work() -> None:
    clocked = fed(gap(0, 10), step(0b110))
    for _ in range(MIN_STEPS):
        clocked.take(gap(0, 10))
        clocked.take(step(0b111))
    clocked.take(part(0b110, 1, 2))
    clocked.take(part(0b111, 2, 3))
    clocked.take(part(0b111, 0, 0))
    assert clocked.told is not None
    assert clocked.told.compute == pytest.approx(0.005)


def divided(mask: int) -> Record:
    return step(mask)._replace(code=SegmentCode.DIVIDED)


def test_steps_that_were_divided_speak_for_those_whose_parts_hold_too_much() -> None:
    clocked = fed(gap(0, 10), step(0b1))
    before = clocked.told
    assert before is not None
    for _ in range(3):
        clocked.take(divided(0b1011))
        for number, took in ((0, 2), (1, 1)):
            clocked.take(part(0b1011, number, took)._replace(code=SegmentCode.DIVIDED | SegmentCode.HELD))
    assert clocked.told == before  # the last part is not known yet
    clocked.take(part(0b1011, 3, 4)._replace(code=SegmentCode.DIVIDED))
    told = clocked.told
    assert told is not None
    assert told.compute == pytest.approx(0.007)
    assert (told.timed, told.whole) == (before.timed, before.whole)


def test_parts_that_were_measured_undivided_are_believed_first() -> None:
    clocked = fed(gap(0, 10), step(0b1), part(0b1, 0, 3))
    clocked.take(divided(0b1))
    clocked.take(part(0b1, 0, 8)._replace(code=SegmentCode.DIVIDED | SegmentCode.HELD))
    assert clocked.told is not None
    assert clocked.told.compute == pytest.approx(0.003)
