"""The thread that pins the batches of one loader: what each took it, and when it worked beside the steps.

It takes batches as their workers finish them, and hands them on in that order; `next()` waits for the one that is next.
Its CPU time is a part of the training process's, in the steps as in the waits between them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from gputune.core.events import Record
from gputune.core.units import NS
from gputune.features import Pin

BATCHES_KEPT = 2000  # batches kept, the latest: as many as waits
NEAR = 16  # waits and batches kept to lay them over each other: more lie between them in no queue of the thread's


class Pinning:
    """What is known of the thread. A pass that begins leaves behind what was on its way in the one before it."""

    def __init__(self) -> None:
        self._pins: deque[Pin] = deque(maxlen=BATCHES_KEPT)
        self._first: list[float] = []  # s of the first ones
        self._gets: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._seen = 0
        self._free: dict[int, int] = {}  # iterator to when its thread had handed the last batch on, ns
        self._ready: dict[tuple[int, int], int] = {}  # (iterator, batch) to when it was handed on, ns
        self._worked: deque[tuple[int, int]] = deque(maxlen=NEAR)
        self._waited: deque[tuple[int, int]] = deque(maxlen=NEAR)
        self._all = self._in_waits = 0

    @property
    def seen(self) -> bool:
        """Return whether there is such a thread."""
        return self._seen > 0

    def begin(self, iterator: int) -> None:
        """Begin a pass."""
        self._ready = {key: t for key, t in self._ready.items() if key[0] != iterator}

    def take(self, record: Record) -> int:
        """Take one batch (a PIN record), and return since when (ns) its thread was free to take it."""
        self._seen += 1
        wall = (record.t1 - record.t0) / NS
        # 1000 parts in which a record tells how long the thread had no CPU
        queued = None if not record.code else min(wall, wall * (record.code - 1) / 1000)
        self._pins.append(Pin(wall=wall, cpu=min(wall, record.d / NS), queued=queued, unpacking=record.b / NS))
        if len(self._first) < 512:  # batches, the first ones, that may get fresh memory
            self._first.append(wall)
        self._ready[record.a, record.c] = record.t1
        if len(self._ready) > 4096:  # batches that were handed on and are not taken yet
            self._ready.pop(next(iter(self._ready)))
        self._all += record.t1 - record.t0
        self._in_waits += _common((record.t0, record.t1), self._waited)
        self._worked.append((record.t0, record.t1))
        free = self._free.pop(record.a, 0)
        self._free[record.a] = record.t1
        if len(self._free) > NEAR:
            self._free.pop(next(iter(self._free)))
        return free

    def taken(self, record: Record) -> None:
        """Take the next() that returned a batch (a BATCH record)."""
        ready = self._ready.pop((record.a, record.b), None)
        if ready is not None and ready <= record.t1:
            self._gets.append((record.t1 - max(record.t0, ready)) / NS)
        self._in_waits += _common((record.t0, record.t1), self._worked)
        self._waited.append((record.t0, record.t1))

    def pins(self, queue: int) -> tuple[Pin, ...]:
        """Return what each batch took, without the first ones, as many as a `queue` holds, that got fresh memory."""
        fresh = max(0, min(len(self._pins), queue + len(self._pins) - self._seen))
        return tuple(islice(self._pins, fresh, None)) if fresh < len(self._pins) else tuple(self._pins)

    def fresh(self, queue: int, pins: Sequence[Pin]) -> float:
        """Return the s that these first ones took longer than the others, together."""
        usual = sum(pin.wall for pin in pins) / max(1, len(pins))
        return sum(max(0.0, wall - usual) for wall in self._first[:queue]) if self._seen > queue else 0.0

    @property
    def gets(self) -> tuple[float, ...]:
        """Return the s of each next() from when its batch was there."""
        return tuple(self._gets)

    @staticmethod
    def cpu(pins: Sequence[Pin]) -> float:
        """Return the CPU s of the thread a batch."""
        return sum(pin.cpu + pin.unpacking for pin in pins) / max(1, len(pins))

    def beside(self, pins: Sequence[Pin]) -> float:
        """Return the CPU s a batch for which the thread works in the steps, and not while the training waits."""
        if not pins or not self._all:
            return 0.0
        return self.cpu(pins) * (1 - min(1.0, self._in_waits / self._all))


def _common(one: tuple[int, int], others: Iterable[tuple[int, int]]) -> int:
    """Return for how many ns an interval and any of the others overlap."""
    return sum(max(0, min(one[1], end) - max(one[0], begin)) for begin, end in others)
