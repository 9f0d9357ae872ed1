"""Whose batches are slow, what its part costs a pass, and how they come when parts are shared out."""

from collections import Counter

import pytest

from gputune.features import Fetch, Loader
from gputune.model.replay import Work
from gputune.model.shard_imbalance import heavy_part, in_turn, longest, longest_part, one_by_one, slow_worker


def fetch(worker: int, wall: float) -> Fetch:
    return Fetch(wall=wall, cpu=wall, queued=0.0, collate=0.0, samples=1, worker=worker)


SITES = tuple(fetch(k % 3, 0.1 if k % 3 == 1 else 0.01) for k in range(30))


def stream(*fetches: Fetch, iterable: bool = True) -> Loader:
    return Loader(where="a.py:1", num_workers=3, prefetch_factor=2, pin_memory=False, persistent_workers=False,
                  batch_size=8, iterable=iterable, fetches=fetches)  # fmt: skip


def test_a_worker_that_is_slower_than_all_others_is_named() -> None:
    fetches = [fetch(w, 0.3 if w == 2 else 0.1) for w in range(4) for _ in range(6)]
    assert slow_worker(tuple(fetches)) == (2, pytest.approx(3.0))


def test_slow_samples_that_any_worker_may_get_are_no_slow_worker() -> None:
    fetches = [fetch(w, 1.0 if k == 3 else 0.1) for w in range(4) for k in range(6)]
    assert slow_worker(tuple(fetches)) is None
    assert slow_worker(tuple(fetch(0, 0.1) for _ in range(20))) is None
    assert slow_worker(()) is None


def test_only_an_iterable_dataset_has_parts() -> None:
    assert longest_part(stream(*SITES)) == 1
    assert longest_part(stream(*SITES, iterable=False)) is None
    assert longest_part(stream(*(fetch(k % 3, 0.1) for k in range(30)))) is None
    assert longest_part(stream()) is None


def test_a_part_is_long_by_its_number_of_batches_too_and_not_by_a_single_one() -> None:
    heavy = [fetch(w, 0.1) for w, many in enumerate((20, 4, 4)) for _ in range(many)]
    assert longest_part(stream(*heavy)) == 0
    assert heavy_part(stream(*heavy)) == (0, pytest.approx(20 / 28))
    assert heavy_part(stream(*SITES)) is None  # slow, and as many as the others'
    assert heavy_part(stream(*(fetch(0, 0.1) for _ in range(9)))) == (0, 1.0)  # the others have nothing to read
    single = [fetch(k % 3, 9.0 if k == 4 else 0.1) for k in range(30)]
    assert longest_part(stream(*single)) is None


def test_a_pass_takes_no_less_than_its_slowest_part_alone() -> None:
    works = [Work(0.0, f.wall, disk=0.2) for f in SITES]
    assert longest(stream(*SITES), works) == pytest.approx((0.1 + 0.2) / 3)
    assert longest(stream(*SITES, iterable=False), works) == 0.0


def test_in_turn_each_worker_has_a_share_of_the_longest_part_and_no_two_are_at_it_at_once() -> None:
    dealt = in_turn(SITES)
    assert Counter(f.wall for f in dealt) == Counter(f.wall for f in SITES)
    slow = [k for k, f in enumerate(dealt) if f.wall > 0.05]
    assert Counter(k % 3 for k in slow) == {0: 3, 1: 4, 2: 3}
    assert all(sum(k // 3 == number for k in slow) == 1 for number in range(10))
    assert longest_part(stream(*dealt)) is None  # nobody's any more


def test_one_by_one_all_workers_are_at_the_longest_part_at_once() -> None:
    walls = [f.wall for f in one_by_one(SITES)]
    assert walls == [0.01] * 10 + [0.1] * 10 + [0.01] * 10


def test_parts_of_unequal_length_are_shared_out_to_their_end() -> None:
    unequal = tuple(fetch(worker, 0.1) for worker, count in ((0, 5), (1, 9)) for _ in range(count))
    assert len(in_turn(unequal)) == len(one_by_one(unequal)) == 14
    assert in_turn(()) == one_by_one(()) == ()
