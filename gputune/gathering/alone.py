"""Batches that were made by themselves, and steps beside which none was: what either takes where nothing is in its way.

The guest withholds all other batches meanwhile (draining.py).
"""

from collections import deque

from gputune.core.events import Record
from gputune.core.units import NS
from gputune.features import Alone

ALONE_KEPT = 512  # of each, the latest


class Lone:
    """What is known of one loader's batches that were made by themselves."""

    def __init__(self) -> None:
        # 4096 batches whose making is remembered: records of workers may come before that of the training, or after
        # it
        self._made: deque[tuple[int, int, int]] = deque(maxlen=4096)  # (iterator, from, to), ns
        self._open: deque[Record] = deque(maxlen=64)  # batches made by themselves whose making is not known yet
        self._latest: tuple[int, int] | None = None  # iterator and index of the latest such batch
        self._came: tuple[int, int] | None = None  # likewise, once it was taken
        self._makings: deque[float] = deque(maxlen=ALONE_KEPT)
        self._waits: deque[float] = deque(maxlen=ALONE_KEPT)
        self._steps: deque[float] = deque(maxlen=ALONE_KEPT)
        self.count = 0
        self.idle = 0.0  # s that the others may have idled for it

    def lone(self, record: Record) -> None:
        """Take that from t0 to t1 nobody made another batch than the one that was waited for."""
        self.count += 1
        self.idle += (record.t1 - record.t0) / NS
        self._latest = record.a, record.b
        mine = next((m for m in reversed(self._made) if _within(record, *m)), None)
        if mine is None:
            self._open.append(record)
        else:
            self._keep(record, *mine)

    def made(self, record: Record, iterator: int) -> None:
        """Take how a batch was made."""
        made = iterator, record.t0, record.t1
        self._made.append(made)
        mine = next((o for o in self._open if _within(o, *made)), None)
        if mine is not None:
            self._open.remove(mine)
            self._keep(mine, *made)

    def batch(self, record: Record, gap: int, paused: int) -> None:
        """Take a next() of the training, and the `gap` before it: a step, `paused` ns of which were something else."""
        here = record.a, record.b
        if self._latest == here:
            if self._came == (record.a, record.b - 1):
                self.idle += gap / NS
                if not paused:
                    self._steps.append(gap / NS)
            self._came = here

    def _keep(self, record: Record, _iterator: int, t0: int, t1: int) -> None:
        self._makings.append((t1 - t0) / NS)
        self._waits.append((record.t1 - record.t0) / NS)

    @property
    def told(self) -> Alone | None:
        """Return what was found so far, None where nothing was."""
        if not self._makings or not self._steps:
            return None
        return Alone(makings=tuple(self._makings), waits=tuple(self._waits), steps=tuple(self._steps))


def _within(lone: Record, iterator: int, t0: int, t1: int) -> bool:
    return lone.a == iterator and lone.t0 <= t0 and t1 <= lone.t1
