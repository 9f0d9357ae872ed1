"""The latest part of a run as a run of its own: what is known now, less what was known at an earlier moment.

Totals are subtracted, series are cut to their end, epochs and rounds are those that began since. What is a mean over
the loop (the machine's and the disks' load) stays that of the whole: it moves slowly.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from gputune.features import Copy, Device, Features, Loader, Place, Process

T = TypeVar("T")
Key: TypeAlias = tuple[Hashable, ...]  # where a loader was built, its data and its settings


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
    processes = tuple(
        replace(
            process,
            loaders=tuple(_thin(loader) for loader in process.loaders),
            before_forward=(),
            after_step=(),
            gaps=(),
            works=(),
            meetings=process.meetings[-1:],
        )
        for process in run.processes
    )
    return replace(run, processes=processes)


def _thin(loader: Loader) -> Loader:
    return replace(
        loader,
        waits=(),
        steps=(),
        picks=(),
        ages=(),
        pauses={},
        step_cpus=(),
        next_cpus=(),
        fetches=(),
        in_flight=(),
        ahead=(),
        reads=(),
        epochs=(),
        pins=(),
        gets=(),
        deliveries=(),
        ready=(),
        hindered=(),
        freed=(),
        after=(),
        unhindered=(),
        early=(),
        filled=(),
        unfilled=(),
    )


def window(then: Features, now: Features) -> Features:
    """Return the run between two moments; `then` is the earlier one, whole or thin."""
    before = {_who(process): process for process in then.processes}
    wall = max(0.0, now.wall - then.wall)
    return replace(
        now,
        wall=wall,
        stopped=max(0.0, now.stopped - then.stopped),
        processes=tuple(_process(before[_who(p)], p) if _who(p) in before else p for p in now.processes),
        devices=_devices(then.devices, now.devices, wall),
    )


def _who(process: Process) -> tuple[int | None, int]:
    """Return what tells a process from all others: ranks in containers of their own may have one pid."""
    return process.rank, process.pid


def _process(then: Process, now: Process) -> Process:
    loaders = {_key(loader): loader for loader in then.loaders}
    return replace(
        now,
        wall=max(0.0, now.wall - then.wall),
        stopped=max(0.0, now.stopped - then.stopped),
        ledger=_less(then.ledger, now.ledger),
        inclusive=_less(then.inclusive, now.inclusive),
        in_loop=_less(then.in_loop, now.in_loop),
        loop=max(0.0, now.loop - then.loop),
        behind=max(0.0, now.behind - then.behind),
        batches=now.batches - then.batches,
        samples=now.samples - then.samples,
        optimizer_steps=now.optimizer_steps - then.optimizer_steps,
        backward=max(0.0, now.backward - then.backward),
        loaders=tuple(_loaders(loaders, now.loaders, then.wall)),
        places=_places(then.places, now.places),
        copies=_copies(then.copies, now.copies),
        gaps=_last(now.gaps, now.optimizer_steps - then.optimizer_steps),
        works=_last(now.works, now.optimizer_steps - then.optimizer_steps),
        rounds=now.rounds - then.rounds,
        meetings=tuple(m for m in now.meetings if not then.meetings or m.number > then.meetings[-1].number),
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
    return replace(
        now,
        batches=batches,
        samples=now.samples - then.samples,
        wait_total=max(0.0, now.wait_total - then.wait_total),
        seconds=max(0.0, now.seconds - then.seconds),
        waits=_last(now.waits, batches),
        steps=_last(now.steps, batches),
        picks=_last(now.picks, batches),
        ages=_last(now.ages, batches),
        pauses={name: _last(series, batches) for name, series in now.pauses.items()},
        step_cpus=_share(now.step_cpus, part),
        next_cpus=_share(now.next_cpus, part),
        fetches=_last(now.fetches, batches),
        in_flight=_last(now.in_flight, batches),
        ahead=_last(now.ahead, batches),
        reads=_share(now.reads, part),
        pins=_last(now.pins, batches),
        fresh=max(0.0, now.fresh - then.fresh),
        gets=_last(now.gets, batches),
        deliveries=_last(now.deliveries, batches),
        ready=_share(now.ready, part),
        hindered=_share(now.hindered, part),
        freed=_share(now.freed, part),
        after=_share(now.after, part),
        unhindered=_share(now.unhindered, part),
        early=_last(now.early, batches),
        filled=_share(now.filled, part),
        unfilled=_share(now.unfilled, part),
        mean_round=_mean_round(then, now),
        epochs=epochs or now.epochs[-1:],
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


def _share(series: Sequence[T], part: float) -> tuple[T, ...]:
    """Return the last `part` of a series that has no entry for each batch."""
    return _last(series, round(part * len(series)))


def _last(series: Sequence[T], count: int) -> tuple[T, ...]:
    return tuple(series[-count:]) if count > 0 else ()
