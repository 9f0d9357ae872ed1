"""frequent-eval speaks when validation takes a large part of the training."""

import pytest

from gputune.advisors.frequent_eval import advise
from gputune.features import Place


def validated(*, seconds: float, times: int) -> dict:
    """400 batches of 10 ms, and between them `times` evaluations that take `seconds` in all."""
    place = Place(span="evaluation", where="train.py:80", what="validate", count=times, seconds=seconds)
    return {"blocked": 0.002, "waits": (0.0,), "between": {"evaluation": seconds}, "places": (place,)}


def test_is_silent_about_one_pass_an_epoch(run) -> None:
    assert list(advise(run(**validated(seconds=0.8, times=4)))) == []


def test_is_silent_about_a_long_pass_that_comes_once_an_epoch(run) -> None:
    assert list(advise(run(**validated(seconds=2.0, times=1)))) == []


def test_a_loop_that_evaluates_more_than_it_trains_is_told(run) -> None:
    (finding,) = advise(run(**validated(seconds=6.0, times=1)))
    assert finding.evidence["share"] > 0.5


def test_is_silent_where_there_is_none(run) -> None:
    assert list(advise(run())) == []


def test_names_how_often_and_what_share(run) -> None:
    (finding,) = advise(run(**validated(seconds=4.0, times=40)))
    assert finding.id == "frequent-eval"
    assert "an evaluation every 10 steps takes 50% of the loop" in finding.says
    assert finding.where == "train.py:80"


def test_a_device_that_is_busy_in_both_gets_its_time_back(run, device) -> None:
    (finding,) = advise(run(**validated(seconds=4.0, times=40), devices=(device(busy=0.97),)))
    assert finding.speedup.likely == pytest.approx(8.0 / 4.4, rel=0.02)


def test_leaves_validation_its_twentieth(run) -> None:
    (finding,) = advise(run(**validated(seconds=4.0, times=40)))
    assert finding.change == {"eval_interval": 100}
    assert finding.speedup.likely == pytest.approx(8.0 / 4.4, rel=0.02)
