"""What a start shows: a loop that only asks a model is not taken for one that trains."""

import pytest

from gputune.experiment.starting import Start, State
from gputune.features import Features, Loader, Machine, Process
from gputune.sweep.profile import OnlyEvaluated, evaluated, profile


def start(*, training: bool, batches: int, apart: dict[str, int]) -> Start:
    """One loader, whose batches came with gradients on (`batches`), or off (`apart`)."""
    loader = Loader(
        where="a.py:1", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=8,
        training=training, batches=100,
    )  # fmt: skip
    process = Process(
        pid=1, rank=None, wall=9.0, ledger={}, inclusive={}, loop=9.0, batches=100, samples=800, optimizer_steps=0,
        loaders=(loader,),
    )  # fmt: skip
    run = Features(command=("x",), wall=9.0, machine=Machine(cpus=2.0, cpus_seen=2), processes=(process,))
    return Start(
        state=State.FAILED, log="", seconds=9.0, batches=batches, over=True, where="a.py:1", run=run, apart=apart
    )


@pytest.mark.parametrize("training", [False, True])  # a loop of inference is one that is judged as a training is
def test_a_loop_that_only_asks_a_model_is_named_as_such(training: bool) -> None:
    found = start(training=training, batches=0, apart={"a.py:1": 100})
    assert evaluated(found) == ["a.py:1"]
    with pytest.raises(OnlyEvaluated, match=r"for training in 9 s of `a\.py`: that at `a\.py:1` gave its batches with"):
        profile(found, "a.py")


def test_a_loop_that_trains_is_not() -> None:
    assert evaluated(start(training=True, batches=80, apart={})) == []
    assert evaluated(start(training=True, batches=80, apart={"a.py:1": 20})) == []  # one line for both
    assert evaluated(start(training=True, batches=0, apart={})) == []
