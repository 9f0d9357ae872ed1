"""Batches that were made by themselves, out of what the training says of them and their makers of their making."""

import pytest

from gputune.core.events import DelayCode, Kind, Record
from gputune.gathering.alone import Lone

MS = 1_000_000


def lone(index: int, t0: int, t1: int) -> Record:
    return Record(kind=Kind.DELAY, code=DelayCode.LONE, t0=t0 * MS, t1=t1 * MS, a=1, b=index, d=0, e=0, c=0)


def batch(index: int) -> Record:
    return Record(kind=Kind.BATCH, code=0, t0=0, t1=0, a=1, b=index, d=0, e=0, c=0)


def fetch(t0: int, t1: int) -> Record:
    return Record(kind=Kind.FETCH, code=0, t0=t0 * MS, t1=t1 * MS, a=0, b=0, d=0, e=0, c=0)


@pytest.mark.parametrize("first", ["makers", "training"])
def test_a_making_is_found_whoever_speaks_first(first: str) -> None:
    told = Lone()
    made = [fetch(10, 14), fetch(20, 23)]
    for index, (t0, t1) in enumerate([(9, 15), (19, 24)]):
        if first == "makers":
            told.made(made[index], 1)
        told.lone(lone(index, t0, t1))
        told.batch(batch(index), 4 * MS, 0)
    if first == "training":
        for record in made:
            told.made(record, 1)
    assert told.told is not None
    assert told.told.makings == (0.004, 0.003)
    assert told.told.waits == (0.006, 0.005)
    assert told.told.steps == (0.004,)


def test_a_batch_of_another_iterator_or_of_another_time_is_none() -> None:
    told = Lone()
    told.lone(lone(0, 9, 15))
    told.batch(batch(0), 0, 0)
    told.lone(lone(1, 16, 22))
    told.batch(batch(1), MS, 0)
    told.made(fetch(10, 14), 2)
    told.made(fetch(8, 12), 1)
    told.made(fetch(20, 23), 1)
    assert told.told is None


def test_a_step_counts_between_two_such_batches_and_without_a_pause_in_it() -> None:
    told = Lone()
    told.lone(lone(0, 0, 1))
    told.made(fetch(0, 1), 1)
    told.batch(batch(0), 9 * MS, 0)  # others were made beside this one
    told.lone(lone(1, 5, 6))
    told.batch(batch(1), 4 * MS, 0)
    told.lone(lone(2, 90, 91))
    told.batch(batch(2), 80 * MS, 70 * MS)  # a checkpoint
    told.batch(batch(3), 7 * MS, 0)
    assert told.told is not None
    assert told.told.steps == (0.004,)


def test_what_others_may_have_idled_is_counted() -> None:
    told = Lone()
    for index, (t0, t1) in enumerate([(0, 5), (9, 13)]):
        told.lone(lone(index, t0, t1))
        told.batch(batch(index), 4 * MS, 0)
    assert told.count == 2
    assert told.idle == pytest.approx(0.013)
