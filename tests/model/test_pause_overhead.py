"""What a pause costs beyond itself: seen where rounds without are; where there are none, nothing is promised."""

import pytest

from gputune.features import Loader
from gputune.model.pause_overhead import FAR_ENOUGH, LEAST, aftermath


def loader(*, every: int, pauses: int = 40, pause: float = 0.020, after: float = 0.0, step: float = 0.010,
           before: float = 0.0, span: str = "checkpoint", step_cpu: float | None = None) -> Loader:  # fmt: skip
    """A loop that pauses each so many steps; the step after is `after` slower, `before` passes outside of the span."""
    steps, spent = [], []
    for number in range(every * pauses):
        here = number % every == 0
        late = after if (number % every == 1 or every == 1) else 0.0
        steps.append(step + late + (pause + before if here else 0.0))
        spent.append(pause if here else 0.0)
    return Loader(
        where="a.py:1", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=8,
        batches=len(steps), waits=(0.001,) * len(steps), steps=tuple(steps), pauses={span: tuple(spent)},
        step_cpu=step_cpu,
    )  # fmt: skip


@pytest.mark.parametrize("every", [4, 10, 25, 100])
def test_what_follows_a_pause_is_seen_in_the_rounds_far_from_it(every) -> None:
    found = aftermath(loader(every=every, after=0.003, before=0.002, span="reporting"), "reporting")
    assert found.seconds == pytest.approx(0.005)
    assert 0 < found.apart <= FAR_ENOUGH
    assert found.unsure < 0.001


def test_a_pause_that_leaves_no_trace_costs_nothing_beyond_itself() -> None:
    assert aftermath(loader(every=8, span="logging"), "logging").seconds == pytest.approx(0.0)


def test_no_pause_has_no_aftermath() -> None:
    assert aftermath(loader(every=4), "logging").seconds == 0.0


def test_rounds_that_catch_up_after_a_pause_are_no_cost() -> None:
    catching = loader(every=8, after=-0.002, span="reporting")
    assert aftermath(catching, "reporting").seconds == pytest.approx(-0.002)


def test_a_difference_within_the_noise_is_not_believed() -> None:
    quiet = loader(every=4)
    noisy = tuple(s + 0.004 * ((i * 7919) % 11 - 5) / 5 for i, s in enumerate(quiet.steps))
    found = aftermath(Loader(**{**_fields(quiet), "steps": noisy}), "checkpoint")
    assert abs(found.seconds) < found.unsure


def test_where_each_step_pauses_nothing_beyond_the_pauses_is_promised() -> None:
    found = aftermath(loader(every=1), "checkpoint")
    assert (found.seconds, found.unsure, found.apart) == (0.0, 0.0, 0)
    assert aftermath(loader(every=4, pauses=LEAST - 1), "checkpoint").apart == 0


def _fields(mine: Loader) -> dict[str, object]:
    return {name: getattr(mine, name) for name in Loader.__dataclass_fields__}
