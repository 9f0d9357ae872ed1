"""Batches that wait the longer the more others are being made stand in one line; those that do not, by themselves.

Pools are played on a clock of their own, one worker being late now and then: how they wait is known there.
"""

import heapq
import math
import random
from types import SimpleNamespace

import pytest

from gputune.features import Fetch
from gputune.gathering.in_flight import in_flight
from gputune.model.company import Company, company

NS = 1_000_000_000
BATCH_S, THINKS_S, SECONDS = 0.05, 0.001, 20.0


def pool(workers: int, unlike: float, late: int, seed: int, *, line: bool) -> list[tuple[int, int]]:
    """Return when batches were made in 20 s, of which each takes 50 ms and varies by `unlike`; `late`: worker 0 is.

    In a `line` they are made one at a time, in the order in which they were begun.
    """
    drawn = random.Random(seed)
    sigma = math.sqrt(math.log(1 + unlike * unlike))
    free, spans = 0.0, []
    events = [(drawn.random() * 0.01, worker) for worker in range(workers)]
    heapq.heapify(events)
    due = [SECONDS * (number + 1) / (late + 1) for number in range(late)]
    while events[0][0] < SECONDS:
        now, worker = heapq.heappop(events)
        if worker == 0 and due and now >= due[0]:
            due.pop(0)
            heapq.heappush(events, (now + BATCH_S * (workers if line else 1) / 2, worker))
            continue
        began = max(now, free) if line else now
        ended = began + drawn.lognormvariate(math.log(BATCH_S) - sigma * sigma / 2, sigma)
        free = ended
        spans.append((int(now * NS), int(ended * NS)))
        heapq.heappush(events, (ended + THINKS_S, worker))
    return spans


def judged(spans: list[tuple[int, int]], workers: int, ranks: int = 1) -> Company | None:
    kept = spans[workers:]  # the first of each is warm-up
    meanwhile, ahead = in_flight(kept, spans)
    fetches = tuple(Fetch(wall=(t1 - t0) / NS, cpu=0.0, queued=0.0, collate=0.0, samples=8) for t0, t1 in kept)
    loader = SimpleNamespace(fetches=fetches, in_flight=meanwhile, ahead=ahead, worker_threads=1, num_workers=workers)
    machine = SimpleNamespace(ranks=ranks, cpus=8)
    return company(SimpleNamespace(loader=loader, run=SimpleNamespace(machine=machine)))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("unlike", [0.02, 0.2])
@pytest.mark.parametrize("late", [1, 2, 4])
def test_it_is_told_from_one_worker_that_is_late(workers: int, unlike: float, late: int) -> None:
    lines = [judged(pool(workers, unlike, late, seed, line=True), workers) for seed in range(20)]
    apart = [judged(pool(workers, unlike, late, seed, line=False), workers) for seed in range(20)]
    assert sum(found is not None and found.least > 0.5 for found in lines) >= 12  # of two unlike ones it is not sure
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
    loader = SimpleNamespace(fetches=(fetch,) * 40, in_flight=(), ahead=(), worker_threads=1, num_workers=1)
    loop = SimpleNamespace(loader=loader, run=SimpleNamespace(machine=SimpleNamespace(ranks=1, cpus=8)))
    assert company(loop) is None  # type: ignore[arg-type]
