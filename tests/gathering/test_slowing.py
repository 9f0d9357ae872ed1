"""Rounds that were slowed down are held against those around them, in loops whose pace is known."""

import random
from collections.abc import Callable

import pytest

from gputune.core.events import DelayCode, Kind, Record
from gputune.features import Slope
from gputune.gathering.slowing import Slowing

MS = 1_000_000
ROUND, DELAY, IN_A_ROW = 50.0, 5.0, 8  # ms
BLOCKS = (64, 140, 230, 310, 400, 480)  # rounds before which a block begins


def told(
    later: float, *, noise: float = 0.02, seed: int = 1, rounds: int = 600, pause: int = 0, spoil: str = ""
) -> Slope | None:
    """Return what is found of a loop whose rounds last longer by a part of the delay; a `pause` each so many rounds."""
    draws, one, at, left = random.Random(seed), Slowing(2), 10**15, 0
    for number in range(rounds):
        left = IN_A_ROW if number in BLOCKS else left
        held = DELAY if left else 0.0
        if left:
            block = max(b for b in BLOCKS if b <= number)
            one.slowed(Record(Kind.DELAY, DelayCode.SLOWS, at, at + int(held * MS), 1, block, 0, 0, 0))
            left -= 1
        if spoil and number in {b + 3 for b in BLOCKS}:
            at += 40 * MS  # what somebody else did
            one.disturbed(at)
        at += int((draws.gauss(ROUND, ROUND * noise) + held * later) * MS)
        at += 2000 * MS if pause and number % pause == 0 else 0
        one.came(at)
    return one.told


@pytest.mark.parametrize("later", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
def test_rounds_are_longer_by_what_they_are(later: float, noise: float) -> None:
    found = told(later, noise=noise)
    assert found is not None
    assert (found.count, found.delay) == (len(BLOCKS), pytest.approx(DELAY / 1e3))
    assert found.value == pytest.approx(later, abs=3 * found.error + 1e-6)
    assert found.error == pytest.approx(2 * noise, rel=0.6, abs=1e-6)


def test_the_error_covers_what_it_is_off_by() -> None:
    """In 200 loops drawn by lot: 1.96 of it in 95 of 100, and it is not simply wide."""
    runs = [found for seed in range(200) if (found := told(0.5, noise=0.05, seed=seed)) is not None]
    assert len(runs) == 200
    inside = [abs(found.value - 0.5) <= 1.96 * found.error for found in runs]
    assert 0.88 <= sum(inside) / len(runs) <= 0.99
    assert sum(found.value for found in runs) / len(runs) == pytest.approx(0.5, abs=0.03)


def test_a_few_blocks_say_nothing() -> None:
    assert told(1.0, rounds=BLOCKS[2]) is None


def test_rounds_that_differ_by_a_hundred_times_say_nothing() -> None:
    assert told(1.0, pause=9) is None


def test_a_pause_now_and_then_spoils_only_what_is_near() -> None:
    found = told(1.0, pause=170)
    assert found is not None
    assert found.value == pytest.approx(1.0, abs=0.15)


def test_blocks_in_which_something_else_was_tried_say_nothing() -> None:
    assert told(0.0, spoil="yes") is None


def loop(story, later: float, delayed: Callable[[int], bool], *, stands: bool = False):
    """Tell of a training with a DataLoader, whose thread works 10 ms behind each step."""
    for number in range(400):
        if delayed(number):
            story.record(Kind.DELAY, story.at, story.at + 2, code=DelayCode.SLOWS, a=1, b=number // IN_A_ROW)
            story.at += 2 * later
        if stands and number % 20 == 0:
            story.record(Kind.DELAY, story.at, story.at, code=DelayCode.STANDS, a=1, d=3)
        story.batch(wait=1)
        story.step(20 + number * 7 % 5 * 0.1)
    return story.features().processes[0]


def in_blocks(number: int) -> bool:
    return number // IN_A_ROW in {9, 17, 25, 33, 41}


def test_a_process_tells_its_pace_and_what_it_was_held_up(story) -> None:
    story.iterator()
    process = loop(story, 1.0, in_blocks)
    assert process.pace is not None
    assert process.pace.value == pytest.approx(1.0, abs=0.1)
    assert process.held_back.slopes == 5
    assert process.held_back.training == pytest.approx(40 * 0.002)
    assert process.held_back.seconds == process.held_back.training


def test_being_held_up_is_no_part_of_a_step(story_of) -> None:
    calm, held = story_of(), story_of()
    for one in (calm, held):
        one.iterator()
    without, process = loop(calm, 0.0, lambda _: False), loop(held, 1.0, in_blocks)
    assert max(process.after_step) == pytest.approx(max(without.after_step), abs=1e-4)
    assert max(process.loaders[0].steps) == pytest.approx(max(without.loaders[0].steps), abs=1e-4)


def test_where_another_rank_is_slowed_down_meanwhile_nothing_is_known(story) -> None:
    story.iterator()
    story.process(1, pid=101)

    def both(number: int) -> bool:
        if in_blocks(number):
            story.record(Kind.DELAY, story.at, story.at + 2, process=1, code=DelayCode.SLOWS, a=9, b=number // IN_A_ROW)
        return in_blocks(number)

    assert loop(story, 1.0, both).pace is None


def test_of_a_loop_without_a_loader_steps_are_rounds(empty) -> None:
    empty.process()
    empty.at = 100
    for number in range(400):
        empty.step(20 + number * 7 % 5 * 0.1)
        if in_blocks(number):
            empty.record(Kind.DELAY, empty.at, empty.at + 2, code=DelayCode.SLOWS, b=number // IN_A_ROW)
            empty.at += 2
    (process,) = empty.features().processes
    assert process.pace is not None
    assert process.pace.value == pytest.approx(1.0, abs=0.1)


def test_a_run_in_which_nothing_was_tried_has_no_pace(story) -> None:
    story.iterator()
    story.epoch(100)
    assert story.features().processes[0].pace is None
