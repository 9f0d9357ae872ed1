"""How long a host takes to hand a batch of two tensors from one process to another, as a DataLoader's workers do.

A training without workers shows nothing of it, and hosts differ several times. So it is measured: with what Python has
of it (a queue, a thread that gives file descriptors away, shared memory), between two processes of ours, once the
command is over and nobody is disturbed; and not where workers were seen, which have shown it.
"""

import contextlib
import mmap
import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from multiprocessing.reduction import DupFd
from statistics import median
from time import perf_counter
from typing import Any

from gputune.sample import Note, Reading, Target, Ticks, Unavailable

PERIOD = 1.0  # s
METRICS = ()
ROUNDS, COLD = 9, 2  # batches, and those of them that are left out: the first one starts threads
TENSORS, SIZE = 2, 1 << 13  # pieces of a batch, and bytes of each
DEADLINE = 1.0  # s for one of them


def attach(target: Target) -> Ticks:
    """Say nothing until the command is over; then measure, unless workers were seen."""
    alone = True
    while alone and (target.proc / str(target.root_pid)).exists():
        alone = "worker" not in target.pids().values()
        yield []
    yield measured() if alone else []
    while True:
        yield []


def measured() -> list[Reading]:
    """Return the median of some batches that lay ready. Raises Unavailable where none can be handed over."""
    fork = multiprocessing.get_context("fork")
    try:
        batches = fork.Queue()
        asked, asks = fork.Pipe(duplex=False)
        maker = fork.Process(target=_make, args=(batches, asked), daemon=True)
        maker.start()
    except OSError as reason:
        raise Unavailable(f"no batch can be handed over here ({reason.strerror})") from reason
    try:
        took = [_taken(batches, asks) for _ in range(ROUNDS)]
    except (OSError, EOFError) as reason:
        raise Unavailable(f"no batch can be handed over here ({reason})") from reason
    finally:
        maker.kill()
        maker.join()
        for end in (asked, asks):
            end.close()
        batches.close()
    return [Note(-1, {"n": "handover", "us": round(median(took[COLD:]) * 1e6, 1)})]


def _make(batches: "Queue[Any]", asked: Connection) -> None:
    """Put a batch into the queue each time that one is asked for. It is kept until the next one is."""
    made: list[int] = []
    while asked.recv_bytes():
        for descriptor in made:
            os.close(descriptor)
        made = [_shared() for _ in range(TENSORS)]
        batches.put([(DupFd(descriptor), SIZE) for descriptor in made])


def _shared() -> int:
    descriptor = os.memfd_create("gputune")
    os.ftruncate(descriptor, SIZE)
    with mmap.mmap(descriptor, SIZE) as memory:
        memory[:] = bytes(SIZE)
    return descriptor


def _taken(batches: "Queue[Any]", asks: Connection) -> float:
    """Return the s that it takes to get a batch that lies ready. Raises EOFError where none comes."""
    asks.send_bytes(b"1")
    if not batches._reader.poll(DEADLINE):  # type: ignore[attr-defined] # waits, and takes nothing
        raise EOFError("its maker does not answer")
    began = perf_counter()
    for shared, size in batches.get(timeout=DEADLINE):
        descriptor = shared.detach()
        with contextlib.closing(mmap.mmap(descriptor, size)) as memory:
            os.close(descriptor)
            memory[0]
    return perf_counter() - began
