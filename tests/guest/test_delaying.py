"""Workers are held up in the same moments, seldom and briefly, and what that does tells whether they stand in line.

A pool of workers is played on a clock of its own: what makes batches, and how, is known there.
"""

import heapq
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from gputune.core.events import Kind, Record
from gputune.features import Slope
from gputune.gathering.delays import Delays
from tests.guest.conftest import GUEST

MS = 1_000_000
START = 77_123_456_789 * 1000  # ns of the monotonic clock
WORKERS, PREFETCH = 4, 2


def island(name: str, **others: Any) -> Any:
    """Load a module of the guest by itself, with other ones pretended."""
    spec = importlib.util.spec_from_file_location(f"island_{name}", GUEST / "gputune_guest" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    package, words = ModuleType("gputune_guest"), ModuleType("gputune_guest.words")
    vars(package).update(others)
    words.DELAY = int(Kind.DELAY)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "gputune_guest", package)
        patch.setitem(sys.modules, "gputune_guest.words", words)
        spec.loader.exec_module(module)
    return module


class Ring:
    """Passes on what is recorded."""

    now = staticmethod(time.monotonic_ns)

    def __init__(self) -> None:
        self.record: Callable[..., None] = lambda *_: None


RING = Ring()
budget = island("budget")
ranks = ModuleType("ranks")
ranks.told = lambda: (None, None, None)  # type: ignore[attr-defined]
ranks.alone = lambda: True  # type: ignore[attr-defined]
delaying = island("delaying", ring=RING, budget=budget, ranks=ranks)


class Worker:
    """One that makes a batch `made(t)` after it began, as the pool has it."""

    def __init__(self, number: int, shared: bytearray) -> None:
        self.number, self.t, self.slept, self.made = number, START, 0, 0
        self.delays = delaying.Delaying(number, budget.USUAL, shared, lambda: self.t, self._sleep)
        self.delays.heard = lambda: True

    def _sleep(self, seconds: float) -> None:
        self.t += round(seconds * 1e9)
        self.slept += round(seconds * 1e9)


class Pool:
    """Workers of a loader whose batches are delivered in order, and a training that takes `step` ns for each."""

    def __init__(self, step: int) -> None:
        shared = bytearray(32)
        self.workers = [Worker(number, shared) for number in range(WORKERS)]
        self.told = Delays(WORKERS, PREFETCH)
        self.step = step
        self.moments: list[tuple[int, int, int]] = []
        self._now: Worker = self.workers[0]
        RING.record = self._record

    def _record(self, kind: int, code: int, t0: int, t1: int, a: int) -> None:
        assert (kind, code) == (Kind.DELAY, 0)
        self.moments.append((a, self._now.number, t1 - t0))
        self.told.delayed(self._now.number, Record(kind, code, t0, t1, a, 0, 0, 0, 0))

    def run(self, seconds: float, making: Callable[[int], int]) -> None:
        """`making(t)`: when a batch is done that is begun at `t`."""
        ready: dict[int, int] = {}
        queue = {worker.number: [START] * PREFETCH for worker in self.workers}
        began = [(START, worker.number) for worker in self.workers]
        heapq.heapify(began)
        came, number = START, 0
        while came < START + seconds * 1e9:
            while number not in ready:
                t0, who = heapq.heappop(began)
                worker = self._now = self.workers[who]
                worker.t = t0
                worker.delays.before()
                if worker.t > t0:  # others come first meanwhile
                    heapq.heappush(began, (worker.t, who))
                    continue
                worker.t = making(t0)
                worker.delays.after(t0, worker.t)
                ready[worker.made * WORKERS + who] = worker.t
                worker.made += 1
                queue[who].pop(0)
                if queue[who]:
                    heapq.heappush(began, (max(worker.t, queue[who][0]), who))
            came = max(came + self.step, ready.pop(number))
            self.told.came(came)
            who = number % WORKERS
            if not queue[who]:
                heapq.heappush(began, (max(self.workers[who].t, came), who))
            queue[who].append(came)
            number += 1


