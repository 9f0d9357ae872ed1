"""Run by itself, as a file: what it takes to get a batch of two small tensors from another process, in us.

The standard library only, in a process of its own: whatever goes wrong here ends with it, and so does what it started.
"""

import mmap
import multiprocessing
import os
import sys
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue
from multiprocessing.reduction import DupFd
from time import perf_counter
from typing import Any

ROUNDS, COLD = 9, 2  # batches, and those of them that are left out: the first one starts threads
TENSORS, SIZE = 2, 1 << 13  # pieces of a batch, and bytes of each
DEADLINE = 0.5  # s for one of them


def main() -> None:
    """Print the lower quartile of some batches that lay ready: others may be at work meanwhile."""
    fork = multiprocessing.get_context("fork")
    batches: Queue[Any] = fork.Queue()
    asked, asks = fork.Pipe(duplex=False)
    maker = fork.Process(target=_make, args=(batches, asked, asks), daemon=True)
    maker.start()
    took = sorted(_taken(batches, asks) for _ in range(ROUNDS))[: ROUNDS - COLD]
    asks.close()  # it ends by itself, and takes away what it has put into a folder for temporary files
    maker.join(DEADLINE)
    sys.stdout.write(f"{took[len(took) // 4] * 1e6:.1f}\n")


def _make(batches: "Queue[Any]", asked: Connection, asks: Connection) -> None:
    """Put a batch into the queue each time that one is asked for, until nobody does. Each is kept until the next is."""
    asks.close()
    made: list[int] = []
    while True:
        try:
            asked.recv_bytes()
        except EOFError:
            return
        for descriptor in made:
            os.close(descriptor)
        made = [_shared() for _ in range(TENSORS)]
        batches.put([(DupFd(descriptor), SIZE) for descriptor in made])


def _shared() -> int:
    descriptor = os.memfd_create("gputune")
    os.ftruncate(descriptor, SIZE)
    with closing(mmap.mmap(descriptor, SIZE)) as memory:
        memory[:] = bytes(SIZE)
    return descriptor


def _taken(batches: "Queue[Any]", asks: Connection) -> float:
    """Return the s that it takes to get a batch that lies ready."""
    asks.send_bytes(b"1")
    if not batches._reader.poll(DEADLINE):  # type: ignore[attr-defined] # waits, and takes nothing
        raise EOFError("no batch came")
    began = perf_counter()
    for shared, size in batches.get(timeout=DEADLINE):
        descriptor = shared.detach()
        with closing(mmap.mmap(descriptor, size)) as memory:
            os.close(descriptor)
            memory[0]
    return perf_counter() - began


if __name__ == "__main__":
    main()
