"""Run as a script beside a workload's `train.py`: measures settings, one JSON line a visit, in one process.

`sweep_cell.py SECONDS < settings`: a JSON object of DataLoader's settings a line. Starts of workers count for the time
that a visit takes, and not for its rate. `error` is the relative standard error of the rate, of its parts; `stolen` the
share of the CPU time wanted meanwhile, on all CPUs, that the host of a virtual machine gave to others.
"""

import json
import math
import statistics
import sys
import time
import warnings
from itertools import pairwise

import torch

WARM_UP, LEAST = 5, 24  # batches
PARTS = 10


def ticks() -> tuple[int, int]:
    """Return the machine's CPU time that was used, and that was stolen, in ticks."""
    with open("/proc/stat") as file:  # noqa: PTH123 - as quick as can be
        counts = [int(word) for word in file.readline().split()[1:]]
    return counts[0] + counts[1] + counts[2] + counts[5] + counts[6], counts[7]


def visit(settings: dict[str, object], seconds: float) -> tuple[float, float, float]:
    """Return (samples/s, their relative standard error, s that it took) of one setting."""
    import train  # noqa: PLC0415 - the workload, in the current folder

    began = time.perf_counter()
    loader = train.build(**settings)
    workers, prefetch = int(str(settings.get("num_workers", 0))), int(str(settings.get("prefetch_factor") or 0))
    skip = max(WARM_UP, workers * prefetch + 2)
    ends: list[float] = []
    samples = 0
    batches = iter(loader)
    for number, batch in enumerate(batches):
        now = time.perf_counter()
        if number >= skip:
            ends.append(now)
            samples += len(batch) if number > skip else 0
            if now - ends[0] >= seconds and len(ends) > LEAST:
                break
        train.step(batch)
    rate = samples / (ends[-1] - ends[0])
    del batches  # its workers end here
    return rate, error(ends), time.perf_counter() - began


def error(ends: list[float]) -> float:
    """Return the relative standard error of the mean of the rates of parts of equally many batches."""
    edges = [ends[(len(ends) - 1) * part // PARTS] for part in range(PARTS + 1)]
    lengths = [(len(ends) - 1) * (part + 1) // PARTS - (len(ends) - 1) * part // PARTS for part in range(PARTS)]
    rates = [length / (end - begin) for length, (begin, end) in zip(lengths, pairwise(edges), strict=True)]
    return statistics.stdev(rates) / statistics.fmean(rates) / math.sqrt(PARTS)


def main() -> None:
    """Measure what stands on stdin."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # the grid goes beyond what torch advises
    for line in sys.stdin:
        settings = json.loads(line)
        before = ticks()
        rate, unsure, took = visit(settings, float(sys.argv[1]))
        used, stolen = (after - then for after, then in zip(ticks(), before, strict=True))
        found = {"settings": settings, "rate": rate, "error": unsure, "took": took}
        print(json.dumps({**found, "stolen": stolen / max(1, used + stolen)}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, ".")
    main()
