"""Every epoch starts its DataLoader workers anew and pays for it.

What it sees: the time to build the iterator, until its first batch and to shut its workers down, once per epoch.

Why it matters: workers that are forked (or worse, spawned) each epoch import, open files and fill the queue again,
while the device waits. Short epochs pay most.

What to do: `persistent_workers=True`.

When it is wrong: when a dataset changes between epochs in the main process (`set_epoch` on the dataset, a growing
buffer): persistent workers keep the old copy. Their random states go on instead of starting anew, so augmentations
differ.

Sources: `torch.utils.data.DataLoader`, `persistent_workers`; pytorch issue 15849.
"""

from collections.abc import Iterator

from gputune.features import Features
from gputune.finding import Finding
from gputune.prediction import Setting, outlooks

CHECKLIST = ("data loading",)

LEAST_EPOCHS = 3  # below it, a restart is no habit


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        loader = outlook.loader
        epochs = [e for e in loader.epochs if e.batches]
        if not loader.num_workers or loader.persistent_workers or len(epochs) < LEAST_EPOCHS:
            continue
        speedup = outlook.gain(Setting(loader.num_workers, outlook.now.prefetch, persistent=True))
        each = outlook.starting(loader.num_workers)
        length = sum(e.seconds for e in epochs) / len(epochs)
        yield Finding(
            id="worker-restart",
            says=(
                f"each of {len(epochs)} epochs pays {each:.2g} s to start and stop {loader.num_workers} workers, "
                f"and lasts {length:.2g} s in all"
            ),
            do="set persistent_workers=True",
            share_lost=1 - 1 / speedup.likely,
            speedup=speedup,
            basis="the measured start, first-batch delay and shut-down of workers, paid once instead of every epoch",
            falsified_by=f"samples/s with persistent_workers=True below x{speedup.low:.2f} of this run's",
            effect="changes-order",
            evidence={"epochs": len(epochs), "restart_s": each, "epoch_s": length, "num_workers": loader.num_workers},
            where=loader.where,
            change={"persistent_workers": True},
        )
