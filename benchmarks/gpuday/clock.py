"""Part 3, the device's clock: what gputune says of its computing in a step, against what that takes without gputune.

The truth is how long the device takes for a step that was queued before it began, by events around it. Between two
kernels it waits a microsecond for the next one, which CUPTI's sum of kernels leaves out: of 728 tiny ones on an H100 a
third of what gputune had. That sum is the truth where the host waits within a step; of a simulated card what it booked.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from gpuday.check import Check, Failed, Step, held, told
from gpuday.day import TRACE, Day, objects

BAR = 5.0  # %
SECONDS = "5"
KINDS = {
    "device": "a device that is always behind",
    "tiny": "tiny kernels: the host is the limit",
    "item": "`.item()` each step",
    "pageable": "pageable copies",
    "pinned": "pinned copies",
    "starved": "starved by its loader",
}
WORK = ("K", "kernel", "memset")


def booked(lines: Iterable[str], t0: int, t1: int) -> float:
    """Return the ns of work, copies left out, that a simulated card's trace books between two ns of the host's clock.

    Its lines are `K QUEUED START TOOK NAME`, or `kernel CARD STREAM START END NAME BYTES`.
    """
    total = 0
    for line in lines:
        words = line.split()
        if len(words) < 5 or words[0] not in WORK:
            continue
        start, took = (
            (int(words[2]), int(words[3])) if words[0] == "K" else (int(words[3]), int(words[4]) - int(words[3]))
        )
        if t0 <= start < t1:
            total += took
    return float(total)


def of(kind: str) -> Callable[[Day], Iterator[Check]]:
    """Return the step that holds one kind of training against its truth."""

    def made(day: Day) -> Iterator[Check]:
        true = truths(day).get(
            kind, {"error": "the run that tells the truth of all kinds failed: log.txt has its words"}
        )
        if "error" in true:
            raise Failed(str(true["error"]))
        compute = true["compute"]
        environment = {"GPU_DAY_SECONDS": SECONDS, **({TRACE: ""} if TRACE in os.environ else {})}
        _, run, _ = day.watched(f"clock-{kind}", day.training(kind), **environment)
        said = day.told(run)
        kernels = f"; its kernels alone {true['kernels'] / 1e6:.3f} ms" if "kernels" in true else ""
        yield told(f"{kind}: computing in a step, in truth", "ms", compute / 1e6, KINDS[kind] + kernels)
        if said["compute"] is None:
            raise Failed(f"gputune knows {said['known']} of {said['parts']} parts of the step ({said['steps']} timed)")
        note = f"gputune {said['compute'] / 1e6:.3f} ms, {said['parts']} parts seen {said['seen']} times or more"
        yield held(f"{kind}: error of it", "%", 100 * (said["compute"] / compute - 1), BAR, note)

    return made


def truths(day: Day) -> dict[str, dict[str, Any]]:
    """Return what is true of each kind, or its error, of one run that tells it of all."""
    kept, trace = day.out / "work" / "truths.json", day.out / "work" / "truths.trace"
    kept.parent.mkdir(exist_ok=True)
    if not kept.exists():
        kept.write_text("{}")  # once: what fails as a whole fails for each of them
        run = day.run(day.training(",".join(KINDS), "--truth"), **({TRACE: str(trace)} if day.simulated else {}))
        found = {row.pop("kind"): row for row in objects(run)}
        for row in found.values():
            if day.simulated and "error" not in row:
                row["compute"] = _traced(trace, row)
        kept.write_text(json.dumps(found))
    told_of: dict[str, dict[str, Any]] = json.loads(kept.read_text())
    return told_of


def _traced(trace: Path, true: dict[str, float]) -> float:
    with trace.open() as lines:
        compute = booked(lines, int(true["t0"]), int(true["t1"])) / true["steps"]
    if not compute:
        raise Failed("the simulated card's trace has no work of these steps")
    return compute


STEPS = tuple(Step((f"{kind}: computing in a step, in truth", f"{kind}: error of it"), 20, of(kind)) for kind in KINDS)
