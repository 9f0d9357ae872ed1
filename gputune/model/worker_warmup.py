"""Workers that were just started are slow, and so is the training beside them: what of a loop is their youth.

A fresh worker maps its memory anew, opens what the data set opens once, and loads what its first batches need: its
first takes several times what later ones do, and the next few still more than these. They are all made at once, for the
queues are empty, and the training competes with them for the CPUs while it copies each page that it writes to and that
the workers still share. Where every pass starts workers, all of this is a price of starting them, and goes with it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gputune.core.figures import mean
from gputune.features import Fetch, Loader
from gputune.model.replay import TYPICAL_PREFETCH

T = TypeVar("T")
GROWN = 5  # batches after which a worker is as quick as ever (they took 5, 2.4, 1.9, 1.6 and 1.6 times as long)
LEFT = 0.25  # of a pass that counts as grown in any case: of its end at least more is known than of its beginning
LEAST = 20  # rounds or batches of workers that are no longer young, below which their mean says nothing
HABIT = 3  # starts of workers: fewer are a loop's own start


def settled(loader: Loader) -> Loader:
    """Return a loader with what was measured far from the start of its workers, where it starts them often.

    Elsewhere without the batches that each worker made before any was taken: the first wait has their price.
    """
    if not loader.num_workers:
        return loader
    habit = _habit(loader)
    grown = GROWN if habit else min(GROWN, loader.prefetch_factor or TYPICAL_PREFETCH)
    loader = replace(loader, fetches=_of_grown(loader.fetches, grown))
    if not habit:
        return loader
    kept = [i for i, age in enumerate(loader.ages) if age >= youth(loader)]
    if len(kept) < LEAST or len(kept) == len(loader.waits):
        return loader

    def far(series: Sequence[T]) -> tuple[T, ...]:
        return tuple(series[i] for i in kept)

    waits, steps = far(loader.waits), far(loader.steps)
    rounds = (mean(waits) + mean(steps)) * loader.batches
    part = min(1.0, rounds / loader.seconds) if loader.seconds else 1.0
    pauses = {name: far(series) for name, series in loader.pauses.items()}
    own, young = _without(steps, pauses), _without(loader.steps, loader.pauses)
    slower = young / own if own > 0 and young > 0 else 1.0  # sampled steps are of all ages, as all steps are
    return replace(
        loader,
        waits=waits,
        steps=steps,
        picks=far(loader.picks) if loader.picks else (),
        ages=(),
        early=far(loader.early) if len(loader.early) == len(loader.waits) else (),
        pauses=pauses,
        step_cpus=tuple(cpu / slower for cpu in loader.step_cpus),
        step_cpu=None if loader.step_cpu is None else loader.step_cpu * part,  # means over the loop with all its starts
        step_queued=loader.step_queued * part,
    )


def _without(steps: Sequence[float], pauses: Mapping[str, Sequence[float]]) -> float:
    """Return the mean of steps without their pauses, in s."""
    return mean(steps) - sum(mean(series) for series in pauses.values())


def lost(loader: Loader) -> float | None:
    """Return the s that the rounds of a pass take longer because its workers are young; None where it is not known."""
    if not _habit(loader):
        return None
    rounds = [w + s for w, s in zip(loader.waits, loader.steps, strict=True)]
    until = youth(loader)
    later = [r for r, age in zip(rounds, loader.ages, strict=True) if age >= until]
    if len(later) < LEAST:
        return None
    usual = mean(later)
    longer: dict[int, list[float]] = {}
    for taken, age in zip(rounds, loader.ages, strict=True):
        if age < until:
            longer.setdefault(age, []).append(taken - usual)
    return max(0.0, sum(map(mean, longer.values())))


def youth(loader: Loader) -> int:
    """Return for how many batches after a start of workers a loop is slower.

    Until those that they made young were taken, but never to the end of a pass.
    """
    lengths = sorted(e.batches for e in loader.epochs if e.batches)
    usual = lengths[len(lengths) // 2] if lengths else 0
    return max(1, min(loader.num_workers * (GROWN + 1), math.floor(usual * (1 - LEFT))))


def _habit(loader: Loader) -> bool:
    """Return whether workers were started often, and the rounds since then counted."""
    starts = sum(bool(e.batches and (e.fresh or not loader.persistent_workers)) for e in loader.epochs)
    return bool(loader.num_workers and starts >= HABIT and len(loader.ages) == len(loader.waits))


def _of_grown(fetches: tuple[Fetch, ...], grown: int) -> tuple[Fetch, ...]:
    """Return the batches that grown workers made, else those of the oldest of which there are enough."""
    for age in range(grown, 0, -1):
        found = tuple(f for f in fetches if f.age >= age)
        if len(found) >= LEAST:
            return found
    return fetches
