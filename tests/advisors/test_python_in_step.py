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
    assert list(advise(looked(ordinary, METRICS, looks=30))) == []


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
