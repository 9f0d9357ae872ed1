"""How much of a run was waiting: one definition for gates, for money and for the screen.

With a device: the share of the training loop in which a kernel ran on it. Without one: the share of the loop in which
the training neither waited for batches nor wrote anything, that is, in which a device would have had work.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gputune.core.events import AROUND_LOOP, STOPPING
from gputune.features import Features, Process

# In these spans the training thread gives a device nothing to do. Evaluation and collectives do; `sync` waits for one.
WAITS = frozenset({"loader.wait", "loader.start", "queue.wait", "between", *STOPPING}) - {"evaluation"}


class Use(NamedTuple):
    """A share 0 to 1 of the training loop, and of what: the `device` was busy, or the `training` did not wait."""

    share: float
    of: str


def use(run: Features) -> Use | None:
    """Return how well a run uses what it was given; None where neither a device nor a training loop was measured."""
    busy = [d.busy for d in run.devices if d.busy is not None and d.throughout]
    if busy:
        return Use(sum(busy) / len(busy), "device")
    loops = [p for p in run.processes if p.loop > 0]
    if not loops:
        return None
    lost = sum(in_waits(p.in_loop, p.loop) for p in loops)
    return Use(1.0 - lost / sum(p.loop for p in loops), "training")


def in_waits(spans: Mapping[str, float], seconds: float) -> float:
    """Return the s of `seconds` that `spans` (span to s) spend waiting, at most all of them."""
    return min(seconds, sum(spans.get(name, 0.0) for name in WAITS))


def waited(run: Features) -> float | None:
    """Return the s of the whole run, not of the loop alone, in which training processes had nothing for a device."""
    heard = [p for p in run.processes if p.guest == "ring" or p.looks]
    if not heard:
        return None
    return sum(_waited(p) for p in heard) / len(heard)


def _waited(process: Process) -> float:
    return sum(process.ledger.get(name, 0.0) for name in (*WAITS, *AROUND_LOOP))
