"""The batches that workers have under way, or would have, do not fit into /dev/shm.

What it sees: the largest batch that was measured, times `num_workers`, times `prefetch_factor`, times the ranks on this
machine, against the most that was ever free in /dev/shm as the job sees it; and how the run ended. Where the training
waits for its batches, and more workers would help if there were room for what they make, it says that instead.

Why it matters: workers hand tensors over through shared memory. When it is full, a worker dies of a bus error
("DataLoader worker is killed by signal: Bus error") or torch raises "unable to allocate shared memory": at any time,
for the queue is full only when the training is slower than its workers.

What to do: a larger /dev/shm (`docker run --shm-size=16g`, or `--ipc=host`; in Kubernetes an emptyDir of medium Memory
mounted there; otherwise `mount -o remount,size=16G /dev/shm`), or fewer batches under way, as the finding says.

When it is wrong: when batches are much smaller than the largest one that was seen; when the tensors come out of
`__getitem__` in shared memory already.

Sources: `torch.multiprocessing`, "Sharing strategies"; pytorch issue 5040; the need is exact in 5 of 5 settings that
were tried (docs/evidence.md).
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import size
from gputune.core.finding import NO_CHANGE, WAITING, Effect, Finding, Setting
from gputune.features import Features, Loader, Machine
from gputune.model.prediction import Outlook, outlooks
from gputune.model.replay import TYPICAL_PREFETCH
from gputune.verdict.effects import of_workers

FULL = 0.95  # of what was free: batches of one loader differ by some percent
SPARE = 0.8  # of what was free that the advice is to use


def advise(run: Features) -> Iterator[Finding]:
    seen: set[str] = set()
    for process in run.processes:
        for loader in process.loaders:
            need, free = needed(loader, run.machine), run.machine.shm_most
            if free is not None and need and need >= FULL * free and loader.where not in seen:
                seen.add(loader.where)  # ranks run the same line
                yield _finding(run, loader, need, free)
    for outlook in outlooks(run):
        if outlook.loader.where not in seen and outlook.starving >= WAITING and outlook.is_short_of_room():
            seen.add(outlook.loader.where)
            yield from _shut_out(run, outlook)


def under_way(loader: Loader) -> int:
    """Return how many batches may be in shared memory at once: handed out, or finished and not yet taken."""
    return loader.num_workers * (loader.prefetch_factor or TYPICAL_PREFETCH)


def needed(loader: Loader, machine: Machine) -> int:
    """Return the bytes of /dev/shm that a full queue takes, over all ranks of this machine."""
    if not loader.batch_shared:
        return 0
    return under_way(loader) * (loader.batch_bytes_most or 0) * machine.ranks


def _shut_out(run: Features, outlook: Outlook) -> Iterator[Finding]:
    """Return the finding on a loop that more workers would help, if what they make had room."""
    loader, free = outlook.loader, run.machine.shm_free or 0
    workers, persistent, gain = outlook.with_room().best_workers()
    need = needed(replace(loader, num_workers=workers), run.machine) / SPARE
    if not need or workers <= max(loader.num_workers, outlook.best_workers()[0]):
        return
    batch = loader.batch_bytes_most or 0
    yield Finding(
        id="small-shm",
        says=(
            f"the loop waits {outlook.starving:.0%} of its time for batches, and num_workers={workers} would help, but "
            f"{size(free)} of /dev/shm are free, and their batches of {size(batch)} need {size(need)}"
        ),
        do=f"give /dev/shm {size(need)} (docker run --shm-size), then set num_workers={workers}",
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis="DataLoader replayed over the measured times of its batches and steps, with room for its queue",
        falsified_by=f"samples/s with both below x{gain.low:.2f} of this run's",
        effect=of_workers(loader, workers, persistent=persistent),
        evidence={"waiting": outlook.starving, "needed_bytes": need, "free_bytes": free, "batch_bytes": batch},
        where=loader.where,
    )


def _finding(run: Features, loader: Loader, need: int, free: int) -> Finding:
    batch = loader.batch_bytes_most or 1
    least = run.machine.shm_least
    failed = bool(run.exit_code) and (not loader.batches or (least is not None and least < batch))
    change = _fitting(loader, int(SPARE * free / batch / run.machine.ranks))
    ranks = f" in each of {run.machine.ranks} ranks" if run.machine.ranks > 1 else ""
    return Finding(
        id="small-shm",
        says=(
            f"{loader.num_workers} workers with prefetch_factor={loader.prefetch_factor or TYPICAL_PREFETCH} may have "
            f"{under_way(loader)} batches of up to {size(batch)} under way{ranks}: {size(need)}, and /dev/shm had "
            f"{size(free)}"
        ),
        risk=(
            f"the run ended with status {run.exit_code}, as it does when /dev/shm is full"
            if failed
            else "a worker dies once the training is slower than its workers and the queue fills (bus error, errno 28)"
        ),
        due=0.0 if failed else None,
        do=_advice(change, need),
        share_lost=0.0,
        speedup=NO_CHANGE,
        basis="workers x prefetch_factor x the largest batch that was measured x ranks on this machine",
        falsified_by="shared memory less full than that while the loop does not wait for batches",
        effect=_effect(loader, change),
        because="not with a larger /dev/shm" if "num_workers" in change else "",
        evidence={
            "needed_bytes": need,
            "free_bytes": free,
            "least_free_bytes": free if least is None else least,
            "batch_bytes": batch,
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor or TYPICAL_PREFETCH,
        },
        where=loader.where,
        change=change,
    )


def _effect(loader: Loader, change: dict[str, Setting]) -> Effect:
    """Return what the settings do; a larger /dev/shm does nothing."""
    fewer = change.get("num_workers")
    if fewer is None:
        return "identical"
    return of_workers(loader, int(fewer), persistent=loader.persistent_workers)


def _fitting(loader: Loader, batches: int) -> dict[str, Setting]:
    """Return the settings under which no more than that many are under way: shorter queues, else fewer workers."""
    if batches >= loader.num_workers:
        return {"prefetch_factor": batches // loader.num_workers}
    return {"num_workers": batches, "prefetch_factor": 1} if batches else {}


def _advice(change: dict[str, Setting], need: int) -> str:
    settings = " and ".join(f"{name}={value}" for name, value in change.items())
    larger = f"give /dev/shm {size(need / SPARE)} (docker run --shm-size)"
    return f"{larger}, or set {settings}" if settings else larger
