"""The training waits for batches, and more DataLoader workers would make them in time.

What it sees: the share of the loop spent in `next()`, how long one batch takes to make (measured inside the worker
that makes it, its CPU time and its blocked time apart) and how long the training's own step takes.

Why it matters: while the training waits in `next()`, the device has nothing to do.

What to do: set `num_workers` to the number named. It is the smallest one that the model finds about as good as any,
for the CPUs that this job may use (affinity, cgroup quota, ranks on the node) and the room in /dev/shm.

When it is wrong: when the storage cannot serve more readers at once than it does now, when the dataset serialises its
workers by a lock, or when each worker's memory does not fit. An `IterableDataset` that does not share its samples out
among the workers returns each of them once a worker: the finding says so unless the dataset asked `get_worker_info()`.

Sources: `torch.utils.data` documentation, "Single- and Multi-process Data Loading"; the model is `gputune/replay.py`.
"""

from collections.abc import Iterator

from gputune.effects import of_workers
from gputune.features import Features
from gputune.finding import Finding, Speedup
from gputune.prediction import Outlook, outlooks
from gputune.rivals import CLOSE

CHECKLIST = ("data loading", "1.4")

WAITING = 0.05  # of the loop in next(): below it, no loader setting can give back five percent


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.waiting < WAITING:
            continue
        workers, persistent, speedup = outlook.best_workers()
        if workers > outlook.loader.num_workers and not _only_ordered(outlook, speedup):
            yield _finding(outlook, workers, speedup, persistent=persistent)


def _only_ordered(outlook: Outlook, more: Speedup) -> bool:
    """Return whether the workers there are make enough, and about as much is won by taking batches as they come.

    More workers would only lengthen the queue behind a slow batch, each with a share of the memory.
    """
    loader = outlook.loader
    if (
        loader.num_workers < 2
        or outlook.making > loader.num_workers * outlook.stepping
        or not max(loader.early, default=0)
    ):
        return False
    return outlook.out_of_order().likely * CLOSE >= more.likely


def _finding(outlook: Outlook, workers: int, speedup: Speedup, *, persistent: bool) -> Finding:
    loader = outlook.loader
    making = outlook.making
    keep = persistent and not loader.persistent_workers
    return Finding(
        id="few-workers",
        says=(
            f"the loop waits {outlook.waiting:.0%} of its time for batches: one takes {making * 1e3:.3g} ms to make, "
            f"a step {outlook.stepping * 1e3:.3g} ms, and num_workers is {loader.num_workers}"
        ),
        do=f"set num_workers={workers}{', persistent_workers=True' if keep else ''}",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="DataLoader replayed over the measured times of its batches and steps, within the CPUs of this job",
        falsified_by=f"samples/s with num_workers={workers} below x{speedup.low:.2f} of this run's",
        effect=of_workers(loader, workers, persistent=persistent),
        evidence={
            "waiting": outlook.waiting,
            "batch_s": making,
            "batch_cpu_s": outlook.making_cpu,
            "step_s": outlook.stepping,
            "num_workers": loader.num_workers,
            "cpus": outlook.run.machine.cpus,
        },
        where=loader.where,
        change={"num_workers": workers, **({"persistent_workers": True} if keep else {})},
    )
