"""Making the batches costs what it costs in any setting: more workers cannot help, cheaper batches would.

What it sees: CPU seconds per batch, measured where it is made, against the CPUs that the job may use, at the pace that
the loop would have if nobody else used them; the loop waits for batches, and the model finds no number of workers that
would end it: the CPUs are full, or a batch is made about as fast as a worker could hand it over. Stacks show what
making a batch is made of (decoding, transforms, indexing, collating), and so what each remedy would bring.

Why it matters: the CPUs set the pace of the training; the device waits for them.

What to do: make a batch cheaper. What fits is named with its gain: keep all samples as one tensor, made once and read
by `__getitems__`; index and transform whole batches there, or on the device; decode once and cache that. The last
number is what a loop were worth that never waits for batches. Else decode and resize once, offline; use faster decoders
(libjpeg-turbo, DALI or nvJPEG on the device), fewer or cheaper transforms; or take more CPUs per device.

When it is wrong: when the CPUs are full of something else (then `busy-host` is the cause), or when the time is in a
library that could use its threads better. What comes out of the user's own code is taken for work that needs no doing
again only where a sample takes a fifth of a millisecond or less. What is drawn anew in each pass cannot be kept.

Sources: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (prep stalls);
`torch/utils/data/_utils/fetch.py` (`__getitems__`).
"""

from collections.abc import Iterator, Sequence

from gputune.core.figures import TINY, cpus_of, mean
from gputune.core.finding import WAITING, WORTH_SAYING, Finding, Speedup
from gputune.features import Features
from gputune.model.crowding import for_more_workers, for_these_workers
from gputune.model.prediction import MOST_TIMES, Outlook, outlooks
from gputune.model.remade import cheaper, without_waiting
from gputune.model.remedies import Remedy, remedies, served, shares, told, undisturbed
from gputune.model.strangers import alone
from gputune.model.workload import CROWD, entangled, locked

CHECKLIST = ("preprocessing", "2.1")

SATURATED = 0.75  # of the job's CPUs needed at the pace without others: above it they are the limit, save for bursts
COMPUTES = 0.5  # of making a batch on a CPU: from here on it is no storage that a loop with CPUs left waits for
PARTS, NAMED = 4, 0.01  # parts of what a batch is made of that are named, and their share of it at the least
SAVED = 0.75  # of a batch's CPU time: so much at least goes with work that is done offline, or on the device


def _faster_alone(outlook: Outlook) -> float:
    """Return how much faster the loop would be without others: as its batches stand in line for a CPU, and no more."""
    return max(1.0, min(alone(outlook).likely, 1 / max(TINY, 1 - outlook.queued)))


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.starving < WAITING or entangled(run, outlook.loader) or served(outlook):
            continue  # threads that stand in each other's way burn CPU that no batch needs, and so does a Manager
        others = (run.machine.others or 0.0) / run.machine.ranks
        alone = _faster_alone(outlook) if others >= CROWD else 1.0
        full = (outlook.making_wanted + outlook.step_cpu) / outlook.job.cpus / outlook.per_batch * alone
        if full < SATURATED and (_fill(outlook, others, alone) or not _computes(outlook)):
            continue  # it is the others who fill the CPUs, or nobody does
        workers, _persistent, more = outlook.best_workers()
        if workers > outlook.loader.num_workers and more.likely >= WORTH_SAYING:
            continue
        if for_these_workers(outlook) or for_more_workers(outlook):
            continue  # it is the step's own threads that leave workers no CPU
        if outlook.now.workers and outlook.best_prefetch()[1].likely >= WORTH_SAYING:
            continue  # there is time to make batches in, between the bursts
        yield _finding(outlook, _why(outlook, full, others, alone), {"cpus_full": full, "cpus_others": others})


def _fill(outlook: Outlook, others: float, alone: float) -> bool:
    """Return whether others may be in the way of who makes the batches: of the training itself only as it queues."""
    return others >= CROWD and (outlook.now.workers > 0 or alone >= WORTH_SAYING)


def _computes(outlook: Outlook) -> bool:
    """Return whether batches are computed by who makes them, each maker for itself."""
    return outlook.making_cpu >= COMPUTES * outlook.making and not locked(outlook.loader)[0]


