"""How long a host takes to hand a batch of two tensors from one process to another, as a DataLoader's workers do.

A training without workers shows nothing of it, and hosts differ several times. So it is measured: with what Python has
of it (a queue, a thread that gives file descriptors away, shared memory), between two processes of ours, once the
command is over and nobody is disturbed; and not where workers were seen, which have shown it. Where it cannot be
measured, nothing is said: what is known of torch stands in for it.
"""

import subprocess
import sys

from gputune.core import passing
from gputune.core.sample import Note, Reading, Target, Ticks

PERIOD = 1.0  # s
METRICS = ()
DEADLINE = 2.0  # s


def attach(target: Target) -> Ticks:
    """Say nothing until the command is over; then measure, unless workers were seen."""
    alone = True
    while alone and (target.proc / str(target.root_pid)).exists():
        alone = "worker" not in target.pids().values()
        yield []
    yield measured() if alone else []
    while True:
        yield []


def measured(file: str = passing.__file__) -> list[Reading]:
    """Return what `passing` has measured, nothing where it could not."""
    command = [sys.executable, "-I", "-S", file]
    try:
        done = subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE, text=True
        )
        return [Note(-1, {"n": "handover", "us": float(done.stdout)})]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
