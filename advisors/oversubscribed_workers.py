"""More workers want to run than this job has CPUs: they stand in each other's way, and in the training's.

What it sees: the time that workers were runnable but had no CPU (`/proc/PID/schedstat`), against the CPUs that this
job may use: affinity, cgroup quota, ranks on the node. `os.cpu_count()` shows none of these.

Why it matters: beyond the CPUs, a worker adds no batches, but takes time to start, memory, caches, and turns at the
CPU that the training's own thread needs to feed the device. Small batches and short steps pay most: with fewer workers,
or none, nobody takes turns. Then the number is named that the replay finds as good as any, among those that a sweep
tries. Where it could be tried (docs/experiments.md, "drain"), what is promised of no workers at all was measured: a few
batches were made, and a few steps worked, while nobody worked on anything else, as they would be then.

What to do: set `num_workers` to the number named. Where workers use threads of their own (OpenMP, BLAS, OpenCV), set
these to one (`OMP_NUM_THREADS=1`, `cv2.setNumThreads(0)`).

What foreign processes take of the CPUs is no crowd of workers (`busy-host`): of the time without a CPU their share of
the CPU time is left out.

When it is wrong: where many foreign processes get little of the CPUs: they count as few.

Sources: Lightning issues 15572 and 18723 (advice blind to cpusets and ranks); the model is `gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.figures import mean
from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Loader
from gputune.model.prediction import Outlook, Setting, outlooks
from gputune.model.strangers import relieved
from gputune.verdict.effects import of_workers

CHECKLIST = ("data loading", "1.4")

CROWDED = 1.5  # runnable workers per CPU: below it, one more worker only fills the others' gaps
QUEUED = 0.3  # of the time of making a batch spent without a CPU: below it, nobody stands in the way much


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        loader = outlook.loader
        if outlook.no_workers is not None:
            yield from _in_turns(outlook)
            continue
        fits = outlook.fitting_workers()
        if loader.num_workers >= max(2, CROWDED * fits) and outlook.queued_for_own >= QUEUED:
            yield _finding(outlook, fits)
            continue
        fewer = outlook.fewer_workers()
        if fewer is not None:
            yield _more_than_needed(outlook, *fewer)


def _in_turns(outlook: Outlook) -> Iterator[Finding]:
    """Yield the finding on workers that cost more than they spare, where that was tried."""
    loader, speedup = outlook.loader, outlook.no_workers
    if speedup is None or loader.alone is None:
        return
    makings, steps = loader.alone.makings, loader.alone.steps
    yield Finding(
        id="oversubscribed-workers",
        says=(
            f"{_workers(loader.num_workers)} more than {'it spares' if loader.num_workers == 1 else 'they spare'}: "
            "with nobody else in the way a batch takes "
            f"{mean(makings) * 1e3:.3g} ms to make and a step {mean(steps) * 1e3:.3g} ms, and a round takes "
            f"{outlook.per_batch * 1e3:.3g} ms now: the rest is handing over, and turns at the CPUs"
        ),
        do=_do(loader, 0),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=(
            f"measured in this run: {len(makings)} batches while nobody made another, and {len(steps)} steps while "
            "nobody made any, in turn, against its rounds; both began after a wait, without which they take less"
        ),
        falsified_by=f"samples/s with num_workers=0 below x{speedup.low:.2f} of this run's",
        effect=of_workers(loader, 0, persistent=False),
        evidence={
            "num_workers": loader.num_workers,
            "batch_alone_s": mean(makings),
            "step_alone_s": mean(steps),
            "batches_alone": len(makings),
            "round_s": outlook.per_batch,
            "cpus": outlook.job.cpus,
        },
        where=loader.where,
        change={"num_workers": 0},
    )


def _workers(count: int) -> str:
    return "the one worker costs" if count == 1 else f"{count} workers cost"


def _do(loader: Loader, workers: int) -> str:
    """Say which number to set; without workers torch refuses some other settings."""
    lasting = loader.persistent_workers and not workers
    return f"set num_workers={workers}{', persistent_workers=False' if lasting else ''}"


def _finding(outlook: Outlook, fits: int) -> Finding:
    loader = outlook.loader
    speedup = relieved(outlook, Setting(fits, outlook.now.prefetch, outlook.now.persistent))
    threads = loader.worker_threads or 1
    return Finding(
        id="oversubscribed-workers",
        says=(
            f"{loader.num_workers} workers{f' of {threads} threads' if threads > 1 else ''} share {outlook.job.cpus:g} "
            f"CPU{'' if outlook.job.cpus == 1 else 's'}: {outlook.queued:.0%} of the time in which they make a batch, "
            "they wait for a CPU"
        ),
        do=f"set num_workers={fits}" + (", and one thread in each" if threads > 1 else ""),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis=(
            "threads that wait for each other burn CPU as if they worked: only the lower end is of this run, the work "
            "replayed with as many workers as there are CPUs for; the rest is what such threads have cost elsewhere"
            if speedup.at_least
            else "the work replayed with as many workers as there are CPUs for, against the loop as measured"
        ),
        falsified_by=f"samples/s with num_workers={fits} below x{speedup.low:.2f} of this run's",
        effect=of_workers(loader, fits, persistent=loader.persistent_workers),
        evidence={
            "queued": outlook.queued,
            "num_workers": loader.num_workers,
            "cpus": outlook.job.cpus,
            "batch_cpu_s": outlook.making_cpu,
            "threads": threads,
        },
        where=loader.where,
        change={"num_workers": fits, **({"worker_threads": 1} if threads > 1 else {})},
    )


def _more_than_needed(outlook: Outlook, workers: int, speedup: Speedup) -> Finding:
    """Return the finding on workers that make no batch earlier, or cost the training more than they spare it."""
    loader = outlook.loader
    return Finding(
        id="oversubscribed-workers",
        says=(
            f"{loader.num_workers} workers on {outlook.job.cpus:g} CPU{'' if outlook.job.cpus == 1 else 's'} cost more "
            f"than they spare: a batch takes {outlook.making_cpu * 1e3:.3g} ms of CPU to make, a step "
            f"{outlook.stepping * 1e3:.3g} ms, and taking turns and handing over come on top"
        ),
        do=_do(loader, workers),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis="DataLoader replayed over the measured times of its batches and steps, within the CPUs of this job",
        falsified_by=f"samples/s with num_workers={workers} below x{speedup.low:.2f} of this run's",
        effect=of_workers(loader, workers, persistent=loader.persistent_workers),
        evidence={
            "queued": outlook.queued,
            "num_workers": loader.num_workers,
            "batch_s": outlook.making,
            "step_s": outlook.stepping,
            "cpus": outlook.job.cpus,
        },
        where=loader.where,
        change={"num_workers": workers},
    )
