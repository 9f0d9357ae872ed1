"""Delays of workers are held against the times of their loader's batches, in whatever order records come."""

from collections.abc import Iterator

import pytest

from gputune.core.events import DelayCode, Kind
from gputune.features import Slope

WORKERS, ROUND, DELAY = 2, 10.0, 15.0  # ms: a batch takes each worker 20
MOMENTS = (100, 200, 300, 400)  # before which batch


def times(later: float, pause: int = -1) -> Iterator[tuple[float, bool]]:
    """Return when each batch comes (ms) and whether workers are held up then; `pause`: at which one the loop rests."""
    at = 0.0
    for number in range(520):
        at += ROUND + (number * 7 % 5 - 2) * 0.1 + (1000 if number == pause else 0)
        at += DELAY * later if number - 1 in MOMENTS else 0
        yield at, number in MOMENTS


def slope(
    untold, *, later: float, pause: int = -1, late: bool = False, of: int = WORKERS, stands: int = -1
) -> Slope | None:
    """Tell of such a run, the delays of `of` workers; `late`: once it is over; it `stands` itself there."""
    untold.loader(num_workers=WORKERS, prefetch_factor=2)
    untold.iterator(workers=WORKERS)
    for number in range(WORKERS):
        untold.process(number + 1, pid=11 + number, role="worker")
        untold.record(Kind.MEMBER, untold.at, untold.at, a=1, b=11 + number, c=number)
    start, delays = untold.at, []
    for count, (at, held_up) in enumerate(times(later, pause)):
        untold.at = start + at
        untold.record(Kind.BATCH, untold.at - 1, untold.at, a=1, c=32)
        if count == stands:
            untold.record(Kind.DELAY, untold.at, untold.at + 5, a=1, d=3, code=DelayCode.STANDS)
        if held_up:
            delays += [(number, untold.at + number + 1) for number in range(of)]
        while delays and not late:
            tell(untold, *delays.pop())
    for number, when in delays:
        tell(untold, number, when)
    (loader,) = untold.features().processes[0].loaders
    return loader.slope


def tell(untold, number: int, when: float) -> None:
    moment = round((when - number) * 1000)
    untold.record(Kind.DELAY, when, when + DELAY, process=number + 1, a=moment)


@pytest.mark.parametrize("late", [False, True], ids=["as-they-come", "at-the-end"])
@pytest.mark.parametrize("later", [1.0, 0.0])
def test_batches_are_later_by_what_they_are(untold, later: float, late: bool) -> None:
    found = slope(untold, later=later, late=late)
    assert found is not None
    assert (found.count, found.delay) == (len(MOMENTS), pytest.approx(DELAY / 1e3))
    assert found.value == pytest.approx(later, abs=0.05)
    assert found.error < 0.05


def test_a_moment_near_which_the_training_itself_is_held_up_says_nothing(untold) -> None:
    found = slope(untold, later=1.0, stands=204)
    assert found is not None
    assert found.count == len(MOMENTS) - 1
    assert found.value == pytest.approx(1.0, abs=0.05)


def test_a_moment_in_which_the_loop_rests_says_nothing(untold) -> None:
    found = slope(untold, later=1.0, pause=204)
    assert found is not None
    assert found.count == len(MOMENTS) - 1
    assert found.value == pytest.approx(1, abs=0.05)


def test_moments_of_which_not_all_workers_told_say_nothing(untold) -> None:
    assert slope(untold, later=1.0, of=1) is None


def test_delays_of_moments_that_are_judged_or_forgotten_are_harmless(untold) -> None:
    first = slope(untold, later=1.0)
    for worker in range(WORKERS):
        for moment in range(300):
            untold.record(Kind.DELAY, moment, moment + DELAY, process=worker + 1, a=moment)
    assert first is not None
    (loader,) = untold.features().processes[0].loaders
    assert loader.slope is not None


def test_a_run_without_any_has_none(untold) -> None:
    untold.loader(num_workers=WORKERS, prefetch_factor=2)
    untold.iterator(workers=WORKERS)
    untold.epoch(50)
    (loader,) = untold.features().processes[0].loaders
    assert loader.slope is None
