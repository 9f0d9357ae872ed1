"""Copies to the device are summed up by the place that asks for them."""

import pytest

from gputune.core.events import CopyField, SpanCode


def test_the_dearest_place_comes_first_with_what_was_pinned_and_not_waited_for(story) -> None:
    story.note(n="site", id=1, where="train.py:50", what="Tensor.to")
    story.note(n="site", id=2, where="train.py:51", what="Tensor.cuda")
    story.iterator()
    story.epoch(2)
    story.span(SpanCode.COPY_H2D, 2, a=1, b=1000, c=CopyField.FROM_PINNED | CopyField.NON_BLOCKING)
    story.span(SpanCode.COPY_H2D, 5, a=2, b=3000)
    story.span(SpanCode.COPY_H2D, 3, a=2, b=1000, c=CopyField.FROM_PINNED)
    story.epoch(1)
    dearest, other = story.features().processes[0].copies
    assert (dearest.where, dearest.what, dearest.count, dearest.size) == ("train.py:51", "Tensor.cuda", 2, 4000)
    assert dearest.seconds == pytest.approx(0.008)
    assert (dearest.pinned, dearest.non_blocking) == (0.25, 0.0)
    assert (other.where, other.pinned, other.non_blocking) == ("train.py:50", 1.0, 1.0)


def test_a_training_without_copies_has_none(story) -> None:
    story.iterator()
    story.epoch(2)
    assert story.features().processes[0].copies == ()


def test_a_model_that_is_copied_before_the_training_is_no_copy_of_its_steps(story) -> None:
    story.note(n="site", id=1, where="train.py:12", what="Tensor.to")
    story.note(n="site", id=2, where="train.py:51", what="Tensor.cuda")
    story.iterator()
    story.span(SpanCode.COPY_H2D, 50, a=1, b=1_000_000)
    story.epoch(2)
    story.span(SpanCode.COPY_H2D, 5, a=2, b=3000)
    story.epoch(1)
    (copy,) = story.features().processes[0].copies
    assert (copy.where, copy.size) == ("train.py:51", 3000)
