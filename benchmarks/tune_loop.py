"""Run as a script beside a workload's `train.py`: trains freely at first, and then in turns.

Freely until a file `stop` is there: `times.json` is the list of the moments at which batches came, s of the monotonic
clock. Then, for each number on stdin, as many batches, whose moments are a line of JSON on stdout; in between it waits.
With settings of its loader as an argument, in JSON, it trains in turns from the beginning.
"""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch


def freely(batches: Iterator[torch.Tensor]) -> None:
    """Train until it is to stop, then write when batches came."""
    times = []
    for batch in batches:
        times.append(time.monotonic())
        step(batch)
        if len(times) % 10 == 0 and Path("stop").exists():
            break
    Path("times.json").write_text(json.dumps(times))


def in_turns(batches: Iterator[torch.Tensor]) -> None:
    """Train on as many batches as stdin says, and say when they came, until stdin ends."""
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            batch = next(batches)
            times.append(time.monotonic())
            step(batch)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, ".")
    from train import build, step  # the workload, in the current folder

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # what was kept may go beyond its advice
    given = iter(build(**(json.loads(sys.argv[1]) if sys.argv[1:] else {})))
    if not sys.argv[1:]:
        freely(given)
    in_turns(given)
