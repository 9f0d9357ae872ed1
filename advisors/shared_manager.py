"""Samples come from a `multiprocessing.Manager`: one process answers all workers, one pickled call at a time.

What it sees: stacks of a worker (of the training itself without workers) that is inside of a call to a Manager while it
makes a batch, and the line that calls. What the Manager's own process computes for it is what the job uses of the CPUs
beyond training and workers.

Why it matters: each look-up is a message to another process and back, pickled on both sides, and the Manager is one
Python with one interpreter: what looks like a dictionary in shared memory is a server that all stand in line for, and
that takes a CPU of its own.

What to do: where the data is only read, plain dictionaries and arrays, made before the workers start: forked workers
share their memory. Tensors (`share_memory_()`), `numpy.memmap` and `multiprocessing.shared_memory` can be written, too.
A cache that each worker fills for itself needs no server either.

When it is wrong: when workers have to see what others write, and nothing else can carry it.

Sources: Python's documentation, "multiprocessing", Managers and "Sharing state between processes".
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import TINY, mean
from gputune.core.finding import HALF, Finding, Speedup
from gputune.features import SERVED, Features
from gputune.model.prediction import Outlook, outlooks
from gputune.model.remedies import served
from gputune.model.replay import LoopSeries, Work

CHECKLIST = ("data loading", "1.4")


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if share := served(outlook):
            yield _finding(outlook, share)


def _finding(outlook: Outlook, share: float) -> Finding:
    first = next(doing for doing in outlook.process.making if doing.kind == SERVED)
    computed = _computed(outlook)
    speedup = _gain(outlook, share, computed)
    beside = f", which itself computes {computed * 1e3:.2g} ms for it" if computed else ""
    place = f", mostly at {first.where}" if first.where else ""
    makers = "workers are" if outlook.now.workers else "the training is"
    return Finding(
        id="shared-manager",
        says=(
            f"{makers} inside of calls to a multiprocessing.Manager for {share:.0%} of the time in which they make a "
            f"batch{place}{beside}"
        ),
        do=(
            "hold what is only read in plain dictionaries and arrays made before the workers start (they share them), "
            "what is written in shared tensors or a memory map"
        ),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis="the loop with what the Manager computes for it, replayed without these calls; low: with half of that",
        falsified_by=f"samples/s with a plain dictionary in its place below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={
            "share": share,
            "stacks": float(outlook.process.making_stacks),
            "batch_s": outlook.making,
            "manager_cpu_s": computed,
            "waiting": outlook.waiting,
        },
        where=first.where,
    )


def _computed(outlook: Outlook) -> float:
    """Return the CPU s for each batch that the job uses beyond training and workers; 0 where that is not measured."""
    machine, process = outlook.run.machine, outlook.process
    if machine.job is None or machine.ranks > 1 or not outlook.loader.batches:
        return 0.0
    return max(0.0, machine.job * process.loop / outlook.loader.batches - outlook.step_cpu - outlook.making_cpu)


def _gain(outlook: Outlook, share: float, computed: float) -> Speedup:
    """Return what it buys to make batches without these calls.

    While a maker waits for an answer somebody computes it on a CPU that nobody else has: the loop as it is, with that,
    is compared with the loop without. At the low end half of it is the Manager's. A maker queues for a CPU where it has
    given its own away, and that is in these calls: what stacks show of that is no work; at the high end all of it is.
    """
    queued = mean(f.queued for f in outlook.loader.fetches) / max(TINY, mean(f.wall for f in outlook.loader.fetches))

    def without(work: Work, share: float) -> Work:
        gone = share * (work.cpu + work.blocked)
        waiting = min(work.blocked, gone)
        return replace(work, cpu=max(0.0, work.cpu - (gone - waiting)), blocked=work.blocked - waiting)

    def beside(seconds: float) -> Outlook:
        def by_it(work: Work) -> Work:
            part = min(work.blocked, seconds)
            return replace(work, cpu=work.cpu + part, blocked=work.blocked - part)

        return outlook.altered(replace(outlook.job, fetches=tuple(map(by_it, outlook.job.fetches))))

    def then(share: float) -> LoopSeries:
        return replace(outlook.job, fetches=tuple(without(work, share) for work in outlook.job.fetches))

    working = max(0.0, share - queued) / max(TINY, 1 - queued)
    # half of what the job computes beside training and workers is surely for these calls
    all_of_it, half = (beside(seconds).gain(outlook.now, then(working)) for seconds in (computed, HALF * computed))
    return replace(all_of_it, high=max(all_of_it.high, outlook.gain(outlook.now, then(share)).likely)).down_to(half)
