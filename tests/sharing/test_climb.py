"""The number of copies is found by trying few, from the predicted one up or down."""

from collections.abc import Callable

import pytest

from gputune.sharing.climb import Climb, Halving


def tried(start: int, together: Callable[[int], float], most: int = 16) -> tuple[int, list[int]]:
    """Return the number found and those that were tried."""
    climb, copies, seen = Climb(together(1), most), start, [start]
    while (following := climb.following(copies, together(copies))) is not None:
        copies = following
        seen.append(copies)
        assert len(seen) < 20
    return climb.best()[0], seen


def bound(share: float) -> Callable[[int], float]:
    """Return what copies do together of which one keeps a device busy for `share` of the time."""
    return lambda copies: min(copies, 1 / share)


@pytest.mark.parametrize(
    ("share", "start", "found"),
    [(0.2, 5, 5), (0.3, 4, 4), (0.6, 2, 2), (0.2, 3, 5), (0.5, 2, 2), (0.2, 6, 5)],
)
def test_it_ends_where_the_device_is_full(share: float, start: int, found: int) -> None:
    assert tried(start, bound(share))[0] == found


def test_few_numbers_are_tried() -> None:
    assert len(tried(4, bound(0.3))[1]) <= 3


def test_memory_ends_it_too() -> None:
    assert tried(3, bound(0.1), most=3) == (3, [3])


def test_one_is_best_where_several_hinder_each_other() -> None:
    assert tried(2, lambda copies: 1.0 if copies == 1 else 0.7)[0] == 1


def halved(together: Callable[[int], float], start: int = 8) -> tuple[int, list[int]]:
    """Return the number found, of copies that have the CPUs' threads divided among them, and those tried."""
    climb, copies, seen = Halving(together(1), 16), start, [start]
    while (following := climb.following(copies, together(copies))) is not None:
        copies = following
        seen.append(copies)
    return climb.best()[0], seen


def test_threads_are_split_as_long_as_fewer_copies_of_more_do_more() -> None:
    assert halved(float) == (8, [8, 4])
    assert halved(lambda copies: {1: 3.0, 2: 6.0, 4: 9.0}.get(copies, 7.0)) == (4, [8, 4, 2])
    assert halved(lambda copies: {1: 9.0}.get(copies, 7.0)) == (1, [8, 4])
    assert halved(lambda copies: {1: 5.4, 2: 10.9}[copies], start=2) == (2, [2])
