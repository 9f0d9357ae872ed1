"""The first epoch reads its files from disk; later ones find them in the page cache and are faster.

What it sees: for each epoch, how many of the bytes that its batches ask for come from storage (`/proc/PID/io`), how
long the making of a batch is blocked, and how long the epoch takes. After one epoch only: whether the data set fits
into the memory that is free.

Why it matters: it is paid once. In a long training it is nothing; in a short one, or one of a single epoch, it can be
most of the waiting, and a benchmark of the first minutes is wrong about all that follows.

What to do: nothing, where many epochs follow. Else read the files once before the training, while the device is not yet
held (`cat FILES > /dev/null`, `vmtouch -t`), in as many processes as the disk serves.

When it is wrong: when the files leave the page cache again, because other programs need the memory: then the second
epoch is as slow as the first, and the cause is `slow-storage`.

Sources: proc_pid_io(5); Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021, which compares
cold and cached runs to tell fetch stalls; vmtouch(8).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gputune.core.figures import size, standard_error
from gputune.core.finding import Finding, Speedup
from gputune.features import Epoch, Features
from gputune.model.prediction import ERROR, Outlook, interval, outlooks
from gputune.model.storage import NOTABLE, Demand, cached, data_set, demand, mounts, returns

CHECKLIST = ("data loading", "1.2")

COLD = 0.5  # of the first epoch's bytes from storage
SURE, FEW = 2.0, 3  # standard errors of a mean that hold nineteen of twenty; epochs below which they say nothing
MOST = 0.95  # of the loop that the first epoch can have lost


@dataclass(frozen=True, slots=True)
class _Account:
    """What the first epoch lost."""

    lost: float  # s
    per_batch: float  # s that a batch waited longer for storage
    seen: bool  # later epochs have shown it
    speedup: Speedup


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        wanted = demand(run, outlook.loader)
        epochs = [e for e in outlook.loader.epochs if e.batches]
        if wanted is None or not epochs or not epochs[0].asked or returns(run, outlook.loader, wanted) is not False:
            continue
        if any(m.remote for m in mounts(run, outlook.process)) or (epochs[0].stored or 0.0) < COLD * epochs[0].asked:
            continue
        account = _seen(outlook, epochs) if len(epochs) > 1 else _expected(outlook, wanted)
        # so much of the time of making a batch in the first epoch: below it the disk is not what it waited for
        if account.per_batch >= NOTABLE * outlook.making:
            yield _finding(run, outlook, wanted, account)


def _seen(outlook: Outlook, epochs: list[Epoch]) -> _Account:
    """Compare the first epoch with the others, batch for batch; no more is the disk's than making it was blocked."""
    first, later = epochs[0], [e for e in epochs[1:] if e.complete] or epochs[1:]
    pace = sum(e.seconds for e in later) / sum(e.batches for e in later)
    calm = [e.blocked for e in later if e.blocked is not None]
    longer = max(0.0, (first.blocked or 0.0) - (sum(calm) / len(calm) if calm else 0.0))
    lost = max(0.0, min(first.seconds - pace * first.batches, longer * first.batches))
    whole = outlook.process.loop
    left = max(whole - lost, (1 - MOST) * whole)
    return _Account(lost, longer, seen=True, speedup=interval(whole / left, ERROR, _differ(later)))


def _differ(epochs: Sequence[Epoch]) -> float:
    """Return by how much the mean pace of some epochs may be off, relative: they differ among each other."""
    paces = [epoch.seconds / epoch.batches for epoch in epochs]
    return SURE * standard_error(paces) if len(paces) >= FEW else 0.0


def _expected(outlook: Outlook, wanted: Demand) -> _Account:
    speedup = outlook.gain(outlook.now, cached(outlook.job, outlook.loader, wanted))
    lost = outlook.process.loop * (1 - 1 / speedup.likely)
    return _Account(lost, wanted.waiting, seen=False, speedup=speedup)


def _finding(run: Features, outlook: Outlook, wanted: Demand, account: _Account) -> Finding:
    first = next(e for e in outlook.loader.epochs if e.batches)
    whole = data_set(outlook.loader, wanted)
    rate = run.storage.best if run.storage else 0.0
    takes = f", {whole / rate:.2g} s at the disk's best {size(rate)}/s" if whole and rate else ""
    share = (first.stored or 0.0) / (first.asked or 1.0)
    after = (
        "later ones found them in the page cache"
        if account.seen
        else f"its {size(whole or 0.0)} fit into memory, so a second one finds them in the page cache"
    )
    return Finding(
        id="cold-cache",
        says=(
            f"the first epoch read {min(1.0, share):.0%} of its bytes from disk and lost about {account.lost:.3g} s "
            f"by it; {after}"
        ),
        do=(
            "nothing if many epochs follow; else read the files once before the training"
            f"{f' ({size(whole)}{takes})' if whole else ''}"
        ),
        share_lost=1 - 1 / account.speedup.likely,
        speedup=account.speedup,
        basis=(
            "the first epoch at the pace of the later ones"
            if account.seen
            else "batches replayed with their wait for storage replaced by a copy from memory"
        ),
        falsified_by="a second epoch, or a second run, as slow as the first: then it is `slow-storage`",
        effect="identical",
        evidence={
            "lost_s": account.lost,
            "longer_s": account.per_batch,
            "first_epoch_stored": min(1.0, share),
            "epochs": float(len([e for e in outlook.loader.epochs if e.batches])),
            "asked_B": wanted.asked or 0.0,
        },
        where=outlook.loader.where,
    )
