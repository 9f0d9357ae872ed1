"""Making the batches needs more CPU than this job has: more workers cannot help.

What it sees: CPU seconds per batch, measured in the workers, against the CPUs that the job may use, at the pace that
the loop would have if nobody else used them; the loop waits for batches, and the model finds no number of workers that
would end it.

Why it matters: the CPUs set the pace of the training; the device waits for them.

What to do: make a batch cheaper. Decode and resize once, offline; use faster decoders (libjpeg-turbo, DALI or nvJPEG
on the device), fewer or cheaper transforms, transforms on whole batches on the device; or take more CPUs per device.

When it is wrong: when the CPUs are full of something else (then `busy-host` is the cause), or when the time is in a
library that could use its threads better.

Sources: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (prep stalls).
"""

from collections.abc import Iterator

from gputune.features import Features
from gputune.figures import TINY
from gputune.finding import Finding, Speedup
from gputune.prediction import MOST, Outlook, outlooks
from gputune.workload import CROWD, entangled

CHECKLIST = ("preprocessing", "2.1")

WAITING = 0.05  # of the loop in next(): below it, there is nothing to win
SATURATED = 0.75  # of the job's CPUs needed at the pace without others: above it they are the limit, save for bursts
HELPED = 1.05  # what more workers must promise for them to be the better advice, or the end of others to be said
SAVED = 0.75  # of a batch's CPU time: so much at least goes with work that is done offline, or on the device


def _faster_alone(outlook: Outlook) -> float:
    """Return how much faster the loop would be without others: as its batches stand in line for a CPU, and no more."""
    return max(1.0, min(outlook.alone().likely, 1 / max(TINY, 1 - outlook.queued)))


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.starving < WAITING or entangled(run, outlook.loader):
            continue  # threads that stand in each other's way burn CPU that no batch needs
        others = (run.machine.others or 0.0) / run.machine.ranks
        alone = _faster_alone(outlook) if others >= CROWD else 1.0
        full = (outlook.making_wanted + outlook.step_cpu) / outlook.job.cpus / outlook.per_batch * alone
        if full < SATURATED:
            continue  # it is the others who fill the CPUs
        workers, _persistent, more = outlook.best_workers()
        if workers > outlook.loader.num_workers and more.likely >= HELPED:
            continue
        if outlook.now.workers and outlook.best_prefetch()[1].likely >= HELPED:
            continue  # there is time to make batches in, between the bursts
        bound = outlook.without_waiting()
        least = outlook.with_cheaper_batches(1 - SAVED)
        filled = f"are {min(1.0, full):.0%} full"
        if alone >= HELPED:
            filled = f"would be {min(1.0, full):.0%} full without the others, who use {others:.2g} of them"
        yield Finding(
            id="heavy-preprocessing",
            says=(
                f"a batch takes {outlook.making_cpu * 1e3:.3g} ms of CPU to make and the {outlook.job.cpus:g} CPUs of "
                f"this job {filled}; the loop waits {outlook.starving:.0%} of its time, and more workers cannot help"
            ),
            do="make batches cheaper: decode and resize offline, fewer or cheaper transforms, or decode on the GPU",
            share_lost=1 - 1 / bound.likely,
            speedup=Speedup(
                low=min(least.low, bound.likely),
                likely=bound.likely,
                high=max(min(bound.high, MOST), bound.likely),
                steady=min(least.steady, bound.likely),
            ),
            basis=f"low: {SAVED:.0%} of a batch's CPU time saved; likely: samples prepared offline, read and collated",
            falsified_by="the same wait with a dataset that returns one prepared batch again and again",
            effect="unknown",
            because="what is prepared offline stays as it is; other decoders and other transforms make other samples",
            evidence={
                "waiting": outlook.starving,
                "batch_cpu_s": outlook.making_cpu,
                "step_cpu_s": outlook.step_cpu,
                "cpus": run.machine.cpus,
                "cpus_full": full,
                "cpus_others": others,
            },
            where=outlook.loader.where,
        )
