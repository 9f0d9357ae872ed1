"""What the training does between two passes is told apart, and neither a step's nor a pause's."""

import pytest

from gputune.core.events import Kind, SpanCode


@pytest.fixture
def passing(story):
    story.iterator(1, fresh=True)
    story.epoch(4)
    return story


def between(story) -> tuple[float, ...]:
    """Return the ms between passes, and see that the ledger says the same."""
    (process,) = story.features().processes
    assert process.ledger.get("between", 0.0) == pytest.approx(sum(process.between))
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    return tuple(round(1e3 * seconds) for seconds in process.between)


def again(story, number: int, idle: float, batches: int = 4) -> None:
    """End a pass; the next one begins after `idle` ms."""
    story.batch(number - 1, wait=0, end=True)
    story.at += idle
    story.iterator(number, fresh=True)
    story.epoch(batches, number)


def test_the_time_from_the_end_of_a_pass_to_the_next_one_is_told(passing) -> None:
    again(passing, 2, 100)
    again(passing, 3, 80)
    assert between(passing) == (100, 80)
    (process,) = passing.features().processes
    assert process.in_loop["between"] == pytest.approx(0.180)


def test_it_is_not_known_before_all_that_came_before_was_told(passing) -> None:
    again(passing, 2, 100, batches=2)
    assert between(passing) == ()
    passing.epoch(1, 2)
    assert between(passing) == (100,)


def test_passes_of_one_batch_are_passes(passing) -> None:
    for number in (2, 3, 4):
        again(passing, number, 50, batches=1)
    assert between(passing) == (50, 50)


def test_a_pause_in_it_keeps_its_own_word(passing) -> None:
    passing.batch(1, wait=0, end=True)
    passing.at += 60
    passing.span(SpanCode.CHECKPOINT, 30)
    passing.iterator(2, fresh=True)
    passing.epoch(4, 2)
    assert between(passing) == (60,)
    (process,) = passing.features().processes
    assert (process.in_loop["checkpoint"], process.in_loop["between"]) == pytest.approx((0.030, 0.060))


def test_an_evaluation_that_is_told_as_the_training_goes_on_keeps_its_time(passing) -> None:
    passing.batch(1, wait=0, end=True)
    began, passing.at = passing.at, passing.at + 70
    passing.iterator(2, fresh=True)
    passing.batch(2)
    passing.step()
    passing.record(Kind.SPAN, began + 10, began + 50, code=SpanCode.EVALUATION)
    passing.epoch(3, 2)
    assert between(passing) == (30,)


def test_a_step_that_comes_after_the_last_batch_was_asked_for_ends_the_pass(passing) -> None:
    passing.batch(1, wait=0, end=True)
    passing.step(20)
    again_at = passing.at + 40
    passing.at = again_at
    passing.iterator(2, fresh=True)
    passing.epoch(4, 2)
    assert between(passing) == (40,)


def test_a_pass_beside_one_that_goes_on_has_nothing_between(passing) -> None:
    passing.loader(id=2, where="train.py:50")
    passing.iterator(7, 2, fresh=True)
    for _ in range(2):
        passing.epoch(2, 7)
        passing.batch(7, wait=0, end=True)
        passing.epoch(2, 1)  # of the outer loop
        passing.iterator(7, 2)
    assert between(passing) == ()


def test_a_pass_that_is_left_tells_nothing(passing) -> None:
    passing.at += 100
    passing.iterator(2, fresh=True)
    passing.epoch(4, 2)
    assert between(passing) == ()


def test_a_validation_whose_loader_is_built_anew_is_no_next_pass(passing) -> None:
    for number in (3, 5):
        passing.batch(number - 2, wait=0, end=True)
        passing.loader(id=number + 50, where="val.py:9")
        passing.iterator(number + 1, number + 50, grad=False, fresh=True)
        began = passing.at
        for _ in range(3):
            passing.batch(number + 1)
        passing.batch(number + 1, wait=0, end=True)
        passing.at += 5
        passing.record(Kind.SPAN, began - 1, passing.at, code=SpanCode.EVALUATION)
        passing.at += 200
        passing.iterator(number, fresh=True)
        passing.epoch(4, number)
    assert between(passing) == (200, 200) or all(199 <= ms <= 201 for ms in between(passing))


def test_it_is_no_work_behind_the_last_step_as_well(passing) -> None:
    for number in range(2, 6):
        passing.batch(number - 1, wait=0, end=True)
        passing.step(20)  # read ahead: the last batch is still to be trained on
        passing.at += 200
        passing.iterator(number, fresh=True)
        passing.epoch(6, number)
    (process,) = passing.features().processes
    assert len(process.between) == 4
    assert all(seconds < 0.1 for seconds in process.after_step)
