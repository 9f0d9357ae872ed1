"""Loops of scripts that others have published, whose steps have all CPUs: what changes brought them, and what is said.

Two CPUs, steps of two threads, no GPU (docs/public.md has the scripts). Realised are loops of bare scripts, read off
their own output, in turn with those of the changed ones: two workers, pictures as one tensor, no workers.
"""

import pytest

from gputune.model.prediction import Outlook, Setting
from gputune.model.remedies import remedies
from gputune.verdict.judging import judge
from tests.model.test_recordings import recompute

TWO_WORKERS = {"vae": 0.68, "mnist-rnn": 0.64, "feedforward": 0.67}
ONE_TENSOR = {"vae": 1.74, "feedforward": 2.32, "logistic": 9.7}


def outlook(name: str) -> Outlook:
    return recompute.outlook(recompute.kept(f"public-{name}"))


@pytest.mark.parametrize(("name", "realised"), TWO_WORKERS.items())
def test_workers_that_take_their_cpus_from_the_step_are_told_as_a_loss(name: str, realised: float) -> None:
    """More is lost than is told: what a batch of many samples costs to get from a worker is not seen without one."""
    gain = outlook(name).gain(Setting(2, 2, persistent=False))
    assert not gain.promised
    assert realised < gain.likely < 0.9
    perhaps: list = []
    assert not any("num_workers" in f.change for f in (*judge(recompute.kept(f"public-{name}"), {}, perhaps), *perhaps))


@pytest.mark.parametrize(("name", "realised"), ONE_TENSOR.items())
def test_a_loop_of_seconds_hears_what_one_tensor_brings_it(name: str, realised: float) -> None:
    (kept,) = remedies(outlook(name))
    assert kept.name == "kept"
    assert kept.gain.likely == pytest.approx(realised, rel=0.25)
    (finding,) = judge(recompute.kept(f"public-{name}"))
    assert (finding.id, finding.speedup.likely) == ("heavy-preprocessing", kept.gain.likely)


def test_workers_of_a_step_that_has_all_cpus_are_too_many_and_it_is_of_two_threads() -> None:
    """Without its four workers it is 1.42 to 1.55 times as fast. Two threads taken for one, x1.18 was said."""
    loop = outlook("makemore")
    workers, gain = loop.fewer_workers() or (None, None)
    assert workers == 0
    assert gain is not None
    assert gain.promised
    assert gain.low < 1.42
    assert gain.high > 1.55
    assert loop.gain(Setting(2, 2, persistent=False)).likely == pytest.approx(1.0, abs=0.05)
