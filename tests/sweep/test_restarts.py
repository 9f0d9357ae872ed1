"""Each setting in a start of its own: for how long it is started, and what too few batches mean."""

from types import SimpleNamespace

import pytest

from gputune.experiment.budget import Budget
from gputune.experiment.starting import Cause, Start, State
from gputune.sweep.restarts import Restarts
from gputune.sweep.search import Outcome
from gputune.sweep.settings import LoaderSetting, setting

OWN = setting(0, 2, pin_memory=False, persistent=False, batch_size=8)
EIGHT = setting(8, 2, pin_memory=False, persistent=False, batch_size=8)


class Starter:
    """Starts a script that takes `batch` s for a batch, whatever its settings; `refuses` them for a reason."""

    def __init__(self, *, batch: float, within: float = 60.0, refuses: str = "") -> None:
        self.batch, self.within, self.refuses = batch, within, refuses
        self.asked: list[float] = []

    def plan(self, *, seconds: float, batches: int) -> tuple[float, int]:
        self.asked.append(seconds)
        return seconds, batches

    def start(self, plan: tuple[float, int], name: str, wanted: LoaderSetting | None) -> Start:
        seconds, most = plan
        came = min(int(seconds / self.batch), most or 10**9)
        skip = wanted.queue + 2 if wanted else 5
        if self.refuses:
            return Start(state=State.FAILED, log="", why=self.refuses, batches=came, over=True)
        if came < skip + 8:
            why = f"it ended after {came} batches, too few to time"
            return Start(state=State.FAILED, log="", why=why, cause=Cause.TOO_FEW, batches=came, over=True)
        return Start(state=State.OK, log="", rates=(8 / self.batch,) * 8, batches=came, over=True)


def measured(starter: Starter, *, predicted: float) -> Outcome:
    """Return what came of eight workers, of which the model says that a batch takes `predicted` s."""
    bench = Restarts(starter, None, Budget())  # type: ignore[arg-type] # a stand-in
    profile = SimpleNamespace(
        script=OWN, ranks=1, batch=8.0, spread=0.1, measured=8 / predicted, per_batch=predicted, epoch=0, ceiling=None,
        rate=lambda _: 8 / predicted,
    )  # fmt: skip
    bench.know(profile)  # type: ignore[arg-type] # a stand-in
    return bench.measure(EIGHT)


@pytest.mark.parametrize(("within", "most"), [(60.0, 60.0), (180.0, 180.0)])
def test_a_slow_script_is_looked_at_for_as_long_as_was_asked(within: float, most: float) -> None:
    starter = Starter(batch=4.0, within=within)
    found = Restarts(starter, None, Budget()).profile(lambda _: 100)  # type: ignore[arg-type] # a stand-in
    assert starter.asked[-1] == most
    assert found.batches == most / 4


def test_slow_batches_get_the_time_that_those_left_out_and_those_timed_take() -> None:
    assert measured(Starter(batch=1.9), predicted=1.9).state is State.OK


def test_a_setting_that_is_too_slow_to_be_timed_has_not_failed() -> None:
    found = measured(Starter(batch=4.0), predicted=0.1)
    assert (found.state, found.cut_off) == (State.FAILED, True)


def test_a_setting_that_is_refused_has_failed() -> None:
    found = measured(Starter(batch=0.1, refuses="num_workers: a stream"), predicted=0.1)
    assert (found.state, found.cut_off) == (State.FAILED, False)
