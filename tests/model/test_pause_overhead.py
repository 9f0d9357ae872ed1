"""What a pause costs beyond itself: seen where rounds without are, known of idling where there are none."""

import pytest

from gputune.features import Loader
from gputune.model.pause_overhead import (
    BUSY,
    CHILL_S,
    COLDER,
    COLDEST,
    COLDEST_S,
    FAR_ENOUGH,
    LEAST,
    LINGERS,
    aftermath,
    chill,
    coldest,
)


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


def test_by_how_much_rounds_never_far_from_a_saved_model_differ_from_any_without_is_a_doubt_of_its_own() -> None:
    near, far = (aftermath(loader(every=every, after=0.003), "checkpoint") for every in (10, 100))
    assert (near.seconds, far.seconds) == pytest.approx((0.003, 0.003))
    assert (near.lingers, far.lingers) == (pytest.approx(LINGERS * 10 * 0.011), 0.0)
    assert (near.unsure, far.unsure) == pytest.approx((0.0, 0.0))


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


def test_where_each_step_pauses_only_the_cold_start_is_taken_off_and_unsure() -> None:
    found = aftermath(loader(every=1), "checkpoint")
    assert found.apart == 0
    assert found.seconds == found.unsure == pytest.approx(CHILL_S, rel=0.05)
    assert aftermath(loader(every=4, pauses=LEAST - 1), "checkpoint").apart == 0


def test_after_many_short_pauses_a_step_may_be_as_cold_as_after_a_long_one() -> None:
    short = aftermath(loader(every=1, pause=0.001), "checkpoint")
    assert short.seconds < CHILL_S / 4
    assert short.seconds + short.unsure + short.colder == pytest.approx(min(COLDEST_S, COLDER * 0.011))


def test_how_cold_a_step_may_be_is_bounded_by_its_length_and_by_what_was_ever_seen() -> None:
    long = aftermath(loader(every=1, pause=0.010, step=0.500), "checkpoint")
    assert long.seconds + long.unsure + long.colder == pytest.approx(COLDEST_S)
    assert coldest(1.0, 0.010) == pytest.approx(COLDER * 0.010)
    assert coldest(1.0, 0.0002) == pytest.approx(COLDEST * 0.0002)
    assert coldest(1.0, 0.500) == pytest.approx(COLDEST_S)
    assert coldest(0.0, 0.010) == 0.0
    assert all(coldest(pause, 0.010) >= chill(pause, 0.010) for pause in (0.001, 0.005, 0.1))


def test_an_evaluation_keeps_the_model_warm() -> None:
    assert aftermath(loader(every=1, span="evaluation"), "evaluation").seconds == 0.0


def test_a_pause_that_computes_chills_less_than_one_that_sleeps() -> None:
    asleep, busy = (aftermath(loader(every=1, step_cpu=cpu), "checkpoint").seconds for cpu in (0.010, 0.031))
    assert busy == pytest.approx(asleep * BUSY, rel=0.05)
    read = Loader(**{**_fields(loader(every=1, step_cpu=0.050)), "step_cpus": (0.010,) * 20})
    assert aftermath(read, "checkpoint").seconds == asleep


@pytest.mark.parametrize(("pause", "step"), [(0.0, 0.01), (1e-4, 0.01), (0.002, 1e-4), (0.03, 0.0), (5.0, 1.0)])
def test_a_chill_is_never_more_than_a_part_of_the_step(pause, step) -> None:
    assert 0 <= chill(pause, step) <= min(CHILL_S, COLDEST * step)


def test_the_longer_the_pause_the_colder_the_step() -> None:
    colder = [chill(pause, 0.01) for pause in (0.0, 0.0005, 0.002, 0.01, 0.05)]
    assert colder == sorted(set(colder))


def _fields(mine: Loader) -> dict[str, object]:
    return {name: getattr(mine, name) for name in Loader.__dataclass_fields__}
