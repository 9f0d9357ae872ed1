"""Locks between processes in the making of a batch: how long they are held and waited for, and nothing stays behind."""

from collections.abc import Callable
from typing import Any

from gputune.core.events import FetchCode, Kind, Record

CODE = """
import multiprocessing, threading, time, torch
from multiprocessing.synchronize import SemLock
from torch.utils.data import DataLoader

BEFORE = (SemLock.__enter__, SemLock.__exit__)
LOCK = KIND

class Locked:
    def __len__(self):
        return 192
    def __getitem__(self, i):
        with LOCK:
            time.sleep(0.002)
        return i

if __name__ == "__main__":
    for x in DataLoader(Locked(), batch_size=4, num_workers=WORKERS):
        assert (SemLock.__enter__, SemLock.__exit__) == BEFORE
"""


def script(kind: str = "multiprocessing.Lock()", workers: int = 0) -> str:
    return CODE.replace("KIND", kind).replace("WORKERS", str(workers))


def told(run: Any, kind: Kind = Kind.LOCKED) -> list[Record]:
    return [r for process in (run.main, *run.workers) for r in run.records(kind, process)]


def test_in_one_process_a_lock_is_held_and_nobody_waits_for_it(watched: Callable[..., Any]) -> None:
    run = watched(script()).healthy()
    seen = told(run)
    assert len(seen) == len(told(run, Kind.READS)) >= 5
    for record in seen:
        assert 8_000_000 <= record.a <= record.t1 - record.t0
        assert record.b < 1_000_000_000
        assert (record.c, record.code) == (4, FetchCode.INLINE)


def test_workers_wait_for_each_other(watched: Callable[..., Any]) -> None:
    seen = told(watched(script(workers=2)).healthy())
    assert {record.code for record in seen} == {0}
    assert sum(record.b for record in seen) > 0.2 * sum(record.a for record in seen) > 0


def test_a_lock_that_is_entered_twice_is_held_once(watched: Callable[..., Any]) -> None:
    code = script("multiprocessing.RLock()").replace("        with LOCK:\n", "        with LOCK, LOCK:\n")
    for record in told(watched(code).healthy()):
        assert (record.c, record.code) == (4, FetchCode.INLINE)
        assert record.a <= record.t1 - record.t0


def test_locks_of_threads_are_none_of_other_processes(watched: Callable[..., Any]) -> None:
    assert told(watched(script("threading.Lock()")).healthy()) == []
