"""How a batch that is made reaches the training: what that takes of it and of its maker, and how late it may be.

A batch may take long to arrive because CPUs are crowded, because its maker holds the GIL, or because the training stood
still and begins cold. What is left is the price of handing it over, which other settings do not change.
"""

import math
from statistics import median

from gputune.core.figures import TINY, mean
from gputune.features import Features, Loader, Machine, Process
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_SAMPLED
from gputune.model.pause_overhead import chill
from gputune.model.replay import DELIVERY_S

STACKED_S = 0.0002  # s to stack the samples of a small batch to tensors, or to pick them out of one
STACK_RATE = 2e9  # B/s at which large samples are stacked, into memory that is new to the process
COPY_RATE = 6e9  # B/s at which a batch passes shared memory
TORCHS = 1.75  # times what Python itself takes to hand over two tensors that torch's loader does (measured: 1.7, 1.8)
SENDING_S = 0.0008  # CPU s in which a worker passes a small batch on (measured: 0.6 to 1.1 ms)
SENDING_RATE = 1e10  # B/s of a large one (0.95 to 2.1 ms for 6 MB, 2.1 for 13, 2.4 for 18)
AWAITED = 2.0  # times its own CPU time: who takes longer to get a batch waits for a CPU, or for one who holds the GIL
HANDED = 1.5  # times its own CPU time that a training takes to get a batch: the rest its maker hands over each tensor
GOTTEN_S = 0.0002  # s in which next() takes what a thread of its process has pinned (measured: 0.15 to 0.6 ms)
PICKED = 0.2  # of the CPU time of a next(): where the batch sampler took more, what is left is told by too few steps


def usual_of(machine: Machine) -> float:
    """Return the s that a small batch takes to pass the queue of a loader that has shown none, on this machine.

    As measured once the run was over (probes/handover.py), else as known of torch.
    """
    return DELIVERY_S if machine.handover is None else TORCHS * machine.handover


def sending(machine: Machine) -> float:
    """Return the CPU s in which a worker passes a small batch on, on a host that hands batches over as slowly."""
    return SENDING_S * usual_of(machine) / DELIVERY_S


def delivery_of(loader: Loader, usual: float = DELIVERY_S) -> float:
    """Return the s that it takes the training to get a batch that is ready: unpickling, opening its memory.

    Where a thread pins the batches, that is none of it: what it hands on is only picked up.
    As usual for batches that lay ready. Where they never do, or arrive far later than the training's own CPU time
    explains, since CPUs are crowded or their maker holds the GIL: by that time, less what it is longer for being cold;
    from when their makers let go of it, where most of them did.
    Else a low quantile of all arrivals, or what a small batch `usual`ly takes.
    """
    return handover(loader, usual)[0]


def handover(loader: Loader, usual: float = DELIVERY_S) -> tuple[float, float]:
    """Return the s that it takes to get a batch that is ready, and what was taken off them for beginning cold.

    Never more than half of those that were waited for took to come: right after a start of workers many are late.
    """
    if loader.pins:
        return (median(loader.gets) if len(loader.gets) >= LEAST_BATCHES else GOTTEN_S), 0.0
    getting, most = getting_of(loader), _awaited(loader)
    if len(loader.ready) >= LEAST_BATCHES and (lying := min(most, median(loader.ready))) <= AWAITED * getting:
        return lying, 0.0
    if len(loader.after) > max(LEAST_BATCHES, len(loader.hindered), len(loader.unhindered)):
        return _warmed(loader, min(most, median(loader.after)))
    if len(loader.deliveries) >= LEAST_BATCHES:
        low = sorted(loader.deliveries)[len(loader.deliveries) // 4]
        return _warmed(loader, min(most, low)) if math.isinf(getting) else _handed(loader, getting, most)
    delivery = usual + (loader.batch_bytes or 0) / COPY_RATE
    return (min(delivery, loader.delivery) if loader.num_workers and loader.waits else delivery), 0.0


def taking_of(loader: Loader) -> float:
    """Return the s that it takes the thread which pins batches to get one that is made: the same, in another thread.

    It does nothing else, and so never comes to it cold.
    """
    getting = mean(pin.unpacking for pin in loader.pins)
    if len(loader.ready) >= LEAST_BATCHES and (usual := median(loader.ready)) <= AWAITED * getting:
        return usual
    if len(loader.after) > max(LEAST_BATCHES, len(loader.hindered), len(loader.unhindered)):
        return median(loader.after)
    return min(HANDED * getting, median(loader.deliveries)) if loader.deliveries else HANDED * getting


def hand_over_of(loader: Loader) -> float:
    """Return the s that it takes whoever gets batches from the workers to get one that is made."""
    return taking_of(loader) if loader.pins else delivery_of(loader)


def _awaited(loader: Loader) -> float:
    """Return what half of all batches took to come at the most, those left out that had come before they were due."""
    waits = loader.for_batches
    if len(loader.early) == len(waits):
        waits = tuple(wait for wait, early in zip(waits, loader.early, strict=True) if early <= 0)
    return median(waits) if len(waits) >= LEAST_BATCHES else math.inf


def _warmed(loader: Loader, measured: float) -> tuple[float, float]:
    """Return a handover after a wait less its part of what beginning cold costs: the step that follows has the rest."""
    step = mean(loader.steps)
    cold = chill(mean(loader.for_batches) - measured, measured + step) * measured / max(TINY, measured + step)
    return measured - cold, cold


def unhindered_of(loader: Loader) -> float:
    """Return the s in which a batch would arrive if its maker held nothing up; endless where that is not known."""
    getting = getting_of(loader)
    return getting if math.isinf(getting) else _handed(loader, getting)[0]


def _handed(loader: Loader, getting: float, most: float = math.inf) -> tuple[float, float]:
    """Return a handover that takes the training so much CPU time cold: warm, and what was taken off; at the `most`."""
    warm, cold = _warmed(loader, getting)
    return (HANDED * warm, HANDED * cold) if HANDED * warm < most else (most, 0.0)


def sending_of(run: Features, process: Process, loader: Loader) -> float:
    """Return the CPU s in which a worker passes a batch on, beyond making it: pickling, memory, sockets.

    As known of torch, on a host that hands batches over as slowly, and no more than the job computes beside its
    training process and the making of its batches.
    """
    machine = run.machine
    usual = sending(machine) + (loader.batch_bytes or 0) / SENDING_RATE
    if not loader.num_workers or machine.job is None or process.cpu is None or len(run.processes) > 1:
        return usual
    per_batch = mean(loader.waits) + mean(loader.steps)
    beside = max(0.0, machine.job - process.cpu) * per_batch
    return min(usual, max(0.0, beside - mean(fetch.cpu for fetch in loader.fetches)))


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

    A batch may take long to arrive because its maker holds the GIL: the training stands still for that, and gets cold.
    With `pin_memory` another thread gets the batches; with a slow batch sampler most of that time is the sampler's.
    """
    if len(loader.next_cpus) < LEAST_SAMPLED or loader.pin_memory:
        return math.inf
    cpu, picking = mean(loader.next_cpus), mean(loader.picks)
    return cpu - picking if picking <= PICKED * cpu else math.inf
