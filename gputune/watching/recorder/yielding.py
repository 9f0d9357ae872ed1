"""The recorder gives way to what it watches: while that runs, it has less of a claim to a CPU.

Where a loop is fast its records take the recorder tens of milliseconds of CPU each second, in one go. As an equal of
the training it takes a CPU from it for as long; like this it takes what nobody else wants, and is put off otherwise.

It is a thread of its own that does so, for on Linux each thread has its own priority, and root alone gets back what
it gave away: the verdict is worked out by the first thread, and does not wait behind other jobs of a busy machine.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

WAY = 5  # more of niceness: a third of an equal's share of a CPU that is full. With a tenth, beside a fast loop and
#          other jobs, a recorder that had been stopped for a moment came too late for thousands of records


def apart(work: Callable[[], Result]) -> Result:
    """Do `work`, which raises nothing, in a thread that gives way, and return what it returns."""
    done: list[Result] = []

    def run() -> None:
        with suppress(OSError):
            os.nice(WAY)  # of the thread alone, and of the processes that it starts
        done.append(work())

    thread = threading.Thread(target=run, name="recorder", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads for this user
        return work()
    thread.join()
    return done[0] if done else work()
