"""How much memory is left, and when it will be gone."""

import math
from dataclasses import replace

import pytest

from gputune.features import Epoch, Loader, Machine, Process, Trend
from gputune.model.headroom import due, first_pass_left, grows, left

GROWS = Trend(rate=10.0, low=8.0, high=12.0, first=0.0, last=100.0, seconds=10.0)
LEVELS_OFF = Trend(rate=0.1, low=-1.0, high=9.0, first=0.0, last=100.0, seconds=10.0)


def machine(**known: int) -> Machine:
    return Machine(cpus=4, cpus_seen=4, **known)


def process(*batches: int, complete: bool = False, samples: int | None = 1000) -> Process:
    """A training with passes of so many batches of 10 samples, a second each; the last one may be complete."""
    epochs = tuple(
        Epoch(began=0, start=0, first_wait=0, shutdown=0, batches=n, seconds=float(n), complete=complete)
        for n in batches
    )
    loader = Loader(
        where="t.py:1", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=10,
        samples_in_dataset=samples, batches=sum(batches), epochs=epochs,
    )  # fmt: skip
    return Process(pid=1, rank=None, wall=1, ledger={}, inclusive={}, loop=sum(batches), batches=sum(batches),
                   samples=0, optimizer_steps=0, loaders=(loader,))  # fmt: skip


def test_what_is_left_is_the_tighter_of_group_and_machine() -> None:
    assert left(machine()) is None
    assert left(machine(memory_total=100, memory_free=40)) == (100, 40)
    assert left(machine(memory_total=100, memory_free=40, memory_limit=50, memory_limited=45)) == (50, 5)
    assert left(machine(memory_total=100, memory_free=4, memory_limit=50, memory_limited=20)) == (100, 4)
    assert left(machine(memory_total=100, memory_free=40, memory_limit=50, memory_limited=60)) == (50, 0)


def test_growth_that_is_sure_takes_what_is_left_in_time() -> None:
    assert due(process(100, 100), 800.0, [GROWS]) == pytest.approx(100.0)
    assert due(process(100, 100), 800.0, [GROWS, GROWS, None, LEVELS_OFF]) == pytest.approx(50.0)
    assert due(process(100, 100), 800.0, [LEVELS_OFF, None]) is None


def test_in_its_first_pass_a_dataset_may_keep_what_it_reads() -> None:
    assert first_pass_left(process(40)) == pytest.approx(60.0)
    assert due(process(40), 800.0, [GROWS]) is None  # it is over before the memory is
    assert due(process(40), 80.0, [GROWS]) == pytest.approx(10.0)
    assert first_pass_left(process(40, samples=None)) == math.inf


def test_a_first_pass_that_is_over_explains_growth_until_as_much_of_the_loop_lies_behind_it() -> None:
    assert due(process(100, complete=True), 800.0, [GROWS]) is None
    assert due(process(100, 20), 800.0, [GROWS]) is None
    assert due(process(100, 100, 20), 800.0, [GROWS]) == pytest.approx(100.0)


def test_what_is_allocated_once_is_no_growth_however_flat_the_rest_rises() -> None:
    """All of 500 MB in the first second of a minute, and a few pages in each of the others."""
    warmed_up = Trend(rate=4e4, low=3e4, high=9e6, first=1e8, last=6e8, seconds=60.0)
    assert not grows(warmed_up)
    assert grows(replace(warmed_up, rate=8e6, low=7e6))
    assert not grows(replace(warmed_up, rate=8e6, low=7e6, seconds=4.0))
    assert not grows(None)