def alone(seed: int = 1, ms: float = 20) -> Callable[[int], int]:
    """Each batch is made by itself, in 20 ms give or take a tenth."""
    draws = random.Random(seed)
    return lambda t: t + round(draws.gauss(ms, ms / 10) * MS)


class Lock:
    """A batch takes 5 ms under a lock that one worker holds at a time, and 1 ms beside it."""

    def __init__(self, seed: int = 1) -> None:
        self.free, self.draws = START, random.Random(seed)

    def __call__(self, t: int) -> int:
        self.free = max(self.free, t) + round(self.draws.gauss(5, 0.5) * MS)
        return self.free + MS


def found(pool: Pool) -> Slope:
    slope = pool.told.told
    assert slope is not None
    return slope


def test_batches_of_workers_that_set_the_pace_come_later_by_as_much() -> None:
    it = Pool(2 * MS)
    it.run(90, alone())
    slope = found(it)
    assert slope.count >= 10
    assert slope.value == pytest.approx(1, abs=0.3)
    assert slope.error < 0.25
    assert slope.delay == pytest.approx(0.010, rel=0.1)


def test_those_of_workers_that_stand_in_line_do_not() -> None:
    it = Pool(2 * MS)
    it.run(90, Lock())
    slope = found(it)
    assert slope.count >= 10
    assert abs(slope.value) < 0.25
    assert slope.error < 0.2


def test_a_worker_that_is_idle_is_not_held_up() -> None:
    it = Pool(30 * MS)
    it.run(30, alone())
    assert it.moments == []


@pytest.mark.parametrize("making", [alone(), alone(2, 120), Lock()], ids=["short", "long", "line"])
def test_it_costs_no_more_than_its_share(making: Callable[[int], int]) -> None:
    it = Pool(1 * MS)
    it.run(120, making)
    for worker in it.workers:
        in_advance = delaying.EAGER * delaying.PART * worker.delays.usual
        assert 0 < worker.slept <= 1.1 * (budget.USUAL * 120e9 + in_advance) + worker.delays.usual


@pytest.mark.parametrize(("short", "long"), [(20, 200), (5, 100)])
def test_nor_does_a_worker_that_is_slower_than_the_others(short: int, long: int) -> None:
    """It is held up for longer, and as often as they are."""
    it = Pool(1 * MS)
    quick, slow = alone(3, short), alone(4, long)

    def unlike(t: int) -> int:
        return slow(t) if it._now.number == 1 else quick(t)

    it.run(240, unlike)
    in_advance = (1 + delaying.EAGER) * delaying.PART * long * MS
    assert 0 < it.workers[1].slept <= 1.2 * (budget.USUAL * 240e9 + in_advance)


def test_nothing_is_done_while_the_training_thread_is_slowed_down() -> None:
    it = Pool(2 * MS)
    until = START + 20_000 * MS
    delaying._quiet.pack_into(it.workers[0].delays.shared, delaying._layout.size, until)
    it.run(60, alone())
    assert it.moments
    assert min(moment for moment, _, _ in it.moments) >= until


def test_nothing_is_done_in_the_first_second() -> None:
    it = Pool(1 * MS)
    it.run(1, alone(ms=1))
    assert it.moments == []


def test_moments_come_in_no_rhythm_and_all_workers_meet_them() -> None:
    it = Pool(2 * MS)
    it.run(200, alone())
    met: dict[int, list[int]] = {}
    for moment, worker, _length in it.moments:
        met.setdefault(moment, []).append(worker)
    assert sum(sorted(each) == list(range(WORKERS)) for each in met.values()) > 0.8 * len(met)
    apart = [b - a for a, b in pairwise(sorted(met))][delaying.EAGER :]
    assert max(apart) > 2 * min(apart)
    assert min(apart) >= delaying.REST * 15 * MS


