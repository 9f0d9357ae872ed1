"""The files that batches are made of lie on another machine, and batches wait for them.

What it sees: which file systems the files lie on that sampled batches open or hold open (device and mount, from
`/proc/PID/mountinfo`), and the time in which the making of a batch neither runs nor wants to.

Why it matters: each open and each read that is not cached is a round trip, and the way is shared with all the other
readers of that server. A training reads the same bytes in every epoch.

What to do: copy the data set near the device first, onto a local disk or into memory; the finding says how many bytes
that is and how long it takes at the rate of this run. Where it does not fit, cache it (`fsc` of NFS, the caches of the
S3 and JuiceFS drivers), or read it in large packs.

When it is wrong: when the time in which a batch is blocked has another reason (a sleep, a service that is asked), or
when the driver in user space is one that serves local files under a name that is not known here.
Where a disk of this machine gave a part of the bytes as well, which of both batches waited for is not known: then
nothing is sure.

Sources: proc_pid_mountinfo(5); "import the data first" in training platforms' guides; horovod issue 824; nfs(5).
"""

from collections.abc import Iterator

from gputune.core.figures import size
from gputune.core.finding import NO_CHANGE, WAITING, Finding
from gputune.core.mounts import Mount
from gputune.features import Features
from gputune.model.prediction import Outlook, outlooks
from gputune.model.storage import MIXED, NOTABLE, Demand, data_set, demand, here, mounts, nearby

CHECKLIST = ("network wait", "1.1")


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        remote = [mount for mount in mounts(run, outlook.process) if mount.remote]
        wanted = demand(run, outlook.loader)
        # so much of the time of making a batch in which it is blocked: below it the way is short enough
        if not remote or wanted is None or outlook.starving < WAITING or wanted.blocked < NOTABLE * outlook.making:
            continue
        yield _finding(outlook, wanted, remote[0], here(run, outlook.process, outlook.loader, wanted))


def _finding(outlook: Outlook, wanted: Demand, mount: Mount, share: float) -> Finding:
    mixed = share >= MIXED
    kept = share * wanted.disk if mixed else 0.0
    speedup = outlook.gain(outlook.now, nearby(outlook.job, outlook.loader, wanted, kept))
    speedup = speedup.down_to(NO_CHANGE) if mixed else speedup
    files = "some of the files" if mixed else "the files"
    rate = (wanted.asked or 0.0) / outlook.making * max(1, outlook.loader.num_workers) if outlook.making else 0.0
    return Finding(
        id="remote-storage",
        says=(
            f"{files} lie on {mount.kind} ({mount.point}), and making a batch is blocked for "
            f"{wanted.blocked * 1e3:.3g} of its {outlook.making * 1e3:.3g} ms{_of_an_open(wanted)}; the loop waits "
            f"{outlook.starving:.0%} of its time"
        ),
        do=_advice(data_set(outlook.loader, wanted), rate),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis=(
            "batches replayed with their blocked time replaced by reading the same bytes from an ordinary local disk"
            f"{'; how much of it is the disk here is not known' if mixed else ''}"
        ),
        falsified_by=f"samples/s below x{speedup.low:.2f} of this run's with the files on a local disk",
        effect="identical",
        evidence={
            "waiting": outlook.starving,
            "blocked_s": wanted.blocked,
            "batch_s": outlook.making,
            "asked_B": wanted.asked or 0.0,
            "read_B_s": rate,
            "opens_per_batch": wanted.opens,
            "share_here": share,
        },
        where=outlook.loader.where,
    )


def _of_an_open(wanted: Demand) -> str:
    """Return how long it takes to open one file, as a clause: on a server that is a round trip, or several."""
    return f" ({wanted.open_s * 1e3:.2g} ms to open a file)" if wanted.opens else ""


def _advice(whole: float | None, rate: float) -> str:
    if whole is None:
        return "copy the data set to a local disk or into memory before the training"
    took = f", some {whole / rate:.3g} s at the {size(rate)}/s of this run" if rate else ""
    return f"copy the data set (about {size(whole)}{took}) to a local disk or into memory before the training"