def _why(outlook: Outlook, full: float, others: float, alone: float) -> str:
    """Return why more workers cannot help, as a clause."""
    cpus, are = cpus_of(outlook.job.cpus, outlook.run.machine.ranks)
    if full < SATURATED:
        if not outlook.now.workers:
            handing = f"about {_brief(outlook.job.delivery)} to hand over from a worker"
            return f"{handing}, which takes what workers would save with {cpus} {full:.0%} full"
        return f"{cpus} {are} {full:.0%} full, so that one worker more mostly takes turns with those there and the step"
    if alone >= WORTH_SAYING:
        return f"{cpus} would be {min(1.0, full):.0%} full without the others, who use {others:.2g} of them"
    return f"{cpus} {are} {min(1.0, full):.0%} full"


def _finding(outlook: Outlook, why: str, evidence: dict[str, float]) -> Finding:
    found, bound = remedies(outlook), without_waiting(outlook)
    speedup = _speedup(outlook, found, bound)
    ceiling = max(speedup.likely, _ceiling(outlook))
    return Finding(
        id="heavy-preprocessing",
        says=(
            f"a batch takes {outlook.making_cpu * 1e3:.3g} ms of CPU to make and {why}; "
            f"the loop waits {outlook.starving:.0%} of its time, and more workers cannot help{_parts(outlook)}"
        ),
        do=_advice(found, ceiling),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis=_basis(found),
        falsified_by="the same wait with a dataset that returns one prepared batch again and again",
        effect="unknown",
        because="what is prepared offline stays as it is; other decoders and other transforms make other samples",
        evidence={
            "waiting": outlook.starving,
            "batch_cpu_s": outlook.making_cpu,
            "step_cpu_s": outlook.step_cpu,
            "cpus": outlook.run.machine.cpus,
            **evidence,
            "ceiling": ceiling,
            **{f"remedy.{remedy.name}": remedy.gain.likely for remedy in found},
        },
        where=outlook.loader.where,
    )


def _ceiling(outlook: Outlook) -> float:
    """Return what a loop were worth that never waits for batches, with its steps as they are, or its device's work.

    Without workers with the quickest of its steps: they are to follow each other at once.
    """
    sooner = 0.0 if outlook.now.workers else max(0.0, outlook.stepping - undisturbed(outlook)[1])
    stays = max(outlook.per_batch * (1 - outlook.starving) - sooner, outlook.job.floor)
    return min(MOST_TIMES, outlook.per_batch / max(TINY, stays))


def _parts(outlook: Outlook) -> str:
    """Say what a sample takes, by what is done to it, where stacks tell."""
    if not told(outlook):
        return ""
    samples = mean(f.samples for f in outlook.loader.fetches) or 1.0
    each = outlook.making_cpu / samples
    parts = [f"{name} {share:.0%}" for name, share in shares(outlook).items() if share >= NAMED][:PARTS]
    return f"; a sample takes {_brief(each)}: {', '.join(parts)}"


def _brief(seconds: float) -> str:
    """Return a short time in words: `28 µs`, `2.5 ms`."""
    return f"{seconds * 1e6:.2g} µs" if seconds < 0.99e-4 else f"{seconds * 1e3:.2g} ms"


def _speedup(outlook: Outlook, found: Sequence[Remedy], bound: Speedup) -> Speedup:
    """Return what the best remedy brings; where none is known, from cheaper batches to samples that are prepared."""
    if found:
        best = found[0].gain
        return Speedup(low=best.low, likely=best.likely, high=max(best.high, bound.likely), steady=best.steady)
    least = cheaper(outlook, 1 - SAVED)
    return Speedup(
        low=min(least.low, bound.likely),
        likely=bound.likely,
        high=max(min(bound.high, MOST_TIMES), bound.likely),
        steady=min(least.steady, bound.likely),
    )


def _advice(found: Sequence[Remedy], ceiling: float) -> str:
    """Return what to do: each remedy with its gain, and what a loop that never waits would be worth."""
    if not found:
        return "make batches cheaper: decode and resize offline, fewer or cheaper transforms, or decode on the GPU"
    each = "; or ".join(f"{remedy.do} (x{remedy.gain.likely:.2f})" for remedy in found)
    return f"{each}; at most x{ceiling:.2f}"


def _basis(found: Sequence[Remedy]) -> str:
    if found:
        return "the loop replayed without what each remedy spares of a batch's making, by stacks, with what it takes"
    return f"low: {SAVED:.0%} of a batch's CPU time saved; likely: samples prepared offline, read and collated"
