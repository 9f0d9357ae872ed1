"""Run as a script beside a workload's `train.py`: trains until a file `stop` is there, then writes when batches came.

`times.json` is the list of their moments, s of the monotonic clock.
"""

import json
import sys
import time
from pathlib import Path

import torch


def loop() -> None:
    """Train on the workload's batches."""
    import train  # noqa: PLC0415 - the workload, in the current folder

    times = []
    for batch in train.build():
        times.append(time.monotonic())
        train.step(batch)
        if len(times) % 10 == 0 and Path("stop").exists():
            break
    Path("times.json").write_text(json.dumps(times))


if __name__ == "__main__":
    sys.path.insert(0, ".")
    torch.set_num_threads(1)
    loop()
