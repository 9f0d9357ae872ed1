"""More workers want to run than this job has CPUs: they stand in each other's way, and in the training's.

What it sees: the time that workers were runnable but had no CPU (`/proc/PID/schedstat`), against the CPUs that this
job may use: affinity, cgroup quota, ranks on the node. `os.cpu_count()` shows none of these.

Why it matters: beyond the CPUs, a worker adds no batches, but takes time to start, memory, caches, and turns at the
CPU that the training's own thread needs to feed the device. Small batches and short steps pay most: with fewer workers,
or none, nobody takes turns. Then the number is named that the replay finds as good as any, among those that a sweep
tries.

What to do: set `num_workers` to the number named. Where workers use threads of their own (OpenMP, BLAS, OpenCV), set
these to one (`OMP_NUM_THREADS=1`, `cv2.setNumThreads(0)`).

What foreign processes take of the CPUs is no crowd of workers (`busy-host`): of the time without a CPU their share of
the CPU time is left out.

When it is wrong: where many foreign processes get little of the CPUs: they count as few.

Sources: Lightning issues 15572 and 18723 (advice blind to cpusets and ranks); the model is `gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding, Speedup
from gputune.features import Features
from gputune.model.prediction import Outlook, Setting, outlooks
from gputune.model.strangers import relieved
from gputune.verdict.effects import of_workers

CHECKLIST = ("data loading", "1.4")

CROWDED = 1.5  # runnable workers per CPU: below it, one more worker only fills the others' gaps
QUEUED = 0.3  # of the time of making a batch spent without a CPU: below it, nobody stands in the way much


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        loader = outlook.loader
        fits = outlook.fitting_workers()
        if loader.num_workers >= max(2, CROWDED * fits) and outlook.queued_for_own >= QUEUED:
            yield _finding(outlook, fits)
            continue
        fewer = outlook.fewer_workers()
        if fewer is not None:
            yield _more_than_needed(outlook, *fewer)


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
        do=f"set num_workers={workers}",
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
