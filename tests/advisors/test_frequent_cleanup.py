"""frequent-cleanup speaks where collecting garbage, or emptying torch's cache, takes a large part of the loop."""

import pytest

from gputune.advisors.frequent_cleanup import advise
from gputune.features import Place
from gputune.verdict.judging import judge


def tidying(*, each: float, what: str = "gc.collect") -> dict:
    """A loop of 10 ms steps, each of which cleans up for `each` s."""
    place = Place(span="cleanup", where="train.py:60", what=what, count=400, seconds=400 * each)
    return {
        "blocked": 0.002,
        "steps": [0.010 + each],
        "pauses": {"cleanup": [each]},
        "waits": (0.0004,),
        "places": (place,),
    }


def test_is_silent_about_the_ordinary(run) -> None:
    assert list(advise(run())) == []
    assert list(advise(run(**tidying(each=0.0004)))) == []


@pytest.mark.parametrize("what", ["gc.collect", "torch.cuda.empty_cache"])
def test_says_what_it_takes_and_where(run, what: str) -> None:
    (finding,) = judge(run(**tidying(each=0.008, what=what)))
    assert finding.id == "frequent-cleanup"
    assert f"cleaning up memory every step takes 43% of the loop (8 ms each, {what})" in finding.says
    assert finding.where == "train.py:60"
    assert finding.speedup.low < 18.4 / 10.4 < finding.speedup.high
