"""The latest part of a run as a run of its own: what is known now, less what was known at an earlier moment.

Totals are subtracted, series are cut to their end, epochs and rounds are those that began since. What is a mean over
the loop (the machine's and the disks' load) stays that of the whole: it moves slowly.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from gputune.features import Copy, Device, Features, Loader, Place, Process

T = TypeVar("T")
Key: TypeAlias = tuple[Hashable, ...]  # where a loader was built, its data and its settings
# What is a total, of whoever has it: a run, a process or a loader.
SECONDS = ("wall", "stopped", "loop", "behind", "backward", "wait_total", "seconds", "fresh")
COUNTS = ("batches", "samples", "optimizer_steps", "rounds")
SPANS = ("ledger", "inclusive", "in_loop")  # s by name
PER_STEP = ("gaps", "works")  # series of a process with an entry for each optimizer's step
PER_BATCH = ("waits", "steps", "picks", "fetches", "in_flight", "ahead", "pins", "gets", "deliveries", "early")
HANDED = ("ready", "hindered", "freed", "after", "unhindered", "smooth")
SAMPLED = ("step_cpus", "next_cpus", "reads", *HANDED, "filled", "unfilled")
THIN_LOADER: dict[str, Any] = {**dict.fromkeys((*PER_BATCH, *SAMPLED, "epochs"), ()), "pauses": {}}
THIN_PROCESS: dict[str, Any] = dict.fromkeys((*PER_STEP, "before_forward", "after_step"), ())


def alike(before: Features | None, since: Features | None, now: Features) -> Features:
    """Return the part of a run in which its loader was served alike: `since` a moment, or `before` one if more.

    All of it where it never was served otherwise.
    """
    if since is None:
        return now
    latest = window(since, now)
    return before if before is not None and _batches(before) > _batches(latest) else latest


def _batches(run: Features) -> int:
    return sum(process.batches for process in run.processes)


def thin(run: Features) -> Features:
    """Return what `window` needs of an earlier moment: totals, without the series, which may be long."""
    return replace(run, processes=tuple(map(_thin, run.processes)))


def _thin(process: Process) -> Process:
    loaders = tuple(replace(loader, **THIN_LOADER) for loader in process.loaders)
    return replace(process, loaders=loaders, meetings=process.meetings[-1:], **THIN_PROCESS)


def window(then: Features, now: Features) -> Features:
    """Return the run between two moments; `then` is the earlier one, whole or thin."""
    before = {_who(process): process for process in then.processes}
    wall = max(0.0, now.wall - then.wall)
    return replace(
        now,
        processes=tuple(_process(before[_who(p)], p) if _who(p) in before else p for p in now.processes),
        devices=_devices(then.devices, now.devices, wall),
        **_totals(then, now),
    )


def _totals(then: Any, now: Any) -> dict[str, Any]:
    """Return what `now` has more than `then` of each total that both have: of a run, a process or a loader."""
    seconds = {name: max(0.0, getattr(now, name) - getattr(then, name)) for name in SECONDS if hasattr(now, name)}
    counts = {name: getattr(now, name) - getattr(then, name) for name in COUNTS if hasattr(now, name)}
    return {**seconds, **counts}


def _who(process: Process) -> tuple[int | None, int]:
    """Return what tells a process from all others: ranks in containers of their own may have one pid."""
    return process.rank, process.pid


def _process(then: Process, now: Process) -> Process:
    loaders = {_key(loader): loader for loader in then.loaders}
    parts: dict[str, Any] = {name: _less(getattr(then, name), getattr(now, name)) for name in SPANS}
    parts |= _latest(now, PER_STEP, now.optimizer_steps - then.optimizer_steps)
    return replace(
        now,
        loaders=tuple(_loaders(loaders, now.loaders, then.wall)),
        places=_places(then.places, now.places),
        copies=_copies(then.copies, now.copies),
        meetings=tuple(m for m in now.meetings if not then.meetings or m.number > then.meetings[-1].number),
        **_totals(then, now),
        **parts,
    )


def _loaders(then: Mapping[Key, Loader], now: Sequence[Loader], since: float) -> Iterator[Loader]:
    """Yield the loaders that gave anything since, or that nobody knew before."""
    for loader in now:
        before = then.get(_key(loader))
        if before is None:
            yield loader
        elif loader.batches > before.batches:
            yield _loader(before, loader, since)


def _loader(then: Loader, now: Loader, since: float) -> Loader:
    batches = now.batches - then.batches
    part = batches / now.batches if now.batches else 0.0
    epochs = tuple(epoch for epoch in now.epochs if epoch.began >= since)
    sampled: dict[str, Any] = {}  # of series that have no entry for each batch, the last `part`
    for name in SAMPLED:
        sampled |= _latest(now, (name,), round(part * len(getattr(now, name))))
    return replace(
        now,
        pauses={name: _last(series, batches) for name, series in now.pauses.items()},
        mean_round=_mean_round(then, now),
        epochs=epochs or now.epochs[-1:],
        **_totals(then, now),
        **_latest(now, PER_BATCH, batches),
        **sampled,
    )


def _mean_round(then: Loader, now: Loader) -> float | None:
    """Return the mean s of the rounds between two moments."""
    if then.mean_round is None or now.mean_round is None:
        return now.mean_round
    seconds = now.mean_round * now.batches - then.mean_round * then.batches
    return max(0.0, seconds) / (now.batches - then.batches)


def _key(loader: Loader) -> Key:
    settings = loader.num_workers, loader.prefetch_factor, loader.pin_memory, loader.persistent_workers
    return loader.where, loader.batch_size, loader.dataset, *settings


def _places(then: Sequence[Place], now: Sequence[Place]) -> tuple[Place, ...]:
    before = {(p.span, p.where, p.what): p for p in then}
    found = []
    for place in now:
        old = before.get((place.span, place.where, place.what))
        count = place.count - (old.count if old else 0)
        if count > 0:
            seconds = place.seconds - (old.seconds if old else 0.0)
            inside = place.waits_inside - (old.waits_inside if old else 0.0)
            feeds = max(0, place.feeds - (old.feeds if old else 0))
            seconds, inside = max(0.0, seconds), max(0.0, inside)
            found.append(replace(place, count=count, seconds=seconds, waits_inside=inside, feeds=feeds))
    return tuple(sorted(found, key=lambda p: -p.seconds))


def _copies(then: Sequence[Copy], now: Sequence[Copy]) -> tuple[Copy, ...]:
    before = {(c.where, c.what): c for c in then}
    found = []
    for copy in now:
        old = before.get((copy.where, copy.what))
        if old is None:
            found.append(copy)
        elif copy.count > old.count:
            size, took = copy.size - old.size, max(0.0, copy.seconds - old.seconds)
            found.append(replace(copy, count=copy.count - old.count, seconds=took, size=size))
    return tuple(found)


def _devices(then: Sequence[Device], now: Sequence[Device], wall: float) -> tuple[Device, ...]:
    before = {device.index: device for device in then}
    return tuple(_device(before[d.index], d, wall) if d.index in before else d for d in now)


def _device(then: Device, now: Device, wall: float) -> Device:
    if now.idle is None or then.idle is None or not wall:
        return now
    idle = min(wall, max(0.0, now.idle - then.idle))
    energy = None if now.energy is None or then.energy is None else max(0.0, now.energy - then.energy)
    return replace(now, idle=idle, energy=energy, busy=1.0 - idle / wall)


def _less(then: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: max(0.0, seconds - then.get(name, 0.0)) for name, seconds in now.items()}


def _latest(now: Any, names: Sequence[str], count: int) -> dict[str, Any]:
    """Return the last `count` of each of these series."""
    return {name: _last(getattr(now, name), count) for name in names}


def _last(series: Sequence[T], count: int) -> tuple[T, ...]:
    return tuple(series[-count:]) if count > 0 else ()
