"""What a run may be asked: to be used well enough at its end (`--fail-under`), and not to starve (`--stop-when`).

Pure: the recorder shows what it has measured, and is told what to leave with (docs/contracts.md, "Gates").
"""

from collections import deque
from typing import NamedTuple

from gputune.core.figures import MOSTLY
from gputune.core.units import NS
from gputune.features import Features
from gputune.features.waiting import Use, use
from gputune.model.minimum_samples import too_few

LOOKS = 100  # kept of a window, however long it is: an hour in steps of 36 s


class WaitTotals(NamedTuple):
    """Totals so far, at `t` (ns): s that training processes waited for batches, their mean, and s of devices' work.

    `processes` tells one set of training processes from another: totals of different ones are not compared.
    """

    t: int
    processes: frozenset[int]
    waited: float
    worked: float = 0.0
    known: float = 0.0  # s in which it was known whether devices worked; 0 without a device


class Starving:
    """Whether training has starved for `seconds`: waited for batches more than half of them, and no device was busy.

    A device that has work queued is busy while the training waits: then nothing is lost, and it does not starve.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.share = 0.0  # of the window that was found starving, spent waiting
        self._looks: deque[WaitTotals] = deque()

    def look(self, now: WaitTotals) -> bool:
        """Take what is known now; return whether the condition has held for so long."""
        if not now.processes or (self._looks and self._looks[-1].processes != now.processes):
            self._looks.clear()
        if not now.processes:
            return False
        before = self._begin(now)
        if len(self._looks) < 2 or now.t - self._looks[-2].t >= self.seconds * NS / LOOKS:
            self._looks.append(now)
        else:  # so often it need not be known
            self._looks[-1] = now
        if before is None:
            return False
        self.share = (now.waited - before.waited) / ((now.t - before.t) / NS)
        known = now.known - before.known
        busy = (now.worked - before.worked) / known if known > 0 else 0.0
        # most of the time: it waits more than it works, and any better loader pays at once
        return self.share > MOSTLY and busy < MOSTLY

    def reset(self) -> None:
        """Forget the window: somebody has stopped the training, or it goes on."""
        self._looks.clear()

    def _begin(self, now: WaitTotals) -> WaitTotals | None:
        """Return the look that is just `seconds` old or older, and drop those before it."""
        start = now.t - self.seconds * NS
        while len(self._looks) > 1 and self._looks[1].t <= start:
            self._looks.popleft()
        return self._looks[0] if self._looks and self._looks[0].t <= start else None


def below(run: Features, least: float) -> str:
    """Return in a sentence why a run does not reach `least` (a share); nothing where it does.

    A run of which nothing was measured does not reach it: a gate that cannot fail would be none.
    """
    found = use(run)
    asked = f"`--fail-under {least * 100:g}`"
    if found is None:
        return f"{asked} failed: neither a device nor a training loop was measured"
    if found.share >= least:
        return ""
    return f"{asked} failed: {_used(found)}{_little(run)}"


def _used(found: Use) -> str:
    if found.of == "device":
        return f"the device was busy in {found.share:.1%} of the training loop"
    return f"the training worked in {found.share:.1%} of its loop and waited in the rest"


def _little(run: Features) -> str:
    """Return that it rests on little, where it does. The gate fails all the same: nobody knows that it would not."""
    heard = [p for p in run.processes if p.guest == "ring"]
    count = too_few(heard) if heard else None
    if count is None:
        return ""
    return f"; a run too short to judge by: {count} {'batch' if count == 1 else 'batches'} after the warm-up"
