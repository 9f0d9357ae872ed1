"""How much memory a job has left, when growth will have taken it, and the words for both."""

import math
from collections.abc import Iterable

from gputune.features import Loader, Machine, Process, Trend


def left(machine: Machine) -> tuple[int, int] | None:
    """Return (limit, what is left of it) in B: of the control group where it has less left than the machine.

    None where neither was measured. Page cache that the kernel would give up first counts as left.
    """
    found = []
    if machine.memory_total is not None and machine.memory_free is not None:
        found.append((machine.memory_total, machine.memory_free))
    if machine.memory_limit is not None and machine.memory_limited is not None:
        found.append((machine.memory_limit, max(0, machine.memory_limit - machine.memory_limited)))
    return min(found, key=lambda pair: pair[1], default=None)


def due(process: Process, room: float, growths: Iterable[Trend | None]) -> float | None:
    """Return the s until all these together have taken `room` B at the pace that is sure, None if they never will.

    A dataset that keeps what it has read grows through the first pass over it and no further. So growth that would not
    reach the end of the memory within the first pass says nothing until the second one.
    """
    rate = sum(max(0.0, growth.low) for growth in growths if growth is not None)
    if rate <= 0:
        return None
    when = room / rate
    return when if when < first_pass_left(process) else None


def first_pass_left(process: Process) -> float:
    """Return the s that the first pass over the training data still takes; endless once it is over or unknown."""
    found = [_left_of_first(x) for x in process.loaders if x.training and x.batches]
    return min(found, default=math.inf)


def _left_of_first(loader: Loader) -> float:
    passes = [epoch for epoch in loader.epochs if epoch.batches]
    if len(passes) != 1 or passes[0].complete or not loader.samples_in_dataset or not loader.batch_size:
        return math.inf
    whole = math.ceil(loader.samples_in_dataset / loader.batch_size)
    return max(0, whole - passes[0].batches) * passes[0].seconds / passes[0].batches


def duration(seconds: float) -> str:
    """Return a time to come, to the two digits that an extrapolation has."""
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit:
            return f"{float(f'{seconds / unit:.2g}'):g} {name}"
    return f"{seconds:.0f} s"
