"""The training waits for batches of NVIDIA DALI whose pipeline has fewer threads than there are CPUs.

What it sees: the time in `next()` of DALI's iterators for PyTorch, with how many threads and how deep a queue their
pipelines were built, and the CPUs that the job may use.

Why it matters: what a pipeline does on the host (reading, the Huffman part of a `mixed` decoder) is done by
`num_threads` threads. A queue that is empty each time that it is asked gains nothing from more room.

What to do: build the pipeline with more `num_threads`, as many as there are CPUs for each rank at the most; raise
`prefetch_queue_depth` as well where batches differ in what they take; have the device decode (`device="mixed"`).

When it is wrong: when the wait is for storage, or for what the pipeline does on the device: more threads bring nothing
then. DALI's threads are not looked into, so the gain is what it may be, and its low end is none.

Sources: NVIDIA DALI documentation, "Pipeline" (`num_threads`, `prefetch_queue_depth`, default 2) and "Performance
Tuning"; `nvidia/dali/plugin/pytorch/__init__.py`.
"""

from collections.abc import Iterator

from gputune.core.finding import WAITING, Finding, Speedup
from gputune.features import Features, Loader, Process
from gputune.features.stages import Pipeline
from gputune.model.minimum_samples import enough

CHECKLIST = ("data loading", "1.4", "1.5")

DALI = "dali"


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        for loader in process.loaders:
            pipeline = loader.pipeline
            if loader.training and pipeline is not None and pipeline.framework == DALI:
                yield from _of(run, process, loader, pipeline)


def _of(run: Features, process: Process, loader: Loader, pipeline: Pipeline) -> Iterator[Finding]:
    """Say it of one iterator, where it is waited for and CPUs are left for more threads."""
    waiting = loader.wait_total / process.loop if process.loop else 0.0
    cpus = int(run.machine.cpus / run.machine.ranks)
    if not enough(loader) or waiting < WAITING or not 0 < pipeline.threads < cpus:
        return
    most = 1 / max(0.01, 1 - waiting)  # as long as the loop is no wait, it takes at least what is left
    likely = min(most, cpus / pipeline.threads)
    yield Finding(
        id="slow-dali",
        says=(
            f"the loop waits {waiting:.0%} of its time for batches of DALI, whose pipeline has {pipeline.threads} "
            f"threads on {cpus} CPUs and makes {pipeline.depth} batches ahead"
        ),
        do=(
            f"build the pipeline with num_threads={cpus}; where batches differ in what they take also "
            f"prefetch_queue_depth={2 * max(1, pipeline.depth)}"
        ),
        share_lost=1 - 1 / likely,
        speedup=Speedup(low=1.0, likely=likely, high=most),
        basis="as many times the threads, at most the wait: whether it is threads that it waits for is not known",
        falsified_by=f"the same samples/s with num_threads={cpus}",
        effect="same-order",
        because="which samples a batch holds, its reader decides, and not the threads",
        evidence={"waiting": waiting, "threads": pipeline.threads, "prefetch": pipeline.depth, "cpus": cpus},
        where=loader.where,
        change={"num_threads": cpus},
    )
