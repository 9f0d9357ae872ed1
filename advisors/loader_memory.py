"""DataLoader workers fill the memory: each holds a copy of its own, and there are many of them.

What it sees: the memory that workers hold (PSS, on a slow beat), how it grows, and what is left of the control group's
limit or of the machine's memory.

Why it matters: a forked worker shares the dataset with the training until it touches it. Python counts references
inside its objects, so reading a list of strings or dicts writes to its pages, and each worker copies them one by one:
memory grows until it is workers x dataset. At the limit the kernel kills a worker, or the training.

What to do: keep what `__getitem__` reads in few large arrays (numpy, Arrow, a tensor of bytes) instead of Python
objects; open files in the worker; fewer workers; a smaller `prefetch_factor`.

When it is wrong: when the growth is that of a cache with a bound that has not been reached yet.

Sources: pytorch issue 13246; Wu, "Demystify RAM Usage in Multi-Process Data Loaders", 2022; measured here: 13 to 31 MB
a worker in one epoch over Python objects.
"""

from collections.abc import Iterator

from gputune.core.figures import MOSTLY, about, size
from gputune.core.finding import NO_CHANGE, TODAY, Finding
from gputune.features import Features, Loader
from gputune.model.headroom import due, grows, killed, left
from gputune.verdict.effects import of_workers

LEFT = 0.1  # of the limit: with less, any fluctuation is the end


def advise(run: Features) -> Iterator[Finding]:
    found = left(run.machine)
    for process in run.processes if found is not None else ():
        limit, room = found or (0, 0)
        loader = max((x for x in process.loaders if x.worker_memory), key=lambda x: x.num_workers, default=None)
        if loader is None or not loader.num_workers:
            continue
        workers = loader.num_workers * run.machine.ranks
        when = due(process, room, [loader.worker_growth] * workers) if grows(loader.worker_growth) else None
        when = None if when is None or when > TODAY else when
        held = (loader.worker_memory or 0) * workers
        # most of the limit in workers: with less, they are not what fills it
        if when is not None or (room < LEFT * limit and held >= MOSTLY * limit):
            yield _finding(run, loader, limit, room, when)
            return  # ranks share one machine and its limit


def _finding(run: Features, loader: Loader, limit: int, room: int, when: float | None) -> Finding:
    each, growth = loader.worker_memory or 0, loader.worker_growth
    held = each * loader.num_workers * run.machine.ranks
    fewer = max(1, loader.num_workers // 2)
    helps = fewer < loader.num_workers  # one worker, which keeps the training free, stays
    ranks = f" in each of {run.machine.ranks} ranks" if run.machine.ranks > 1 else ""
    if killed(run):
        risk, when = f"the run was killed, with {size(room)} left", 0.0
    elif when is not None and growth is not None:
        risk = f"at {size(growth.low)}/s in each worker the memory is over in {about(when)}"
    else:
        risk = "the kernel may kill a worker or the training at any time"
    return Finding(
        id="loader-memory",
        says=(
            f"{loader.num_workers} workers{ranks} hold {size(each)} each, {size(held)} in all; {size(room)} are left "
            f"of {size(limit)}"
        ),
        risk=risk,
        due=when,
        do="keep the dataset in arrays instead of Python objects" + (f", or set num_workers={fewer}" if helps else ""),
        share_lost=0.0,
        speedup=NO_CHANGE,
        basis="mean memory of a worker (PSS) x workers x ranks, and its growth, against what is left",
        falsified_by="as much memory left after another epoch",
        effect=of_workers(loader, fewer, persistent=loader.persistent_workers) if helps else "identical",
        evidence={
            "worker_bytes": each,
            "workers_bytes": held,
            "limit_bytes": limit,
            "left_bytes": room,
            "growth_bytes_per_s": growth.rate if growth else 0.0,
            "num_workers": loader.num_workers,
        },
        where=loader.where,
        change={"num_workers": fewer} if helps else {},
    )
