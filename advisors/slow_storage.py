"""Batches wait for the local disk, epoch after epoch: the files are not in the page cache, and do not stay in it.

What it sees: how much of the time of making batches their makers sleep uninterruptibly (state D, which is storage), how
many of the bytes that they ask for come from storage and not from the page cache (`/proc/PID/io`), and how near the
disk is to its limit: share of the time that it is busy and bytes under way (`/proc/diskstats`), I/O pressure, and
what the control groups of the job allow (`io.max`, `blkio.throttle`).

Why it matters: what waits for a disk at its limit waits no less with more workers; the device has nothing to do.

What to do: put the data set where it is read faster: into memory (`/dev/shm`, where the finding names the room there
is), onto a local NVMe disk, or into a smaller format (pictures at the size of the training, float16, compressed).
Where a control group sets the limit, have it raised. Reading past the page cache (`O_DIRECT`) pays only for what is
read once.

When it is wrong: when the disk was busy with somebody else's work at the time, or when a data set of unknown size was
in its first epoch: the page cache then serves the second one (`cold-cache`). Where a part of the files lies on another
machine (`remote-storage`), only what the disk needs at its limit is taken for its own.

Sources: the kernel's Documentation/admin-guide/iostats.rst and accounting/psi.rst; proc_pid_io(5); Mohan et al.,
"Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (fetch stalls).
"""

from collections.abc import Iterator

from gputune.core.figures import size
from gputune.core.finding import WAITING, Finding
from gputune.features import Features
from gputune.model.prediction import Outlook, outlooks
from gputune.model.storage import NOTABLE, ROOM, Demand, cached, data_set, demand, of_disks, returns

CHECKLIST = ("data loading", "1.2")


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        wanted = demand(run, outlook.loader)
        if wanted is None or outlook.starving < WAITING or returns(run, outlook.loader, wanted) is False:
            continue
        wanted = of_disks(run, outlook.process, outlook.loader, wanted)
        # so much of the time of making a batch in which it waits for storage: below it storage is not what holds it up
        if wanted.waiting < NOTABLE * outlook.making:
            continue
        yield _finding(run, outlook, wanted)


def _finding(run: Features, outlook: Outlook, wanted: Demand) -> Finding:
    speedup = outlook.gain(outlook.now, cached(outlook.job, outlook.loader, wanted))
    disk = run.storage
    whole = data_set(outlook.loader, wanted)
    here = _fits_memory(run, whole)
    return Finding(
        id="slow-storage",
        says=(
            f"making a batch waits {wanted.waiting * 1e3:.3g} of its {outlook.making * 1e3:.3g} ms for storage: "
            f"{size(wanted.stored or 0.0)} of its {size(wanted.asked or 0.0)} come from disk"
            f"{', past the page cache' if wanted.direct else ''}"
            + (f", which gives {size(disk.rate)}/s and is {disk.busy or 0.0:.0%} busy" if disk else "")
            + (f"; this job may read {size(run.read_rate_limit)}/s" if run.read_rate_limit else "")
        ),
        do=_advice(run, whole),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="batches replayed with their wait for storage replaced by a copy from memory",
        falsified_by=f"samples/s below x{speedup.low:.2f} of this run's with the files in /dev/shm",
        effect="identical" if here else "unknown",
        because="" if here else "the same on a faster disk; smaller pictures and fewer digits are other samples",
        evidence={
            "waiting": outlook.starving,
            "storage_s": wanted.waiting,
            "batch_s": outlook.making,
            "asked_B": wanted.asked or 0.0,
            "stored_B": wanted.stored or 0.0,
            **({"disk_B_s": disk.rate, "disk_best_B_s": disk.best, "disk_busy": disk.busy or 0.0} if disk else {}),
            **({"disk_queue": disk.queue} if disk and disk.queue is not None else {}),
            **({"limit_B_s": run.read_rate_limit} if run.read_rate_limit else {}),
            **({"stalled": disk.stalled} if disk and disk.stalled is not None else {}),
        },
        where=outlook.loader.where,
    )


def _fits_memory(run: Features, whole: float | None) -> bool:
    return whole is not None and whole <= ROOM * (run.machine.shm_free or 0)


def _advice(run: Features, whole: float | None) -> str:
    if whole is not None and _fits_memory(run, whole):
        free = size(run.machine.shm_free or 0)
        return f"copy the data set (about {size(whole)}) to /dev/shm, where {free} are free, and read it there"
    known = f" (about {size(whole)})" if whole is not None else ""
    return f"move the data set{known} to a faster disk, or make it smaller: smaller pictures, float16, compression"
