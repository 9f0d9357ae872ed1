"""Run as a script beside a workload's `train.py`: measures settings, one JSON line a visit, in one process.

`sweep_cell.py SECONDS < settings`: a JSON object of DataLoader's settings a line. Starts of workers count for the time
that a visit takes, and not for its rate.
"""

import json
import sys
import time
import warnings

import torch

WARM_UP, LEAST = 5, 24  # batches


def visit(settings: dict[str, object], seconds: float) -> tuple[float, float]:
    """Return (samples/s, s that it took) of one setting."""
    import train  # noqa: PLC0415 - the workload, in the current folder

    began = time.perf_counter()
    loader = train.build(**settings)
    workers, prefetch = int(str(settings.get("num_workers", 0))), int(str(settings.get("prefetch_factor") or 0))
    skip = max(WARM_UP, workers * prefetch + 2)
    first, samples = 0.0, 0
    batches = iter(loader)
    for number, batch in enumerate(batches):
        now = time.perf_counter()
        if number == skip:
            first = now
        elif number > skip:
            samples += len(batch)
            if now - first >= seconds and number - skip >= LEAST:
                break
        train.step(batch)
    rate = samples / (now - first)
    del batches  # its workers end here
    return rate, time.perf_counter() - began


def main() -> None:
    """Measure what stands on stdin."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")  # the grid goes beyond what torch advises
    for line in sys.stdin:
        settings = json.loads(line)
        rate, took = visit(settings, float(sys.argv[1]))
        print(json.dumps({"settings": settings, "rate": rate, "took": took}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, ".")
    main()
