"""How a batch that is made reaches the training: what that takes of it and of its maker, and how late it may be.

A batch may take long to arrive because CPUs are crowded, because its maker holds the GIL, or because the training stood
still. What is left is the price of handing it over, which other settings do not change.
"""

import math
from collections.abc import Sequence
from statistics import median

from gputune.core.figures import mean
from gputune.features import Loader, Machine
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_SAMPLED
from gputune.model.replay import DELIVERY_S

STACKED_S = 0.0002  # s to stack the samples of a small batch to tensors, or to pick them out of one
COPY_RATE = 6e9  # B/s at which a batch passes shared memory
STACK_RATE = 2e9  # B/s at which large samples are stacked, into memory that is new to the process
GOTTEN_S = 0.0002  # s in which next() takes what a thread of its process has pinned (measured: 0.15 to 0.6 ms)
PICKED = 0.2  # of the CPU time of a next(): where the batch sampler took more, what is left is told by too few steps


def usual_of(machine: Machine) -> float:
    """Return the s that a small batch takes to pass the queue of a loader that has shown none, on this machine.

    As measured once the run was over (probes/handover.py), else as known of torch.
    """
    # torch's loader takes 1.75 times as long as Python by itself to hand over two tensors (measured: 1.7, 1.8)
    return DELIVERY_S if machine.handover is None else 1.75 * machine.handover


def delivery_of(loader: Loader, usual: float = DELIVERY_S) -> float:
    """Return the s that it takes the training to get a batch that is ready: unpickling, opening its memory.

    Where a thread pins the batches, that is none of it: what it hands on is only picked up.
    Else what a quarter of the batches took at the most that lay ready and whose makers did nothing else meanwhile, and
    no less than the training's own CPU time: threads are woken for each tensor on either side. Where there are too few
    of them that CPU time, for what lay ready is late as well where its maker holds the interpreter; where it is not
    known, that of batches that lay ready; from when their makers let go of it, where most held it up; else a low
    quartile of all arrivals, or what a small batch `usual`ly takes.
    """
    if loader.pins:
        return median(loader.gets) if len(loader.gets) >= LEAST_BATCHES else GOTTEN_S
    if not math.isinf(getting := getting_of(loader)):
        return max(getting, _quartile(loader.smooth)) if len(loader.smooth) >= LEAST_BATCHES else getting
    if len(loader.ready) >= LEAST_BATCHES:
        return min(_awaited(loader), median(loader.ready))
    if _held_up(loader):
        return median(loader.after)
    if len(loader.deliveries) >= LEAST_BATCHES:
        return _quartile(loader.deliveries)
    delivery = usual + (loader.batch_bytes or 0) / COPY_RATE
    return min(delivery, loader.delivery) if loader.num_workers and loader.waits else delivery


def _quartile(seconds: Sequence[float]) -> float:
    """Return what a quarter of these did not exceed: in most of the others somebody stood in line for a CPU."""
    return sorted(seconds)[len(seconds) // 4]


def taking_of(loader: Loader) -> float:
    """Return the s that it takes the thread which pins batches to get one that is made: the same, in another thread."""
    if len(loader.ready) >= LEAST_BATCHES:
        return median(loader.ready)
    return median(loader.after) if _held_up(loader) else mean(pin.unpacking for pin in loader.pins)


def _awaited(loader: Loader) -> float:
    """Return what half of all batches took to come at the most, those left out that had come before they were due."""
    waits = loader.for_batches
    if len(loader.early) == len(waits):
        waits = tuple(wait for wait, early in zip(waits, loader.early, strict=True) if early <= 0)
    return median(waits) if len(waits) >= LEAST_BATCHES else math.inf


def _held_up(loader: Loader) -> bool:
    """Return whether most batches come when their makers let go of the interpreter."""
    return len(loader.after) > max(LEAST_BATCHES, len(loader.hindered), len(loader.unhindered))


def hand_over_of(loader: Loader) -> float:
    """Return the s that it takes whoever gets batches from the workers to get one that is made."""
    return taking_of(loader) if loader.pins else delivery_of(loader)


def unhindered_of(loader: Loader) -> float:
    """Return the s in which a batch would arrive if its maker held nothing up; endless where that is not known."""
    return getting_of(loader)


def late_of(loader: Loader, delivery: float) -> float:
    """Return the s that a batch takes longer to come, as long as its maker is at work on another one.

    Their mean, where each is as likely to end at any moment: all of the time that such handovers took over the number
    of those that ended before the maker was done. Where it holds the GIL for good, hardly any do.
    """
    if len(loader.hindered) + len(loader.freed) < LEAST_SAMPLED:
        return 0.0
    usual = max(delivery, mean(loader.unhindered)) if len(loader.unhindered) >= LEAST_SAMPLED else delivery
    waited = sum(max(0.0, taken - usual) for taken in loader.hindered) + sum(loader.freed)
    return waited / max(1, len(loader.hindered))


def getting_of(loader: Loader) -> float:
    """Return the CPU s of the training thread in a next(), endless where it was not measured or another thread gets it.

    A batch may take long to arrive because its maker holds the GIL: the training stands still for that.
    With `pin_memory` another thread gets the batches; with a slow batch sampler most of that time is the sampler's, and
    without workers it is what making the batch takes.
    """
    if len(loader.next_cpus) < LEAST_SAMPLED or loader.pin_memory or not loader.num_workers:
        return math.inf
    cpu, picking = mean(loader.next_cpus), mean(loader.picks)
    return cpu - picking if picking <= PICKED * cpu else math.inf
