"""Every epoch starts its DataLoader workers anew and pays for it.

What it sees: the time to build the iterator, until its first batch and to shut its workers down, once per epoch; or
once per batch, where each comes from an iterator of its own (`next(iter(loader))` in the loop). How much longer the
rounds after a start take than later ones, for fresh workers are slow, and the training beside them. And whether the
epochs share one DataLoader, or each of them has one that was built for it.

Why it matters: workers that are forked (or worse, spawned) each epoch import, open files and fill the queue again,
while the device waits. Short epochs pay most.

What to do: `persistent_workers=True`. It keeps the workers of one DataLoader: where each epoch builds its own (for a
curriculum, another subset, another fold), build one before the epochs, and let its sampler choose what is drawn.
Where each batch has its own iterator: make one before the loop, and a new one only when it is exhausted.

When it is wrong: when a dataset changes between epochs in the main process (`set_epoch` on the dataset, a growing
buffer): persistent workers keep the old copy. Their random states go on instead of starting anew, so augmentations
differ. And where there is nothing to build a DataLoader of before the epoch, for its samples are made just then.

Sources: `torch.utils.data.DataLoader`, `persistent_workers`; pytorch issue 15849.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import MOSTLY, TINY, mean
from gputune.core.finding import Finding, Speedup
from gputune.features import Epoch, Features, Loader, Process
from gputune.model.minimum_samples import single
from gputune.model.prediction import ERROR, Outlook, Setting, interval, outlooks
from gputune.model.replay import DELIVERY_S
from gputune.verdict.effects import of_workers

CHECKLIST = ("data loading",)

LEAST_EPOCHS = 3  # below it, a restart is no habit
COPIED = 0.7  # of a step: what copying the pages shared since a fork, and beginning cold, took at the most


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        training = [loader for loader in process.loaders if loader.training]
        if len(training) == 1 and training[0].num_workers and single(training[0]) and process.loop > 0:
            yield _of_batches(run, process, training[0])
    for outlook in outlooks(run):
        loader = outlook.loader
        epochs = [e for e in loader.epochs if e.batches]
        # most of the epochs: if more of them build a DataLoader of their own, that is what is to change
        rebuilt = sum(e.fresh for e in epochs) > MOSTLY * len(epochs)
        lasting = loader.persistent_workers and not rebuilt
        if loader.num_workers and not lasting and len(epochs) >= LEAST_EPOCHS:
            yield _finding(outlook, epochs, rebuilt=rebuilt)


def _finding(outlook: Outlook, epochs: list[Epoch], *, rebuilt: bool) -> Finding:
    loader = outlook.loader
    speedup = outlook.gain(Setting(loader.num_workers, outlook.now.prefetch, persistent=True, once=rebuilt))
    each = outlook.starting(loader.num_workers)
    length = sum(e.seconds for e in epochs) / len(epochs)
    effect = of_workers(loader, loader.num_workers, persistent=True)
    builds = " builds a DataLoader of its own and" if rebuilt else ""
    once = "one DataLoader for all epochs and " if rebuilt else ""
    return Finding(
        id="worker-restart",
        says=(
            f"each of {len(epochs)} epochs{builds} pays {each:.2g} s to start and stop {loader.num_workers} workers, "
            f"and lasts {length:.2g} s in all"
        ),
        do=_advice(rebuilt=rebuilt, persistent=loader.persistent_workers),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="the measured start of workers, its first rounds and their shut-down, paid once instead of every epoch",
        falsified_by=f"samples/s with {once}persistent_workers=True below x{speedup.low:.2f} of this run's",
        effect="changes-order" if rebuilt and effect == "same-order" else effect,  # by another sampler then
        evidence={
            "epochs": len(epochs),
            "built": sum(e.fresh for e in epochs),
            "restart_s": each,
            "epoch_s": length,
            "num_workers": loader.num_workers,
        },
        where=loader.where,
        change={} if rebuilt else {"persistent_workers": True},  # no setting keeps the workers of one that is gone
    )


def _advice(*, rebuilt: bool, persistent: bool) -> str:
    if not rebuilt:
        return "set persistent_workers=True"
    build = "build the DataLoader once, before the epochs"
    sampler = "what differs between epochs goes into its sampler"
    if persistent:
        return f"{build}: persistent_workers=True ends with each DataLoader; {sampler}"
    return f"{build}, with persistent_workers=True, which alone keeps no worker here; {sampler}"


def _of_batches(run: Features, process: Process, loader: Loader) -> Finding:
    """Return the finding of a loop in which each batch has an iterator, and so workers, of its own."""
    now = process.loop / loader.batches
    paid = mean(e.start + e.first_wait + e.shutdown for e in loader.epochs if e.batches)
    speedup = _with_one_iterator(run, loader, now, paid)
    return Finding(
        id="worker-restart",
        says=(
            f"each batch comes from a new iterator, which takes {paid:.2g} s to start {loader.num_workers} workers, "
            f"wait for a first batch and stop them: {min(1.0, paid / now):.0%} of the loop"
        ),
        do="make one iterator before the loop (`batches = iter(loader)`), and a new one only when it is exhausted",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="the loop without the measured start, first wait and shut-down, at the pace of workers no longer new",
        falsified_by=f"samples/s with one iterator for the whole loop below x{speedup.low:.2f} of this run's",
        effect="changes-order",
        evidence={
            "iterators": len(loader.epochs),
            "restart_s": paid,
            "batch_s": now,
            "num_workers": loader.num_workers,
        },
        where=loader.where,
    )


def _with_one_iterator(run: Features, loader: Loader, now: float, paid: float) -> Speedup:
    """Return what it buys to pay `paid` of the `now` s a batch only once.

    The loop is as fast then as its steps or its workers. After a
    fork the training copies each page that it writes to, for it shares them with its workers. How much of a step that
    takes, none of this loop shows: likely is the geometric mean of nothing and the most.
    """
    making, working = mean(f.wall for f in loader.fetches), mean(f.cpu for f in loader.fetches)
    cpus = max(TINY, run.machine.cpus / run.machine.ranks)
    own = max(0.0, now - paid)

    def gain(copied: float) -> float:
        each = own - copied + DELIVERY_S
        return now / max(TINY, min(now, max(each, making / loader.num_workers, (each + working) / cpus)))

    found = interval(gain(0.0), 2 * ERROR)
    if loader.start_method != "fork":
        return found
    most = gain(COPIED * own)
    return replace(found, likely=math.sqrt(found.likely * most), high=max(found.high, most * (1 + ERROR)))