@pytest.mark.parametrize(
    ("environ", "workers", "share"),
    [
        ({}, 4, 0.003),
        ({}, 1, None),
        ({"GPUTUNE_GUEST_PERTURB": "0"}, 4, None),
        ({"GPUTUNE_GUEST_PERTURB": "0.01"}, 4, 0.01),
        ({"GPUTUNE_GUEST_PERTURB": "0.5"}, 4, 0.03),
        ({"GPUTUNE_GUEST_PERTURB": "x"}, 4, 0.003),
        ({"GPUTUNE_TRIAL": "{}"}, 4, None),
        ({"GPUTUNE_STEER": "/steer"}, 4, None),
    ],
)
def test_it_is_left_where_times_are_compared_or_somebody_said_no(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], workers: int, share: float | None
) -> None:
    for name in ("GPUTUNE_GUEST_PERTURB", "GPUTUNE_TRIAL", "GPUTUNE_STEER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    delaying.before_workers(("train.py:41", "train.py"), 0)
    assert delaying.of_worker(0, workers) is None  # in the process that forks them
    monkeypatch.setattr(delaying, "_owner", 1)
    found = delaying.of_worker(0, workers)
    assert (found and found.share) == share


def test_workers_of_a_loader_with_a_timeout_or_of_a_rank_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("train.py:41", "train.py")
    delaying.before_workers(place, 1.0)
    monkeypatch.setattr(delaying, "_owner", 1)
    assert delaying.of_worker(0, 4) is None
    delaying.before_workers(place, 0)
    monkeypatch.setattr(delaying, "_owner", 1)
    assert delaying.of_worker(0, 4) is not None
    with monkeypatch.context() as launched:
        launched.setattr(ranks, "told", lambda: (1, 2, 1))
        assert delaying.of_worker(0, 4) is None
    monkeypatch.setattr(ranks, "alone", lambda: False)  # it has joined a group since
    delaying.before_workers(place, 0)
    monkeypatch.setattr(delaying, "_owner", 1)
    assert delaying.of_worker(0, 4) is None


REAL = """
import time, torch
from torch.utils.data import DataLoader
class Slow:
    def __len__(self): return 200
    def __getitem__(self, i):
        time.sleep(0.004)
        return i
if __name__ == "__main__":
    from gputune_guest import delaying
    delaying.FIRST_NS, delaying.REST, delaying.SOONER, delaying.IDLE = 0, 4, 100, 10
    order = [int(x) for x in DataLoader(Slow(), batch_size=1, num_workers=2, OPTIONS)]
    assert order == list(range(200))
"""


@pytest.mark.parametrize(
    ("options", "env", "moments"),
    [
        ("multiprocessing_context='fork'", {}, True),
        ("multiprocessing_context='spawn'", {}, False),
        ("multiprocessing_context='fork', timeout=30", {}, False),
        ("multiprocessing_context='fork'", {"GPUTUNE_GUEST_PERTURB": "0"}, False),
        ("multiprocessing_context='fork'", {"RANK": "0", "WORLD_SIZE": "2"}, False),
    ],
    ids=["forked", "spawned", "timeout", "passive", "rank"],
)
def test_real_workers_meet_the_same_moments(
    watched: Callable[..., Any], options: str, env: dict[str, str], moments: bool
) -> None:
    run = watched(REAL.replace("OPTIONS", options), env=env).healthy()
    said = [line for line in run.err.splitlines() if "resource_tracker" not in line and "warnings.warn" not in line]
    assert (run.out, said) == ("", [])  # of a semaphore Python itself warns, bare too: in 1 of 36 with spawned workers
    found = [[record.a for record in run.records(Kind.DELAY, worker)] for worker in run.workers]
    assert len(found) == 2
    if moments:
        assert len(set(found[0]) & set(found[1])) >= 2
    else:
        assert found == [[], []]
