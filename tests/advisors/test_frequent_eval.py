"""frequent-eval speaks when validation takes a large part of the training."""

from dataclasses import replace

import pytest

from gputune.advisors.frequent_eval import ROLLOUT, advise
from gputune.features import Drawn, Features, Place


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


def test_what_fewer_of_them_do_to_the_results_is_as_the_generators_were_seen(run) -> None:
    found = run(**validated(seconds=4.0, times=40))
    (unseen,) = advise(found)
    assert unseen.effect == "unknown"
    (process,) = found.processes
    for drawn, effect in (Drawn(), "identical"), (Drawn(of=frozenset({"torch"})), "changes-order"):
        (finding,) = advise(replace(found, processes=(replace(process, draws={"evaluation": drawn}),)))
        assert finding.effect == effect


def a_pass(found: Features, **differs) -> Features:
    """The same run, of whose evaluations something else is known."""
    (process,) = found.processes
    (place,) = process.places
    return replace(found, processes=(replace(process, places=(replace(place, **differs),)),))


def test_passes_after_which_a_loader_is_built_make_its_data(run) -> None:
    found = run(**validated(seconds=4.0, times=40))
    assert list(advise(a_pass(found, feeds=39))) == []
    assert len(list(advise(a_pass(found, feeds=4)))) == 1  # a few folds, and an evaluation every ten steps


def test_a_model_that_acts_in_an_environment_is_not_evaluated(run) -> None:
    found = run(**validated(seconds=4.0, times=40))
    assert list(advise(a_pass(found, what=ROLLOUT))) == []
    assert len(list(advise(a_pass(found, what=ROLLOUT, waits_inside=3.0)))) == 1  # over a loader of its own


def test_a_pass_over_no_loader_may_make_data_all_the_same(run) -> None:
    found = run(**validated(seconds=4.0, times=40))
    doubt = "unless these passes make the data that is trained on"
    (finding,) = advise(found)
    assert finding.do.endswith(doubt)
    (finding,) = advise(a_pass(found, waits_inside=3.0))
    assert doubt not in finding.do
    assert "75% of it loader.wait" in finding.says
