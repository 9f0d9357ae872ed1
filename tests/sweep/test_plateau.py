"""Beside a setting that is believed to have enough stands one with plenty, and between them lies the way."""

import itertools
from types import SimpleNamespace

from gputune.sweep.choosing import SettingStats
from gputune.sweep.plateau import ample, between, beyond, deeper
from gputune.sweep.settings import LoaderSetting, setting


def of(workers: int, prefetch: int = 2, *, pin: bool = False, persistent: bool = False) -> LoaderSetting:
    return setting(workers, prefetch, pin_memory=pin, persistent=persistent, batch_size=8)


GRID = [of(0), *(of(n, p) for n, p in itertools.product((1, 2, 3, 4, 5, 6, 8, 10), (2, 4, 8, 16)))]


def test_plenty_is_about_twice_the_workers_and_a_queue_that_a_visit_sees_run_dry() -> None:
    assert ample(of(4), GRID, 100.0) == of(8, 8)
    assert ample(of(2), GRID, 100.0) == of(5, 16)
    assert ample(of(0), GRID, 100.0) == of(2, 16)
    assert ample(of(4, 16), GRID, 10.0) == of(8, 8)  # no shorter a queue than it has


def test_what_there_is_no_room_for_is_not_plenty() -> None:
    assert ample(of(4), [s for s in GRID if s.num_workers <= 5 and s.queue <= 20], 100.0) == of(5, 4)
    assert ample(of(10, 16), GRID, 100.0) is None
    assert ample(of(0), [of(0)], 100.0) is None


def test_plenty_differs_in_workers_and_queue_alone() -> None:
    found = ample(of(4, pin=True), [*GRID, of(5, 4, pin=True), of(8, 4, pin=True, persistent=True)], 100.0)
    assert found == of(5, 4, pin=True)


def test_the_way_is_a_longer_queue_first_and_more_workers_then() -> None:
    assert between(of(4), of(8, 8), GRID) == [of(4, 4), of(4, 8), of(5, 8), of(6, 8)]
    assert between(of(4, 16), of(8, 8), GRID) == [of(5, 8), of(6, 8)]
    assert between(of(0), of(2, 4), GRID) == [of(1, 4)]
    assert between(of(4), of(4, 4), GRID) == []


def test_nothing_is_held_against_what_is_as_fast_as_with_batches_that_cost_nothing() -> None:
    profile = SimpleNamespace(most=lambda _: 100.0, batch=8.0, ranks=1, rate=lambda _: 100.0)
    enough, short = (SettingStats(setting=of(4), noise=0.005, visits=[[rate] * 10]) for rate in (99.5, 95.0))
    assert beyond(profile, {of(4): enough}, GRID, of(4)) is None
    assert beyond(profile, {of(4): short}, GRID, of(4)) == of(8, 2)  # 0.8 s of batches are ten
    unknown = SimpleNamespace(**{**vars(profile), "most": lambda _: None})
    assert beyond(unknown, {of(4): enough}, GRID, of(4)) == of(8, 2)


def test_a_queue_is_long_where_that_is_for_nothing() -> None:
    def room(most: int) -> SimpleNamespace:
        limits = SimpleNamespace(trifling=lambda s: s.queue <= most)
        return SimpleNamespace(batch=8.0, ranks=1, rate=lambda _: 800.0, limits=limits)  # 80 batches in 0.8 s

    assert deeper(room(1000), GRID, of(4)) == of(4, 16)
    assert deeper(room(1000), GRID, of(6)) == of(6, 8)  # a visit sees no more run dry
    assert deeper(room(20), GRID, of(4)) == of(4, 4)
    assert deeper(room(0), GRID, of(4)) == of(4)
    assert deeper(room(1000), GRID, of(0)) == of(0)
