"""Batches that wait the longer the more others are being made stand in one line; those that do not, by themselves.

Pools are played on a clock of their own, whose workers are late now and then: how they wait is known there.
"""

import heapq
import math
import random
from types import SimpleNamespace
from typing import Any

import pytest

from gputune.features import Fetch
from gputune.gathering.in_flight import in_flight
from gputune.model.company import WaitGrowth, company

NS = 1_000_000_000
BATCH_S, THINKS_S, SECONDS = 0.05, 0.001, 20.0


def pool(workers: int, unlike: float, late: int, seed: int, *, line: bool) -> list[tuple[int, int]]:
    """Return when batches were made in 20 s, of which each takes 50 ms and varies by `unlike`.

    All workers are held up `late` times, as the guest does it, one quarter of them after the other. In a `line` batches
    are made one at a time, in the order in which they were begun.
    """
    drawn = random.Random(seed)
    sigma = math.sqrt(math.log(1 + unlike * unlike))
    free, spans = 0.0, []
    events = [(drawn.random() * 0.01, worker) for worker in range(workers)]
    heapq.heapify(events)
    lasts = BATCH_S * (workers if line else 1)
    moments = [SECONDS * (number + 1) / (late + 1) for number in range(late)]
    due = [[at + worker % 4 * lasts for at in moments] for worker in range(workers)]
    while events[0][0] < SECONDS:
        now, worker = heapq.heappop(events)
        if due[worker] and now >= due[worker][0]:
            due[worker].pop(0)
            heapq.heappush(events, (now + lasts / 2, worker))
            continue
        began = max(now, free) if line else now
        ended = began + drawn.lognormvariate(math.log(BATCH_S) - sigma * sigma / 2, sigma)
        free = ended
        spans.append((int(now * NS), int(ended * NS)))
        heapq.heappush(events, (ended + THINKS_S, worker))
    return spans


class Loop:
    """As much of a loop as is asked for: batches that were made by so many workers, in so much company."""

    def __init__(self, *, ranks: int = 1, **loader: Any) -> None:
        self.loader = SimpleNamespace(worker_threads=1, **loader)
        self.run = SimpleNamespace(machine=SimpleNamespace(ranks=ranks, cpus=8))


def judged(spans: list[tuple[int, int]], workers: int, ranks: int = 1) -> WaitGrowth | None:
    kept = spans[workers:]  # the first of each is warm-up
    meanwhile, ahead = in_flight(kept, spans)
    made = tuple(Fetch(wall=(t1 - t0) / NS, cpu=0.0, queued=0.0, collate=0.0, samples=8) for t0, t1 in kept)
    loop = Loop(ranks=ranks, num_workers=workers, batch_size=8, fetches=made, in_flight=meanwhile, ahead=ahead)
    return company(loop)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("unlike", [0.02, 0.2])
@pytest.mark.parametrize("late", [1, 2, 4])
def test_it_is_told_from_a_moment_at_which_workers_are_late(workers: int, unlike: float, late: int) -> None:
    lines = [judged(pool(workers, unlike, late, seed, line=True), workers) for seed in range(20)]
    apart = [judged(pool(workers, unlike, late, seed, line=False), workers) for seed in range(20)]
    assert sum(found is not None and found.least > 0.5 for found in lines) >= (18 if unlike < 0.1 else 12)
    assert not any(found is None or found.least > 0.5 for found in apart)
    assert sum(found is None or found.most < 0.5 for found in lines) <= 1


def test_of_very_unlike_batches_nothing_false_is_said() -> None:
    apart = [judged(pool(4, 0.6, 2, seed, line=False), 4) for seed in range(40)]
    assert not any(found is None or found.least > 0.5 for found in apart)


def test_the_time_alone_is_where_the_line_ends() -> None:
    found = judged(pool(4, 0.02, 2, 1, line=True), 4)
    assert found is not None
    assert found.share == pytest.approx(1.0, abs=0.05)
    assert found.alone == pytest.approx(BATCH_S, rel=0.1)
    assert found.usual == pytest.approx(4 * BATCH_S, rel=0.05)


def test_without_any_change_of_company_nothing_is_known() -> None:
    found = judged([(n * 100, n * 100 + 50) for n in range(40)], 0)
    assert found is not None
    assert (found.least, found.most) == (0.0, 1.0)


def test_of_ranks_and_of_one_worker_nothing_is_said() -> None:
    assert judged(pool(4, 0.02, 2, 1, line=True), 4, ranks=2) is None
    fetch = Fetch(wall=0.1, cpu=0.0, queued=0.0, collate=0.0, samples=8)
    loop = Loop(num_workers=1, batch_size=8, fetches=(fetch,) * 40, in_flight=(), ahead=())
    assert company(loop) is None  # type: ignore[arg-type]


def test_the_smaller_last_batches_of_parts_are_made_in_less_company_and_say_nothing() -> None:
    whole, last = (Fetch(wall=size / 100, cpu=0.0, queued=0.0, collate=0.0, samples=size) for size in (8, 2))
    fetches, numbers = (whole,) * 40 + (last,) * 8, (4.0,) * 36 + (3.0,) * 4 + (2.0, 1.0) * 4
    loop = Loop(num_workers=4, batch_size=8, fetches=fetches, in_flight=numbers, ahead=tuple(map(int, numbers)))
    found = company(loop)  # type: ignore[arg-type]
    assert found is not None
    assert found.most < 0.1
