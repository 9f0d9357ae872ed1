"""Eight batches that are all alike tell as much as twenty that are not."""

from dataclasses import replace

import pytest

from gputune.features import Fetch, Loader, Process
from gputune.model.minimum_samples import ALIKE_BATCHES, LEAST_BATCHES, alike, enough, settled, sure


def loader(
    count: int, *, waits: tuple[float, ...] = (0.2,), made: tuple[float, ...] = (0.2,), step: float = 0.05
) -> Loader:
    """A loader of so many batches in the steady state; `waits` and the s that making takes come again and again."""
    times = [waits[i % len(waits)] for i in range(count)]
    fetches = [Fetch(wall=made[i % len(made)], cpu=0.0, queued=0.0, collate=0.0, samples=8) for i in range(count)]
    return Loader(
        where="a.py:1", num_workers=2, prefetch_factor=2, pin_memory=False, persistent_workers=False, batch_size=8,
        batches=count + 4, waits=tuple(times), steps=(step,) * count, fetches=tuple(fetches),
    )  # fmt: skip


def process(*loaders: Loader, steps: int = 14, beats: tuple[float, ...] = ()) -> Process:
    """A process with these loaders, or none."""
    return Process(
        pid=1, rank=None, wall=10.0, ledger={}, inclusive={}, loop=9.0, batches=sum(x.batches for x in loaders),
        samples=0, optimizer_steps=steps, loaders=loaders, beats=beats,
    )  # fmt: skip


def test_fewer_than_eight_are_never_enough() -> None:
    assert not enough(loader(ALIKE_BATCHES - 1))
    assert not sure((0.1,) * 7, of=1.0)
    assert not sure((0.1,) * 8, (), of=1.0)


def test_eight_are_enough_where_all_are_alike() -> None:
    assert enough(loader(ALIKE_BATCHES))
    assert not enough(loader(ALIKE_BATCHES, made=(0.1, 0.3)))
    assert not enough(replace(loader(10), steps=(0.05,) * 9 + (0.5,)))


def test_any_twenty_are() -> None:
    assert enough(loader(LEAST_BATCHES, made=(0.1, 0.9), waits=(0.0, 0.9)))
    assert not alike(loader(LEAST_BATCHES, made=(0.1, 0.9)))


def test_what_workers_hand_over_in_turns_is_alike_all_the_same() -> None:
    assert alike(loader(12, waits=(0.3, 0.0, 0.0)))


def test_where_nothing_is_known_of_the_making_the_rounds_tell() -> None:
    assert alike(replace(loader(12), fetches=()))
    assert not alike(replace(loader(12, waits=(0.3, 0.0, 0.0)), fetches=()))


def test_an_error_counts_by_what_it_is_of_a_round() -> None:
    """Steps of 1 to 9 ms beside batches of 200 say little, and it does not matter."""
    assert alike(replace(loader(12, step=0.0), steps=(0.001, 0.009) * 6))


def test_without_a_loader_the_steps_tell() -> None:
    assert not settled(process(steps=14))
    assert settled(process(steps=20))
    assert settled(process(steps=14, beats=(0.25,) * 10))
    assert not settled(process(steps=14, beats=(0.1, 0.4) * 5))


@pytest.mark.parametrize(("count", "settles"), [(5, False), (12, True), (30, True)])
def test_with_one_its_batches_do(count: int, *, settles: bool) -> None:
    assert settled(process(loader(count), beats=(0.1, 0.4) * 5)) is settles
