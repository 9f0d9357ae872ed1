"""Which evaluations are seen to make what is trained on next."""

import pytest

from gputune.core.events import Kind, SpanCode

SITE = {"a": 1}


def told(story) -> tuple[int, int]:
    """Return how many evaluations there were, and after how many of them a loader was built."""
    (place,) = (p for p in story.features().processes[0].places if p.span == "evaluation")
    return place.count, place.feeds


@pytest.fixture
def acting(story):
    story.note(n="site", id=1, where="ppo.py:8", what="evaluation")
    return story


def test_a_loader_that_is_built_after_each_pass_has_its_data(acting) -> None:
    for number in (1, 3, 5):
        acting.span(SpanCode.EVALUATION, 50, **SITE)
        for again in (0, 1):  # two passes over what was gathered
            acting.iterator(number + again, fresh=not again)
            acting.epoch(4, number + again)
    assert told(acting) == (3, 3)


def test_a_pass_that_is_only_over_as_the_loader_is_iterated_counts_as_well(acting) -> None:
    for number in (1, 2):
        began, ended = acting.at, acting.at + 50
        acting.at = ended
        acting.iterator(number, took=1, fresh=True)
        acting.record(Kind.SPAN, began, ended, code=SpanCode.EVALUATION, **SITE)
        acting.epoch(4, number)
    assert told(acting) == (2, 2)


def test_an_evaluation_in_the_middle_of_a_pass_makes_nothing(acting) -> None:
    acting.iterator(1, fresh=True)
    for _ in range(3):
        acting.epoch(4)
        acting.span(SpanCode.EVALUATION, 50, **SITE)
    acting.epoch(4)
    acting.iterator(2, fresh=True)
    acting.epoch(4, 2)
    assert told(acting) == (3, 0)


def test_an_evaluation_between_two_passes_over_one_loader_makes_nothing(acting) -> None:
    for number in (1, 2, 3):
        acting.iterator(number, fresh=number == 1)
        acting.epoch(4, number)
        acting.span(SpanCode.EVALUATION, 50, **SITE)
    assert told(acting) == (3, 0)


def test_an_evaluation_with_batches_of_its_own_makes_nothing(acting) -> None:
    acting.loader(id=2, where="ppo.py:9")
    for number in (1, 3, 5):
        acting.iterator(number, fresh=True)
        acting.epoch(4, number)
        began = acting.at
        acting.iterator(number + 1, 2, grad=False, fresh=True)
        acting.batch(number + 1)
        acting.record(Kind.SPAN, began, acting.at, code=SpanCode.EVALUATION, **SITE)
    assert told(acting) == (3, 0)
