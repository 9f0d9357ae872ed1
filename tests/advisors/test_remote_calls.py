"""remote-calls speaks where the training waits for calls to another process."""

import pytest

from gputune.advisors.remote_calls import advise
from gputune.features import Place

RPC, REDUCE = "torch.distributed.rpc.rpc_sync", "torch.distributed.all_reduce"


def calling(*, each: float, what: str = RPC) -> dict:
    """A loop of 10 ms steps, in each of which it waits `each` s for another process."""
    place = Place(span="collective", where="train.py:60", what=what, count=400, seconds=400 * each)
    return {
        "blocked": 0.002,
        "steps": [0.010 + each],
        "pauses": {"collective": [each]},
        "waits": (0.0004,),
        "places": (place,),
    }


def test_is_silent_where_nobody_is_called(run) -> None:
    assert list(advise(run())) == []


def test_is_silent_about_calls_that_hardly_take_any_time(run) -> None:
    assert list(advise(run(**calling(each=0.001)))) == []


def test_is_silent_about_what_all_ranks_exchange(run) -> None:
    assert list(advise(run(**calling(each=0.010, what=REDUCE)))) == []


@pytest.mark.parametrize("what", [RPC, "RRef.to_here", "Future.wait"])
def test_names_the_call_and_what_rarer_ones_bring(run, what) -> None:
    (finding,) = advise(run(**calling(each=0.010, what=what)))
    assert finding.says.startswith("waiting for a remote call every step takes 49% of the loop (10 ms each, ")
    assert what in finding.says
    assert finding.where == "train.py:60"
    assert finding.change == {"gradient_accumulation": 10}
    assert finding.speedup.likely == pytest.approx(0.0204 / 0.0114)
    assert finding.effect == "changes-learning"
