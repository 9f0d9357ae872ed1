"""Making the batches needs more CPU than this job has: more workers cannot help.

What it sees: CPU seconds per batch, measured in the workers, against the CPUs that the job may use; the loop waits
for batches, and the model finds no number of workers that would end it.

Why it matters: the CPUs set the pace of the training; the device waits for them.

What to do: make a batch cheaper. Decode and resize once, offline; use faster decoders (libjpeg-turbo, DALI or nvJPEG
on the device), fewer or cheaper transforms, transforms on whole batches on the device; or take more CPUs per device.

When it is wrong: when the CPUs are full of something else (then `busy-host` is the cause), or when the time is in a
library that could use its threads better.

Sources: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (prep stalls).
"""

from collections.abc import Iterator

from gputune.features import Features
from gputune.finding import Finding, Speedup
from gputune.prediction import Outlook, outlooks
from gputune.workload import entangled

CHECKLIST = ("preprocessing", "2.1")

WAITING = 0.05  # of the loop in next(): below it, there is nothing to win
SATURATED = 0.75  # of the job's CPUs needed at the present pace: above it they are the limit, give or take bursts
LEAST_LEFT = 0.25  # of the CPUs: so much comes to a job by its turns, however many others want to run
OTHERS = 0.2  # cores used by others: from here on it is said
QUEUED = 0.3  # of the time of making a batch without a CPU: from here on it matters what others use
HELPED = 1.05  # what more workers must promise for them to be the better advice


def _left(run: Features, outlook: Outlook) -> float:
    """Return the CPUs that others leave to the job; all of them where it is not for others that batches wait."""
    if outlook.queued < QUEUED:
        return outlook.job.cpus
    return max(LEAST_LEFT * outlook.job.cpus, outlook.job.cpus - (run.machine.others or 0.0) / run.machine.ranks)


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        left = _left(run, outlook)
        needed = (outlook.making_wanted + outlook.step_cpu) / left
        full = needed / outlook.per_batch if outlook.per_batch else 0.0
        if outlook.waiting < WAITING or full < SATURATED or entangled(run, outlook.loader):
            continue  # threads that stand in each other's way burn CPU that no batch needs
        workers, _persistent, more = outlook.best_workers()
        if workers > outlook.loader.num_workers and more.likely >= HELPED:
            continue
        if outlook.now.workers and outlook.best_prefetch()[1].likely >= HELPED:
            continue  # there is time to make batches in, between the bursts
        bound = outlook.without_waiting()
        half = outlook.with_cheaper_batches(0.5)
        taken = f" (others use {outlook.job.cpus - left:.2g} of them)" if left < outlook.job.cpus - OTHERS else ""
        yield Finding(
            id="heavy-preprocessing",
            says=(
                f"a batch takes {outlook.making_cpu * 1e3:.3g} ms of CPU to make and the {outlook.job.cpus:g} CPUs of "
                f"this job{taken} are {min(1.0, full):.0%} full; the loop waits {outlook.waiting:.0%} of its time, and "
                "more workers cannot help"
            ),
            do="make batches cheaper: decode and resize offline, fewer or cheaper transforms, or decode on the GPU",
            share_lost=1 - 1 / bound.likely,
            speedup=Speedup(
                low=min(half.low, bound.likely),
                likely=bound.likely,
                high=max(bound.high, bound.likely),
                steady=min(half.steady, bound.likely),
            ),
            basis="low: CPU per batch halved; likely: batches prepared offline, so that the loop never waits",
            falsified_by="the same wait with a dataset that returns one prepared batch again and again",
            effect="identical",
            evidence={
                "waiting": outlook.waiting,
                "batch_cpu_s": outlook.making_cpu,
                "step_cpu_s": outlook.step_cpu,
                "cpus": run.machine.cpus,
                "cpus_full": full,
                "cpus_others": outlook.job.cpus - left,
            },
            where=outlook.loader.where,
        )
