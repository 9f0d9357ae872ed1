"""python-in-step speaks when the step itself runs plain Python that no clock of the guest's parts from the model."""

from dataclasses import replace

import pytest

from gputune.advisors.python_in_step import advise
from gputune.features import Interpreted

METRICS = Interpreted(where="train.py:13", function="main", share=0.5, calls="confusion", side="between")
TOKENS = Interpreted(where="net.py:38", function="Net.forward", share=0.2, side="inside")


@pytest.fixture
def ordinary(run):
    """Workers that are never late, and steps of 20 ms."""
    return run(num_workers=2, cpu=0.001, waits=(0.0001,), step=0.020, step_cpu=0.020)


def looked(plain, *lines: Interpreted, looks: int = 240):
    return replace(plain, processes=(replace(plain.processes[0], interpreted=lines, held_looks=looks),))


def test_is_silent_where_nothing_was_seen_or_nobody_looked(ordinary) -> None:
    assert list(advise(ordinary)) == []
    assert list(advise(looked(ordinary))) == []
    assert list(advise(looked(ordinary, METRICS, looks=20))) == []


def test_is_silent_of_what_lies_elsewhere(ordinary) -> None:
    assert list(advise(looked(ordinary, replace(METRICS, side="")))) == []


def test_is_silent_of_little_and_of_what_few_looks_make_of_it(ordinary) -> None:
    assert list(advise(looked(ordinary, replace(METRICS, share=0.09)))) == []
    assert list(advise(looked(ordinary, replace(METRICS, share=0.13), looks=60))) == []
    assert len(list(advise(looked(ordinary, replace(METRICS, share=0.13), looks=600)))) == 1


def test_what_all_lines_take_is_taken_off_and_the_first_is_named(ordinary) -> None:
    (finding,) = advise(looked(ordinary, METRICS, TOKENS))
    assert finding.where == "train.py:13"
    assert "between the model and the backward pass" in finding.says
    assert "(70% of the loop), mostly at train.py:13 (confusion)" in finding.says
    assert finding.speedup.low < 1 / (1 - 0.7) < finding.speedup.high
    assert finding.effect == "unknown"


def test_inside_of_a_model_the_function_is_named(ordinary) -> None:
    (finding,) = advise(looked(ordinary, TOKENS))
    assert "inside of the model (20% of the loop), mostly at net.py:38, in Net.forward" in finding.says
    assert finding.speedup.low < 1.25 < finding.speedup.high


CLIP = Interpreted(where="train.py:7", function="clip", share=0.6)


def updating(plain, *lines: Interpreted, optimizing: float = 0.7, stepping: float = 0.1, looked: int = 400):
    """A loop that is for `optimizing` of its time between a backward pass and the end of the optimizer's step."""
    (process,) = plain.processes
    spans = sum(seconds for name, seconds in process.in_loop.items() if name != "step")
    told = replace(
        process,
        aside=lines,
        looked=looked,
        loop_stacks=looked,
        stepping=stepping * process.loop / (process.loop - spans),
        optimizing=optimizing * process.loop,
    )
    return replace(plain, processes=(told,))


def test_between_the_passes_what_no_line_shows_or_the_clock_has_not_is_nothing(ordinary) -> None:
    assert list(advise(updating(ordinary))) == []
    assert list(advise(updating(ordinary, CLIP, optimizing=0.15))) == []  # the lines stand elsewhere
    assert list(advise(updating(ordinary, CLIP, looked=20))) == []
    assert list(advise(updating(ordinary, replace(CLIP, side="ahead")))) == []
    assert list(advise(updating(ordinary, replace(CLIP, side="behind")))) == []


def test_one_pass_over_the_gradients_may_take_as_long_as_the_optimizers_step(ordinary) -> None:
    clipped = updating(ordinary, replace(CLIP, share=0.3), optimizing=0.6, stepping=0.3)
    assert list(advise(clipped)) == []


def test_gradients_that_are_gone_through_one_by_one_are_told_with_what_one_call_leaves(ordinary) -> None:
    (finding,) = advise(updating(ordinary, CLIP))
    assert finding.where == "train.py:7"
    assert "between its backward pass and the optimizer's step (60% of the loop), mostly at train.py:7" in finding.says
    assert finding.speedup.low < 1 / (1 - 0.5) < finding.speedup.likely < 1 / (1 - 0.6) < finding.speedup.high


def test_on_a_device_it_may_be_a_wait_for_the_backward_pass(ordinary, device) -> None:
    assert list(advise(updating(replace(ordinary, devices=(device(busy=0.9),)), CLIP))) == []
