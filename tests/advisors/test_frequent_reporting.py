"""frequent-reporting speaks when a report takes a large part of the loop."""

import pytest

from gputune.advisors.frequent_reporting import advise
from gputune.features import Place


def talking(*, each: float, every: int = 1) -> dict:
    """A loop of 10 ms steps in which every so many steps have a pause of `each` s."""
    pause = [0.0] * (every - 1) + [each]
    place = Place(span="reporting", where="train.py:60", what="what", count=400 // every, seconds=400 // every * each)
    return {
        "blocked": 0.002,
        "steps": [0.010 + p for p in pause],
        "pauses": {"reporting": pause},
        "waits": (0.0004,),
        "places": (place,),
    }


def test_is_silent_about_the_ordinary(run) -> None:
    assert list(advise(run(**talking(each=0.0003)))) == []


def test_is_silent_where_there_is_none(run) -> None:
    assert list(advise(run())) == []


def test_is_silent_just_below_its_threshold(run) -> None:
    assert list(advise(run(**talking(each=0.0104 / 20)))) == []


def test_says_how_often_and_how_long(run) -> None:
    (finding,) = advise(run(**talking(each=0.005, every=2)))
    assert finding.id == "frequent-reporting"
    assert "a report every 2 steps" in finding.says
    assert "5 ms each" in finding.says
    assert finding.where == "train.py:60"


def test_promises_what_the_named_interval_gives_back(run) -> None:
    (finding,) = advise(run(**talking(each=0.010)))
    assert finding.change == {"report_interval": 50}
    assert finding.speedup.likely == pytest.approx(0.0204 / 0.0106)
    assert finding.speedup.low < finding.speedup.likely
    assert (finding.effect, bool(finding.because)) == ("unknown", True)  # nobody looked; see tests/model/test_pauses.py


def test_promises_nothing_where_a_busy_device_works_through_the_pause(run, device) -> None:
    (finding,) = advise(run(**talking(each=0.010), devices=(device(busy=0.99),)))
    assert finding.speedup.likely < 1.05
